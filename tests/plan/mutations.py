"""Small damages to a plan: one field of one thing, drawn by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from stages.plan.instructions import (
    Buffer,
    Contraction,
    Instruction,
    Kernel,
    Opcode,
    Plan,
    Region,
)
from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, DType, Layout, LayoutKind, TensorType

Item = TypeVar("Item")
_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 1 << 20)
_COMPUTE = (
    Opcode.TENSOR_CORE_GEMM,
    Opcode.TENSOR_CORE_CONV,
    Opcode.VECTOR,
    Opcode.ACTIVATION,
    Opcode.HOST_CALL,
)


class NothingToDamageError(Exception):
    """The plan has nothing of the kind that a mutation damages."""


@dataclass(frozen=True)
class Dice:
    """Seeded choices."""

    random: np.random.Generator

    def pick(self, items: Sequence[Item]) -> Item:
        if not items:
            raise NothingToDamageError
        return items[int(self.random.integers(len(items)))]

    def other(self, items: Sequence[Item], one: Item) -> Item:
        """One that differs."""
        return self.pick([item for item in items if item != one])

    def step(self, value: int) -> int:
        """The number, moved a little or far."""
        return value + self.pick(_STEPS) * self.pick((-1, 1))


Mutation = Callable[[Plan, Dice], Plan]


def _put(items: tuple[Item, ...], place: int, item: Item) -> tuple[Item, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _with(plan: Plan, place: int, row: Instruction) -> Plan:
    return replace(plan, instructions=_put(plan.instructions, place, row))


def _places(plan: Plan, *opcodes: Opcode) -> list[int]:
    return [i for i, row in enumerate(plan.instructions) if not opcodes or row.opcode in opcodes]


def _touching(plan: Plan) -> list[int]:
    return [i for i, row in enumerate(plan.instructions) if row.reads or row.writes]


def damaged_region(region: Region, dice: Dice) -> Region:
    """One field of a region changed."""
    word = dice.pick(("address", "memory", "dtype", "shape", "strides", "layout"))
    if word == "address":
        return replace(region, address=dice.step(region.address))
    if word == "memory":
        return replace(region, memory=dice.other(("sram", "ddr"), region.memory))
    if word == "dtype":
        return replace(region, dtype=dice.other(tuple(DType), region.dtype))
    if word == "layout":
        kinds = (
            ROW_MAJOR,
            Layout(LayoutKind.NHWC),
            Layout(LayoutKind.NC1HWC2, 8),
            Layout(LayoutKind.NC1HWC2, 16),
        )
        return replace(region, layout=dice.other(kinds, region.layout))
    numbers: tuple[int, ...] = getattr(region, word)
    place = dice.pick(range(len(numbers)))
    changed = dice.pick((numbers[place] - 1, numbers[place] + 1, 0, dice.step(numbers[place])))
    return replace(region, **{word: _put(numbers, place, changed)})  # type: ignore[arg-type]


def regions(plan: Plan, dice: Dice) -> Plan:
    """One region of an instruction."""
    place, side, which, item = _picked_region(plan, dice)
    return _exchange(plan, place, side, which, damaged_region(item, dice))


def _picked_region(plan: Plan, dice: Dice) -> tuple[int, str, int, Region]:
    """An instruction's number, the word for a side of it, and a region's place there and itself."""
    place = dice.pick(_touching(plan))
    row = plan.instructions[place]
    side = dice.pick([word for word in ("reads", "writes") if getattr(row, word)])
    items: tuple[Region, ...] = getattr(row, side)
    which = dice.pick(range(len(items)))
    return place, side, which, items[which]


def both_sides(plan: Plan, dice: Dice) -> Plan:
    """A transfer's source and target alike, so that they still agree."""
    place = dice.pick(_places(plan, Opcode.DMA_COPY))
    row = plan.instructions[place]
    source, target = row.reads[0], row.writes[0]
    seed = int(dice.random.integers(1 << 30))
    words = ("dtype", "shape", "strides", "layout")
    changed = damaged_region(source, Dice(np.random.default_rng(seed)))
    moved = {word: getattr(changed, word) for word in words}
    same = {word: value for word, value in moved.items() if value != getattr(source, word)}
    other = replace(target, **same)
    return _with(plan, place, replace(row, reads=(changed,), writes=(other,)))


def exchanged_regions(plan: Plan, dice: Dice) -> Plan:
    """Two instructions exchange regions of one type."""
    side = dice.pick(("reads", "writes"))
    held = [
        (place, which, region)
        for place, row in enumerate(plan.instructions)
        for which, region in enumerate(getattr(row, side))
    ]
    one_place, one_which, one = dice.pick(held)
    like = [
        item
        for item in held
        if (item[2].dtype, item[2].shape) == (one.dtype, one.shape) and item[2] != one
    ]
    other_place, other_which, other = dice.pick(like)
    plan = _exchange(plan, one_place, side, one_which, other)
    return _exchange(plan, other_place, side, other_which, one)


def exchanged_tiles(plan: Plan, dice: Dice) -> Plan:
    """Two instructions that do the same exchange regions of one form."""
    side = dice.pick(("reads", "writes"))
    place = dice.pick(_touching(plan))
    row = plan.instructions[place]
    which = dice.pick(range(len(getattr(row, side))))
    one: Region = getattr(row, side)[which]
    like = [
        number
        for number, other in enumerate(plan.instructions)
        if (other.opcode, other.kernel, other.group) == (row.opcode, row.kernel, row.group)
        and len(getattr(other, side)) > which
        and replace(getattr(other, side)[which], address=one.address) == one
        and getattr(other, side)[which] != one
    ]
    other_place = dice.pick(like)
    other = getattr(plan.instructions[other_place], side)[which]
    plan = _exchange(plan, place, side, which, other)
    return _exchange(plan, other_place, side, which, one)


def moved_tile(plan: Plan, dice: Dice) -> Plan:
    """A region begins one or two further on, or before, along one of its axes."""
    place, side, which, item = _picked_region(plan, dice)
    step = dice.pick([stride for stride in item.strides if stride])
    address = item.address + step * dice.pick((-2, -1, 1, 2))
    return _exchange(plan, place, side, which, replace(item, address=address))


def _exchange(plan: Plan, place: int, side: str, which: int, region: Region) -> Plan:
    row = plan.instructions[place]
    items = _put(getattr(row, side), which, region)
    return _with(plan, place, replace(row, **{side: items}))


def dropped(plan: Plan, dice: Dice) -> Plan:
    """An instruction is missing; buffers keep their instructions."""
    place = dice.pick(_places(plan))
    return _shortened(plan, place)


def dropped_event(plan: Plan, dice: Dice) -> Plan:
    """A signal or a wait is missing, or both of an event."""
    place = dice.pick(_places(plan, Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT))
    event = plan.instructions[place].event
    if dice.pick((False, True)):
        return _shortened(plan, place)
    for other in reversed([i for i, row in enumerate(plan.instructions) if row.event == event]):
        plan = _shortened(plan, other)
    return plan


def _shortened(plan: Plan, place: int) -> Plan:
    rows = (*plan.instructions[:place], *plan.instructions[place + 1 :])
    buffers = tuple(
        replace(
            item,
            start=item.start - (item.start > place),
            stop=item.stop - (item.stop > place),
        )
        for item in plan.buffers
    )
    return replace(plan, instructions=rows, buffers=buffers)


def exchanged(plan: Plan, dice: Dice) -> Plan:
    """Two instructions change places."""
    one = dice.pick(_places(plan))
    near = dice.pick((False, True))
    other = min(one + 1, len(plan.instructions) - 1) if near else dice.pick(_places(plan))
    rows = list(plan.instructions)
    rows[one], rows[other] = rows[other], rows[one]
    return replace(plan, instructions=tuple(rows))


def repeated(plan: Plan, dice: Dice) -> Plan:
    """An instruction overwrites another."""
    one, other = dice.pick(_places(plan)), dice.pick(_places(plan))
    return _with(plan, other, plan.instructions[one])


def fields(plan: Plan, dice: Dice) -> Plan:
    """One field of an instruction that isn't a region."""
    word = dice.pick(("queue", "opcode", "kernel", "event", "launch", "cycles", "group", "comment"))
    place = dice.pick(_places(plan))
    if word in ("kernel", "launch"):
        place = dice.pick(_places(plan, *_COMPUTE))
    elif word == "event":
        place = dice.pick(_places(plan, Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT))
    row = plan.instructions[place]
    values: Mapping[str, Sequence[Any]] = {
        "queue": (*plan.queues, "dma9"),
        "opcode": tuple(Opcode),
        "kernel": (-1, *range(len(plan.kernels) + 1)),
        "event": sorted({item.event for item in plan.instructions}),
        "launch": (False, True),
        "cycles": (0, 1, 1000),
        "group": sorted({item.group for item in plan.instructions}),
        "comment": ("", "changed"),
    }
    changed = dice.other(values[word], getattr(row, word))
    return _with(plan, place, replace(row, **{word: changed}))


def operand_order(plan: Plan, dice: Dice) -> Plan:
    """Two regions that an instruction reads change places."""
    place = dice.pick([i for i in _touching(plan) if len(plan.instructions[i].reads) > 1])
    row = plan.instructions[place]
    which = dice.pick(range(len(row.reads) - 1))
    reads = list(row.reads)
    reads[which], reads[which + 1] = reads[which + 1], reads[which]
    return _with(plan, place, replace(row, reads=tuple(reads)))


def contractions(plan: Plan, dice: Dice) -> Plan:
    """One number or the type of a contraction."""
    rows = [i for i in _places(plan) if plan.instructions[i].contraction is not None]
    place = dice.pick(rows)
    work = plan.instructions[place].contraction
    assert work is not None
    word = dice.pick(("m", "n", "k", "groups", "taps", "dtype"))
    changed: Contraction
    if word == "dtype":
        changed = replace(work, dtype=dice.other(tuple(DType), work.dtype))
    else:
        number = getattr(work, word)
        numbers = (0, 1, number - 1, number + 1, number * 2)
        changed = replace(work, **{word: dice.other(numbers, number)})
    return _with(plan, place, replace(plan.instructions[place], contraction=changed))


def buffers(plan: Plan, dice: Dice) -> Plan:
    """One field of a buffer, or the buffer."""
    place = dice.pick(range(len(plan.buffers)))
    item = plan.buffers[place]
    end = len(plan.instructions)
    word = dice.pick(
        ("address", "size_bytes", "start", "stop", "lifetime", "memory", "name", "gone")
    )
    if word == "gone":
        return replace(plan, buffers=(*plan.buffers[:place], *plan.buffers[place + 1 :]))
    values: Mapping[str, Sequence[Any]] = {
        "address": (dice.step(item.address),),
        "size_bytes": (dice.step(item.size_bytes),),
        "start": (item.start - 1, item.start + 1, 0, end // 2),
        "stop": (item.stop - 1, item.stop + 1, end, end // 2),
        "lifetime": tuple(Lifetime),
        "memory": ("sram", "ddr", "l2"),
        "name": tuple(other.name for other in plan.buffers),
    }
    changed: Buffer = replace(item, **{word: dice.other(values[word], getattr(item, word))})
    return replace(plan, buffers=_put(plan.buffers, place, changed))


def bindings(plan: Plan, dice: Dice) -> Plan:
    """A constant, input or output: its region, its name, or the whole of it; or two exchanged."""
    side = dice.pick([word for word in ("inputs", "outputs", "constants") if getattr(plan, word)])
    items = getattr(plan, side)
    place = dice.pick(range(len(items)))
    word = dice.pick(("region", "region", "name", "gone", "exchanged"))
    if word == "gone":
        return replace(plan, **{side: (*items[:place], *items[place + 1 :])})  # type: ignore[arg-type]
    if word == "exchanged":
        other = dice.other(range(len(items)), place)
        one, two = items[place], items[other]
        items = _put(items, place, replace(one, region=two.region))
        items = _put(items, other, replace(two, region=one.region))
        return replace(plan, **{side: items})
    item = items[place]
    changed = (
        replace(item, name=f"{item.name}?")
        if word == "name"
        else replace(item, region=damaged_region(item.region, dice))
    )
    return replace(plan, **{side: _put(items, place, changed)})


def kernels(plan: Plan, dice: Dice) -> Plan:
    """One thing of a kernel."""
    place = dice.pick(range(len(plan.kernels)))
    kernel = plan.kernels[place]
    word = dice.pick(("types", "operators", "operators", "parameters", "results"))
    if word == "types":
        name = dice.pick(sorted(kernel.types))
        types = {**kernel.types, name: _damaged_type(kernel.types[name], dice)}
        changed = replace(kernel, types=types)
    elif word == "operators":
        changed = _damaged_operators(kernel, dice)
    else:
        names: tuple[str, ...] = getattr(kernel, word)
        which = dice.pick(range(len(names)))
        other = dice.other(sorted(kernel.types), names[which])
        changed = replace(kernel, **{word: _put(names, which, other)})  # type: ignore[arg-type]
    return replace(plan, kernels=_put(plan.kernels, place, changed))


def _damaged_type(item: TensorType, dice: Dice) -> TensorType:
    if not item.shape or dice.pick((False, True)):
        return replace(item, dtype=dice.other(tuple(DType), item.dtype))
    place = dice.pick(range(len(item.shape)))
    extent = dice.pick((item.shape[place] - 1, item.shape[place] + 1))
    return replace(item, shape=_put(item.shape, place, extent))


def _damaged_operators(kernel: Kernel, dice: Dice) -> Kernel:
    place = dice.pick(range(len(kernel.operators)))
    operator = kernel.operators[place]
    word = dice.pick(("kind", "inputs", "order", "attributes", "attributes", "gone"))
    if word == "gone":
        rest = (*kernel.operators[:place], *kernel.operators[place + 1 :])
        return replace(kernel, operators=rest)
    changed: Operator
    if word == "kind":
        changed = replace(operator, kind=dice.other(tuple(Kind), operator.kind))
    elif word == "inputs":
        which = dice.pick(range(len(operator.inputs)))
        other = dice.other(sorted(kernel.types), operator.inputs[which])
        changed = replace(operator, inputs=_put(operator.inputs, which, other))
    elif word == "order":
        if len(operator.inputs) < 2:
            raise NothingToDamageError
        changed = replace(operator, inputs=(*operator.inputs[1:], operator.inputs[0]))
    else:
        name = dice.pick(sorted(operator.attributes))
        value = _damaged_attribute(operator.attributes[name], dice)
        changed = replace(operator, attributes={**operator.attributes, name: value})
    return replace(kernel, operators=_put(kernel.operators, place, changed))


def _damaged_attribute(value: Attribute, dice: Dice) -> Attribute:
    if isinstance(value, tuple) and value:
        items: tuple[Any, ...] = value
        place = dice.pick(range(len(items)))
        one = items[place]
        return _put(items, place, one + 1 if isinstance(one, int | float) else one)
    if isinstance(value, int | float):
        return value + dice.pick((-1, 1))
    raise NothingToDamageError


def header(plan: Plan, dice: Dice) -> Plan:
    """The device's name, or the list of queues."""
    word = dice.pick(("hardware", "gone", "twice", "order"))
    if word == "hardware":
        return replace(plan, hardware=f"{plan.hardware}_2")
    place = dice.pick(range(len(plan.queues)))
    if word == "gone":
        return replace(plan, queues=(*plan.queues[:place], *plan.queues[place + 1 :]))
    if word == "twice":
        return replace(plan, queues=(*plan.queues, plan.queues[place]))
    return replace(plan, queues=(*plan.queues[1:], plan.queues[0]))


MUTATIONS: tuple[Mutation, ...] = (
    regions,
    both_sides,
    exchanged_regions,
    dropped,
    dropped_event,
    exchanged,
    repeated,
    fields,
    operand_order,
    contractions,
    buffers,
    bindings,
    kernels,
    header,
    exchanged_tiles,
    moved_tile,
)
