"""Plans of measured models on a device, compiled side by side and kept in the project's cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from flows.calibrating.subjects import SubjectFinder
from flows.project.places import Project
from stages.calibration.measurements import Measurement, Measurements, Precision
from stages.calibration.plans import Compiled, compiled_plan
from stages.errors import InputError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan

_FOLDER = "calibration"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Task:
    project: Project
    folder: Path
    model: str
    precision: Precision
    where: str
    spec: HardwareSpec


@dataclass(slots=True)
class PlanSource:
    """Compiles the models of a file of measurements; each plan once in a run."""

    project: Project
    measurements: Measurements
    jobs: int
    say: Say
    _known: dict[tuple[str, Precision, str], Compiled] = field(init=False, default_factory=dict)

    def prepare(self, rows: Iterable[Measurement], spec: HardwareSpec) -> None:
        """Compiles what isn't known yet, `jobs` models at a time.

        Raises:
            RecipeError: a row's model can't be found or compiled; it names the row.
        """
        keys = {self._key(row, spec): row for row in rows}
        missing = {key: row for key, row in keys.items() if key not in self._known}
        tasks = {key: self._task(row, spec) for key, row in missing.items()}
        if self.jobs == 1 or len(tasks) < 2:
            for key, task in tasks.items():
                self._take(key, task, _compile(task))
            return
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_compile_to_cache, task): key for key, task in tasks.items()}
            try:
                for future in as_completed(futures):
                    key = futures[future]
                    seconds = future.result()
                    self._take(key, tasks[key], (_compile(tasks[key])[0], seconds))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def compiled(self, row: Measurement, spec: HardwareSpec) -> Compiled:
        """What a row's model became on a device.

        Raises:
            RecipeError: it can't be found or compiled.
        """
        self.prepare([row], spec)
        found = self._known[self._key(row, spec)]
        self._require_batch(row, found.plan)
        return found

    def plan_of(self, row: Measurement, spec: HardwareSpec) -> Plan:
        """The plan alone; every other row's is made beside it, where that isn't done."""
        self.prepare(self.measurements.rows, spec)
        return self.compiled(row, spec).plan

    def _key(self, row: Measurement, spec: HardwareSpec) -> tuple[str, Precision, str]:
        return (row.model, row.precision, spec.digest)

    def _task(self, row: Measurement, spec: HardwareSpec) -> _Task:
        folder = self.measurements.path.parent
        where = self.measurements.where(row)
        return _Task(self.project, folder, row.model, row.precision, where, spec)

    def _take(
        self, key: tuple[str, Precision, str], task: _Task, made: tuple[Compiled, float]
    ) -> None:
        compiled, seconds = made
        self._known[key] = compiled
        took = f"{seconds:.1f} s" if seconds >= 0.05 else "from the cache"
        fallbacks = f", {compiled.fallbacks} on the host" if compiled.fallbacks else ""
        count = len(compiled.plan.instructions)
        self.say(
            f"compiled {task.model} {task.precision} for {task.spec.name}: "
            f"{count:,} instructions{fallbacks}, {took}"
        )

    def _require_batch(self, row: Measurement, plan: Plan) -> None:
        """A row of another batch than 1 needs a model of that batch.

        Raises:
            InputError: the model has another one.
        """
        shapes = [binding.region.shape for binding in plan.inputs]
        extents = {shape[0] for shape in shapes if shape}
        if row.batch != 1 and row.batch not in extents:
            raise InputError(
                f"the row says batch {row.batch}, and {row.model} takes "
                f"{', '.join(map(str, shapes))}",
                where=self.measurements.where(row),
                hint="give an .onnx file of that batch, or leave the row out",
            )


def _compile(task: _Task) -> tuple[Compiled, float]:
    """What was compiled, and how long it took."""
    began = time.perf_counter()
    subject = SubjectFinder(task.project, task.folder).find(task.model, task.where)
    cache = task.project.cache / _FOLDER
    compiled = compiled_plan(subject, task.precision, task.spec, cache)
    return compiled, time.perf_counter() - began


def _compile_to_cache(task: _Task) -> float:
    """For another process: the plan stays in the cache, for it is faster read than sent."""
    return _compile(task)[1]
