"""Runs the commands of dvc.yaml: those of ours in forked processes, others in a shell."""

from __future__ import annotations

import filecmp
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flows.project.places import ROOT_VARIABLE
from flows.running.guardian import Guardian
from flows.running.slots import Slots
from flows.running.stage_process import StageProcesses, how_it_died
from flows.steps.stage_calls import StageFailure
from stages.errors import Outcome

_SHELL_SIGNS = re.compile(r"[^\w\s./@:,+=-]")
_CODE = ("flows", "stages")
_OUR_ROOT = Path(__file__).resolve().parents[2]
_GRACE_SECONDS = 15.0
_SHELL_KILLED = 128  # and the signal's number is a shell's exit code where its command was killed


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended: its exit code, and what it printed. `seconds` is wall time; `died` names
    the signal that ended it."""

    exit_code: int
    output: str
    seconds: float
    died: str = ""


class StageCommands:
    """Runs at most `jobs` commands at a time in folders of one code. For many threads.

    `lock` is the descriptor of a lock that the next run waits for; it is free once no command of
    ours runs, even where we were killed.
    """

    def __init__(self, jobs: int, root: Path, lock: int | None = None) -> None:
        self._processes = StageProcesses(jobs)
        self._slots = Slots(jobs)
        self._guardian = Guardian(lock)
        self._root = root
        self._is_ours = has_our_code(root)
        self._lock = threading.Lock()
        self._shells: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def place(self, urgency: tuple[int, ...]) -> AbstractContextManager[None]:
        """Waits for a free place, and holds it meanwhile; of what waits, that of the smallest
        `urgency` is next. Run commands, and save what they made, with a place."""
        return self._slots.taken(urgency)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is started any more."""
        return self._stopped

    def run(
        self, commands: Sequence[str], folder: Path, on_start: Callable[[], None]
    ) -> CommandEnd:
        """Runs the commands in the folder one after the other until one fails, and waits for their
        end.

        A command `recipe ...` runs in a forked process that has imported the stages already,
        provided that the code in the folder is the code that runs here.
        """
        ends: list[CommandEnd] = []
        for command in commands:
            ends.append(self._run(command, folder, on_start if not ends else _nothing))
            if ends[-1].exit_code != 0:
                break
        output = "".join(end.output for end in ends)
        seconds = sum(end.seconds for end in ends)
        return CommandEnd(ends[-1].exit_code, output, seconds, ends[-1].died)

    def _run(self, command: str, folder: Path, on_start: Callable[[], None]) -> CommandEnd:
        arguments = recipe_arguments(command) if self._is_ours else None
        if arguments is None:
            return self._shell(command, folder, on_start)
        end = self._processes.run(partial(run_recipe, arguments, str(folder)), on_start)
        if isinstance(end, StageFailure):
            output = end.details or f"error: {end.message}"
            return CommandEnd(int(end.outcome), output, 0.0, end.signal)
        return end

    def stop(self) -> None:
        """Interrupts what runs, lets it clean up, and starts nothing more."""
        with self._lock:
            self._stopped = True
            shells = list(self._shells)
        for process in shells:
            _signal_group(process, signal.SIGTERM)
        self._processes.stop()
        for process in shells:
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
        self._guardian.close()

    def _shell(self, command: str, folder: Path, on_start: Callable[[], None]) -> CommandEnd:
        began = time.perf_counter()
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self._stopped:
                    return CommandEnd(int(Outcome.INTERRUPTED), "error: interrupted", 0.0)
                self._guardian.open()
                process = subprocess.Popen(
                    _shell_arguments(command),
                    cwd=folder,
                    env=_environment(self._root),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # so that what the shell starts ends with it
                )
                self._shells.add(process)
            self._guardian.began(process.pid)
            on_start()
            code = process.wait()
            self._guardian.ended(process.pid)
            with self._lock:
                self._shells.discard(process)
            output.seek(0)
            text = output.read().decode(errors="replace")
        signal_number = _signal_of(code)
        if self._stopped or signal_number == signal.SIGINT:
            code, text, signal_number = int(Outcome.INTERRUPTED), "error: interrupted", 0
        died = how_it_died(-signal_number) if signal_number else ""
        return CommandEnd(code, text, time.perf_counter() - began, died)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signals a command and all that it started, unless it has just ended."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def recipe_arguments(command: str) -> tuple[str, ...] | None:
    """The arguments of a plain `recipe ...` command; None where a shell must read it."""
    if _SHELL_SIGNS.search(command):
        return None
    program, *arguments = shlex.split(command) or [""]
    return tuple(arguments) if program == "recipe" else None


def run_recipe(arguments: tuple[str, ...], folder: str) -> CommandEnd:
    """Runs a `recipe` command in this process, which is one of its own, and takes what it says."""
    os.chdir(folder)
    os.environ.pop(ROOT_VARIABLE, None)  # this folder is the project, whatever was said outside
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(output.fileno(), stream.fileno())
        code = _run_as_main(arguments)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        output.seek(0)
        text = output.read().decode(errors="replace")
    return CommandEnd(code, text, time.perf_counter() - began)


def _run_as_main(arguments: tuple[str, ...]) -> int:
    """As `python -m flows` would: what lies below the command line can't import it."""
    sys.argv = ["recipe", *arguments]
    try:
        runpy.run_module("flows", run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return int(Outcome.INTERNAL_ERROR)


def has_our_code(root: Path) -> bool:
    """Whether the code in a folder is the code that runs here, or it has none of its own."""
    if root.resolve() == _OUR_ROOT or not (root / "stages").is_dir():
        return True
    return all(_same_files(root / name, _OUR_ROOT / name) for name in _CODE)


def _same_files(one: Path, other: Path) -> bool:
    names = [
        sorted(path.relative_to(folder) for path in folder.rglob("*.py")) for folder in (one, other)
    ]
    if names[0] != names[1]:
        return False
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names[0])


def _signal_of(exit_code: int) -> int:
    """The signal that killed a shell, or else its last command, or 0."""
    number = -exit_code if exit_code < 0 else exit_code - _SHELL_KILLED
    return number if number in set(signal.Signals) else 0


def _shell_arguments(command: str) -> list[str]:
    """The user's shell without the user's settings, as DVC runs commands."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    bare = {"bash": ("--noprofile", "--norc"), "zsh": ("--no-rcs",)}
    return [shell, *bare.get(Path(shell).name, ()), "-c", command]


def _nothing() -> None:
    """Told of a second command's start: the step runs already."""


def _environment(root: Path) -> dict[str, str]:
    """Ours, with this interpreter's `recipe` first, which finds the code of `root` first."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    environment = {**os.environ, "PATH": os.pathsep.join(paths)}
    if (root / "stages").is_dir():
        environment["PYTHONPATH"] = str(root.resolve())
    environment.pop(ROOT_VARIABLE, None)
    return environment
