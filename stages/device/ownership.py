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
    moved: dict[Owner, Form] = {}
    for index, owner in _Movements(plan).owners():
        if owner not in moved:
            moved[owner] = Form(True, ((owner, 1),))
        found[index] = moved[owner]
    _pass_on(plan, found)
    # equal ones are one object, which is quicker to look up than its content
    forms = {id(form): form for form in found if form is not None}
    numbers = {key: number for number, key in enumerate(forms)}
    places = [NOBODY if form is None else numbers[id(form)] for form in found]
    return Ownership(tuple(forms.values()), np.array(places, dtype=np.int64))


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
    unread: dict[int, list[tuple[int, int, int]]] = field(init=False, default_factory=dict)
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
        if source.memory != DDR:
            holder, start, stop = self._place(source)
            maker = self._maker(holder, start, stop)
            if maker is not None:  # of a copy on the chip until its reader is found
                self.known[index] = maker
        if target.memory != DDR:
            holder, start, stop = self._place(target)
            self.unread.setdefault(holder, []).append((index, start, stop))

    def _compute(self, row: Instruction) -> None:
        kernel = self.plan.kernels[row.kernel]
        for name, region in zip(kernel.parameters, row.reads, strict=True):
            if region.memory == DDR:
                continue
            holder, start, stop = self._place(region)
            waiting = self.unread.get(holder)
            reader = next((item for item in kernel.operators if name in item.inputs), None)
            if not waiting or reader is None:
                continue
            owner = Owner(reader.name, str(reader.kind), row.group, row.queue)
            left = []
            for item in waiting:
                if item[1] < stop and start < item[2]:
                    self.known[item[0]] = owner
                else:
                    left.append(item)
            self.unread[holder] = left
        for name, region in zip(kernel.results, row.writes, strict=True):
            maker = next((item for item in kernel.operators if name in item.outputs), None)
            if region.memory == DDR or maker is None:
                continue
            holder, start, stop = self._place(region)
            made = self.made.setdefault(holder, {})
            made.pop((start, stop), None)  # the newest comes last
            made[start, stop] = Owner(maker.name, str(maker.kind), row.group, row.queue)

    def _maker(self, holder: int, start: int, stop: int) -> Owner | None:
        made = self.made.get(holder, {})
        for first, last in reversed(made):
            if first < stop and start < last:
                return made[first, last]
        return None

    def _place(self, region: Region) -> tuple[int, int, int]:
        """The buffer that holds a region, and the addresses from and to which it reaches."""
        start, stop = region.address, region.stop_address
        return self.live.holder(region.memory, start, stop), start, stop
