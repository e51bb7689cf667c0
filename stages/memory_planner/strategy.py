"""How a search chooses the next buffer: which section to fill, and which of its buffers first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stages.memory_planner.problem import Buffer
from stages.memory_planner.sweep import Sweep


class Focus(Enum):
    """Where the next buffer is placed."""

    LOWEST_BUFFER = "lowest buffer"
    LOWEST_SECTION = "lowest section"
    FULLEST_SECTION = "fullest section"


class Feature(Enum):
    """What a static order compares, largest first."""

    TOTAL = "bytes still to place in its fullest section"
    WIDTH = "length of its lifetime"
    AREA = "size times width"
    SECTIONS = "number of sections that it crosses"
    OVERLAPS = "number of buffers that it meets"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A focus, and the order in which buffers with equal offsets are tried."""

    focus: Focus
    order: tuple[Feature, ...]


# The features' order in MiniMalloc (Moffitt, ASPLOS 2023) is WAT, TAW, TWA. The focuses are ours.
# Which strategies stand first was chosen by their steps on MiniMalloc's eleven instances.
PORTFOLIO = (
    Strategy(Focus.LOWEST_BUFFER, (Feature.TOTAL, Feature.WIDTH, Feature.AREA)),
    Strategy(Focus.LOWEST_SECTION, (Feature.TOTAL, Feature.AREA, Feature.WIDTH)),
    Strategy(Focus.LOWEST_SECTION, (Feature.TOTAL, Feature.WIDTH, Feature.AREA)),
    Strategy(Focus.LOWEST_BUFFER, (Feature.SECTIONS, Feature.TOTAL, Feature.AREA)),
    Strategy(Focus.FULLEST_SECTION, (Feature.TOTAL, Feature.WIDTH, Feature.AREA)),
    Strategy(Focus.LOWEST_BUFFER, (Feature.OVERLAPS, Feature.AREA)),
)


def ranked(
    numbers: Sequence[int],
    order: tuple[Feature, ...],
    buffers: Sequence[Buffer],
    sections: Sweep,
    totals: Sequence[int],
) -> tuple[int, ...]:
    """Buffers in a strategy's order; `totals` are the bytes still to place in each section."""

    def value(feature: Feature, number: int) -> int:
        buffer = buffers[number]
        match feature:
            case Feature.TOTAL:
                return max(totals[sections.first[number] : sections.last[number]])
            case Feature.WIDTH:
                return buffer.upper - buffer.lower
            case Feature.AREA:
                return buffer.area
            case Feature.SECTIONS:
                return sections.last[number] - sections.first[number]
            case Feature.OVERLAPS:
                return len(sections.neighbours[number])

    keyed = [(*(-value(feature, number) for feature in order), number) for number in numbers]
    return tuple(key[-1] for key in sorted(keyed))
