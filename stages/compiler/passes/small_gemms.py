"""GEMMs that don't fill the array take another form where the cost model says that it is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.group_prices import GroupPrices, structure
from stages.compiler.small_gemms.siblings import Sibling, families, merge
from stages.compiler.support import engine_of
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Engine
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind

_QUESTION = "small_gemm"
_WORTH_IT = 0.98
"""What another form may cost of the present one: an estimate is no better than this."""


@dataclass(frozen=True, slots=True)
class SmallGemms:
    """Siblings become one contraction: the operand is read once, the array is filled better.

    Runs on the finished arithmetic, quantisation included, before groups are made.
    """

    name: str = "small_gemms"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Weigh each form of each small GEMM, and take the cheapest."""
        return _Weighing(draft, spec).run()


@dataclass(slots=True)
class _Weighing:
    draft: Draft
    spec: HardwareSpec
    prices: GroupPrices = field(init=False)
    decided: dict[object, tuple[int | None, int | None]] = field(default_factory=dict)
    weighed: list[Weighed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prices = GroupPrices(self.spec)

    def run(self) -> Draft:
        draft = self._merge_siblings(self.draft)
        return draft.with_weighed(self.weighed).with_notes(self.notes)

    def _merge_siblings(self, draft: Draft) -> Draft:
        editor = GraphEditor(draft)
        for family in list(families(editor)):
            apart, joined = self._compared(family, draft, editor)
            if apart is None and joined is None:
                continue
            taken = joined is not None and (apart is None or joined < apart * _WORTH_IT)
            self._note(family, apart, joined, taken)
            if taken:
                merge(family, editor)
        return editor.finish()

    def _compared(
        self, family: Sequence[Sibling], draft: Draft, editor: GraphEditor
    ) -> tuple[int | None, int | None]:
        """Cycles of a family apart and as one; layers that repeat are compared once."""
        constants = frozenset(editor.constants)
        key = tuple(_likeness(item, editor, constants) for item in family)
        if key not in self.decided:
            trial = GraphEditor(draft)
            joined = self._sum(merge(family, trial), trial)
            self.decided[key] = self._sum([item.members for item in family], editor), joined
        return self.decided[key]

    def _sum(self, groups: Sequence[Sequence[Operator]], editor: GraphEditor) -> int | None:
        """Cycles of groups, one after the other; None where one can't run on the device."""
        constants = frozenset(editor.constants)
        found = [
            self.prices.cycles(group, editor.types, constants, self._engine(group, editor))
            for group in groups
        ]
        costs = [cost for cost in found if cost is not None]
        return sum(costs) if len(costs) == len(found) else None

    def _engine(self, group: Sequence[Operator], editor: GraphEditor) -> Engine | None:
        """None, the view, for a slice that only groups of the device read."""
        if group[0].kind is not Kind.SLICE or group[0].outputs[0] in editor.outputs:
            return None
        readers = [editor.operators[name] for name in editor.readers[group[0].outputs[0]]]
        on_host = any(engine_of(reader, self.spec) is Engine.HOST for reader in readers)
        return None if on_host else Engine.NONE

    def _note(
        self, family: Sequence[Sibling], apart: int | None, joined: int | None, taken: bool
    ) -> None:
        names = ", ".join(item.seed.name for item in family)
        widths = " + ".join(str(item.width) for item in family)
        alternatives = (
            Alternative("separate", apart, f"{len(family)} groups"),
            Alternative("merged", joined, f"n = {widths}, a slice for each"),
        )
        subject = f"{family[0].seed.name}.siblings" if taken else family[0].seed.name
        self.weighed.append(
            Weighed(
                subject,
                _QUESTION,
                alternatives,
                "merged" if taken else "separate",
                f"{names} read one operand; cycles of their groups, one after the other",
            )
        )
        if taken:
            self.notes.append(f"{names} are one contraction of n = {widths}")


def _likeness(item: Sibling, editor: GraphEditor, constants: frozenset[str]) -> object:
    values = dict.fromkeys(value for op in item.members for value in (*op.operands, *op.outputs))
    types = {value: editor.types[value] for value in values}
    return structure(item.members, types, constants)
