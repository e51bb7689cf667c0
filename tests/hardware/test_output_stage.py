"""The output stage of a tensor core and its image mode, by hand-computed cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stages.hardware.contraction import contraction_cycles, drained_cycles, output_blocks
from stages.hardware.load import load_spec
from stages.tensors import DType
from tests.hardware.specs import SPECS

CORE = replace(
    load_spec(SPECS / "rk3588_npu.yaml").tensor_core,
    cols=32,
    depth=32,
    fill_cycles=0,
    weight_load_cycles=0,
    efficiency_permille={},
    default_output_cycles=4,
    output_cycles_by_kind={"silu": 18},
    image_channels=4,
)


@pytest.mark.parametrize(
    ("kinds", "result", "cycles"),
    [
        ((), DType.I8, 400),
        (("relu",), DType.I8, 400),
        (("silu", "quantize"), DType.I8, 1800),
        (("silu",), DType.F16, 3600),
        (("silu",), DType.F32, 300),
    ],
)
def test_the_slower_of_product_and_drain_counts(
    kinds: tuple[str, ...], result: DType, cycles: int
) -> None:
    assert drained_cycles(CORE, 300, 100, kinds, result) == cycles


def test_a_kind_may_take_longer_in_one_type_than_its_bytes_say() -> None:
    """In bytes 3 cycles for 32 of them, in halves 5; of a type that isn't named, the most."""
    core = replace(CORE, output_cycles_by_type={"add": {DType.I8: 3, DType.F16: 5}})
    assert drained_cycles(core, 0, 100, ["add"], DType.I8) == 400, "others take 4"
    core = replace(core, default_output_cycles=0)
    assert drained_cycles(core, 0, 100, ["add"], DType.I8) == 300
    assert drained_cycles(core, 0, 100, ["add"], DType.F16) == 1000
    assert drained_cycles(core, 0, 100, ["add"], DType.U8) == 500
    assert drained_cycles(core, 0, 100, ["add", "silu"], DType.I8) == 1800


def test_results_drain_in_blocks_of_columns() -> None:
    assert output_blocks(CORE, m=10, n=33, groups=1) == 20
    assert output_blocks(CORE, m=10, n=3, groups=1) == 10
    assert output_blocks(CORE, m=10, n=1, groups=64) == 20
    assert output_blocks(CORE, m=10, n=8, groups=4) == 40


def test_the_taps_of_an_image_lie_side_by_side() -> None:
    """3 x 3 taps of 3 channels: a row of 9 elements fits the depth of 32, so 3 steps a pixel; of
    5 channels each tap is a step."""
    assert contraction_cycles(CORE, 100, 32, 27, 1, 9, DType.I8) == 300
    assert contraction_cycles(CORE, 100, 32, 45, 1, 9, DType.I8) == 900
    assert contraction_cycles(CORE, 100, 32, 108, 1, 36, DType.I8) == 600
