"""Names are shown as they are."""

from __future__ import annotations

import io

from rich.console import Console

from flows.terminal.text_table import make_table, plain_cells


def test_a_name_brings_neither_markup_nor_control_characters() -> None:
    table = make_table("[bold]t[/bold]", "a")
    table.add_row(*plain_cells("[red]x[/red] :smile:\x1b[2J"))
    stream = io.StringIO()
    Console(file=stream, width=80, force_terminal=False).print(table)
    shown = stream.getvalue()
    assert "[bold]t[/bold]" in shown
    assert "[red]x[/red] :smile:\\x1b[2J" in shown
    assert "\x1b" not in shown
