"""Small plans made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from stages.plan.instructions import (
    Binding,
    Buffer,
    Contraction,
    Instruction,
    Kernel,
    Opcode,
    Plan,
    Region,
)
from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import ROW_MAJOR, DType, Layout, Shape, TensorType, dense_strides

QUEUES = ("tensor_core", "vector", "host", "dma0", "dma1")
CONV_ATTRIBUTES: Mapping[str, Attribute] = {
    "strides": (1, 1),
    "pads": (1, 1, 1, 1),
    "dilations": (1, 1),
    "group": 1,
}


def region(
    memory: str,
    address: int,
    shape: Shape,
    dtype: DType = DType.F16,
    layout: Layout = ROW_MAJOR,
    strides: Shape | None = None,
) -> Region:
    """A dense region unless `strides` says otherwise."""
    dense = dense_strides(layout.physical_shape(shape), dtype.size_bytes)
    return Region(memory, address, dtype, shape, layout, strides or dense)


def copy(source: Region, target: Region, queue: str = "dma0", group: str = "") -> Instruction:
    """A transfer."""
    return Instruction(Opcode.DMA_COPY, queue, group=group, reads=(source,), writes=(target,))


def signal(queue: str, event: int) -> Instruction:
    """Signal an event."""
    return Instruction(Opcode.SIGNAL_EVENT, queue, event=event)


def wait(queue: str, event: int) -> Instruction:
    """Wait for an event."""
    return Instruction(Opcode.WAIT_EVENT, queue, event=event)


def plan(
    instructions: tuple[Instruction, ...],
    kernels: tuple[Kernel, ...] = (),
    inputs: tuple[Binding, ...] = (),
    outputs: tuple[Binding, ...] = (),
    constants: tuple[Binding, ...] = (),
) -> Plan:
    """A plan for the test device, without buffers."""
    return Plan("test_npu", QUEUES, kernels, (), inputs, outputs, constants, instructions)


def conv_relu_plan(height: int = 6, channels: int = 8) -> Plan:
    """x and w from ddr, a 3x3 convolution and a relu on the tensor core, the result to ddr."""
    return conv_relu_at(ddr=0, sram=0, height=height, channels=channels, weight_queue="dma1")


def conv_relu_at(
    ddr: int,
    sram: int,
    height: int = 6,
    channels: int = 8,
    weight_queue: str = "dma0",
    hardware: str = "test_npu",
    queues: tuple[str, ...] = QUEUES,
) -> Plan:
    """The same from these addresses on, float16, with a buffer for each region."""
    shape, weight = (1, channels, height, height), (channels, channels, 3, 3)
    types = {name: TensorType(DType.F16, shape) for name in "xty"}
    types["w"] = TensorType(DType.F16, weight)
    kernel = Kernel(
        "conv_relu",
        ("x", "w"),
        ("y",),
        (
            Operator("conv", Kind.CONV, ("x", "w"), ("t",), CONV_ATTRIBUTES),
            Operator("relu", Kind.RELU, ("t",), ("y",)),
        ),
        types,
    )
    size = types["x"].size_bytes
    x, y = region("ddr", ddr, shape), region("ddr", ddr + size, shape)
    w = region("ddr", ddr + 2 * size, weight)
    x_tile, y_tile = region("sram", sram, shape), region("sram", sram + size, shape)
    w_tile = region("sram", sram + 2 * size, weight)
    work = Contraction(height * height, channels, 9 * channels, 1, 9, DType.F16)
    instructions = (
        copy(w, w_tile, weight_queue, "conv"),
        signal(weight_queue, 0),
        copy(x, x_tile, "dma0", "conv"),
        signal("dma0", 1),
        wait("tensor_core", 0),
        wait("tensor_core", 1),
        Instruction(
            Opcode.TENSOR_CORE_CONV,
            "tensor_core",
            "conv",
            (x_tile, w_tile),
            (y_tile,),
            kernel=0,
            contraction=work,
            launch=True,
        ),
        signal("tensor_core", 2),
        wait("dma0", 2),
        copy(y_tile, y, "dma0", "conv"),
    )
    whole = {"x": x, "y": y, "w": w, "x tile": x_tile, "y tile": y_tile, "w tile": w_tile}
    buffers = tuple(
        Buffer(
            name,
            place.memory,
            place.address,
            place.size_bytes,
            Lifetime.WEIGHTS if name == "w" else Lifetime.LONG_LIVED,
            0,
            len(instructions),
        )
        for name, place in whole.items()
    )
    return Plan(
        hardware,
        queues,
        (kernel,),
        buffers,
        (Binding("x", x),),
        (Binding("y", y),),
        (Binding("w", w),),
        instructions,
    )
