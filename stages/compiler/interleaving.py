"""How far layers may run into each other: an option of a compile, `--cascades`."""

from __future__ import annotations

from enum import StrEnum


class Interleaving(StrEnum):
    """What of a layer may run before the layer before it has ended; each allows more than the one
    before. The values are what `--cascades` takes."""

    NOTHING = "layer-by-layer"
    """Each layer waits for the end of the one before it, as vendors' compilers work."""
    LOADS = "off"
    """Layers keep their order, and what they load runs ahead as far as the memory lets it."""
    CASCADES = "on"
    """Besides, several layers may take turns, stripe by stripe or woven step by step, where the
    whole plan gains."""
