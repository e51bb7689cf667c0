"""What a recipe would compute, without tiles and addresses: how a quantisation is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from stages.compiler.draft import Draft, first_draft
from stages.compiler.pipeline import rewrites
from stages.compiler.quantization import Quantization
from stages.hardware.spec import HardwareSpec
from stages.normalizer.reference import OnnxRuntimeReference
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_export.host_node import host_call_model, words
from stages.recipe.semantics import evaluate, rounded
from stages.tensors import Array, DType, TensorType

_ROUNDS = frozenset({Kind.CAST, Kind.QUANTIZE})

Key = bytes


@dataclass(slots=True)
class Remembered:
    """Values of one sample by what they were computed from, so that the trials of a ranking
    compute only what differs. Filled by the first trial that it is given to."""

    values: dict[Key, Array] = field(default_factory=dict)
    is_full: bool = False


class Trial:
    """A recipe's numbers: what is stored is rounded, what stays within a group isn't.

    Integer contractions are computed in float32 on what the integers mean, where the device has
    exact sums: the two differ by less than a step, and seldom by one.
    """

    def __init__(
        self,
        graph: Graph,
        constants: Mapping[str, Array],
        spec: HardwareSpec,
        quantization: Quantization,
        sample: Mapping[str, Array] | None,
    ) -> None:
        """`sample` is the one that the compiler corrects biases with.

        Raises:
            CompileError: a pass refuses.
        """
        draft = first_draft(graph, constants, spec)
        for step in rewrites(quantization, sample):  # what is decided then changes no number
            draft = step.run(draft, spec)
        self._constants = draft.constants
        self._graph = _unrounded_within_groups(draft)
        self._host = _Host(self._graph)

    def run(
        self, sample: Mapping[str, Array], remembered: Remembered | None = None
    ) -> dict[str, Array]:
        """The outputs by name; `remembered` must be of the same sample.

        Raises:
            InputError: the host fails at a node.
        """
        graph = self._graph
        values = {name: self._constants[name] for name in graph.constants}
        values |= {name: rounded(sample[name], graph.types[name]) for name in graph.inputs}
        known = remembered.values if remembered is not None else {}
        fills = remembered is not None and not remembered.is_full
        keys = self._keys() if remembered is not None else {}
        readers = Counter(name for operator in graph.operators for name in operator.operands)
        readers.update(graph.outputs)
        for operator in graph.operators:
            made = [known.get(keys.get(name, b"")) for name in operator.outputs]
            results = (
                self._computed(operator, values)
                if any(item is None for item in made)
                else [item for item in made if item is not None]
            )
            values |= zip(operator.outputs, results, strict=True)
            if fills:
                known.update((keys[name], values[name]) for name in operator.outputs)
            for name in operator.operands:
                readers[name] -= 1
                if not readers[name]:
                    values.pop(name, None)
        if remembered is not None:
            remembered.is_full = True
        return {name: values[name] for name in graph.outputs}

    def _computed(self, operator: Operator, values: Mapping[str, Array]) -> list[Array]:
        operands = [values[name] if name else None for name in operator.inputs]
        types = [self._graph.types[name] for name in operator.outputs]
        results = (
            self._host.run(operator, operands)
            if operator.kind is Kind.HOST_CALL
            else evaluate(operator, operands, types)
        )
        return [rounded(result, type_) for result, type_ in zip(results, types, strict=True)]

    def _keys(self) -> dict[str, Key]:
        """What each value is computed from, in a digest."""
        types = self._graph.types
        keys = {name: sha256(f"input {name} {types[name]}".encode()).digest()
                for name in self._graph.inputs}  # fmt: skip
        for name in self._graph.constants:
            data = self._constants[name]
            text = f"constant {data.dtype} {data.shape} ".encode()
            keys[name] = sha256(text + data.tobytes()).digest()
        for operator in self._graph.operators:
            attributes = sorted(operator.attributes.items())
            read = b"".join(keys[name] if name else b"-" for name in operator.inputs)
            for place, name in enumerate(operator.outputs):
                text = f"{operator.kind} {attributes} {place} {types[name]} ".encode()
                keys[name] = sha256(text + read).digest()
        return keys


def _unrounded_within_groups(draft: Draft) -> Graph:
    """The graph with values that never leave their group in f32, as its engine holds them."""
    graph = draft.graph
    group_of = {name: group.name for group in draft.recipe.groups for name in group.operators}
    readers = graph.consumers()
    inside = {
        value
        for operator in graph.operators
        if operator.kind not in _ROUNDS
        for value in operator.outputs
        if value not in graph.outputs
        and all(group_of[reader.name] == group_of[operator.name] for reader in readers[value])
    }
    types = {
        name: TensorType(DType.F32, type_.shape)
        if name in inside and type_.dtype in (DType.F16, DType.BF16)
        else type_
        for name, type_ in graph.types.items()
    }
    return replace(graph, types=types)


class _Host:
    """Runs the nodes that only ONNX Runtime knows; one session each."""

    def __init__(self, graph: Graph) -> None:
        self._types = graph.types
        self._sessions: dict[str, OnnxRuntimeReference] = {}

    def run(self, operator: Operator, operands: Sequence[Array | None]) -> Sequence[Array]:
        """The node's results."""
        if operator.name not in self._sessions:
            model = host_call_model(
                operator,
                [self._types[name] for name in operator.inputs],
                [self._types[name] for name in operator.outputs],
            )
            self._sessions[operator.name] = OnnxRuntimeReference(model)
        fed = {
            name: np.asarray(operand, order="C")
            for name, operand in zip(words(operator, "names"), operands, strict=True)
            if operand is not None
        }
        return list(self._sessions[operator.name].run(fed).values())


def reading_quantized(draft: Draft, quantization: Quantization) -> tuple[str, ...]:
    """The operators of the simplified graph `draft` that would read a quantised value, in order:
    those that can be left in float."""
    ranged = {
        name
        for name in quantization.ranges
        if name in draft.graph.types and draft.graph.types[name].dtype.is_float
    }
    return tuple(
        operator.name
        for operator in draft.graph.operators
        if ranged.intersection(operator.operands) and operator.name not in quantization.keep
    )
