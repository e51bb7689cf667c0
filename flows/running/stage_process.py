"""Runs each stage in a process of its own, so many at a time.

Python runs one thread at a time, and compiling is Python; a process also keeps a crash, its memory
and Ctrl-C to one stage. A server process that has imported the stages forks the others, which
costs milliseconds where starting Python costs seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import FrameType
from typing import TypeVar, cast

from flows.project.cores import usable_cores
from flows.running.interrupts import comes_of_interrupt
from flows.steps.stage_calls import StageFailure
from stages.errors import Outcome, RecipeError

_Result = TypeVar("_Result")

_PRELOADED = ["flows.cli", "flows.steps.stage_calls", "flows.running.preloaded"]
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GRACE_SECONDS = 15.0


class StageProcesses:
    """At most `jobs` stages at a time. `run` may be called from many threads."""

    def __init__(self, jobs: int) -> None:
        self._free = threading.Semaphore(jobs)
        self._lock = threading.Lock()
        self._running: set[ForkServerProcess] = set()
        self._stopped = False
        self._context = _make_context(jobs)

    def run(
        self, call: Callable[[], _Result], on_start: Callable[[], None]
    ) -> _Result | StageFailure:
        """What the call gave or why it failed; waits for a free place, then for the result."""
        with self._free:
            receiver, sender = self._context.Pipe(duplex=False)
            process = self._context.Process(target=_serve, args=(call, sender))
            with self._lock:
                if self._stopped:
                    return _interrupted()
                process.start()
                self._running.add(process)
            sender.close()
            on_start()
            try:
                return self._answer(process, receiver)
            finally:
                receiver.close()
                process.join()
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """Interrupts what runs, lets it clean up, and starts nothing more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            process.join(_GRACE_SECONDS)
            process.kill()

    def _answer(self, process: ForkServerProcess, receiver: Connection) -> _Result | StageFailure:
        try:
            return cast("_Result", receiver.recv())
        except EOFError:
            process.join()
            if self._stopped:
                return _interrupted()
            return StageFailure(
                Outcome.INTERNAL_ERROR,
                f"the stage's process died ({how_it_died(process.exitcode)})",
                "no traceback: the process was killed, or crashed in native code",
                how_it_died(process.exitcode),
            )


def _interrupted() -> StageFailure:
    return StageFailure(Outcome.INTERRUPTED, "interrupted")


def how_it_died(exit_code: int | None) -> str:
    """Names the signal where the code is a signal's number, negated."""
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        return f"{name}, perhaps out of memory" if name == "SIGKILL" else name
    return f"exit code {exit_code}"


def _make_context(jobs: int) -> ForkServerContext:
    """The forking server inherits the environment: it shares the cores among the jobs there."""
    threads = max(1, usable_cores() // jobs)
    for variable in _THREAD_VARIABLES:
        os.environ.setdefault(variable, str(threads))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _serve(call: Callable[[], object], sender: Connection) -> None:
    """The life of a stage's process: run the call, send what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and tells us
    signal.signal(signal.SIGTERM, _raise_interrupt)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        sender.send(_attempt(call))
    except KeyboardInterrupt:
        os._exit(int(Outcome.INTERRUPTED))
    finally:
        sender.close()


def _attempt(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        if comes_of_interrupt(error):
            raise KeyboardInterrupt from error
        if isinstance(error, RecipeError):
            return StageFailure(error.outcome, str(error))
        summary = f"{type(error).__name__}: {error}"
        return StageFailure(
            Outcome.INTERNAL_ERROR, summary, "".join(traceback.format_exception(error))
        )


def _raise_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
