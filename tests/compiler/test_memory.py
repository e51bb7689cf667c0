"""Addresses: the greedy arena against brute force, and what is refused when memory is short."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.memory.offsets import Arena, Placed, Request, largest_first
from stages.compiler.pipeline import compile_graph
from stages.errors import DoesNotFitError
from stages.memory_planner.problem import Buffer, max_live_bytes
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware, with_sram
from tests.memory_planner.cases import INSTANCES, instance

BASE, ALIGNMENT = 8, 4


def faults(placed: list[Placed], base: int, limit: int, alignment: int) -> list[str]:
    """An independent look at a placement: what is wrong with it."""
    found = []
    for item in placed:
        size = item.request.size_bytes
        if item.address < base or item.address + size > limit:
            found.append(f"{item.request.name} is out of bounds")
        if item.address % alignment:
            found.append(f"{item.request.name} isn't aligned")
    for index, one in enumerate(placed):
        for other in placed[:index]:
            a, b = one.request, other.request
            in_time = max(a.start, b.start) < min(a.stop, b.stop)
            low, high = (
                max(one.address, other.address),
                min(one.address + a.size_bytes, other.address + b.size_bytes),
            )
            if in_time and low < high:
                found.append(f"{a.name} and {b.name} overlap")
    return found


def test_the_validator_finds_faults() -> None:
    one, two = Request("a", 8, 0, 3), Request("b", 8, 2, 4)
    assert faults([Placed(one, 8), Placed(two, 12)], 8, 64, 4) == ["b and a overlap"]
    assert faults([Placed(one, 10)], 8, 64, 4) == ["a isn't aligned"]
    assert faults([Placed(one, 4)], 8, 64, 4) == ["a is out of bounds"]
    assert faults([Placed(one, 60)], 8, 64, 4) == ["a is out of bounds"]
    assert faults([Placed(one, 8), Placed(replace(two, start=3), 8)], 8, 64, 4) == []


@st.composite
def requests(draw) -> list[Request]:
    made = []
    for number in range(draw(st.integers(1, 7))):
        start = draw(st.integers(0, 5))
        stop = draw(st.integers(start + 1, 6))
        size = draw(st.integers(1, 20))
        made.append(Request(str(number), size, start, stop, draw(st.booleans())))
    return made


@settings(max_examples=400)
@given(requests(), st.integers(20, 60))
def test_each_buffer_lies_in_the_first_place_that_brute_force_finds(
    made: list[Request], limit: int
) -> None:
    arena = Arena(BASE, limit, ALIGNMENT)
    for request in made:
        before = list(arena.placed)
        legal = [
            address
            for address in range(BASE, limit, ALIGNMENT)
            if not faults([*before, Placed(request, address)], BASE, limit, ALIGNMENT)
        ]
        placed = arena.place(request)
        if not legal:
            assert placed is None
            assert arena.placed == before
        else:
            assert placed is not None
            assert placed.address == (legal[-1] if request.from_top else legal[0])
    assert not faults(arena.placed, BASE, limit, ALIGNMENT)


@given(requests())
def test_all_or_none_are_placed(made: list[Request]) -> None:
    arena = Arena(BASE, 48, ALIGNMENT)
    first = arena.place(Request("first", 8, 0, 6))
    placed = arena.place_all(made)
    if placed is None:
        assert arena.placed == [first]
    else:
        assert arena.placed == [first, *placed]
        assert [item.request for item in placed] == made


@given(requests())
def test_no_placement_is_below_the_live_peak(made: list[Request]) -> None:
    arena = Arena(0, 1 << 20, 1)
    assert arena.place_all(largest_first(made)) is not None
    alive = [
        sum(item.size_bytes for item in made if item.start <= instant < item.stop)
        for instant in range(6)
    ]
    buffers = (Buffer(item.name, item.start, item.stop, item.size_bytes) for item in made)
    assert max_live_bytes(tuple(buffers)) == max(alive)
    low = Arena(0, 1 << 20, 1)
    low.place_all([replace(item, from_top=False) for item in largest_first(made)])
    assert max(item.end for item in low.placed) >= max(alive)


@pytest.mark.parametrize("name", INSTANCES)
def test_published_instances_are_placed_legally(name: str) -> None:
    """Greedy needs more than the capacity of 1,048,576 B that a solver reaches: up to half more."""
    task = instance(name)
    made = [Request(item.name, item.size_bytes, item.lower, item.upper) for item in task.buffers]
    arena = Arena(0, 1 << 30, 1)
    placed = arena.place_all(largest_first(made))
    assert placed is not None
    assert not faults(placed, 0, 1 << 30, 1)
    highest = max(item.end for item in placed)
    assert max_live_bytes(task.buffers) <= highest <= 1.5 * task.capacity_bytes


WIDE = """
    input %x : f16[1,4096]
    const %w : f16[4096,512]
    %y : f16[1,512] = matmul(%x, %w) # product
    output %y
    """


def refusal(text: str, spec) -> DoesNotFitError:
    draft = draft_of(text, spec=spec)
    with pytest.raises(DoesNotFitError) as caught:
        compile_graph(draft.graph, draft.constants, spec)
    return caught.value


def test_a_tile_that_fits_no_sram_is_refused_by_name_and_bytes() -> None:
    error = refusal(
        "input %x : f16[8,20000]\n%y : f16[8,20000] = softmax(%x) {axis=1}\noutput %y",
        with_sram(hardware("npu_tiny"), 16 * 1024),
    )
    assert "group y" in error.problem
    assert "80000 B of SRAM" in error.problem or "B more than the 15360 B" in error.problem
    assert "f16[8,20000]" in error.where
    assert "memory.sram.size" in error.hint


def test_values_that_fit_no_ddr_are_refused() -> None:
    spec = hardware("npu_tiny")
    small = replace(spec, ddr=replace(spec.ddr, size_bytes=8 * 1024))
    error = refusal("input %x : f16[64,64]\n%y : f16[64,64] = relu(%x)\noutput %y", small)
    assert "8192 B" in error.problem
    assert "%y" in error.problem or "%x" in error.problem
    assert "memory.ddr.size" in error.hint


def test_weights_that_fit_no_ddr_are_refused_with_the_bytes_missing() -> None:
    spec = hardware("npu_tiny")
    small = replace(spec, ddr=replace(spec.ddr, size_bytes=1 << 20))
    error = refusal(WIDE, small)
    assert error.problem.startswith("weights product")
    assert "beyond the 1048576 B of ddr" in error.problem
    missing = int(error.problem.split(" end ")[1].split(" B")[0])
    assert missing == 4096 * 512 * 2 - (1 << 20) + (int(error.where.removeprefix("ddr+"), 16))
