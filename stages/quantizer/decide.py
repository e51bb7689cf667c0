"""A quantisation file becomes a quantisation: calibrate, then keep the accuracy limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stages.compiler.passes.mean_first import made_means
from stages.compiler.quantization import Quantization, Range
from stages.quantizer.placement import simplified, surviving
from stages.quantizer.settings import Settings
from stages.quantizer.subject import Subject
from stages.recipe.kinds import Kind


@dataclass(frozen=True, slots=True)
class Decided:
    """The quantisation, where there is one, and the digests of the inputs that it was made with, by
    key of the file."""

    quantization: Quantization | None = None
    data_sha256: Mapping[str, str] = field(default_factory=dict)


def decide(settings: Settings, subject: Subject) -> Decided:
    """Calibrated and given ranges, and what stays in float for the accuracy limit.

    A model that comes quantised keeps its numbers; a note says so.

    Raises:
        InputError: a set of inputs is wrong, or the model can't be run on it.
        CompileError: the accuracy limit is missed even with every operator in float.
    """
    if any(op.kind in (Kind.QUANTIZE, Kind.DEQUANTIZE) for op in subject.graph.operators):
        note = (
            "quantisation: the model comes quantised and keeps its own numbers; the quantisation "
            "file changes nothing"
        )
        everything = frozenset(op.name for op in subject.graph.operators)
        return Decided(Quantization({}, everything, notes=(note,)))
    simple = simplified(subject.graph, subject.constants, subject.spec)
    keep = surviving(settings.keep, subject.graph, simple)
    means = made_means(subject.graph, simple)
    digests: dict[str, str] = {}
    notes: list[str] = []
    ranges: dict[str, Range] = {}
    factors: Mapping[str, tuple[float, ...]] = {}
    if settings.calibration is not None:
        # Not needed where ranges are given: the reference, histograms, equalisation.
        from stages.quantizer.calibration import calibrated

        data = subject.load(settings, "calibration", settings.calibration.data)
        digests["calibration"] = data.sha256
        found = calibrated(settings, settings.calibration, subject, simple, means, data)
        ranges, factors, notes = found.ranges, found.factors, found.notes
    ranges |= settings.ranges
    for name, mean in means.items():
        if mean.source in ranges:  # which no mean leaves
            ranges.setdefault(name, ranges[mean.source])
    quantization = Quantization(
        ranges,
        keep,
        settings.weights,
        settings.activations,
        tuple(notes),
        channel_factors=factors,
    )
    if settings.accuracy is not None:
        # Nor these where there is no limit: trials, the export of what they run.
        from stages.quantizer.limit import limited

        data = subject.load(settings, "accuracy", settings.accuracy.data)
        digests["accuracy"] = data.sha256
        quantization = limited(settings, settings.accuracy, subject, data, quantization, simple)
    return Decided(quantization, digests)
