"""Products whose sums no order of their terms can change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.tensors import Array, DType

_DOUBLE_BITS = 52
_LARGEST_EXPONENT = 120  # of an f32 that a scale must fit into


def factor_bits(length: int) -> int:
    """How many bits each factor of `length` products may have, so that f64 holds every sum of them
    without rounding. About 20; then neither the number of threads, nor the processor's vectors, nor
    the library change a bit of a sum."""
    return (_DOUBLE_BITS - max(length, 1).bit_length()) // 2


def on_grid(data: Array, bits: int) -> Array:
    """Floats rounded to multiples of a power of two, the largest of them to `bits` bits; what isn't
    finite, or isn't a float, is left as it is."""
    if not DType.of(data.dtype).is_float or not data.size:
        return data
    kind = np.float64 if data.dtype == np.float64 else np.float32
    floats: NDArray[np.floating[Any]] = np.asarray(data, kind)
    largest = max(abs(float(floats.max())), abs(float(floats.min())))
    if not np.isfinite(largest) or not largest:
        return data
    exponent = int(np.frexp(largest)[1]) - bits
    if abs(exponent) > _LARGEST_EXPONENT:
        return data
    scaled = floats * kind(2.0**-exponent)
    np.rint(scaled, out=scaled)
    scaled *= kind(2.0**exponent)
    return scaled
