"""Counters of operators: whose a transfer and a stall are, by hand, and sums over whole plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stages.compiler.pipeline import compile_graph
from stages.device.counters import Counters, count
from stages.device.operator_counters import OperatorCounters
from stages.device.ownership import TRANSFER, Form, Owner, ownership
from stages.evaluation.counter_files import OPERATOR_COLUMNS, operators_text
from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import instruction_costs
from stages.plan.instructions import Instruction, Opcode, Plan
from stages.plan.timing import simulate
from stages.recipe.onnx_import import import_model
from tests.compiler.campaign import model_of
from tests.device.plans import conv_relu_plan, copy, plan, region
from tests.device.specs import tiny_spec
from tests.hardware.specs import SPECS
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import small_spec
from tests.plan.test_ddr_traffic import line, slot, with_l2


def counted(program: Plan, spec: HardwareSpec) -> Counters:
    return count(program, instruction_costs(program, spec), spec)


def by_name(counters: Counters) -> dict[str, OperatorCounters]:
    return {row.operator: row for row in counters.operators}


def test_a_convolution_and_its_relu_by_hand() -> None:
    # 1 GHz: a cycle is a nanosecond. x is 576 bytes, w 1,152, y 576, at 8 bytes of ddr a cycle and
    # 4 of a channel
    spec = tiny_spec()
    program = conv_relu_plan()
    costs = instruction_costs(program, spec)
    moved = {index: costs.cycles[index] for index in (0, 2, 9)}
    conv, relu = by_name(counted(program, spec)).values()
    assert (conv.operator, relu.operator) == ("conv", "relu")
    assert (conv.ddr_read_bytes, conv.ddr_written_bytes) == (1_152 + 576, 0)
    assert (relu.ddr_read_bytes, relu.ddr_written_bytes) == (0, 576)
    # the relu drains beside the convolution and has the store; w and x load side by side
    assert (conv.busy_ns, relu.busy_ns) == (costs.cycles[6], 0)
    assert max(moved[0], moved[2]) <= conv.transfer_ns <= moved[0] + moved[2]
    assert relu.transfer_ns == moved[9]
    assert relu.bandwidth_over_peak == round(576 / 8 / moved[9], 4)
    # the tensor core's waits and launch are the convolution's, the store's wait the relu's
    assert conv.stalled_ns["launch"] == costs.launch[6] == 200
    assert conv.stalled_ns["event"] > 0
    timing = simulate(program, spec)
    began, ended = min(timing.starts[[0, 2]].tolist()), int(timing.ends[6])
    assert conv.extent_ns == ended - began
    assert conv.compute_share == round(conv.busy_ns / conv.extent_ns, 4)
    assert conv.dma_share == round(conv.transfer_ns / conv.extent_ns, 4)
    assert conv.cache_hit_bytes is conv.cache_miss_rate is None


def check_sums(counters: Counters) -> None:
    """Operators and groups share what the engines did; nothing is lost and nothing twice."""
    rows, run = counters.operators, counters.run
    computing = [time for name, time in counters.engines.items() if not name.startswith("dma")]
    assert sum(row.busy_ns for row in rows) == sum(time.busy_ns for time in computing)
    assert sum(row.ddr_read_bytes for row in rows) == run.ddr_read_bytes
    assert sum(row.ddr_written_bytes for row in rows) == run.ddr_written_bytes
    stalled: dict[str, int] = {}
    for time in counters.engines.values():
        if time.busy_ns == 0:
            continue  # waits of a queue that never works are nobody's
        for cause, spent in time.stalled_ns.items():
            word = cause.split()[0]
            stalled[word] = stalled.get(word, 0) + spent
    stalled.pop("submit", None)  # of the driver, before any operator
    owned: dict[str, int] = {}
    for row in rows:
        for cause, spent in row.stalled_ns.items():
            owned[cause] = owned.get(cause, 0) + spent
    assert owned == {cause: spent for cause, spent in stalled.items() if spent}
    for row in rows:
        assert 0 <= row.compute_share <= 1
        assert 0 <= row.dma_share <= 1
        assert 0 <= row.macs_over_peak <= 1
        if run.cache_hit_bytes is None:  # what is put out crosses after its transfer has ended
            assert 0 <= row.bandwidth_over_peak <= 1
        assert row.extent_ns <= run.total_ns
        assert max(row.busy_ns, row.transfer_ns) <= row.extent_ns
    if run.cache_hit_bytes is not None:
        assert sum(row.cache_hit_bytes or 0 for row in rows) == run.cache_hit_bytes
        assert sum(row.cache_miss_bytes or 0 for row in rows) == run.cache_miss_bytes


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "ascend_310", "nvidia_t4"])
@pytest.mark.parametrize("seed", [1, 4, 7, 9])
def test_operators_add_up_to_the_run(seed: int, name: str) -> None:
    spec = load_spec(SPECS / f"{name}.yaml")
    compiled = compile_graph(*import_model(model_of(seed).model), spec)
    check_sums(counted(compiled.plan, spec))


def test_operators_of_tiles_add_up_too() -> None:
    check_sums(counted(large_plan(4, 6), small_spec()))


def test_what_is_moved_for_no_operator_counts_for_its_group() -> None:
    spec = tiny_spec()
    one, other = region("ddr", 0, (64,)), region("ddr", 4096, (64,))
    counters = counted(plan((copy(one, other, group="split"),)), spec)
    (row,) = counters.operators
    assert (row.operator, row.kind, row.group, row.engine) == ("split", TRANSFER, "split", "dma")
    assert (row.ddr_read_bytes, row.ddr_written_bytes, row.busy_ns) == (128, 128, 0)
    check_sums(counters)


def test_what_waits_or_rests_is_whose_the_next_work_is() -> None:
    program = conv_relu_plan()
    pause = Instruction(Opcode.THERMAL_BACKOFF, "tensor_core", cycles=777)
    rows = program.instructions
    program = replace(program, instructions=(*rows[:6], pause, *rows[6:], pause))
    buffers = tuple(replace(item, stop=len(program.instructions)) for item in program.buffers)
    program = replace(program, buffers=buffers)
    owned = ownership(program, tiny_spec())
    whose = [owned.forms[form].shares[0][0].operator for form in owned.of_instruction.tolist()]
    #        load w, signal; load x, signal;  waits, pause, product and signal;  wait, store; pause
    assert whose == ["conv"] * 2 + ["conv", "relu"] + ["conv"] * 5 + ["relu", "relu", "conv"]
    counters = counted(program, tiny_spec())
    assert by_name(counters)["conv"].stalled_ns["backoff"] == 2 * 777


def test_a_load_is_the_operators_that_first_reads_it_and_a_store_its_makers() -> None:
    program = conv_relu_plan()
    owned = ownership(program, tiny_spec())
    moving = [
        owned.forms[owned.of_instruction[index]].shares
        for index, row in enumerate(program.instructions)
        if row.opcode is Opcode.DMA_COPY
    ]
    conv = Owner("conv", "conv", "conv", "tensor_core")
    relu = Owner("relu", "relu", "conv", "tensor_core")
    assert moving == [((conv, 1),), ((conv, 1),), ((relu, 1),)]


def test_the_miss_rate_of_a_cached_device() -> None:
    # three lines to a set of two miss every time; four lines that fit are found
    spec = with_l2()
    missing = counted(plan(tuple(copy(line(4 * number), slot()) for number in range(3))), spec)
    assert missing.run.cache_miss_rate == 1.0
    fitting = counted(plan((copy(line(0, 4), slot(4)), copy(line(0, 4), slot(4)))), spec)
    assert fitting.run.cache_miss_rate == 0.0
    assert fitting.operators[0].cache_miss_rate == 0.0
    assert fitting.run.bandwidth_over_peak == 0.0
    # what is put out crosses the port, and what stays in the cache doesn't
    written = counted(plan(tuple(copy(slot(), line(4 * number)) for number in range(3))), spec)
    assert written.run.cache_miss_bytes == 192
    kept = counted(plan((copy(slot(4), line(0, 4)),)), spec)
    assert (kept.run.ddr_written_bytes, kept.run.bandwidth_over_peak) == (256, 0.0)
    assert written.run.bandwidth_over_peak > 0


def test_parts_add_up_whatever_they_weigh() -> None:
    owners = [Owner(name, "add", "g", "vector") for name in "abc"]
    form = Form(False, tuple(zip(owners, (1, 1, 1), strict=True)))
    assert [part for _, part in form.split(10)] == [3, 3, 4]
    nothing = Form(False, tuple(zip(owners, (0, 0, 0), strict=True)))
    assert [part for _, part in nothing.split(10)] == [10, 0, 0]


def test_reports_name_the_same_columns() -> None:
    counters = counted(conv_relu_plan(), tiny_spec())
    header, *rows = operators_text(counters.operators).splitlines()
    assert tuple(header.split(",")) == OPERATOR_COLUMNS
    assert {len(row.split(",")) for row in rows} == {len(OPERATOR_COLUMNS)}
