"""Operators that a vector unit has if it has what they are made of, one pass behind the other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from stages.hardware.spec import OperatorSupport

COMPOSITIONS: Mapping[str, tuple[str, ...]] = {
    "softmax_numerator": ("reduce_max", "sub", "exp"),
}
"""What each is made of. The passes work on rows that lie in the SRAM."""


def with_compositions(listed: Mapping[str, OperatorSupport]) -> dict[str, OperatorSupport]:
    """An operator list and those that it implies: in the types that all parts take, within the
    limits of all of them. What is listed itself stays as it is."""
    found = dict(listed)
    for kind, parts in COMPOSITIONS.items():
        entries = [listed[part] for part in parts if part in listed]
        whole = len(entries) == len(parts) and all(item.engine == "vector" for item in entries)
        if whole and kind not in listed:
            found[kind] = reduce(_both, entries)
    return found


def composed_cycles(cycles_by_kind: Mapping[str, int], default_cycles: int) -> dict[str, int]:
    """The cycles of one vector of each kind; those of a composition are its parts' together,
    where it has none of its own."""
    composed = {
        kind: sum(cycles_by_kind.get(part, default_cycles) for part in parts)
        for kind, parts in COMPOSITIONS.items()
    }
    return {**composed, **cycles_by_kind}


def _both(one: OperatorSupport, other: OperatorSupport) -> OperatorSupport:
    limits = dict(one.limits)
    for name, (low, high) in other.limits.items():
        least, most = limits.get(name, (low, high))
        limits[name] = (max(low, least), min(high, most))
    return OperatorSupport(
        one.engine,
        one.dtypes & other.dtypes,
        limits,
        one.constant_dtypes & other.constant_dtypes,
    )
