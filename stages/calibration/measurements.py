"""The door for measured latencies: a CSV file, checked row by row.

    model,precision,batch,latency_ms,statistic,source,used
    yolov5s,int8,1,20.661,mean,vendor's table,fit

`model`, `precision` and one latency column (`latency_ms`, `latency_us` or `latency_ns`) are
needed; `batch` is 1 where it isn't given. `used` says which rows a fit sees (`fit`) and which only
judge it (`judge`), in all rows or in none: without it, the rows of each precision, sorted by
model, take turns, and the first is for the fit.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from stages.errors import InputError
from stages.hardware.vocabulary import did_you_mean

_Word = TypeVar("_Word", bound=StrEnum)

_LATENCY = {"latency_ns": 1, "latency_us": 1_000, "latency_ms": 1_000_000}
_TEXTS = ("batch", "statistic", "source", "used")
_COLUMNS = ("model", "precision", *_LATENCY, *_TEXTS)
_MAX_FILE_BYTES = 10_000_000
_LONGEST_NS = 3_600_000_000_000


class Precision(StrEnum):
    """What the measured network computed in."""

    FP16 = "fp16"
    INT8 = "int8"
    W8A16 = "w8a16"  # 8-bit weights, 16-bit activations


class Use(StrEnum):
    """What a row is for."""

    FIT = "fit"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured latency; `line` is that of the file."""

    model: str
    precision: Precision
    batch: int
    latency_ns: float
    statistic: str
    source: str
    use: Use
    line: int


@dataclass(frozen=True, slots=True)
class Measurements:
    """The rows of a file, in its order."""

    path: Path
    sha256: str
    rows: tuple[Measurement, ...]

    def where(self, row: Measurement) -> str:
        """`file:line` of a row."""
        return f"{self.path}:{row.line}"


def read_measurements(path: Path) -> Measurements:
    """Read a file of measurements.

    Raises:
        InputError: the file can't be read, a column is unknown, missing or without a unit, a cell
            isn't what it should be, a row stands there twice, or only some rows say what they
            are used for. The message names file and line.
    """
    content = _read_bytes(path)
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        table = [(lines.line_num, cells) for cells in lines if any(cell.strip() for cell in cells)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"the measurements aren't CSV: {error}",
            where=str(path),
            hint="save it as comma-separated values, UTF-8",
        ) from error
    if not table:
        raise InputError("the file of measurements is empty", where=str(path), hint=_HEADER_HINT)
    (_, header), *body = table
    columns = _columns(header, path)
    if not body:
        raise InputError("a header and no row", where=str(path), hint="add a row a measurement")
    given: dict[int, Use | None] = {}
    rows = [_row(cells, line, columns, path, given) for line, cells in body]
    _refuse_twins(rows, path)
    return Measurements(path, hashlib.sha256(content).hexdigest(), _with_uses(rows, given, path))


_HEADER_HINT = "begin with the columns: model,precision,batch,latency_ms,statistic,source,used"


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"the measurements can't be read: {error.strerror or error}",
            where=str(path),
            hint="give `--measurements` the path of a CSV file",
        ) from error
    if len(content) > _MAX_FILE_BYTES:
        raise InputError(f"the file is larger than {_MAX_FILE_BYTES:,} bytes", where=str(path))
    return content


def _columns(header: Sequence[str], path: Path) -> Mapping[str, int]:
    """The index of each column.

    Raises:
        InputError: one is unknown, twice, missing, or a latency without a unit.
    """
    where = f"{path}:1"
    columns: dict[str, int] = {}
    for index, name in enumerate(cell.strip() for cell in header):
        if name in columns:
            raise InputError(f"column {name!r} stands there twice", where=where, hint="remove one")
        if name not in _COLUMNS:
            raise InputError(f"unknown column {name!r}", where=where, hint=_column_hint(name))
        columns[name] = index
    for name in ("model", "precision"):
        if name not in columns:
            raise InputError(f"no column {name!r}", where=where, hint=_HEADER_HINT)
    latencies = [name for name in _LATENCY if name in columns]
    if len(latencies) != 1:
        problem = "no latency column" if not latencies else f"two latencies: {latencies}"
        raise InputError(problem, where=where, hint=f"give one of {', '.join(_LATENCY)}")
    return columns


def _column_hint(name: str) -> str:
    if name.startswith("latency") or name in ("ms", "us", "ns"):
        return f"say the unit in the column's name: one of {', '.join(_LATENCY)}"
    return did_you_mean(name, _COLUMNS)


def _row(
    cells: Sequence[str],
    line: int,
    columns: Mapping[str, int],
    path: Path,
    given: dict[int, Use | None],
) -> Measurement:
    where = f"{path}:{line}"
    if len(cells) != len(columns):
        raise InputError(
            f"{len(cells)} cells under {len(columns)} columns",
            where=where,
            hint="quote a cell that holds a comma",
        )
    texts = {name: cells[index].strip() for name, index in columns.items()}
    if not texts["model"]:
        raise InputError("no model", where=where, hint="name a model or the path of an .onnx file")
    unit = next(name for name in _LATENCY if name in columns)
    used = texts.get("used", "")
    given[line] = _word(Use, used, "used", where) if used else None
    return Measurement(
        model=texts["model"],
        precision=_word(Precision, texts["precision"], "precision", where),
        batch=_batch(texts.get("batch") or "1", where),
        latency_ns=_latency_ns(texts[unit], unit, where),
        statistic=texts.get("statistic", ""),
        source=texts.get("source", ""),
        use=Use.FIT,
        line=line,
    )


def _word(kind: type[_Word], text: str, column: str, where: str) -> _Word:
    try:
        return kind(text)
    except ValueError as error:
        words = [str(word) for word in kind]
        problem = f"{text!r} is an unknown {column}" if text else f"no {column}"
        raise InputError(problem, where=where, hint=did_you_mean(text, words)) from error


def _batch(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise InputError(
            f"the batch must be a whole number from 1 up, not {text!r}", where=where, hint="write 1"
        )
    return int(text)


def _latency_ns(text: str, unit: str, where: str) -> float:
    hint = f"write a positive number of {unit.removeprefix('latency_')}, such as 2.219"
    try:
        latency_ns = float(text) * _LATENCY[unit]
    except ValueError as error:
        raise InputError(f"{unit}: {text!r} isn't a number", where=where, hint=hint) from error
    if not math.isfinite(latency_ns):
        raise InputError(f"{unit}: {text!r} isn't a finite number", where=where, hint=hint)
    if latency_ns <= 0:
        raise InputError(f"{unit}: {text} isn't more than zero", where=where, hint=hint)
    if not 1 <= latency_ns <= _LONGEST_NS:
        raise InputError(
            f"{unit}: {text} is no inference's latency: less than 1 ns, or more than an hour",
            where=where,
            hint="check the column's unit",
        )
    return latency_ns


def _refuse_twins(rows: Sequence[Measurement], path: Path) -> None:
    seen: dict[tuple[str, Precision, int], int] = {}
    for row in rows:
        key = (row.model, row.precision, row.batch)
        if key in seen:
            raise InputError(
                f"{row.model} in {row.precision} at batch {row.batch} was measured on line "
                f"{seen[key]} already",
                where=f"{path}:{row.line}",
                hint="keep one of the rows, or their mean",
            )
        seen[key] = row.line


def _with_uses(
    rows: Sequence[Measurement], given: Mapping[int, Use | None], path: Path
) -> tuple[Measurement, ...]:
    """The rows with what each is for, as the file says or by turns.

    Raises:
        InputError: only some rows say it.
    """
    silent = [line for line, use in given.items() if use is None]
    if not silent:
        return tuple(replace(row, use=given[row.line] or Use.FIT) for row in rows)
    if len(silent) < len(rows):
        raise InputError(
            "`used` says nothing here, and does in other rows",
            where=f"{path}:{silent[0]}",
            hint="write `fit` or `judge` in every row, or in none",
        )
    turns = by_turns([(row.model, row.precision) for row in rows])
    return tuple(replace(row, use=use) for row, use in zip(rows, turns, strict=True))


def by_turns(rows: Sequence[tuple[str, str]]) -> list[Use]:
    """The held-out rule: within each precision, sorted by model, rows are for the fit and for the
    judgement by turns, the first for the fit."""
    uses = [Use.FIT] * len(rows)
    for precision in {precision for _, precision in rows}:
        indices = [index for index, row in enumerate(rows) if row[1] == precision]
        for turn, index in enumerate(sorted(indices, key=lambda index: rows[index][0])):
            uses[index] = Use.JUDGE if turn % 2 else Use.FIT
    return uses
