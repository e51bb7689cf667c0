"""Shards: whole models, balanced, the same each time; and their way through a flow's parameters."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.project.places import find_project
from flows.project.requests import Pair
from flows.scaling.costs import Work, measured_costs
from flows.scaling.load import Assumptions
from flows.scaling.measure import data_folder, read_measured
from flows.steps.stage_calls import Stage
from flows.workers.shard_parameters import Checkout, Crew, ShardParameters, crew_of, read_parameters
from flows.workers.shards import PAIR_BYTES, Shard, split
from stages.errors import InputError

MODELS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(12)]),
    st.tuples(st.integers(0, 1 << 32), st.sets(st.sampled_from("abcd"), min_size=1)),
    min_size=1,
)


def _pairs(models: dict[str, tuple[int, set[str]]]) -> list[Pair]:
    return [Pair(model, device) for model, (_, devices) in models.items() for device in devices]


@given(MODELS, st.integers(1, 15), st.randoms())
def test_every_pair_is_in_one_shard_with_its_model_and_the_load_is_balanced(
    models: dict[str, tuple[int, set[str]]], count: int, random: object
) -> None:
    pairs, sizes = _pairs(models), {model: size for model, (size, _) in models.items()}
    shards = split(pairs, count, sizes)
    assert len(shards) == min(count, len(models))
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert Counter(pair for shard in shards for pair in shard.pairs) == Counter(pairs)
    homes = Counter(model for shard in shards for model in shard.models())
    assert set(homes.values()) == {1}
    loads = [len(devices) * (size + PAIR_BYTES) for size, devices in models.values()]
    assert sum(shard.load_bytes for shard in shards) == sum(loads)
    worst = max(shard.load_bytes for shard in shards)
    best = max(max(loads), sum(loads) / len(shards))
    assert worst <= best + max(loads) * (1 - 1 / len(shards))
    random.shuffle(pairs)  # type: ignore[attr-defined]
    assert split(pairs, count, sizes) == shards


def test_the_largest_goes_first_by_hand() -> None:
    mib = 1 << 20
    sizes = {"a": 404 * mib, "b": 304 * mib, "c": 204 * mib, "d": 104 * mib}
    shards = split([Pair(model, "x") for model in "dcba"], 2, sizes)
    assert shards == (
        Shard(0, (Pair("a", "x"), Pair("d", "x")), 700 * mib),
        Shard(1, (Pair("b", "x"), Pair("c", "x")), 700 * mib),
    )
    assert split([], 3, {}) == ()


@pytest.mark.parametrize("count", [0, -1])
def test_no_shards_are_refused(count: int) -> None:
    with pytest.raises(InputError, match="shards"):
        split([Pair("a", "x")], count, {"a": 1})


def test_the_fixed_cost_of_a_pair_is_what_was_measured() -> None:
    """The line through CPU seconds over sizes crosses zero near there."""
    measured = read_measured(data_folder(find_project()))
    costs = measured_costs(measured, Assumptions())
    small, large = (
        min(costs.model_bytes.items(), key=_size),
        max(costs.model_bytes.items(), key=_size),
    )
    seconds = [costs.cpu_seconds(name, Work.EVERYTHING) for name, _ in (small, large)]
    slope = (seconds[1] - seconds[0]) / (large[1] - small[1])
    assert PAIR_BYTES / 2 < seconds[0] / slope < PAIR_BYTES * 2


def _size(item: tuple[str, int]) -> int:
    return item[1]


def test_parameters_go_through_json() -> None:
    pairs = (Pair("m-1.0", "npu_a"), Pair("m2", "npu_a"), Pair("m2", "npu_b"))
    checkout = Checkout("/srv/recipe", "0123abcd", {"benchmark.seed": 20260101}, 4)
    shard = ShardParameters(3, pairs, checkout, (Stage.BENCHMARK,))
    given = json.loads(json.dumps(shard.as_json()))
    again = Checkout(given["project"], given["tree"], given["params"], given["jobs"])
    assert read_parameters(given["number"], given["pairs"], again, given["forced"]) == shard
    assert shard.overlay() == {
        "benchmark.seed": 20260101,
        "matrix.models": ["m-1.0", "m2"],
        "matrix.hardware": ["npu_a", "npu_b"],
    }


@pytest.mark.parametrize("text", ["m", "/h", "m/", "m/h/x", ""])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no pair"):
        read_parameters(0, [text], Checkout(), [])


def test_no_pairs_and_unknown_stages_are_refused() -> None:
    with pytest.raises(InputError, match="without pairs"):
        read_parameters(0, [], Checkout(), [])
    with pytest.raises(InputError, match="no stage 'polish'"):
        read_parameters(0, ["m/h"], Checkout(), ["polish"])


def test_a_crew_is_a_pool_and_a_number() -> None:
    assert crew_of(None, "") is None
    assert crew_of(8, "machines") == Crew(8, "machines")
    with pytest.raises(InputError, match="shards need a work pool"):
        crew_of(8, "")
    with pytest.raises(InputError, match="a work pool needs shards"):
        crew_of(None, "machines")
