"""Small plans made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from stages.plan.instructions import (
    Binding,
    Contraction,
    Instruction,
    Kernel,
    Opcode,
    Plan,
    Region,
)
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


def conv_relu_plan(height: int = 6, channels: int = 8, dtype: DType = DType.F16) -> Plan:
    """x and w from ddr, a 3x3 convolution and a relu on the tensor core, the result to ddr."""
    shape = (1, channels, height, height)
    weight = (channels, channels, 3, 3)
    types = {
        "x": TensorType(dtype, shape),
        "w": TensorType(dtype, weight),
        "t": TensorType(dtype, shape),
        "y": TensorType(dtype, shape),
    }
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
    x, y = region("ddr", 0, shape, dtype), region("ddr", size, shape, dtype)
    w = region("ddr", 2 * size, weight, dtype)
    x_tile, y_tile = region("sram", 0, shape, dtype), region("sram", size, shape, dtype)
    w_tile = region("sram", 2 * size, weight, dtype)
    pixels = height * height
    work = Contraction(pixels, channels, 9 * channels, 1, 9, dtype)
    return plan(
        (
            copy(w, w_tile, "dma1", "conv"),
            signal("dma1", 0),
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
        ),
        (kernel,),
        (Binding("x", x),),
        (Binding("y", y),),
        (Binding("w", w),),
    )
