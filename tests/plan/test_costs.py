"""Which numbers of an instruction go to the cost model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stages.hardware.cost import contraction_cycles, transfer_cost, vector_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import Role, instruction_costs
from stages.plan.instructions import Instruction, Kernel, Opcode, Plan, Region
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, Layout, LayoutKind, TensorType
from tests.device.plans import conv_relu_plan, copy, plan, region
from tests.device.specs import tiny_spec

SPEC = tiny_spec()


def vector(kernel: Kernel, *regions: Region) -> Plan:
    *reads, write = regions
    step = Instruction(Opcode.VECTOR, "vector", "g", tuple(reads), (write,), kernel=0)
    return plan((step,), (kernel,))


def kernel(*operators: Operator, **types: TensorType) -> Kernel:
    return Kernel("k", ("x",), ("y",), operators, types)


def test_a_contraction_is_priced_by_its_shape_and_its_launch() -> None:
    costs = instruction_costs(conv_relu_plan(), SPEC)
    at = costs.roles.index(Role.COMPUTE)
    expected = contraction_cycles(SPEC.tensor_core, 36, 8, 72, 1, 9, DType.F16)
    assert (costs.cycles[at], costs.launch[at]) == (expected, 200)
    assert (costs.submit_cycles, costs.event_cycles, costs.outstanding) == (1_000, 5, 2)


def test_floats_at_the_ends_cost_their_conversion_once() -> None:
    driver = replace(SPEC.driver, float_io_ns=7_000)
    spec = replace(SPEC, driver=driver)
    floats = conv_relu_plan()
    assert all(item.region.dtype.is_float for item in (*floats.inputs, *floats.outputs))
    assert instruction_costs(floats, spec).submit_cycles == 8_000
    whole = replace(floats.inputs[0], region=region("ddr", 0, (4,), DType.I8))
    for plan_ in (
        replace(floats, inputs=(whole,), outputs=(whole,)),
        replace(floats, inputs=(), outputs=()),
    ):
        assert instruction_costs(plan_, spec).submit_cycles == 1_000
    assert instruction_costs(replace(floats, outputs=(whole,)), spec).submit_cycles == 8_000


def test_transfers_are_priced_by_their_shortest_run() -> None:
    # 4 rows of 8 float16 out of rows of 32: runs of 16 bytes on one side, dense on the other
    source = region("ddr", 0, (4, 8), strides=(64, 2))
    target = region("sram", 0, (4, 8))
    dense = region("ddr", 4096, (4, 8))
    costs = instruction_costs(plan((copy(source, target), copy(dense, target))), SPEC)
    strided = transfer_cost(SPEC, 64, 16, "ddr", "sram")
    whole = transfer_cost(SPEC, 64, 64, "ddr", "sram")
    assert list(costs.cycles) == [strided.channel_cycles, whole.channel_cycles]
    assert list(costs.port) == [strided.port_cycles, whole.port_cycles]
    assert list(costs.latency) == [strided.latency_cycles] * 2


def test_equal_shapes_in_other_layouts_are_priced_apart() -> None:
    # 3 channels fill a block of 8 in the blocked layout: more bytes for the same shape
    blocked = Layout(LayoutKind.NC1HWC2, 8)
    shape = (1, 3, 4, 4)
    plain = copy(region("ddr", 0, shape), region("sram", 0, shape))
    padded = copy(region("ddr", 0, shape, layout=blocked), region("sram", 0, shape, layout=blocked))
    costs = instruction_costs(plan((plain, padded, plain)), SPEC)
    expected = [transfer_cost(SPEC, size, size, "ddr", "sram") for size in (96, 256, 96)]
    assert list(costs.cycles) == [item.channel_cycles for item in expected]


def test_elementwise_work_counts_what_is_written() -> None:
    wide = TensorType(DType.F16, (4, 64))
    row = TensorType(DType.F16, (64,))
    add = kernel(Operator("add", Kind.ADD, ("x", "x"), ("y",)), x=row, y=wide)
    costs = instruction_costs(
        vector(add, region("sram", 0, (64,)), region("sram", 512, (4, 64))), SPEC
    )
    assert costs.cycles[0] == vector_cycles(SPEC.vector, ["add"], 256, 2)


def test_an_image_with_a_number_by_channel_counts_whole_pixels() -> None:
    """Of 8 x 8 pixels each counts 16 channels where 3 meet their means; a map of 8 channels, a
    single number and a device that doesn't say so count what there is."""
    spec = replace(
        SPEC,
        vector=replace(SPEC.vector, pixel_channels=16),
        tensor_core=replace(SPEC.tensor_core, image_channels=4),
    )

    def cycles(channels: int, numbers: tuple[int, ...], device: HardwareSpec) -> int:
        shape = (1, channels, 8, 8)
        types = {"x": TensorType(DType.F16, shape), "y": TensorType(DType.F16, numbers)}
        operator = Operator("sub", Kind.SUB, ("x", "y"), ("z",))
        sub = Kernel("k", ("x", "y"), ("z",), (operator,), {**types, "z": types["x"]})
        regions = region("sram", 0, shape), region("sram", 4096, numbers)
        return instruction_costs(vector(sub, *regions, region("sram", 8192, shape)), device).cycles[
            0
        ]

    def plain(elements: int) -> int:
        return vector_cycles(SPEC.vector, ["sub"], elements, 2)

    assert cycles(3, (1, 3, 1, 1), spec) == plain(8 * 8 * 16)
    assert cycles(3, (1, 3, 1, 1), SPEC) == plain(8 * 8 * 3)
    assert cycles(3, (1, 1, 1, 1), spec) == plain(8 * 8 * 3)
    assert cycles(8, (1, 8, 1, 1), spec) == plain(8 * 8 * 8)


def test_reductions_count_what_they_read() -> None:
    wide, narrow = TensorType(DType.F16, (4, 64)), TensorType(DType.F16, (4, 1))
    attributes = {"axes": (1,), "keepdims": 1}
    total = kernel(Operator("sum", Kind.REDUCE_SUM, ("x",), ("y",), attributes), x=wide, y=narrow)
    costs = instruction_costs(
        vector(total, region("sram", 0, (4, 64)), region("sram", 512, (4, 1))), SPEC
    )
    assert costs.cycles[0] == vector_cycles(SPEC.vector, ["reduce_sum"], 256, 2)


SUMMED: dict[str, Attribute] = {"axes": (1,), "keepdims": 1}


def test_what_follows_a_reduction_counts_its_results_alone() -> None:
    wide, narrow = TensorType(DType.F16, (4, 64)), TensorType(DType.F16, (4, 1))
    steps = (
        Operator("product", Kind.MUL, ("x", "x"), ("p",)),
        Operator("total", Kind.REDUCE_SUM, ("p",), ("t",), SUMMED),
        Operator("root", Kind.SQRT, ("t",), ("y",)),
    )
    chain = kernel(*steps, x=wide, p=wide, t=narrow, y=narrow)
    regions = region("sram", 0, (4, 64)), region("sram", 512, (4, 1))
    costs = instruction_costs(vector(chain, *regions), SPEC)
    before = vector_cycles(SPEC.vector, ["mul", "reduce_sum"], 256, 2)
    behind = vector_cycles(SPEC.vector, ["sqrt"], 4, 2) - SPEC.vector.startup_cycles
    assert costs.cycles[0] == before + behind


def test_a_gather_from_ddr_streams_its_rows() -> None:
    # 4 rows of 64 float16 out of a table of 1,000: 512 bytes in runs of 128
    table, rows = region("ddr", 0, (1000, 64)), region("sram", 512, (4, 64))
    indices = region("sram", 0, (4,), DType.I64)
    gather = Kernel(
        "k",
        ("x", "i"),
        ("y",),
        (Operator("g", Kind.GATHER, ("x", "i"), ("y",), {"axis": 0}),),
        {
            "x": TensorType(DType.F16, (1000, 64)),
            "i": TensorType(DType.I64, (4,)),
            "y": TensorType(DType.F16, (4, 64)),
        },
    )
    costs = instruction_costs(vector(gather, table, indices, rows), SPEC)
    stream = transfer_cost(SPEC, 512, 128, "ddr", "sram")
    work = vector_cycles(SPEC.vector, ["gather"], 256, 2)
    assert costs.cycles[0] == stream.latency_cycles + max(work, stream.channel_cycles)


def test_a_back_off_takes_its_own_cycles() -> None:
    pause = Instruction(Opcode.THERMAL_BACKOFF, "tensor_core", cycles=777)
    costs = instruction_costs(plan((pause,)), SPEC)
    assert (costs.roles[0], costs.cycles[0]) == (Role.BACKOFF, 777)


def test_every_instruction_that_does_something_costs_something() -> None:
    costs = instruction_costs(conv_relu_plan(), SPEC)
    for role, cycles in zip(costs.roles, costs.cycles, strict=True):
        assert (cycles > 0) == (role not in (Role.SIGNAL, Role.WAIT))
    assert np.issubdtype(np.array(costs.cycles).dtype, np.integer)
