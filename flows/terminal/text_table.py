"""Tables whose cells are plain text: no name can bring markup or control characters in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.terminal.outcomes import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def make_table(title: str, *columns: str) -> Table:
    """An empty table with these columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def plain_cells(*cells: str) -> list[Text]:
    """Cells of a row."""
    from rich.text import Text

    return [Text(printable(cell)) for cell in cells]
