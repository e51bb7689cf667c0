"""Every number of a hardware spec has a source: the `sources` table must cover them all.

A key of the table is a key path or the beginning of one (`thermal.trips` covers all that is in
it); the longest one that fits counts.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from stages.hardware.document import Document, KeyPath, Value, path_text
from stages.hardware.refusals import Refusal

_IDENTITY = frozenset({"schema", "name", "chip", "vendor", "firmware", "version", "compiler"})
_NUMBER = re.compile(r"[+-]?[0-9]")


def uncovered(document: Document, keys: frozenset[str]) -> Iterator[Refusal]:
    """Numbers without a source, and sources without a number."""
    for key_path, value in document.leaves():
        if key_path[0] == "sources":
            continue
        covering = covering_key(key_path, keys)
        if covering is None and _needs_source(key_path, value):
            text = path_text(key_path)
            yield Refusal(
                key_path,
                f"{value!r} has no source",
                f"add `{text}: {{mark: inferred, source: ...}}` to sources"
                " (marks: published, recalled, inferred, fitted)",
            )
    for key in covers_nothing(document, keys):
        yield Refusal(
            ("sources", key), "covers nothing", "a key path such as `thermal.trips`; or remove it"
        )


def covers_nothing(document: Document, keys: frozenset[str]) -> list[str]:
    """The keys of `sources`, sorted, that are the longest fit of no value."""
    used = {
        covering_key(key_path, keys)
        for key_path, _ in document.leaves()
        if key_path[0] != "sources"
    }
    return sorted(keys - used)


def covering_key(key_path: KeyPath, keys: Container[str]) -> str | None:
    """The longest of the keys that is the path or a beginning of it; None where none is."""
    covering = [prefix for prefix in _prefixes(key_path) if prefix in keys]
    return covering[-1] if covering else None


def _needs_source(key_path: KeyPath, value: Value) -> bool:
    """Whether a scalar is a number that claims something about the device."""
    if key_path[0] in _IDENTITY or isinstance(value, bool):
        return False
    if isinstance(value, str):
        return _NUMBER.match(value) is not None
    return value is not None


def _prefixes(key_path: KeyPath) -> Iterator[str]:
    """The texts of a key path's beginnings, from the shortest."""
    for length in range(1, len(key_path) + 1):
        yield path_text(key_path[:length])
