"""An ONNX node as the translation functions see it: typed attributes and the opset it is of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from onnx import AttributeProto, GraphProto, NodeProto, helper

from stages.errors import InputError

DEFAULT_DOMAIN = ""
MICROSOFT = "com.microsoft"
_Item = TypeVar("_Item", bytes, float, int)


def canonical_domain(domain: str) -> str:
    """The default domain has two spellings; one of them is empty."""
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and the opset version of its domain. Operand names are the model's own."""

    proto: NodeProto
    version: int

    @property
    def domain(self) -> str:
        """The domain; empty for ONNX's own operators."""
        return canonical_domain(self.proto.domain)

    @property
    def title(self) -> str:
        """Domain and operator type, as messages show them."""
        return f"{self.domain}.{self.proto.op_type}" if self.domain else self.proto.op_type

    @property
    def label(self) -> str:
        """The node's name, or what can stand for it."""
        outputs = [name for name in self.proto.output if name]
        return self.proto.name or (outputs[0] if outputs else self.proto.op_type)

    def has_attribute(self, name: str) -> bool:
        """Whether the attribute is written."""
        return any(attribute.name == name for attribute in self.proto.attribute)

    def _value(self, name: str) -> object:
        for attribute in self.proto.attribute:
            if attribute.name == name:
                return helper.get_attribute_value(attribute)
        return None

    def integer(self, name: str, default: int) -> int:
        """An integer attribute.

        Raises:
            InputError: it is of another type.
        """
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, int):
            raise self._mistyped(name, value)
        return value

    def number(self, name: str, default: float) -> float:
        """A number attribute.

        Raises:
            InputError: it is of another type.
        """
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, int | float):
            raise self._mistyped(name, value)
        return float(value)

    def word(self, name: str, default: str) -> str:
        """A string attribute.

        Raises:
            InputError: it is of another type.
        """
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bytes):
            raise self._mistyped(name, value)
        return value.decode()

    def words(self, name: str) -> tuple[str, ...]:
        """A list of strings; empty where it isn't written.

        Raises:
            InputError: it is of another type.
        """
        return tuple(item.decode() for item in self._list(name, bytes) or ())

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of numbers; empty where it isn't written.

        Raises:
            InputError: it is of another type.
        """
        return tuple(self._list(name, float) or ())

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers; None where it isn't written.

        Raises:
            InputError: it is of another type.
        """
        value = self._list(name, int)
        return None if value is None else tuple(value)

    def _list(self, name: str, kind: type[_Item]) -> list[_Item] | None:
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise self._mistyped(name, value)
        return value

    def _mistyped(self, name: str, value: object) -> InputError:
        return InputError(
            f"attribute `{name}` of {self.title} has the wrong type: {value!r}",
            where=f"node {self.label}",
            hint="check the model with onnx.checker.check_model",
        )


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node holds in its attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def captured_names(node: NodeProto) -> tuple[str, ...]:
    """Outer values that the subgraphs of a node read, in order of first use."""
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        found.update(dict.fromkeys(_free_names(graph)))
    return tuple(found)


def _free_names(graph: GraphProto) -> Iterator[str]:
    bound = {value.name for value in graph.input}
    bound.update(tensor.name for tensor in graph.initializer)
    bound.update(sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        for name in (*node.input, *captured_names(node)):
            if name and name not in bound:
                yield name
        bound.update(node.output)
    for value in graph.output:
        if value.name not in bound:
            yield value.name


def operand_names(node: NodeProto) -> tuple[str, ...]:
    """Every value that a node reads, once each: its inputs, then what its subgraphs capture."""
    explicit = [name for name in node.input if name]
    return tuple(dict.fromkeys([*explicit, *captured_names(node)]))
