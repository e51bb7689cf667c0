"""Why a recipe is as it is: for each question, what was weighed, what was chosen, what decided.

An explanation lies beside a recipe, not in it: two recipes that decide the same are equal, however
they came to it. It is made of what a compile worked out anyway, so it costs no search of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from stages.recipe.decisions import Group, Recipe

MAX_ALTERNATIVES = 8
"""Alternatives kept of each question: the best ones, and the chosen one."""
_NEAREST = 5
_LIKE = 0.3  # of difflib's ratio: below, names have little in common


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


def group_of(recipe: Recipe, name: str) -> Group | None:
    """The group of that name, or that holds the operator, or the maker of the value, of that name
    (`%` before it or not); None where the recipe knows no such name."""
    owner = _owners(recipe).get(name.removeprefix("%"))
    return None if owner is None else owner[1]


def reasons_of(recipe: Recipe, explanation: Iterable[Weighed], name: str) -> tuple[Weighed, ...]:
    """What was weighed for an operator, a group, or the maker of a value: about itself, then about
    the group that holds it, then about the recipe as a whole. Empty where the recipe knows no such
    name."""
    owner = _owners(recipe).get(name.removeprefix("%"))
    if owner is None:
        return ()
    operator, group = owner
    subjects = dict.fromkeys((operator, group.name, *group.operators, ""))
    items = tuple(explanation)
    return tuple(item for subject in subjects for item in items if item.subject == subject)


def nearest_names(recipe: Recipe, name: str) -> Sequence[str]:
    """The names of operators, groups and values that look most like one that isn't known."""
    known = sorted(_owners(recipe))
    wanted = name.removeprefix("%")
    found = get_close_matches(wanted, known, n=_NEAREST, cutoff=_LIKE)
    return found or [item for item in known if wanted.lower() in item.lower()][:_NEAREST]


def _owners(recipe: Recipe) -> dict[str, tuple[str, Group]]:
    """For each name that a person may ask for: the operator, and the group that holds it."""
    holders = {name: group for group in recipe.groups for name in group.operators}
    found: dict[str, tuple[str, Group]] = {}
    for operator in recipe.graph.operators:
        for value in operator.outputs:
            found[value] = (operator.name, holders[operator.name])
    for group in recipe.groups:
        found[group.name] = (group.name, group)
    for name, group in holders.items():
        found[name] = (name, group)
    return found
