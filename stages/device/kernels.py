"""Kernels made ready to run: names become slots, and quantised contractions become exact ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stages.device.host import HostRuntime
from stages.plan.instructions import Kernel
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics import Quantized, evaluate, fits_integers, integer_contraction
from stages.tensors import Array, TensorType

Values = list[Array | None]
Action = Callable[[Values], None]


@dataclass(frozen=True, slots=True)
class ReadyKernel:
    """Runs a kernel: arrays in its parameters' order, to arrays in its results' order."""

    name: str
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    actions: tuple[Action, ...]
    slots: int

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """Logical arrays of the results; floats in accumulator precision."""
        values: Values = [None] * self.slots
        for slot, operand in zip(self.parameters, operands, strict=True):
            values[slot] = operand
        for action in self.actions:
            action(values)
        return [_present(values, slot) for slot in self.results]


def ready(kernel: Kernel, host: HostRuntime) -> ReadyKernel:
    """Prepare a kernel.

    Raises:
        DeviceError: it reads a value that nothing in it makes, or a node that the host can't load.
    """
    slots: dict[str, int] = {}
    for name in (*kernel.parameters, *_made(kernel), *kernel.results):
        slots.setdefault(name, len(slots))
    makers = {name: operator for operator in kernel.operators for name in operator.outputs}
    exact = {
        operator.name: pair
        for operator in kernel.operators
        if (pair := _quantized_pair(operator, makers)) is not None
    }
    skipped = _only_for_contractions(kernel, exact)
    actions: list[Action] = []
    for operator in kernel.operators:
        if operator.name in skipped:
            continue
        if operator.name in exact:
            actions.append(_contract(operator, exact[operator.name], makers, kernel, slots))
        elif operator.kind is Kind.HOST_CALL:
            actions.append(_call(operator, host, kernel, slots))
        else:
            actions.append(_evaluate(operator, kernel, slots))
    return ReadyKernel(
        kernel.name,
        tuple(slots[name] for name in kernel.parameters),
        tuple(slots[name] for name in kernel.results),
        tuple(actions),
        len(slots),
    )


def _made(kernel: Kernel) -> list[str]:
    return [name for operator in kernel.operators for name in operator.outputs]


def _present(values: Values, slot: int) -> Array:
    value = values[slot]
    assert value is not None, "the kernel's operators are in order"
    return value


def _sources(operator: Operator, slots: dict[str, int]) -> list[int]:
    return [slots[name] if name else -1 for name in operator.inputs]


def _result_types(operator: Operator, kernel: Kernel) -> list[TensorType]:
    return [kernel.types[name] for name in operator.outputs]


def _evaluate(operator: Operator, kernel: Kernel, slots: dict[str, int]) -> Action:
    sources = _sources(operator, slots)
    targets = [slots[name] for name in operator.outputs]
    types = _result_types(operator, kernel)

    def act(values: Values) -> None:
        operands = [values[slot] if slot >= 0 else None for slot in sources]
        for slot, result in zip(targets, evaluate(operator, operands, types), strict=True):
            values[slot] = result

    return act


def _call(operator: Operator, host: HostRuntime, kernel: Kernel, slots: dict[str, int]) -> Action:
    sources = _sources(operator, slots)
    targets = [slots[name] for name in operator.outputs]
    operand_types = [kernel.types[name] for name in operator.inputs]
    call = host.prepare(operator, operand_types, _result_types(operator, kernel))

    def act(values: Values) -> None:
        operands = [values[slot] if slot >= 0 else None for slot in sources]
        for slot, result in zip(targets, call(operands), strict=True):
            values[slot] = result

    return act


Pair = tuple[Operator, Operator]


def _quantized_pair(operator: Operator, makers: dict[str, Operator]) -> Pair | None:
    """The two `dequantize` that feed a contraction, where both are in this kernel."""
    if operator.kind not in (Kind.CONV, Kind.MATMUL):
        return None
    left, right = (makers.get(name) for name in operator.inputs[:2])
    if left is None or right is None:
        return None
    return (left, right) if left.kind == right.kind == Kind.DEQUANTIZE else None


def _only_for_contractions(kernel: Kernel, exact: dict[str, Pair]) -> set[str]:
    """The `dequantize` whose results nobody else needs: the contraction reads their integers."""
    readers = Counter(name for operator in kernel.operators for name in operator.operands)
    readers.update(kernel.results)
    for operator in kernel.operators:
        if operator.name in exact:
            readers.subtract(name for name in operator.inputs if name)
    return {
        operator.name
        for operator in kernel.operators
        if operator.kind is Kind.DEQUANTIZE and not readers[operator.outputs[0]]
    }


def _contract(
    operator: Operator,
    pair: Pair,
    makers: dict[str, Operator],
    kernel: Kernel,
    slots: dict[str, int],
) -> Action:
    left, right = (_quantized(item, slots) for item in pair)
    bias = _bias(operator, makers, slots)
    types = _result_types(operator, kernel)
    target = slots[operator.outputs[0]]

    def act(values: Values) -> None:
        x, weight = left(values), right(values)
        addend = bias(values)
        if fits_integers(operator, x, weight):
            values[target] = integer_contraction(operator, x, weight, addend)
            return
        real = addend.real() if isinstance(addend, Quantized) else addend
        values[target] = evaluate(operator, [x.real(), weight.real(), real], types)[0]

    return act


def _quantized(dequantize: Operator, slots: dict[str, int]) -> Callable[[Values], Quantized]:
    sources = _sources(dequantize, slots)
    axis = dequantize.integer("axis")

    def read(values: Values) -> Quantized:
        operands = [values[slot] if slot >= 0 else None for slot in sources]
        steps, scale = operands[0], operands[1]
        assert steps is not None
        assert scale is not None
        return Quantized(steps, scale, operands[2] if len(operands) > 2 else None, axis)

    return read


def _bias(
    operator: Operator, makers: dict[str, Operator], slots: dict[str, int]
) -> Callable[[Values], Quantized | Array | None]:
    if len(operator.inputs) < 3 or not operator.inputs[2]:
        return lambda values: None
    maker = makers.get(operator.inputs[2])
    if maker is not None and maker.kind is Kind.DEQUANTIZE:
        return _quantized(maker, slots)
    slot = slots[operator.inputs[2]]
    return lambda values: values[slot]
