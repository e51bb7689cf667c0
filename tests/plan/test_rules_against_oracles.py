"""The rules that track bytes and order, against slow ones that follow every byte."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.plan.instructions import Buffer, Instruction, Opcode, Plan, Region
from stages.plan.rules import check_plan
from stages.plan.rules.boxes import box_of, boxes_overlap
from stages.plan.rules.buffers import overlap
from stages.plan.rules.contents import unwritten
from stages.plan.rules.facts import work_out_facts
from stages.plan.rules.races import race
from stages.recipe.decisions import Lifetime
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import legal_plan, small_spec
from tests.plan.strategies import ODD_PLANS, boxes, bytes_of, event_plans

SPEC = small_spec()
SPEC = replace(SPEC, sram=replace(SPEC.sram, reserved_bytes=0))


@given(boxes(), boxes())
@settings(max_examples=150, deadline=None)
def test_boxes_overlap_where_they_share_a_byte(one: Region, other: Region) -> None:
    shares = bool(bytes_of(one) & bytes_of(other))
    assert boxes_overlap(box_of(one), box_of(other)) == shares
    assert boxes_overlap(box_of(other), box_of(one)) == shares


def reachable(plan: Plan) -> list[set[int]]:
    """For each instruction, those that must have ended before it."""
    before: list[set[int]] = []
    last: dict[str, int] = {}
    signals: dict[int, int] = {}
    for index, row in enumerate(plan.instructions):
        mine: set[int] = set()
        causes = [last[row.queue]] if row.queue in last else []
        if row.opcode is Opcode.WAIT_EVENT and row.event in signals:
            causes.append(signals[row.event])
        for cause in causes:
            mine |= before[cause] | {cause}
        before.append(mine)
        last[row.queue] = index
        if row.opcode is Opcode.SIGNAL_EVENT:
            signals.setdefault(row.event, index)
    return before


@given(event_plans())
@settings(max_examples=100, deadline=None)
def test_races_are_found_where_bytes_conflict_without_order(plan: Plan) -> None:
    before = reachable(plan)
    expected = set()
    touched = [
        (
            frozenset().union(*map(bytes_of, row.reads)),
            frozenset().union(*map(bytes_of, row.writes)),
        )
        for row in plan.instructions
    ]
    for later, (reads, writes) in enumerate(touched):
        for earlier in set(range(later)) - before[later]:
            if touched[earlier][1] & (reads | writes) or touched[earlier][0] & writes:
                expected.add((earlier, later))
    found = list(race(work_out_facts(plan, SPEC)))
    pairs = {(int(item.message.split()[1]), item.instruction) for item in found}
    assert pairs == expected
    assert len(found) == len(expected)


@given(event_plans(), st.data())
@settings(max_examples=80, deadline=None)
def test_unwritten_bytes_are_found(plan: Plan, data: st.DataObject) -> None:
    first = data.draw(boxes())
    cuts = sorted(data.draw(st.sets(st.integers(1, 95), max_size=2)))
    plan = replace(plan, inputs=(replace(plan.inputs[0], region=first),), outputs=())
    edges = [0, *cuts, 96]
    buffers = tuple(
        Buffer(f"b{low}", "sram", low, high - low, Lifetime.LONG_LIVED, 0, len(plan.instructions))
        for low, high in pairwise(edges)
    )
    plan = replace(plan, buffers=buffers)

    def holder(region: Region) -> bool:
        return any(
            buffer.address <= region.address
            and region.stop_address <= buffer.address + buffer.size_bytes
            for buffer in buffers
        )

    written = set(bytes_of(first)) if holder(first) else set()
    expected = []
    for index, row in enumerate(plan.instructions):
        for region in row.reads:
            if holder(region) and not bytes_of(region) <= written:
                expected.append(index)
        for region in row.writes:
            if holder(region):
                written |= bytes_of(region)
    found = [item.instruction for item in unwritten(work_out_facts(plan, SPEC))]
    assert found == expected


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(0, 12), st.integers(1, 8)),
        max_size=9,
    )
)
@settings(max_examples=100, deadline=None)
def test_an_overlap_is_found_where_there_is_one(rows: list[tuple[int, int, int, int]]) -> None:
    buffers = [
        Buffer(f"b{i}", "sram", address, size, Lifetime.SCOPED, start, start + length)
        for i, (address, size, start, length) in enumerate(rows)
    ]
    clashing = {
        frozenset((one.name, other.name))
        for one in buffers
        for other in buffers
        if one is not other
        and one.start < other.stop
        and other.start < one.stop
        and one.address < other.address + other.size_bytes
        and other.address < one.address + one.size_bytes
    }
    plan = replace(legal_plan(), buffers=tuple(buffers))
    found = {
        frozenset(word[1:] for word in item.message.split() if word.startswith("%"))
        for item in overlap(work_out_facts(plan, SPEC))
    }
    assert found <= clashing
    assert bool(found) == bool(clashing)


class Interleaving:
    """Runs a plan's queues in a random legal order on memory of bytes; compute instructions write
    digests of what they read, so that any difference shows in what follows."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.random = random.Random(seed)
        self.memory: dict[tuple[str, int], bytes] = {}
        for binding in (*plan.inputs, *plan.constants):
            self.store(binding.region, hashlib.sha256(binding.name.encode()).digest())
        self.digests: dict[int, bytes] = {}

    def load(self, region: Region) -> bytes:
        """The bytes of a region, in the order of their addresses."""
        cells = sorted(bytes_of(region))
        return b"".join(self.memory.get((region.memory, cell), b"?") for cell in cells)

    def store(self, region: Region, digest: bytes) -> None:
        """Fill a region with bytes that depend on a digest and their place."""
        for number, cell in enumerate(sorted(bytes_of(region))):
            self.memory[region.memory, cell] = bytes([digest[number % 32] ^ (number // 32) % 256])

    def step(self, index: int, row: Instruction) -> None:
        """Run one instruction."""
        read = b"".join(self.load(region) for region in row.reads)
        self.digests[index] = hashlib.sha256(read + bytes([row.kernel % 256])).digest()
        for region in row.writes:
            self.store(region, self.digests[index])

    def run(self) -> dict[int, bytes] | None:
        """What each instruction read, as a digest; None where the queues are stuck."""
        rows = self.plan.instructions
        queues: dict[str, list[int]] = {}
        for index, row in enumerate(rows):
            queues.setdefault(row.queue, []).append(index)
        signalled: set[int] = set()
        while queues:
            ready = [
                name
                for name, line in queues.items()
                if rows[line[0]].opcode is not Opcode.WAIT_EVENT or rows[line[0]].event in signalled
            ]
            if not ready:
                return None
            name = self.random.choice(ready)
            for _ in range(self.random.choice((1, 1, 4, 16))):  # bursts find more races
                if name not in queues:
                    break
                index = queues[name][0]
                if rows[index].opcode is Opcode.WAIT_EVENT and rows[index].event not in signalled:
                    break
                self.step(index, rows[index])
                if rows[index].opcode is Opcode.SIGNAL_EVENT:
                    signalled.add(rows[index].event)
                queues[name].pop(0)
                if not queues[name]:
                    del queues[name]
        return self.digests


def in_program_order(plan: Plan) -> dict[int, bytes]:
    """What each instruction reads when the program runs one at a time."""
    run = Interleaving(plan, 0)
    for index, row in enumerate(plan.instructions):
        run.step(index, row)
    return run.digests


def drop(rows: list[Instruction], chance: random.Random) -> None:
    """Leave one instruction out."""
    del rows[chance.randrange(len(rows))]


def swap(rows: list[Instruction], chance: random.Random) -> None:
    """Exchange two neighbours."""
    at = chance.randrange(len(rows) - 1)
    rows[at], rows[at + 1] = rows[at + 1], rows[at]


def requeue(rows: list[Instruction], chance: random.Random) -> None:
    """Put an instruction on another queue."""
    at = chance.randrange(len(rows))
    rows[at] = replace(rows[at], queue=chance.choice(["dma0", "dma1", "vector", "tensor_core"]))


def reevent(rows: list[Instruction], chance: random.Random) -> None:
    """Change the event of a wait or a signal."""
    at = chance.choice([i for i, row in enumerate(rows) if row.event >= 0])
    rows[at] = replace(rows[at], event=chance.randrange(8))


def shift(rows: list[Instruction], chance: random.Random) -> None:
    """Move one region by some bytes."""
    at = chance.choice([i for i, row in enumerate(rows) if row.reads])
    side = chance.choice(["reads", "writes"])
    regions = list(getattr(rows[at], side))
    place = chance.randrange(len(regions))
    step = chance.choice([-512, -16, 16, 64, 512, 1024])
    regions[place] = replace(regions[place], address=max(0, regions[place].address + step))
    rows[at] = replace(rows[at], **{side: tuple(regions)})


MUTATIONS = (drop, swap, requeue, reevent, shift)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: str(mutate.__name__))
def test_a_mutated_plan_is_caught_or_means_the_same_in_any_order(
    mutate: Callable[[list[Instruction], random.Random], None],
) -> None:
    chance = random.Random(mutate.__name__)
    caught = 0
    for number in range(24):
        plan = legal_plan() if number % 2 else large_plan(1, 3)
        rows = list(plan.instructions)
        mutate(rows, chance)
        end = len(rows)
        buffers = tuple(
            replace(item, stop=min(item.stop, end), start=min(item.start, end - 1))
            for item in plan.buffers
        )
        mutant = replace(plan, instructions=tuple(rows), buffers=buffers)
        if check_plan(mutant, small_spec()):
            caught += 1
            continue
        meaning = in_program_order(mutant)
        for seed in range(3):
            assert Interleaving(mutant, seed).run() == meaning, rows
    assert caught >= 6, "the mutations that do harm are most of them"


def test_the_oracle_sees_a_race() -> None:
    """Without its waits on the tensor core, some order of the large plan reads other bytes."""
    plan = large_plan(1, 3)
    rows = tuple(
        row
        for row in plan.instructions
        if row.opcode is not Opcode.WAIT_EVENT or row.queue != "tensor_core"
    )
    mutant = replace(plan, instructions=rows)
    meaning = in_program_order(mutant)
    assert any(Interleaving(mutant, seed).run() != meaning for seed in range(5))
    assert "plan-race" in {item.rule for item in check_plan(mutant, small_spec())}


@given(ODD_PLANS)
@settings(max_examples=60, deadline=None)
def test_the_rules_survive_any_plan(plan: Plan) -> None:
    violations = check_plan(plan, small_spec())
    assert violations
    assert all(item.message and item.hint for item in violations)
