"""Locks that one process holds at a time, and that a killed one leaves free.

The kernel holds them (`flock`), so a lock ends with its holder, however that ended. The file keeps
who holds it in words, for those who wait; the file itself stays, and means nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from flows.terminal.outcomes import printable
from stages.errors import InputError

_POLL_SECONDS = 0.1
_COMMAND_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: process, command line, and when it took the lock (UTC)."""

    pid: int
    command: str
    since: str

    def __str__(self) -> str:
        ended = "" if self.is_alive else ", which has ended, but left something running"
        return f"process {self.pid} ({self.command}), since {self.since}{ended}"

    @property
    def is_alive(self) -> bool:
        """Whether a process of this number runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (OverflowError, PermissionError):
            return True
        return True


def warn(text: str) -> None:
    """One line to stderr."""
    print(printable(text), file=sys.stderr, flush=True)


@contextmanager
def file_lock(path: Path, what: str, say: Callable[[str], None] = warn) -> Iterator[int]:
    """Holds the lock in this file; waits for it, and says who holds it, where another does.

    `what` names the locked thing in the message. Not to be taken twice by one thread. Gives the
    descriptor that holds the lock: a child process that inherits it keeps the lock while it lives,
    should we be killed.

    Raises:
        InputError: the file can't be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+b", buffering=0)
    except OSError as error:
        raise InputError(
            f"no lock file can be made: {error.strerror}",
            where=str(path),
            hint="make the folder writable, or let RECIPE_CACHE name another",
        ) from error
    with stream:
        _take(stream, what, say)
        try:
            _sign(stream)
            yield stream.fileno()
        finally:
            stream.truncate(0)
            fcntl.flock(stream, fcntl.LOCK_UN)


@contextmanager
def silent_lock(path: Path) -> Iterator[None]:
    """Holds the lock in this file, in a folder that is there; waits for it without a word, since
    nobody holds it for longer than a moment.

    Raises:
        OSError: the file can't be made.
    """
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def holder_of(path: Path) -> Holder | None:
    """Who holds the lock in this file, as far as it can be told; None where nobody does."""
    try:
        with path.open("a+b", buffering=0) as stream:
            if _try(stream):
                return None
            return _read(stream)
    except OSError:
        return None


def _take(stream: IO[bytes], what: str, say: Callable[[str], None]) -> None:
    told: Holder | None = None
    while not _try(stream):
        holder = _read(stream)
        if holder is not None and holder != told:
            say(f"waiting for {what}: held by {holder}")
            told = holder
        time.sleep(_POLL_SECONDS)


def _try(stream: IO[bytes]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(stream: IO[bytes]) -> None:
    command = shlex.join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    holder = Holder(os.getpid(), command[:_COMMAND_LENGTH], since)
    stream.truncate(0)
    with contextlib.suppress(OSError):  # a full disk: the lock holds, unsigned
        stream.write(json.dumps(asdict(holder)).encode())


def _read(stream: IO[bytes]) -> Holder | None:
    """The signature; None in the moment in which the holder hasn't signed yet."""
    stream.seek(0)
    try:
        return Holder(**json.loads(stream.read()))
    except (ValueError, TypeError):
        return None
