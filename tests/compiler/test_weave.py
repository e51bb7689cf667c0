"""Groups woven together: what is kept, what is gained, and that the numbers stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler import plans
from stages.compiler.emit.program import Place, Program, Written
from stages.compiler.emit.regions import bytes_region
from stages.compiler.pipeline import compile_graph
from stages.compiler.schedule import weaving
from stages.compiler.schedule.attempts import ATTEMPTS, Attempt, Freedom
from stages.compiler.schedule.clock import Clock, clock_of
from stages.compiler.schedule.dependencies import Dependencies, Reach, dependencies
from stages.compiler.schedule.forwarding import forwarded
from stages.compiler.schedule.holding import held
from stages.compiler.schedule.permute import permuted, relaunched, reordered
from stages.compiler.schedule.reorder import Order, Scheduled, scheduled
from stages.compiler.schedule.weave import woven_order
from stages.compiler.schedule.weaving import Weaving
from stages.plan.instructions import SRAM, Instruction, Kernel, Opcode
from stages.plan.timing import plan_cycles
from stages.recipe.decisions import Lifetime
from tests.compiler.judged import case_of, compile_and_judge, compile_in_integers, judge_same_bits
from tests.compiler.model_builder import SeededChoices
from tests.compiler.random_models import random_model
from tests.compiler.specs import hardware

SPEC = hardware("npu_tiny")
QUEUES = ("tensor_core", "vector", "host", "dma0", "dma1")
STEP = 10_000
LARGE = SPEC.sram.usable_bytes // 2
SEEDS = (1, 3, 7, 8, 12, 26, 29, 47, 79)


def step(queue: str, group: str, reads: list[Place], target: Place) -> Written:
    """A step of `STEP` cycles."""
    item = Instruction(
        Opcode.THERMAL_BACKOFF,
        queue,
        group,
        reads=tuple(bytes_region(SRAM, place.address, place.size_bytes) for place in reads),
        writes=(bytes_region(SRAM, target.address, target.size_bytes),),
        cycles=STEP,
    )
    return Written(item, tuple(reads), (target,))


def value(number: int) -> Place:
    address = SPEC.sram.reserved_bytes + 64 * number
    return Place(f"v{number}", SRAM, address, 64, Lifetime.EPHEMERAL, is_slot=True)


def two_heads() -> Program:
    """Two steps on the tensor core; what the second one makes takes a step on the vector unit."""
    program = Program(SPEC)
    program.append([step("tensor_core", "a", [], value(0)), step("tensor_core", "b", [], value(1))])
    program.append([step("vector", "c", [value(1)], value(2))])
    program.append([step("vector", "d", [value(0), value(2)], value(3))])
    return program


def spans(done: Scheduled) -> list[tuple[int, int]]:
    """Starts and ends, each step after its predecessors and after its queue's last one."""
    free: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for item, after in zip(done.written, done.predecessors, strict=True):
        queue = item.instruction.queue
        start = max([free.get(queue, 0), *(found[other][1] for other in after)])
        free[queue] = start + STEP
        found.append((start, start + STEP))
    return found


def test_what_another_engine_waits_for_goes_first() -> None:
    plain = scheduled(two_heads(), (), QUEUES, SPEC)
    woven = scheduled(two_heads(), (), QUEUES, SPEC, Order.WOVEN)
    assert [item.instruction.group for item in woven.written] == ["b", "a", "c", "d"]
    assert spans(plain)[-1][1] == 4 * STEP
    assert spans(woven)[-1][1] == 3 * STEP


def test_the_launch_of_a_group_falls_on_its_first_step_in_any_order() -> None:
    kernels = (Kernel("k", (), (), ()),)
    places = [value(number) for number in range(3)]
    rows = [step("vector", group, [], place) for group, place in zip("aab", places, strict=True)]
    program = [
        replace(row, instruction=replace(row.instruction, kernel=0, launch=number != 1))
        for number, row in enumerate(rows)
    ]
    found = relaunched(program, [1, 2, 0])
    assert [item.instruction.launch for item in found] == [True, True, False]
    clock = clock_of([item.instruction for item in program], kernels, (), QUEUES, SPEC)
    launch = clock.launches[0]
    assert launch > 0
    assert clock.launches == [launch, 0, launch]
    assert reordered(clock, [1, 2, 0], found).launches == [launch, launch, 0]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Steps on two engines, each of which reads some of the values made before it."""
    program = Program(SPEC)
    for number in range(draw(st.integers(1, 14))):
        queue = draw(st.sampled_from(("tensor_core", "vector")))
        reads = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        places = [value(other) for other in sorted(reads)]
        group = f"g{number // 3}{queue}"
        program.append([step(queue, group, places, value(number))])
    return program


def every_dependency(program: Program) -> tuple[Dependencies, Clock]:
    instructions = [item.instruction for item in program.written]
    return dependencies(program.written, Reach.ALL), clock_of(instructions, (), (), QUEUES, SPEC)


@settings(max_examples=100)
@given(programs(), st.sampled_from(Freedom))
def test_an_order_keeps_every_dependency(program: Program, freedom: Freedom) -> None:
    found, clock = every_dependency(program)
    order = woven_order(program.written, found, clock, freedom, LARGE)
    assert sorted(order) == list(range(len(program.written)))
    place = {number: at for at, number in enumerate(order)}
    for number, after in enumerate(found.predecessors):
        assert all(place[other] < place[number] for other in after)
    if freedom is Freedom.GROUPS:
        groups = [item.instruction.group for item in program.written]
        for group in set(groups):
            members = [number for number, name in enumerate(groups) if name == group]
            assert sorted(members, key=place.__getitem__) == members


@settings(max_examples=100)
@given(programs())
def test_what_lanes_imply_is_all_that_another_order_leaves_out(program: Program) -> None:
    found, clock = every_dependency(program)
    order = woven_order(program.written, found, clock, Freedom.STEPS, LARGE)
    ours = permuted(found, order)
    place = {number: at for at, number in enumerate(order)}
    for number, after in enumerate(found.predecessors):
        kept = ours.predecessors[place[number]]
        for other in after:
            lane = found.lanes[other]
            assert any(
                place[other] <= item and ours.lanes[item] is lane and item < place[number]
                for item in kept
            )
    for use in ours.buffers:
        assert 0 <= use.first <= use.last < len(order)
        assert use.writers == sorted(use.writers)


def weave_always(patch: pytest.MonkeyPatch, tried: Sequence[Attempt]) -> None:
    """Weave every plan in one of these attempts, whether that pays or not."""

    def woven(planned, assignment, spec):
        return plans.emitted(*assignment.streaming().run(), spec, Order.WOVEN, tried)

    patch.setattr(plans, "engines_take_turns", lambda plan, spec: True)
    patch.setattr(plans, "better", woven)


@pytest.fixture
def always_woven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weave every plan, whether that pays or not."""
    weave_always(monkeypatch, ATTEMPTS)


@pytest.mark.usefixtures("always_woven")
@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "ethos_u65_512"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_woven_plan_keeps_the_rules_and_the_numbers(seed: int, name: str) -> None:
    model = random_model(SeededChoices(np.random.default_rng(seed)), 8)
    case = case_of(model.model, model.feeds)
    compile_and_judge(case, hardware(name))
    if not model.is_quantized:
        compile_in_integers(case, hardware(name))


def test_plans_that_hold_all_that_they_can_keep_the_rules_and_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weave_always(monkeypatch, [Attempt(Freedom.STEPS, 10, 7)])
    holds = 0

    def counted(*asked):
        nonlocal holds
        done = held(*asked)
        holds += sum(use.place.name.endswith(".held") for use in done.program.found.buffers)
        return done

    monkeypatch.setattr(weaving, "held", counted)
    for seed in SEEDS:
        model = random_model(SeededChoices(np.random.default_rng(seed)), 8)
        compile_and_judge(case_of(model.model, model.feeds), hardware("npu_tiny"))
    assert holds >= len(SEEDS)


def test_what_is_judged_here_leaves_loads_and_stores_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = 0

    def counted(program, room_bytes):
        nonlocal left_out
        done = forwarded(program, room_bytes)
        left_out += len(program.written) - len(done.written)
        return done

    weave_always(monkeypatch, [Attempt(Freedom.GROUPS, 0, 6)])
    monkeypatch.setattr(weaving, "forwarded", counted)
    for seed in SEEDS:
        model = random_model(SeededChoices(np.random.default_rng(seed)), 8)
        case = case_of(model.model, model.feeds)
        compile_graph(case.graph, case.constants, hardware("npu_tiny"))
    assert left_out > len(SEEDS)


def test_the_first_attempt_that_finds_room_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = hardware("npu_tiny")
    model = random_model(SeededChoices(np.random.default_rng(3)), 8)
    case = case_of(model.model, model.feeds)
    made: list[bool] = []

    first_of = Weaving.first

    def noted(weaving, tried):
        first = first_of(weaving, tried)
        made.append(first is not None)
        return first

    def cycles(tried: Sequence[Attempt]) -> int:
        with monkeypatch.context() as patch:
            weave_always(patch, tried)
            patch.setattr(Weaving, "first", noted)
            return plan_cycles(compile_graph(case.graph, case.constants, spec).plan, spec)

    each = {attempt: cycles([attempt]) for attempt in ATTEMPTS}
    worked = [attempt for attempt, works in zip(ATTEMPTS, made, strict=True) if works]
    failed = [attempt for attempt in ATTEMPTS if attempt not in worked]
    assert len({each[attempt] for attempt in worked}) > 1
    for attempt in worked:
        others = [other for other in worked if other != attempt]
        assert cycles([*failed, attempt, *others]) == each[attempt]


def test_integers_are_the_same_bit_for_bit_and_so_are_two_compiles(
    monkeypatch: pytest.MonkeyPatch, always_woven: None
) -> None:
    spec = hardware("rk3588_npu")
    tried = 0
    for seed in range(60):
        model = random_model(SeededChoices(np.random.default_rng(seed)), 6)
        if not model.is_quantized:
            continue
        tried += 1
        case = case_of(model.model, model.feeds)
        one, same = (compile_graph(case.graph, case.constants, spec) for _ in range(2))
        assert one.plan == same.plan
        with monkeypatch.context() as patch:
            patch.setattr(plans, "engines_take_turns", lambda plan, spec: False)
            other = compile_graph(case.graph, case.constants, spec)
        judge_same_bits(other, one, case.feeds, spec)
    assert tried >= 5


def test_a_woven_plan_is_kept_only_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the wish to weave, no plan is slower than the one that goes group by group."""
    spec = hardware("rk3588_npu")
    for seed in SEEDS:
        model = random_model(SeededChoices(np.random.default_rng(seed)), 8)
        case = case_of(model.model, model.feeds)
        monkeypatch.setattr(plans, "engines_take_turns", lambda plan, spec: False)
        plain = compile_graph(case.graph, case.constants, spec)
        monkeypatch.setattr(plans, "engines_take_turns", lambda plan, spec: True)
        best = compile_graph(case.graph, case.constants, spec)
        assert plan_cycles(best.plan, spec) <= plan_cycles(plain.plan, spec)
        (told,) = [item for item in best.weighed if item.question == "order"]
        fewest = min(item.cost_cycles for item in told.alternatives)
        assert fewest == plan_cycles(best.plan, spec)


def test_a_strict_driver_is_never_woven(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = hardware("rk3588_npu")
    model = random_model(SeededChoices(np.random.default_rng(3)), 8)
    case = case_of(model.model, model.feeds)
    monkeypatch.setattr(plans, "_SHARE", 10**9)
    monkeypatch.setattr(plans, "better", lambda *_: pytest.fail("woven"))
    with pytest.raises(pytest.fail.Exception):
        compile_graph(case.graph, case.constants, spec)
    strict = replace(spec, driver=replace(spec.driver, sync_mode=plans.SyncMode.STRICT))
    compile_graph(case.graph, case.constants, strict)
