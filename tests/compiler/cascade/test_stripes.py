"""Random chains in stripes: every row is made, every row that is read is held, and the plan
computes bit for bit what it computes layer by layer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.compiler.cascade.stripes import Striped
from tests.compiler.cascade.chain_models import chain_case, chain_plans, joined_case
from tests.compiler.judged import judge_numbers, judge_plan, judge_same_bits, own_ranges
from tests.compiler.model_builder import SeededChoices
from tests.compiler.specs import hardware

COUNTED = {"cascades": 0, "again": 0, "in blocks": 0, "joined": 0}


def assert_sound(cut: Striped) -> None:
    """Follow the parts of a cascade with the rows that each buffer holds."""
    chain = cut.chain
    rows: dict[int, tuple[int, int]] = {}
    made: dict[str, set[int]] = {work.result: set() for work in chain.works}
    axes = dict(zip(chain.passes, chain.axes, strict=True))
    COUNTED["joined"] += bool(chain.pieces)
    COUNTED["in blocks"] += chain.step > 1 and cut.rounds > 1
    for part in cut.parts:
        work, value, (start, stop) = chain.works[part.place], chain.passes[part.place], part.span
        boxes = cut.boxes(part)
        for read in chain.inner & set(work.operands):
            low, high = boxes[read][axes[read]]
            makers = [at for at, other in enumerate(chain.passes) if other == read]
            if read in cut.capacities:
                assert all(rows[at][0] <= low and high <= rows[at][1] for at in makers)
            else:
                assert all(set(range(low, high)) <= made[chain.works[at].result] for at in makers)
        if value in cut.capacities:
            first, end = rows.get(part.place, (0, 0))
            if part.base != first:
                first, end = part.base, part.base
            assert start <= end or start == first
            assert stop - part.base <= cut.capacities[value]
            COUNTED["again"] += bool(set(range(start, stop)) & made[work.result])
            rows[part.place] = (first, stop)
        made[work.result] |= set(range(start, stop))
    for work, axis in zip(chain.works, chain.axes, strict=True):
        assert made[work.result] == set(range(work.result_type.shape[axis]))


def judge_chain(choices, name: str, in_integers: bool, make=chain_case) -> None:
    case, spec = make(choices), hardware(name)
    plans = chain_plans(case, spec, own_ranges(case) if in_integers else None, choices)
    if plans is None:
        return
    COUNTED["cascades"] += len(plans.cascades)
    for cut in plans.cascades:
        assert_sound(cut)
    judge_plan(plans.cascaded, spec)
    if not in_integers:
        judge_numbers(case, plans.cascaded, spec)
        return
    judge_same_bits(plans.layers, plans.cascaded, case.feeds, spec)


def judge_random_chains(name: str, in_integers: bool) -> None:
    """Some chains; most of them must be cascades, rows must be made again in some, and some must
    be cut in blocks of channels."""

    @settings(max_examples=12, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        judge_chain(SeededChoices(np.random.default_rng(seed)), name, in_integers)

    before = dict(COUNTED)
    check()
    assert COUNTED["cascades"] >= before["cascades"] + 8
    assert COUNTED["again"] > before["again"]
    assert COUNTED["in blocks"] > before["in blocks"]


@pytest.mark.parametrize("name", ["npu_tiny/16K", "rk3588_npu", "ethos_u65_512"])
def test_a_random_chain_in_int8_is_bit_equal_in_stripes(name: str) -> None:
    judge_random_chains(name, in_integers=True)


@pytest.mark.parametrize("name", ["npu_tiny/16K", "rk3588_npu", "ethos_u65_512"])
def test_a_cascade_runs_through_a_concatenation_in_place(name: str) -> None:
    before = COUNTED["joined"]
    for seed in range(6):
        choices = SeededChoices(np.random.default_rng(seed))
        judge_chain(choices, name, in_integers=True, make=joined_case)
    assert COUNTED["joined"] > before


def test_a_random_chain_of_floats_computes_the_same_in_stripes() -> None:
    judge_random_chains("npu_tiny/16K", in_integers=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_many_random_chains(seed: int) -> None:
    choices = SeededChoices(np.random.default_rng(seed))
    name = ("npu_tiny/16K", "rk3588_npu", "ethos_u65_512", "npu_tiny")[seed % 4]
    judge_chain(choices, name, in_integers=seed % 8 < 6 or name == "ethos_u65_512")
