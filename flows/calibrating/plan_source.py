"""Plans of measured models on a device, compiled side by side and kept in the project's cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from flows.calibrating.subjects import SubjectFinder
from flows.project.places import Project
from stages.calibration.measurements import Measurement, Measurements, Precision
from stages.calibration.plans import Compiled, compiled_plan
from stages.errors import CompileError, InputError, RecipeError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan

_FOLDER = "calibration"
_CACHED = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Task:
    project: Project
    folder: Path
    model: str
    precision: Precision
    where: str
    spec: HardwareSpec


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan, and the seconds that it took."""

    compiled: Compiled
    seconds: float


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why there is no plan: an error in parts that travel between processes."""

    kind: type[RecipeError]
    problem: str
    where: str
    hint: str


_Answer = _Made | _Refused


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
            RecipeError: a row's model can't be found or compiled; it names the model.
        """
        for row, answer in self._answers(rows, spec):
            if isinstance(answer, _Refused):
                raise answer.kind(
                    f"{row.model} {row.precision}: {answer.problem}",
                    where=answer.where or self.measurements.where(row),
                    hint=answer.hint,
                )

    def prepare_what_compiles(
        self, rows: Iterable[Measurement], spec: HardwareSpec
    ) -> dict[Measurement, str]:
        """The same, but rows without a plan are given back, with the reason."""
        return {
            row: answer.problem
            for row, answer in self._answers(rows, spec)
            if isinstance(answer, _Refused)
        }

    def _answers(
        self, rows: Iterable[Measurement], spec: HardwareSpec
    ) -> Iterator[tuple[Measurement, _Answer]]:
        """What came of each row that isn't known yet, as it comes; one row of several alike."""
        missing = {key: row for row in rows if (key := self._key(row, spec)) not in self._known}
        tasks = {key: self._task(row, spec) for key, row in missing.items()}
        if self.jobs == 1 or len(tasks) < 2:
            for key, task in tasks.items():
                yield missing[key], self._took(key, task, _compile(task))
            return
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_compile_to_cache, task): key for key, task in tasks.items()}
            try:
                for future in as_completed(futures):
                    key = futures[future]
                    yield missing[key], self._took(key, tasks[key], _fetch(tasks[key], future))
            finally:
                pool.shutdown(cancel_futures=True)

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

    def _took(self, key: tuple[str, Precision, str], task: _Task, answer: _Answer) -> _Answer:
        """Keeps and tells what was made."""
        name = f"{task.model} {task.precision} for {task.spec.name}"
        if isinstance(answer, _Refused):
            self.say(f"not compiled: {name}: {answer.problem}")
            return answer
        compiled = self._known[key] = answer.compiled
        took = f"{answer.seconds:.1f} s" if answer.seconds >= _CACHED else "from the cache"
        fallbacks = f", {compiled.fallbacks} on the host" if compiled.fallbacks else ""
        count = len(compiled.plan.instructions)
        self.say(f"compiled {name}: {count:,} instructions{fallbacks}, {took}")
        return answer

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


def _compile(task: _Task) -> _Answer:
    began = time.perf_counter()
    try:
        subject = SubjectFinder(task.project, task.folder).find(task.model, task.where)
        cache = task.project.cache / _FOLDER
        compiled = compiled_plan(subject, task.precision, task.spec, cache)
    except RecipeError as error:
        return _Refused(type(error), error.problem, error.where, error.hint)
    return _Made(compiled, time.perf_counter() - began)


def _compile_to_cache(task: _Task) -> float | _Refused:
    """For another process: the seconds that it took. The plan stays in the cache, for it is
    faster read than sent."""
    answer = _compile(task)
    return answer.seconds if isinstance(answer, _Made) else answer


def _fetch(task: _Task, future: Future[float | _Refused]) -> _Answer:
    """What another process made, out of the cache."""
    try:
        told = future.result()
    except BrokenProcessPool:
        hint = "out of memory? Try `--jobs 1`"
        return _Refused(CompileError, "a process that compiled was killed", task.where, hint)
    if isinstance(told, _Refused):
        return told
    made = _compile(task)
    return _Made(made.compiled, told) if isinstance(made, _Made) else made
