"""Whose an instruction is: which operators its time, its stalls and its bytes count for.

A compute instruction is its operators', in the proportion in which they weigh in its time. A load
is the operator's that first reads what it brought to the chip, a store the operator's that made
what it takes away. A wait, a signal or a back-off is whose the next work of its queue is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.device.stalls import NOBODY
from stages.device.work import operator_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import DDR, Instruction, Opcode, Plan, Region
from stages.plan.rules.facts import LiveBuffers

TRANSFER = "transfer"
"""The kind of what is moved for no operator: it counts for its group, under the group's name."""

_EVENTS = (Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT, Opcode.THERMAL_BACKOFF)


@dataclass(frozen=True, slots=True)
class Owner:
    """An operator of a group on an engine; `engine` is `dma` where it is a group's transfers."""

    operator: str
    kind: str
    group: str
    engine: str


@dataclass(frozen=True, slots=True)
class Form:
    """Instructions whose time is shared alike: owners and what each weighs."""

    moves: bool
    shares: tuple[tuple[Owner, int], ...]

    def split(self, amount: int) -> Iterator[tuple[Owner, int]]:
        """An amount in whole parts that add up to it."""
        left, weight = amount, sum(share for _, share in self.shares)
        for place, (owner, share) in enumerate(self.shares):
            # where nothing weighs anything, the first one has it all
            part = left * share // weight if weight else left * (place == 0)
            left, weight = left - part, weight - share
            yield owner, part


@dataclass(frozen=True, slots=True)
class Ownership:
    """The forms, and which one each instruction has (int64[instructions], or `NOBODY`)."""

    forms: tuple[Form, ...]
    of_instruction: NDArray[np.int64]


def ownership(plan: Plan, spec: HardwareSpec) -> Ownership:
    """Whose each instruction of a plan is."""
    found: list[Form | None] = [None] * len(plan.instructions)
    computed: dict[tuple[int, str, str], Form] = {}
    for index, row in enumerate(plan.instructions):
        if row.kernel != NOBODY:
            key = (row.kernel, row.queue, row.group)
            if key not in computed:
                computed[key] = _computing(plan, row, spec)
            found[index] = computed[key]
    for index, owner in _Movements(plan).owners():
        found[index] = Form(True, ((owner, 1),))
    _pass_on(plan, found)
    numbers = {form: number for number, form in enumerate(dict.fromkeys(filter(None, found)))}
    places = [NOBODY if form is None else numbers[form] for form in found]
    return Ownership(tuple(numbers), np.array(places, dtype=np.int64))


def _computing(plan: Plan, row: Instruction, spec: HardwareSpec) -> Form:
    operators = operator_cycles(plan.kernels[row.kernel], row, spec)
    return Form(
        False,
        tuple(
            (Owner(name, kind, row.group, row.queue), cycles) for name, kind, cycles in operators
        ),
    )


def _pass_on(plan: Plan, found: list[Form | None]) -> None:
    """What waits, signals or backs off belongs to the next work of its queue, or to the last."""
    for order in (reversed(range(len(found))), range(len(found))):
        latest: dict[str, Form] = {}
        for index in order:
            row, form = plan.instructions[index], found[index]
            if form is not None:
                latest[row.queue] = form
            elif row.opcode in _EVENTS:
                found[index] = latest.get(row.queue)


@dataclass(slots=True)
class _Movements:
    """Follows what lies on the chip: loads that nobody has read yet, and who made what."""

    plan: Plan
    live: LiveBuffers = field(init=False)
    unread: dict[int, list[tuple[int, Region]]] = field(init=False, default_factory=dict)
    made: dict[int, dict[tuple[int, int], Owner]] = field(init=False, default_factory=dict)
    known: dict[int, Owner] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.live = LiveBuffers(self.plan.buffers)

    def owners(self) -> Iterator[tuple[int, Owner]]:
        """Every transfer's owner."""
        transfers = []
        for index, row in enumerate(self.plan.instructions):
            self.live.advance(index)
            if row.opcode is Opcode.DMA_COPY:
                transfers.append(index)
                self._transfer(index, row)
            elif row.kernel != NOBODY:
                self._compute(row)
        for index in transfers:
            group = self.plan.instructions[index].group
            yield index, self.known.get(index, Owner(group, TRANSFER, group, "dma"))

    def _transfer(self, index: int, row: Instruction) -> None:
        source, target = row.reads[0], row.writes[0]
        maker = None if source.memory == DDR else self._maker(source)
        if maker is not None:  # of a copy on the chip until its reader is found
            self.known[index] = maker
        if target.memory != DDR:
            self.unread.setdefault(self._holder(target), []).append((index, target))

    def _compute(self, row: Instruction) -> None:
        kernel = self.plan.kernels[row.kernel]
        for name, region in zip(kernel.parameters, row.reads, strict=True):
            waiting = self.unread.get(self._holder(region)) if region.memory != DDR else None
            if not waiting:
                continue
            reader = next((item for item in kernel.operators if name in item.inputs), None)
            if reader is None:
                continue
            owner = Owner(reader.name, str(reader.kind), row.group, row.queue)
            read = [item for item in waiting if _overlap(item[1], region)]
            self.known.update((index, owner) for index, _ in read)
            waiting[:] = [item for item in waiting if not _overlap(item[1], region)]
        for name, region in zip(kernel.results, row.writes, strict=True):
            maker = next((item for item in kernel.operators if name in item.outputs), None)
            if region.memory == DDR or maker is None:
                continue
            made = self.made.setdefault(self._holder(region), {})
            place = (region.address, region.stop_address)
            made.pop(place, None)  # the newest comes last
            made[place] = Owner(maker.name, str(maker.kind), row.group, row.queue)

    def _maker(self, region: Region) -> Owner | None:
        made = self.made.get(self._holder(region), {})
        for start, stop in reversed(made):
            if start < region.stop_address and region.address < stop:
                return made[start, stop]
        return None

    def _holder(self, region: Region) -> int:
        return self.live.holder(region.memory, region.address, region.stop_address)


def _overlap(one: Region, other: Region) -> bool:
    return one.address < other.stop_address and other.address < one.stop_address
