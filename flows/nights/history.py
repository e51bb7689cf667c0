"""The history of the nights: one CSV file that only grows, a row for each pair and night.

A file is replaced whole, under a lock: whoever is killed, or finds the disk full, leaves the old
one as it was. What is read is checked; a last line that was cut off is put aside and told of.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from flows.locks.file_lock import silent_lock
from flows.project.files import replaced
from stages.comparison.nights import Figure, PairNight
from stages.comparison.stage_names import STAGES
from stages.errors import InputError, Outcome

_RATIOS = {"p99_over_p50": Figure.TAIL, "hot_p99_over_p50": Figure.HOT_TAIL}
"""Columns for readers of the file; they follow from others, and aren't read back."""
COLUMNS = (
    "night",
    "started",
    "seed",
    "commit",
    "model",
    "hardware",
    "outcome",
    *STAGES,
    "hardware_digest",
    "runs",
    "package",
    "p50_ns",
    "p99_ns",
    "p99_over_p50",
    "hot_p50_ns",
    "hot_p99_ns",
    "hot_p99_over_p50",
    "peak_sram_bytes",
    "peak_ddr_bytes",
    "fallbacks",
    "sqnr_db",
    "reason",
)
"""The header; docs/nightly.md says what each holds."""
_OPTIONAL = {field.name for field in fields(PairNight) if field.default is None}
_ROW = TypeAdapter(PairNight)
_LONGEST_REASON = 300
_MARK = "new-"
"""What is on its way into a file's place has it in its name."""


@dataclass(frozen=True, slots=True)
class History:
    """The rows, oldest first; `mended` says what was wrong with the file's end, if anything."""

    rows: tuple[PairNight, ...]
    mended: str = ""


def history_file(root: Path) -> Path:
    """Where a project keeps its nights."""
    return root / "history" / "nights.csv"


def read_history(path: Path) -> History:
    """All rows; none where there is no file. A last line that was cut off is left out.

    Raises:
        InputError: the file can't be read, its header isn't ours, or a line is damaged.
    """
    text, tail = _whole_lines(_read(path))
    return History(_parse(text, path), _about_tail(tail, path) if tail else "")


def append_nights(path: Path, rows: Sequence[PairNight]) -> History:
    """Appends rows; gives the history that they were appended to.

    A last line that was cut off is moved to a file beside, `nights.csv.damaged`.

    Raises:
        InputError: the history is damaged, or can't be written; it is as it was then.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            text, tail = _whole_lines(_read(path))
            before = _parse(text, path)
            if tail:
                with path.with_name(f"{path.name}.damaged").open("a", encoding="utf-8") as stream:
                    stream.write(tail + "\n")
            old = text if text.partition("\n")[0] == ",".join(COLUMNS) else print_nights(before)
            _replace(path, old + _lines(rows))
    except OSError as error:
        raise InputError(
            f"the history can't be written: {error.strerror}",
            where=str(path),
            hint="it is as it was before; free some space or let the folder be written, then run "
            "`recipe flow nightly` again with the same --seed: all results are cached",
        ) from error
    return History(before, _about_tail(tail, path) if tail else "")


def write_summary(root: Path, name: str, text: str) -> Path:
    """Writes a night's summary to history/nights, as NAME.md; an empty name means that it is worth
    no file of its own. latest.md is the newest in any case. Gives the file.

    Raises:
        OSError: it can't be written.
    """
    folder = history_file(root).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.md" for stem in ("latest", name) if stem]
    for path in paths:
        _replace(path, text)
    return paths[-1]


def print_nights(rows: Sequence[PairNight]) -> str:
    """The file that holds these rows."""
    return ",".join(COLUMNS) + "\n" + _lines(rows)


def _lines(rows: Sequence[PairNight]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writerows(_cells(row) for row in rows)
    return stream.getvalue()


def _cells(row: PairNight) -> dict[str, object]:
    cells: dict[str, object] = {name: getattr(row, name, "") for name in COLUMNS}
    cells |= dict(zip(STAGES, row.verdicts, strict=True))
    for name, figure in _RATIOS.items():
        ratio = row.value(figure)
        cells[name] = "" if ratio is None else f"{float(ratio):.4f}"
    shown = "".join(character if character.isprintable() else " " for character in row.reason)
    cells |= {"outcome": row.outcome.name, "reason": " ".join(shown.split())[:_LONGEST_REASON]}
    return {name: "" if cell is None else cell for name, cell in cells.items()}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the history can't be read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            hint="restore it from a copy; or move it aside, and a new one begins",
        ) from error


def _whole_lines(text: str) -> tuple[str, str]:
    """The text up to its last line end, and what follows."""
    end = text.rfind("\n") + 1
    return text[:end], text[end:]


def _about_tail(tail: str, path: Path) -> str:
    return (
        f"{path}: its last line was cut off after {len(tail)} characters and is left out "
        f"({tail[:40]!r}); a night that appends moves it to {path.name}.damaged"
    )


def _parse(text: str, path: Path) -> tuple[PairNight, ...]:
    if not text:
        return ()
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        _check_header(reader.fieldnames or (), path)
        return tuple(_row(cells, reader.line_num, path) for cells in reader)
    except csv.Error as error:
        raise _damaged(str(error), reader.line_num, path) from error


def _check_header(header: Sequence[str], path: Path) -> None:
    unknown = [name for name in header if name not in COLUMNS]
    needed = {field.name for field in fields(PairNight)} - _OPTIONAL - {"verdicts"}
    missing = sorted((needed | set(STAGES)) - set(header))
    problem = f"unknown columns {unknown}" if unknown else f"no columns {missing}"
    if unknown or missing:
        raise InputError(
            f"this isn't a history of nights that this version knows: {problem}",
            where=f"{path}, line 1",
            hint="another version wrote it; move it aside, and a new one begins",
        )


def _row(cells: Mapping[str | Any, str | Any], line: int, path: Path) -> PairNight:
    if None in cells or None in cells.values():
        raise _damaged(f"not {len(COLUMNS)} cells", line, path)
    content: dict[str, object] = {
        name: cell
        for name, cell in cells.items()
        if name not in STAGES and name not in _RATIOS and not (name in _OPTIONAL and cell == "")
    }
    try:
        content["outcome"] = Outcome[cells["outcome"]]
        content["verdicts"] = tuple(cells[stage] for stage in STAGES)
        return _ROW.validate_python(content)
    except KeyError as error:
        raise _damaged(f"no outcome is called {error}", line, path) from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise _damaged(f"{key} = {first['input']!r}: {first['msg'].lower()}", line, path) from error


def _damaged(problem: str, line: int, path: Path) -> InputError:
    return InputError(
        f"the history is damaged: {problem}",
        where=f"{path}, line {line}",
        hint="mend or delete that line, or restore the file from a copy",
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with silent_lock(path.with_name(f".{path.name}.lock")):
        for left in path.parent.glob(f".{path.name}.{_MARK}*"):  # by a writer that was killed
            left.unlink(missing_ok=True)
        yield


def _replace(path: Path, text: str) -> None:
    """Puts the text in the file's place, on the disk for good before it is seen."""
    with replaced(path, _MARK) as beside, beside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
