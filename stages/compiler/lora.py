"""What to do with low-rank branches beside a product."""

from collections.abc import Iterable
from enum import StrEnum

NOTED = "LoRA branch"
"""How a recipe's notes about them begin."""


class Lora(StrEnum):
    """Keep branches as the model has them, or merge them into the weights that they adapt."""

    KEEP = "keep"
    MERGE = "merge"


def lora_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Of a recipe's notes, those about low-rank branches."""
    return tuple(note for note in notes if note.startswith(NOTED))
