"""Reports as files: the same facts give the same bytes, and what is read back is checked."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from stages.errors import InputError

METRICS_FILE = "metrics.json"
"""A stage's few figures beside its report, flat, for tools that make a column of each key."""

Metrics = Mapping[str, int | float | str | None]
Report = TypeVar("Report")


def report_text(facts: Mapping[str, object]) -> str:
    """JSON with sorted keys; refuses numbers that JSON doesn't know.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(facts, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def metrics_text(figures: Metrics) -> str:
    """The figures that there are (None: there is none) as flat JSON; floats with six decimals.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    known = {key: value for key, value in figures.items() if value is not None}
    return report_text(
        {
            key: round(value, 6) if isinstance(value, float) else value
            for key, value in known.items()
        }
    )


def table_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV (RFC 4180, but with plain line ends): cells with a comma or a quote are quoted."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def read_report(path: Path, kind: type[Report], command: str) -> Report:
    """A JSON file as a dataclass; keys that it doesn't have are skipped.

    Raises:
        InputError: the file is missing, isn't JSON, or lacks a key; the hint names `command`, which
            writes it anew.
    """
    hint = f"run `recipe {command}` again"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"the report can't be read: {error.strerror}", where=str(path), hint=hint
        ) from error
    try:
        return cast(Report, _reader(cast(Any, kind)).validate_json(content, strict=True))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the report"
        raise InputError(f"{key}: {first['msg'].lower()}", where=str(path), hint=hint) from error


@cache
def _reader(kind: type[Any]) -> TypeAdapter[Any]:
    """Making one costs more than all that it reads."""
    return TypeAdapter(kind)
