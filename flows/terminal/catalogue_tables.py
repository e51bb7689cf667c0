"""The tables of known devices and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.terminal.text_table import make_table, plain_cells

if TYPE_CHECKING:
    from rich.table import Table

    from stages.hardware.summary import SpecRow
    from stages.normalizer.registry_entry import RegistryEntry


def hardware_table(rows: Sequence[SpecRow]) -> Table:
    """One row a device."""
    table = make_table("", "name", "chip", "clock", "sram", "peak", "types")
    for row in rows:
        table.add_row(*plain_cells(*row.cells()))
    return table


def models_table(entries: Sequence[RegistryEntry]) -> Table:
    """One row a model."""
    table = make_table("", "name", "what", "licence", "from", "bindings")
    for entry in entries:
        bindings = " ".join(f"{axis}={extent}" for axis, extent in entry.bindings.items())
        table.add_row(
            *plain_cells(entry.name, entry.description, entry.licence, entry.origin, bindings)
        )
    return table
