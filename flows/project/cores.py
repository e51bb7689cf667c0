"""How many stages may run side by side."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores that this process may use: a container or `taskset` may leave it fewer."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available is not None else os.cpu_count() or 1
