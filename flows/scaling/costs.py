"""What a run on one machine takes: measured stages, scheduled on its cores as the engine does."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from statistics import fmean

from flows.scaling.load import Assumptions
from flows.scaling.measure import Measured
from flows.steps.chain import CHAIN
from flows.steps.stage_calls import Stage


class Work(Enum):
    """What a model's steps need."""

    NOTHING = ()
    """All are in the run-cache."""
    NORMALIZE = (Stage.NORMALIZE,)
    """The file changed, the normalised model didn't."""
    MEASURED = (Stage.BENCHMARK, Stage.GATE, Stage.THERMAL_STRESS)
    """New seeds."""
    EVERYTHING = tuple(Stage)


@dataclass(frozen=True, slots=True)
class Task:
    """A step: it takes one core for `seconds`, after the tasks that it needs, by index."""

    seconds: float
    needs: tuple[int, ...] = ()


def makespan(tasks: Sequence[Task], cores: int) -> float:
    """Seconds until all have ended, where a free core takes the first task that is ready.

    Raises:
        ValueError: tasks need each other in a ring.
    """
    missing = [len(task.needs) for task in tasks]
    unlocks: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for need in task.needs:
            unlocks[need].append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    running: list[tuple[float, int]] = []
    now, ended = 0.0, 0
    while ready or running:
        while ready and len(running) < cores:
            number = heapq.heappop(ready)
            heapq.heappush(running, (now + tasks[number].seconds, number))
        now, number = heapq.heappop(running)
        ended += 1
        for unlocked in unlocks[number]:
            missing[unlocked] -= 1
            if not missing[unlocked]:
                heapq.heappush(ready, unlocked)
    if ended < len(tasks):
        raise ValueError("tasks need each other in a ring")
    return now


@dataclass(frozen=True, eq=False)
class Costs:
    """CPU seconds by measured model, device and stage. Equal only to itself."""

    seconds: Mapping[tuple[str, str, Stage], float]
    model_bytes: Mapping[str, int]
    specs: tuple[str, ...]
    assumptions: Assumptions

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The measured spec that each device of the fleet costs the same as."""
        return tuple(
            self.specs[number % len(self.specs)] for number in range(self.assumptions.devices)
        )

    def tasks(self, profile: str, work: Work, first: int) -> list[Task]:
        """The steps of one model on all devices; indices count from `first`."""
        saved = self.assumptions.restore_step_seconds
        tasks: list[Task] = []
        shared: dict[Stage, int] = {}
        if Stage.NORMALIZE in work.value:
            shared[Stage.NORMALIZE] = first
            seconds = fmean(self.seconds[profile, spec, Stage.NORMALIZE] for spec in self.specs)
            tasks.append(Task(seconds + saved))
        for device in self.devices:
            made = dict(shared)
            for link in CHAIN:
                if link.stage is Stage.NORMALIZE or link.stage not in work.value:
                    continue
                needs = tuple(made[need] for need in link.needs if need in made)
                made[link.stage] = first + len(tasks)
                seconds = self.seconds[profile, device, link.stage]
                tasks.append(Task(seconds + saved, needs))
        return tasks

    def cpu_seconds(self, profile: str, work: Work) -> float:
        """Of all steps of one model."""
        return sum(task.seconds for task in self.tasks(profile, work, 0))

    @lru_cache(maxsize=100_000)  # noqa: B019 - an instance lives as long as its simulation
    def machine_seconds(self, jobs: tuple[tuple[str, Work], ...], cores: int) -> float:
        """A run of these models on one machine: the graph is read, then the steps are scheduled."""
        tasks: list[Task] = []
        for profile, work in jobs:
            tasks += self.tasks(profile, work, len(tasks))
        wanted = self.assumptions
        steps = wanted.steps(len(jobs))
        reading = wanted.engine_start_seconds + steps * wanted.engine_step_seconds
        restored = (steps - len(tasks)) * wanted.restore_step_seconds
        return reading + restored + makespan(tasks, cores)

    def collect_seconds(self, models: int) -> float:
        """To restore what shards made of so many models, in one folder."""
        wanted = self.assumptions
        each = wanted.engine_step_seconds + wanted.restore_step_seconds
        return wanted.engine_start_seconds + wanted.steps(models) * each


def measured_costs(measured: Measured, assumptions: Assumptions) -> Costs:
    """The costs of all measured pairs. A stage that ended early costs what it took till then; one
    that wasn't reached costs nothing. Where a model wasn't measured on a device at all, it costs
    what it does on the others."""
    rows: dict[tuple[str, str], dict[Stage, float]] = {}
    for cost in measured.costs:
        rows.setdefault((cost.model, cost.hardware), {})[cost.stage] = cost.cpu_seconds
    specs = tuple(dict.fromkeys(cost.hardware for cost in measured.costs))
    models = dict.fromkeys(cost.model for cost in measured.costs)
    seconds = {}
    for model in models:
        known = [rows[model, spec] for spec in specs if (model, spec) in rows]
        for spec in specs:
            for stage in Stage:
                own = [rows[model, spec]] if (model, spec) in rows else known
                seconds[model, spec, stage] = fmean(row.get(stage, 0.0) for row in own)
    sizes = {
        model: sum(
            file.size_bytes
            for file in measured.files
            if file.model == model and file.name.startswith("model.onnx")
        )
        for model in models
    }
    return Costs(seconds, sizes, specs, assumptions)


def total_cpu_seconds(costs: Costs, fleet: Iterable[str], work: Work) -> float:
    """Of the whole fleet."""
    return sum(costs.cpu_seconds(profile, work) for profile in fleet)
