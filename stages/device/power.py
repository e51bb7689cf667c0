"""The energy of an inference, counted from its plan, and the power that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from stages.hardware.spec import HardwareSpec, Power
from stages.plan.instructions import DDR, SRAM, Instruction, Opcode, Plan, Region
from stages.tensors import DType

_LEAKAGE_CELSIUS = 25.0  # the temperature of the spec's leakage
_MOST_DOUBLINGS = 30.0  # far beyond any critical temperature: a thermal runaway stays finite
_FEMTOJOULES_PER_NANOSECOND_AT_ONE_WATT = 1_000_000


@dataclass(frozen=True, slots=True)
class Activity:
    """What an inference moves and multiplies: the counts that cost energy."""

    macs: dict[DType, int]
    vector_bytes: int
    sram_bytes: int
    dram_bytes: int

    def femtojoules(self, power: Power) -> int:
        """Dynamic energy at nominal voltage; a clock divider changes how fast it is spent, not
        how much. A type without a figure of its own costs as much as the dearest."""
        dearest = max(power.mac_femtojoules.values(), default=0)
        multiplying = sum(
            count * power.mac_femtojoules.get(dtype, dearest) for dtype, count in self.macs.items()
        )
        return (
            multiplying
            + self.vector_bytes * power.vector_femtojoules_per_byte
            + self.sram_bytes * power.sram_femtojoules_per_byte
            + self.dram_bytes * power.dram_femtojoules_per_byte
        )


def activity_of(plan: Plan) -> Activity:
    """Count one inference.

    A vector instruction handles the bytes that it writes once for each of its operators. Every
    region read or written counts for its memory, and a broadcast of zero stride counts once. A
    table that a vector instruction gathers from in DDR counts for the rows taken.
    """
    macs: dict[DType, int] = {}
    vector_bytes = 0
    moved = {SRAM: 0, DDR: 0}
    for instruction in plan.instructions:
        work = instruction.contraction
        if work is not None:
            macs[work.dtype] = macs.get(work.dtype, 0) + work.macs
        if instruction.opcode in (Opcode.VECTOR, Opcode.ACTIVATION):
            vector_bytes += _vector_bytes(instruction, plan)
        written = sum(region.size_bytes for region in instruction.writes)
        for region in instruction.writes:
            moved[region.memory] += _touched_bytes(region)
        for region in instruction.reads:
            touched = _touched_bytes(region)
            if instruction.opcode is Opcode.VECTOR and region.memory == DDR:
                touched = min(touched, written)
            moved[region.memory] += touched
    return Activity(macs, vector_bytes, moved[SRAM], moved[DDR])


def _vector_bytes(instruction: Instruction, plan: Plan) -> int:
    written = sum(region.size_bytes for region in instruction.writes)
    return written * len(plan.kernels[instruction.kernel].operators)


def _touched_bytes(region: Region) -> int:
    distinct = prod(
        extent
        for extent, stride in zip(region.physical_shape, region.strides, strict=True)
        if stride
    )
    return distinct * region.dtype.size_bytes


def leakage_watts(power: Power, celsius: float) -> float:
    """Leakage doubles with every `leakage_doubling_celsius`."""
    doublings = min((celsius - _LEAKAGE_CELSIUS) / power.leakage_doubling_celsius, _MOST_DOUBLINGS)
    return float(power.leakage_milliwatts / 1000 * 2.0**doublings)


def idle_watts(power: Power, celsius: float) -> float:
    """Power of a die that does nothing."""
    return power.idle_milliwatts / 1000 + leakage_watts(power, celsius)


def busy_watts(spec: HardwareSpec, femtojoules: int, latency_ns: int, celsius: float) -> float:
    """Average power while an inference of that energy runs in that time."""
    dynamic = femtojoules / (latency_ns * _FEMTOJOULES_PER_NANOSECOND_AT_ONE_WATT)
    return dynamic + idle_watts(spec.power, celsius)
