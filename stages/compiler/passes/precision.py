"""Element types: the device computes floats in its fastest float, the host in the model's own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stages.compiler.draft import Draft, fresh_name
from stages.compiler.support import (
    POINTWISE,
    device_dtype,
    engine_of,
    refusal,
)
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine, Group
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import Array, DType, TensorType

_SCALARS = 1
_SMALL = 16  # a parameter has at most a sixteenth of the elements that it acts on
_F16_MAX = 65504.0
_F16_STAND_IN = 32768.0


@dataclass(frozen=True, slots=True)
class Precision:
    """Gives every value its type on its engine, and puts casts where engines meet.

    A cast between device and host joins the host's group; one at a model input or output is a
    group of the device's, where the device can cast. Constants beyond the range of f16 become
    +-32768 (so that a sum with them stays finite), and a note says so.
    """

    name: str = "precision"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Retype the graph group by group."""
        return _Retyping(draft, spec).run()


@dataclass(slots=True)
class _Retyping:
    draft: Draft
    spec: HardwareSpec
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    casts: dict[tuple[str, DType], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    weighed: list[Weighed] = field(default_factory=list)

    def run(self) -> Draft:
        graph = self.draft.graph
        by_name = {op.name: op for op in graph.operators}
        self.types = {name: graph.types[name] for name in (*graph.inputs, *graph.constants)}
        self.constants = dict(self.draft.constants)
        for group in self.draft.recipe.groups:
            self._group(group, [by_name[name] for name in group.operators])
        for output in graph.outputs:
            self._restore_output(output, graph.types[output])
        return self._finish(graph)

    def _group(self, group: Group, members: list[Operator]) -> None:
        inside = {value for member in members for value in member.outputs}
        retyped = []
        for member in members:
            inputs = tuple(
                name if not name or name in inside else self._operand(name, member, group)
                for name in member.inputs
            )
            retyped.append(replace(member, inputs=inputs))
        for member in retyped:
            self._result_types(member, group)
        names = list(group.operators)
        if group.engine is Engine.HOST:
            names = self._with_host_casts(retyped)
        self.operators.update((member.name, member) for member in retyped)
        self.groups.append(replace(group, operators=tuple(names)))
        self._explain(group, retyped)

    def _explain(self, group: Group, members: list[Operator]) -> None:
        """Keep why a group's result has another type than the model gave it."""
        value = members[-1].outputs[0]
        own, chosen = self.draft.graph.types[value].dtype, self.types[value].dtype
        if own is chosen:
            return
        bound = f"{chosen} is the float in which {self.spec.name} computes fastest"
        alternatives = (
            Alternative(str(chosen), None),
            Alternative(str(own), None, "the model's own; only the host computes in it"),
        )
        self.weighed.append(Weighed(group.name, "precision", alternatives, str(chosen), bound))

    def _operand(self, value: str, member: Operator, group: Group) -> str:
        """The name under which a group reads a value in the type that it wants."""
        current = self.types[value]
        wanted = self._wanted(value, member, group)
        if wanted is current.dtype:
            return value
        key = (value, wanted)
        if key not in self.casts:
            if value in self.constants:
                self.casts[key] = self._cast_constant(value, wanted)
            elif group.engine is Engine.HOST:
                return self._cast(value, wanted, f"{group.name}.")
            else:
                self.casts[key] = self._cast(value, wanted, "")
                self._cast_group(self.casts[key])
        return self.casts[key]

    def _wanted(self, value: str, member: Operator, group: Group) -> DType:
        current = self.types[value].dtype
        if group.engine is Engine.NONE or not current.is_float:
            return current
        if group.engine is Engine.HOST:
            return self.draft.graph.types[value].dtype
        if value in _parameters(member):
            return current
        casts = self.spec.operators.get(Kind.CAST)
        if member.kind is Kind.CAST and casts is not None and current in casts.dtypes:
            return current
        if member.kind is Kind.QUANTIZE and self._takes(group, current):
            return current
        if value in self.constants and self._is_parameter(value, member):
            return DType.F32 if current is DType.F64 else current
        return device_dtype(current, self.spec)

    def _is_parameter(self, value: str, member: Operator) -> bool:
        """Whether a constant is small beside what it acts on: biases, scales, shifts and numbers
        enter at the precision of the accumulator, so nothing is gained by rounding them."""
        count = self.types[value].element_count
        result = self.draft.graph.types[member.outputs[0]].element_count
        if member.kind in CONTRACTIONS:
            return value not in member.inputs[:2] and count <= max(_SCALARS, result // _SMALL)
        if member.kind in (Kind.LAYER_NORM, Kind.INSTANCE_NORM):
            return value in member.inputs[1:]
        pointwise = member.kind in POINTWISE - {Kind.WHERE} and value != member.inputs[0]
        return pointwise and count <= max(_SCALARS, result // _SMALL)

    def _takes(self, group: Group, dtype: DType) -> bool:
        """Whether a group that begins with a quantize reads this type as it is."""
        seed = next(op for op in self.draft.graph.operators if op.name == group.operators[0])
        listed = self.spec.operators.get(seed.kind)
        return seed.kind is Kind.QUANTIZE and listed is not None and dtype in listed.dtypes

    def _result_types(self, member: Operator, group: Group) -> None:
        for value in member.outputs:
            declared = self.draft.graph.types[value]
            if group.engine is Engine.NONE:
                declared = TensorType(self.types[member.inputs[0]].dtype, declared.shape)
            elif group.engine is not Engine.HOST:
                dtype = device_dtype(declared.dtype, self.spec)
                declared = TensorType(dtype, declared.shape)
            self.types[value] = declared

    def _cast_constant(self, value: str, dtype: DType) -> str:
        data = self.constants[value]
        if dtype is DType.F16:
            data = self._within_f16(value, data)
        name = self._fresh(f"{value}.{dtype}")
        self.constants[name] = data.astype(dtype.numpy)
        self.types[name] = TensorType(dtype, data.shape)
        return name

    def _within_f16(self, value: str, data: Array) -> Array:
        if data.size and max(float(np.max(data)), -float(np.min(data))) <= _F16_MAX:
            return data
        data = np.asarray(data, np.float64)
        beyond = np.isfinite(data) & (np.abs(data) > _F16_MAX)
        if not beyond.any():
            return data
        self.notes.append(f"constant {value}: {int(beyond.sum())} elements beyond f16 became 32768")
        return np.where(beyond, np.copysign(_F16_STAND_IN, data), data)

    def _cast(self, value: str, dtype: DType, prefix: str) -> str:
        result = self._fresh(f"{prefix}{value}.{dtype}")
        self.types[result] = TensorType(dtype, self.types[value].shape)
        name = self._fresh_operator(f"cast.{result}")
        self.operators[name] = Operator(name, Kind.CAST, (value,), (result,))
        return result

    def _cast_group(self, result: str) -> None:
        operator = next(op for op in self.operators.values() if result in op.outputs)
        types = [self.types[operator.inputs[0]]]
        reason = refusal(operator, types, self.types[result], self.spec)
        engine = Engine.HOST if reason else engine_of(operator, self.spec)
        self.groups.append(Group(operator.name, (operator.name,), engine, reason))

    def _with_host_casts(self, members: list[Operator]) -> list[str]:
        """The names of a host group's operators, its casts before their readers."""
        makers = {value: op for op in self.operators.values() for value in op.outputs}
        names: list[str] = []
        grouped = {name for group in self.groups for name in group.operators}
        for member in members:
            for value in member.operands:
                maker = makers.get(value)
                if maker is not None and maker.name not in grouped and maker.name not in names:
                    names.append(maker.name)
            names.append(member.name)
        return names

    def _restore_output(self, output: str, declared: TensorType) -> None:
        """Model outputs keep their names and types."""
        if self.types[output] == declared:
            return
        inner = self._fresh(f"{output}.{self.types[output].dtype}")
        self.types[inner] = self.types[output]
        self.types[output] = declared
        for name, operator in self.operators.items():
            self.operators[name] = replace(
                operator,
                inputs=tuple(inner if value == output else value for value in operator.inputs),
                outputs=tuple(inner if value == output else value for value in operator.outputs),
            )
        name = self._fresh_operator(f"cast.{output}")
        self.operators[name] = Operator(name, Kind.CAST, (inner,), (output,))
        self._cast_group(output)

    def _finish(self, graph: Graph) -> Draft:
        operators = tuple(self.operators[name] for group in self.groups for name in group.operators)
        read = {value for op in operators for value in op.operands} | set(graph.outputs)
        constants = {name: data for name, data in self.constants.items() if name in read}
        kept = read | {value for op in operators for value in op.outputs} | set(graph.inputs)
        types = {name: item for name, item in self.types.items() if name in kept}
        retyped = replace(graph, constants=tuple(constants), types=types, operators=operators)
        recipe = replace(self.draft.recipe, graph=retyped, groups=tuple(self.groups))
        retyped_draft = replace(self.draft, recipe=recipe, constants=constants)
        return retyped_draft.with_notes(self.notes).with_weighed(self.weighed)

    def _fresh(self, stem: str) -> str:
        return fresh_name(stem, self.types, self.draft.graph.types)

    def _fresh_operator(self, stem: str) -> str:
        taken = {op.name for op in self.draft.graph.operators}
        return fresh_name(stem, self.operators, taken)


def _parameters(member: Operator) -> tuple[str, ...]:
    """Scales and zero points stay as the model gives them."""
    return member.inputs[1:] if member.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE) else ()
