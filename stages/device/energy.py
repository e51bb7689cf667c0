"""The energy of an inference, instruction by instruction, counted from its plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import Power
from stages.plan.instructions import DDR, SRAM, Instruction, Opcode, Plan, Region
from stages.tensors import DType


@dataclass(frozen=True, slots=True)
class Activity:
    """What some instructions move and multiply: the counts that cost energy."""

    macs: dict[DType, int]
    vector_bytes: int
    sram_bytes: int
    dram_bytes: int

    def core_femtojoules(self, power: Power) -> int:
        """Energy on the chip's own supply, at its nominal voltage. A type without a figure of its
        own costs as much as the dearest."""
        dearest = max(power.mac_femtojoules.values(), default=0)
        multiplying = sum(
            count * power.mac_femtojoules.get(dtype, dearest) for dtype, count in self.macs.items()
        )
        return (
            multiplying
            + self.vector_bytes * power.vector_femtojoules_per_byte
            + self.sram_bytes * power.sram_femtojoules_per_byte
        )

    def dram_femtojoules(self, power: Power) -> int:
        """Energy of the DRAM and its interface, whose supply no DVFS step changes."""
        return self.dram_bytes * power.dram_femtojoules_per_byte

    def femtojoules(self, power: Power) -> int:
        """All of it, at the nominal voltage."""
        return self.core_femtojoules(power) + self.dram_femtojoules(power)


@dataclass(frozen=True, slots=True)
class InferenceEnergy:
    """Dynamic energy at the nominal voltage (int64[instructions], femtojoules each).

    A slower clock spends the same energy in a longer time; a lower voltage spends less of it on
    the chip, by its square (CMOS switching: E = C V^2).
    """

    core_femtojoules: NDArray[np.int64]
    dram_femtojoules: NDArray[np.int64]
    opcodes: tuple[Opcode, ...]

    @property
    def instruction_femtojoules(self) -> NDArray[np.int64]:
        """Of each instruction."""
        return np.asarray(self.core_femtojoules + self.dram_femtojoules)

    @property
    def femtojoules(self) -> int:
        """Of the whole inference."""
        return int(self.instruction_femtojoules.sum())

    def femtojoules_at(self, voltage: float) -> float:
        """Of the whole inference, at this share of the nominal voltage."""
        core, dram = int(self.core_femtojoules.sum()), int(self.dram_femtojoules.sum())
        return core * voltage * voltage + dram

    def by_opcode(self) -> dict[Opcode, int]:
        """Femtojoules of each opcode that the plan has; they sum to the inference's."""
        totals: dict[Opcode, int] = {}
        each = self.instruction_femtojoules.tolist()
        for opcode, femtojoules in zip(self.opcodes, each, strict=True):
            totals[opcode] = totals.get(opcode, 0) + femtojoules
        return totals


def inference_energy(plan: Plan, power: Power) -> InferenceEnergy:
    """The energy of each instruction.

    Events and back-offs move nothing: what passes while they last is idle power. A host call costs
    the device its operands' and results' way through memory; the host's own power is no heat of
    this die.
    """
    activities = list(_activities(plan))
    return InferenceEnergy(
        np.array([item.core_femtojoules(power) for item in activities], dtype=np.int64),
        np.array([item.dram_femtojoules(power) for item in activities], dtype=np.int64),
        tuple(instruction.opcode for instruction in plan.instructions),
    )


def activity_of(plan: Plan) -> Activity:
    """Count one inference: the sum over its instructions."""
    macs: dict[DType, int] = {}
    vector_bytes = sram_bytes = dram_bytes = 0
    for item in _activities(plan):
        for dtype, count in item.macs.items():
            macs[dtype] = macs.get(dtype, 0) + count
        vector_bytes += item.vector_bytes
        sram_bytes += item.sram_bytes
        dram_bytes += item.dram_bytes
    return Activity(macs, vector_bytes, sram_bytes, dram_bytes)


_NOTHING = Activity({}, 0, 0, 0)


def _activities(plan: Plan) -> Iterable[Activity]:
    known: dict[object, Activity] = {}
    for instruction in plan.instructions:
        if not instruction.reads and not instruction.writes:
            yield _NOTHING
            continue
        key = (
            instruction.opcode,
            instruction.contraction,
            instruction.kernel,
            *(_key(region) for region in instruction.reads),
            None,
            *(_key(region) for region in instruction.writes),
        )
        found = known.get(key)
        if found is None:
            found = known[key] = instruction_activity(instruction, plan)
        yield found


def _key(region: Region) -> object:
    return region.memory, region.shape, region.strides, region.dtype, id(region.layout)


def instruction_activity(instruction: Instruction, plan: Plan) -> Activity:
    """Count one instruction.

    A vector instruction handles the bytes that it writes once for each of its operators. Every
    region read or written counts for its memory, and a broadcast of zero stride counts once. A
    table that a vector instruction gathers from in DDR counts for the rows taken.
    """
    macs: dict[DType, int] = {}
    moved = {SRAM: 0, DDR: 0}
    vector_bytes = 0
    work = instruction.contraction
    if work is not None:
        macs[work.dtype] = work.macs
    written = sum(region.size_bytes for region in instruction.writes)
    if instruction.opcode in (Opcode.VECTOR, Opcode.ACTIVATION):
        vector_bytes = written * len(plan.kernels[instruction.kernel].operators)
    for region in instruction.writes:
        moved[region.memory] += _touched_bytes(region)
    for region in instruction.reads:
        touched = _touched_bytes(region)
        if instruction.opcode is Opcode.VECTOR and region.memory == DDR:
            touched = min(touched, written)
        moved[region.memory] += touched
    return Activity(macs, vector_bytes, moved[SRAM], moved[DDR])


def _touched_bytes(region: Region) -> int:
    distinct = prod(
        extent
        for extent, stride in zip(region.physical_shape, region.strides, strict=True)
        if stride
    )
    return distinct * region.dtype.size_bytes
