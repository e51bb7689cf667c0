"""The machine on which a package was compiled.

"Same inputs give the same bytes" holds for everything that a package's hash covers. How many
threads the machine had, how busy it was and how much of a CPU the compile got differ from run to
run, and help when a compile was slow or a figure looks odd, so they lie in a file of their own,
`compile_environment.json`: no digest covers it, and a package without it is whole.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass

STARVED_SHARE = 0.5
"""Of a CPU: a compile is one thread that hardly waits, so less means that others held the CPU."""
_SHORT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CompileEnvironment:
    """Threads that the process could use, and the machine's load (runnable processes, the mean
    over the last minute; None where the system doesn't tell). `cpu_seconds` and `wall_seconds` are
    what the compile took, up to the writing of the package (0 where nobody measured), and
    `code_sha256` is the digest of the code that decided (empty where nobody asked)."""

    thread_count: int
    machine_load: float | None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    code_sha256: str = ""

    @property
    def cpu_share(self) -> float | None:
        """Seconds of CPU time in a second of wall time; None where nobody measured."""
        return self.cpu_seconds / self.wall_seconds if self.wall_seconds else None

    @property
    def starved(self) -> str:
        """How far the compile was short of CPU time; empty where it wasn't, or was too short to
        tell."""
        share = self.cpu_share
        if share is None or share >= STARVED_SHARE or self.wall_seconds < _SHORT_SECONDS:
            return ""
        load = "" if self.machine_load is None else f", load {self.machine_load}"
        return (
            f"the compile got {share:.0%} of a CPU: {self.cpu_seconds:.1f} s in "
            f"{self.wall_seconds:.1f} s ({self.thread_count} threads{load}); "
            "its times say nothing, the package is the same"
        )


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """CPU and wall time of this process when something began, in seconds."""

    cpu: float
    wall: float

    @classmethod
    def start(cls) -> Stopwatch:
        """From now on."""
        return cls(time.process_time(), time.perf_counter())


def observe_environment(
    watch: Stopwatch | None = None, code_sha256: str = ""
) -> CompileEnvironment:
    """The machine as it is now, and what was taken since a stopwatch was started."""
    available = getattr(os, "sched_getaffinity", None)
    threads = len(available(0)) if available is not None else os.cpu_count() or 1
    try:
        load: float | None = round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        load = None
    if watch is None:
        return CompileEnvironment(threads, load, code_sha256=code_sha256)
    cpu, wall = time.process_time() - watch.cpu, time.perf_counter() - watch.wall
    return CompileEnvironment(threads, load, round(cpu, 3), round(wall, 3), code_sha256)


def print_environment(environment: CompileEnvironment) -> str:
    """The text of `compile_environment.json`."""
    share = environment.cpu_share
    document = {
        "thread_count": environment.thread_count,
        "machine_load": environment.machine_load,
        "cpu_seconds": environment.cpu_seconds,
        "wall_seconds": environment.wall_seconds,
        "cpu_share": None if share is None else round(share, 3),
        "code_sha256": environment.code_sha256,
        "note": "facts of the machine at compile time; not part of the package's hash",
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def code_of(text: str) -> str:
    """The digest of the code that decided, in the text of a `compile_environment.json`; empty where
    it doesn't say."""
    try:
        document = json.loads(text)
    except ValueError:
        return ""
    found = document.get("code_sha256") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""
