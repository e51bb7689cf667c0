"""The tensor core's cycles: hand-made numbers, SCALE-Sim's, and what holds for any work."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.cost import (
    contraction_cycles,
    drained_cycles,
    driven_cycles,
    gathered_cycles,
    output_blocks,
    peak_cycles,
)
from stages.hardware.load import load_spec
from stages.hardware.spec import Dataflow, TensorCore
from stages.tensors import DType
from tests.hardware.specs import SPECS

TINY = load_spec(SPECS / "npu_tiny.yaml")


def core(
    dataflow: Dataflow,
    rows: int,
    cols: int,
    *,
    depth: int = 1,
    instances: int = 1,
    fill: int = 0,
    depthwise: int = 0,
) -> TensorCore:
    """A core whose f16 rate is its array's, with int8 at twice that and f32 at half."""
    rate = rows * cols * depth * instances
    return TensorCore(
        dataflow=dataflow,
        rows=rows,
        cols=cols,
        depth=depth,
        instances=instances,
        array_dtype=DType.F16,
        macs_per_cycle={DType.F16: 2 * rate, DType.I8: 4 * rate, DType.F32: rate}
        if dataflow is Dataflow.BLOCKED
        else {DType.F16: rate, DType.I8: 2 * rate, DType.F32: max(1, rate // 2)},
        depthwise_macs_per_cycle=depthwise,
        fill_cycles=fill,
        output_stage=frozenset(),
        max_m=10**9,
        max_n=10**9,
        max_k=10**9,
    )


@pytest.mark.parametrize(
    ("dataflow", "m", "n", "k", "expected"),
    [
        # 4 x 8 array; M=10, N=20, K=30.
        # os: ceil(10/4)*ceil(20/8) = 9 folds of 4+8+30-2 = 40 -> 359
        (Dataflow.OUTPUT_STATIONARY, 10, 20, 30, 359),
        # ws: ceil(30/4)*ceil(20/8) = 24 folds of 8+8+10-2 = 24 -> 575
        (Dataflow.WEIGHT_STATIONARY, 10, 20, 30, 575),
        # is: ceil(30/4)*ceil(10/8) = 16 folds of 8+8+20-2 = 34 -> 543
        (Dataflow.INPUT_STATIONARY, 10, 20, 30, 543),
        (Dataflow.OUTPUT_STATIONARY, 1, 1, 1, 10),
        (Dataflow.WEIGHT_STATIONARY, 1, 1, 1, 14),
        (Dataflow.INPUT_STATIONARY, 1, 1, 1, 14),
    ],
)
def test_systolic_by_hand(dataflow: Dataflow, m: int, n: int, k: int, expected: int) -> None:
    array = core(dataflow, 4, 8)
    assert contraction_cycles(array, m, n, k, 1, 1, DType.F16) == expected


def test_the_example_of_the_documentation() -> None:
    core_ = TINY.tensor_core
    assert contraction_cycles(core_, 196, 64, 288, 1, 9, DType.I8) == 17_423
    assert contraction_cycles(core_, 196, 64, 288, 1, 9, DType.F16) == 34_846
    assert peak_cycles(core_, {DType.I8: 196 * 64 * 288}) == 14_112


def test_the_other_examples_of_the_documentation() -> None:
    derated = replace(
        TINY.tensor_core,
        efficiency_permille={DType.I8: 800},
        lanes=4,
        lane_alignment_bytes=64,
        misaligned_lanes=2,
    )
    cycles = contraction_cycles(derated, 196, 64, 288, 1, 9, DType.I8)
    assert driven_cycles(derated, cycles, (32,)) == 43_558
    gpu = core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100)
    assert gpu.macs_per_cycle[DType.F16] == 32_768
    fed = replace(gpu, operand_feed_bytes=4096)
    assert contraction_cycles(fed, 64, 64, 8192, 1, 1, DType.F16) == 4_196
    split = replace(fed, max_split_k=4)
    assert contraction_cycles(split, 64, 64, 8192, 1, 1, DType.F16) == 1_256
    forty = core(Dataflow.BLOCKED, 64, 64, instances=40)
    full, tail = (
        contraction_cycles(forty, 64, 64 * blocks, 256, 1, 1, DType.F16) for blocks in (40, 41)
    )
    assert tail == 2 * full


def test_grouped_and_small_channel_convolutions_by_hand() -> None:
    dot = core(Dataflow.DOT_PRODUCT, 1, 16, depth=8)
    # 4 groups of 20 channels to 20: each group fills two blocks of 16 and three of 8
    assert contraction_cycles(dot, 49, 20, 9 * 20, 4, 9, DType.F16) == 4 * 49 * 2 * 9 * 3
    # as one convolution of 80 to 80 channels it does four times the MACs in less than that
    dense = contraction_cycles(dot, 49, 80, 9 * 80, 1, 9, DType.F16)
    assert dense == 49 * 5 * 9 * 10
    # 3 channels of an image use 3 of 8 of the depth, unless a row of taps lies side by side
    assert contraction_cycles(dot, 100, 16, 9 * 3, 1, 9, DType.F16) == 100 * 9
    image = replace(dot, image_channels=3)
    assert contraction_cycles(image, 100, 16, 9 * 3, 1, 9, DType.F16) == 100 * 3 * 2
    assert contraction_cycles(image, 100, 16, 9 * 4, 1, 9, DType.F16) == 100 * 9
    # weight stationary 4 x 8: a depthwise channel holds 9 of its rows in 3 folds and one column
    systolic = core(Dataflow.WEIGHT_STATIONARY, 4, 8)
    assert contraction_cycles(systolic, 100, 1, 9, 32, 9, DType.F16) == 32 * 3 * (14 + 100) - 1
    # output stationary: 25 folds a channel, each 4 + 8 + 9 - 2 = 19
    pixels = core(Dataflow.OUTPUT_STATIONARY, 4, 8)
    assert contraction_cycles(pixels, 100, 1, 9, 32, 9, DType.F16) == 32 * 25 * 19 - 1
    # blocked: a channel is a block of 64 x 64 that is hardly used, 4 at a time
    gpu = core(Dataflow.BLOCKED, 64, 64, instances=4)
    assert contraction_cycles(gpu, 64, 1, 9, 32, 9, DType.F16) == 8 * ceil(64 * 64 * 9 * 4 / 32768)


def test_results_drain_through_the_output_stage() -> None:
    array = replace(
        core(Dataflow.DOT_PRODUCT, 1, 16, depth=8),
        default_output_cycles=1,
        output_cycles_by_kind={"silu": 16},
    )
    # 100 pixels x 32 channels are 200 blocks; in f16, two bytes each
    blocks = output_blocks(array, 100, 32, 1)
    assert blocks == 200
    assert drained_cycles(array, 1000, blocks, ["conv", "relu"], DType.F16) == 1000
    assert drained_cycles(array, 300, blocks, ["conv", "relu"], DType.F16) == 400
    assert drained_cycles(array, 1000, blocks, ["conv", "silu"], DType.I8) == 3200
    # the groups of a depthwise convolution are channels side by side; of others they aren't
    assert output_blocks(array, 100, 1, 20) == 200
    assert output_blocks(array, 100, 2, 20) == 2000


def test_half_the_rate_is_twice_the_cycles() -> None:
    array = core(Dataflow.WEIGHT_STATIONARY, 4, 8)
    assert contraction_cycles(array, 10, 20, 30, 1, 1, DType.F32) == 2 * 575
    assert contraction_cycles(array, 10, 20, 30, 1, 1, DType.I8) == ceil(575 / 2)


def test_groups_are_more_folds_dealt_to_the_instances() -> None:
    one = core(Dataflow.WEIGHT_STATIONARY, 4, 8)
    two = replace(core(Dataflow.WEIGHT_STATIONARY, 4, 8, instances=2), fill_cycles=5)
    # 3 groups of 24 folds of 24 cycles
    assert contraction_cycles(one, 10, 20, 30, 3, 1, DType.F16) == 72 * 24 - 1
    assert contraction_cycles(two, 10, 20, 30, 3, 1, DType.F16) == 36 * 24 - 1 + 5


def test_dot_product_by_hand() -> None:
    array = core(Dataflow.DOT_PRODUCT, 1, 16, depth=8, fill=7)
    # 49 pixels, 20 channels out, 9 taps x 24 channels in: 49*ceil(20/16)*9*ceil(24/8) + 7
    assert contraction_cycles(array, 49, 20, 9 * 24, 1, 9, DType.F16) == 49 * 2 * 9 * 3 + 7
    # int8 contracts 16 channels a cycle: ceil(24/16) = 2 steps instead of 3
    assert contraction_cycles(array, 49, 20, 9 * 24, 1, 9, DType.I8) == 49 * 2 * 9 * 2 + 7
    # three image channels fill three of the eight
    assert contraction_cycles(array, 49, 16, 9 * 3, 1, 9, DType.F16) == 49 * 9 + 7


def test_short_stripes_wait_for_their_weights() -> None:
    array = replace(core(Dataflow.DOT_PRODUCT, 4, 16, depth=8), weight_load_cycles=8)
    # 32 pixels are 8 steps, and hide the load of the next weights; 4 pixels are one, and wait
    assert contraction_cycles(array, 32, 16, 64, 1, 1, DType.F16) == 8 * 8
    assert contraction_cycles(array, 4, 16, 64, 1, 1, DType.F16) == 8 * 8
    assert contraction_cycles(array, 36, 16, 64, 1, 1, DType.F16) == 9 * 8
    # a product of a vector and a 64 x 48 matrix: three blocks of channels, eight of k
    assert contraction_cycles(array, 1, 48, 64, 1, 1, DType.F16) == 3 * 8 * 8


def test_dot_product_whose_depth_does_not_divide() -> None:
    array = core(Dataflow.DOT_PRODUCT, 2, 2, depth=1)
    # f32 has half the rate, but the depth can't go below one channel: twice the cycles
    assert array.macs_per_cycle[DType.F32] == 2
    assert contraction_cycles(array, 4, 4, 10, 1, 1, DType.F32) == 2 * 2 * 10 * 2


def test_blocked_by_hand() -> None:
    gpu = core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100)
    # rate 2*64*64*4, so a block of depth k takes ceil(64*64*k*4 / 32768) = k/2 cycles
    # 100 x 200 outputs are 2*4 = 8 blocks: two waves
    assert contraction_cycles(gpu, 100, 200, 256, 1, 1, DType.F16) == 2 * (128 + 100)
    # a single output still takes a whole block
    assert contraction_cycles(gpu, 1, 1, 256, 1, 1, DType.F16) == 128 + 100
    # 12 heads of one block each: three waves
    assert contraction_cycles(gpu, 64, 64, 64, 12, 1, DType.F16) == 3 * (32 + 100)


def test_blocks_in_flight_share_the_fill() -> None:
    gpu = core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100)
    two = replace(gpu, blocks_per_instance=2)
    # 9 blocks on 4 instances are three turns of k/2 = 128; one at a time in three waves, two at
    # a time in two
    assert contraction_cycles(gpu, 64, 64 * 9, 256, 1, 1, DType.F16) == 3 * 128 + 3 * 100
    assert contraction_cycles(two, 64, 64 * 9, 256, 1, 1, DType.F16) == 3 * 128 + 2 * 100
    # the tail: one block more than fits a wave costs a turn
    assert contraction_cycles(two, 64, 64 * 8, 256, 1, 1, DType.F16) == 2 * 128 + 100


def test_operands_reach_the_instances_at_their_own_pace() -> None:
    fed = replace(core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100), operand_feed_bytes=256)
    # 8 blocks read (64 + 64) x 256 x 2 bytes each: 2,048 cycles, against 2 x 128 of products
    assert contraction_cycles(fed, 100, 200, 256, 1, 1, DType.F16) == 2048 + 2 * 100
    # int8 moves half as much
    assert contraction_cycles(fed, 100, 200, 256, 1, 1, DType.I8) == 1024 + 2 * 100


def test_the_best_block_shape_is_taken() -> None:
    fed = replace(core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100), operand_feed_bytes=4096)
    both = replace(fed, block_shapes=((128, 128), (32, 32)))
    # 1024 x 1024 x 256: 256 blocks of 64 x 64 take max(64 x 128, 4096) = 8192 cycles and 64
    # fills; of 128 x 128, 64 blocks, 16 turns of 512 and 16 fills
    assert contraction_cycles(fed, 1024, 1024, 256, 1, 1, DType.F16) == 64 * 128 + 64 * 100
    assert contraction_cycles(both, 1024, 1024, 256, 1, 1, DType.F16) == 16 * 512 + 16 * 100
    # 64 x 128: two blocks of 64 x 64 leave half the instances idle: 128 and a fill; eight of
    # 32 x 32 take two turns of 32, and two fills
    assert contraction_cycles(fed, 64, 128, 256, 1, 1, DType.F16) == 128 + 100
    small = replace(both, fill_cycles=10)
    assert contraction_cycles(small, 64, 128, 256, 1, 1, DType.F16) == 2 * 32 + 2 * 10


def test_a_long_product_of_few_blocks_is_split() -> None:
    fed = replace(core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100), operand_feed_bytes=4096)
    split = replace(fed, max_split_k=4)
    # one block of depth 8192 takes 4,096 cycles on one of four instances, and reads 512 of feed;
    # four parts take 1,024 cycles, 100 of fill, then 2 x 4 x 64 x 64 sums of 4 bytes are 32
    # cycles of feed, and the second kernel fills again
    assert contraction_cycles(fed, 64, 64, 8192, 1, 1, DType.F16) == 4096 + 100
    assert contraction_cycles(split, 64, 64, 8192, 1, 1, DType.F16) == 1024 + 100 + 32 + 100
    # a short one isn't split
    assert contraction_cycles(split, 64, 64, 64, 1, 1, DType.F16) == 32 + 100


def test_few_blocks_work_on_one_group_at_once() -> None:
    gpu = core(Dataflow.BLOCKED, 64, 64, instances=4, fill=100)
    few = replace(gpu, group_blocks=2)
    # 3 groups of 8 blocks of depth 256, 128 cycles each. All: 24 blocks, 6 turns. Two of a group
    # at once: 6 at a time, 2 turns, 4 times over.
    assert contraction_cycles(gpu, 64, 512, 256, 3, 1, DType.F16) == 6 * 128 + 6 * 100
    assert contraction_cycles(few, 64, 512, 256, 3, 1, DType.F16) == 2 * 4 * 128 + 6 * 100
    # neither one product nor a grouped convolution is held back
    assert contraction_cycles(few, 64, 512, 256, 1, 1, DType.F16) == 2 * 128 + 2 * 100
    assert contraction_cycles(few, 64, 512, 9 * 256, 3, 9, DType.F16) == 6 * 9 * 128 + 6 * 100


def test_efficiency_stretches_what_comes_out() -> None:
    array = replace(core(Dataflow.WEIGHT_STATIONARY, 4, 8), efficiency_permille={DType.F16: 800})
    assert contraction_cycles(array, 10, 20, 30, 1, 1, DType.F16) == ceil(575 / 0.8)
    assert contraction_cycles(array, 10, 20, 30, 1, 1, DType.F32) == 2 * 575


def test_a_stride_off_the_alignment_drives_half_of_the_lanes() -> None:
    plain = core(Dataflow.WEIGHT_STATIONARY, 4, 8)
    lanes = replace(plain, lanes=4, lane_alignment_bytes=64, misaligned_lanes=2)
    assert driven_cycles(lanes, 575, (64, 640)) == 575
    assert driven_cycles(lanes, 575, (64, 96)) == 2 * 575
    assert driven_cycles(lanes, 575, ()) == 575
    assert driven_cycles(replace(lanes, misaligned_lanes=3), 575, (1,)) == ceil(575 * 4 / 3)
    assert driven_cycles(plain, 575, (1,)) == 575


def test_a_head_of_attention_stays_on_the_multiprocessor_that_has_it() -> None:
    plain = replace(core(Dataflow.BLOCKED, 64, 64, instances=8), fill_cycles=0)
    by_head = replace(plain, group_blocks=1)
    rate = plain.macs_per_cycle[DType.F16]
    block = ceil(64 * 64 * 32 * 8 / rate)
    # 4 heads of 3 x 3 blocks: 36 blocks in 5 waves; or 9 one after the other on each of 4 SMs.
    assert contraction_cycles(plain, 192, 192, 32, 4, 1, DType.F16) == 5 * block
    assert contraction_cycles(by_head, 192, 192, 32, 4, 1, DType.F16) == 9 * block
    assert contraction_cycles(by_head, 192, 192, 32, 1, 1, DType.F16) == 2 * block


def test_a_strided_input_is_put_together_first() -> None:
    plain = core(Dataflow.DOT_PRODUCT, 1, 16, depth=8)
    neighbours = replace(plain, strided_input_bytes=8, image_channels=4)
    assert gathered_cycles(neighbours, 100, 32, (2, 2), 1001) == 100 + 126
    assert gathered_cycles(neighbours, 100, 32, (1, 1), 1001) == 100
    assert gathered_cycles(neighbours, 100, 3, (2, 2), 1001) == 100
    assert gathered_cycles(plain, 100, 32, (2, 2), 1001) == 100


def test_depthwise_mode_is_used_where_it_is_faster() -> None:
    plain = core(Dataflow.DOT_PRODUCT, 1, 16, depth=8)
    with_mode = replace(plain, depthwise_macs_per_cycle=32)
    # 50 pixels x 9 taps x 64 channels
    assert contraction_cycles(plain, 50, 1, 9, 64, 9, DType.F16) == 50 * 9 * 64
    assert contraction_cycles(with_mode, 50, 1, 9, 64, 9, DType.F16) == 50 * 9 * 64 // 32
    assert contraction_cycles(with_mode, 50, 1, 9, 64, 9, DType.F32) == 50 * 9 * 64 // 16
    # two channels of input to each output is no depthwise
    assert contraction_cycles(with_mode, 50, 1, 18, 64, 9, DType.F16) == 50 * 9 * 64
    # and a mode slower than the array is left alone
    slow = replace(core(Dataflow.DOT_PRODUCT, 4, 1, depth=1), depthwise_macs_per_cycle=1)
    assert contraction_cycles(slow, 8, 1, 9, 4, 9, DType.F16) == 2 * 9 * 4


def test_no_work_costs_a_cycle_and_nonsense_is_refused() -> None:
    array = core(Dataflow.WEIGHT_STATIONARY, 4, 8)
    assert contraction_cycles(array, 0, 20, 30, 1, 1, DType.F16) == 1
    with pytest.raises(ValueError, match=r"no contraction: m=-1 n=1 k=1 groups=1 taps=1"):
        contraction_cycles(array, -1, 1, 1, 1, 1, DType.F16)
    with pytest.raises(ValueError, match=r"taps=0"):
        contraction_cycles(array, 1, 1, 1, 1, 0, DType.F16)
    with pytest.raises(ValueError, match="the tensor core doesn't multiply bf16"):
        contraction_cycles(array, 1, 1, 1, 1, 1, DType.BF16)


def test_enormous_work_does_not_overflow() -> None:
    array = core(Dataflow.WEIGHT_STATIONARY, 4, 8)
    side = 2**40
    folds = (side // 4) * (side // 8)
    assert contraction_cycles(array, side, side, side, 1, 1, DType.F16) == folds * (14 + side) - 1


CORES = [
    core(Dataflow.OUTPUT_STATIONARY, 1, 1),
    core(Dataflow.OUTPUT_STATIONARY, 16, 16),
    core(Dataflow.WEIGHT_STATIONARY, 16, 8, instances=3, depthwise=16),
    core(Dataflow.INPUT_STATIONARY, 7, 5, fill=3),
    core(Dataflow.DOT_PRODUCT, 4, 16, depth=8, instances=2, fill=32, depthwise=64),
    core(Dataflow.DOT_PRODUCT, 1, 3, depth=1),
    replace(core(Dataflow.DOT_PRODUCT, 4, 16, depth=8, instances=3), weight_load_cycles=8),
    core(Dataflow.BLOCKED, 64, 64, instances=40, fill=500, depthwise=256),
    replace(
        core(Dataflow.BLOCKED, 64, 64, instances=7, fill=50),
        block_shapes=((128, 256), (16, 16)),
        operand_feed_bytes=100,
        max_split_k=16,
        blocks_per_instance=3,
    ),
    replace(core(Dataflow.BLOCKED, 64, 64, instances=7, fill=50), group_blocks=3),
    replace(core(Dataflow.DOT_PRODUCT, 1, 16, depth=8), image_channels=4),
    replace(
        core(Dataflow.OUTPUT_STATIONARY, 8, 8),
        efficiency_permille={DType.F16: 333, DType.I8: 1},
    ),
]
EXTENT = st.integers(1, 5000)


@given(
    st.sampled_from(CORES),
    EXTENT,
    EXTENT,
    st.integers(1, 300),
    st.integers(1, 64),
    st.integers(1, 49),
    st.sampled_from([DType.F16, DType.I8, DType.F32]),
    st.sampled_from("mnkg"),
    st.integers(1, 3000),
)
def test_never_below_peak_and_never_less_for_more(
    array: TensorCore,
    m: int,
    n: int,
    channels: int,
    groups: int,
    taps: int,
    dtype: DType,
    grown: str,
    by: int,
) -> None:
    k = channels * taps
    cycles = contraction_cycles(array, m, n, k, groups, taps, dtype)
    assert cycles * array.macs_per_cycle[dtype] >= m * n * k * groups
    more = {"m": m, "n": n, "k": k, "g": groups}
    more[grown] += by
    assert contraction_cycles(array, more["m"], more["n"], more["k"], more["g"], taps, dtype) >= (
        cycles
    )


@given(
    st.sampled_from(CORES), st.integers(1, 100), st.integers(1, 200), st.sampled_from([1, 9, 25])
)
def test_depthwise_grows_with_n_and_k_too(
    array: TensorCore, m: int, groups: int, taps: int
) -> None:
    depthwise = contraction_cycles(array, m, 1, taps, groups, taps, DType.F16)
    assert contraction_cycles(array, m, 2, taps, groups, taps, DType.F16) >= depthwise
    assert contraction_cycles(array, m, 1, 2 * taps, groups, taps, DType.F16) >= depthwise
    assert depthwise * array.macs_per_cycle[DType.F16] >= m * groups * taps
