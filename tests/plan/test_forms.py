"""The text form and the binary form say a plan whole."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings

from stages.errors import InputError, Outcome, PackageError
from stages.plan.binary import decode_plan, encode_plan
from stages.plan.instructions import NO_EVENT, Instruction, Opcode, Plan
from stages.plan.syntax import PlanTextError
from stages.plan.tensor_file import read_tensors
from stages.plan.text import parse_plan, print_plan
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import X_DDR, legal_plan, region, rows
from tests.plan.strategies import ODD_PLANS

GOLDEN = """\
plan for npu_small
queues tensor_core vector host dma0 dma1
kernel 0 conv1.top
  input %x : f16[1,8,5,8]
  input %w : f16[8,8,3,3]
  %t : f16[1,8,4,8] = conv(%x, %w) {dilations=[1,1], group=1, pads=[1,1,0,1], strides=[1,1]}\
  # "conv1/Conv"
  %y : f16[1,8,4,8] = relu(%t)  # "conv1/Relu"
  output %y
buffer %conv1.x.slot0 sram+0x0600 size 640 ephemeral live [1, 7)
constant %conv1.weight ddr+0x0000 f16[8,8,3,3]
input %x ddr+0x2000 f16[1,8,8,8] nhwc
output %out ddr+0x4000 f16[1,8,8,8] nhwc
program
group conv1
     0 dma0        DMA_COPY ddr+0x0000 -> sram+0x0100, 1152 B f16[8,8,3,3]  # conv1.weight
     1 dma0        DMA_COPY ddr+0x2000 by [1024,128,16,2] -> sram+0x0600, 640 B f16[1,8,5,8] nhwc\
  # x tile 0
     2 dma0        SIGNAL_EVENT 0
     3 tensor_core WAIT_EVENT 0
     4 tensor_core TENSOR_CORE_CONV conv1.top@0 (sram+0x0600 f16[1,8,5,8] nhwc, \
sram+0x0100 f16[8,8,3,3]) -> (sram+0x0c00 f16[1,8,4,8] nhwc by [1024,128,16,2]) \
m=32 n=8 k=72 groups=1 taps=9 f16 launch
group odd
     5 host        THERMAL_BACKOFF 100 cycles
     6 dma1        DMA_COPY ddr+0x2000 -> sram+0x0400, 1024 B  # conv1.weight tile 3
"""


def small_plan() -> Plan:
    """Some of the legal plan."""
    plan = legal_plan()
    program = [plan.instructions[i] for i in (0, 1, 2, 5, 6, 23)]
    plain = [region(place, at, (1024,), dtype=X_DDR.dtype.U8) for place, at in BYTES]
    note = "conv1.weight tile 3"
    copy = Instruction(Opcode.DMA_COPY, "dma1", "odd", (plain[0],), (plain[1],), comment=note)
    return replace(
        plan,
        kernels=plan.kernels[:1],
        buffers=plan.buffers[8:9],
        constants=plan.constants[:1],
        inputs=plan.inputs[:1],
        outputs=plan.outputs[:1],
        instructions=(*program, copy),
    )


BYTES = (("ddr", 0x2000), ("sram", 0x0400))


def test_the_text_of_a_plan() -> None:
    assert print_plan(small_plan()) == GOLDEN
    assert parse_plan(GOLDEN) == small_plan()


@pytest.mark.parametrize("plan", [legal_plan(), large_plan(3, 5)], ids=["small", "large"])
def test_text_and_binary_say_a_plan_whole(plan: Plan) -> None:
    assert parse_plan(print_plan(plan)) == plan
    assert decode_plan(encode_plan(plan), "here") == plan


@given(ODD_PLANS)
@settings(max_examples=80, deadline=None)
def test_text_and_binary_say_odd_plans_whole(plan: Plan) -> None:
    assert parse_plan(print_plan(plan)) == plan
    assert decode_plan(encode_plan(plan), "here") == plan


def test_notes_numbers_and_empty_lines_are_the_readers() -> None:
    text = print_plan(legal_plan())
    edited = text.replace("group act\n", "\n# a note\ngroup act\n").replace("\n    10 ", "\n 777 ")
    assert edited != text
    assert parse_plan(edited) == legal_plan()


def test_an_edit_is_read() -> None:
    text = print_plan(legal_plan()).replace("-> sram+0x0600, 640 B", "-> sram+0x0620, 640 B")
    copied = parse_plan(text).instructions[1]
    assert copied.writes[0].address == 0x620
    assert copied.reads == (rows(X_DDR, 0, 5),)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("plan for npu_small", "plan of npu_small", "no line of a plan's header"),
        ("plan for npu_small\n", "", "the line `plan for HARDWARE` is missing"),
        ("\nprogram\n", "\n", "the line `program` is missing"),
        ("WAIT_EVENT 0", "AWAIT_EVENT 0", "an instruction was expected"),
        ("WAIT_EVENT 0", "WAIT_EVENT zero", "this instruction isn't in the form"),
        ("1152 B f16", "1153 B f16", "1153 B isn't the size of f16[8,8,3,3], 1152 B"),
        ("conv1.top@0 (", "conv1.top@3 (", "kernel 3 is embed, not conv1.top"),
        ("kernel 2 act", "kernel 7 act", "kernel 2 was expected"),
        ("sigmoid(%a)", "sigmoidal(%a)", "line 17, column"),
        ("640 ephemeral live", "640 eternal live", "`eternal` is no lifetime"),
        ("size 640 ephemeral", "size big ephemeral", "this buffer isn't in the form"),
        ("constant %table ddr+0x1000 f16", "constant %table ddr+0x1000 f17", "'f17'"),
        ("f16[1,8,4,8] nhwc by [1024", "f16[1,8,4,8] chwn by [1024", "chwn"),
    ],
)
def test_faults_are_shown_with_their_line(old: str, new: str, says: str) -> None:
    text = print_plan(legal_plan())
    assert old in text
    with pytest.raises(InputError) as caught:
        parse_plan(text.replace(old, new, 1))
    assert says in str(caught.value)
    assert "line " in str(caught.value)
    assert caught.value.outcome is Outcome.BAD_INPUT


def test_a_fault_names_the_line_number() -> None:
    text = print_plan(legal_plan())
    number = text.split("\n").index("     2 dma0        SIGNAL_EVENT 0") + 1
    with pytest.raises(PlanTextError) as caught:
        parse_plan(text.replace("SIGNAL_EVENT 0", "SIGNAL_EVENT x"))
    assert f"at: line {number}: 2 dma0        SIGNAL_EVENT x" in str(caught.value)


def test_an_event_without_a_number_survives() -> None:
    plan = replace(legal_plan(), instructions=(Instruction(Opcode.WAIT_EVENT, "host"),))
    assert parse_plan(print_plan(plan)).instructions[0].event == NO_EVENT


def test_the_binary_form_is_a_safetensors_file_with_narrow_columns() -> None:
    entries = dict(safetensors.deserialize(encode_plan(legal_plan())))
    assert entries["opcode"]["dtype"] == "U8"
    assert entries["kernel"]["dtype"] == "I8"
    assert entries["region_address"]["dtype"] == "U16"
    assert encode_plan(large_plan(3, 5)) == encode_plan(large_plan(3, 5))


def test_a_binary_that_is_cut_or_changed_is_refused_or_another_plan() -> None:
    data = encode_plan(legal_plan())
    for size in (0, 4, 100, len(data) - 1):
        with pytest.raises(PackageError, match=r"whole safetensors file"):
            decode_plan(data[:size], "here")
    with pytest.raises(PackageError, match=r"1 bytes follow the last tensor"):
        decode_plan(data + b"x", "here")
    random = np.random.default_rng(3)
    for _ in range(200):
        changed = bytearray(data)
        changed[random.integers(len(data))] ^= int(random.integers(1, 256))
        with suppress(PackageError):  # and nothing else
            decode_plan(bytes(changed), "here")


def test_numbers_beyond_64_bits_are_refused() -> None:
    plan = replace(
        legal_plan(), instructions=(Instruction(Opcode.THERMAL_BACKOFF, "host", cycles=1 << 64),)
    )
    with pytest.raises(OverflowError):
        encode_plan(plan)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"[]", "isn't a JSON object"),
        (b"nonsense", "isn't JSON"),
        (b'{"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}}', "isn't in the form"),
        (b'{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}', "negative"),
        (b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}', "doesn't fit"),
        (b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', "doesn't fit"),
        (b'{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}', "doesn't fit"),
    ],
)
def test_headers_that_lie_are_refused(header: bytes, says: str) -> None:
    data = len(header).to_bytes(8, "little") + header + b"\0"
    with pytest.raises(PackageError, match=r"this isn't a whole safetensors file") as caught:
        read_tensors(np.frombuffer(data, np.uint8), "here")
    assert says in str(caught.value)
