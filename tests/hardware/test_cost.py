"""Vectors, transfers, host and roofline: hand-made numbers, and what holds for any work."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.cost import (
    TransferCost,
    by_channel_elements,
    compulsory_cycles,
    contraction_cycles,
    cycles_to_nanoseconds,
    host_cycles,
    launch_cycles,
    nanoseconds_to_cycles,
    peak_cycles,
    reduced_cycles,
    transfer_cost,
    vector_cycles,
)
from stages.hardware.load import load_spec
from stages.hardware.spec import Host, VectorUnit
from stages.tensors import DType
from tests.hardware.specs import SPECS

TINY = load_spec(SPECS / "npu_tiny.yaml")


def test_a_narrow_element_takes_the_least_width() -> None:
    plain = VectorUnit(32, 10, 2, {})
    halves = replace(plain, least_element_bytes=2)
    assert vector_cycles(halves, ["relu"], 4096, 1) == vector_cycles(plain, ["relu"], 4096, 2)
    assert vector_cycles(halves, ["relu"], 4096, 4) == vector_cycles(plain, ["relu"], 4096, 4)


def test_vector_by_hand() -> None:
    unit = VectorUnit(
        bytes_per_cycle=32, startup_cycles=10, default_cycles=2, cycles_by_kind={"exp": 5}
    )
    # 100 f16 elements are 200 bytes: 7 vectors
    assert vector_cycles(unit, ["add"], 100, 2) == 10 + 7 * 2
    assert vector_cycles(unit, ["exp"], 100, 2) == 10 + 7 * 5
    assert vector_cycles(unit, ["exp", "add"], 100, 2) == 10 + 7 * 7
    assert vector_cycles(replace(unit, startup_cycles=0), ["add"], 0, 2) == 1
    ends = replace(unit, ends=frozenset({"exp", "relu"}))
    assert vector_cycles(ends, ["exp", "add", "relu"], 100, 2) == 10 + 7 * 2
    assert vector_cycles(ends, ["relu", "exp"], 100, 2) == vector_cycles(unit, ["exp"], 100, 2)
    with pytest.raises(ValueError, match="negative work"):
        vector_cycles(unit, ["add"], -1, 2)


def test_what_follows_a_reduction_works_on_its_results() -> None:
    unit = VectorUnit(32, 10, 2, {"exp": 5}, ends=frozenset({"relu"}))
    # 400 f16 elements are 25 vectors, 4 results one
    assert reduced_cycles(unit, ["mul", "reduce_sum"], 400, 2, ["exp"], 4, 2) == 10 + 25 * 4 + 5
    assert reduced_cycles(unit, ["reduce_sum"], 400, 2, ["relu", "exp"], 4, 2) == 10 + 25 * 2 + 5
    assert reduced_cycles(unit, ["reduce_sum"], 400, 2, ["relu"], 4, 2) == 10 + 25 * 2
    assert reduced_cycles(unit, ["relu"], 400, 2, ["relu"], 4, 2) == 10 + 25 * 2
    with pytest.raises(ValueError, match="negative work"):
        reduced_cycles(unit, ["reduce_sum"], 400, 2, ["exp"], -1, 2)


def test_what_only_compares_converts_nothing() -> None:
    unit = VectorUnit(32, 10, 2, {"quantize": 7}, compares=frozenset({"max_pool", "relu"}))
    # 320 bytes are 10 vectors
    pooled = ["dequantize", "max_pool", "quantize"]
    assert vector_cycles(unit, pooled, 320, 1) == 10 + 10 * 2
    assert vector_cycles(unit, ["dequantize", "add", "quantize"], 320, 1) == 10 + 10 * (2 + 2 + 7)
    mixed = ["dequantize", "max_pool", "add", "quantize"]
    assert vector_cycles(unit, mixed, 320, 1) == 10 + 10 * (2 + 2 + 2 + 7)
    assert vector_cycles(unit, ["dequantize", "quantize"], 320, 1) == 10 + 10 * (2 + 7)
    # 1,280 bytes are read, 40 vectors; the results are 10
    behind = ["relu", "quantize"]
    assert reduced_cycles(unit, pooled[:2], 1280, 1, behind, 320, 1) == 10 + 40 * 2 + 10 * 2
    behind = ["add", "quantize"]
    assert reduced_cycles(unit, pooled[:2], 1280, 1, behind, 320, 1) == 10 + 40 * 4 + 10 * 9


def test_an_images_pixel_may_take_more_channels_than_it_has() -> None:
    unit = VectorUnit(32, 10, 2, {}, pixel_channels=16)
    assert by_channel_elements(unit, 300, 3) == 1600
    assert by_channel_elements(unit, 400, 20) == 400, "never fewer than there are"
    assert by_channel_elements(replace(unit, pixel_channels=0), 300, 3) == 300


def test_efficiency_stretches_vectors_and_transfers() -> None:
    unit = VectorUnit(32, 10, 2, {}, efficiency_permille=700)
    assert vector_cycles(unit, ["add"], 100, 2) == 10 + ceil(7 * 2 / 0.7)
    slow = replace(TINY, ddr=replace(TINY.ddr, read_efficiency_permille=500))
    assert transfer_cost(slow, 1024, 1024, "ddr", "sram").port_cycles == 2 * 128
    slow = replace(TINY, ddr=replace(TINY.ddr, write_efficiency_permille=500))
    assert transfer_cost(slow, 1024, 1024, "sram", "ddr").port_cycles == 2 * 128
    assert transfer_cost(slow, 1024, 1024, "ddr", "sram").port_cycles == 128


def test_transfer_by_hand() -> None:
    # npu_tiny at 500 MHz: ddr and dma 4 GB/s are 8 B a cycle, sram 16 GB/s 32 B a cycle;
    # 100 ns setup + 120 ns ddr read + 4 ns sram write are 112 cycles
    assert transfer_cost(TINY, 1024, 1024, "ddr", "sram") == TransferCost(112, 128, 128)
    # 100 ns setup + 4 ns sram read + 40 ns ddr write are 72 cycles
    assert transfer_cost(TINY, 1024, 1024, "sram", "ddr") == TransferCost(72, 128, 128)
    # runs of 16 bytes cost ddr a burst of 64 bytes each
    assert transfer_cost(TINY, 1024, 16, "ddr", "sram") == TransferCost(112, 512, 512)
    # inside the sram the dma is the slowest
    assert transfer_cost(TINY, 1024, 1024, "sram", "sram") == TransferCost(54, 128, 0)
    # from ddr to ddr both sides hold the one port, one after the other, and the channel as long
    assert transfer_cost(TINY, 1024, 1024, "ddr", "ddr") == TransferCost(130, 256, 256)
    # the last run may be shorter
    assert transfer_cost(TINY, 200, 150, "ddr", "sram").port_cycles == (3 + 1) * 64 // 8
    assert transfer_cost(TINY, 0, 0, "ddr", "sram") == TransferCost(112, 1, 0)


def test_transfer_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="npu_tiny has no memory 'l2'"):
        transfer_cost(TINY, 1, 1, "l2", "sram")
    with pytest.raises(ValueError, match="negative transfer"):
        transfer_cost(TINY, -1, 1, "ddr", "sram")


SIDES = st.sampled_from([("ddr", "sram"), ("sram", "ddr"), ("ddr", "ddr")])


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.integers(0, 10**6), SIDES)
def test_transfers_respect_the_bandwidth(
    size: int, run: int, more: int, sides: tuple[str, str]
) -> None:
    cost = transfer_cost(TINY, size, run, *sides)
    assert cost.channel_cycles >= max(1, cost.port_cycles)
    assert cost.port_cycles >= compulsory_cycles(TINY, size * sides.count("ddr"))
    assert transfer_cost(TINY, size + more, run, *sides).channel_cycles >= cost.channel_cycles


def test_host_by_hand() -> None:
    spec = replace(
        TINY,
        clock_hz=10**9,
        host=Host(
            flops_per_second=4 * 10**9,
            memory_bandwidth=10**9,
            link_bandwidth=2 * 10**9,
            sync_ns=1000,
            call_ns=100,
        ),
    )
    assert host_cycles(spec, 0, 0, 0, 0) == 1000
    assert host_cycles(spec, 3, 0, 0, 0) == 1300
    assert host_cycles(spec, 1, 4000, 0, 0) == 1100 + 1000
    assert host_cycles(spec, 1, 4000, 5000, 0) == 1100 + 5000
    assert host_cycles(spec, 1, 4000, 5000, 2001) == 1100 + 5000 + 1001
    with pytest.raises(ValueError, match="negative work"):
        host_cycles(spec, 1, -1, 0, 0)
    idle = replace(spec, host=replace(spec.host, sync_ns=0))
    assert host_cycles(idle, 0, 0, 0, 0) == 1


def test_clock_conversions_round_up() -> None:
    assert nanoseconds_to_cycles(TINY, 0) == 0
    assert nanoseconds_to_cycles(TINY, 3) == 2
    assert cycles_to_nanoseconds(TINY, 3) == 6
    assert launch_cycles(TINY, "tensor_core") == 200
    assert launch_cycles(TINY, "host") == 0


@given(st.integers(0, 10**15))
def test_time_to_cycles_and_back_never_shrinks(ns: int) -> None:
    assert 0 <= cycles_to_nanoseconds(TINY, nanoseconds_to_cycles(TINY, ns)) - ns < 2


def test_roofline_by_hand() -> None:
    # npu_tiny: int8 256 MACs a cycle, f16 128
    assert peak_cycles(TINY.tensor_core, {DType.I8: 2560}) == 10
    assert peak_cycles(TINY.tensor_core, {DType.I8: 128, DType.F16: 64}) == 1
    assert peak_cycles(TINY.tensor_core, {}) == 0
    assert compulsory_cycles(TINY, 8001) == 1001
    with pytest.raises(ValueError, match="the tensor core doesn't multiply f64"):
        peak_cycles(TINY.tensor_core, {DType.F64: 1})


def test_roofline_is_capped_by_the_channels() -> None:
    slow = replace(TINY, dma=replace(TINY.dma, bandwidth=10**9))
    assert compulsory_cycles(slow, 8000) == 4 * compulsory_cycles(TINY, 8000)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_specs_stay_over_their_roofline(path: Path) -> None:
    spec = load_spec(path)
    for dtype in spec.tensor_core.macs_per_cycle:
        cycles = contraction_cycles(spec.tensor_core, 3136, 64, 576, 1, 9, dtype)
        assert cycles >= peak_cycles(spec.tensor_core, {dtype: 3136 * 64 * 576})
