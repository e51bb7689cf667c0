"""What moving bytes between memories takes, through caches where the device has them.

A part of the cost model; see `cost.py` for the rules that all of it keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from stages.hardware.clock import nanoseconds_to_cycles
from stages.hardware.interleave import WHOLE, Pattern, conflict_factor
from stages.hardware.lru import UNTOUCHED, Touched
from stages.hardware.spec import Cache, HardwareSpec, Memory
from stages.units import ceil_div

ALL_PERMILLE = 1000
_ANY = Fraction(1)


@dataclass(frozen=True, slots=True)
class TransferCost:
    """What one DMA transfer takes.

    `latency_cycles` pass before its first byte and hide behind other transfers; `channel_cycles`
    are its time on the channel, `port_cycles` its time on the one port to `ddr` and the cache
    before it, 0 where it needs neither.
    """

    latency_cycles: int
    channel_cycles: int
    port_cycles: int


@dataclass(frozen=True, slots=True)
class Side:
    """One end of a transfer: its memory, and how its bytes lie there."""

    memory: str
    pattern: Pattern = WHOLE


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a transfer found in the cache before `ddr`: where it read there, and where it wrote."""

    read: Touched = UNTOUCHED
    write: Touched = UNTOUCHED


def transfer_cost(
    spec: HardwareSpec, size_bytes: int, contiguous_bytes: int, source: str, target: str
) -> TransferCost:
    """What moving `size_bytes` from memory `source` to memory `target` takes, past any cache.

    `contiguous_bytes` is the shortest unbroken run on either side: each run is rounded up to the
    memory's bursts. The channel is held for the slowest of reading, moving and writing. The
    latency is the DMA's setup, the source's read and the target's write latency.

    Raises:
        ValueError: a negative size, or a memory other than `sram` and `ddr`.
    """
    return strided_transfer_cost(spec, size_bytes, contiguous_bytes, Side(source), Side(target))


def strided_transfer_cost(
    spec: HardwareSpec, size_bytes: int, contiguous_bytes: int, source: Side, target: Side
) -> TransferCost:
    """`transfer_cost` where each side tells how its bytes lie: one that meets few channels or
    banks of its memory gets only those.

    Raises:
        ValueError: a negative size, or a memory other than `sram` and `ddr`.
    """
    _check(size_bytes, contiguous_bytes)
    reading, writing = _memory(spec, source.memory), _memory(spec, target.memory)
    read_cycles = _read_cycles(
        spec,
        reading,
        _burst_bytes(reading, size_bytes, contiguous_bytes),
        conflict_factor(reading, source.pattern),
    )
    write_cycles = _write_cycles(
        spec,
        writing,
        _burst_bytes(writing, size_bytes, contiguous_bytes),
        conflict_factor(writing, target.pattern),
    )
    latency_ns = spec.dma.setup_ns + reading.read_latency_ns + writing.write_latency_ns
    port = (read_cycles if reading is spec.ddr else 0) + (
        write_cycles if writing is spec.ddr else 0
    )
    return TransferCost(
        latency_cycles=nanoseconds_to_cycles(spec, latency_ns),
        channel_cycles=max(1, read_cycles, write_cycles, _moving(spec, size_bytes)),
        port_cycles=port,
    )


def cached_transfer_cost(
    spec: HardwareSpec,
    cache: Cache,
    size_bytes: int,
    contiguous_bytes: int,
    source: Side,
    target: Side,
    use: CacheUse,
) -> TransferCost:
    """A transfer whose side in `ddr` goes through `cache`, in whole lines.

    Lines that are found there come at the cache's bandwidth and latency. The others cross the
    port of `ddr`, and so do the changed lines that they put out; what is written stays in the
    cache until it is put out, and isn't fetched before.

    Raises:
        ValueError: a negative size, or a memory other than `sram` and `ddr`.
    """
    _check(size_bytes, contiguous_bytes)
    line, ddr, clock = cache.line_bytes, spec.ddr, spec.clock_hz
    read_cycles = write_cycles = fetching = cache_cycles = put_out = 0
    latency_ns = spec.dma.setup_ns
    if source.memory == ddr.name:
        lines = use.read.hits + use.read.misses
        cache_cycles += ceil_div(lines * line * clock, cache.read_bandwidth)
        factor = conflict_factor(ddr, source.pattern)
        fetching = _read_cycles(spec, ddr, use.read.misses * line, factor)
        read_cycles = max(cache_cycles, fetching)
        put_out += use.read.written_back
        latency_ns += cache.read_latency_ns
        latency_ns += ddr.read_latency_ns if use.read.misses else 0
    else:
        memory = _memory(spec, source.memory)
        size = _burst_bytes(memory, size_bytes, contiguous_bytes)
        read_cycles = _read_cycles(spec, memory, size, conflict_factor(memory, source.pattern))
        latency_ns += memory.read_latency_ns
    if target.memory == ddr.name:
        lines = use.write.hits + use.write.misses
        write_cycles = ceil_div(lines * line * clock, cache.write_bandwidth)
        cache_cycles += write_cycles
        put_out += use.write.written_back
        latency_ns += cache.write_latency_ns
    else:
        memory = _memory(spec, target.memory)
        size = _burst_bytes(memory, size_bytes, contiguous_bytes)
        write_cycles = _write_cycles(spec, memory, size, conflict_factor(memory, target.pattern))
        latency_ns += memory.write_latency_ns
    storing = _write_cycles(spec, ddr, put_out * line, _ANY)
    return TransferCost(
        latency_cycles=nanoseconds_to_cycles(spec, latency_ns),
        channel_cycles=max(1, read_cycles, write_cycles, _moving(spec, size_bytes)),
        port_cycles=max(fetching + storing, cache_cycles),
    )


def kept_weights_cost(
    spec: HardwareSpec, bandwidth: int, size_bytes: int, contiguous_bytes: int, target: str
) -> TransferCost:
    """A transfer of constants that the chip kept from the last inference, to memory `target`.

    Raises:
        ValueError: a negative size, or a memory other than `sram` and `ddr`.
    """
    _check(size_bytes, contiguous_bytes)
    memory = _memory(spec, target)
    write_cycles = _write_cycles(
        spec, memory, _burst_bytes(memory, size_bytes, contiguous_bytes), _ANY
    )
    read_cycles = ceil_div(size_bytes * spec.clock_hz, bandwidth)
    return TransferCost(
        latency_cycles=nanoseconds_to_cycles(spec, spec.dma.setup_ns + memory.write_latency_ns),
        channel_cycles=max(1, read_cycles, write_cycles, _moving(spec, size_bytes)),
        port_cycles=write_cycles if memory is spec.ddr else 0,
    )


def _check(size_bytes: int, contiguous_bytes: int) -> None:
    if size_bytes < 0 or contiguous_bytes < 0:
        raise ValueError(f"negative transfer: {size_bytes} bytes in runs of {contiguous_bytes}")


def _moving(spec: HardwareSpec, size_bytes: int) -> int:
    """Cycles of the bytes on a channel."""
    return ceil_div(size_bytes * spec.clock_hz, spec.dma.bandwidth)


def _read_cycles(spec: HardwareSpec, memory: Memory, size_bytes: int, factor: Fraction) -> int:
    clocked = size_bytes * spec.clock_hz * ALL_PERMILLE * factor.numerator
    achieved = memory.read_bandwidth * memory.read_efficiency_permille
    return ceil_div(clocked, achieved * factor.denominator)


def _write_cycles(spec: HardwareSpec, memory: Memory, size_bytes: int, factor: Fraction) -> int:
    clocked = size_bytes * spec.clock_hz * ALL_PERMILLE * factor.numerator
    achieved = memory.write_bandwidth * memory.write_efficiency_permille
    return ceil_div(clocked, achieved * factor.denominator)


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
