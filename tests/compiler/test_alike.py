"""What is worked out once for parts that are alike is what each of them would be by itself."""

from __future__ import annotations

import pytest

from stages.compiler.draft import Draft
from stages.compiler.emit.kernels import KernelTable, TileKernels, tile_kernel
from stages.compiler.pipeline import begin, decisions, rewrites
from stages.compiler.progress import begin_decisions, decide, rewrite
from stages.compiler.tiling.catalogue import Catalogue
from stages.compiler.tiling.search import Search
from stages.compiler.tiling.streams import steps
from stages.compiler.tiling.workload import Workload, workload, workloads
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Tile
from stages.recipe.onnx_import import import_model
from tests.compiler.campaign import model_of
from tests.compiler.specs import hardware

SEEDS = (57, 158, 1169, 2039, 8, 19, 77, 301, 7, 38)
_MOST_STEPS = 64


def decided(seed: int, spec: HardwareSpec) -> Draft:
    graph, constants = import_model(model_of(seed).model)
    progress = rewrite(begin(graph, constants, spec), rewrites(None, None), spec)
    return decide(begin_decisions(progress, spec), decisions(), spec).draft


def some_tiles(work: Workload, spec: HardwareSpec) -> list[Tile]:
    """Tiles of few steps and of many: whole, and cut along several axes."""
    tiles = list(Search(work, spec, frozenset(), Catalogue(work, spec)).fitting_tiles(1 << 40))
    return tiles[:: max(1, len(tiles) // 6)]


@pytest.mark.parametrize("device", ["npu_tiny", "rk3588_npu"])
@pytest.mark.parametrize("seed", SEEDS)
def test_alike_groups_and_tiles_are_what_each_is_by_itself(seed: int, device: str) -> None:
    spec = hardware(device)
    draft = decided(seed, spec)
    operators = {operator.name: operator for operator in draft.graph.operators}
    for number, work in workloads(draft, operators).items():
        alone = workload(draft, draft.recipe.groups[number], operators)
        assert alone.alike is None
        for tile in some_tiles(work, spec):
            kernels = TileKernels(work, KernelTable())
            for step in [*steps(work, tile)][:_MOST_STEPS]:
                boxes = work.boxes(step.box, step.reduction)
                assert dict(boxes) == dict(alone.boxes(step.box, step.reduction))
                kernel, index = kernels.of(step, boxes)
                assert kernel == tile_kernel(alone, step, boxes)
                assert kernels.table.kernels[index].operators == kernel.operators


def test_layers_that_repeat_are_found() -> None:
    spec = hardware("npu_tiny")
    found = 0
    for seed in SEEDS:
        draft = decided(seed, spec)
        operators = {operator.name: operator for operator in draft.graph.operators}
        works = workloads(draft, operators).values()
        found += sum(work.alike is not None for work in works)
        assert all(work.first.alike is None for work in works)
        assert all(work.own_names[work.first.result] == work.result for work in works)
    assert found
