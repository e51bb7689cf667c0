"""What a host call is billed for, by hand-computed calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stages.hardware.cost import host_cycles
from stages.hardware.spec import HardwareSpec, HostMemory
from stages.plan.costs import instruction_costs
from stages.plan.ddr_traffic import ddr_bytes
from stages.plan.instructions import Binding, Instruction, Kernel, Opcode, Region
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.device.plans import plan, region
from tests.device.specs import tiny_spec

OWN = tiny_spec()
SHARED = replace(OWN, host=replace(OWN.host, memory=HostMemory.SHARED))
TABLE = region("ddr", 0, (1000, 64), DType.F32)
INDICES = region("ddr", 0x80000, (4,), DType.I64)
ROWS = region("ddr", 0x90000, (4, 64), DType.F32)
ROW_BYTES = 4 * 64 * 4


def kernel(*operators: Operator, **types: Region) -> Kernel:
    held = {name: TensorType(item.dtype, item.shape) for name, item in types.items()}
    made = {name for operator in operators for name in operator.outputs}
    parameters = tuple(name for name in types if name not in made)
    return Kernel("k", parameters, (operators[-1].outputs[0],), operators, held)


def cycles(spec: HardwareSpec, call: Kernel, *regions: Region, constants: int = 0) -> int:
    """`constants`: how many of the first regions are constants."""
    *reads, write = regions
    step = Instruction(Opcode.HOST_CALL, "host", "g", tuple(reads), (write,), kernel=0)
    bound = tuple(Binding(f"c{i}", item) for i, item in enumerate(reads[:constants]))
    whole = replace(plan((step,), (call,)), constants=bound)
    return instruction_costs(whole, spec).cycles[0]


GATHER = kernel(
    Operator("g", Kind.GATHER, ("x", "i"), ("y",), {"axis": 0}), x=TABLE, i=INDICES, y=ROWS
)


@pytest.mark.parametrize("spec", [OWN, SHARED])
def test_a_gather_touches_its_indices_and_the_rows_that_it_picks(spec: HardwareSpec) -> None:
    found = cycles(spec, GATHER, TABLE, INDICES, ROWS, constants=1)
    assert found == host_cycles(spec, 1, 0, 32 + 2 * ROW_BYTES, 32 + ROW_BYTES)


def test_a_table_that_is_no_constant_crosses_whole_to_a_memory_of_the_hosts_own() -> None:
    moved = 32 + 2 * ROW_BYTES
    own, shared = (cycles(spec, GATHER, TABLE, INDICES, ROWS) for spec in (OWN, SHARED))
    assert own == host_cycles(OWN, 1, 0, moved, TABLE.size_bytes + 32 + ROW_BYTES)
    assert shared == host_cycles(SHARED, 1, 0, moved, ROW_BYTES + 32 + ROW_BYTES)


def test_a_table_of_fewer_rows_than_are_picked_is_read_once() -> None:
    few = region("ddr", 0, (2, 64), DType.F32)
    gather = kernel(GATHER.operators[0], x=few, i=INDICES, y=ROWS)
    found = cycles(SHARED, gather, few, INDICES, ROWS)
    size = few.size_bytes
    assert found == host_cycles(SHARED, 1, 0, size + 32 + ROW_BYTES, size + 32 + ROW_BYTES)


def test_a_reshape_before_a_slice_touches_nothing_and_passes_on_what_is_read() -> None:
    flat, cut = region("ddr", 0, (64000,), DType.F32), region("ddr", 0x90000, (64,), DType.F32)
    box = {"starts": (0,), "stops": (64,), "steps": (1,)}
    call = kernel(
        Operator("r", Kind.RESHAPE, ("x",), ("f",), {"shape": (64000,)}),
        Operator("s", Kind.SLICE, ("f",), ("y",), box),
        x=TABLE,
        f=flat,
        y=cut,
    )
    assert cycles(SHARED, call, TABLE, cut) == host_cycles(SHARED, 2, 0, 512, 512)
    assert cycles(OWN, call, TABLE, cut) == host_cycles(OWN, 2, 0, 512, TABLE.size_bytes + 256)


def test_a_reshape_that_is_a_result_crosses() -> None:
    flat = region("ddr", 0x90000, (64000,), DType.F32)
    call = kernel(Operator("r", Kind.RESHAPE, ("x",), ("y",), {"shape": (64000,)}), x=TABLE, y=flat)
    size = TABLE.size_bytes
    for spec in (OWN, SHARED):
        assert cycles(spec, call, TABLE, flat) == host_cycles(spec, 1, 0, 0, 2 * size)


def test_other_operators_touch_their_operands_and_results() -> None:
    add = kernel(Operator("a", Kind.ADD, ("x", "x"), ("y",)), x=ROWS, y=ROWS)
    found = cycles(OWN, add, ROWS, ROWS)
    assert found == host_cycles(OWN, 1, 256, 3 * ROW_BYTES, 2 * ROW_BYTES)


def test_the_traffic_of_a_gather_on_the_device_is_its_rows() -> None:
    rows = region("sram", 0, (4, 64), DType.F16)
    table = region("ddr", 0, (1000, 64), DType.I8)
    gather = kernel(GATHER.operators[0], x=table, i=INDICES, y=rows)
    indices = replace(INDICES, memory="sram")
    step = Instruction(Opcode.VECTOR, "vector", "g", (table, indices), (rows,), kernel=0)
    assert ddr_bytes(plan((step,), (gather,))) == 4 * 64  # int8 rows, written as float16
