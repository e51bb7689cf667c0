"""The door for measurements: what is read, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.calibration.measurements import (
    Precision,
    Use,
    by_turns,
    read_measurements,
)
from stages.errors import InputError

HEADER = "model,precision,batch,latency_ms,statistic,source,used\n"
FOLDER = Path(__file__).resolve().parents[2] / "measurements"


def write(folder: Path, text: str) -> Path:
    path = folder / "m.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_with_its_units_and_uses(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        HEADER + 'b,int8,1,2.5,mean,"a, quoted source",judge\n\na.onnx,fp16,2,0.5,P90,,fit\n',
    )
    first, second = read_measurements(path).rows
    assert (first.model, first.precision, first.batch) == ("b", Precision.INT8, 1)
    assert first.latency_ns == 2_500_000
    assert (first.source, first.use, first.line) == ("a, quoted source", Use.JUDGE, 2)
    assert (second.model, second.batch, second.use, second.line) == ("a.onnx", 2, Use.FIT, 4)


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1), ("us", 1000), ("ms", 1_000_000)])
def test_the_column_says_the_unit(tmp_path: Path, unit: str, factor: int) -> None:
    path = write(tmp_path, f"model,precision,latency_{unit}\nx,fp16,7.5\n")
    (row,) = read_measurements(path).rows
    assert row.latency_ns == 7.5 * factor
    assert (row.batch, row.use) == (1, Use.FIT)


def test_without_uses_rows_take_turns_within_a_precision() -> None:
    rows = [("c", "int8"), ("a", "int8"), ("z", "fp16"), ("b", "int8"), ("y", "fp16")]
    assert by_turns(rows) == [Use.FIT, Use.FIT, Use.JUDGE, Use.JUDGE, Use.FIT]


@pytest.mark.parametrize(
    ("text", "problem", "line", "hint"),
    [
        ("", "is empty", 0, "begin with"),
        (HEADER, "a header and no row", 0, "add a row"),
        ("model,precision,latency\nx,fp16,1\n", "unknown column 'latency'", 1, "say the unit"),
        ("model,precision,latency_s\nx,fp16,1\n", "unknown column 'latency_s'", 1, "latency_ns"),
        ("modell,precision,latency_ms\n", "unknown column 'modell'", 1, "did you mean `model`"),
        ("model,latency_ms\nx,1\n", "no column 'precision'", 1, "begin with"),
        ("model,precision\nx,fp16\n", "no latency column", 1, "latency_us"),
        ("model,precision,latency_ms,latency_us\n", "two latencies", 1, "one of"),
        ("model,model,precision,latency_ms\n", "stands there twice", 1, "remove one"),
        (HEADER + "x,int8,1,nan,,,\n", "'nan' isn't a finite number", 2, "positive number of ms"),
        (HEADER + "x,int8,1,inf,,,\n", "'inf' isn't a finite number", 2, "positive"),
        (HEADER + "x,int8,1,0,,,\n", "0 isn't more than zero", 2, "positive"),
        (HEADER + "x,int8,1,-3,,,\n", "-3 isn't more than zero", 2, "positive"),
        (HEADER + "x,int8,1,3 ms,,,\n", "'3 ms' isn't a number", 2, "positive number of ms"),
        (HEADER + "x,int8,1,1e9,,,\n", "no inference's latency", 2, "check the column's unit"),
        (HEADER + "x,int9,1,1,,,\n", "'int9' is an unknown precision", 2, "did you mean `int8`"),
        (HEADER + "x,,1,1,,,\n", "no precision", 2, "known"),
        (HEADER + ",int8,1,1,,,\n", "no model", 2, ".onnx"),
        (HEADER + "x,int8,0,1,,,\n", "the batch must be", 2, "write 1"),
        (HEADER + "x,int8,1.5,1,,,\n", "the batch must be", 2, "write 1"),
        (HEADER + "x,int8,1,1,,,maybe\n", "'maybe' is an unknown used", 2, "known: fit, judge"),
        (HEADER + "x,int8,1,1,a,b,fit,c\n", "8 cells under 7 columns", 2, "quote a cell"),
        (HEADER + "x,int8,1,1,,,\nx,int8,1,2,,,\n", "was measured on line 2", 3, "their mean"),
        (HEADER + "x,int8,1,1,,,fit\ny,int8,1,2,,,\n", "`used` says nothing", 3, "every row"),
        (HEADER + '"x,int8,1,1,,,\n', "aren't CSV", 0, "comma-separated"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, problem: str, line: int, hint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_measurements(path)
    assert problem in refused.value.problem
    assert refused.value.where == (f"{path}:{line}" if line else str(path))
    assert hint in refused.value.hint


def test_a_missing_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_measurements(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00model")
    with pytest.raises(InputError, match="aren't CSV"):
        read_measurements(tmp_path / "binary.csv")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_the_projects_measurements_are_split_by_the_rule(path: Path) -> None:
    rows = read_measurements(path).rows
    assert all(row.source and row.statistic and row.batch == 1 for row in rows)
    uses = [row.use for row in rows]
    if "-" in path.stem:
        assert set(uses) == {Use.JUDGE}
    else:
        assert uses == by_turns([(row.model, row.precision) for row in rows])
