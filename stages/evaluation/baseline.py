"""Baselines: the accepted figures of a (model, hardware) pair, as a JSON file kept in git."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stages.evaluation.gate_rule import Conditions, Figures
from stages.evaluation.latency import LatencySummary


@dataclass(frozen=True, slots=True)
class Measured:
    """What gate and baseline need of `benchmark.json`."""

    conditions: Conditions
    latency: LatencySummary
    package: str


@dataclass(frozen=True, slots=True)
class HostedGroup:
    """What a baseline needs of a fallback in `validation.json`."""

    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Validated:
    """What gate and baseline need of `validation.json`."""

    verdict: str
    package: str
    fused_groups: int
    fallbacks: tuple[HostedGroup, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was accepted: the package's hash, its figures, and its operators on the host, sorted."""

    conditions: Conditions
    latency: LatencySummary
    package: str
    fused_groups: int
    fallbacks: tuple[str, ...]

    @property
    def figures(self) -> Figures:
        """What the gate compares."""
        return Figures(self.conditions, self.latency, self.fused_groups)

    @staticmethod
    def of(measured: Measured, validated: Validated) -> Baseline:
        """The baseline that a benchmark and a validation of one package make."""
        names = sorted(name for group in validated.fallbacks for name in group.operators)
        return Baseline(
            measured.conditions,
            measured.latency,
            measured.package,
            validated.fused_groups,
            tuple(names),
        )

    def as_json(self) -> dict[str, object]:
        """Plain data for the file."""
        return asdict(self)
