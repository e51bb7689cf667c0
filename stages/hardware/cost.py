"""What an instruction costs, in integer cycles of the nominal clock.

The one cost model: the compiler searches with it, and the plan's timing and the simulated device
sum it. Every function is pure arithmetic on plain Python integers, so nothing overflows or rounds
but where a formula says so, always upwards. An instruction that does something costs at least one
cycle. `docs/hardware-specs.md` shows the formulas with an example each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt

from stages.hardware.spec import Dataflow, HardwareSpec, Memory, TensorCore, VectorUnit
from stages.tensors import DType
from stages.units import ceil_div

NANOSECONDS_PER_SECOND = 1_000_000_000
ALL_PERMILLE = 1000


@dataclass(frozen=True, slots=True)
class TransferCost:
    """What one DMA transfer takes.

    `latency_cycles` pass before its first byte and hide behind other transfers; `channel_cycles`
    are its time on the channel, `port_cycles` its time on the one port of `ddr`, 0 where it
    doesn't touch `ddr`.
    """

    latency_cycles: int
    channel_cycles: int
    port_cycles: int


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
    cycles = _dense_cycles(core, m, n, k, groups, taps, dtype)
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


def _dense_cycles(
    core: TensorCore, m: int, n: int, k: int, groups: int, taps: int, dtype: DType
) -> int:
    """Cycles of a contraction without the depthwise mode."""
    rate = core.macs_per_cycle[dtype]
    array_rate = core.macs_per_cycle[core.array_dtype]
    match core.dataflow:
        case Dataflow.DOT_PRODUCT:
            return _dot_product_cycles(core, m, n, k, groups, taps, dtype)
        case Dataflow.BLOCKED:
            blocks = groups * ceil_div(m, core.rows) * ceil_div(n, core.cols)
            block = ceil_div(core.rows * core.cols * k * core.instances, rate)
            waves = ceil_div(blocks, core.instances * core.blocks_per_instance)
            return ceil_div(blocks, core.instances) * block + waves * core.fill_cycles
        case _:
            base = _systolic_cycles(core, m, n, k, groups)
            return ceil_div(base * array_rate, rate) + core.fill_cycles


def _systolic_cycles(core: TensorCore, m: int, n: int, k: int, groups: int) -> int:
    """Cycles on a systolic array, in the type for which it has its shape.

    SCALE-Sim 3.0.0's compute cycles (scalesim/compute/systolic_compute_{os,ws,is}.py: each fold
    fills the array, streams, and drains): for an R x C array, output stationary
    ceil(M/R)*ceil(N/C)*(R+C+K-2)-1, weight stationary ceil(K/R)*ceil(N/C)*(2R+C+M-2)-1, input
    stationary ceil(K/R)*ceil(M/C)*(2R+C+N-2)-1. Several groups are so many more folds, and
    folds are dealt to the instances in waves.
    """
    rows, cols = core.rows, core.cols
    match core.dataflow:
        case Dataflow.OUTPUT_STATIONARY:
            folds, fold = ceil_div(m, rows) * ceil_div(n, cols), rows + cols + k - 2
        case Dataflow.WEIGHT_STATIONARY:
            folds, fold = ceil_div(k, rows) * ceil_div(n, cols), 2 * rows + cols + m - 2
        case _:
            folds, fold = ceil_div(k, rows) * ceil_div(m, cols), 2 * rows + cols + n - 2
    return ceil_div(groups * folds, core.instances) * fold - 1


def _dot_product_cycles(
    core: TensorCore, m: int, n: int, k: int, groups: int, taps: int, dtype: DType
) -> int:
    """Cycles on a dot-product array: rows pixels x cols output channels x depth input channels.

    NVDLA's convolution pipeline (nvdla.org/hw/v1/ias/unit_description.html): one atomic operation
    a cycle, for each filter tap and each block of input channels. The depth is counted in bytes
    there: a type of half the rate contracts half as many channels a cycle. A stripe of pixels
    shares a block of weights, and hides the load of the next one only if it is long enough: 16
    atomic operations on NVDLA; 8 on Ethos-U (Vela's npu_performance.py, `cycles_wb`). The few
    channels of an image would leave most of the depth idle: NVDLA's pre-extension lays the taps of
    a kernel's row side by side in it (kernels count as square here).
    """
    if groups == 1 and k <= taps * core.image_channels:
        taps = isqrt(taps - 1) + 1
    rate = core.macs_per_cycle[dtype]
    array_rate = core.macs_per_cycle[core.array_dtype]
    depth = max(1, core.depth * rate // array_rate)
    blocks = groups * ceil_div(n, core.cols)
    stripes = max(
        ceil_div(blocks * ceil_div(m, core.rows), core.instances),
        ceil_div(blocks, core.instances) * core.weight_load_cycles,
    )
    steps = stripes * taps * ceil_div(k, taps * depth)
    step_macs = core.rows * core.cols * depth * core.instances
    return ceil_div(steps * step_macs, rate) + core.fill_cycles


def vector_cycles(unit: VectorUnit, kinds: Sequence[str], elements: int, element_bytes: int) -> int:
    """Cycles of a chain of operator kinds over `elements` of `element_bytes`.

    startup + ceil(bytes / bytes_per_cycle) x (sum of each kind's cycles for one vector) over the
    unit's efficiency; after ONNXim's vector unit, which gives each operation a latency for one
    vector.

    Raises:
        ValueError: a negative count.
    """
    if elements < 0 or element_bytes < 0:
        raise ValueError(f"negative work: {elements} elements of {element_bytes} bytes")
    vectors = ceil_div(elements * element_bytes, unit.bytes_per_cycle)
    passes = sum(unit.cycles_by_kind.get(kind, unit.default_cycles) for kind in kinds)
    work = ceil_div(vectors * passes * ALL_PERMILLE, unit.efficiency_permille)
    return max(1, unit.startup_cycles + work)


def transfer_cost(
    spec: HardwareSpec, size_bytes: int, contiguous_bytes: int, source: str, target: str
) -> TransferCost:
    """What moving `size_bytes` from memory `source` to memory `target` takes.

    `contiguous_bytes` is the shortest unbroken run on either side: each run is rounded up to the
    memory's bursts. The channel is held for the slowest of reading, moving and writing. The
    latency is the DMA's setup, the source's read and the target's write latency.

    Raises:
        ValueError: a negative size, or a memory other than `sram` and `ddr`.
    """
    if size_bytes < 0 or contiguous_bytes < 0:
        raise ValueError(f"negative transfer: {size_bytes} bytes in runs of {contiguous_bytes}")
    reading, writing = _memory(spec, source), _memory(spec, target)
    clock = spec.clock_hz
    read_bytes = _burst_bytes(reading, size_bytes, contiguous_bytes)
    written_bytes = _burst_bytes(writing, size_bytes, contiguous_bytes)
    read_cycles = _port_cycles(
        read_bytes * clock, reading.read_bandwidth, reading.read_efficiency_permille
    )
    write_cycles = _port_cycles(
        written_bytes * clock, writing.write_bandwidth, writing.write_efficiency_permille
    )
    moving = ceil_div(size_bytes * clock, spec.dma.bandwidth)
    latency_ns = spec.dma.setup_ns + reading.read_latency_ns + writing.write_latency_ns
    port = (read_cycles if reading is spec.ddr else 0) + (
        write_cycles if writing is spec.ddr else 0
    )
    return TransferCost(
        latency_cycles=nanoseconds_to_cycles(spec, latency_ns),
        channel_cycles=max(1, read_cycles, write_cycles, moving),
        port_cycles=port,
    )


def _port_cycles(clocked_bytes: int, bandwidth: int, efficiency_permille: int) -> int:
    """Cycles of bytes x clock at what is achieved of a bandwidth, rounded up once."""
    return ceil_div(clocked_bytes * ALL_PERMILLE, bandwidth * efficiency_permille)


def _memory(spec: HardwareSpec, name: str) -> Memory:
    for memory in (spec.sram, spec.ddr):
        if memory.name == name:
            return memory
    raise ValueError(f"{spec.name} has no memory {name!r}")


def _burst_bytes(memory: Memory, size_bytes: int, contiguous_bytes: int) -> int:
    """Bytes that cross the memory's port: whole bursts for every run."""
    run = min(size_bytes, contiguous_bytes) or size_bytes
    if run == 0:
        return 0
    runs, rest = divmod(size_bytes, run)
    bursts = runs * ceil_div(run, memory.burst_bytes) + ceil_div(rest, memory.burst_bytes)
    return bursts * memory.burst_bytes


def host_cycles(
    spec: HardwareSpec, calls: int, flops: int, moved_bytes: int, link_bytes: int
) -> int:
    """Cycles of a host call that runs `calls` operators.

    sync + calls x call + link_bytes / link bandwidth + the larger of flops / host rate and
    moved_bytes / host bandwidth: the host's own roofline behind the transfers both ways.

    Raises:
        ValueError: a negative count.
    """
    if min(calls, flops, moved_bytes, link_bytes) < 0:
        raise ValueError(f"negative work: {calls=} {flops=} {moved_bytes=} {link_bytes=}")
    host = spec.host
    overhead_ns = host.sync_ns + calls * host.call_ns
    seconds = (
        Fraction(overhead_ns, NANOSECONDS_PER_SECOND)
        + Fraction(link_bytes, host.link_bandwidth)
        + max(Fraction(flops, host.flops_per_second), Fraction(moved_bytes, host.memory_bandwidth))
    )
    return max(1, ceil(seconds * spec.clock_hz))


def launch_cycles(spec: HardwareSpec, engine: str) -> int:
    """Cycles of the driver's overhead where a group begins on this engine; 0 if it has none."""
    return nanoseconds_to_cycles(spec, spec.driver.launch_ns.get(engine, 0))


def nanoseconds_to_cycles(spec: HardwareSpec, ns: int) -> int:
    """Nanoseconds as cycles of the nominal clock, rounded up."""
    return ceil_div(ns * spec.clock_hz, NANOSECONDS_PER_SECOND)


def cycles_to_nanoseconds(spec: HardwareSpec, cycles: int) -> int:
    """Cycles of the nominal clock as nanoseconds, rounded up."""
    return ceil_div(cycles * NANOSECONDS_PER_SECOND, spec.clock_hz)


def peak_cycles(core: TensorCore, macs: Mapping[DType, int]) -> int:
    """The least cycles that these multiply-accumulates, by operand type, can take (roofline).

    Raises:
        ValueError: a type that the core doesn't multiply.
    """
    missing = [str(dtype) for dtype in macs if dtype not in core.macs_per_cycle]
    if missing:
        raise ValueError(f"the tensor core doesn't multiply {', '.join(missing)}")
    return ceil(sum(Fraction(count, core.macs_per_cycle[dtype]) for dtype, count in macs.items()))


def compulsory_cycles(spec: HardwareSpec, size_bytes: int) -> int:
    """The least cycles in which this many bytes can cross between `ddr` and the chip (roofline)."""
    port = max(spec.ddr.read_bandwidth, spec.ddr.write_bandwidth)
    bandwidth = min(port, spec.dma.channels * spec.dma.bandwidth)
    return ceil_div(size_bytes * spec.clock_hz, bandwidth)
