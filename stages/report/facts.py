"""What the stages wrote about one pair, as far as people ask for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from stages.errors import Outcome
from stages.evaluation.latency import LatencySummary
from stages.evaluation.output_checks import OutputFacts
from stages.evaluation.package_facts import Fallback, MemoryFacts
from stages.evaluation.report_files import read_report
from stages.evaluation.verdict import Verdict

FILES = MappingProxyType(
    {
        "normalize": "normalize.json",
        "validate": "validation.json",
        "benchmark": "benchmark.json",
        "gate": "gate.json",
        "thermal_stress": "stress.json",
    }
)
"""The report of each stage that writes one, in the stage's output folder."""

FAILED_OUTCOMES = MappingProxyType(
    {
        "validate": Outcome.VALIDATION_FAILED,
        "gate": Outcome.GATE_FAILED,
        "thermal_stress": Outcome.STRESS_FAILED,
    }
)
"""What a FAIL in its report means, of each stage that gives verdicts."""

FOLDERS = MappingProxyType(
    {
        "compile": "package",
        "validate": "validation",
        "benchmark": "benchmark",
        "gate": "gate",
        "thermal_stress": "stress",
    }
)
"""The output folder of each stage, in the pair's folder."""


@dataclass(frozen=True, slots=True)
class ProofFacts:
    """How far the normalised model lies from the original."""

    compared_with: str
    max_relative_difference: float


@dataclass(frozen=True, slots=True)
class NormalizeFacts:
    """normalize.json."""

    nodes_before: int
    nodes_after: int
    opset_from: int
    opset_to: int
    proof: ProofFacts


@dataclass(frozen=True, slots=True)
class ValidationFacts:
    """validation.json."""

    verdict: Verdict
    reasons: tuple[str, ...]
    outputs: tuple[OutputFacts, ...]
    fallbacks: tuple[Fallback, ...]
    memory: tuple[MemoryFacts, ...]
    fused_groups: int
    is_quantized: bool


@dataclass(frozen=True, slots=True)
class RooflineFacts:
    """The part of benchmark.json that compares with the least possible time."""

    bound_ns: int
    ratio: float


@dataclass(frozen=True, slots=True)
class BenchmarkFacts:
    """benchmark.json."""

    latency: LatencySummary
    roofline: RooflineFacts


@dataclass(frozen=True, slots=True)
class GateFacts:
    """gate.json."""

    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StressFacts:
    """stress.json."""

    verdict: Verdict
    reasons: tuple[str, ...]
    latency: LatencySummary
    junction_celsius: float
    peak_celsius: float
    throttled_runs: int


@dataclass(frozen=True, slots=True)
class PairFacts:
    """The reports of one pair; None where a stage gave none."""

    validation: ValidationFacts | None = None
    benchmark: BenchmarkFacts | None = None
    gate: GateFacts | None = None
    stress: StressFacts | None = None


_Facts = TypeVar("_Facts")


def gather_facts(folder: Path, stages: Collection[str]) -> PairFacts:
    """The reports of these stages in a pair's folder.

    Raises:
        InputError: a report is missing or damaged.
    """

    def read(stage: str, kind: type[_Facts]) -> _Facts | None:
        return facts_of(stage, folder / FOLDERS[stage], kind) if stage in stages else None

    return PairFacts(
        read("validate", ValidationFacts),
        read("benchmark", BenchmarkFacts),
        read("gate", GateFacts),
        read("thermal_stress", StressFacts),
    )


def facts_of(stage: str, folder: Path, kind: type[_Facts]) -> _Facts:
    """The report that a stage wrote to its output folder.

    Raises:
        InputError: it is missing or damaged.
    """
    return read_report(folder / FILES[stage], kind, stage)
