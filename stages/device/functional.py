"""The functional half of the simulated device: a plan run on flat memory, at its real addresses.

Instructions run one at a time in program order. A plan with a wrong address, lifetime or extent
gives a wrong answer here, as it would on the chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.collector import collector_paused
from stages.device.host import HostRuntime
from stages.device.kernels import ReadyKernel, ready
from stages.device.memory import Memories
from stages.device.ports import loader, storer
from stages.device.transfers import transfer
from stages.errors import DeviceError, InputError
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Binding, Instruction, Kernel, Opcode, Plan
from stages.tensors import Array, DType

_SILENT = (Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT, Opcode.THERMAL_BACKOFF)
Step = Callable[[Counter[str]], None]


@dataclass(frozen=True, slots=True)
class Execution:
    """What one inference gave.

    `outputs`: a logical array for each model output, in the type that the device holds.
    `overflows`: finite values that became infinite when rounded, by the operator that made them.
    """

    outputs: dict[str, Array]
    overflows: dict[str, int]


class Machine:
    """A plan loaded on a device, ready to compute.

    Raises:
        DeviceError: the plan reaches outside the memories, or a binding has no data.
    """

    def __init__(self, plan: Plan, weights: Mapping[str, Array], spec: HardwareSpec) -> None:
        self._plan = plan
        self._memories = Memories.for_plan(plan, spec)
        host = HostRuntime()
        self._kernels = [ready(kernel, host) for kernel in plan.kernels]
        self._constants = [
            (self._memories.view(binding.region), _physical(binding, weights))
            for binding in plan.constants
        ]
        self._inputs = {
            binding.name: (binding.region, storer(self._memories, binding.region))
            for binding in plan.inputs
        }
        self._outputs = {
            binding.name: (
                self._memories.view(binding.region),
                binding.region.layout,
                binding.region.shape,
            )
            for binding in plan.outputs
        }
        # Two thirds of the time of loading a large plan.
        with collector_paused():
            self._steps = [
                self._step(instruction)
                for instruction in plan.instructions
                if instruction.opcode not in _SILENT
            ]

    def run(self, inputs: Mapping[str, Array]) -> Execution:
        """One inference on fresh memory; `inputs` are logical arrays by name.

        Raises:
            InputError: an input is missing, unknown, or of another shape or type.
        """
        self._memories.poison()
        for target, value in self._constants:
            target[...] = value
        overflows: Counter[str] = Counter()
        with np.errstate(all="ignore"):
            self._store_inputs(inputs, overflows)
            for step in self._steps:
                step(overflows)
        outputs = {
            name: np.array(layout.to_logical(view, shape))
            for name, (view, layout, shape) in self._outputs.items()
        }
        return Execution(outputs, {name: count for name, count in overflows.items() if count})

    def _store_inputs(self, inputs: Mapping[str, Array], overflows: Counter[str]) -> None:
        if unknown := sorted(set(inputs) - set(self._inputs)):
            raise InputError(
                f"the package has no input {unknown[0]!r}",
                hint=f"its inputs are {', '.join(self._inputs)}",
            )
        for name, (region, store) in self._inputs.items():
            if name not in inputs:
                raise InputError(
                    f"input {name!r} is missing",
                    hint=f"give an array of {region.dtype}{list(region.shape)}",
                )
            array = inputs[name]
            same_class = (array.dtype.kind not in "iub") == region.dtype.is_float
            if array.shape != region.shape or not same_class:
                raise InputError(
                    f"input {name!r} is {array.dtype}{list(array.shape)}",
                    hint=f"the package takes {region.dtype}{list(region.shape)}",
                )
            if not region.dtype.is_float:
                array = _same_integers(name, array, region.dtype)
            overflows[name] += store(array)

    def _step(self, instruction: Instruction) -> Step:
        if instruction.opcode is Opcode.DMA_COPY:
            move = transfer(self._memories, instruction)
            return lambda overflows: move()
        kernel = self._kernels[instruction.kernel]
        loads = [loader(self._memories, region) for region in instruction.reads]
        makers = _makers(self._plan.kernels[instruction.kernel])
        stores = [
            (storer(self._memories, region), maker)
            for region, maker in zip(instruction.writes, makers, strict=True)
        ]
        return _compute(kernel, loads, stores)


def _compute(
    kernel: ReadyKernel,
    loads: Sequence[Callable[[], Array]],
    stores: Sequence[tuple[Callable[[NDArray[Any]], int], str]],
) -> Step:
    def step(overflows: Counter[str]) -> None:
        results = kernel.run([load() for load in loads])
        for (store, maker), result in zip(stores, results, strict=True):
            if count := store(result):
                overflows[maker] += count

    return step


def _makers(kernel: Kernel) -> list[str]:
    """The operator that makes each result; the kernel where a result is a parameter."""
    names = {name: operator.name for operator in kernel.operators for name in operator.outputs}
    return [names.get(name, kernel.name) for name in kernel.results]


def _physical(binding: Binding, weights: Mapping[str, Array]) -> Array:
    """The data of a constant, in memory order."""
    region = binding.region
    data = weights.get(binding.name)
    if data is None:
        raise DeviceError(
            f"the package has no data for constant {binding.name!r}", hint="recompile the model"
        )
    if data.size == 1 and region.physical_shape == ():
        data = data.reshape(())
    if data.dtype != region.dtype.numpy or data.shape != region.physical_shape:
        raise DeviceError(
            f"constant {binding.name!r} is {data.dtype}{list(data.shape)}, the plan wants "
            f"{region.dtype}{list(region.physical_shape)}",
            hint="recompile the model",
        )
    return data


def _same_integers(name: str, array: Array, dtype: DType) -> Array:
    """The array in an integer type that holds every value of it."""
    narrowed = array.astype(dtype.numpy)
    if not np.array_equal(narrowed, array):
        raise InputError(
            f"input {name!r} has values that {dtype} doesn't hold",
            hint=f"give values in the range of {dtype}",
        )
    return narrowed
