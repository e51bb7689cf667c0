"""Flat memories: an array of bytes each, and strided views of its regions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from stages.errors import DeviceError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, SRAM, Plan, Region
from stages.tensors import Array, LayoutKind

POISON = 0xFF
"""Fills memory before a run: a NaN in every float type, -1 in signed integers, the largest value
in unsigned ones. Reading what nobody wrote shows in the answer."""


class Memories:
    """`sram` and `ddr` as bytes, each as long as the plan reaches."""

    def __init__(self, sizes_bytes: Mapping[str, int]) -> None:
        self.bytes: dict[str, NDArray[np.uint8]] = {
            name: np.full(size, POISON, dtype=np.uint8) for name, size in sizes_bytes.items()
        }

    @staticmethod
    def for_plan(plan: Plan, spec: HardwareSpec) -> Memories:
        """Memories that hold every region of a plan.

        Raises:
            DeviceError: a region lies outside its memory.
        """
        limits = {SRAM: spec.sram.size_bytes, DDR: spec.ddr.size_bytes}
        sizes = dict.fromkeys(limits, 0)
        for region in _regions(plan):
            if region.memory not in limits:
                raise DeviceError(
                    f"{spec.name} has no memory {region.memory!r}",
                    hint="recompile the package for this device",
                )
            stop = _stop_address(region)
            if stop > sizes[region.memory]:
                sizes[region.memory] = stop
        for name, size in sizes.items():
            if size > limits[name]:
                raise DeviceError(
                    f"the plan reaches {name}+0x{size:x}, but {name} of {spec.name} ends at "
                    f"0x{limits[name]:x}",
                    hint=f"raise `memory.{name}.size` in the hardware spec, or recompile",
                )
        return Memories(sizes)

    def poison(self) -> None:
        """Forget everything."""
        for array in self.bytes.values():
            array.fill(POISON)

    def view(self, region: Region) -> Array:
        """The region's elements in memory order (`region.physical_shape`), not copied.

        Raises:
            DeviceError: the region reaches outside its memory.
        """
        memory = self.bytes[region.memory]
        physical = region.physical_shape
        if 0 in physical:
            return np.empty(physical, region.dtype.numpy)
        try:
            return np.ndarray(
                physical,
                region.dtype.numpy,
                buffer=memory.data,
                offset=region.address,
                strides=region.strides,
            )
        except (TypeError, ValueError) as error:  # numpy checks the bounds of every view
            raise DeviceError(
                f"[0x{region.address:x}, 0x{region.stop_address:x}) is outside {region.memory}, "
                f"which ends at 0x{memory.size:x}",
                hint="the plan is broken: `recipe validate` names the rule",
            ) from error


def _regions(plan: Plan) -> Iterable[Region]:
    for binding in (*plan.inputs, *plan.outputs, *plan.constants):
        yield binding.region
    for instruction in plan.instructions:
        yield from instruction.reads
        yield from instruction.writes


def _stop_address(region: Region) -> int:
    """`Region.stop_address` in one pass: a large plan has hundreds of thousands of regions."""
    stop = region.address + region.dtype.size_bytes
    for extent, stride in zip(region.physical_shape, region.strides, strict=True):
        if extent == 0:
            return region.address
        stop += (extent - 1) * stride
    return stop


def blocked_view(view: Array) -> Array:
    """`nc1hwc2`, [batch, blocks, *spatial, quantum], as [batch, blocks, quantum, *spatial]."""
    return np.moveaxis(view, -1, 2)


def is_blocked(region: Region) -> bool:
    """Whether the region's layout cuts channels into blocks."""
    return region.layout.kind is LayoutKind.NC1HWC2
