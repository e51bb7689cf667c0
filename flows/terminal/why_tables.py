"""What was weighed for an operator: a paragraph and a table for each question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flows.terminal.outcomes import printable
from flows.terminal.text_table import make_table, plain_cells
from stages.units import format_ns

if TYPE_CHECKING:
    from rich.table import Table

    from stages.hardware.spec import HardwareSpec
    from stages.recipe.explanation import Weighed


def why_lines(item: Weighed) -> Iterator[str]:
    """The question, the answer and what decided."""
    yield printable(f"{item.question}: {item.chosen}  ({item.subject or 'the whole recipe'})")
    yield printable(f"  {item.bound}")


def why_table(item: Weighed, spec: HardwareSpec | None) -> Table:
    """The alternatives with their costs; without microseconds where no spec tells the clock."""
    table = make_table("", "alternative", "cycles", "time", "remark")
    for one in item.alternatives:
        name = f"{one.name}  <- chosen" if one.name == item.chosen else one.name
        cycles = "-" if one.cost_cycles is None else f"{one.cost_cycles:,}"
        table.add_row(*plain_cells(name, cycles, _time(one.cost_cycles, spec), one.remark))
    return table


def named(items: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(printable(item) for item in items)


def _time(cycles: int | None, spec: HardwareSpec | None) -> str:
    from stages.hardware.clock import cycles_to_nanoseconds

    if cycles is None or spec is None:
        return "-"
    return format_ns(cycles_to_nanoseconds(spec, cycles))
