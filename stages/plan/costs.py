"""What each instruction of a plan costs on a device, in columns: cycles of the nominal clock.

The arithmetic is `hardware/cost.py`'s; this module only finds the numbers that it asks for. Costs
depend on an instruction's shapes, and on what it finds in a cache where there is one, so equal ones
are priced once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from stages.hardware.cost import CacheUse, launch_cycles, nanoseconds_to_cycles
from stages.hardware.spec import HardwareSpec, SyncMode
from stages.plan.ddr_traffic import cache_uses, kept_constants
from stages.plan.instructions import Opcode, Plan
from stages.plan.prices import pricer


class Role(IntEnum):
    """How the clock treats an instruction."""

    TRANSFER = 0
    COMPUTE = 1
    HOST = 2
    SIGNAL = 3
    WAIT = 4
    BACKOFF = 5


_ROLES: Mapping[Opcode, Role] = {
    Opcode.DMA_COPY: Role.TRANSFER,
    Opcode.TENSOR_CORE_GEMM: Role.COMPUTE,
    Opcode.TENSOR_CORE_CONV: Role.COMPUTE,
    Opcode.VECTOR: Role.COMPUTE,
    Opcode.ACTIVATION: Role.COMPUTE,
    Opcode.HOST_CALL: Role.HOST,
    Opcode.SIGNAL_EVENT: Role.SIGNAL,
    Opcode.WAIT_EVENT: Role.WAIT,
    Opcode.THERMAL_BACKOFF: Role.BACKOFF,
}


CacheUses = Sequence[CacheUse | None]


@dataclass(frozen=True, slots=True)
class Costs:
    """One entry an instruction in each column.

    `cycles`: the work (of a transfer: how long its channel is busy; of a back-off: its length).
    `launch`: the driver's overhead where a group begins. `latency`, `port`: of transfers, else 0.
    `hit_bytes`, `miss_bytes`: whole lines that a transfer found in the cache before `ddr`, or
    didn't; both 0 where the device has none, and for constants kept on chip, whose bytes are
    `kept_bytes`. `crossed_bytes` are the lines that were fetched from behind the cache, and the
    changed ones that were put out. `queues` indexes `queue_names`.
    """

    queue_names: tuple[str, ...]
    roles: Sequence[Role]
    queues: Sequence[int]
    cycles: Sequence[int]
    launch: Sequence[int]
    latency: Sequence[int]
    port: Sequence[int]
    events: Sequence[int]
    submit_cycles: int
    event_cycles: int
    outstanding: int
    strict: bool
    hit_bytes: Sequence[int] = ()
    miss_bytes: Sequence[int] = ()
    kept_bytes: Sequence[int] = ()
    crossed_bytes: Sequence[int] = ()


def uses_of_cache(plan: Plan, spec: HardwareSpec) -> CacheUses:
    """For each instruction what it found in the device's cache; None where it doesn't look there,
    or there is none. It depends on the cache's shape, not on its speed."""
    if spec.l2 is None:
        return [None] * len(plan.instructions)
    return cache_uses(plan, spec, spec.l2, kept_constants(plan, spec))


def instruction_costs(plan: Plan, spec: HardwareSpec, uses: CacheUses | None = None) -> Costs:
    """The jitter-free cost of every instruction at the nominal clock. `uses` are those of this plan
    and device, where they are known already: to look them up takes most of the time."""
    queue_index = {name: index for index, name in enumerate(plan.queues)}
    launches = {name: launch_cycles(spec, engine_of(name)) for name in plan.queues}
    kept = kept_constants(plan, spec)
    uses = uses_of_cache(plan, spec) if uses is None else uses
    line_bytes = spec.l2.line_bytes if spec.l2 else 0
    price = pricer(plan, spec, kept).price
    roles = [_ROLES[instruction.opcode] for instruction in plan.instructions]
    prices = [
        (0, 0, 0) if role is Role.SIGNAL or role is Role.WAIT else price(instruction, use)
        for role, instruction, use in zip(roles, plan.instructions, uses, strict=True)
    ]
    return Costs(
        queue_names=plan.queues,
        roles=roles,
        queues=[queue_index[instruction.queue] for instruction in plan.instructions],
        cycles=[item[0] for item in prices],
        launch=[
            launches[instruction.queue] if instruction.launch else 0
            for instruction in plan.instructions
        ],
        latency=[item[1] for item in prices],
        port=[item[2] for item in prices],
        events=[instruction.event for instruction in plan.instructions],
        submit_cycles=submission_cycles(plan, spec),
        event_cycles=spec.driver.event_cycles,
        outstanding=spec.dma.outstanding,
        strict=spec.driver.sync_mode is SyncMode.STRICT,
        hit_bytes=[line_bytes * (use.read.hits + use.write.hits) if use else 0 for use in uses],
        miss_bytes=[
            line_bytes * (use.read.misses + use.write.misses) if use else 0 for use in uses
        ],
        kept_bytes=[
            instruction.reads[0].size_bytes if kept.holds(instruction) else 0
            for instruction in plan.instructions
        ],
        crossed_bytes=[
            line_bytes * (use.read.misses + use.read.written_back + use.write.written_back)
            if use
            else 0
            for use in uses
        ],
    )


def submission_cycles(plan: Plan, spec: HardwareSpec) -> int:
    """Cycles of the driver's overhead before an inference of this plan."""
    ends = (*plan.inputs, *plan.outputs)
    takes_floats = any(binding.region.dtype.is_float for binding in ends)
    overhead_ns = spec.driver.submit_ns + (spec.driver.float_io_ns if takes_floats else 0)
    return nanoseconds_to_cycles(spec, overhead_ns)


def engine_of(queue: str) -> str:
    """The engine class that a queue feeds: `dma` for `dma0`, `dma1`, ...; others as named."""
    return "dma" if queue.startswith("dma") else queue
