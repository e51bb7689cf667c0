"""The flow engine's own server: started for a run, shared by runs at the same time, then ended.

Nobody has to set a server up: where PREFECT_API_URL is unset, a run starts one as a process beside
it, at a free port of the loopback address. Its database lies in the project's cache and persists.
Runs hold a shared lock while they use it; the last one to leave ends it. A run that was killed
leaves it running; the next run finds it in server.json, uses it, and ends it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from flows.locks.file_lock import silent_lock
from flows.project.places import CACHE_VARIABLE
from stages.errors import InputError, RecipeError

API_VARIABLE = "PREFECT_API_URL"
_TIMEOUT_SECONDS = 180.0
_POLL_SECONDS = 0.05
_END_SECONDS = 10.0
_CLOCK_SECONDS = 2.0  # a start is reckoned from the boot, and clocks are set
_SERVER_ERRORS = 500
_QUIET = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_CLI_PROMPT": "false",
}
_SERVER_ONLY = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
}


@dataclass(frozen=True, slots=True)
class _Record:
    """server.json: the port of the server in this home, and its process, known by when it began."""

    pid: int
    started: float
    port: int

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"


class FlowServerError(RecipeError):
    """The server doesn't start, or died: nothing that the input could mend."""


class FlowServer:
    """A server that runs, or is about to."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._users: IO[str] | None = None
        self._record: _Record | None = None
        self._users_url = ""

    @property
    def is_own(self) -> bool:
        """Whether the server is ours to start and end."""
        return self._record is not None

    def open(self) -> None:
        """Makes the settings quiet, and starts a server unless one runs or the user has one.

        Doesn't wait until it answers, nor import Prefect.
        """
        os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
        self._users_url = os.environ.get(API_VARIABLE, "")
        if self._users_url:
            return
        self._make_home()
        os.environ["PREFECT_HOME"] = str(self.home.resolve())
        with silent_lock(self.home / "start.lock"):
            self._users = (self.home / "users.lock").open("w")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._record = self._find_running() or self._start()
        os.environ[API_VARIABLE] = self._record.api_url

    def find_running(self) -> int | None:
        """The process of the server in this home, or None where none runs."""
        record = self._find_running()
        return None if record is None else record.pid

    def wait_until_ready(self) -> None:
        """Waits until the server answers.

        Raises:
            FlowServerError: ours ended, or took longer than three minutes.
            InputError: nothing answers where PREFECT_API_URL points.
        """
        if self._record is None:
            self._check_users_server()
            return
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not _answers(self._record.api_url):
            if _process_of(self._record) is None:
                raise self._failure("ended before it answered")
            if time.monotonic() > deadline:
                raise self._failure(f"didn't answer within {_TIMEOUT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def is_alive(self) -> bool:
        """Whether its process runs; of a user's server, whether it answers."""
        if self._record is None:
            return _answers(self._users_url)
        return _process_of(self._record) is not None

    def lost(self) -> FlowServerError:
        """That the server died while it was used."""
        kept = "finished stages keep their results: run again"
        if self._record is not None:
            return FlowServerError(
                "the flow server died in the middle of the run",
                where=str(self.home / "server.log"),
                hint=f"{kept}; that log may say why it died",
            )
        return FlowServerError(
            "the flow server doesn't answer any more",
            where=f"{API_VARIABLE}={self._users_url}",
            hint=f"{kept} when it is up, or unset the variable: a run brings its own server",
        )

    def close(self) -> None:
        """Ends the server unless another run uses it."""
        if self._users is None or self._record is None:
            return
        with silent_lock(self.home / "start.lock"):
            fcntl.flock(self._users, fcntl.LOCK_UN)
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                self._users.close()
                os.environ.pop(API_VARIABLE, None)
            (self.home / "server.json").unlink(missing_ok=True)
            _end(self._record)

    def _find_running(self) -> _Record | None:
        try:
            record = _Record(**json.loads((self.home / "server.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return record if _process_of(record) is not None else None

    def _start(self) -> _Record:
        port = _free_port()
        with (self.home / "server.log").open("w") as log:
            process = subprocess.Popen(
                server_command(port),
                env={**os.environ, **_SERVER_ONLY},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we end the server afterwards
            )
        record = _Record(process.pid, psutil.Process(process.pid).create_time(), port)
        (self.home / "server.json").write_text(json.dumps(asdict(record)))
        return record

    def _make_home(self) -> None:
        try:
            self.home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the cache folder can't be made: {error.strerror}",
                where=str(self.home),
                hint=f"let {CACHE_VARIABLE} name a folder that can be written",
            ) from error

    def _check_users_server(self) -> None:
        if not _answers(self._users_url):
            raise InputError(
                "no flow server answers",
                where=f"{API_VARIABLE}={self._users_url}",
                hint="start that server, or unset the variable: a run brings its own",
            )

    def _failure(self, what: str) -> FlowServerError:
        return FlowServerError(
            f"the flow server {what}",
            where=str(self.home / "server.log"),
            hint="read that log; or start your own with `prefect server start` and set "
            f"{API_VARIABLE}",
        )


def server_command(port: int) -> list[str]:
    """The command line of a server at this port of the loopback address."""
    application = "prefect.server.api.server:create_app"
    command = [sys.executable, "-m", "uvicorn", "--factory", application, "--host", "127.0.0.1"]
    return [*command, "--port", str(port), "--log-level", "error", "--lifespan", "on"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def _answers(api_url: str) -> bool:
    """Whether somebody is there; one who wants to know who asks is somebody too."""
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=10):
            return True
    except urllib.error.HTTPError as error:
        return error.code < _SERVER_ERRORS
    except (OSError, ValueError):
        return False


def _process_of(record: _Record) -> psutil.Process | None:
    """The record's process, or None where it has ended, and its number may be another's now.

    An ended child is buried here; one that its parent hasn't buried yet is dead all the same.
    """
    try:
        process = psutil.Process(record.pid)
        if abs(process.create_time() - record.started) > _CLOCK_SECONDS:
            return None
        if process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.NoSuchProcess:
        return None
    with contextlib.suppress(ChildProcessError):  # another run started it
        os.waitpid(record.pid, os.WNOHANG)
    return None


def _end(record: _Record) -> None:
    """Asks the server to end; kills it if it takes long."""
    asked = time.monotonic()
    while (process := _process_of(record)) is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            if time.monotonic() - asked > _END_SECONDS:
                process.kill()
            else:
                process.terminate()
        time.sleep(_POLL_SECONDS)
