"""Problems and solutions as CSV, in the columns of MiniMalloc's benchmarks."""

from __future__ import annotations

import csv
import io

from stages.errors import InputError
from stages.memory_planner.problem import Buffer, Problem
from stages.memory_planner.solution import Solution

_COLUMNS = ("id", "lower", "upper", "size")
_OPTIONAL = ("alignment", "offset")


def parse_problem(text: str, capacity_bytes: int, where: str) -> Problem:
    """A problem from a table with the columns id, lower, upper and size (bytes; lifetimes are
    half-open), and perhaps alignment and offset (fixed; an empty cell leaves it free).

    Raises:
        InputError: a column is missing or unknown, a row has too few or too many cells, a cell is
            no whole number, or the buffers themselves are wrong.
    """
    rows = csv.reader(io.StringIO(text))
    header = tuple(cell.strip() for cell in next(rows, []))
    missing = [name for name in _COLUMNS if name not in header]
    unknown = [name for name in header if name not in (*_COLUMNS, *_OPTIONAL)]
    if missing or unknown or len(set(header)) < len(header):
        raise InputError(
            f"the header must name {','.join(_COLUMNS)}, not {','.join(header) or 'nothing'}",
            where=f"{where}:1",
            hint=f"columns {' and '.join(_OPTIONAL)} may be added; no column may come twice",
        )
    buffers = []
    for row in rows:
        if row:
            buffers.append(_buffer(header, row, f"{where}:{rows.line_num}"))
    return Problem(tuple(buffers), capacity_bytes)


def print_solution(problem: Problem, solution: Solution) -> str:
    """The table id,lower,upper,size,offset, a row a buffer in the problem's order."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*_COLUMNS, "offset"))
    for item in problem.buffers:
        offset = solution.offsets[item.name]
        writer.writerow((item.name, item.lower, item.upper, item.size_bytes, offset))
    return out.getvalue()


def _buffer(header: tuple[str, ...], row: list[str], where: str) -> Buffer:
    if len(row) != len(header):
        raise InputError(
            f"{len(row)} cells under {len(header)} columns",
            where=where,
            hint=f"give each row the cells {','.join(header)}",
        )
    cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
    lower, upper, size = (_whole(cells[name], name, where) for name in _COLUMNS[1:])
    alignment = cells.get("alignment") or "1"
    offset = cells.get("offset")
    try:
        return Buffer(
            cells["id"],
            lower,
            upper,
            size,
            _whole(alignment, "alignment", where),
            _whole(offset, "offset", where) if offset else None,
        )
    except InputError as error:
        if error.where == where:
            raise
        raise InputError(error.problem, where=where, hint=error.hint) from error


def _whole(cell: str, column: str, where: str) -> int:
    try:
        return int(cell)
    except ValueError as error:
        raise InputError(
            f"{column} must be a whole number, not {cell!r}",
            where=where,
            hint="sizes are bytes; lifetimes are whole instants, half-open",
        ) from error
