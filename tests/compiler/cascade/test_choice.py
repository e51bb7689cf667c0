"""The choice of cut points equals brute force, and a cascade is kept only where the plan gains."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.zoo.ranges import fused_quantization
from stages.compiler.cascade.choice import cheapest_cuts
from stages.compiler.cascade.estimates import Price
from stages.compiler.interleaving import Interleaving
from stages.compiler.pipeline import Compiled, compile_graph
from stages.hardware.spec import HardwareSpec
from stages.plan.ddr_traffic import ddr_bytes
from stages.plan.timing import plan_cycles
from stages.recipe.decisions import Engine
from stages.recipe.text import print_recipe
from tests.compiler.cascade.chain_models import inverted_residuals, late_residual
from tests.compiler.judged import Case, judge_plan, judge_same_bits
from tests.compiler.specs import hardware, with_sram

prices = st.tuples(st.integers(0, 9), st.integers(0, 3))


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[dict[int, Price], dict[tuple[int, int], Price], int]:
    count = draw(st.integers(0, 7))
    costs = {number: draw(prices) for number in range(count) if draw(st.integers(0, 4))}
    every = [(start, stop) for stop in range(count + 1) for start in range(stop - 1)]
    chosen = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    return costs, {interval: draw(prices) for interval in chosen}, count


def _partitions(start: int, stop: int) -> Iterator[list[tuple[int, int]]]:
    if start == stop:
        yield []
    for end in range(start + 1, stop + 1):
        for rest in _partitions(end, stop):
            yield [(start, end), *rest]


@given(problems())
def test_the_cheapest_cuts_are_those_of_brute_force(
    problem: tuple[dict[int, Price], dict[tuple[int, int], Price], int],
) -> None:
    costs, intervals, count = problem

    def price(parts: list[tuple[int, int]]) -> Price | None:
        found = []
        for start, stop in parts:
            if stop - start == 1:
                found.append(costs.get(start, (0, 0)))
            elif (start, stop) in intervals:
                found.append(intervals[start, stop])
            else:
                return None
        return sum(item[0] for item in found), sum(item[1] for item in found)

    every = [price(parts) for parts in _partitions(0, count)]
    best = min(item for item in every if item is not None)
    total, taken = cheapest_cuts(costs, intervals, count)
    covered = {number for start, stop in taken for number in range(start, stop)}
    single = [(number, number + 1) for number in range(count) if number not in covered]
    assert price(sorted([*taken, *single])) == total == best


@cache
def _both(name: str) -> tuple[Case, HardwareSpec, Compiled, Compiled]:
    blocks = inverted_residuals(64)
    spec = with_sram(hardware(name), 24 * 1024)
    found = [
        _compiled(blocks, spec, option) for option in (Interleaving.LOADS, Interleaving.CASCADES)
    ]
    return blocks, spec, found[0], found[1]


def _compiled(blocks: Case, spec: HardwareSpec, option: Interleaving) -> Compiled:
    ranges = fused_quantization(blocks.graph, blocks.constants, spec)
    return compile_graph(blocks.graph, blocks.constants, spec, ranges, interleaving=option)


@pytest.mark.parametrize("name", ["rk3588_npu", "ethos_u65_512"])
def test_inverted_residual_blocks_run_in_cascades(name: str) -> None:
    blocks, spec, layers, cascaded = _both(name)
    assert not layers.recipe.cascades
    assert cascaded.recipe.cascades
    judge_plan(cascaded, spec)
    assert plan_cycles(cascaded.plan, spec) <= plan_cycles(layers.plan, spec)
    assert ddr_bytes(cascaded.plan) < 0.5 * ddr_bytes(layers.plan)
    judge_same_bits(layers, cascaded, blocks.feeds, spec)


def test_what_only_a_cascade_reads_lies_in_the_sram_in_part() -> None:
    _, _, _, cascaded = _both("rk3588_npu")
    recipe = cascaded.recipe
    home = {name: group.name for group in recipe.groups for name in group.operators}
    consumers = recipe.graph.consumers()
    for cascade in recipe.cascades:
        held = [
            value
            for operator in recipe.graph.operators
            if home[operator.name] in cascade.groups[:-1]
            for value in operator.outputs
            if value in recipe.allocations
            and all(home[reader.name] in cascade.groups for reader in consumers[value])
        ]
        assert held
        for value in held:
            place = recipe.allocations[value]
            assert (place.memory, place.lifetime) == ("sram", "ephemeral")
            assert place.size_bytes < recipe.graph.types[value].size_bytes


def test_the_text_of_a_recipe_says_its_cascades() -> None:
    _, _, _, cascaded = _both("rk3588_npu")
    lines = print_recipe(cascaded.recipe).splitlines()
    said = [line for line in lines if line.startswith("cascade")]
    assert said[0] == (
        'cascade axis 2 stripe 4 of in0.quantize, "relayout.in0.i8.nc1hwc2/16", conv_0, conv_2, '
        "conv_4, conv_6"
    )
    assert any(line.startswith("note") and "cascades" in line for line in lines)


def test_a_person_is_told_what_was_weighed() -> None:
    _, _, _, cascaded = _both("rk3588_npu")
    (about,) = [
        item for item in cascaded.weighed if (item.subject, item.question) == ("conv_2", "cascade")
    ]
    assert about.alternatives[0].name == "layer by layer"
    assert about.chosen in {item.name for item in about.alternatives[1:]}
    assert "B of DRAM" in about.bound


def test_where_everything_fits_cascades_are_for_two_engines_side_by_side() -> None:
    blocks, spec = inverted_residuals(8), hardware("rk3588_npu")
    layers = _compiled(blocks, spec, Interleaving.LOADS)
    cascaded = _compiled(blocks, spec, Interleaving.CASCADES)
    engines = {group.name: group.engine for group in cascaded.recipe.groups}
    assert cascaded.recipe.cascades
    for cascade in cascaded.recipe.cascades:
        assert {engines[name] for name in cascade.groups} == {Engine.TENSOR_CORE, Engine.VECTOR}
    assert plan_cycles(cascaded.plan, spec) < plan_cycles(layers.plan, spec)
    judge_same_bits(layers, cascaded, blocks.feeds, spec)


def test_a_sum_is_made_by_blocks_of_channels_while_the_convolution_goes_on() -> None:
    block, spec = late_residual(), hardware("ethos_u65_512")
    layers = _compiled(block, spec, Interleaving.LOADS)
    cascaded = _compiled(block, spec, Interleaving.CASCADES)
    (by_channels,) = [item for item in cascaded.recipe.cascades if item.axis == 1]
    engines = {group.name: group.engine for group in cascaded.recipe.groups}
    assert [engines[name] for name in by_channels.groups] == [Engine.TENSOR_CORE, Engine.VECTOR]
    assert plan_cycles(cascaded.plan, spec) < 0.95 * plan_cycles(layers.plan, spec)
    judge_plan(cascaded, spec)
    judge_same_bits(layers, cascaded, block.feeds, spec)
