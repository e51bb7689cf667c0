"""For each rule, plans that break only it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stages.plan.instructions import (
    DDR,
    SRAM,
    Binding,
    Buffer,
    Contraction,
    Opcode,
    Plan,
)
from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.plan.edited_plans import (
    BACKOFF,
    CONV0,
    GATHER,
    SIGMOID,
    STORE,
    Case,
    append,
    bind_constant,
    change,
    columns_copy,
    copy,
    dma,
    doubled_output,
    free_copy,
    ghost,
    limited,
    moved_rows,
    over_itself,
    rebuffer,
    rekernel,
    restrided,
    shifted_copy,
    signal,
    swapped,
    tc,
    wait,
    without,
    written_twice,
)
from tests.plan.sample_plan import (
    INDICES,
    NHWC,
    OUT_DDR,
    ROWS_DDR,
    SLOT0,
    W_DDR,
    X_DDR,
    Y,
    legal_plan,
    region,
    rows,
)

WORK = Contraction(m=32, n=8, k=72, groups=1, taps=9, dtype=DType.F16)
TYPE = TensorType(DType.F16, (1, 8, 8, 8))
AGAIN = Operator("again", Kind.RELU, ("a",), ("b",))
EARLY = Operator("early", Kind.RELU, ("c",), ("d",))
BROKEN: dict[str, list[Callable[[], Plan | Case]]] = {
    "target": [lambda: replace(legal_plan(), hardware="npu_large")],
    "queue": [
        lambda: replace(legal_plan(), queues=(*legal_plan().queues, "dma2")),
        lambda: replace(legal_plan(), queues=(*legal_plan().queues, "dma1")),
        lambda: replace(legal_plan(), queues=(*legal_plan().queues, "cache")),
        lambda: replace(legal_plan(), queues=("tensor_core", "vector", "dma0", "dma1")),
        lambda: change(BACKOFF, queue="dma0"),
        lambda: change(BACKOFF, queue="dma1"),
        lambda: append(replace(legal_plan().instructions[BACKOFF], queue="dma7")),
    ],
    "operands": [
        lambda: change(BACKOFF, cycles=0),
        lambda: change(BACKOFF, event=3),
        lambda: change(SIGMOID, contraction=WORK),
        lambda: change(CONV0, contraction=None),
        lambda: change(STORE, kernel=2),
        lambda: change(BACKOFF, reads=(X_DDR,)),
        lambda: append(copy("dma0", X_DDR, X_DDR), wait("dma0", -1)),
        lambda: append(
            replace(legal_plan().instructions[BACKOFF], opcode=Opcode.HOST_CALL, cycles=0)
        ),
    ],
    "region": [
        lambda: change(
            GATHER, reads=(legal_plan().instructions[GATHER].reads[0], replace(INDICES, strides=()))
        ),
        lambda: replace(
            legal_plan(), inputs=(*legal_plan().inputs, Binding("z", region("l2", 0, (4,))))
        ),
        lambda: append(copy("dma0", replace(X_DDR, strides=(-1, 2, 2, 2)), X_DDR)),
        lambda: append(copy("dma0", replace(X_DDR, shape=(1, 8)), X_DDR)),
        lambda: append(copy("dma0", replace(X_DDR, address=1 << 80), X_DDR)),
    ],
    "elements": [
        lambda: written_twice(),
        lambda: restrided(1, 24),
        lambda: restrided(2, 8),
        lambda: restrided(2, 17),
    ],
    "align": [
        lambda: moved_rows(8),
        lambda: (moved_rows(16), dma(alignment_bytes=64)),
        lambda: free_copy(X_DDR, 0x4008),
    ],
    "bounds": [
        lambda: append(copy("dma0", X_DDR, region(DDR, (1 << 20) - 512, (1, 8, 8, 8), NHWC))),
        lambda: append(copy("dma0", X_DDR, region(SRAM, 0, (1, 8, 8, 8), NHWC))),
    ],
    "buffer": [
        lambda: ghost(name="x"),
        lambda: ghost(memory="l2"),
        lambda: ghost(start=4),
        lambda: ghost(stop=99),
        lambda: ghost(start=-1),
        lambda: ghost(size_bytes=0),
    ],
    "live": [
        lambda: rebuffer("act.z", stop=19),
        lambda: rebuffer("embed.rows", stop=22),
        lambda: rebuffer("conv1.y", size_bytes=1008),
        lambda: rebuffer("rows", stop=24),
        lambda: rebuffer("table", lifetime=Lifetime.SCOPED),
        lambda: rebuffer("table", stop=20),
    ],
    "overlap": [
        lambda: ghost(address=0x0600),
        lambda: ghost(address=0x0870, start=6, stop=7),
        lambda: ghost(address=0x05F0),
        lambda: ghost(address=0x0910, size_bytes=16, start=8, stop=20),
    ],
    "peak": [
        lambda: ghost(address=65536 - 32),
        lambda: ghost(address=0x00F0, size_bytes=16),
        lambda: ghost(memory=DDR, address=1 << 20),
    ],
    "transfer": [
        lambda: (legal_plan(), dma(max_transfer_bytes=1151)),
        lambda: (columns_copy(), dma(max_dimensions=1)),
        lambda: free_copy(replace(X_DDR, shape=(1, 8, 4, 16), strides=(1024, 256, 16, 2)), 0x4000),
        lambda: free_copy(replace(X_DDR, dtype=DType.BF16), 0x4000),
    ],
    "limits": [
        lambda: (legal_plan(), tc(max_m=31)),
        lambda: (legal_plan(), tc(max_n=7)),
        lambda: (legal_plan(), tc(max_k=71)),
    ],
    "reach": [
        lambda: change(SIGMOID, reads=(X_DDR,)),
        lambda: change(CONV0, reads=(SLOT0, W_DDR)),
    ],
    "kernel_form": [
        lambda: rekernel(2, operators=(*legal_plan().kernels[2].operators, AGAIN)),
        lambda: rekernel(2, types={"a": TYPE}),
        lambda: rekernel(
            2,
            operators=(EARLY, *legal_plan().kernels[2].operators),
            types={"a": TYPE, "b": TYPE, "d": TYPE},
        ),
        lambda: rekernel(4, results=("nothing",)),
    ],
    "kernel_shapes": [
        lambda: rekernel(
            0,
            operators=(
                replace(
                    legal_plan().kernels[0].operators[0],
                    attributes={
                        "strides": (1, 1),
                        "pads": (1, 1, 1, 1),
                        "dilations": (1, 1),
                        "group": 1,
                    },
                ),
                legal_plan().kernels[0].operators[1],
            ),
        ),
        lambda: rekernel(
            0,
            operators=(
                replace(legal_plan().kernels[0].operators[0], attributes={}),
                legal_plan().kernels[0].operators[1],
            ),
        ),
    ],
    "kernel_types": [
        lambda: rekernel(2, types={name: TensorType(DType.F32, (1, 8, 8, 8)) for name in "ab"}),
        lambda: rekernel(2, types={name: TensorType(DType.F16, (1, 8, 64)) for name in "ab"}),
        lambda: change(SIGMOID, reads=(Y, Y)),
    ],
    "contraction": [
        lambda: change(CONV0, contraction=replace(WORK, m=31)),
        lambda: change(CONV0, contraction=replace(WORK, n=4)),
        lambda: change(CONV0, contraction=replace(WORK, k=8)),
        lambda: change(CONV0, contraction=replace(WORK, groups=2)),
        lambda: change(CONV0, contraction=replace(WORK, taps=1)),
        lambda: change(CONV0, contraction=replace(WORK, dtype=DType.I8)),
        lambda: change(CONV0, opcode=Opcode.TENSOR_CORE_GEMM),
    ],
    "support": [
        lambda: (legal_plan(), without("conv")),
        lambda: (legal_plan(), without("sigmoid")),
        lambda: (legal_plan(), limited("sigmoid", engine="tensor_core")),
        lambda: (legal_plan(), limited("sigmoid", dtypes=frozenset({DType.I8}))),
        lambda: (legal_plan(), limited("conv", limits={"kernel": (1, 1)})),
        lambda: (legal_plan(), limited("conv", limits={"stride": (2, 2)})),
        lambda: (legal_plan(), tc(macs_per_cycle={DType.I8: 512})),
    ],
    "epilogue": [lambda: (legal_plan(), tc(output_stage=frozenset({"add"})))],
    "events": [
        lambda: append(signal("host", 9)),
        lambda: append(wait("host", 9)),
        lambda: append(signal("vector", 5)),
    ],
    "event_order": [lambda: append(wait("host", 9), signal("vector", 9))],
    "deadlock": [
        lambda: append(wait("host", 9), signal("host", 8), wait("vector", 8), signal("vector", 9)),
        lambda: append(wait("host", 9), signal("host", 9)),
    ],
    "race": [
        lambda: swapped(7, 8),
        lambda: append(copy("dma1", X_DDR, OUT_DDR)),
        lambda: append(copy("dma1", ROWS_DDR, region(DDR, 0x3000, (4, 8)))),
    ],
    "in_place": [
        shifted_copy,
        doubled_output,
        lambda: over_itself(Kind.SOFTMAX, {"axis": 3}),
        lambda: over_itself(Kind.SIGMOID, {}, address=0x4010),
    ],
    "unwritten": [
        lambda: change(1, reads=(rows(X_DDR, 0, 4),), writes=(rows(SLOT0, 0, 4),)),
        lambda: replace(
            legal_plan(),
            outputs=(*legal_plan().outputs, Binding("more", region(DDR, 0x3800, (8,)))),
            buffers=(
                *legal_plan().buffers,
                Buffer("more", DDR, 0x3800, 16, Lifetime.LONG_LIVED, 0, 26),
            ),
        ),
        lambda: replace(legal_plan(), inputs=legal_plan().inputs[:1]),
    ],
    "constants": [
        lambda: bind_constant(0x470),
        lambda: append(copy("dma0", rows(X_DDR, 0, 1), region(DDR, 0x400, (1, 8, 1, 8), NHWC))),
    ],
}
