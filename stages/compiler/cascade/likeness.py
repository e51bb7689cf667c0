"""What a program is but for its names and for where in the DDR it lies: layers repeat, and programs
that are alike take the same cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.compiler.emit.program import Place, Program
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Binding, Kernel, Region


def likeness(program: Program, constants: Sequence[Binding], spec: HardwareSpec) -> object:
    """Equal for programs whose schedules and times are equal on a device.

    A cache of the DDR knows its lines by their addresses; without one only distances matter.
    """
    places = [place for item in program.written for place in (*item.reads, *item.writes)]
    lowest = min((place.address for place in places if place.memory == DDR), default=0)
    seen = _Seen(0 if spec.l2 is not None else lowest)
    kernels = [_kernel(kernel) for kernel in program.kernels.kernels]
    rows = tuple(
        [
            (
                item.instruction.opcode,
                item.instruction.queue,
                seen.number(item.instruction.group),
                item.instruction.kernel,
                item.instruction.contraction,
                item.instruction.launch,
                tuple([seen.place(place) for place in item.reads]),
                tuple([seen.place(place) for place in item.writes]),
                tuple([seen.region(region) for region in item.instruction.reads]),
                tuple([seen.region(region) for region in item.instruction.writes]),
            )
            for item in program.written
        ]
    )
    bound = tuple([seen.region(binding.region) for binding in constants])
    return rows, tuple(seen.places), tuple(kernels), bound


@dataclass(slots=True)
class _Seen:
    """Names by the order in which they are first met, and addresses of the DDR from `lowest` on."""

    lowest: int
    numbers: dict[str, int] = field(default_factory=dict)
    met: dict[str, int] = field(default_factory=dict)
    places: list[object] = field(default_factory=list)

    def number(self, name: str) -> int:
        """The number of a group's name."""
        return self.numbers.setdefault(name, len(self.numbers))

    def place(self, place: Place) -> int:
        """The number of a place."""
        found = self.met.get(place.name)
        if found is None:
            found = self.met[place.name] = len(self.places)
            address = self._address(place.memory, place.address)
            form = (place.memory, address, place.size_bytes, place.lifetime, place.is_slot)
            self.places.append(form)
        return found

    def region(self, region: Region) -> object:
        """A region as it looks from there."""
        address = self._address(region.memory, region.address)
        form = (region.dtype, region.shape, region.layout, region.strides)
        return region.memory, address, form

    def _address(self, memory: str, address: int) -> int:
        return address - self.lowest if memory == DDR else address


def _kernel(kernel: Kernel) -> object:
    """What a kernel computes, its values numbered in the order in which its operators name them."""
    names = [*kernel.parameters, *kernel.results]
    for operator in kernel.operators:
        names += [*operator.inputs, *operator.outputs]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    operators = tuple(operator.form(numbers) for operator in kernel.operators)
    types = tuple(kernel.types.get(name) for name in numbers)
    ends = len(kernel.parameters), len(kernel.results)
    return operators, types, ends
