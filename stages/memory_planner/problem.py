"""Buffers that may share memory where their lifetimes don't meet, and the memory they must fit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer: `size_bytes` (above 0), live over the half-open interval `[lower, upper)`.

    Its offset must be a multiple of `alignment_bytes`, and is `fixed_offset_bytes` where that is
    given.

    Raises:
        InputError: an empty lifetime, a size or alignment below 1, or a fixed offset that is
            negative or not aligned.
    """

    name: str
    lower: int
    upper: int
    size_bytes: int
    alignment_bytes: int = 1
    fixed_offset_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.lower >= self.upper:
            raise self._wrong(
                f"its lifetime [{self.lower}, {self.upper}) is empty",
                "lifetimes are half-open: give an upper end above the lower one",
            )
        if self.size_bytes < 1:
            raise self._wrong(f"its size is {self.size_bytes} B", "leave empty buffers out")
        if self.alignment_bytes < 1:
            raise self._wrong(f"its alignment is {self.alignment_bytes} B", "give 1 B or more")
        fixed = self.fixed_offset_bytes
        if fixed is not None and (fixed < 0 or fixed % self.alignment_bytes):
            raise self._wrong(
                f"its fixed offset {fixed} is no multiple of its alignment, "
                f"{self.alignment_bytes} B",
                "fix it at an aligned offset from 0 up, or not at all",
            )

    @property
    def area(self) -> int:
        """Bytes times the length of the lifetime."""
        return self.size_bytes * (self.upper - self.lower)

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are live at some instant."""
        return self.lower < other.upper and other.lower < self.upper

    def _wrong(self, what: str, cure: str) -> InputError:
        return InputError(f"buffer {self.name}: {what}", where="memory planner", hint=cure)


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers with distinct names, and the bytes that they must share.

    Raises:
        InputError: a capacity below 0, or two buffers with one name.
    """

    buffers: tuple[Buffer, ...]
    capacity_bytes: int

    def __post_init__(self) -> None:
        if self.capacity_bytes < 0:
            raise InputError(
                f"a memory can't have {self.capacity_bytes} B",
                where="memory planner",
                hint="give a capacity from 0 up",
            )
        seen: set[str] = set()
        for buffer in self.buffers:
            if buffer.name in seen:
                raise InputError(
                    f"two buffers are named {buffer.name}",
                    where="memory planner",
                    hint="give each buffer a name of its own",
                )
            seen.add(buffer.name)


@dataclass(frozen=True, slots=True)
class Load:
    """What is live over `[instant, until)`: a lower bound of any solution's peak."""

    instant: int
    until: int
    live_bytes: int


def profile(buffers: tuple[Buffer, ...]) -> tuple[Load, ...]:
    """The live bytes between every two instants at which a lifetime starts or ends."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.lower] = changes.get(buffer.lower, 0) + buffer.size_bytes
        changes[buffer.upper] = changes.get(buffer.upper, 0) - buffer.size_bytes
    live = 0
    loads = []
    for instant, until in pairwise(sorted(changes)):
        live += changes[instant]
        loads.append(Load(instant, until, live))
    return tuple(loads)


def max_live_bytes(buffers: tuple[Buffer, ...]) -> int:
    """The most bytes live at one instant: no solution has a lower peak."""
    return max((load.live_bytes for load in profile(buffers)), default=0)
