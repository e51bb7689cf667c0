"""Channels and banks of strided accesses, against counting bursts one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.cost import Side, strided_transfer_cost, transfer_cost
from stages.hardware.interleave import WHOLE, Pattern, conflict_factor, pattern_of
from stages.hardware.spec import Memory
from tests.device.specs import tiny_spec

SPEC = tiny_spec()


def memory(channels: int = 1, interleave: int = 64, banks: int = 1, bank: int = 0) -> Memory:
    """Bursts of 16 bytes."""
    return replace(
        SPEC.ddr,
        channels=channels,
        interleave_bytes=interleave,
        banks=banks,
        bank_interleave_bytes=bank,
    )


@pytest.mark.parametrize(
    ("run", "stride", "factor"),
    [
        # 4 channels of 64 bytes: 256 bytes a round. 32 runs, 16 bytes each.
        (16, 64, Fraction(1)),  # 0 1 2 3 0 1 2 3
        (16, 128, Fraction(2)),  # 0 2 0 2
        (16, 256, Fraction(4)),  # 0 0 0 0
        (16, 192, Fraction(1)),  # 0 3 2 1
        (16, 96, Fraction(1)),  # 0 1 3 0 2 3 1 2
        (128, 256, Fraction(2)),  # 0 and 1, again and again
        (256, 1024, Fraction(1)),  # a run meets all
        (320, 1024, Fraction(8, 5)),  # 5 blocks a run, 2 of them in channel 0: 2 of 5/4
    ],
)
def test_channels_by_hand(run: int, stride: int, factor: Fraction) -> None:
    assert conflict_factor(memory(channels=4), Pattern(run, ((32, stride),))) == factor


def test_three_channels_and_few_runs() -> None:
    # 3 channels: 0 and 96 fall in channels 0 and 1, 192 comes round to 0
    assert conflict_factor(memory(channels=3), Pattern(16, ((48, 96),))) == Fraction(3, 2)
    # two bursts in two of eight channels are as quick as two bursts can be
    assert conflict_factor(memory(channels=8), Pattern(16, ((2, 64),))) == 1
    assert conflict_factor(memory(channels=8), Pattern(16, ((2, 512),))) == 2


def test_banks_conflict_like_channels() -> None:
    banked = memory(banks=8, bank=32)
    assert conflict_factor(banked, Pattern(32, ((64, 32),))) == 1
    assert conflict_factor(banked, Pattern(32, ((64, 64),))) == 2
    assert conflict_factor(banked, Pattern(32, ((64, 256),))) == 8
    # the worse of the two counts
    both = memory(channels=2, interleave=64, banks=8, bank=32)
    assert conflict_factor(both, Pattern(32, ((64, 128),))) == 4
    # banks that don't say how they are interleaved never conflict
    assert conflict_factor(memory(banks=8), Pattern(32, ((64, 256),))) == 1


def test_an_outer_loop_counts_where_the_inner_one_is_short() -> None:
    four = memory(channels=4)
    # pairs in one channel, the next pair in the next: no channel is busier than another
    assert conflict_factor(four, Pattern(16, ((2, 256), (32, 64)))) == 1
    # 64 runs in one channel before the next: the controller sees no further
    assert conflict_factor(four, Pattern(16, ((64, 256), (32, 64)))) == 4


def test_patterns_of_boxes() -> None:
    assert pattern_of((4, 8), (16, 2), 2) == Pattern(64)  # dense
    assert pattern_of((4, 8), (64, 2), 2) == Pattern(16, ((4, 64),))
    assert pattern_of((3, 1, 8), (256, 999, 2), 2) == Pattern(16, ((3, 256),))
    assert pattern_of((2, 4, 8), (1024, 16, 2), 2) == Pattern(64, ((2, 1024),))
    assert pattern_of((4, 8), (2, 8), 2) == Pattern(2, ((8, 8), (4, 2)))  # transposed
    assert pattern_of((5, 8), (0, 2), 2) == Pattern(16, ((5, 0),))  # broadcast
    assert pattern_of((), (), 4) == Pattern(4)


@given(
    st.integers(1, 6),
    st.sampled_from([16, 64, 256]),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 1200)), min_size=1, max_size=3),
)
def test_equals_counting_every_burst(
    channels: int, interleave: int, run: int, loops: list[tuple[int, int]]
) -> None:
    """Few enough runs that all of them are in sight."""
    pattern = Pattern(run * 16, tuple(loops))
    starts = [
        sum(place * stride for place, (_, stride) in zip(places, reversed(loops), strict=True))
        for places in product(*(range(extent) for extent, _ in reversed(loops)))
    ][: 16 * channels]
    loads = [0] * channels
    for start in starts:
        for burst in range(run):
            loads[(start // 16 * 16 + 16 * burst) // interleave % channels] += 1
    expected = Fraction(max(loads), -(-sum(loads) // channels))
    factor = conflict_factor(memory(channels=channels, interleave=interleave), pattern)
    assert factor == expected
    assert 1 <= factor <= channels


def test_a_transfer_pays_for_its_side_of_the_memory() -> None:
    spec = replace(SPEC, ddr=memory(channels=4))
    dense = strided_transfer_cost(spec, 512, 16, Side("ddr"), Side("sram"))
    assert dense == transfer_cost(SPEC, 512, 16, "ddr", "sram")
    column = Side("ddr", Pattern(16, ((32, 256),)))
    # 512 bytes at 8 a cycle are 64 cycles; from one of four channels, 256
    read = strided_transfer_cost(spec, 512, 16, column, Side("sram"))
    assert (read.port_cycles, read.channel_cycles) == (256, 256)
    written = strided_transfer_cost(spec, 512, 16, Side("sram"), column)
    assert (written.port_cycles, written.channel_cycles) == (256, 256)
    # the sram has one channel: the pattern there costs nothing more
    assert strided_transfer_cost(spec, 512, 16, Side("ddr"), replace(column, memory="sram")) == (
        dense
    )
    assert strided_transfer_cost(spec, 512, 16, Side("ddr", WHOLE), Side("sram")) == dense
