"""One call a stage: files and parameters in, a one-line result out.

The commands call these directly, the flow calls them in worker processes; so everything that goes
in or comes out can be pickled, and each stage is imported only where it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from stages.compiler.interleaving import Interleaving
from stages.compiler.lora import Lora, lora_notes
from stages.errors import Outcome

if TYPE_CHECKING:
    from flows.project.models import ModelRequest
    from flows.project.params import Params


class Stage(StrEnum):
    """The six stages, in order, named as their files in `stages/`."""

    NORMALIZE = "normalize"
    COMPILE = "compile"
    VALIDATE = "validate"
    BENCHMARK = "benchmark"
    GATE = "gate"
    THERMAL_STRESS = "thermal_stress"


PASS = "PASS"
FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage came to. `seconds` is wall time, shown and never written to a report;
    `remarks` are lines about how it went."""

    stage: Stage
    verdict: str
    outcome: Outcome
    figure: str
    seconds: float
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileChoices:
    """How a package is made.

    `reuse`: a package whose decisions are used again where they fit. `store`: where decisions are
    looked for and kept. Neither changes what is made of the same input. `start_from`: the
    recipe.txt of a stopped compile, where it goes on. `interleaving` and `lora` are options of the
    compiler.
    """

    reuse: Path | None = None
    store: Path | None = None
    start_from: Path | None = None
    interleaving: Interleaving = Interleaving.CASCADES
    lora: Lora = Lora.KEEP


@dataclass(frozen=True, slots=True)
class StageFailure:
    """Why a stage gave no result. `details` holds the traceback of a bug of ours; `signal` names
    what ended its process."""

    outcome: Outcome
    message: str
    details: str = ""
    signal: str = ""


StageCall = Callable[[], StageResult]


def normalize(
    model: ModelRequest, out: Path, bindings: Mapping[str, int], params: Params
) -> StageResult:
    """Fetches or builds the model where it must, and runs the stage."""
    from stages.normalize import normalize as run
    from stages.normalizer.registry import load_registry, resolve

    def work() -> str:
        source = resolve(model.word, load_registry(model.project.registry), model.project.cache)
        if model.samples is not None:
            source = replace(source, samples=model.samples)
        wanted = params.normalize
        run(source, out, bindings=bindings, seed=wanted.seed, sample_count=wanted.sample_count)
        return PASS

    return _timed(Stage.NORMALIZE, work, out)


def compile_package(
    normalized: Path,
    spec: Path,
    package: Path,
    quantization: Path | None,
    choices: CompileChoices,
) -> StageResult:
    """Runs the stage. Remarks say whose decisions were used, what became of low-rank branches that
    were to be merged, and when the CPU was short."""
    from stages.collector import collector_paused_at_the_end
    from stages.compile import Reuse
    from stages.compile import compile_model as run

    remarks: list[str] = []

    def work() -> str:
        report = run(
            normalized,
            spec,
            package,
            quantization=quantization,
            reuse=Reuse(choices.reuse, choices.store),
            start_from=choices.start_from,
            interleaving=choices.interleaving,
            lora=choices.lora,
        )
        starved = report.environment.starved
        lines = [report.reused, starved and f"warning: {starved}"]
        if choices.lora is Lora.MERGE:
            lines += lora_notes(report.notes) or ("no LoRA branch was found to merge",)
        remarks.extend(filter(None, lines))
        return PASS

    # What a compile makes lives until its end.
    with collector_paused_at_the_end():
        result = _timed(Stage.COMPILE, work, package)
    return replace(result, remarks=tuple(remarks))


def validate(package: Path, normalized: Path, spec: Path, out: Path, params: Params) -> StageResult:
    """Runs the stage with the limits of the parameters."""
    from stages.validate import ValidationLimits
    from stages.validate import validate as run

    limits = ValidationLimits(**params.validate_.model_dump())

    def work() -> str:
        return run(package, normalized, spec, out, limits=limits).verdict

    return _timed(Stage.VALIDATE, work, out)


def benchmark(package: Path, spec: Path, out: Path, params: Params) -> StageResult:
    """Runs the stage; on a real device where the parameters name one, one run at a time there."""
    import shlex

    from flows.locks.device_lock import device_lock
    from stages.benchmark import benchmark as run

    wanted = params.benchmark
    command = shlex.split(wanted.commands.get(spec.stem, ""))

    def work() -> str:
        with device_lock(command):
            run(
                package,
                spec,
                out,
                runs=wanted.runs,
                warmup=wanted.warmup,
                seed=wanted.seed,
                command=command,
            )
        return PASS

    return _timed(Stage.BENCHMARK, work, out)


def gate(
    measured: Path, validated: Path, baseline: Path | None, out: Path, params: Params
) -> StageResult:
    """Runs the stage with the limits of the parameters."""
    from stages.gate import GateLimits
    from stages.gate import gate as run

    limits = GateLimits(**params.gate.model_dump())

    def work() -> str:
        return run(measured, validated, baseline, out, limits=limits).verdict

    return _timed(Stage.GATE, work, out)


def thermal_stress(package: Path, spec: Path, out: Path, params: Params) -> StageResult:
    """Runs the stage in the surroundings and with the limits of the parameters."""
    from stages.thermal_stress import StressLimits
    from stages.thermal_stress import thermal_stress as run

    stress = params.thermal_stress
    limits = StressLimits(
        max_p99_over_p50=stress.max_p99_over_p50, max_slowdown=stress.max_slowdown
    )

    def work() -> str:
        return run(
            package,
            spec,
            out,
            length=stress.length(),
            seed=stress.seed,
            where=stress.surroundings(),
            limits=limits,
        ).verdict

    return _timed(Stage.THERMAL_STRESS, work, out)


def _timed(stage: Stage, work: Callable[[], str], out: Path) -> StageResult:
    started = time.perf_counter()
    verdict = str(work())
    seconds = time.perf_counter() - started
    return StageResult(stage, verdict, _outcome(stage, verdict), _figure(stage, out), seconds)


def _outcome(stage: Stage, verdict: str) -> Outcome:
    if verdict != FAIL:
        return Outcome.PASSED
    from stages.report.facts import FAILED_OUTCOMES

    return FAILED_OUTCOMES[stage]


def _figure(stage: Stage, out: Path) -> str:
    if stage is Stage.COMPILE:
        # Its figure needs none of what the others read reports with.
        from stages.report.package_figure import package_figure

        return package_figure(out)
    from stages.report.figures import main_figure

    return main_figure(stage, out)
