"""What the stages wrote about one pair, as the merge gate compares it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from stages.comparison.merge_facts import Accuracy, Failure, HostOperator, SideFacts
from stages.errors import InputError
from stages.evaluation.latency import LatencySummary
from stages.evaluation.output_checks import OutputFacts
from stages.evaluation.package_facts import Fallback, MemoryFacts
from stages.evaluation.verdict import Check
from stages.report.facts import FAILED_OUTCOMES, FOLDERS, facts_of

ACCURACY = "accuracy"
"""The one name of all checks on outputs: outputs and samples may change with the model."""

_SAMPLES = (("benchmark", "samples.csv"), ("thermal_stress", "stress.csv"))


@dataclass(frozen=True, slots=True)
class _Validated:
    checks: tuple[Check, ...]
    outputs: tuple[OutputFacts, ...]
    fallbacks: tuple[Fallback, ...]
    memory: tuple[MemoryFacts, ...]
    fused_groups: int
    is_quantized: bool
    package: str


@dataclass(frozen=True, slots=True)
class _Measured:
    latency: LatencySummary
    package: str


@dataclass(frozen=True, slots=True)
class _Gated:
    checks: tuple[Check, ...]
    baseline_package: str | None


@dataclass(frozen=True, slots=True)
class _Stressed:
    checks: tuple[Check, ...]
    latency: LatencySummary


_Report = TypeVar("_Report")


def read_side(folder: Path, answered: Collection[str], errors: Sequence[Failure]) -> SideFacts:
    """The facts in a pair's folder: of the stages that gave a report, and the errors of the others.

    Raises:
        InputError: a report is missing or damaged.
    """

    def read(stage: str, kind: type[_Report]) -> _Report | None:
        return facts_of(stage, folder / FOLDERS[stage], kind) if stage in answered else None

    validated = read("validate", _Validated)
    measured = read("benchmark", _Measured)
    gated = read("gate", _Gated)
    stressed = read("thermal_stress", _Stressed)
    outputs = {facts.check.name for facts in validated.outputs} if validated else set()
    judged = (("validate", validated), ("gate", gated), ("thermal_stress", stressed))
    failures = [
        failure
        for stage, report in judged
        if report is not None
        for failure in _failures(stage, report.checks, outputs)
    ]
    peaks = {use.memory: use.peak_bytes for use in validated.memory} if validated else {}
    holder = measured or validated
    return SideFacts(
        answered=frozenset(answered),
        failures=(*errors, *failures),
        package=holder.package if holder else "",
        samples=_digest(folder, answered),
        accepted_package=(gated.baseline_package or "") if gated else "",
        latency=measured.latency if measured else None,
        hot=stressed.latency if stressed else None,
        sram_bytes=peaks.get("sram"),
        ddr_bytes=peaks.get("ddr"),
        fused_groups=validated.fused_groups if validated else None,
        fallbacks=tuple(_operators(validated.fallbacks)) if validated else (),
        accuracy=_accuracy(validated) if validated else Accuracy(),
    )


def _failures(stage: str, checks: Sequence[Check], outputs: Collection[str]) -> Iterator[Failure]:
    for check in checks:
        if not check.passed:
            name = ACCURACY if check.name in outputs else check.name
            yield Failure(stage, name, FAILED_OUTCOMES[stage], check.message)


def _operators(fallbacks: Sequence[Fallback]) -> Iterator[HostOperator]:
    for group in fallbacks:
        for name, kind in zip(group.operators, group.kinds, strict=True):
            yield HostOperator(name, kind, group.reason)


def _accuracy(validated: _Validated) -> Accuracy:
    outputs = validated.outputs
    if validated.is_quantized:
        return Accuracy(sqnr_db=_worst(min, [facts.sqnr_db for facts in outputs]))
    return Accuracy(
        cosine=_worst(min, [facts.cosine for facts in outputs]),
        relative_error=_worst(max, [facts.relative_error for facts in outputs]),
    )


def _digest(folder: Path, answered: Collection[str]) -> str:
    """One digest of all latencies, cold and hot, in their order."""
    digest = sha256()
    for stage, name in _SAMPLES:
        if stage in answered:
            path = folder / FOLDERS[stage] / name
            try:
                digest.update(sha256(path.read_bytes()).digest())
            except OSError as error:
                raise InputError(
                    f"the samples can't be read: {error.strerror}",
                    where=str(path),
                    hint="run the pair again",
                ) from error
    return digest.hexdigest()


def _worst(choose: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None
