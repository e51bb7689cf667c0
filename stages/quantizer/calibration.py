"""Ranges of activations, from what they are on a set of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stages.compiler.draft import Draft
from stages.compiler.passes.mean_first import Mean
from stages.compiler.quantization import Range
from stages.normalizer.reference_values import ReferenceValues
from stages.normalizer.sample_files import Sample
from stages.quantizer.equalization import channel_factors, equalized
from stages.quantizer.histograms import Run, measure_extremes, measure_histograms
from stages.quantizer.placement import calibrated_values
from stages.quantizer.range_methods import entropy, mean_squared_error, min_max, percentile
from stages.quantizer.sets import InputSet
from stages.quantizer.settings import Calibration, Equalize, Method, Settings
from stages.quantizer.subject import Subject
from stages.tensors import Array

_NAMED = 8


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Ranges by value, the factors of equalised channels, and what is to be noted."""

    ranges: dict[str, Range]
    factors: Mapping[str, tuple[float, ...]]
    notes: list[str]


def calibrated(
    settings: Settings,
    calibration: Calibration,
    subject: Subject,
    simple: Draft,
    means: Mapping[str, Mean],
    data: InputSet,
) -> Calibrated:
    """Measure the values of a simplified graph that the file gives no range for, on `data`. Where
    the file asks for it, channels are equalised first."""
    names = calibrated_values(subject.graph, simple, subject.spec)
    wanted = [name for name in names if name not in settings.ranges]
    run = _values(subject, wanted, means)
    factors: Mapping[str, tuple[float, ...]] = {}
    if calibration.equalize is Equalize.CHANNELS:
        factors = channel_factors(simple, wanted, run, data.samples)
        run = equalized(simple, factors, run)
    ranges, notes = _measured(settings, calibration, data, wanted, run)
    if factors:
        notes.append(f"quantisation: channels of {_listed(list(factors))} equalised")
    return Calibrated(ranges, factors, notes)


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


def _measured(
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


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
