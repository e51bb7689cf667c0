"""A quantisation file becomes a quantisation: calibrate, then keep the accuracy limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from stages.compiler.passes.mean_first import Mean, made_means
from stages.compiler.quantization import Quantization, Range
from stages.errors import CompileError
from stages.hardware.spec import HardwareSpec
from stages.normalizer.reference_values import ReferenceValues
from stages.normalizer.sample_files import Sample
from stages.quantizer.closeness import Closeness, closeness, worst
from stages.quantizer.equalization import channel_factors, equalized
from stages.quantizer.histograms import Run, measure_extremes, measure_histograms
from stages.quantizer.placement import calibrated_values, simplified, surviving
from stages.quantizer.range_methods import entropy, mean_squared_error, min_max, percentile
from stages.quantizer.search import Found, Judge, Kept, fewest_in_float
from stages.quantizer.sets import InputSet, load_set
from stages.quantizer.settings import AccuracyLimit, Calibration, Equalize, Method, Settings
from stages.quantizer.trial import Remembered, Trial, reading_quantized
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.tensors import Array

_NAMED = 8


@dataclass(frozen=True, slots=True)
class Decided:
    """The quantisation, where there is one, and the digests of the inputs that it was made with, by
    key of the file."""

    quantization: Quantization | None = None
    data_sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """A normalised model, imported, its device, and the samples that came with it."""

    model: Path
    graph: Graph
    constants: Mapping[str, Array]
    spec: HardwareSpec
    samples_file: Path
    sample: Sample | None

    def load(self, settings: Settings, key: str, data: str) -> InputSet:
        """A set of inputs that the file names."""
        types = {name: self.graph.types[name] for name in self.graph.inputs}
        return load_set(data, key, settings.path, self.samples_file, types)


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
    factors: dict[str, tuple[float, ...]] = {}
    if settings.calibration is not None:
        data = subject.load(settings, "calibration", settings.calibration.data)
        digests["calibration"] = data.sha256
        names = calibrated_values(subject.graph, simple, subject.spec)
        wanted = [name for name in names if name not in settings.ranges]
        run = _values(subject, wanted, means)
        if settings.calibration.equalize is Equalize.CHANNELS:
            factors = channel_factors(simple, wanted, run, data.samples)
            run = equalized(simple, factors, run)
        ranges, notes = _calibrated(settings, settings.calibration, data, wanted, run)
        if factors:
            notes.append(f"quantisation: channels of {_listed(list(factors))} equalised")
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
        data = subject.load(settings, "accuracy", settings.accuracy.data)
        digests["accuracy"] = data.sha256
        candidates = reading_quantized(simple, quantization)
        quantization = _limited(
            settings, settings.accuracy, subject, data, quantization, candidates
        )
    return Decided(quantization, digests)


def _values(subject: Subject, wanted: Sequence[str], means: Mapping[str, Mean]) -> Run:
    """What gives the wanted values for a sample, means that the compiler makes among them."""
    sources = [mean.source for mean in means.values()]
    values = ReferenceValues(subject.model, [*wanted, *sources])

    def run(sample: Sample) -> Mapping[str, Array]:
        found = {**sample, **values.run(sample)}
        return found | {
            name: _mean(found[mean.source]) for name, mean in means.items() if mean.source in found
        }

    return run


def _calibrated(
    settings: Settings,
    calibration: Calibration,
    data: InputSet,
    wanted: Sequence[str],
    run: Run,
) -> tuple[dict[str, Range], list[str]]:
    extremes = measure_extremes(run, data.samples, wanted)
    usable = {name: found for name, found in extremes.items() if found.is_finite}
    usable = {name: found for name, found in usable.items() if found.magnitude > 0}
    if calibration.method is Method.MIN_MAX:
        ranges = {name: min_max(found) for name, found in usable.items()}
    else:
        histograms = measure_histograms(run, data.samples, usable)
        ranges = {}
        for name, histogram in histograms.items():
            match calibration.method:
                case Method.PERCENTILE:
                    found = percentile(histogram, calibration.percentile, settings.activations)
                case Method.ENTROPY:
                    found = entropy(histogram)
                case Method.MSE:
                    found = mean_squared_error(histogram, settings.activations)
            ranges[name] = found
    note = (
        f"quantisation: {len(ranges)} ranges by {calibration.words} from {len(data.samples)} "
        f"samples, weights {settings.weights}, activations {settings.activations}"
    )
    left = [name for name in wanted if name not in ranges]
    if left:
        note += f"; in float for want of finite values other than zero: {_listed(left)}"
    return ranges, [note]


def _mean(image: Array) -> Array:
    """The mean of each channel of [batch, channel, *spatial]."""
    data = np.asarray(image, np.float64)
    return np.asarray(data.mean(axis=tuple(range(2, data.ndim))))


def _limited(
    settings: Settings,
    limit: AccuracyLimit,
    subject: Subject,
    data: InputSet,
    quantization: Quantization,
    candidates: tuple[str, ...],
) -> Quantization:
    """The quantisation with as few more operators in float as the limit asks for."""
    order = list(range(len(data.samples)))
    reference = ReferenceValues(subject.model, ())
    expected = [reference.outputs(sample) for sample in data.samples]

    def trial(kept: Kept, sample: Sample | None) -> Trial:
        tried = replace(quantization, keep=quantization.keep | kept)
        return Trial(subject.graph, subject.constants, subject.spec, tried, sample)

    def measure(kept: Kept) -> Closeness:
        tried = trial(kept, subject.sample)
        return worst(
            closeness(tried.run(sample), outputs, limit)
            for sample, outputs in zip(data.samples, expected, strict=True)
        )

    def attempt(kept: Kept) -> Closeness | None:
        tried = trial(kept, subject.sample)
        reached = Closeness()
        for seen, place in enumerate(tuple(order), start=1):
            found = tried.run(data.samples[place])
            reached = reached.worse(closeness(found, expected[place], limit))
            if not reached.may_meet(limit, seen / len(order)):
                # What one trial stumbles over is likely to trip the next: it goes first.
                order.remove(place)
                order.insert(0, place)
                return None
        return reached

    remembered = Remembered()

    def rank(kept: Kept) -> Closeness:
        """On the first sample, without the correction of biases."""
        return closeness(trial(kept, None).run(data.samples[0], remembered), expected[0], limit)

    judge = Judge(measure, attempt, rank, lambda reached: reached.meets(limit))
    found = fewest_in_float(candidates, judge)
    if found.kept is None:
        raise CompileError(
            f"the accuracy limit, {limit.words}, is missed even with every operator in float: "
            f"{found.reached.words(limit)} (int8 alone: {found.in_int8.words(limit)})",
            where=f"{settings.path}: accuracy",
            hint="loosen the limit; what the device's own float computes can't be bettered",
        )
    return replace(
        quantization,
        keep=quantization.keep | set(found.kept),
        notes=(*quantization.notes, _search_note(found, limit, len(candidates), len(data.samples))),
        weighed=(*quantization.weighed, *_weighed(found, limit)),
    )


def _search_note(found: Found, limit: AccuracyLimit, candidates: int, samples: int) -> str:
    assert found.kept is not None
    judged = f"on {samples} samples, the limit is {limit.words}"
    if not found.kept:
        return f"accuracy: int8 reaches {found.reached.words(limit)} {judged}; no search"
    return (
        f"accuracy: {len(found.kept)} of {candidates} operators in float reach "
        f"{found.reached.words(limit)} {judged} (int8 alone: {found.in_int8.words(limit)}); "
        f"ranked one at a time, grown and dropped in {found.trials} trials: "
        + ", ".join(found.kept)
    )


def _weighed(found: Found, limit: AccuracyLimit) -> tuple[Weighed, ...]:
    """One for each operator left in float: what it does alone in int8, and why it stays."""
    assert found.kept is not None
    alone = dict(found.alone)
    return tuple(
        Weighed(
            subject=name,
            question="accuracy",
            alternatives=(
                Alternative("int8", None, f"alone in int8: {alone[name].words(limit)}"),
                Alternative("float", None, f"with the others: {found.reached.words(limit)}"),
            ),
            chosen="float",
            bound=f"the accuracy limit, {limit.words}, is missed without it",
        )
        for name in found.kept
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
