"""Tiles of an encoder's repeated layers, tried where they work."""

from __future__ import annotations

import pytest

from models.zoo.attention import encoder_layer
from models.zoo.device_io import with_device_types
from models.zoo.graph import GraphBuilder
from models.zoo.ranges import fused_quantization
from stages.calibration.measurements import Precision
from stages.compiler import plans, woven_tiles
from stages.compiler.pipeline import Compiled, compile_graph
from stages.compiler.schedule.attempts import ATTEMPTS
from stages.compiler.woven_tiles import Woven, tried_in_place
from stages.hardware.spec import HardwareSpec
from stages.plan.rules import check_plan
from stages.plan.timing import plan_cycles
from stages.recipe.onnx_import import import_model
from tests.compiler.specs import hardware


def encoder(layers: int, spec: HardwareSpec) -> Compiled:
    """An encoder in int8: 96 tokens of 192 channels, 3 heads."""
    g = GraphBuilder("encoder")
    x = g.input("x", (1, 96, 192))
    for _ in range(layers):
        x = encoder_layer(g, x, 3, 4 * 192, "gelu", norm_first=True, epsilon=1e-6)
    g.output(x)
    graph, constants = import_model(with_device_types(g.build(), Precision.INT8))
    return compile_graph(graph, constants, spec, fused_quantization(graph, constants, spec))


@pytest.fixture
def woven(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Woven, Woven]]:
    """Each solution that tiles were tried for, as it was and as it became; all are woven."""
    seen: list[tuple[Woven, Woven]] = []

    def tried(solved, assignment, spec):
        found = tried_in_place(solved, assignment, spec)
        seen.append((Woven(*solved, ATTEMPTS), found))
        return found

    monkeypatch.setattr(woven_tiles, "tried_in_place", tried)
    monkeypatch.setattr(plans, "engines_take_turns", lambda plan, spec: True)
    return seen


@pytest.mark.parametrize("name", ["rk3588_npu", "ethos_u65_512"])
def test_tiles_tried_in_place_are_those_of_the_fewest_cycles(
    name: str, woven: list[tuple[Woven, Woven]]
) -> None:
    spec = hardware(name)
    compiled = encoder(3, spec)
    assert not check_plan(compiled.plan, spec)
    ((before, after),) = woven
    told = [item for item in after.draft.weighed if item.question == "tile in place"]
    assert told
    assert sorted(after.attempts, key=ATTEMPTS.index) == list(ATTEMPTS)
    for item in told:
        priced = [one for one in item.alternatives if one.cost_cycles is not None]
        fewest = min(one.cost_cycles for one in priced)
        (chosen,) = [one for one in item.alternatives if one.name == item.chosen]
        assert chosen.cost_cycles <= fewest * 1.01
    tiles = {group.name: group.tile for group in after.draft.recipe.groups}
    for group in before.draft.recipe.groups:
        answers = [item for item in told if item.subject == group.name]
        if not answers:
            assert tiles[group.name] == group.tile


def test_layers_that_are_alike_get_the_same_tile(woven: list[tuple[Woven, Woven]]) -> None:
    spec = hardware("ethos_u65_512")
    encoder(3, spec)
    ((_, after),) = woven
    tiles: dict[str, set[object]] = {}
    for group in after.draft.recipe.groups:
        work = after.memory.works.get(group.name)
        if work is not None:
            tiles.setdefault(work.first.group.name, set()).add(group.tile)
    assert any(len(found) == 1 for found in tiles.values())
    assert all(len(found) == 1 for found in tiles.values())


def test_nothing_is_tried_where_nothing_repeats(woven: list[tuple[Woven, Woven]]) -> None:
    spec = hardware("rk3588_npu")
    encoder(1, spec)
    ((before, after),) = woven
    assert after == before


def test_two_compiles_try_and_choose_the_same(woven: list[tuple[Woven, Woven]]) -> None:
    spec = hardware("rk3588_npu")
    one, other = encoder(2, spec), encoder(2, spec)
    assert one.plan == other.plan
    assert one.weighed == other.weighed
    assert plan_cycles(one.plan, spec) == plan_cycles(other.plan, spec)
