"""The device's clock while a program is being ordered: when could this instruction start?

The recurrences are those of `plan/timing.py`, for instructions that are taken one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stages.hardware.cost import launch_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.costs import engine_of
from stages.plan.ddr_traffic import kept_constants
from stages.plan.instructions import Binding, Instruction, Kernel, Opcode, Plan
from stages.plan.prices import Price, pricer

Pricing = Callable[[Instruction], Price]


@dataclass(slots=True)
class Clock:
    """Times of the queues so far. `prices` and `launches` are of the program's instructions."""

    spec: HardwareSpec
    queues: Sequence[str]
    queue_of: Sequence[int]
    is_transfer: Sequence[bool]
    prices: Sequence[Price]
    launches: Sequence[int]
    free: list[int] = field(init=False)
    moved: list[list[int]] = field(init=False)
    outstanding: int = field(init=False)
    event_cycles: int = field(init=False)
    is_strict: bool = field(init=False)
    port_free: int = 0
    compute_idle: int = 0
    transfers_idle: int = 0

    def __post_init__(self) -> None:
        self.free = [0] * len(self.queues)
        self.outstanding = self.spec.dma.outstanding
        self.moved = [[0] * self.outstanding for _ in self.queues]
        self.event_cycles = self.spec.driver.event_cycles
        self.is_strict = self.spec.driver.sync_mode is SyncMode.STRICT

    def fresh(self) -> Clock:
        """The same instructions at time 0."""
        columns = self.queue_of, self.is_transfer, self.prices, self.launches
        return Clock(self.spec, self.queues, *columns)

    def start(self, number: int, ready: int) -> int:
        """When an instruction would start whose predecessors on other queues end at `ready`."""
        # Asked for every candidate of every step: comparisons cost half of what `max` does.
        queue = self.queue_of[number]
        begin = self.free[queue]
        if ready > begin:
            begin = ready + self.event_cycles
        if not self.is_transfer[number]:
            if self.is_strict and self.transfers_idle > begin:
                return self.transfers_idle
            return begin
        channel = self.moved[queue]
        oldest, newest = channel[-self.outstanding], channel[-1]
        if oldest > begin:
            begin = oldest
        if self.is_strict and self.compute_idle > begin:
            begin = self.compute_idle
        _, latency, port = self.prices[number]
        start = begin + self.launches[number] + latency
        if newest > start:
            start = newest
        return self.port_free if port and self.port_free > start else start

    def busy_until(self, number: int) -> int:
        """When the queue of an instruction has done what it took so far."""
        queue = self.queue_of[number]
        return self.moved[queue][-1] if self.is_transfer[number] else self.free[queue]

    def run(self, number: int, ready: int) -> int:
        """Take an instruction next; returns when it ends."""
        queue = self.queue_of[number]
        start = self.start(number, ready)
        cycles, _, port = self.prices[number]
        self.free[queue] = self._after_wait(queue, ready)
        if self.is_transfer[number]:
            end = start + cycles
            self.moved[queue].append(end)
            if port:
                self.port_free = start + port
            self.transfers_idle = max(self.transfers_idle, end)
            return end
        end = start + cycles + self.launches[number]
        self.free[queue] = end
        self.compute_idle = max(self.compute_idle, end)
        return end

    def _after_wait(self, queue: int, ready: int) -> int:
        free = self.free[queue]
        return ready + self.event_cycles if ready > free else free


def clock_of(
    instructions: Sequence[Instruction],
    kernels: Sequence[Kernel],
    constants: Sequence[Binding],
    queues: Sequence[str],
    spec: HardwareSpec,
) -> Clock:
    """A clock for a program that isn't synchronised yet. Caches count as empty."""
    price = pricing(instructions, kernels, constants, queues, spec)
    index = {name: number for number, name in enumerate(queues)}
    return Clock(
        spec,
        queues,
        [index[item.queue] for item in instructions],
        [item.opcode is Opcode.DMA_COPY for item in instructions],
        [price(item) for item in instructions],
        launches_of(instructions, queues, spec),
    )


def pricing(
    instructions: Sequence[Instruction],
    kernels: Sequence[Kernel],
    constants: Sequence[Binding],
    queues: Sequence[str],
    spec: HardwareSpec,
) -> Pricing:
    """The prices of a program's instructions, with these regions or with others."""
    plan = Plan(
        spec.name, tuple(queues), tuple(kernels), (), (), (), tuple(constants), tuple(instructions)
    )
    price = pricer(plan, spec, kept_constants(plan, spec)).price
    return lambda instruction: price(instruction, None)


def launches_of(
    instructions: Sequence[Instruction], queues: Sequence[str], spec: HardwareSpec
) -> list[int]:
    """Cycles of the driver's launch that fall on each instruction."""
    launches = {name: launch_cycles(spec, engine_of(name)) for name in queues}
    return [launches[item.queue] if item.launch else 0 for item in instructions]
