"""What an instruction costs, in integer cycles of the nominal clock.

The one cost model: the compiler searches with it, and the plan's timing and the simulated device
sum it. `contraction.py` and `transfer.py` hold the tensor core's part and the memories'. Every
function is pure arithmetic on plain Python integers, so nothing overflows or rounds but where a
formula says so, always upwards. An instruction that does something costs at least one cycle.
`docs/hardware-specs.md` shows the formulas with an example each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from stages.hardware.clock import (
    NANOSECONDS_PER_SECOND,
    cycles_to_nanoseconds,
    nanoseconds_to_cycles,
)
from stages.hardware.contraction import (
    ALL_PERMILLE,
    contraction_cycles,
    drained_cycles,
    driven_cycles,
    gathered_cycles,
    output_blocks,
)
from stages.hardware.spec import HardwareSpec, TensorCore, VectorUnit
from stages.hardware.transfer import (
    CacheUse,
    Side,
    TransferCost,
    cached_transfer_cost,
    kept_weights_cost,
    strided_transfer_cost,
    transfer_cost,
)
from stages.tensors import DType
from stages.units import ceil_div

__all__ = [
    "NANOSECONDS_PER_SECOND",
    "CacheUse",
    "Side",
    "TransferCost",
    "by_channel_elements",
    "cached_transfer_cost",
    "compulsory_cycles",
    "contraction_cycles",
    "cycles_to_nanoseconds",
    "drained_cycles",
    "driven_cycles",
    "gathered_cycles",
    "host_cycles",
    "kept_weights_cost",
    "launch_cycles",
    "nanoseconds_to_cycles",
    "output_blocks",
    "peak_cycles",
    "reduced_cycles",
    "strided_transfer_cost",
    "transfer_cost",
    "vector_cycles",
]

_CONVERSIONS = ("quantize", "dequantize")


def vector_cycles(unit: VectorUnit, kinds: Sequence[str], elements: int, element_bytes: int) -> int:
    """Cycles of a chain of operator kinds over `elements` of `element_bytes`.

    startup + ceil(bytes / bytes_per_cycle) x (sum of each kind's cycles for one vector) over the
    unit's efficiency, an element taking at least the unit's `least_element_bytes`; after ONNXim's
    vector unit, which gives each operation a latency for one vector. Of kinds that the unit does
    at its `ends` none counts beside others, and among themselves the dearest. Conversions around
    nothing but comparisons don't count either.

    Raises:
        ValueError: a negative count.
    """
    return _chain_cycles(unit, _worked(unit, kinds), elements, element_bytes)


def reduced_cycles(
    unit: VectorUnit,
    kinds: Sequence[str],
    elements: int,
    element_bytes: int,
    behind: Sequence[str],
    results: int,
    result_bytes: int,
) -> int:
    """Cycles of a chain that reduces: `kinds`, the reduction last, work on what is read, those
    `behind` it on the results alone, of which there are fewer. Kinds of the unit's `ends` count
    nothing behind others.

    Raises:
        ValueError: a negative count.
    """
    worked = _worked(unit, [*kinds, *behind])
    if len(worked) < len(kinds) + len(behind):
        kinds = [kind for kind in kinds if kind in worked]
        behind = [kind for kind in behind if kind in worked]
    inner = [kind for kind in behind if kind not in unit.ends]
    passes = sum(unit.cycles_by_kind.get(kind, unit.default_cycles) for kind in inner)
    whole = _chain_cycles(unit, kinds, elements, element_bytes)
    return whole + _passes_cycles(unit, passes, results, result_bytes)


def by_channel_elements(unit: VectorUnit, elements: int, channels: int) -> int:
    """What the unit works on where `elements` are an image's, with an operand that has a number for
    each of its `channels`: so many for each pixel, whatever it has."""
    return elements // channels * max(channels, unit.pixel_channels)


def _chain_cycles(unit: VectorUnit, kinds: Sequence[str], elements: int, element_bytes: int) -> int:
    inner = [kind for kind in kinds if kind not in unit.ends]
    each = [unit.cycles_by_kind.get(kind, unit.default_cycles) for kind in inner or kinds]
    passes = sum(each) if inner else max(each, default=0)
    return max(1, unit.startup_cycles + _passes_cycles(unit, passes, elements, element_bytes))


def _worked(unit: VectorUnit, kinds: Sequence[str]) -> Sequence[str]:
    """The kinds of a chain that take time."""
    compared = [kind for kind in kinds if kind not in _CONVERSIONS]
    return compared if compared and unit.compares.issuperset(compared) else kinds


def _passes_cycles(unit: VectorUnit, passes: int, elements: int, element_bytes: int) -> int:
    if elements < 0 or element_bytes < 0:
        raise ValueError(f"negative work: {elements} elements of {element_bytes} bytes")
    width = max(element_bytes, unit.least_element_bytes) if element_bytes else 0
    vectors = ceil_div(elements * width, unit.bytes_per_cycle)
    return ceil_div(vectors * passes * ALL_PERMILLE, unit.efficiency_permille)


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
