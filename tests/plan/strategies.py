"""Random plans for hypothesis: odd ones for the text forms, small ones for the rules."""

from __future__ import annotations

from hypothesis import strategies as st

from stages.plan.instructions import (
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
    TensorType,
    dense_strides,
)

# What can be written to a UTF-8 file: names of models hold anything else.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
NAMES = st.one_of(st.sampled_from(["x", "conv1.w", "a b/c", 'q"u', "%", "_"]), TEXT)
INTEGERS = st.integers(-(2**40), 2**40)
SHAPES = st.lists(st.integers(0, 9), max_size=5).map(tuple)
DTYPES = st.sampled_from(DType)
LAYOUTS = st.one_of(
    st.just(ROW_MAJOR),
    st.builds(Layout, st.sampled_from(LayoutKind), st.integers(1, 16)),
)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    """Any region, dense or not, well-formed or not."""
    dtype, shape, layout = draw(DTYPES), draw(SHAPES), draw(LAYOUTS)
    fits = layout.kind is LayoutKind.ROW_MAJOR or len(shape) >= 3
    if fits and draw(st.booleans()):
        strides = dense_strides(layout.physical_shape(shape), dtype.size_bytes)
    else:
        strides = tuple(draw(st.lists(INTEGERS, max_size=6)))
    return Region(
        draw(st.one_of(st.just(SRAM), NAMES)), draw(INTEGERS), dtype, shape, layout, strides
    )


ATTRIBUTES = st.one_of(
    INTEGERS,
    st.floats(allow_nan=False),
    TEXT,
    st.binary(max_size=8),
    st.lists(INTEGERS, max_size=3).map(tuple),
    st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    st.lists(TEXT, max_size=3).map(tuple),
)
OPERATORS = st.builds(
    Operator,
    TEXT,
    st.sampled_from(Kind),
    st.lists(TEXT, max_size=3).map(tuple),
    st.lists(NAMES.filter(bool), min_size=1, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["axis", "pads", "mode"]), ATTRIBUTES, max_size=3),
)
TYPES = st.builds(TensorType, DTYPES, SHAPES)
KERNELS = st.builds(
    Kernel,
    NAMES,
    st.lists(NAMES.filter(bool), max_size=3).map(tuple),
    st.lists(NAMES.filter(bool), max_size=3).map(tuple),
    st.lists(OPERATORS, max_size=3).map(tuple),
    st.dictionaries(NAMES.filter(bool), TYPES, max_size=3),
)
CONTRACTIONS = st.builds(Contraction, INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS, DTYPES)
INSTRUCTIONS = st.builds(
    Instruction,
    st.sampled_from(Opcode),
    st.one_of(st.sampled_from(["tensor_core", "dma0"]), NAMES),
    NAMES,
    st.lists(regions(), max_size=2).map(tuple),
    st.lists(regions(), max_size=2).map(tuple),
    st.integers(-1, 3),
    st.one_of(st.none(), CONTRACTIONS),
    st.one_of(st.just(-1), INTEGERS),
    st.booleans(),
    st.one_of(st.just(0), INTEGERS),
    TEXT,
)
BUFFERS = st.builds(
    Buffer, NAMES, NAMES, INTEGERS, INTEGERS, st.sampled_from(Lifetime), INTEGERS, INTEGERS
)
BINDINGS = st.lists(st.builds(Binding, NAMES, regions()), max_size=2).map(tuple)
ODD_PLANS = st.builds(
    Plan,
    NAMES,
    st.lists(NAMES, max_size=3).map(tuple),
    st.lists(KERNELS, max_size=2).map(tuple),
    st.lists(BUFFERS, max_size=2).map(tuple),
    BINDINGS,
    BINDINGS,
    BINDINGS,
    st.lists(INSTRUCTIONS, max_size=4).map(tuple),
)


@st.composite
def boxes(draw: st.DrawFn, size_bytes: int = 96) -> Region:
    """A well-formed strided box within the first bytes of the SRAM."""
    dtype = draw(st.sampled_from([DType.I8, DType.F16, DType.F32]))
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    strides = tuple(draw(st.lists(st.integers(0, 16), min_size=len(shape), max_size=len(shape))))
    address = draw(st.integers(0, size_bytes // 2))
    region = Region(SRAM, address, dtype, shape, ROW_MAJOR, strides)
    if region.stop_address > size_bytes:
        region = Region(SRAM, address, DType.I8, (2,), ROW_MAJOR, (1,))
    return region


def bytes_of(region: Region) -> frozenset[int]:
    """The addresses of a region's bytes, one by one."""
    addresses = {region.address}
    for extent, stride in zip(region.physical_shape, region.strides, strict=True):
        addresses = {base + index * stride for base in addresses for index in range(extent)}
    return frozenset(at + byte for at in addresses for byte in range(region.dtype.size_bytes))


@st.composite
def event_plans(draw: st.DrawFn) -> Plan:
    """Copies on three queues within 96 bytes of SRAM, with events between some of them; one
    buffer, every byte written before the run. Only races can be wrong with it."""
    queues = ("dma0", "dma1", "dma2")
    steps: list[tuple[str, int]] = []
    signals = 0
    for _ in range(draw(st.integers(2, 14))):
        word = draw(st.sampled_from(["copy", "copy", "signal", "wait", "wait"]))
        if word == "signal":
            steps.append(("signal", signals))
            signals += 1
        elif word == "wait" and signals:
            steps.append(("wait", draw(st.integers(0, signals - 1))))
        else:
            steps.append(("copy", 0))
    program = []
    for word, event in steps:
        queue = draw(st.sampled_from(queues))
        if word == "copy":
            one, other = draw(boxes()), draw(boxes())
            program.append(Instruction(Opcode.DMA_COPY, queue, "", (one,), (other,)))
        else:
            opcode = Opcode.SIGNAL_EVENT if word == "signal" else Opcode.WAIT_EVENT
            program.append(Instruction(opcode, queue, event=event))
    end = len(program)
    buffer = Buffer("all", SRAM, 0, 96, Lifetime.LONG_LIVED, 0, end)
    whole = Binding("all", Region(SRAM, 0, DType.I8, (96,), ROW_MAJOR, (1,)))
    return Plan("npu_small", queues, (), (buffer,), (whole,), (whole,), (), tuple(program))
