"""The timeline of one simulated run: a span for each piece of work, a track for each queue."""

from __future__ import annotations

from collections.abc import Sequence

from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Instruction, Opcode, Plan
from stages.plan.timing import Timing
from stages.trace.spans import Flow, Span, Timeline

_NO_WORK = (Opcode.SIGNAL_EVENT, Opcode.WAIT_EVENT)


def timeline_of(plan: Plan, timing: Timing, spec: HardwareSpec) -> Timeline:
    """What the first run of `timing` did; times since the inference was submitted."""
    spans = [
        Span(
            track=instruction.queue,
            name=_name(instruction, plan),
            start_ns=cycles_to_nanoseconds(spec, start),
            end_ns=cycles_to_nanoseconds(spec, end),
            category=str(instruction.opcode),
            group=instruction.group,
            facts=_facts(instruction),
        )
        for instruction, start, end in zip(
            plan.instructions, timing.starts.tolist(), timing.ends.tolist(), strict=True
        )
        if instruction.opcode not in _NO_WORK
    ]
    total = cycles_to_nanoseconds(spec, int(timing.total_cycles[0]))
    return Timeline(plan.queues, tuple(spans), total, flows=_flows(plan.instructions))


def _flows(instructions: Sequence[Instruction]) -> tuple[Flow, ...]:
    """From the last work before each event's signal to the first behind each of its waits."""
    latest: dict[str, int] = {}
    signalled: dict[int, int] = {}
    awaited: dict[str, set[int]] = {}
    flows: list[Flow] = []
    place = 0
    for instruction in instructions:
        queue = instruction.queue
        if instruction.opcode is Opcode.SIGNAL_EVENT:
            if queue in latest:
                signalled[instruction.event] = latest[queue]
        elif instruction.opcode is Opcode.WAIT_EVENT:
            if instruction.event in signalled:
                awaited.setdefault(queue, set()).add(signalled[instruction.event])
        else:
            flows += [Flow(source, place) for source in sorted(awaited.pop(queue, ()))]
            latest[queue] = place
            place += 1
    return tuple(flows)


def _name(instruction: Instruction, plan: Plan) -> str:
    if instruction.comment:
        return instruction.comment
    if instruction.kernel >= 0:
        return plan.kernels[instruction.kernel].name
    if instruction.opcode is Opcode.DMA_COPY:
        return f"{instruction.reads[0].memory} -> {instruction.writes[0].memory}"
    return str(instruction.opcode)


def _facts(instruction: Instruction) -> dict[str, int | str]:
    facts: dict[str, int | str] = {}
    if instruction.opcode is Opcode.DMA_COPY:
        facts["bytes"] = instruction.reads[0].size_bytes
        facts["source"] = f"{instruction.reads[0].memory}+0x{instruction.reads[0].address:x}"
        facts["target"] = f"{instruction.writes[0].memory}+0x{instruction.writes[0].address:x}"
    if instruction.contraction is not None:
        facts["macs"] = instruction.contraction.macs
    return facts
