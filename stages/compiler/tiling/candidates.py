"""Which tiles are weighed: extents along each axis, spans of the contraction, orders of loops."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from stages.compiler.tiling.footprint import cut_axis
from stages.compiler.tiling.streams import align
from stages.compiler.tiling.workload import PARTIAL, Workload
from stages.hardware.spec import HardwareSpec
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import LayoutKind, Shape

_MIN_REDUCTION = 64
_MOST_HEADS = 4


def extents_of(work: Workload) -> list[Shape]:
    """Candidate extents: channels of contractions on their own, the other axes nested, so that an
    outer axis is cut to the bone before an inner one is cut. Images are also cut by rows before
    their channels are, so that a group can go on where the one before it has left off."""
    shape = work.result_type.shape
    channel = channel_axis(work)
    channels = axis_cuts(work, channel) if channel is not None else [0]
    found: dict[Shape, None] = {}
    for axes in _nests(work):
        nest = [axis for axis in axes if axis != channel]
        for outer in _nested(work, nest):
            for extent in channels:
                chosen = [outer.get(axis, shape[axis]) for axis in range(len(shape))]
                if channel is not None:
                    chosen[channel] = extent
                found[tuple(chosen)] = None
    return list(found)


def axis_cuts(work: Workload, axis: int) -> list[int]:
    """Extents along an axis, from the whole down, in balanced parts."""
    full, step = work.result_type.shape[axis], work.granularity(axis)
    found: dict[int, None] = {full: None}
    parts = 2
    while parts < 2 * full:
        for number in (parts, parts * 3 // 2):
            extent = align(-(-full // number), step)
            if extent < full:
                found[extent] = None
        parts *= 2
    if work.head_extent and work.head_extent % step == 0 and axis == channel_axis(work):
        # Whole heads, so that what reads the first one needn't wait for a part of the next.
        found |= dict.fromkeys(_whole_heads(work.head_extent, full))
    return [*found, *reversed(work.inner_extents(axis))]


def _whole_heads(extent: int, full: int) -> list[int]:
    counts = [count for count in range(1, _MOST_HEADS + 1) if full % (count * extent) == 0]
    return [count * extent for count in reversed(counts) if count * extent < full]


def reductions_of(work: Workload, spec: HardwareSpec) -> list[int]:
    """Spans of the contracted axis: the whole, then halves while they stay worth a step."""
    extent = work.reduction_extent
    found = [extent]
    contraction = work.seed.kind in CONTRACTIONS
    if not _joins_parts(work, spec):
        return found
    blocks = [work.layout(name).quantum for name in work.operands]
    quantum = lcm(*blocks) if contraction or _reduces_channels(work) else 1
    smallest = _MIN_REDUCTION if contraction else 1
    while found[-1] // 2 >= smallest:
        found.append(align(found[-1] // 2, quantum))
        if found[-1] == found[-2]:
            return found[:-1]
    return found


def orders_of(work: Workload) -> list[tuple[int, ...]]:
    """Orders of the loops over a result's axes: of a contraction the channels innermost, or
    outermost, so that the inputs or the weights stay where they are."""
    rank = work.result_type.rank
    natural = tuple(range(rank))
    channel = channel_axis(work)
    if rank >= 3 and channel is None and work.layout(work.result).kind is not LayoutKind.ROW_MAJOR:
        return [(0, *range(2, rank), 1)]
    if channel is None or rank < 2:
        return [natural]
    others = [axis for axis in natural if axis != channel]
    if work.seed.kind is Kind.MATMUL:
        return [natural, (*others[:-1], channel, others[-1])]
    return [(*others, channel), (channel, *others)]


def channel_axis(work: Workload) -> int | None:
    """The axis of the result along which a contraction's weights go."""
    if work.seed.kind is Kind.MATMUL:
        return work.result_type.rank - 1
    if work.seed.kind in (Kind.CONV, Kind.CONV_TRANSPOSE):
        return 1
    return None


def _nests(work: Workload) -> list[list[int]]:
    rank = work.result_type.rank
    by_rows = [0, *range(2, rank), 1]
    kind = work.layout(work.result).kind
    if kind is LayoutKind.NHWC:
        return [by_rows]
    if kind is LayoutKind.NC1HWC2:
        return [by_rows, list(range(rank))]
    return [list(range(rank))]


def _nested(work: Workload, axes: list[int]) -> Iterator[dict[int, int]]:
    shape = work.result_type.shape
    chosen = {axis: shape[axis] for axis in axes}
    yield dict(chosen)
    for axis in axes:
        for extent in axis_cuts(work, axis)[1:]:
            chosen[axis] = extent
            yield dict(chosen)


def _reduces_channels(work: Workload) -> bool:
    """Whether a reduction is cut along the channels, which a layout may keep in blocks."""
    seed = work.seed
    shape = work.types[seed.inputs[0]].shape if seed.inputs else ()
    return seed.kind in PARTIAL and len(shape) > 2 and cut_axis(seed, shape) == 1


def _joins_parts(work: Workload, spec: HardwareSpec) -> bool:
    """Whether the engine can go on from what it stored of a reduction."""
    joining = PARTIAL.get(work.seed.kind)
    if work.seed.kind in CONTRACTIONS:
        return joining in spec.tensor_core.output_stage
    listed = spec.operators.get(joining) if joining is not None else None
    return listed is not None and listed.engine == work.group.engine
