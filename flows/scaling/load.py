"""The load of docs/scaling.md: a fleet of models and devices, and the commits that change it.

Everything that no run of this project can tell is a field of `Assumptions`. A run-cache hit isn't
one of them: commits carry contents, and a content that was seen before is a hit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class Spread:
    """A commit changes between `fewest` and `most` models, each number as likely, with this
    share of all commits."""

    fewest: int
    most: int
    share: float


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is supposed. Shares are of one."""

    models: int = 1000
    devices: int = 20
    commits_a_day: float = 50.0
    repository_models: int = 50
    spreads: tuple[Spread, ...] = (
        Spread(1, 1, 0.70),
        Spread(2, 3, 0.18),
        Spread(4, 10, 0.10),
        Spread(11, 50, 0.02),
    )
    day_starts_hour: float = 8.0
    day_ends_hour: float = 18.0
    outside_share: float = 0.10
    """Commits that come at any hour: other time zones, and machines."""
    follow_up_share: float = 0.20
    """Commits that change the models of an open branch once more."""
    merge_share: float = 0.38
    """Commits that bring an open branch's contents to the main branch."""
    revert_share: float = 0.02
    """Commits that bring a model back to what it was before its last merge."""
    same_graph_share: float = 0.05
    """New contents whose normalised model is the one before: names or metadata changed."""
    compiler_change_share: float = 0.30
    """Nights before which the compiler changed: every stage of every pair runs."""
    compiler_keeps_weights: bool = True
    """A compiler change moves plans, not the bytes of packed weights and constants."""
    nightly_starts_hour: float = 20.0
    profiles: tuple[tuple[str, float], ...] = (
        ("ppocr_cls", 0.25),
        ("mobilenetv2", 0.25),
        ("ppocr_rec", 0.20),
        ("resnet50", 0.20),
        ("bert_base", 0.10),
    )
    """Each model costs what one of the measured models costs, with these shares."""
    engine_start_seconds: float = 0.6
    engine_step_seconds: float = 0.011
    """To read and check one step of the graph that a run is asked for."""
    restore_step_seconds: float = 0.03
    """To restore or save one step's outputs: the engine's cold run less its reading."""

    def steps(self, models: int) -> int:
        """Steps in the graph of so many models: one normalize each, five more a pair."""
        return models * (1 + 5 * self.devices)


class Kind(StrEnum):
    """What a commit does."""

    BRANCH = "branch"
    FOLLOW_UP = "follow up"
    MERGE = "merge"
    REVERT = "revert"


@dataclass(frozen=True, slots=True)
class Change:
    """A model's file as of a commit: equal `content` is equal bytes, equal `graph` is an equal
    normalised model."""

    model: int
    content: int
    graph: int


@dataclass(frozen=True, slots=True)
class Commit:
    """`at_seconds` counts from the start of the first day."""

    at_seconds: float
    kind: Kind
    changes: tuple[Change, ...]


@dataclass(slots=True)
class History:
    """Makes commits one by one, and knows what each branch holds."""

    assumptions: Assumptions
    random: np.random.Generator
    main: list[Change] = field(init=False)
    before: dict[int, Change] = field(default_factory=dict)
    branches: list[tuple[Change, ...]] = field(default_factory=list)
    made: int = field(init=False)

    def __post_init__(self) -> None:
        """Every model has a first content."""
        self.made = self.assumptions.models
        self.main = [Change(model, model, model) for model in range(self.made)]

    def commit(self, at_seconds: float) -> Commit:
        """The next commit; where there is nothing to merge or to revert, a new branch."""
        wanted = self.assumptions
        drawn = self.random.random()
        if drawn < wanted.merge_share and self.branches:
            return Commit(at_seconds, Kind.MERGE, self._merge())
        drawn -= wanted.merge_share
        if 0 <= drawn < wanted.follow_up_share and self.branches:
            number = int(self.random.integers(len(self.branches)))
            models = [change.model for change in self.branches[number]]
            self.branches[number] = self._new(models)
            return Commit(at_seconds, Kind.FOLLOW_UP, self.branches[number])
        drawn -= wanted.follow_up_share
        if 0 <= drawn < wanted.revert_share and self.before:
            model = int(self.random.choice(sorted(self.before)))
            self.main[model] = self.before.pop(model)
            return Commit(at_seconds, Kind.REVERT, (self.main[model],))
        changes = self._new(self._models())
        self.branches.append(changes)
        return Commit(at_seconds, Kind.BRANCH, changes)

    def _merge(self) -> tuple[Change, ...]:
        changes = self.branches.pop(int(self.random.integers(len(self.branches))))
        for change in changes:
            self.before[change.model] = self.main[change.model]
            self.main[change.model] = change
        return changes

    def _models(self) -> list[int]:
        """Models of one repository, chosen at random."""
        wanted = self.assumptions
        shares = np.array([spread.share for spread in wanted.spreads])
        spread = wanted.spreads[int(self.random.choice(len(shares), p=shares / shares.sum()))]
        drawn = int(self.random.integers(spread.fewest, spread.most + 1))
        count = min(drawn, wanted.repository_models)
        repository = int(self.random.integers(wanted.models // wanted.repository_models))
        inside = self.random.choice(wanted.repository_models, size=count, replace=False)
        return [repository * wanted.repository_models + int(model) for model in sorted(inside)]

    def _new(self, models: list[int]) -> tuple[Change, ...]:
        changes = []
        for model in models:
            same = self.random.random() < self.assumptions.same_graph_share
            graph = self.main[model].graph if same else self.made
            changes.append(Change(model, self.made, graph))
            self.made += 1
        return tuple(changes)


def arrivals(assumptions: Assumptions, days: int, random: np.random.Generator) -> list[float]:
    """When commits come, in seconds, in order: a Poisson number a day, even over the working day
    but for those that come at any hour."""
    starts, ends = (
        hour * HOUR_SECONDS for hour in (assumptions.day_starts_hour, assumptions.day_ends_hour)
    )
    times: list[float] = []
    for day in range(days):
        count = int(random.poisson(assumptions.commits_a_day))
        inside = random.uniform(starts, ends, size=count)
        outside = random.uniform(0.0, DAY_SECONDS, size=count)
        chosen = np.where(random.random(count) < assumptions.outside_share, outside, inside)
        times += [day * DAY_SECONDS + float(time) for time in chosen]
    return sorted(times)


def make_commits(assumptions: Assumptions, days: int, seed: int) -> tuple[list[Commit], History]:
    """The commits of so many days, and the state that they lead to."""
    random = np.random.default_rng(seed)
    history = History(assumptions, random)
    commits = [history.commit(time) for time in arrivals(assumptions, days, random)]
    return commits, history


def profiles(assumptions: Assumptions, seed: int) -> list[str]:
    """The measured model that each model of the fleet costs the same as: exact shares, shuffled."""
    names = [name for name, _ in assumptions.profiles]
    shares = np.array([share for _, share in assumptions.profiles])
    ends = np.rint(np.cumsum(shares / shares.sum()) * assumptions.models).astype(int)
    counts = np.diff(ends, prepend=0)
    fleet = np.repeat(np.arange(len(names)), counts)
    np.random.default_rng(seed).shuffle(fleet)
    return [names[number] for number in fleet]
