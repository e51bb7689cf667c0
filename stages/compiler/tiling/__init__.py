"""Tiles: which part of each operand a part of a result needs, and how large to cut."""
