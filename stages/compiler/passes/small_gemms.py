"""GEMMs that don't fill the array take another form where the cost model says that it is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.small_gemms.dots import has_one_row, macs, to_dots
from stages.compiler.small_gemms.regroup import regroup, widths
from stages.compiler.small_gemms.siblings import Sibling, families, feeders_of, merge, tail_of
from stages.compiler.small_gemms.weighing import Weigher
from stages.compiler.support import device_type, engine_of
from stages.compiler.trial_result import Trial
from stages.hardware.cost import contraction_cycles, vector_cycles
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType

_QUESTION = "small_gemm"
_WORTH_IT = 0.995
"""What another form may cost of the present one: less is no reason for a change."""
_WORTH_MERGING = 0.9
"""The same of siblings merged, by prices alone: products that fill the array gain little, and lose
what ran beside them."""
_WORTH_TRYING = 0.7
"""What wider groups may cost the array of the present cycles, so that they are tried at all."""


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
        weighing = _Weighing(spec, Weigher(spec))
        for step in (weighing.siblings, weighing.groups, weighing.dots):
            draft = step(draft)
        return draft.with_weighed(weighing.weighed).with_notes(weighing.notes)


@dataclass(slots=True)
class _Weighing:
    spec: HardwareSpec
    weigher: Weigher
    weighed: list[Weighed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def siblings(self, draft: Draft) -> Draft:
        """Merge what reads one operand."""
        editor = GraphEditor(draft)
        for family in list(families(editor)):
            apart = [op for item in family for op in item.members]
            trial = GraphEditor(draft)
            joined = merge(family, trial)
            forms = {
                "separate": _serial(self.weigher.cycles(apart, editor)),
                "merged": _serial(self.weigher.cycles(joined, trial))
                if self._stays_as_near(family, editor)
                else None,
            }
            widths = " + ".join(str(item.width) for item in family)
            names = [item.seed.name for item in family]
            if self._settle(names, forms, f"n = {widths}", _WORTH_MERGING) == "merged":
                merge(family, editor)
        return editor.finish()

    def _stays_as_near(self, family: Sequence[Sibling], editor: GraphEditor) -> bool:
        """Whether the joined result may stay in the SRAM if a sibling's may: one that has to go
        out to the DDR and back costs more than the array gains."""
        room = self.spec.sram.usable_bytes // 2
        sizes = [device_type(editor.types[item.result], self.spec).size_bytes for item in family]
        return sum(sizes) <= room or min(sizes) > room

    def groups(self, draft: Draft) -> Draft:
        """Widen the groups of convolutions."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            choices = self._promising(operator, editor)
            if not choices:
                continue
            forms = {"as they are": self.weigher.trial(_members(operator, editor), editor)}
            wide = {}
            for together in choices:
                trial = GraphEditor(draft)
                members = _members(regroup(operator, together, trial), trial)
                forms[f"{together} as one"] = self.weigher.trial(members, trial)
                wide[f"{together} as one"] = together
            remark = f"of {operator.integer('group')} groups"
            taken = self._settle([operator.name], forms, remark)
            if taken in wide:
                regroup(operator, wide[taken], editor)
        return editor.finish()

    def dots(self, draft: Draft) -> Draft:
        """Products of one row on the vector unit."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            if not self._is_slow_row(operator, editor):
                continue
            tail = _tail(operator, editor)
            trial = GraphEditor(draft)
            made = to_dots(operator, tail, trial)
            forms = {
                "array": self.weigher.trial(_members(operator, editor), editor),
                "vector": self.weigher.trial(made, trial),
            }
            if self._settle([operator.name], forms, "a product of one row") == "vector":
                to_dots(operator, tail, editor)
        return editor.finish()

    def _promising(self, operator: Operator, editor: GraphEditor) -> list[int]:
        """The widths of groups that would spare the array cycles, the best first; at most two."""
        found = list(widths(operator, editor))
        if not found or engine_of(operator, self.spec) is not Engine.TENSOR_CORE:
            return []
        if self._multiplied(operator, editor) not in self.spec.tensor_core.macs_per_cycle:
            return []
        present = self._array_cycles(operator, editor)
        costs = {together: self._array_cycles(operator, editor, together) for together in found}
        better = [item for item in found if costs[item] < present * _WORTH_TRYING]
        return sorted(better, key=costs.__getitem__)[:2]

    def _array_cycles(self, operator: Operator, editor: GraphEditor, together: int = 1) -> int:
        """Cycles of a whole contraction on the array, with so many of its groups as one."""
        from stages.compiler.tiling.workload import product_of

        names = (operator.outputs[0], *operator.inputs[:2])
        product = product_of(operator, *(editor.types[name].shape for name in names))
        return contraction_cycles(
            self.spec.tensor_core,
            product.m,
            product.n * together,
            product.k * together,
            product.groups // together,
            product.taps,
            self._multiplied(operator, editor),
        )

    def _is_slow_row(self, operator: Operator, editor: GraphEditor) -> bool:
        """Whether the vector unit alone would do a product of one row before the array."""
        if not has_one_row(operator, editor):
            return False
        if engine_of(operator, self.spec) is not Engine.TENSOR_CORE:
            return False
        count, dtype = macs(operator, editor), self._multiplied(operator, editor)
        if dtype not in self.spec.tensor_core.macs_per_cycle or not count:
            return False
        array = self._array_cycles(operator, editor)
        kinds = (Kind.MUL, Kind.REDUCE_SUM)
        return vector_cycles(self.spec.vector, kinds, count, dtype.size_bytes) < array

    def _multiplied(self, operator: Operator, editor: GraphEditor) -> DType:
        """The type in which the array would multiply: that before any dequantize."""
        producer = editor.producer(operator.inputs[0])
        if producer is not None and producer.kind is Kind.DEQUANTIZE:
            return DType.I8 if editor.types[producer.inputs[0]].dtype.size_bytes == 1 else DType.I16
        held = editor.types[operator.inputs[0]].dtype
        return self.spec.float_dtype or held if held.is_float else held

    def _settle(
        self,
        names: Sequence[str],
        forms: Mapping[str, Trial | None],
        remark: str,
        share: float = _WORTH_IT,
    ) -> str:
        """Take the cheapest form that gives the host nothing more to do; the present one, which is
        the first, where no other is clearly cheaper."""
        (present, own), *others = forms.items()
        if own is None:
            return present
        open_ones = {
            name: item.cycles
            for name, item in others
            if item is not None and item.host_operators <= own.host_operators
        }
        taken = min(open_ones, key=open_ones.__getitem__, default=present)
        if taken != present and open_ones[taken] >= own.cycles * share:
            taken = present
        alternatives = [Alternative(present, own.cycles)]
        for name, item in others:
            cost = None if item is None else item.cycles
            remark_of = "" if name in open_ones else "leaves more to the host, or doesn't fit"
            alternatives.append(Alternative(name, cost, remark_of))
        bound = f"{remark}: cycles of them, and of what is around them where it was tried"
        self.weighed.append(Weighed(names[0], _QUESTION, tuple(alternatives), taken, bound))
        if taken != present:
            self.notes.append(f"{', '.join(names)}: {taken}, {remark}")
        return taken


def _serial(cycles: int | None) -> Trial | None:
    return None if cycles is None else Trial(cycles, 0)


def _tail(operator: Operator, editor: GraphEditor) -> list[Operator]:
    followers, quantize = tail_of(operator, editor)
    return [*followers, *([quantize] if quantize is not None else [])]


def _members(operator: Operator, editor: GraphEditor) -> list[Operator]:
    return [*feeders_of(operator, editor), operator, *_tail(operator, editor)]
