"""Names of what a plan has beside the recipe's values and operators.

A model may call its values as it likes, so none of the names that are made up here may be one of
theirs: two things of one name would share an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLACES = re.compile(r"/(?=(operand\d+|result|accumulator|rows)\.\d)|(?=\.weights(\.\d+)?$)")
"""Where the name of a place ends that of its group: slots, rows of a cascade, packed constants."""


def place_stems(groups: Iterable[str], values: Iterable[str]) -> dict[str, str]:
    """For each group what the names of its places begin with: its own name, unless a value of the
    model is called as one of those places is."""
    used = {value[: match.start()] for value in values for match in _PLACES.finditer(value)}
    names = {*groups}
    stems: dict[str, str] = {}
    for name in sorted(names):
        stem = name
        while stem in used or (stem != name and stem in names):
            stem += "_"
        stems[name] = stem
        used.add(stem)
    return stems
