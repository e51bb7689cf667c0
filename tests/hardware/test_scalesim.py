"""Systolic arrays against SCALE-Sim 3.0.0's compute cycles, and its formulas with other numbers.

The arrays come out of spec files, as a user's would. The rows are kept in `measurements/scalesim`;
where the whole reference lies beside a checkout, they are held against it.
"""

from __future__ import annotations

import csv
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.hardware.cost import contraction_cycles
from stages.hardware.load import load_spec
from stages.hardware.spec import Dataflow, TensorCore
from stages.tensors import DType
from stages.units import ceil_div
from tests.hardware.specs import ROOT, write_edited

KEPT = ROOT / "measurements" / "scalesim" / "compute_cycles.csv"
REFERENCE = ROOT.parent / "shared" / "data" / "scalesim_reference.csv"
DATAFLOWS = {
    "os": Dataflow.OUTPUT_STATIONARY,
    "ws": Dataflow.WEIGHT_STATIONARY,
    "is": Dataflow.INPUT_STATIONARY,
}
ARRAYS = ((8, 32), (16, 16), (32, 32), (64, 16), (128, 128))
Row = dict[str, str]


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, int], TensorCore]:
    """A tensor core for each dataflow and array, read from a spec file."""
    found = {}
    for (word, dataflow), (rows, cols) in product(DATAFLOWS.items(), ARRAYS):
        path = write_edited(
            tmp_path_factory.mktemp("spec"),
            ("dataflow: weight_stationary", f"dataflow: {dataflow}"),
            ("rows: 16, cols: 16", f"rows: {rows}, cols: {cols}"),
            ("{i8: 256, u8: 256, f16: 128}", f"{{i8: {rows * cols}, f16: {rows * cols}}}"),
            ("depthwise_macs_per_cycle: 32", "depthwise_macs_per_cycle: 0"),
        )
        found[word, rows, cols] = load_spec(path).tensor_core
    return found


@cache
def finished_rows() -> tuple[Row, ...]:
    """The layers that SCALE-Sim finished."""
    with KEPT.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def shape_of(row: Row) -> tuple[int, int, int, int]:
    """m, n, k and taps: of a convolution from its geometry, as SCALE-Sim lays it out."""
    if not row["filt_h"]:
        return int(row["M"]), int(row["N"]), int(row["K"]), 1
    height, width, kernel_h, kernel_w, channels, filters, stride = (
        int(float(row[name]))
        for name in ("ifmap_h", "ifmap_w", "filt_h", "filt_w", "channels", "filters", "stride")
    )
    pixels = ceil_div(height - kernel_h + stride, stride) * ceil_div(
        width - kernel_w + stride, stride
    )
    taps = kernel_h * kernel_w
    return pixels, filters, taps * channels, taps


def test_no_difference_on_any_finished_row(
    cores: dict[tuple[str, int, int], TensorCore],
) -> None:
    differences = {}
    for number, row in enumerate(finished_rows()):
        m, n, k, taps = shape_of(row)
        assert (m, n, k) == (int(row["M"]), int(row["N"]), int(row["K"]))
        core = cores[row["dataflow"], int(row["array_rows"]), int(row["array_cols"])]
        cycles = contraction_cycles(core, m, n, k, 1, taps, DType.I8)
        if cycles != int(row["compute_cycles"]):
            differences[number] = (row["layer"], cycles, row["compute_cycles"])
    assert differences == {}


@pytest.mark.skipif(not REFERENCE.is_file(), reason="no reference data beside this checkout")
def test_the_rows_that_are_kept_are_the_references() -> None:
    with REFERENCE.open(encoding="utf-8", newline="") as file:
        whole = [row for row in csv.DictReader(file) if row["status"] == "ok"]
    assert len(whole) == len(finished_rows())
    for kept, row in zip(finished_rows(), whole, strict=True):
        for name, value in kept.items():
            same = value == row[name] or float(value) == float(row[name])
            assert same, (kept, name)


def test_the_rows_are_whole() -> None:
    rows = finished_rows()
    assert len(rows) == 288
    arrays = {(row["dataflow"], int(row["array_rows"]), int(row["array_cols"])) for row in rows}
    assert {(rows_, cols) for _, rows_, cols in arrays} == set(ARRAYS)
    assert {dataflow for dataflow, _, _ in arrays} == set(DATAFLOWS)
    kinds = {bool(row["filt_h"]) for row in rows}
    assert kinds == {True, False}


@pytest.mark.parametrize(
    ("dataflow", "rows", "cols", "cycles"),
    [
        # M = 100, N = 50, K = 70.
        # 16 x 16: os ceil(100/16) * ceil(50/16) = 28 folds of 16+16+70-2 = 100
        ("os", 16, 16, 28 * 100 - 1),
        # ws ceil(70/16) * ceil(50/16) = 20 folds of 32+16+100-2 = 146
        ("ws", 16, 16, 20 * 146 - 1),
        # is ceil(70/16) * ceil(100/16) = 35 folds of 32+16+50-2 = 96
        ("is", 16, 16, 35 * 96 - 1),
        # 8 x 32: os 13 * 2 = 26 folds of 108; ws 9 * 2 = 18 of 146; is 9 * 4 = 36 of 96
        ("os", 8, 32, 26 * 108 - 1),
        ("ws", 8, 32, 18 * 146 - 1),
        ("is", 8, 32, 36 * 96 - 1),
        # 64 x 16: os 2 * 4 = 8 folds of 148; ws 2 * 4 = 8 of 242; is 2 * 7 = 14 of 192
        ("os", 64, 16, 8 * 148 - 1),
        ("ws", 64, 16, 8 * 242 - 1),
        ("is", 64, 16, 14 * 192 - 1),
        # 128 x 128: one fold: os 324; ws and is one fold of 384+100-2 and 384+50-2
        ("os", 128, 128, 324 - 1),
        ("ws", 128, 128, 482 - 1),
        ("is", 128, 128, 432 - 1),
    ],
)
def test_formulas_by_hand(
    cores: dict[tuple[str, int, int], TensorCore], dataflow: str, rows: int, cols: int, cycles: int
) -> None:
    core = cores[dataflow, rows, cols]
    assert contraction_cycles(core, 100, 50, 70, 1, 1, DType.I8) == cycles


def stepped_fold(dataflow: str, rows: int, cols: int, streamed: int) -> int:
    """Cycles of one full fold, found by walking the wavefront: what stays is shifted in a row a
    cycle, operands enter skewed by one cycle a row, and each result leaves at the far edge."""
    preload = 0 if dataflow == "os" else rows
    last = 0
    for row, col in ((0, 0), (rows - 1, cols - 1)):
        for step in (0, streamed - 1):
            last = max(last, preload + step + row + col)
    return last + 1


@given(
    st.sampled_from(sorted(DATAFLOWS)),
    st.sampled_from(ARRAYS),
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(1, 300),
)
def test_folds_are_the_wavefront_of_the_array(
    cores: dict[tuple[str, int, int], TensorCore],
    dataflow: str,
    array: tuple[int, int],
    m: int,
    n: int,
    k: int,
) -> None:
    rows, cols = array
    held, streamed = {"os": ((m, n), k), "ws": ((k, n), m), "is": ((k, m), n)}[dataflow]
    folds = ceil_div(held[0], rows) * ceil_div(held[1], cols)
    expected = folds * (stepped_fold(dataflow, rows, cols, streamed)) - 1
    core = cores[dataflow, rows, cols]
    assert contraction_cycles(core, m, n, k, 1, 1, DType.I8) == expected
