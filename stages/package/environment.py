"""The machine on which a package was compiled.

"Same inputs give the same bytes" holds for everything that a package's hash covers. How many
threads the machine had and how busy it was differ from run to run, and help when a compile was slow
or a figure looks odd, so they lie in a file of their own, `compile_environment.json`: no digest
covers it, nothing reads it to decide anything, and a package without it is whole.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompileEnvironment:
    """Threads that the process could use, and the machine's load (runnable processes, the mean
    over the last minute; None where the system doesn't tell)."""

    thread_count: int
    machine_load: float | None


def observe_environment() -> CompileEnvironment:
    """The machine as it is now."""
    available = getattr(os, "sched_getaffinity", None)
    threads = len(available(0)) if available is not None else os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return CompileEnvironment(threads, None)
    return CompileEnvironment(threads, round(load, 2))


def print_environment(environment: CompileEnvironment) -> str:
    """The text of `compile_environment.json`."""
    document = {
        "thread_count": environment.thread_count,
        "machine_load": environment.machine_load,
        "note": "facts of the machine at compile time; not part of the package's hash",
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
