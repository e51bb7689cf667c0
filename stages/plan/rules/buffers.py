"""Rules about buffers: form, liveness, overlap, peak."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from stages.plan.instructions import Binding, Buffer, Plan
from stages.plan.rules.addresses import bindings
from stages.plan.rules.facts import (
    NO_BUFFER,
    Facts,
    find_buffers,
    malformed,
)
from stages.plan.rules.violation import (
    Finding,
    Findings,
    say_buffer,
    say_range,
    say_region,
)
from stages.plan.syntax import print_name
from stages.recipe.decisions import Lifetime


def buffer(facts: Facts) -> Findings:
    """Every buffer has a name of its own, a memory, a size and a time to live.

    It lives over instructions `[start, stop)` of the program, at least one of them, and none
    before the first or after the last.

    Cure: name each buffer once, and let it live from its first writer up to its last reader.
    """
    names = Counter(item.name for item in facts.plan.buffers)
    end = max(1, len(facts.plan.instructions))  # a program of views alone has one instant
    for name, count in names.items():
        if count > 1:
            yield Finding(
                f"{count} buffers are named %{print_name(name)}", "give each a name of its own"
            )
    for item in facts.plan.buffers:
        said = say_buffer(item)
        if item.memory not in facts.memories:
            yield Finding(
                f"buffer {said} lies in {item.memory}, which the device hasn't",
                f"its memories are {' and '.join(facts.memories)}",
            )
        if item.size_bytes <= 0:
            yield Finding(f"buffer {said} holds nothing", "leave it out")
        if not 0 <= item.start < item.stop <= end:
            yield Finding(
                f"buffer {said} lives over instructions [{item.start}, {item.stop}); "
                f"the program is [0, {end})",
                "let it live from its first writer up to its last reader",
            )


def live(facts: Facts) -> Findings:
    """Every region lies inside a buffer that is live when it's touched.

    Constants lie in buffers of lifetime `weights` that live as long as the program, because they
    are loaded once and every run needs them. Inputs lie in buffers that live from the first
    instruction, outputs in buffers that live until the last.

    Cure: lengthen the buffer's live interval, or move the region into its buffer.
    """
    accesses = facts.accesses
    for access in (accesses.buffer == NO_BUFFER).nonzero()[0].tolist():
        item = accesses.regions[access]
        index = int(accesses.instruction[access])
        if facts.in_bounds(item):
            verb = "writes" if accesses.writes[access] else "reads"
            yield Finding(
                f"instruction {index} {verb} "
                f"{say_region(item)} {say_range(item.address, item.stop_address)}, "
                f"which no one live buffer holds; "
                f"{_nearest(facts.plan, item.memory, item.address)}",
                "lengthen the buffer's live interval, or move the region into its buffer",
                index,
            )
    yield from _live_bindings(facts)


def _nearest(plan: Plan, memory: str, address: int) -> str:
    """What is known of the address: the buffers that hold it at other times."""
    holders = [
        f"%{print_name(item.name)} holds it over [{item.start}, {item.stop})"
        for item in plan.buffers
        if item.memory == memory and item.address <= address < item.address + item.size_bytes
    ]
    return "; ".join(holders[:3]) if holders else "none holds its first byte at any time"


def _live_bindings(facts: Facts) -> Findings:
    plan = facts.plan
    end = len(plan.instructions)
    for word, binding, number in _held_bindings(facts):
        item = binding.region
        said = f"{word} %{print_name(binding.name)} at {say_region(item)}"
        if number == NO_BUFFER:
            edge = "the last instruction" if word == "output" else "the first instruction"
            yield Finding(
                f"{said} lies in no buffer that is live at {edge}", "give it a buffer that is"
            )
        elif word == "constant":
            holder = plan.buffers[number]
            if holder.lifetime is not Lifetime.WEIGHTS or holder.stop < end:
                yield Finding(
                    f"{said} lies in buffer {say_buffer(holder)} of lifetime "
                    f"{holder.lifetime}, live over [{holder.start}, {holder.stop})",
                    "constants need lifetime `weights`, as long as the program",
                )


def _held_bindings(facts: Facts) -> Iterator[tuple[str, Binding, int]]:
    """Bindings that keep to the rules before, each with the buffer that holds it: outputs at the
    last instruction, all others at the first."""
    judged = [
        (word, binding)
        for word, binding in bindings(facts.plan)
        if not malformed(binding.region, facts.memories)
        and binding.region.size_bytes
        and facts.in_bounds(binding.region)
    ]
    judged.sort(key=lambda item: item[0] == "output")
    last = max(len(facts.plan.instructions) - 1, 0)
    numbers = find_buffers(
        facts.plan,
        [binding.region for _, binding in judged],
        [last if word == "output" else 0 for word, _ in judged],
        [binding.region.stop_address for _, binding in judged],
    )
    for (word, binding), number in zip(judged, numbers, strict=True):
        yield word, binding, number


def overlap(facts: Facts) -> Findings:
    """No two live buffers share memory.

    Two buffers whose live intervals meet have no byte in common.

    Cure: move one of them, shorten a live interval, or raise the memory's size in the spec.
    """
    for one, other in _clashes(facts.plan.buffers):
        first, last = max(one.start, other.start), min(one.stop, other.stop)
        yield Finding(
            f"buffers {say_buffer(one)} and {say_buffer(other)} share {one.memory} "
            f"in instructions [{first}, {last})",
            f"move one of them, or raise `memory.{one.memory}.size` in the hardware spec",
            first,
        )


def _clashes(buffers: Sequence[Buffer]) -> Iterator[tuple[Buffer, Buffer]]:
    """Pairs that overlap: every buffer is compared with its neighbours by address at its birth,
    which finds all pairs as long as there are none."""
    by_birth = sorted(
        (item for item in buffers if item.start < item.stop and item.size_bytes > 0),
        key=lambda item: item.start,
    )
    rows: dict[str, list[Buffer]] = {}
    deaths: list[tuple[int, int]] = []
    for number, item in enumerate(by_birth):
        while deaths and deaths[0][0] <= item.start:
            dead = by_birth[heappop(deaths)[1]]
            rows[dead.memory].remove(dead)
        row = rows.setdefault(item.memory, [])
        place = bisect_left(row, item.address, key=_address)
        for other in row[max(place - 1, 0) :]:
            if other.address >= item.address + item.size_bytes:
                break
            if other.address + other.size_bytes > item.address:
                yield other, item
        row.insert(place, item)
        heappush(deaths, (item.stop, number))


def _address(item: Buffer) -> int:
    return item.address


def peak(facts: Facts) -> Findings:
    """The buffers fit in their memory.

    No buffer begins in the reserved bytes of its memory or reaches past its end: the highest
    address of any buffer is the peak.

    Cure: smaller tiles, buffers elsewhere, or, if the real device has more, a larger size in the
    spec.
    """
    for item in facts.plan.buffers:
        memory = facts.memories.get(item.memory)
        if memory is None:
            continue
        stop = item.address + item.size_bytes
        if item.address < memory.reserved_bytes or stop > memory.size_bytes:
            usable = say_range(memory.reserved_bytes, memory.size_bytes)
            missing = max(stop - memory.size_bytes, memory.reserved_bytes - item.address)
            yield Finding(
                f"buffer {say_buffer(item)} lies {missing} B outside of {item.memory} {usable}, "
                f"in instructions [{item.start}, {item.stop})",
                f"take smaller tiles, or mend `memory.{item.memory}.size` in the hardware spec",
                item.start,
            )
