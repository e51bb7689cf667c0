"""The queue of docs/scaling.md: machines that take shards of commits first, of nights second.

A discrete-event simulation on simpy. A machine takes one shard at a time and gives it all of its
cores; nothing is interrupted. That is a Prefect work pool with one worker a machine and a limit of
one run each, and two work queues of different priority.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy
from simpy.resources.resource import PriorityResource

from flows.project.requests import Pair
from flows.scaling.costs import Costs, Work
from flows.scaling.load import (
    DAY_SECONDS,
    HOUR_SECONDS,
    Assumptions,
    Change,
    History,
    arrivals,
    profiles,
)
from flows.workers.shards import split

COMMIT_PRIORITY = 0
NIGHT_PRIORITY = 1
_Process = Generator[simpy.Event, object, None]


@dataclass(frozen=True, slots=True)
class Farm:
    """So many machines of so many cores, and how work is cut for them: a shard of a commit holds
    at most `commit_shard_models` models, a night has `night_shards` shards."""

    machines: int
    cores: int
    commit_shard_models: int = 50
    night_shards: int = 100
    collect_days: int | None = None
    """Nights between two `dvc gc`; None: never."""


@dataclass(slots=True)
class Machines:
    """The machines of a running simulation."""

    clock: simpy.Environment
    pool: PriorityResource
    busy_seconds: float = 0.0

    def work(self, seconds: float, priority: int) -> _Process:
        """Waits for a machine and keeps it so long."""
        with self.pool.request(priority=priority) as turn:
            yield turn
            yield self.clock.timeout(seconds)
            self.busy_seconds += seconds


def open_machines(count: int) -> Machines:
    """A simulation that hasn't begun."""
    clock = simpy.Environment()
    return Machines(clock, PriorityResource(clock, capacity=count))


@dataclass(frozen=True, slots=True)
class Night:
    """One night: how long it took, and whether the compiler had changed."""

    seconds: float
    compiler_changed: bool


@dataclass(slots=True)
class Answers:
    """What a simulation says. Steps are counted for commits alone."""

    turnaround_seconds: list[float] = field(default_factory=list)
    nights: list[Night] = field(default_factory=list)
    asked_steps: int = 0
    run_steps: int = 0
    new_graphs: list[int] = field(default_factory=list)
    """Models whose normalised content no run had seen."""
    busy_share: float = 0.0
    commits: int = 0

    @property
    def hit_share(self) -> float:
        """Steps of commits that the run-cache had."""
        return 1 - self.run_steps / self.asked_steps if self.asked_steps else 0.0


@dataclass(slots=True)
class Simulation:
    """Commits and nights on a farm. `seen` holds what the run-cache has, by content and version of
    the compiler."""

    assumptions: Assumptions
    costs: Costs
    farm: Farm
    machines: Machines
    history: History
    fleet: list[str]
    random: np.random.Generator
    version: int = 0
    seen: set[tuple[str, int, int]] = field(default_factory=set)
    answers: Answers = field(default_factory=Answers)
    shards: dict[Work, list[float]] = field(default_factory=dict)

    def remember(self, change: Change) -> None:
        """The run-cache has all of this content's steps, as made by the present compiler."""
        self.seen.add(("content", change.content, self.version))
        self.seen.add(("graph", change.graph, self.version))

    def work_of(self, change: Change) -> Work:
        """What a content needs that the run-cache doesn't have."""
        if ("graph", change.graph, self.version) in self.seen:
            known = ("content", change.content, self.version) in self.seen
            return Work.NOTHING if known else Work.NORMALIZE
        return Work.EVERYTHING

    def shard(self, changes: Sequence[Change]) -> _Process:
        """One shard of a commit. What the run-cache has is looked up when a machine takes it."""
        with self.machines.pool.request(priority=COMMIT_PRIORITY) as turn:
            yield turn
            works = [self.work_of(change) for change in changes]
            self._count(changes, works)
            jobs = tuple(
                (self.fleet[change.model], work)
                for change, work in zip(changes, works, strict=True)
            )
            seconds = self.costs.machine_seconds(tuple(sorted(jobs, key=str)), self.farm.cores)
            yield self.machines.clock.timeout(seconds)
            self.machines.busy_seconds += seconds
            for change in changes:
                self.remember(change)

    def _count(self, changes: Sequence[Change], works: Sequence[Work]) -> None:
        for change, work in zip(changes, works, strict=True):
            steps = {Work.EVERYTHING: self.assumptions.steps(1), Work.NORMALIZE: 1}.get(work, 0)
            self.answers.asked_steps += self.assumptions.steps(1)
            self.answers.run_steps += steps
            if work is Work.EVERYTHING:
                self.answers.new_graphs.append(change.model)

    def commit(self, changes: tuple[Change, ...]) -> _Process:
        """A commit, from its arrival to its answer."""
        arrived = self.machines.clock.now
        size = self.farm.commit_shard_models
        parts = [changes[first : first + size] for first in range(0, len(changes), size)]
        reading = self.costs.assumptions.steps(self.assumptions.repository_models)
        yield self.machines.clock.timeout(reading * self.assumptions.engine_step_seconds)
        started = [self.machines.clock.process(self.shard(part)) for part in parts]
        yield simpy.AllOf(self.machines.clock, started)
        if len(parts) > 1:
            seconds = self.costs.collect_seconds(len(changes))
            yield self.machines.clock.timeout(seconds)
        self.answers.turnaround_seconds.append(self.machines.clock.now - arrived)

    def commits(self, days: int) -> _Process:
        """All commits, as they come."""
        for time in arrivals(self.assumptions, days, self.random):
            yield self.machines.clock.timeout(time - self.machines.clock.now)
            self.answers.commits += 1
            commit = self.history.commit(time)
            self.machines.clock.process(self.commit(commit.changes))

    def nights(self, days: int) -> _Process:
        """A night each day."""
        for day in range(days):
            start = day * DAY_SECONDS + self.assumptions.nightly_starts_hour * HOUR_SECONDS
            yield self.machines.clock.timeout(start - self.machines.clock.now)
            changed = bool(self.random.random() < self.assumptions.compiler_change_share)
            self.version += changed
            self.machines.clock.process(self.night(changed))

    def night(self, compiler_changed: bool) -> _Process:
        """One night: its shards, then the run that collects them."""
        began, changes = self.machines.clock.now, list(self.history.main)
        work = Work.EVERYTHING if compiler_changed else Work.MEASURED
        started = [
            self.machines.clock.process(self.machines.work(seconds, NIGHT_PRIORITY))
            for seconds in self._night_shards(work)
        ]
        yield simpy.AllOf(self.machines.clock, started)
        yield self.machines.clock.timeout(self.costs.collect_seconds(len(self.fleet)))
        for change in changes:
            self.remember(change)
        if self.collects(began):
            self.forget()
        self.answers.nights.append(Night(self.machines.clock.now - began, compiler_changed))

    def collects(self, began: float) -> bool:
        """Whether `dvc gc` follows the night that began then."""
        every = self.farm.collect_days
        return every is not None and int(began // DAY_SECONDS) % every == every - 1

    def forget(self) -> None:
        """`dvc gc --workspace`: what the present matrix doesn't hold is gone."""
        self.seen.clear()
        for change in self.history.main:
            self.remember(change)

    def _night_shards(self, work: Work) -> list[float]:
        if work not in self.shards:
            self.shards[work] = night_shard_seconds(self.costs, self.fleet, work, self.farm)
        return self.shards[work]


def night_shard_seconds(costs: Costs, fleet: Sequence[str], work: Work, farm: Farm) -> list[float]:
    """What each shard of a night takes on one machine, cut as a real one is."""
    names = {f"{number:06d}": profile for number, profile in enumerate(fleet)}
    sizes = {name: costs.model_bytes[profile] for name, profile in names.items()}
    shards = split((Pair(name, "all") for name in names), farm.night_shards, sizes)
    return [
        costs.machine_seconds(tuple((names[name], work) for name in shard.models()), farm.cores)
        for shard in shards
    ]


def simulate(
    assumptions: Assumptions, costs: Costs, farm: Farm, days: int, seed: int, *, nightly: bool
) -> Answers:
    """Commits of so many days, with a night after each or none at all."""
    random = np.random.default_rng(seed)
    history = History(assumptions, random)
    fleet = profiles(assumptions, seed)
    machines = open_machines(farm.machines)
    run = Simulation(assumptions, costs, farm, machines, history, fleet, random)
    for change in history.main:
        run.remember(change)
    machines.clock.process(run.commits(days))
    if nightly:
        machines.clock.process(run.nights(days))
    machines.clock.run()
    run.answers.busy_share = machines.busy_seconds / (farm.machines * days * DAY_SECONDS)
    return run.answers
