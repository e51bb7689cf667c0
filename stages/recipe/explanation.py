"""Why a recipe is as it is: for each question, what was weighed, what was chosen, what decided.

An explanation lies beside a recipe, not in it: two recipes that decide the same are equal, however
they came to it. It is made of what a compile worked out anyway, so it costs no search of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from stages.recipe.decisions import Recipe

MAX_ALTERNATIVES = 8
"""Alternatives kept of each question: the best ones, and the chosen one."""
_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to answer a question, and what it would cost.

    `cost_cycles` is in cycles of the device's clock, as the cost model tells; None where the way
    isn't open at all, or has no price: `remark` says why.
    """

    name: str
    cost_cycles: int | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One decision: `subject` is the operator or the group that it is about (empty: the recipe as
    a whole), `question` what was asked (`tile`, `layout`, `engine`, ...), `chosen` the answer (the
    name of an alternative, where there were several), `bound` what decided, in words."""

    subject: str
    question: str
    alternatives: tuple[Alternative, ...]
    chosen: str
    bound: str

    def bounded(self) -> Weighed:
        """The same, with at most `MAX_ALTERNATIVES`: the first ones, and the chosen one."""
        if len(self.alternatives) <= MAX_ALTERNATIVES:
            return self
        kept = self.alternatives[:MAX_ALTERNATIVES]
        chosen = [item for item in self.alternatives if item.name == self.chosen][:1]
        if chosen and chosen[0] not in kept:
            kept = (*kept[:-1], chosen[0])
        return replace(self, alternatives=kept)


def reasons_of(
    recipe: Recipe, explanation: Iterable[Weighed], name: str
) -> tuple[Weighed, ...] | None:
    """What was weighed for an operator, a group, or the maker of a value: about itself, then about
    the group that holds it. None where the recipe knows no such name."""
    owner = _owners(recipe).get(name.removeprefix("%"))
    if owner is None:
        return None
    operator, group = owner
    subjects = dict.fromkeys((operator, group))
    items = tuple(explanation)
    return tuple(item for subject in subjects for item in items if item.subject == subject)


def nearest_names(recipe: Recipe, name: str) -> Sequence[str]:
    """The names of operators, groups and values that look most like one that isn't known."""
    return get_close_matches(name.removeprefix("%"), _owners(recipe), n=_NEAREST, cutoff=0.0)


def _owners(recipe: Recipe) -> dict[str, tuple[str, str]]:
    """For each name that a person may ask for: the operator, and the group that holds it."""
    groups = {name: group.name for group in recipe.groups for name in group.operators}
    found: dict[str, tuple[str, str]] = {}
    for group in recipe.groups:
        found[group.name] = (group.name, group.name)
    for operator in recipe.graph.operators:
        for value in operator.outputs:
            found[value] = (operator.name, groups[operator.name])
    for name, group_name in groups.items():
        found[name] = (name, group_name)
    return found
