"""The reference interpreter: a whole graph, one operator at a time, no hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from stages.errors import InputError
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics.evaluation import evaluate, rounded
from stages.tensors import Array

HostCall = Callable[[Operator, Sequence[Array | None]], Sequence[Array]]


def interpret(
    graph: Graph,
    constants: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *,
    host_call: HostCall | None = None,
    keep: Collection[str] = (),
) -> dict[str, Array]:
    """The graph's outputs, and the values named in `keep`, by name.

    Every value is rounded to its declared type. `host_call` runs the operators of that kind.

    Raises:
        InputError: an input is missing or has another shape or type than declared, or the graph
            holds a `host_call` and nothing to run it is given.
    """
    values: dict[str, Array] = {name: constants[name] for name in graph.constants}
    for name in graph.inputs:
        values[name] = _checked_input(graph, inputs, name)
    wanted = {*graph.outputs, *keep}
    readers = Counter(name for operator in graph.operators for name in operator.operands)
    for operator in graph.operators:
        operands = [values[name] if name else None for name in operator.inputs]
        types = [graph.types[name] for name in operator.outputs]
        if operator.kind is Kind.HOST_CALL:
            results = _host_results(operator, operands, host_call)
        else:
            results = evaluate(operator, operands, types)
        for name, result, type_ in zip(operator.outputs, results, types, strict=True):
            if readers[name] or name in wanted:
                values[name] = rounded(result, type_)
        for name in operator.operands:
            readers[name] -= 1
            if not readers[name] and name not in wanted:
                values.pop(name, None)
    return {name: values[name] for name in (*graph.outputs, *keep)}


def _checked_input(graph: Graph, inputs: Mapping[str, Array], name: str) -> Array:
    declared = graph.types[name]
    if name not in inputs:
        raise InputError(
            f"input {name!r} is missing",
            where=f"graph {graph.name!r}",
            hint=f"give an array of type {declared}",
        )
    array = inputs[name]
    if array.shape != declared.shape or array.dtype != declared.dtype.numpy:
        raise InputError(
            f"input {name!r} is {array.dtype}{list(array.shape)}, declared as {declared}",
            where=f"graph {graph.name!r}",
            hint="give an array of the declared type and shape",
        )
    return array


def _host_results(
    operator: Operator, operands: Sequence[Array | None], host_call: HostCall | None
) -> Sequence[Array]:
    if host_call is None:
        raise InputError(
            f"operator {operator.name!r} runs on the host, and no host is given",
            where=f"operator {operator.name!r}",
            hint="pass `host_call`",
        )
    return host_call(operator, operands)
