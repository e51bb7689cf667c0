"""Room kept for large buffers that are still to come.

Small buffers are spread over a memory as bytes come free, and one of them in the middle of what
is left can stand in the way of a large one until its own last touch. So each buffer during whose
life a large one must find a place leaves alone what that one will need, wherever it will lie.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.schedule.dependencies import BufferUse
from stages.compiler.schedule.pool import Span

_LARGE = 8
"""A buffer of one part in so many of the memory, or more, is large."""


@dataclass(slots=True)
class Outlook:
    """The buffers of a memory of the bytes `[base, limit)`: `queue` are their numbers in the order
    in which they get their places, `lying` the bytes of those that have one."""

    buffers: Sequence[BufferUse]
    queue: Sequence[int]
    base: int
    limit: int
    alignment: int
    lying: dict[int, Span] = field(default_factory=dict)
    coming: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        least = (self.limit - self.base) // _LARGE
        places, large = [], []
        for at, number in enumerate(self.queue):
            if self.buffers[number].size_bytes >= least:
                places.append(at)
                large.append(number)
        self.coming = {}
        for at, number in enumerate(self.queue):
            other = self._largest(number, large, bisect_right(places, at))
            if other is not None:
                self.coming[number] = other

    def _largest(self, number: int, large: Sequence[int], start: int) -> int | None:
        """The largest in a buffer's life of the large buffers from the `start`-th on."""
        last = self.buffers[number].last
        best: int | None = None
        for at in range(start, len(large)):
            other = self.buffers[large[at]]
            if other.first > last:
                break
            if best is None or other.size_bytes > self.buffers[best].size_bytes:
                best = large[at]
        return best

    def spared(self, number: int) -> list[Span]:
        """The bytes that a buffer had best leave alone: those that the largest one to come needs
        wherever it lies in the only gap that will hold it, or the widest gap where none will."""
        if number not in self.coming:
            return []
        coming = self.buffers[self.coming[number]]
        size = coming.taken_bytes(self.alignment)
        gaps = self._gaps(coming.first)
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= size]
        if not fitting:
            return [max(gaps, key=lambda gap: gap[1] - gap[0])] if gaps else []
        low, high = fitting[0]
        if len(fitting) > 1 or high - size >= low + size:
            return []
        return [(high - size, low + size)]

    def _gaps(self, time: int) -> list[Span]:
        """What lies between the buffers of now that still live when an instruction comes."""
        gaps = []
        low = self.base
        for start, stop in sorted(
            [span for number, span in self.lying.items() if self.buffers[number].last >= time]
        ):
            if low < start:
                gaps.append((low, start))
            low = max(low, stop)
        if low < self.limit:
            gaps.append((low, self.limit))
        return gaps

    def forget(self, number: int) -> None:
        """Let a buffer lie wherever there is room."""
        self.coming.pop(number, None)
