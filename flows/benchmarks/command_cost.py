"""What one `recipe` command costs, run as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_KIB_PER_MIB = 1024
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


@dataclass(frozen=True, slots=True)
class CommandCost:
    """CPU time, user and system, and peak memory: Python's start and imports included."""

    exit_code: int
    cpu_seconds: float
    peak_mib: int


def run_recipe(*arguments: str | Path) -> CommandCost:
    """Runs `recipe --quiet` with these arguments, however it ends.

    Python keeps the bytecode of what it imports, as it does for every installed program, whatever
    this process was told: a command that compiles all modules anew is no user's.
    """
    command = [sys.executable, "-m", "flows", "--quiet", *map(str, arguments)]
    told = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=told)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return CommandCost(
        process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // _KIB_PER_MIB
    )
