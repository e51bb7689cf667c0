"""A small device, and a legal plan for it that uses every engine: the start of many tests."""

from __future__ import annotations

from dataclasses import replace

from stages.hardware.spec import (
    Dataflow,
    Dma,
    Driver,
    HardwareSpec,
    Host,
    Memory,
    OperatorSupport,
    Power,
    SyncMode,
    TensorCore,
    Thermal,
    VectorUnit,
)
from stages.plan.instructions import (
    DDR,
    SRAM,
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
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import (
    ROW_MAJOR,
    DType,
    Layout,
    LayoutKind,
    Shape,
    TensorType,
    dense_strides,
)

NHWC = Layout(LayoutKind.NHWC)
FLOATS = frozenset({DType.F16, DType.F32})
TENSOR_CORE_KINDS = ("conv", "matmul")
VECTOR_KINDS = ("sigmoid", "relu", "gather", "add", "softmax")


def small_spec() -> HardwareSpec:
    """64 KiB of SRAM of which 256 bytes are reserved, 1 MiB of DDR, two DMA channels."""
    support = {
        kind: OperatorSupport("tensor_core", FLOATS, {"kernel": (1, 7), "group": (1, 64)})
        for kind in TENSOR_CORE_KINDS
    } | {kind: OperatorSupport("vector", FLOATS, {"rank": (1, 5)}) for kind in VECTOR_KINDS}
    return HardwareSpec(
        name="npu_small",
        chip="NPU small",
        vendor="nobody",
        firmware="1",
        version="1.0",
        compiler=">=0.1",
        digest="5" * 64,
        clock_hz=1_000_000_000,
        tensor_core=TensorCore(
            dataflow=Dataflow.OUTPUT_STATIONARY,
            rows=16,
            cols=16,
            depth=1,
            instances=1,
            array_dtype=DType.F16,
            macs_per_cycle={DType.F16: 256, DType.I8: 512},
            depthwise_macs_per_cycle=16,
            fill_cycles=4,
            output_stage=frozenset({"relu", "add"}),
            max_m=4096,
            max_n=1024,
            max_k=4096,
        ),
        vector=VectorUnit(64, 4, 1, {}),
        dma=Dma(2, 2, 100, 10_000_000_000, 16, 32768, 3),
        sram=Memory(SRAM, 65536, 256, 16, 10**11, 10**11, 10, 10, 16, 8),
        ddr=Memory(DDR, 1 << 20, 0, 16, 10**10, 10**10, 100, 100, 64, 8),
        host=Host(10**9, 10**9, 10**9, 1000, 100),
        layouts={"conv": NHWC},
        channel_quantum={DType.F16: 8, DType.I8: 16},
        operators=support,
        driver=Driver(SyncMode.ASYNC, 1000, {}, 2),
        operating_points=(),
        power=Power(1, 1, 25, {}, 1, 1, 1),
        thermal=Thermal((), 25.0, 1, (), 115.0),
        jitter=(),
        sources={},
    )


def region(
    memory: str,
    address: int,
    shape: Shape,
    layout: Layout = ROW_MAJOR,
    *,
    dtype: DType = DType.F16,
    inside: Shape | None = None,
) -> Region:
    """A box of `shape`: dense, or with the strides of a tensor of shape `inside`."""
    physical = layout.physical_shape(inside or shape)
    strides = dense_strides(physical, dtype.size_bytes)
    return Region(memory, address, dtype, shape, layout, strides)


W_DDR = region(DDR, 0x0, (8, 8, 3, 3))
TABLE_DDR = region(DDR, 0x1000, (16, 8))
X_DDR = region(DDR, 0x2000, (1, 8, 8, 8), NHWC)
INDICES_DDR = region(DDR, 0x2800, (4,), dtype=DType.I32)
Y_DDR = region(DDR, 0x3000, (1, 8, 8, 8), NHWC)
OUT_DDR = region(DDR, 0x4000, (1, 8, 8, 8), NHWC)
ROWS_DDR = region(DDR, 0x5000, (4, 8))
W = region(SRAM, 0x0100, (8, 8, 3, 3))
SLOT0 = region(SRAM, 0x0600, (1, 8, 5, 8), NHWC)
SLOT1 = region(SRAM, 0x0900, (1, 8, 5, 8), NHWC)
Y = region(SRAM, 0x0C00, (1, 8, 8, 8), NHWC)
Z = region(SRAM, 0x1000, (1, 8, 8, 8), NHWC)
INDICES = region(SRAM, 0x1400, (4,), dtype=DType.I32)
ROWS = region(SRAM, 0x1410, (4, 8))


def rows(whole: Region, start: int, stop: int) -> Region:
    """Rows `[start, stop)` of an NHWC region."""
    shape = (whole.shape[0], whole.shape[1], stop - start, whole.shape[3])
    return replace(whole, address=whole.address + start * whole.strides[1], shape=shape)


def conv_kernel(name: str, top: int, bottom: int) -> Kernel:
    """A 3 x 3 convolution with ReLU from five rows to four."""
    attributes = {
        "strides": (1, 1),
        "pads": (top, 1, bottom, 1),
        "dilations": (1, 1),
        "group": 1,
    }
    types = {
        "x": TensorType(DType.F16, (1, 8, 5, 8)),
        "w": TensorType(DType.F16, (8, 8, 3, 3)),
        "t": TensorType(DType.F16, (1, 8, 4, 8)),
        "y": TensorType(DType.F16, (1, 8, 4, 8)),
    }
    conv = Operator("conv1/Conv", Kind.CONV, ("x", "w"), ("t",), attributes)
    relu = Operator("conv1/Relu", Kind.RELU, ("t",), ("y",))
    return Kernel(name, ("x", "w"), ("y",), (conv, relu), types)


def sigmoid_kernel() -> Kernel:
    """An elementwise kernel."""
    tensor = TensorType(DType.F16, (1, 8, 8, 8))
    sigmoid = Operator("act", Kind.SIGMOID, ("a",), ("b",))
    return Kernel("act", ("a",), ("b",), (sigmoid,), {"a": tensor, "b": tensor})


def gather_kernel() -> Kernel:
    """Rows of a table that lies in DDR."""
    types = {
        "table": TensorType(DType.F16, (16, 8)),
        "indices": TensorType(DType.I32, (4,)),
        "rows": TensorType(DType.F16, (4, 8)),
    }
    gather = Operator("embed", Kind.GATHER, ("table", "indices"), ("rows",), {"axis": 0})
    return Kernel("embed", ("table", "indices"), ("rows",), (gather,), types)


def host_kernel() -> Kernel:
    """A fallback that no operator list names."""
    tensor = TensorType(DType.F16, (1, 8, 8, 8))
    node = b"\x0a\x01x\x12\x01y\x22\x05Mystery"
    attributes = {"node": node, "names": ("x",), "results": ("y",), "opsets": ("ai.onnx:17",)}
    call = Operator("a strange/node", Kind.HOST_CALL, ("p",), ("q",), attributes)
    return Kernel("host/odd name", ("p",), ("q",), (call,), {"p": tensor, "q": tensor})


def legal_plan() -> Plan:
    """Two row tiles of a convolution, double-buffered; an activation; a gather; a host call."""
    work = Contraction(m=32, n=8, k=72, groups=1, taps=9, dtype=DType.F16)
    core, unit, host, dma0, dma1 = "tensor_core", "vector", "host", "dma0", "dma1"

    def copy(queue: str, source: Region, target: Region, group: str, note: str) -> Instruction:
        return Instruction(Opcode.DMA_COPY, queue, group, (source,), (target,), comment=note)

    def signal(queue: str, event: int, group: str) -> Instruction:
        return Instruction(Opcode.SIGNAL_EVENT, queue, group, event=event)

    def wait(queue: str, event: int, group: str) -> Instruction:
        return Instruction(Opcode.WAIT_EVENT, queue, group, event=event)

    conv = Opcode.TENSOR_CORE_CONV
    program = (
        copy(dma0, W_DDR, W, "conv1", "conv1.weight"),
        copy(dma0, rows(X_DDR, 0, 5), SLOT0, "conv1", "x tile 0"),
        signal(dma0, 0, "conv1"),
        copy(dma1, rows(X_DDR, 3, 8), SLOT1, "conv1", "x tile 1"),
        signal(dma1, 1, "conv1"),
        wait(core, 0, "conv1"),
        Instruction(conv, core, "conv1", (SLOT0, W), (rows(Y, 0, 4),), 0, work, launch=True),
        wait(core, 1, "conv1"),
        Instruction(conv, core, "conv1", (SLOT1, W), (rows(Y, 4, 8),), 1, work),
        signal(core, 2, "conv1"),
        wait(unit, 2, "act"),
        Instruction(Opcode.ACTIVATION, unit, "act", (Y,), (Z,), 2, launch=True),
        signal(unit, 3, "act"),
        copy(dma1, INDICES_DDR, INDICES, "embed", "indices"),
        signal(dma1, 4, "embed"),
        wait(unit, 4, "embed"),
        Instruction(Opcode.VECTOR, unit, "embed", (TABLE_DDR, INDICES), (ROWS,), 3, launch=True),
        signal(unit, 5, "embed"),
        wait(dma0, 3, "act"),
        copy(dma0, Z, Y_DDR, "act", "act to ddr"),
        signal(dma0, 6, "act"),
        wait(dma1, 5, "embed"),
        copy(dma1, ROWS, ROWS_DDR, "embed", "rows to ddr"),
        Instruction(Opcode.THERMAL_BACKOFF, host, "odd", cycles=100),
        wait(host, 6, "odd"),
        Instruction(Opcode.HOST_CALL, host, "odd", (Y_DDR,), (OUT_DDR,), 4, launch=True),
    )
    end = len(program)
    return Plan(
        hardware="npu_small",
        queues=(core, unit, host, dma0, dma1),
        kernels=(
            conv_kernel("conv1.top", 1, 0),
            conv_kernel("conv1.bottom", 0, 1),
            sigmoid_kernel(),
            gather_kernel(),
            host_kernel(),
        ),
        buffers=(
            Buffer("conv1.weight", DDR, 0x0, 1152, Lifetime.WEIGHTS, 0, end),
            Buffer("table", DDR, 0x1000, 256, Lifetime.WEIGHTS, 0, end),
            Buffer("x", DDR, 0x2000, 1024, Lifetime.LONG_LIVED, 0, end),
            Buffer("indices", DDR, 0x2800, 16, Lifetime.LONG_LIVED, 0, end),
            Buffer("y", DDR, 0x3000, 1024, Lifetime.SCOPED, 19, end),
            Buffer("out", DDR, 0x4000, 1024, Lifetime.LONG_LIVED, 0, end),
            Buffer("rows", DDR, 0x5000, 64, Lifetime.LONG_LIVED, 0, end),
            Buffer("conv1.weight.sram", SRAM, 0x0100, 1152, Lifetime.SCOPED, 0, 9),
            Buffer("conv1.x.slot0", SRAM, 0x0600, 640, Lifetime.EPHEMERAL, 1, 7),
            Buffer("conv1.x.slot1", SRAM, 0x0900, 640, Lifetime.EPHEMERAL, 3, 9),
            Buffer("conv1.y", SRAM, 0x0C00, 1024, Lifetime.SCOPED, 6, 12),
            Buffer("act.z", SRAM, 0x1000, 1024, Lifetime.SCOPED, 11, 20),
            Buffer("embed.indices", SRAM, 0x1400, 16, Lifetime.SCOPED, 13, 17),
            Buffer("embed.rows", SRAM, 0x1410, 64, Lifetime.SCOPED, 16, 23),
        ),
        inputs=(Binding("x", X_DDR), Binding("indices", INDICES_DDR)),
        outputs=(Binding("out", OUT_DDR), Binding("rows", ROWS_DDR)),
        constants=(Binding("conv1.weight", W_DDR), Binding("table", TABLE_DDR)),
        instructions=program,
    )
