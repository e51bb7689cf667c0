"""GEMMs that don't fill the array take another form where the cost model says that it is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.group_prices import GroupPrices
from stages.compiler.small_gemms.dots import has_one_row, macs, to_dots
from stages.compiler.small_gemms.regroup import regroup, widths
from stages.compiler.small_gemms.siblings import Sibling, families, feeders_of, merge, tail_of
from stages.compiler.small_gemms.weighing import Weigher
from stages.compiler.support import engine_of
from stages.hardware.cost import contraction_cycles, vector_cycles
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

_QUESTION = "small_gemm"
_WORTH_IT = 0.98
"""What another form may cost of the present one: an estimate is no better than this."""


@dataclass(frozen=True, slots=True)
class SmallGemms:
    """Siblings become one contraction: their operand is read once, and the array is filled better.
    Narrow groups of a convolution become wider ones with a mask. A product of one row becomes a
    dot product of the vector unit.

    Runs on the finished arithmetic, quantisation included, before groups are made.
    """

    name: str = "small_gemms"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Weigh each form of each small GEMM, and take the cheapest."""
        weighing = _Weighing(spec, Weigher(spec, GroupPrices(spec)))
        for step in (weighing.siblings, weighing.groups, weighing.dots):
            draft = step(draft)
        return draft.with_weighed(weighing.weighed).with_notes(weighing.notes)


@dataclass(slots=True)
class _Weighing:
    spec: HardwareSpec
    weigher: Weigher
    decided: dict[object, tuple[tuple[str, int | None], ...]] = field(default_factory=dict)
    weighed: list[Weighed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def siblings(self, draft: Draft) -> Draft:
        """Merge what reads one operand."""
        editor = GraphEditor(draft)
        for family in list(families(editor)):
            key = tuple(self.weigher.likeness(item.members, editor) for item in family)
            if key not in self.decided:
                trial = GraphEditor(draft)
                joined = [op for group in merge(family, trial) for op in group]
                apart = [op for item in family for op in item.members]
                self.decided[key] = (
                    ("separate", self.weigher.cycles(apart, editor)),
                    ("merged", self.weigher.cycles(joined, trial)),
                )
            if self._settle(_names(family), self.decided[key], _merging(family)) == "merged":
                merge(family, editor)
        return editor.finish()

    def groups(self, draft: Draft) -> Draft:
        """Widen the groups of convolutions."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            choices = self._promising(operator, editor)
            if not choices:
                continue
            members = _members(operator, editor)
            key = "groups", self.weigher.likeness(members, editor)
            if key not in self.decided:
                found = [("as they are", self.weigher.cycles(members, editor))]
                for together in choices:
                    trial = GraphEditor(draft)
                    wider = regroup(operator, together, trial)
                    cost = self.weigher.cycles(_members(wider, trial), trial)
                    found.append((f"{together} as one", cost))
                self.decided[key] = tuple(found)
            groups = operator.integer("group")
            taken = self._settle([operator.name], self.decided[key], f"of {groups} groups")
            if taken != "as they are":
                regroup(operator, int(taken.split()[0]), editor)
        return editor.finish()

    def dots(self, draft: Draft) -> Draft:
        """Products of one row on the vector unit."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if operator.name not in editor.operators or not self._is_slow_row(operator, editor):
                continue
            operator = editor.operators[operator.name]
            members = _members(operator, editor)
            key = "dots", self.weigher.likeness(members, editor)
            tail = _tail(operator, editor)
            if key not in self.decided:
                trial = GraphEditor(draft)
                made = to_dots(operator, tail, trial)
                self.decided[key] = (
                    ("array", self.weigher.cycles(members, editor)),
                    ("vector", self.weigher.cycles(_with_feeders(made, trial), trial)),
                )
            if self._settle([operator.name], self.decided[key], "one row") == "vector":
                to_dots(operator, tail, editor)
        return editor.finish()

    def _promising(self, operator: Operator, editor: GraphEditor) -> list[int]:
        """The widths of groups that would spare the array cycles, the best first; at most two."""
        found = list(widths(operator, editor))
        if not found or engine_of(operator, self.spec) is not Engine.TENSOR_CORE:
            return []
        if self._multiplied(operator, editor) not in self.spec.tensor_core.macs_per_cycle:
            return []
        present = self._array_cycles(operator, 1, editor)
        costs = {together: self._array_cycles(operator, together, editor) for together in found}
        better = [item for item in found if costs[item] < present * _WORTH_IT]
        return sorted(better, key=costs.__getitem__)[:2]

    def _array_cycles(self, operator: Operator, together: int, editor: GraphEditor) -> int:
        """Cycles of a whole grouped convolution on the array."""
        result, weights = (
            editor.types[value].shape for value in (operator.outputs[0], operator.inputs[1])
        )
        groups, taps = operator.integer("group") // together, prod(weights[2:])
        return contraction_cycles(
            self.spec.tensor_core,
            result[0] * prod(result[2:]),
            result[1] // groups,
            taps * weights[1] * together,
            groups,
            taps,
            self._multiplied(operator, editor),
        )

    def _is_slow_row(self, operator: Operator, editor: GraphEditor) -> bool:
        """Whether the vector unit alone would do a product of one row before the array."""
        if operator.kind not in (Kind.MATMUL, Kind.CONV) or not has_one_row(operator, editor):
            return False
        if engine_of(operator, self.spec) is not Engine.TENSOR_CORE:
            return False
        count, dtype = macs(operator, editor), self._multiplied(operator, editor)
        if dtype not in self.spec.tensor_core.macs_per_cycle or not count:
            return False
        array = self._row_cycles(operator, dtype, editor)
        kinds = (Kind.MUL, Kind.REDUCE_SUM)
        return vector_cycles(self.spec.vector, kinds, count, dtype.size_bytes) < array

    def _row_cycles(self, operator: Operator, dtype: DType, editor: GraphEditor) -> int:
        a, b = (editor.types[value].shape for value in operator.inputs[:2])
        if operator.kind is Kind.CONV:
            m, n, k, groups = 1, b[0], b[1], 1
        else:
            result = editor.types[operator.outputs[0]].shape
            m, n, k, groups = a[-2], b[-1], a[-1], prod(result[:-2])
            if prod(b[:-2]) == 1:
                m, groups = m * groups, 1
        return contraction_cycles(self.spec.tensor_core, m, n, k, groups, 1, dtype)

    def _multiplied(self, operator: Operator, editor: GraphEditor) -> DType:
        """The type in which the array would multiply: that before any dequantize."""
        producer = editor.producer(operator.inputs[0])
        if producer is not None and producer.kind is Kind.DEQUANTIZE:
            return DType.I8 if editor.types[producer.inputs[0]].dtype.size_bytes == 1 else DType.I16
        held = editor.types[operator.inputs[0]].dtype
        return self.spec.float_dtype or held if held.is_float else held

    def _settle(
        self, names: Sequence[str], found: Sequence[tuple[str, int | None]], remark: str
    ) -> str:
        """Take the cheapest form, the present one (the first) where no other is clearly cheaper."""
        (present, cost), *others = found
        open_ones = [(price, name) for name, price in others if price is not None]
        best, name = min(open_ones, default=(0, present))
        if cost is not None and best >= cost * _WORTH_IT:
            name = present
        if len(open_ones) or cost is not None:
            alternatives = tuple(Alternative(word, price) for word, price in found)
            bound = f"{remark}: cycles of their groups, one after the other"
            self.weighed.append(Weighed(names[0], _QUESTION, alternatives, name, bound))
        if name != present:
            self.notes.append(f"{', '.join(names)}: {name}, {remark}")
        return name


def _names(family: Sequence[Sibling]) -> list[str]:
    return [item.seed.name for item in family]


def _merging(family: Sequence[Sibling]) -> str:
    return f"n = {' + '.join(str(item.width) for item in family)}"


def _tail(operator: Operator, editor: GraphEditor) -> list[Operator]:
    followers, quantize = tail_of(operator, editor)
    return [*followers, *([quantize] if quantize is not None else [])]


def _members(operator: Operator, editor: GraphEditor) -> list[Operator]:
    return [*feeders_of(operator, editor), operator, *_tail(operator, editor)]


def _with_feeders(operators: Sequence[Operator], editor: GraphEditor) -> list[Operator]:
    """Operators with the dequantizes that they read."""
    found = {op.name: op for each in operators for op in feeders_of(each, editor)}
    return list({**found, **{op.name: op for op in operators}}.values())
