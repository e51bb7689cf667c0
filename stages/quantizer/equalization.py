"""By how much each channel is scaled so that one range serves all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from stages.compiler.draft import Draft
from stages.compiler.passes.equalize_channels import Equalizable, equalizable
from stages.normalizer.sample_files import Sample
from stages.quantizer.histograms import Run
from stages.tensors import Array

_Doubles = NDArray[np.float64]
Factors = Mapping[str, tuple[float, ...]]
_MOST = 256.0
"""The largest ratio of two factors: what is smaller by more than 8 bits stays below the rest."""
_BITS = 8
_LEAST_WEIGHT = 1e-3
"""Of the largest; a channel that nothing reads must not decide what becomes of the others."""


def channel_factors(
    draft: Draft,
    names: Iterable[str],
    run: Run,
    samples: Iterable[Sample],
) -> dict[str, tuple[float, ...]]:
    """Factors of those of `names` whose channels the graph can scale; `draft` is the graph
    `simplified`, `run` gives the values of a sample."""
    wanted = set(names)
    found = [item for item in equalizable(draft) if item.value in wanted]
    sizes: dict[str, _Doubles] = {}
    for sample in samples:
        values = run(sample)
        for item in found:
            seen = _sizes(values[item.value], item.axis)
            sizes[item.value] = np.maximum(sizes.get(item.value, seen), seen)
    chosen = {
        item.value: _factors(sizes[item.value], item) for item in found if item.value in sizes
    }
    return {name: factors for name, factors in chosen.items() if factors is not None}


def equalized(draft: Draft, factors: Factors, run: Run) -> Run:
    """What `run` gives, scaled as `EqualizeChannels` scales it."""
    axes = {item.value: item.axis for item in equalizable(draft)}

    def scaled(sample: Sample) -> Mapping[str, Array]:
        values = dict(run(sample))
        for name, numbers in factors.items():
            if name in values:
                shape = [1] * values[name].ndim
                shape[axes[name]] = -1
                values[name] = values[name] / np.asarray(numbers).reshape(shape)
        return values

    return scaled


def _sizes(array: Array, axis: int) -> _Doubles:
    others = tuple(other for other in range(array.ndim) if other != axis)
    return np.asarray(np.abs(np.asarray(array, np.float64)).max(axis=others, initial=0.0))


def _factors(sizes: _Doubles, item: Equalizable) -> tuple[float, ...] | None:
    """The size of each channel where each reader's channel reads one alone. Else the root of size
    over weight, so that what the activation gains and what the weights lose are in balance (Nagel
    et al., 2019, equation 11, with sizes of activations in place of the first weights' ranges:
    those have a scale for each channel; Xiao et al., "SmoothQuant", 2023, equation 4, with alpha =
    0.5)."""
    largest = float(sizes.max(initial=0.0))
    if not np.isfinite(largest) or largest == 0 or sizes.size < 2:
        return None
    raw = np.where(sizes > 0, sizes, largest)
    if item.weight_sizes is not None:
        top = float(item.weight_sizes.max(initial=0.0))
        if not np.isfinite(top) or top == 0:
            return None
        raw = np.sqrt(raw / np.maximum(item.weight_sizes, _LEAST_WEIGHT * top))
    raw = np.maximum(raw, raw.max() / _MOST)
    # The largest value stays as large as it was.
    raw = raw * (float((sizes / raw).max()) / largest)
    mantissas, exponents = np.frexp(raw)
    # So few bits that another processor's last ones don't show.
    return tuple(np.ldexp(np.rint(mantissas * 2**_BITS) / 2**_BITS, exponents).tolist())
