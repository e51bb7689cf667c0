"""Whether two strided boxes of one memory share a byte."""

from __future__ import annotations

from dataclasses import dataclass

from stages.plan.instructions import Region

_BUDGET = 20_000
"""Steps after which the answer is "yes, perhaps": box overlap is hard in general, and real boxes
take a few dozen steps at most."""


@dataclass(frozen=True, slots=True)
class Box:
    """`run` bytes at `start + sum(index * stride)`, for every index of `axes`.

    `axes` holds (extent, stride) from the widest stride to the narrowest; `spans[i]` is the
    length of the bounding range of axes i and on.
    """

    start: int
    run: int
    axes: tuple[tuple[int, int], ...]
    spans: tuple[int, ...]


def box_of(region: Region) -> Box:
    """The bytes of a region, neighbouring elements merged into runs."""
    run = region.dtype.size_bytes
    axes = [
        (extent, stride)
        for extent, stride in zip(region.physical_shape, region.strides, strict=True)
        if extent > 1 and stride > 0
    ]
    axes.sort(key=lambda axis: axis[1])
    kept: list[tuple[int, int]] = []
    for extent, stride in axes:
        if not kept and stride <= run:
            run = stride * (extent - 1) + run
        elif kept and stride == kept[-1][0] * kept[-1][1]:
            kept[-1] = (kept[-1][0] * extent, kept[-1][1])
        else:
            kept.append((extent, stride))
    spans = [run]
    for extent, stride in kept:
        spans.append(spans[-1] + (extent - 1) * stride)
    return Box(region.address, run, tuple(reversed(kept)), tuple(reversed(spans)))


def boxes_overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share a byte: exact, or true once `_BUDGET` steps are spent."""
    return _Search(one, other).overlap(one.start - other.start, 0, 0)


class _Search:
    """Walks the widest axis first, keeping to the part where the bounding ranges meet."""

    def __init__(self, one: Box, other: Box) -> None:
        self._one = one
        self._other = other
        self._steps = 0

    def overlap(self, shift: int, at: int, to: int) -> bool:
        """Whether axes `at` on of one, moved by `shift` bytes, meet axes `to` on of other."""
        one, other = self._one, self._other
        if shift >= other.spans[to] or -shift >= one.spans[at]:
            return False
        self._steps += 1
        here = one.axes[at] if at < len(one.axes) else (1, 0)
        there = other.axes[to] if to < len(other.axes) else (1, 0)
        if self._steps > _BUDGET or (here[1] == 0 and there[1] == 0):
            return True
        if here[1] == there[1]:
            steps = range(1 - there[0], here[0])
            return self._any(steps, here[1], shift, at + 1, to + 1)
        if here[1] > there[1]:
            return self._any(range(here[0]), here[1], shift, at + 1, to)
        return self._any(range(1 - there[0], 1), there[1], shift, at, to + 1)

    def _any(self, indices: range, stride: int, shift: int, at: int, to: int) -> bool:
        """Whether any index of an axis leads to overlap; only those that could are tried."""
        low = -(self._one.spans[at] + shift - 1) // stride
        high = (self._other.spans[to] - 1 - shift) // stride
        first, last = max(indices.start, low), min(indices.stop - 1, high)
        return any(self.overlap(shift + index * stride, at, to) for index in range(first, last + 1))
