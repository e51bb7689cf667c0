"""Stage 3, validate: does the package keep the plan rules and compute what the model computes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stages.device.simulated import SimulatedDevice
from stages.errors import InputError
from stages.evaluation.baseline import Baseline
from stages.evaluation.output_checks import OutputFacts, check_output, missing_output
from stages.evaluation.package_facts import (
    Fallback,
    MemoryFacts,
    fallbacks,
    fused_groups,
    is_quantized,
    memory_facts,
)
from stages.evaluation.report_files import read_report, report_text
from stages.evaluation.validation import (
    ValidationLimits,
    check_fallbacks,
    check_fused_groups,
    check_memory,
    check_rules,
)
from stages.evaluation.verdict import Check, Verdict, verdict_of
from stages.hardware.load import load_spec
from stages.normalizer.folders import new_folder
from stages.normalizer.reference import OnnxRuntimeReference
from stages.normalizer.samples import Sample, load_samples
from stages.package import Package, read_package, require_spec
from stages.plan.rules import check_plan

__all__ = ["Validation", "ValidationLimits", "validate"]

REPORT_FILE = "validation.json"


@dataclass(frozen=True, slots=True)
class Validation:
    """What the stage found; `reasons` begins with the most important."""

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    outputs: tuple[OutputFacts, ...]
    overflows: Mapping[str, int]
    fallbacks: tuple[Fallback, ...]
    memory: tuple[MemoryFacts, ...]
    fused_groups: int
    is_quantized: bool
    package: str

    def as_json(self) -> dict[str, object]:
        """Plain data for the report."""
        return asdict(self) | {"overflows": dict(self.overflows)}


def validate(
    package_dir: Path,
    normalized_dir: Path,
    hardware: Path,
    out_dir: Path,
    *,
    limits: ValidationLimits,
    baseline: Path | None = None,
) -> Validation:
    """Judges a package and writes `validation.json`.

    Raises:
        PackageError: the package is damaged, or was made for another spec.
        HardwareSpecError: the spec is wrong.
        InputError: the normalised model, its samples or the baseline can't be read.
        DeviceError: the package passes the plan rules, and yet the device can't run it.
    """
    spec = load_spec(hardware)
    package = read_package(package_dir)
    require_spec(package, spec)
    rules = check_rules(check_plan(package.plan, spec))
    outputs: tuple[OutputFacts, ...] = ()
    overflows: dict[str, int] = {}
    if verdict_of(rules) is Verdict.PASS:
        device = SimulatedDevice(spec)
        device.load(package, package_dir)
        outputs, overflows = _compare(package, device, normalized_dir, limits)
    recipe, plan = package.recipe, package.plan
    hosted = fallbacks(recipe, plan, spec)
    memory = memory_facts(plan, spec)
    groups = fused_groups(recipe)
    before = _groups_before(baseline)
    checks = (
        *rules,
        *(facts.check for facts in outputs),
        check_fallbacks(hosted, limits),
        *check_memory(memory, limits),
        check_fused_groups(groups, before),
    )
    result = Validation(
        verdict=verdict_of(checks),
        reasons=_reasons(checks, outputs),
        checks=checks,
        outputs=outputs,
        overflows=overflows,
        fallbacks=hosted,
        memory=memory,
        fused_groups=groups,
        is_quantized=is_quantized(recipe),
        package=package.manifest.package_sha256,
    )
    with new_folder(out_dir) as folder:
        (folder / REPORT_FILE).write_text(report_text(result.as_json()), encoding="utf-8")
    return result


def _groups_before(baseline: Path | None) -> int | None:
    if baseline is None or not baseline.exists():
        return None
    return read_report(baseline, Baseline, "baseline accept").fused_groups


def _compare(
    package: Package, device: SimulatedDevice, normalized_dir: Path, limits: ValidationLimits
) -> tuple[tuple[OutputFacts, ...], dict[str, int]]:
    """Every output of every sample, and the overflows on the way."""
    reference = OnnxRuntimeReference(normalized_dir / "model.onnx")
    quantized = is_quantized(package.recipe)
    found: list[OutputFacts] = []
    overflows: dict[str, int] = {}
    for index, sample in enumerate(_samples(normalized_dir / "samples.npz")):
        execution = device.infer(sample)
        for name, count in execution.overflows.items():
            overflows[name] = overflows.get(name, 0) + count
        for name, expected in reference.run(sample).items():
            actual = execution.outputs.get(name)
            found.append(
                missing_output(name, index)
                if actual is None
                else check_output(name, index, actual, expected, limits.accuracy, quantized)
            )
    return tuple(found), overflows


def _samples(path: Path) -> list[Sample]:
    samples = load_samples(path)
    if not samples:
        raise InputError(
            "there is no sample to compare on",
            where=str(path),
            hint="run `recipe normalize` with a sample count of at least 1",
        )
    return samples


def _reasons(checks: Sequence[Check], outputs: Sequence[OutputFacts]) -> tuple[str, ...]:
    failed = tuple(check.message for check in checks if not check.passed)
    return failed or (f"{len(checks)} checks passed, {len(outputs)} outputs compared",)
