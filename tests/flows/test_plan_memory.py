"""`recipe plan-memory`: an exit code for each outcome, and a whole table or none."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from flows.cli import call
from stages.errors import Outcome
from tests.memory_planner.cases import FRAGMENTED, Row

HEADER = "id,lower,upper,size\n"


def table(folder: Path, rows: tuple[Row, ...]) -> Path:
    path = folder / "buffers.csv"
    lines = [f"b{place},{row[0]},{row[1]},{row[2]}\n" for place, row in enumerate(rows)]
    path.write_text(HEADER + "".join(lines))
    return path


def plan(path: Path, capacity: int, *more: str) -> Outcome | int:
    out = str(path.parent / "out.csv")
    return call(["plan-memory", str(path), "--capacity", str(capacity), "--out", out, *more])


def test_offsets_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(table(tmp_path, FRAGMENTED), 6) == Outcome.PASSED
    assert "7 buffers in 6 of 6 B, 1.200 of the most bytes live at once" in capsys.readouterr().out
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [f"b{place}" for place in range(7)]
    assert all(int(row["offset"]) + int(row["size"]) <= 6 for row in rows)


@pytest.mark.parametrize(
    ("capacity", "more", "outcome", "words"),
    [
        (4, (), Outcome.COMPILE_REFUSED, "at instant 3, 2 buffers of 5 B are live"),
        (5, (), Outcome.COMPILE_REFUSED, "no placement of 7 buffers fits"),
        (5, ("--steps", "2"), Outcome.UNDECIDED, "no answer within 2 steps"),
    ],
)
def test_no_offsets_no_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    capacity: int,
    more: tuple[str, ...],
    outcome: Outcome,
    words: str,
) -> None:
    path = table(tmp_path, FRAGMENTED)
    assert plan(path, capacity, *more) == outcome
    assert words in capsys.readouterr().err
    assert [item.name for item in tmp_path.iterdir()] == ["buffers.csv"]


def test_what_can_t_be_read_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "buffers.csv"
    assert plan(path, 4) == Outcome.BAD_INPUT
    path.write_bytes(b"\xff\xfe\x00id")
    assert plan(path, 4) == Outcome.BAD_INPUT
    path.write_text('id,lower,upper,size\n"a\n')
    assert plan(path, 4) == Outcome.BAD_INPUT
    assert capsys.readouterr().err.count("hint:") == 3
