"""Give a node's operands and results other names, also where its subgraphs capture them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from onnx import AttributeProto, GraphProto, NodeProto


def renamed_node(node: NodeProto, names: Mapping[str, str], taken: Collection[str]) -> NodeProto:
    """A copy of the node with the names of outer values replaced.

    Values that its subgraphs define under a name in `taken` get another one: ONNX lets no value
    hide another.
    """
    copy = NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names, taken)
    copy.output[:] = [names.get(name, name) for name in node.output]
    return copy


def _rename(node: NodeProto, names: Mapping[str, str], taken: Collection[str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    for graph in _subgraphs(node):
        own = _own_names(graph)
        inside = {old: new for old, new in names.items() if old not in own}
        for name in sorted(own & set(taken)):
            inside[name] = _free_name(name, own.union(taken))
        for named in (*graph.input, *graph.initializer, *graph.output):
            named.name = inside.get(named.name, named.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = inside.get(sparse.values.name, sparse.values.name)
        for inner in graph.node:
            _rename(inner, inside, taken)
            inner.output[:] = [inside.get(name, name) for name in inner.output]


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def _own_names(graph: GraphProto) -> set[str]:
    names = {value.name for value in graph.input}
    names |= {tensor.name for tensor in graph.initializer}
    names |= {sparse.values.name for sparse in graph.sparse_initializer}
    return names.union(*(set(node.output) for node in graph.node)) - {""}


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
