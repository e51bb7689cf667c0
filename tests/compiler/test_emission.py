"""Emission: transfers within the DMA's limits, packed weights, and events that are all needed."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.emit.packing import StreamPacking
from stages.compiler.emit.regions import box_region, whole_region
from stages.compiler.emit.transfers import copies
from stages.compiler.pipeline import compile_graph
from stages.compiler.tiling.streams import steps
from stages.compiler.tiling.workload import workload
from stages.plan.instructions import Opcode, Plan, Region
from stages.plan.packing import pack
from stages.plan.rules import check_plan
from stages.recipe.decisions import Engine, Group, Tile
from stages.recipe.onnx_import import import_model
from stages.tensors import (
    ROW_MAJOR,
    Box,
    DType,
    Layout,
    LayoutKind,
    TensorType,
    box_shape,
    box_slices,
)
from tests.compiler.campaign import model_of
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware

LAYOUTS = (ROW_MAJOR, Layout(LayoutKind.NHWC), Layout(LayoutKind.NC1HWC2, 4))


def view(memory: np.ndarray, region: Region) -> np.ndarray:
    """The bytes of a region as an array in memory order."""
    return np.ndarray(
        region.physical_shape, region.dtype.numpy, memory.data, region.address, region.strides
    )


def loops(read: Region, write: Region) -> int:
    """Nested loops of a transfer; neighbouring elements are one run."""
    count, inner = 1, (read.dtype.size_bytes, write.dtype.size_bytes)
    for extent, *strides in zip(
        read.shape[::-1], read.strides[::-1], write.strides[::-1], strict=True
    ):
        if extent > 1:
            count += tuple(strides) != inner
            inner = (strides[0] * extent, strides[1] * extent)
    return count


@st.composite
def moves(draw) -> tuple[TensorType, Layout, Box, tuple[int, ...]]:
    """A tensor, its layout, a box of it and steps along the axes."""
    layout = draw(st.sampled_from(LAYOUTS))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(draw(st.integers(3, 5))))
    dtype = draw(st.sampled_from([DType.I8, DType.F16, DType.F32]))
    box, strides = [], []
    for axis, extent in enumerate(shape):
        block = layout.quantum if axis == 1 else 1
        start = draw(st.integers(0, (extent - 1) // block)) * block
        stop = draw(st.integers(start + 1, extent))
        box.append((start, stop))
        strides.append(1 if block > 1 else draw(st.integers(1, 2)))
    return TensorType(dtype, shape), layout, tuple(box), tuple(strides)


@settings(max_examples=400)
@given(moves(), st.integers(1, 6), st.sampled_from([8, 16, 64, 1 << 16]))
def test_copies_move_every_element_within_the_limits(made, dimensions: int, most: int) -> None:
    tensor_type, layout, box, strides = made
    dma = replace(hardware("npu_tiny").dma, max_dimensions=dimensions, max_transfer_bytes=most)
    whole = whole_region("ddr", 64, tensor_type, layout)
    source = box_region(whole, box, strides)
    target = whole_region("sram", 32, TensorType(tensor_type.dtype, source.shape), layout)
    random = np.random.default_rng(0)
    ddr = random.integers(1, 255, whole.stop_address, dtype=np.uint8)
    sram = np.zeros(target.stop_address, np.uint8)
    moved = np.zeros(target.stop_address, np.int64)
    for read, write in copies(source, target, dma):
        assert read.shape == write.shape
        assert read.size_bytes == write.size_bytes <= max(most, tensor_type.dtype.size_bytes)
        assert loops(read, write) <= dimensions
        view(sram, write)[...] = view(ddr, read)
        touched = np.zeros(target.stop_address, np.uint8)
        view(touched, write).view(np.uint8)[...] = 1
        moved += touched
    assert (view(sram, target).tobytes()) == view(ddr, source).tobytes()
    assert (moved[32:] == 1).all(), "each byte is moved once"


@settings(max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([1, 16, 64]),
)
def test_packed_weights_hold_each_tile_s_part(k, n, cut, reduction, alignment) -> None:
    draft = draft_of(
        f"input %x : f16[3,{k}]\nconst %w : f16[{k},{n}]\nconst %b : f16[{n}]\n"
        f"%y : f16[3,{n}] = matmul(%x, %w, %b)\noutput %y"
    )
    operators = {op.name: op for op in draft.graph.operators}
    work = workload(draft, Group("y", ("y",), Engine.TENSOR_CORE), operators)
    tile = Tile((3, min(cut, n)), min(reduction, k), (0, 1))
    packing = StreamPacking(work, ("w", "b"), alignment)
    blocks = []
    for step in steps(work, tile):
        boxes = work.boxes(step.box, step.reduction)
        blocks.append((boxes, packing.block(boxes)))
    data = pack([packing.packed("weights")], draft.constants, work.layout)["weights"]
    assert data.size == packing.size_bytes
    for boxes, block in blocks:
        assert block.start + block.size_bytes <= data.size
        for value, offset in block.offsets:
            part = draft.constants[value][box_slices(boxes[value])]
            assert (block.start + offset) % alignment == 0
            start = block.start + offset
            packed = data[start : start + part.nbytes].view(part.dtype)
            np.testing.assert_array_equal(packed.reshape(box_shape(boxes[value])), part)
    distinct = {(boxes["w"], boxes["b"]) for boxes, _ in blocks}
    assert len(packing.blocks) == len(distinct), "a block is packed once"


def plan_of(seed: int, name: str) -> Plan:
    graph, constants = import_model(model_of(seed).model)
    return compile_graph(graph, constants, hardware(name)).plan


def without_event(plan: Plan, wait: int) -> Plan:
    """The plan without one WAIT, and without its SIGNAL where nothing else waits for it."""
    event = plan.instructions[wait].event
    waits = [
        index
        for index, item in enumerate(plan.instructions)
        if item.opcode is Opcode.WAIT_EVENT and item.event == event
    ]
    dropped = {wait}
    if len(waits) == 1:
        dropped |= {
            index
            for index, item in enumerate(plan.instructions)
            if item.opcode is Opcode.SIGNAL_EVENT and item.event == event
        }
    return _without(plan, dropped)


def _without(plan: Plan, dropped: set[int]) -> Plan:
    def kept(instant: int) -> int:
        return instant - sum(index < instant for index in dropped)

    buffers = tuple(
        replace(item, start=kept(item.start), stop=max(kept(item.start) + 1, kept(item.stop)))
        for item in plan.buffers
    )
    instructions = tuple(
        item for index, item in enumerate(plan.instructions) if index not in dropped
    )
    return replace(plan, instructions=instructions, buffers=buffers)


@pytest.mark.parametrize(
    ("seed", "name"),
    [(57, "npu_tiny/16K"), (158, "npu_tiny"), (2039, "npu_tiny/16K"), (38, "rk3588_npu")],
)
def test_without_any_one_event_the_plan_has_a_race(seed: int, name: str) -> None:
    """At most one wait in twenty may go: the synchroniser works on whole places, the judge on
    bytes, so that waits between parts of one place can be more than the bytes need."""
    spec, plan = hardware(name), plan_of(seed, name)
    assert not check_plan(plan, spec)
    waits = [
        index for index, item in enumerate(plan.instructions) if item.opcode is Opcode.WAIT_EVENT
    ][:60]
    spare = 0
    for wait in waits:
        rules = {item.rule for item in check_plan(without_event(plan, wait), spec)}
        assert rules <= {"plan-race", "plan-unwritten"}
        spare += not rules
    assert waits
    assert spare <= len(waits) // 20


def test_a_contraction_is_named_by_its_macs() -> None:
    plan = plan_of(57, "npu_tiny/16K")
    for instruction in plan.instructions:
        if instruction.contraction is not None:
            assert instruction.contraction.macs >= prod(instruction.writes[0].shape)
