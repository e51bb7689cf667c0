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
    ("kinds", "element_bytes", "cycles"),
    [
        ((), 1, 400),
        (("relu",), 1, 400),
        (("silu", "quantize"), 1, 1800),
        (("silu",), 2, 3600),
        ((), 0, 300),
    ],
)
def test_the_slower_of_product_and_drain_counts(
    kinds: tuple[str, ...], element_bytes: int, cycles: int
) -> None:
    assert drained_cycles(CORE, 300, 100, kinds, element_bytes) == cycles


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
