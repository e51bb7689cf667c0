"""What a compiler decides about a graph: groups, placement, tiles, layouts, lifetimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stages.recipe.graph import Graph
from stages.tensors import ROW_MAJOR, Layout, Shape


class Engine(StrEnum):
    """The class of engine that runs a group."""

    TENSOR_CORE = "tensor_core"
    VECTOR = "vector"
    DMA = "dma"
    HOST = "host"
    NONE = "none"  # a view: no instruction is needed


class Lifetime(StrEnum):
    """Lifetime classes of buffers."""

    WEIGHTS = "weights"  # as long as the package is loaded
    LONG_LIVED = "long_lived"  # model inputs, outputs, and what a whole inference needs
    SCOPED = "scoped"  # from its producer to its last consumer
    EPHEMERAL = "ephemeral"  # within a group or cascade: slots, accumulators, rolling buffers


@dataclass(frozen=True, slots=True)
class Tile:
    """How a group's work is cut.

    `extents`: the output box of one step, along each logical axis. `reduction`: how many input
    channels (or k) one step contracts; 0 where the group contracts nothing. `order`: the output
    axes from the outermost loop to the innermost. `slots`: buffers for each streamed operand.
    """

    extents: Shape
    reduction: int = 0
    order: tuple[int, ...] = ()
    slots: int = 2


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that run as one: the first does the work, the others act on its result.

    `reason` says why a group is on the host; it is empty elsewhere.
    """

    name: str
    operators: tuple[str, ...]
    engine: Engine = Engine.HOST
    reason: str = ""
    tile: Tile | None = None


@dataclass(frozen=True, slots=True)
class Cascade:
    """Neighbouring groups that run in stripes: each makes what the next one's stripe reads, and
    then they all go on to the next stripe, so that what passes between them is never whole.

    `groups`: their names, in execution order. `axis`: the axis of the last group's result along
    which it is cut. `stripe`: its extent along that axis in one round. What passes between the
    groups lies in rolling buffers: allocations of lifetime `ephemeral`.
    """

    groups: tuple[str, ...]
    axis: int
    stripe: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where a value lies: `[offset_bytes, offset_bytes + size_bytes)` of a memory, live from group
    number `start` up to, not including, `stop`."""

    memory: str
    offset_bytes: int
    size_bytes: int
    lifetime: Lifetime
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Target:
    """The hardware spec that a recipe was made for."""

    hardware: str
    version: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A graph and every decision about it. Groups are in execution order and cover the graph."""

    graph: Graph
    target: Target
    groups: tuple[Group, ...]
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    allocations: Mapping[str, Allocation] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cascades: tuple[Cascade, ...] = ()

    def layout(self, value: str) -> Layout:
        """The layout of a value: row-major unless decided otherwise."""
        return self.layouts.get(value, ROW_MAJOR)

    @property
    def fallbacks(self) -> tuple[Group, ...]:
        """The groups that run on the host."""
        return tuple(group for group in self.groups if group.engine is Engine.HOST)
