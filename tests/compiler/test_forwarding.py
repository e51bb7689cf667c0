"""Loads that are left out because the SRAM still holds what they would bring."""

from __future__ import annotations

import pytest

from stages.compiler.emit.program import Access, Place, Program, Written
from stages.compiler.emit.regions import bytes_region
from stages.compiler.schedule.dependencies import Reach, dependencies
from stages.compiler.schedule.forwarding import forwarded
from stages.compiler.schedule.ordered import OrderedProgram
from stages.compiler.schedule.rewriting import Forwarded
from stages.plan.instructions import DDR, SRAM, Instruction, Opcode, Region
from stages.recipe.decisions import Lifetime
from tests.compiler.specs import hardware

SPEC = hardware("npu_tiny")
SIZE = 64
ROOM = 1 << 14


def slot(name: str, number: int) -> Place:
    address = SPEC.sram.reserved_bytes + 256 * number
    return Place(name, SRAM, address, SIZE, Lifetime.EPHEMERAL, is_slot=True)


def outer(name: str, number: int, lifetime: Lifetime = Lifetime.SCOPED) -> Place:
    address = SPEC.ddr.reserved_bytes + 256 * number
    return Place(name, DDR, address, 2 * SIZE, lifetime)


def region(place: Place, offset: int = 0) -> Region:
    return bytes_region(place.memory, place.address + offset, SIZE)


def step(group: str, reads: list[Place], target: Place) -> Written:
    item = Instruction(
        Opcode.THERMAL_BACKOFF,
        "vector",
        group,
        reads=tuple(region(place) for place in reads),
        writes=(region(target),),
        cycles=10,
    )
    return Written(item, tuple(reads), (target,))


def moved(program: Program, source: Place, target: Place, start: int = 0) -> list[Written]:
    """A transfer of the bytes from `start` of the place in the DDR."""
    ends = [
        Access(place, region(place, 0 if place.is_slot else start)) for place in (source, target)
    ]
    queue = program.load_queue if target.is_slot else program.store_queue
    return program.copy(queue, "g", ends[0], ends[1], "")


A, B, C, D, LOADED, AGAIN = (slot(name, number) for number, name in enumerate("abcdlm"))
VALUE = outer("value", 0)
RESULT = outer("result", 1, Lifetime.LONG_LIVED)


def passed_on(through: Place = VALUE) -> Program:
    """What `a` holds goes to the DDR and comes back to make `b`, which is the result."""
    program = Program(SPEC)
    program.append([step("first", [], A)])
    program.append(moved(program, A, through))
    program.append(moved(program, through, LOADED))
    program.append([step("second", [LOADED], B)])
    program.append(moved(program, B, RESULT))
    return program


def shortened(program: Program, room_bytes: int = ROOM) -> Forwarded:
    found = dependencies(program.written, Reach.ALL)
    order = range(len(program.written))
    return forwarded(OrderedProgram(program.written, found, order), room_bytes)


def test_a_value_that_is_loaded_again_stays_and_its_store_goes() -> None:
    done = shortened(passed_on())
    assert done.kept == [0, 3, 4]
    reader = done.written[1]
    assert reader.reads == (A,)
    assert reader.instruction.reads == (region(A),)
    assert done.found.predecessors == [[], [0], [1]]
    assert {use.place.name for use in done.found.buffers} == {"a", "b", "result"}
    held = next(use for use in done.found.buffers if use.place.name == "a")
    assert (held.first, held.last, held.touches, held.writers) == (0, 1, 2, [0])


def test_without_room_nothing_changes() -> None:
    program = passed_on()
    program.written[3:3] = [step("between", [], C), step("reader", [C], D)]
    program.written[2], program.written[4] = program.written[4], program.written[2]
    program.written[2], program.written[3] = program.written[3], program.written[2]
    everything = shortened(program, 2 * SIZE)
    assert everything.kept == list(range(len(program.written)))
    assert len(shortened(program).kept) == len(program.written) - 2


def test_an_output_is_stored_all_the_same() -> None:
    done = shortened(passed_on(outer("out", 2, Lifetime.LONG_LIVED)))
    assert done.kept == [0, 1, 3, 4]


def test_a_store_stays_while_another_box_of_it_is_loaded() -> None:
    program = passed_on()
    program.append(moved(program, VALUE, AGAIN, start=SIZE // 2))
    program.append([step("third", [AGAIN], C)])
    assert shortened(program).kept == [0, 1, 3, 4, 5, 6]


@pytest.mark.parametrize(("room_bytes", "kept"), [(ROOM, [0, 1, 2, 4]), (SIZE, [0, 1, 2, 3, 4])])
def test_weights_are_loaded_once_where_there_is_room(room_bytes: int, kept: list[int]) -> None:
    weights = outer("weights", 3, Lifetime.WEIGHTS)
    program = Program(SPEC)
    program.append(moved(program, weights, LOADED))
    program.append([step("first", [LOADED], A)])
    program.append([step("between", [], C)])
    program.append(moved(program, weights, AGAIN))
    program.append([step("second", [AGAIN], B)])
    assert shortened(program, room_bytes).kept == kept


def test_what_was_written_anew_is_loaded_anew() -> None:
    program = Program(SPEC)
    program.append([step("first", [], A)])
    program.append(moved(program, A, VALUE))
    program.append(moved(program, VALUE, LOADED))
    program.append([step("second", [LOADED], B)])
    program.append([step("other", [], C)])
    program.append(moved(program, C, VALUE))
    program.append(moved(program, VALUE, AGAIN))
    program.append([step("third", [AGAIN], D)])
    done = shortened(program)
    assert done.kept == [0, 1, 3, 4, 5, 6, 7]
    assert done.written[2].reads == (A,)
    assert done.written[-1].reads == (AGAIN,)
