"""What is worked out once for parts that are alike is what each of them would be by itself."""

from __future__ import annotations

import pytest

from stages.compiler.cascade.likeness import likeness
from stages.compiler.draft import Draft
from stages.compiler.emit.kernels import KernelTable, TileKernels, tile_kernel
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment
from stages.compiler.pipeline import begin, decisions, rewrites
from stages.compiler.progress import begin_decisions, decide, rewrite
from stages.compiler.tiling.catalogue import Catalogue
from stages.compiler.tiling.search import Search
from stages.compiler.tiling.streams import steps
from stages.compiler.tiling.workload import Workload, workload, workloads
from stages.hardware.spec import HardwareSpec
from stages.plan.timing import plan_cycles
from stages.recipe.decisions import Tile
from stages.recipe.onnx_import import import_model
from tests.compiler.campaign import model_of
from tests.compiler.cascade.chain_models import inverted_residuals
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
                assert kernel == tile_kernel(alone, kernels.names, step, boxes)
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


@pytest.mark.parametrize("device", ["npu_tiny", "rk3588_npu"])
def test_groups_written_by_example_are_what_each_is_by_itself(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = hardware(device)
    drafts = [decided(seed, spec) for seed in SEEDS]
    by_example = 0
    for draft in [*drafts, repeating(spec)]:
        for assignment in (Assignment(draft, spec), Assignment(draft, spec).streaming()):
            solved = assignment.run()
            emitter = PlanEmitter(*solved, spec)
            found = emitter.emit()
            by_example += len(solved[1].works) - len(emitter.examples)
            with monkeypatch.context() as patched:
                patched.setattr(PlanEmitter, "_accesses", lambda *_: None)
                assert PlanEmitter(*solved, spec).emit() == found
    assert by_example


@pytest.mark.parametrize("device", ["npu_tiny", "rk3588_npu", "jetson_orin_nano"])
def test_programs_that_are_alike_take_the_same_cycles(device: str) -> None:
    spec = hardware(device)
    draft = repeating(spec)
    solved = Assignment(draft, spec).run()
    taken: dict[object, list[int]] = {}
    for start in range(len(draft.recipe.groups) - 1):
        emitter = PlanEmitter(*solved, spec)
        emitter.write_segment(start, start + 2)
        alike = taken.setdefault(likeness(emitter.program, emitter.constants, spec), [])
        alike.append(plan_cycles(emitter.segment(), spec))
    assert all(len({*cycles}) == 1 for cycles in taken.values())
    assert len(taken) > 2
    # A cache of the DDR knows lines by their addresses: there less is alike.
    assert spec.l2 is not None or any(len(cycles) > 1 for cycles in taken.values())


def repeating(spec: HardwareSpec) -> Draft:
    """Blocks that repeat."""
    case = inverted_residuals(24, blocks=6)
    progress = rewrite(begin(case.graph, case.constants, spec), rewrites(None, None), spec)
    return decide(begin_decisions(progress, spec), decisions(), spec).draft
