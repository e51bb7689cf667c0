"""One legal plan, and for each rule plans that break only it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import cleandoc

import pytest

from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import (
    DDR,
    SRAM,
    Binding,
    Buffer,
    Contraction,
    Instruction,
    Opcode,
    Plan,
)
from stages.plan.rules import REPORTED, RULES, check_plan, rule_name
from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import (
    INDICES,
    NHWC,
    OUT_DDR,
    ROWS,
    ROWS_DDR,
    SLOT0,
    W_DDR,
    X_DDR,
    Y,
    legal_plan,
    region,
    rows,
    small_spec,
)

Case = tuple[Plan, HardwareSpec]
CONV0, CONV1, SIGMOID, GATHER, STORE, BACKOFF, HOST = 6, 8, 11, 16, 19, 23, 25


def change(index: int, **fields: object) -> Plan:
    """The legal plan with one instruction changed."""
    plan = legal_plan()
    program = list(plan.instructions)
    program[index] = replace(program[index], **fields)  # type: ignore[arg-type]
    return replace(plan, instructions=tuple(program))


def append(*more: Instruction) -> Plan:
    """The legal plan with more at its end; what lived to the end still does."""
    plan = legal_plan()
    end = len(plan.instructions)
    longer = end + len(more)
    buffers = tuple(
        replace(item, stop=longer) if item.stop == end else item for item in plan.buffers
    )
    return replace(plan, buffers=buffers, instructions=(*plan.instructions, *more))


def rebuffer(name: str, **fields: object) -> Plan:
    """The legal plan with one buffer changed."""
    plan = legal_plan()
    buffers = tuple(
        replace(item, **fields) if item.name == name else item  # type: ignore[arg-type]
        for item in plan.buffers
    )
    return replace(plan, buffers=buffers)


def ghost(**fields: object) -> Plan:
    """The legal plan with one more buffer, in free SRAM unless the fields say otherwise."""
    plan = legal_plan()
    buffer = Buffer("ghost", SRAM, 0x8000, 64, Lifetime.SCOPED, 2, 4)
    more = replace(buffer, **fields)  # type: ignore[arg-type]
    return replace(plan, buffers=(*plan.buffers, more))


def rekernel(index: int, **fields: object) -> Plan:
    """The legal plan with one kernel changed."""
    plan = legal_plan()
    kernels = list(plan.kernels)
    kernels[index] = replace(kernels[index], **fields)  # type: ignore[arg-type]
    return replace(plan, kernels=tuple(kernels))


def copy(queue: str, source: object, sink: object) -> Instruction:
    """A transfer."""
    return Instruction(Opcode.DMA_COPY, queue, "", (source,), (sink,))  # type: ignore[arg-type]


def signal(queue: str, event: int) -> Instruction:
    """A signal."""
    return Instruction(Opcode.SIGNAL_EVENT, queue, event=event)


def wait(queue: str, event: int) -> Instruction:
    """A wait."""
    return Instruction(Opcode.WAIT_EVENT, queue, event=event)


def moved_rows(offset: int) -> Plan:
    """The gathered rows in SRAM, and their buffer, moved by some bytes."""
    moved = replace(ROWS, address=ROWS.address + offset)
    plan = rebuffer("embed.rows", address=moved.address)
    program = list(plan.instructions)
    program[GATHER] = replace(program[GATHER], writes=(moved,))
    program[22] = replace(program[22], reads=(moved,))
    return replace(plan, instructions=tuple(program))


def swapped(one: int, other: int) -> Plan:
    """Two instructions change places."""
    plan = legal_plan()
    program = list(plan.instructions)
    program[one], program[other] = program[other], program[one]
    return replace(plan, instructions=tuple(program))


def column(start: int, stop: int) -> object:
    """Columns of x: rows of bytes with gaps between them."""
    box = region(DDR, X_DDR.address + start * 16, (1, 8, 8, stop - start), NHWC)
    return replace(box, strides=X_DDR.strides)


def restrided(axis: int, stride: int) -> Plan:
    """x copied from a view with another stride, to a place of its own."""
    shape = (1, 8, 2, 2) if axis else (2, 8, 2, 2)
    strides = list(replace(X_DDR, shape=shape).strides)
    strides[axis] = stride
    source = replace(X_DDR, shape=shape, strides=tuple(strides))
    sink = region(SRAM, 0x4000, shape, NHWC)
    plan = append(copy("dma0", source, sink))
    buffer = Buffer("free", SRAM, 0x4000, sink.size_bytes, Lifetime.SCOPED, 26, 27)
    return replace(plan, buffers=(*plan.buffers, buffer))


def written_twice() -> Plan:
    """x copied to a place where its two halves share their bytes."""
    plan = restrided(0, 64)
    *before, last = plan.instructions
    sink = last.writes[0]
    crowded = replace(sink, strides=(0, *sink.strides[1:]))
    return replace(plan, instructions=(*before, replace(last, writes=(crowded,))))


def test_what_is_read_may_repeat() -> None:
    assert check_plan(restrided(0, 0), small_spec()) == ()


def tc(**fields: object) -> HardwareSpec:
    """The spec with another tensor core."""
    spec = small_spec()
    return replace(spec, tensor_core=replace(spec.tensor_core, **fields))  # type: ignore[arg-type]


def dma(**fields: object) -> HardwareSpec:
    """The spec with other DMA channels."""
    spec = small_spec()
    return replace(spec, dma=replace(spec.dma, **fields))  # type: ignore[arg-type]


def without(kind: str) -> HardwareSpec:
    """The spec without an operator."""
    spec = small_spec()
    return replace(spec, operators={k: v for k, v in spec.operators.items() if k != kind})


def limited(kind: str, **fields: object) -> HardwareSpec:
    """The spec with another entry for an operator."""
    spec = small_spec()
    entry = replace(spec.operators[kind], **fields)  # type: ignore[arg-type]
    return replace(spec, operators={**spec.operators, kind: entry})


def bind_constant(address: int) -> Plan:
    """One more constant inside the buffer of the first."""
    plan = legal_plan()
    more = Binding("more", region(DDR, address, (8,)))
    return replace(plan, constants=(*plan.constants, more))


def free_copy(source: object, address: int, memory: str = SRAM) -> Plan:
    """x copied to a place of its own, in a buffer of its own."""
    sink = region(memory, address, (1, 8, 8, 8), NHWC)
    plan = append(copy("dma0", source, sink))
    buffer = Buffer("free", memory, address, sink.size_bytes, Lifetime.SCOPED, 26, 27)
    return replace(plan, buffers=(*plan.buffers, buffer))


def columns_copy() -> Plan:
    """Four of the eight columns of x, copied to a place of their own."""
    sink = region(SRAM, 0x4000, (1, 8, 8, 4), NHWC)
    buffer = Buffer("columns", SRAM, 0x4000, sink.size_bytes, Lifetime.SCOPED, 26, 27)
    plan = append(copy("dma0", column(0, 4), sink))
    return replace(plan, buffers=(*plan.buffers, buffer))


def shifted_copy() -> Plan:
    """The free rows of the output are moved down by one, each over the next."""
    done = (signal("host", 9), wait("dma0", 9))
    return append(*done, copy("dma0", rows(OUT_DDR, 0, 4), rows(OUT_DDR, 1, 5)))


def doubled_output() -> Plan:
    """The last host call gives its result twice, at the same place."""
    plan = rekernel(4, results=("q", "q"))
    program = list(plan.instructions)
    program[HOST] = replace(program[HOST], writes=(OUT_DDR, OUT_DDR))
    return replace(plan, instructions=tuple(program))


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


def test_the_legal_plans_break_no_rule() -> None:
    assert check_plan(legal_plan(), small_spec()) == ()
    assert check_plan(large_plan(3, 5), small_spec()) == ()


def test_every_rule_is_broken_here() -> None:
    assert set(BROKEN) == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        pytest.param(rule, case, id=f"{rule}{number}")
        for rule, cases in BROKEN.items()
        for number, case in enumerate(cases)
    ],
)
def test_a_plan_breaks_only_this_rule(rule: str, case: Callable[[], Plan | Case]) -> None:
    broken = case()
    plan, spec = broken if isinstance(broken, tuple) else (broken, small_spec())
    violations = check_plan(plan, spec)
    assert {violation.rule for violation in violations} == {f"plan-{rule.replace('_', '-')}"}, (
        violations
    )
    for violation in violations:
        assert str(violation).startswith(f"{violation.rule}: {violation.message}\nhint: ")
        assert violation.hint
        if violation.instruction is not None:
            assert 0 <= violation.instruction < len(plan.instructions) + 1


def test_every_rule_has_a_page() -> None:
    for rule in RULES:
        assert rule.__doc__, rule
        assert "\nCure: " in cleandoc(rule.__doc__), rule


def test_rule_names() -> None:
    assert rule_name(RULES[0]) == "plan-target"
    assert len({rule_name(rule) for rule in RULES}) == len(RULES)


def test_one_fault_everywhere_is_reported_a_bounded_number_of_times() -> None:
    plan = replace(large_plan(3, 5), queues=())
    assert len(check_plan(plan, small_spec())) == REPORTED


def test_the_overlap_message_is_in_the_form_of_the_design() -> None:
    violation = check_plan(ghost(address=0x0600), small_spec())[0]
    assert str(violation) == (
        "plan-overlap: buffers %conv1.x.slot0 [0x0600, 0x0880) and %ghost [0x0600, 0x0640) "
        "share sram in instructions [2, 4)\n"
        "hint: move one of them, or raise `memory.sram.size` in the hardware spec"
    )


def test_the_deadlock_message_names_the_ring() -> None:
    plan = append(wait("host", 9), signal("host", 8), wait("vector", 8), signal("vector", 9))
    (violation,) = check_plan(plan, small_spec())
    assert violation.message == (
        "queues wait for each other in a ring: instruction 28 on vector awaits event 8, which "
        "instruction 27 signals; instruction 26 on host awaits event 9, which instruction 29 "
        "signals"
    )


def test_disjoint_columns_written_by_two_queues_do_not_race() -> None:
    left, right = column(0, 4), column(4, 8)
    out_left = replace(OUT_DDR, shape=(1, 8, 8, 4))
    out_right = replace(out_left, address=OUT_DDR.address + 4 * 16)
    done = (signal("host", 9), wait("dma0", 9), signal("dma0", 10), wait("dma1", 10))
    disjoint = append(*done, copy("dma0", left, out_left), copy("dma1", right, out_right))
    assert check_plan(disjoint, small_spec()) == ()
    shared = append(
        *done,
        copy("dma0", left, out_left),
        copy("dma1", right, replace(out_right, address=OUT_DDR.address + 3 * 16)),
    )
    assert [violation.rule for violation in check_plan(shared, small_spec())] == ["plan-race"]


def test_quantised_operands_count_as_they_lie_in_memory() -> None:
    types = {
        "x": TensorType(DType.U8, (2, 4, 8)),
        "w": TensorType(DType.I8, (8, 16)),
        "xs": TensorType(DType.F32, ()),
        "xf": TensorType(DType.F16, (2, 4, 8)),
        "wf": TensorType(DType.F16, (8, 16)),
        "y": TensorType(DType.F16, (2, 4, 16)),
    }
    operators = (
        Operator("dx", Kind.DEQUANTIZE, ("x", "xs"), ("xf",), {"axis": -1}),
        Operator("dw", Kind.DEQUANTIZE, ("w", "xs"), ("wf",), {"axis": -1}),
        Operator("mm", Kind.MATMUL, ("xf", "wf"), ("y",)),
    )
    regions = {
        "x": region(SRAM, 0x2000, (2, 4, 8), dtype=DType.U8),
        "w": region(SRAM, 0x2100, (8, 16), dtype=DType.I8),
        "xs": region(SRAM, 0x2200, (), dtype=DType.F32),
    }
    kernel = replace(
        legal_plan().kernels[0],
        name="quantised",
        parameters=("x", "w", "xs"),
        operators=operators,
        types=types,
    )

    def rules(work: Contraction) -> set[str]:
        reads = tuple(regions.values())
        gemm = Instruction(
            Opcode.TENSOR_CORE_GEMM,
            "tensor_core",
            "",
            reads,
            (region(SRAM, 0x2300, (2, 4, 16)),),
            kernel=0,
            contraction=work,
        )
        plan = replace(legal_plan(), kernels=(kernel,), instructions=(gemm,))
        spec = limited("matmul", dtypes=frozenset({DType.I8, DType.U8}))
        return {item.rule for item in check_plan(plan, spec)} & {
            "plan-contraction",
            "plan-epilogue",
            "plan-support",
            "plan-kernel-shapes",
            "plan-kernel-form",
        }

    assert rules(Contraction(8, 16, 8, 1, 1, DType.I8)) == set()
    assert rules(Contraction(4, 16, 8, 2, 1, DType.I8)) == set()
    assert rules(Contraction(4, 16, 8, 2, 1, DType.F16)) == {"plan-contraction"}
    assert rules(Contraction(4, 16, 8, 1, 1, DType.I8)) == {"plan-contraction"}


def test_sums_of_a_contraction_in_parts_are_added_by_the_tensor_core() -> None:
    def rules(dtype: DType) -> set[str]:
        first = legal_plan().kernels[0]
        sums = TensorType(dtype, first.types["y"].shape)
        add = Operator("sum", Kind.ADD, ("t", "earlier"), ("y",))
        types = {**first.types, "earlier": sums}
        kernel = replace(
            first,
            parameters=("x", "w", "earlier"),
            operators=(first.operators[0], add),
            types=types,
        )
        plan = replace(legal_plan(), kernels=(kernel,), instructions=())
        earlier = region(SRAM, 0x4000, sums.shape, NHWC, dtype=dtype)
        conv = legal_plan().instructions[CONV0]
        conv = replace(conv, reads=(*conv.reads, earlier))
        plan = replace(plan, instructions=(conv,))
        broken = {item.rule for item in check_plan(plan, tc(output_stage=frozenset({"relu"})))}
        return broken & {"plan-epilogue", "plan-kernel-form", "plan-kernel-types"}

    assert rules(DType.F32) == set()
    assert rules(DType.F16) == {"plan-epilogue"}
