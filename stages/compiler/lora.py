"""What to do with low-rank branches beside a product."""

from enum import StrEnum


class Lora(StrEnum):
    """Keep branches as the model has them, or merge them into the weights that they adapt."""

    KEEP = "keep"
    MERGE = "merge"
