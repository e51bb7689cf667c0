"""What Google's "Trace Event Format" asks of a file, and what Perfetto asks besides.

From the document linked from chrome://tracing: the JSON object form, complete events ("X"),
metadata ("M"), counters ("C") and flows ("s", "f"); from Perfetto's notes on importing that JSON:
complete events of a thread nest or lie apart (here they lie apart), a flow binds to the slice
that encloses its time, so there must be one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from typing import Any

Event = dict[str, Any]
Thread = tuple[int, int]
PHASES = frozenset("XMCsf")
METADATA = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def faults(text: str) -> list[str]:
    """Everything in a trace file that breaks a rule."""

    def not_json(word: str) -> None:
        raise ValueError(f"{word} isn't JSON")

    try:
        content = json.loads(text, parse_constant=not_json)
    except ValueError as error:
        return [str(error)]
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        return ["no object with a list of traceEvents"]
    events: list[Event] = content["traceEvents"]
    found = list(_form(events))
    if content.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    if not found:
        found = [*_names(events), *_slices(events), *_counters(events), *_flows(events)]
    return found


def _form(events: list[Event]) -> Iterator[str]:
    for number, event in enumerate(events):
        if event.get("ph") not in PHASES:
            yield f"event {number}: phase {event.get('ph')!r}"
        elif not isinstance(event.get("name"), str) or not event["name"]:
            yield f"event {number}: no name"
        elif type(event.get("pid")) is not int or type(event.get("tid")) is not int:
            yield f"event {number}: pid and tid aren't whole numbers"
        elif event["ph"] != "M" and not _is_time(event.get("ts")):
            yield f"event {number}: ts {event.get('ts')!r}"
        elif event["ph"] == "X" and not _is_time(event.get("dur")):
            yield f"event {number}: dur {event.get('dur')!r}"
        elif not isinstance(event.get("args", {}), dict):
            yield f"event {number}: args aren't an object"


def _is_time(value: object) -> bool:
    """Microseconds, not negative, on a whole nanosecond."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return False
    return value >= 0 and abs(value * 1000 - round(value * 1000)) < 1e-3


def _nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def _names(events: list[Event]) -> Iterator[str]:
    """Every process and thread that has events has one name and one place in the order."""
    said: dict[tuple[str, int, int], object] = {}
    for event in events:
        if event["ph"] != "M":
            continue
        word, form = METADATA.get(event["name"], ("", object))
        value = event.get("args", {}).get(word)
        if not word or type(value) is not form:
            yield f"metadata {event['name']}: {event.get('args')}"
        key = (event["name"], event["pid"], 0 if "process" in event["name"] else event["tid"])
        if key in said:
            yield f"{key} is said twice"
        said[key] = value
    for event in events:
        place = (event["pid"], event["tid"])
        if event["ph"] in "Xsf" and ("thread_name", *place) not in said:
            yield f"thread {place} has no name"
        if ("process_name", event["pid"], 0) not in said:
            yield f"process {event['pid']} has no name"


def _slices(events: list[Event]) -> Iterator[str]:
    for thread, spans in _by_thread(events).items():
        for (_, end, name), (start, _, other) in pairwise(spans):
            if start < end:
                yield f"{name!r} and {other!r} overlap on {thread}"


def _by_thread(events: list[Event]) -> dict[Thread, list[tuple[int, int, str]]]:
    spans: dict[Thread, list[tuple[int, int, str]]] = {}
    for event in events:
        if event["ph"] == "X":
            start = _nanoseconds(event["ts"])
            end = start + _nanoseconds(event["dur"])
            spans.setdefault((event["pid"], event["tid"]), []).append((start, end, event["name"]))
    return {thread: sorted(items) for thread, items in spans.items()}


def _counters(events: list[Event]) -> Iterator[str]:
    last: dict[tuple[int, str], float] = {}
    for event in events:
        if event["ph"] != "C":
            continue
        values = event.get("args", {}).values()
        if not values or not all(
            isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
            for value in values
        ):
            yield f"counter {event['name']}: {event.get('args')}"
        series = (event["pid"], event["name"])
        if event["ts"] < last.get(series, 0):
            yield f"counter {event['name']} goes back in time at {event['ts']}"
        last[series] = event["ts"]


def _flows(events: list[Event]) -> Iterator[str]:
    """Each arrow has a start, then an end, both within a slice of their thread."""
    spans = _by_thread(events)
    begun: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event["ph"] in "sf":
            begun.setdefault((event.get("cat", ""), str(event.get("id"))), []).append(event)
    for (_, name), ends in begun.items():
        if "".join(end["ph"] for end in ends) != "sf":
            yield f"arrow {name} has the ends {[end['ph'] for end in ends]}"
        elif ends[0]["ts"] > ends[1]["ts"]:
            yield f"arrow {name} goes back in time"
        elif ends[1].get("bp") != "e":
            yield f"arrow {name} ends at the next slice, not at the one around it"
        for end in ends:
            at = _nanoseconds(end["ts"])
            mine = spans.get((end["pid"], end["tid"]), [])
            if not any(start <= at <= stop for start, stop, _ in mine):
                yield f"arrow {name} ends in no slice"
