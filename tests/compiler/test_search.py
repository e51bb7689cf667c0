"""The search for tiles: what it prices is what the slots then take, and a budget is kept."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.draft import Draft
from stages.compiler.memory.assign import Assignment
from stages.compiler.pipeline import compile_graph
from stages.compiler.tiling.search import Search, accumulator_bytes, exact_slots, stream_slots
from stages.compiler.tiling.streams import Stream, align, dependencies, steps, streams
from stages.compiler.tiling.workload import Workload, head_extents, workload
from stages.errors import DoesNotFitError
from stages.plan.rules import check_plan
from stages.recipe.decisions import Engine, Group, Tile
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware, with_sram

SPEC = hardware("npu_tiny")
ALIGNMENT = SPEC.sram.alignment_bytes


@st.composite
def drafts(draw) -> Draft:
    """A draft of one group on a device."""
    kind = draw(st.sampled_from(["matmul", "conv", "max_pool", "softmax", "add", "reduce_sum"]))
    a, b, c, d = (draw(st.integers(1, 40)) for _ in range(4))
    layout = (
        draw(st.sampled_from(["", " nc1hwc2/8"])) if kind in ("conv", "max_pool", "add") else ""
    )
    engine = "tensor_core" if kind in ("matmul", "conv") else "vector"
    x = f"input %x : f16[1,{a},{b + 2},{c}]{layout}"
    text = {
        "matmul": f"""
input %x : f16[{a},{8 * b}]
const %w : f16[{8 * b},{4 * c}]
group y on tensor_core
  %y : f16[{a},{4 * c}] = matmul(%x, %w)""",
        "conv": f"""
{x}
const %w : f16[{d},{a},3,1]
const %b : f16[{d}]
group y on tensor_core
  %y : f16[1,{d},{b},{c}]{layout} = conv(%x, %w, %b) {{dilations=[1,1], group=1, \
pads=[0,0,0,0], strides=[1,1]}}""",
        "max_pool": f"""
{x}
group y on vector
  %y : f16[1,{a},{b + 1},{c}]{layout} = max_pool(%x) {{dilations=[1,1], kernel=[2,1], \
pads=[0,0,0,0], strides=[1,1]}}""",
        "softmax": f"""
{x}
group y on vector
  %y : f16[1,{a},{b + 2},{c}] = softmax(%x) {{axis=3}}""",
        "add": f"{x}\ngroup y on vector\n  %y : f16[1,{a},{b + 2},{c}]{layout} = add(%x, %x)",
        "reduce_sum": f"""
{x}
group y on vector
  %y : f16[1,{a},{c}] = reduce_sum(%x) {{axes=[2], keepdims=0}}""",
    }[kind]
    assert engine in text
    return draft_of(f"{text}\noutput %y")


def work_of(draft: Draft) -> Workload:
    operators = {op.name: op for op in draft.graph.operators}
    (group,) = draft.recipe.groups
    assert group == Group("y", ("y",), group.engine)
    assert group.engine in (Engine.TENSOR_CORE, Engine.VECTOR)
    return workload(draft, group, operators)


def slots_bytes(work: Workload, tile: Tile) -> int:
    """Bytes of every slot that a tile's streams, results and sums take, worked out from steps."""
    depends = dependencies(work)
    moved = streams(work, depends, frozenset())
    parts = (work.boxes(step.box, step.reduction) for step in steps(work, tile))
    sizes, result = exact_slots(work, parts, moved, ALIGNMENT)
    cut = {
        axis
        for axis, (part, whole) in enumerate(zip(tile.extents, work.result_type.shape, strict=True))
        if part < whole
    }
    chunked = 0 < tile.reduction < work.reduction_extent
    # What changes from sum to sum only needs no second slot while a sum is made in several steps,
    # nor does a large operand that stays for many steps.
    total = 0
    for stream, size in sizes.items():
        moves = bool(stream.axes & cut)
        double = (moves or chunked) if -1 in stream.axes else (moves and not chunked)
        double = double and not stays_long(work, tile, stream, size)
        total += size * (2 if double else 1)
    total += result * (2 if cut and not chunked else 1)
    return total + (align(accumulator_bytes(work, tile.extents), ALIGNMENT) if chunked else 0)


def stays_long(work: Workload, tile: Tile, stream: Stream, size_bytes: int) -> bool:
    """Whether a moving operand takes more than a quarter of the SRAM and is read eight times."""
    if stream.is_constant or 0 < tile.reduction < work.reduction_extent:
        return False
    counts = [
        -(-whole // part) for part, whole in zip(tile.extents, work.result_type.shape, strict=True)
    ]
    uses = prod(count for axis, count in enumerate(counts) if axis not in stream.axes)
    return uses >= 8 and 4 * size_bytes > SPEC.sram.usable_bytes


@settings(max_examples=150)
@given(drafts(), st.integers(1, 64))
def test_a_tile_takes_no_more_than_it_was_priced_at(draft: Draft, kilobytes: int) -> None:
    search = Search(work_of(draft), SPEC, frozenset())
    smallest = search.smallest()
    assert smallest is not None
    priced = search.cheapest(kilobytes * 1024)
    if priced is None:
        assert smallest.sram_bytes > kilobytes * 1024
        return
    assert smallest.sram_bytes <= priced.sram_bytes <= kilobytes * 1024
    assert slots_bytes(search.work, priced.tile) <= priced.sram_bytes


@settings(max_examples=20)
@given(drafts())
def test_the_smallest_tile_is_found_at_its_own_budget(draft: Draft) -> None:
    search = Search(work_of(draft), SPEC, frozenset())
    smallest = search.smallest()
    assert smallest is not None
    assert slots_bytes(search.work, smallest.tile) <= smallest.sram_bytes
    found = search.cheapest(smallest.sram_bytes)
    assert found is not None
    assert found.sram_bytes == smallest.sram_bytes
    assert search.cheapest(smallest.sram_bytes - 1) is None


@settings(max_examples=80)
@given(drafts(), st.integers(1, 32), st.integers(1, 32))
def test_more_room_is_never_slower(draft: Draft, first: int, more: int) -> None:
    search = Search(work_of(draft), SPEC, frozenset())
    tight, wide = search.cheapest(first * 1024), search.cheapest((first + more) * 1024)
    if tight is not None:
        assert wide is not None
        assert wide.cycles <= tight.cycles * 1.02 + 1  # of nearly equal ones, fewest steps


@settings(max_examples=40)
@given(drafts(), st.integers(2, 40))
def test_a_group_is_placed_wherever_its_smallest_tile_fits(draft: Draft, kilobytes: int) -> None:
    spec = with_sram(SPEC, kilobytes * 1024)
    work = work_of(draft)
    capacity = spec.sram.size_bytes - spec.sram.reserved_bytes
    smallest = Search(work, spec, frozenset()).smallest()
    assert smallest is not None
    if smallest.sram_bytes > capacity:
        return
    placed, memory = Assignment(draft, spec).run()
    assert placed.recipe.groups[0].tile is not None
    slots = memory.slots["y"]
    taken = [item for _, group in slots.streams for item in group] + list(slots.results)
    for item in taken:
        assert spec.sram.reserved_bytes <= item.address
        assert item.end <= spec.sram.size_bytes


@settings(max_examples=40)
@given(drafts(), st.integers(8, 64), st.integers(8, 64), st.integers(64, 200))
def test_a_tile_keeps_to_the_limits_of_the_core(draft: Draft, m: int, n: int, k: int) -> None:
    core = replace(SPEC.tensor_core, max_m=m, max_n=n, max_k=k)
    spec = replace(SPEC, tensor_core=core)
    try:
        compiled = compile_graph(draft.graph, draft.constants, spec)
    except DoesNotFitError as error:
        if f"the tensor core's limits, m {m}, n {n}, k {k}" not in error.problem:
            raise
        return
    assert not check_plan(compiled.plan, spec)


def test_readers_that_see_heads_say_how_wide_one_is() -> None:
    types = {
        "qkv": TensorType(DType.I8, (1, 8, 48)),
        "q": TensorType(DType.I8, (1, 8, 24)),
        "heads": TensorType(DType.I8, (1, 8, 3, 8)),
        "flat": TensorType(DType.I8, (8, 24)),
    }
    cut = {"starts": (0,), "stops": (24,), "axes": (2,), "steps": (1,)}
    operators = (
        Operator("slice", Kind.SLICE, ("qkv",), ("q",), cut),
        Operator("split", Kind.RESHAPE, ("q",), ("heads",)),
        Operator("flatten", Kind.RESHAPE, ("q",), ("flat",)),
    )
    graph = Graph("heads", ("qkv",), ("heads", "flat"), (), types, operators)
    assert head_extents(graph) == {"q": 8, "qkv": 8}


def test_among_tiles_that_cost_nearly_the_same_whole_heads_go_first() -> None:
    spec = hardware("rk3588_npu")
    text = """
input %x : f16[128,384]
const %w : f16[384,2304]
group y on tensor_core
  %y : f16[128,2304] = matmul(%x, %w)
output %y"""
    plain = work_of(draft_of(text))
    free, whole = (
        Search(work, spec, frozenset({"x"})).cheapest(spec.sram.usable_bytes)
        for work in (plain, replace(plain, head_extent=64))
    )
    assert free is not None
    assert whole is not None
    assert free.tile.extents[-1] % 64, "else the test says nothing"
    assert whole.tile.extents[-1] % 64 == 0
    assert whole.cycles <= free.cycles * 1.02


@settings(max_examples=100)
@given(drafts(), st.integers(1, 64), st.integers(1, 6))
def test_row_blocks_are_the_cheapest_of_their_number(
    draft: Draft, kilobytes: int, blocks: int
) -> None:
    search = Search(work_of(draft), SPEC, frozenset())
    budget = kilobytes * 1024
    rows = search.work.result_type.shape[-2]
    every = [] if (best := search.cheapest(budget)) is None else search.rivals(budget, best, 10**6)
    mine = [
        item.cycles
        for item in ([] if best is None else [best, *every])
        if -(-rows // item.tile.extents[-2]) == blocks
    ]
    found = search.in_row_blocks(budget, blocks, 2.0)
    least = search.least_cycles(budget)
    if found is None:
        assert least is None or min(mine, default=2 * least + 1) > 2 * least
        return
    assert least is not None
    assert found.sram_bytes <= budget
    assert -(-rows // found.tile.extents[-2]) == blocks
    assert found.cycles == min(mine)
    assert found.cycles <= 2 * least


@settings(max_examples=100)
@given(drafts(), st.integers(1, 64))
def test_fewer_columns_are_the_cheapest_of_their_kind(draft: Draft, kilobytes: int) -> None:
    search = Search(work_of(draft), SPEC, frozenset())
    best = search.cheapest(kilobytes * 1024)
    if best is None:
        return
    tile, budget = best.tile, best.sram_bytes
    every = search.rivals(budget, best, 10**6)
    mine = [
        item.cycles
        for item in every
        if item.sram_bytes < budget
        and item.tile.extents[:-1] == tile.extents[:-1]
        and item.tile.reduction == tile.reduction
        and item.tile.extents[-1] < tile.extents[-1]
    ]
    found = search.in_fewer_columns(budget, tile, 2.0)
    least = search.least_cycles(budget - 1)
    if found is None:
        assert least is None or min(mine, default=2 * least + 1) > 2 * least
        return
    assert least is not None
    assert found.cycles == min(mine) <= 2 * least
    assert found.sram_bytes < budget
    assert found.tile.extents[:-1] == tile.extents[:-1]
    assert found.tile.extents[-1] < tile.extents[-1]


def test_a_large_operand_that_stays_has_one_slot() -> None:
    """The second matmul of an encoder's feed-forward part: with a second slot for its rows, fewer
    columns than the array has would fit beside them."""
    spec = hardware("ethos_u65_512")
    work = work_of(
        draft_of("""
input %x : i8[197,3072]
const %w : i8[3072,768]
group y on tensor_core
  %y : i8[197,768] = matmul(%x, %w)
output %y""")
    )
    search = Search(work, spec, frozenset())
    found = search.cheapest(spec.sram.usable_bytes)
    assert found is not None
    assert found.tile.extents[1] % spec.tensor_core.cols == 0
    (rows,) = [item for item in search.catalogue.streams if "x" in item.values]
    assert stream_slots(work, found.tile, rows, spec) == 1
    assert found.sram_bytes <= spec.sram.usable_bytes
