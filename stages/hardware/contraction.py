"""Cycles of the tensor core: systolic and dot-product arrays, and blocks on multiprocessors.

A part of the cost model; see `cost.py` for the rules that all of it keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

from stages.hardware.spec import Dataflow, TensorCore
from stages.tensors import DType
from stages.units import ceil_div

ALL_PERMILLE = 1000
_SUM_BYTES = 4  # partial sums of a product that is split along k are f32 or i32


@dataclass(frozen=True, slots=True)
class _Product:
    """`groups` products of m x k by k x n, `k` = taps x input channels, in `dtype`."""

    m: int
    n: int
    k: int
    groups: int
    taps: int
    dtype: DType


def contraction_cycles(
    core: TensorCore, m: int, n: int, k: int, groups: int, taps: int, dtype: DType
) -> int:
    """Cycles of `groups` products of m x k by k x n, `k` = taps x input channels, in `dtype`.

    Never below `groups*m*n*k` over the peak rate; grows (or stays) with m, n, k and groups.
    A depthwise product (k = taps, n = 1, several groups) takes `macs / depthwise rate` where the
    core has such a mode and it is the faster. What comes out is divided by the efficiency that
    the core has for `dtype`, and rounded up.

    Raises:
        ValueError: a negative extent, no tap, or a type that the core doesn't multiply.
    """
    if min(m, n, k, groups) < 0 or taps < 1:
        raise ValueError(f"no contraction: m={m} n={n} k={k} groups={groups} taps={taps}")
    if dtype not in core.macs_per_cycle:
        raise ValueError(f"the tensor core doesn't multiply {dtype}")
    macs = groups * m * n * k
    if macs == 0:
        return 1
    rate = core.macs_per_cycle[dtype]
    array_rate = core.macs_per_cycle[core.array_dtype]
    cycles = _dense_cycles(core, _Product(m, n, k, groups, taps, dtype))
    if groups > 1 and n == 1 and k == taps and core.depthwise_macs_per_cycle:
        depthwise = ceil_div(macs * array_rate, core.depthwise_macs_per_cycle * rate)
        cycles = min(cycles, depthwise + core.fill_cycles)
    efficiency = core.efficiency_permille.get(dtype, ALL_PERMILLE)
    return max(1, ceil_div(max(cycles, ceil_div(macs, rate)) * ALL_PERMILLE, efficiency))


def drained_cycles(
    core: TensorCore,
    cycles: int,
    blocks: int,
    kinds: Iterable[str],
    element_bytes: int,
) -> int:
    """Cycles of a contraction whose results drain, while it computes, in `blocks` of up to `cols`
    channels of `element_bytes` through an output stage that does `kinds`.

    The stages are a pipeline: the slowest kind counts. A Rockchip NPU's table of functions passes
    two results a cycle or less, so a thin layer with SiLU waits for it and not for its MACs.
    """
    by_kind = core.output_cycles_by_kind
    slowest = max((by_kind.get(kind, 0) for kind in kinds), default=0)
    return max(cycles, blocks * element_bytes * max(slowest, core.default_output_cycles))


def output_blocks(core: TensorCore, m: int, n: int, groups: int) -> int:
    """Blocks of `cols` channels in which the results of a contraction drain; the groups of a
    depthwise one lie side by side as channels."""
    if n == 1:
        return m * ceil_div(groups, core.cols)
    return m * groups * ceil_div(n, core.cols)


def driven_cycles(core: TensorCore, cycles: int, strides: Iterable[int]) -> int:
    """Cycles of a contraction whose input has these strides, in bytes.

    A stride off the lane alignment drives `misaligned_lanes` of the `lanes`, for so much longer.
    """
    if all(stride % core.lane_alignment_bytes == 0 for stride in strides):
        return cycles
    return ceil_div(cycles * core.lanes, core.misaligned_lanes)


def gathered_cycles(
    core: TensorCore, cycles: int, channels: int, strides: Iterable[int], size_bytes: int
) -> int:
    """Cycles of a contraction whose input of `size_bytes` is read at these spatial strides.

    An array that reads neighbouring pixels alone has a strided input put together first. An image
    is read as it comes, and so is a depthwise convolution's input: both have few `channels` a
    group.
    """
    few = channels <= max(1, core.image_channels)
    if not core.strided_input_bytes or few or all(stride == 1 for stride in strides):
        return cycles
    return cycles + ceil_div(size_bytes, core.strided_input_bytes)


def _dense_cycles(core: TensorCore, work: _Product) -> int:
    """Cycles of a contraction without the depthwise mode."""
    rate = core.macs_per_cycle[work.dtype]
    match core.dataflow:
        case Dataflow.DOT_PRODUCT:
            return _dot_product_cycles(core, work)
        case Dataflow.BLOCKED:
            return _blocked_cycles(core, work)
        case _:
            array_rate = core.macs_per_cycle[core.array_dtype]
            return ceil_div(_systolic_cycles(core, work) * array_rate, rate) + core.fill_cycles


def _systolic_cycles(core: TensorCore, work: _Product) -> int:
    """Cycles on a systolic array, in the type for which it has its shape.

    SCALE-Sim 3.0.0's compute cycles (scalesim/compute/systolic_compute_{os,ws,is}.py: each fold
    fills the array, streams, and drains): for an R x C array, output stationary
    ceil(M/R)*ceil(N/C)*(R+C+K-2)-1, weight stationary ceil(K/R)*ceil(N/C)*(2R+C+M-2)-1, input
    stationary ceil(K/R)*ceil(M/C)*(2R+C+N-2)-1. Several groups are so many more folds, and
    folds are dealt to the instances in waves.
    """
    rows, cols = core.rows, core.cols
    m, n, k = work.m, work.n, work.k
    match core.dataflow:
        case Dataflow.OUTPUT_STATIONARY:
            folds, fold = ceil_div(m, rows) * ceil_div(n, cols), rows + cols + k - 2
        case Dataflow.WEIGHT_STATIONARY:
            folds, fold = ceil_div(k, rows) * ceil_div(n, cols), 2 * rows + cols + m - 2
        case _:
            folds, fold = ceil_div(k, rows) * ceil_div(m, cols), 2 * rows + cols + n - 2
    return ceil_div(work.groups * folds, core.instances) * fold - 1


def _dot_product_cycles(core: TensorCore, work: _Product) -> int:
    """Cycles on a dot-product array: rows pixels x cols output channels x depth input channels.

    NVDLA's convolution pipeline (nvdla.org/hw/v1/ias/unit_description.html): one atomic operation
    a cycle, for each filter tap and each block of input channels. The depth is counted in bytes
    there: a type of half the rate contracts half as many channels a cycle. A stripe of pixels
    shares a block of weights, and hides the load of the next one only if it is long enough: 16
    atomic operations on NVDLA; 8 on Ethos-U (Vela's npu_performance.py, `cycles_wb`). The few
    channels of an image would leave most of the depth idle: NVDLA's pre-extension lays the taps of
    a kernel's row side by side in it (kernels count as square here).
    """
    taps = work.taps
    if work.groups == 1 and work.k <= taps * core.image_channels:
        taps = isqrt(taps - 1) + 1
    rate = core.macs_per_cycle[work.dtype]
    array_rate = core.macs_per_cycle[core.array_dtype]
    depth = max(1, core.depth * rate // array_rate)
    blocks = work.groups * ceil_div(work.n, core.cols)
    stripes = max(
        ceil_div(blocks * ceil_div(work.m, core.rows), core.instances),
        ceil_div(blocks, core.instances) * core.weight_load_cycles,
    )
    steps = stripes * taps * ceil_div(work.k, taps * depth)
    step_macs = core.rows * core.cols * depth * core.instances
    return ceil_div(steps * step_macs, rate) + core.fill_cycles


def _blocked_cycles(core: TensorCore, work: _Product) -> int:
    """Cycles on multiprocessors: the best of the block shapes that kernels exist for, and of the
    ways to split k over several blocks."""
    shapes = ((core.rows, core.cols), *core.block_shapes)
    splits = [1]
    while 2 * splits[-1] <= min(core.max_split_k, work.k):
        splits.append(2 * splits[-1])
    return min(
        _block_shape_cycles(core, work, rows, cols, split)
        for rows, cols in shapes
        for split in splits
    )


def _dealt(core: TensorCore, work: _Product, of_group: int) -> int:
    """Blocks that the busiest instance works through, one after the other.

    Kernels of fused attention give each head to few thread blocks, which walk through its rows
    (TensorRT's fused_multihead_attention kernels: one for a head and a sequence), so a batched
    product of few groups leaves most instances idle, however large it is.
    """
    batched = work.groups > 1 and work.taps == 1
    if not batched or not 0 < core.group_blocks < of_group:
        return ceil_div(work.groups * of_group, core.instances)
    steps = ceil_div(of_group, core.group_blocks)
    return ceil_div(work.groups * core.group_blocks, core.instances) * steps


def _block_shape_cycles(core: TensorCore, work: _Product, rows: int, cols: int, split: int) -> int:
    """Cycles with blocks of rows x cols outputs whose k is split over `split` blocks.

    As cuBLAS and CUTLASS deal a product: thread blocks go to the multiprocessors in waves
    ("wave quantization" and "tile quantization" of NVIDIA's Matrix Multiplication Background
    User's Guide), the last one pays for a whole wave, and each block reads its own rows and
    columns of the operands through the L2 cache, whose bandwidth is `operand_feed`. Of a split
    product (CUTLASS's split-K) each part writes its sums, and a second kernel adds them up.
    """
    rate = core.macs_per_cycle[work.dtype]
    depth = ceil_div(work.k, split)
    of_group = ceil_div(work.m, rows) * ceil_div(work.n, cols) * split
    blocks = work.groups * of_group
    block = ceil_div(rows * cols * depth * core.instances, rate)
    multiplying = _dealt(core, work, of_group) * block
    waves = ceil_div(blocks, core.instances * core.blocks_per_instance)
    if not core.operand_feed_bytes:
        return multiplying + waves * core.fill_cycles
    read = blocks * (rows + cols) * depth * work.dtype.size_bytes
    cycles = max(multiplying, ceil_div(read, core.operand_feed_bytes)) + waves * core.fill_cycles
    if split == 1:
        return cycles
    sums = work.groups * work.m * work.n * split * _SUM_BYTES
    return cycles + ceil_div(2 * sums, core.operand_feed_bytes) + core.fill_cycles
