"""Who lies where, and when: the memories of a plan as text, with a picture of the SRAM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from stages.hardware.spec import HardwareSpec, Memory
from stages.plan.instructions import Buffer, Plan
from stages.plan.syntax import print_name

PICTURE_ROWS = 16
PICTURE_COLUMNS = 64
_MARKS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FREE, _RESERVED = ".", "="


@dataclass(frozen=True, slots=True)
class Usage:
    """What the buffers of one memory take, in bytes.

    `peak_bytes` is the highest address in use less the reserved bytes, `bound_bytes` the most
    bytes that are live at once: no placement can have a lower peak. `tightest` is an instruction
    where the bound is met.
    """

    peak_bytes: int
    bound_bytes: int
    tightest: int

    @property
    def fragmentation(self) -> float:
        """The share of the peak that placement wastes: 0 where the peak meets its bound."""
        return 1.0 - self.bound_bytes / self.peak_bytes if self.peak_bytes else 0.0


def memory_usage(buffers: Sequence[Buffer], memory: Memory) -> Usage:
    """Peak and lower bound of the buffers that lie in this memory."""
    mine = [buffer for buffer in buffers if buffer.memory == memory.name]
    top = max((buffer.address + buffer.size_bytes for buffer in mine), default=0)
    changes: dict[int, int] = {}
    for buffer in mine:
        changes[buffer.start] = changes.get(buffer.start, 0) + buffer.size_bytes
        changes[buffer.stop] = changes.get(buffer.stop, 0) - buffer.size_bytes
    instants = sorted(changes)
    totals = list(accumulate(changes[instant] for instant in instants))
    bound = max(totals, default=0)
    tightest = instants[totals.index(bound)] if totals else 0
    return Usage(max(top - memory.reserved_bytes, 0) if mine else 0, bound, tightest)


def print_memory_map(plan: Plan, spec: HardwareSpec) -> str:
    """Each memory's peak, its lower bound and its buffers by address; and for the SRAM a picture,
    time to the right, addresses upwards."""
    lines: list[str] = []
    for memory in (spec.sram, spec.ddr):
        mine = [buffer for buffer in plan.buffers if buffer.memory == memory.name]
        lines.extend(_print_usage(mine, memory))
        marks = {}
        if memory is spec.sram and mine:
            marks = _marks(mine)
            lines.extend(_picture(mine, marks, memory, len(plan.instructions)))
        lines.extend(_print_buffers(mine, marks))
        lines.append("")
    return "\n".join(lines)


def _print_usage(mine: Sequence[Buffer], memory: Memory) -> Iterator[str]:
    usage = memory_usage(mine, memory)
    usable = memory.usable_bytes
    yield (
        f"{memory.name}: {len(mine)} buffers, peak {usage.peak_bytes} B of {usable} B "
        f"({_percent(usage.peak_bytes, usable)})"
    )
    if mine:
        yield (
            f"  lower bound {usage.bound_bytes} B live at instruction {usage.tightest}; "
            f"fragmentation {usage.fragmentation:.1%}"
        )


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole > 0 else "of nothing"


def _marks(mine: Sequence[Buffer]) -> dict[str, str]:
    """A letter for each buffer, in order of birth; letters repeat where they run out."""
    ordered = sorted(mine, key=lambda buffer: (buffer.start, buffer.address, buffer.name))
    return {buffer.name: _MARKS[i % len(_MARKS)] for i, buffer in enumerate(ordered)}


def _picture(
    mine: Sequence[Buffer], marks: dict[str, str], memory: Memory, end: int
) -> Iterator[str]:
    """Rows of equal slices of addresses, columns of equal slices of the program."""
    top = max(buffer.address + buffer.size_bytes for buffer in mine)
    columns = min(max(end, 1), PICTURE_COLUMNS)
    step = -(-top // PICTURE_ROWS)
    step += -step % memory.alignment_bytes
    rows = -(-top // step)
    areas: dict[tuple[int, int], dict[str, int]] = {}
    for buffer in mine:
        spread = list(_shares(buffer.start, buffer.stop, max(end, 1), columns))
        for row, held in _shares(buffer.address, buffer.address + buffer.size_bytes, step):
            for column, lasted in spread:
                areas.setdefault((row, column), {})[buffer.name] = held * lasted
    reserved = range(memory.reserved_bytes // step)
    for row in reversed(range(rows)):
        empty = _RESERVED if row in reserved else _FREE
        cells = (areas.get((row, column), {}) for column in range(columns))
        line = "".join(marks[_largest(cell)] if cell else empty for cell in cells)
        yield f"  {row * step:#08x} |{line}|"
    yield f"  {'':8} 0{f'instruction {end}':>{max(columns, 16)}}"
    yield f"  a cell shows the buffer that holds most of it; {_FREE} free, {_RESERVED} reserved"


def _shares(start: int, stop: int, span: int, cells: int = 0) -> Iterator[tuple[int, int]]:
    """Each cell that `[start, stop)` meets, and how much of it it takes.

    A cell is `span` long; where `cells` is given, that many cells divide the span instead.
    """
    scale = cells or 1
    first, last = start * scale // span, -(-stop * scale // span)
    for cell in range(first, last):
        yield cell, min(stop * scale, (cell + 1) * span) - max(start * scale, cell * span)


def _largest(cell: dict[str, int]) -> str:
    return max(cell, key=lambda name: (cell[name], name))


def _print_buffers(mine: Sequence[Buffer], marks: dict[str, str]) -> Iterator[str]:
    for buffer in sorted(mine, key=lambda buffer: (buffer.address, buffer.start, buffer.name)):
        mark = f"{marks[buffer.name]} " if marks else ""
        yield (
            f"  {mark}[{buffer.address:#08x}, {buffer.address + buffer.size_bytes:#08x}) "
            f"{buffer.size_bytes:>10} B  live [{buffer.start}, {buffer.stop}) "
            f"{buffer.lifetime:<10} %{print_name(buffer.name)}"
        )
