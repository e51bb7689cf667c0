"""Stage 3, validate: does the package keep the plan rules and compute what the model computes?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from stages.device.admission import RefusedPlanError
from stages.device.simulated import SimulatedDevice
from stages.errors import InputError
from stages.evaluation.accuracy_verdict import Judgement, judge_quantized
from stages.evaluation.output_checks import OutputFacts, check_output, missing_output
from stages.evaluation.package_facts import (
    Fallback,
    MemoryFacts,
    fallbacks,
    fused_groups,
    is_quantized,
    memory_facts,
)
from stages.evaluation.quantized_proof import Proof, Prover
from stages.evaluation.report_files import METRICS_FILE, Metrics, metrics_text, report_text
from stages.evaluation.validation import (
    ValidationLimits,
    check_fallbacks,
    check_memory,
    check_rules,
)
from stages.evaluation.verdict import Check, Verdict, verdict_of
from stages.hardware.load import load_spec
from stages.normalizer.folders import new_folder
from stages.normalizer.reference import OnnxRuntimeReference
from stages.normalizer.sample_files import Sample, load_samples
from stages.package import Package, read_constants, read_package, require_spec
from stages.plan.rules import Violation

__all__ = ["Validation", "ValidationLimits", "validate"]

REPORT_FILE = "validation.json"
MODEL_FILE = "model.onnx"
SAMPLES_FILE = "samples.npz"


@dataclass(frozen=True, slots=True)
class Validation:
    """What the stage found; `reasons` begins with the most important.

    `proof` is what the accuracy of an integer model rests on where its end-to-end figure can't
    tell; None for float models.
    """

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
    proof: Proof | None = None

    def as_json(self) -> dict[str, object]:
        """Plain data for the report."""
        return asdict(self) | {"overflows": dict(self.overflows)}

    def metrics(self) -> Metrics:
        """The verdict, the worst accuracy of all outputs, fallbacks, and memory in bytes."""
        noise = [facts.sqnr_db for facts in self.outputs if facts.sqnr_db is not None]
        cosines = [facts.cosine for facts in self.outputs if facts.cosine is not None]
        errors = [
            facts.relative_error for facts in self.outputs if facts.relative_error is not None
        ]
        judged_by_noise = self.is_quantized
        return {
            "verdict": self.verdict,
            "lowest_cosine": None if judged_by_noise else min(cosines, default=None),
            "largest_relative_error": None if judged_by_noise else max(errors, default=None),
            "lowest_sqnr_db": min(noise, default=None) if judged_by_noise else None,
            "fused_groups": self.fused_groups,
            "fallback_operators": sum(len(found.operators) for found in self.fallbacks),
        } | {f"peak_{use.memory}_bytes": use.peak_bytes for use in self.memory}


def validate(
    package_dir: Path,
    normalized_dir: Path,
    hardware: Path,
    out_dir: Path,
    *,
    limits: ValidationLimits,
) -> Validation:
    """Judges a package and writes `validation.json`.

    Raises:
        PackageError: the package is damaged, or was made for another spec.
        HardwareSpecError: the spec is wrong.
        InputError: the normalised model or its samples can't be read.
        DeviceError: the package passes the rules, and yet the device can't run it.
    """
    spec = load_spec(hardware)
    package = read_package(package_dir)
    require_spec(package, spec)
    device = SimulatedDevice(spec)
    compared, violations = _Comparison(), _refusal(device, package, package_dir)
    rules = check_rules(violations)
    if not violations:
        compared = _compare(package, package_dir, device, normalized_dir, limits)
    recipe, plan = package.recipe, package.plan
    hosted = fallbacks(recipe, plan, spec)
    memory = memory_facts(plan, spec)
    judgement = _judge(compared, limits)
    checks = (
        *rules,
        *(facts.check for facts in judgement.outputs),
        *judgement.checks,
        check_fallbacks(hosted, limits),
        *check_memory(memory, limits),
    )
    result = Validation(
        verdict=verdict_of(checks),
        reasons=_reasons(checks, judgement),
        checks=checks,
        outputs=judgement.outputs,
        overflows=compared.overflows,
        fallbacks=hosted,
        memory=memory,
        fused_groups=fused_groups(recipe),
        is_quantized=is_quantized(recipe),
        package=package.manifest.package_sha256,
        proof=compared.proof,
    )
    with new_folder(out_dir) as folder:
        (folder / REPORT_FILE).write_text(report_text(result.as_json()), encoding="utf-8")
        (folder / METRICS_FILE).write_text(metrics_text(result.metrics()), encoding="utf-8")
    return result


def _refusal(device: SimulatedDevice, package: Package, package_dir: Path) -> tuple[Violation, ...]:
    """Why the device refuses to load the package; nothing where it is loaded."""
    try:
        device.load(package, package_dir)
    except RefusedPlanError as refused:
        return refused.violations
    return ()


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Every output of every sample, the overflows on the way, and the proof of an integer model."""

    outputs: tuple[OutputFacts, ...] = ()
    overflows: Mapping[str, int] = field(default_factory=dict)
    proof: Proof | None = None


def _compare(
    package: Package,
    package_dir: Path,
    device: SimulatedDevice,
    normalized_dir: Path,
    limits: ValidationLimits,
) -> _Comparison:
    """The device's outputs and the reference's, sample by sample."""
    reference = _reference(package, package_dir, normalized_dir / MODEL_FILE, limits)
    found: list[OutputFacts] = []
    overflows: Counter[str] = Counter()
    for index, sample in enumerate(_samples(normalized_dir / SAMPLES_FILE)):
        execution = device.infer(sample)
        overflows.update(execution.overflows)
        if isinstance(reference, Prover):
            expected = reference.look(index, sample, execution.outputs)
        else:
            expected = reference.run(sample)
        for name, array in expected.items():
            actual = execution.outputs.get(name)
            found.append(
                missing_output(name, index)
                if actual is None
                else check_output(
                    name, index, actual, array, limits.accuracy, is_quantized(package.recipe)
                )
            )
    proof = reference.proof() if isinstance(reference, Prover) else None
    return _Comparison(tuple(found), dict(overflows), proof)


def _reference(
    package: Package, package_dir: Path, model: Path, limits: ValidationLimits
) -> Prover | OnnxRuntimeReference:
    """ONNX Runtime; for an integer model with the proof that it needs."""
    if not is_quantized(package.recipe):
        return OnnxRuntimeReference(model)
    constants = read_constants(package_dir)
    return Prover(package.recipe, constants, model, limits.min_sqnr_db)


def _judge(compared: _Comparison, limits: ValidationLimits) -> Judgement:
    if compared.proof is None:
        return Judgement(compared.outputs)
    return judge_quantized(compared.outputs, compared.proof, limits.min_sqnr_db)


def _samples(path: Path) -> list[Sample]:
    samples = load_samples(path)
    if not samples:
        raise InputError(
            "there is no sample to compare on",
            where=str(path),
            hint="run `recipe normalize` with a sample count of at least 1",
        )
    return samples


def _reasons(checks: Sequence[Check], judgement: Judgement) -> tuple[str, ...]:
    failed = tuple(check.message for check in checks if not check.passed)
    passed = f"{len(checks)} checks passed, {len(judgement.outputs)} outputs compared"
    return failed or (*judgement.notes, passed)
