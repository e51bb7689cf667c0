"""One run at a time where two would spoil each other: a file lock that says who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO


@contextmanager
def held_alone(path: Path, what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock at `path`; where another process does, says who and waits.

    `what` is what the lock guards, for the message. The system frees the lock of a killed holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {_holder(stream)}, which uses {what}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        _sign(stream)
        try:
            yield
        finally:
            stream.truncate(0)


def _holder(stream: IO[str]) -> str:
    stream.seek(0)
    try:
        facts = json.loads(stream.read())
        return f"process {facts['pid']} (`{facts['command']}`, since {facts['since']})"
    except (ValueError, KeyError, TypeError):
        return "another run"


def _sign(stream: IO[str]) -> None:
    stream.seek(0)
    stream.truncate(0)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    json.dump({"pid": os.getpid(), "command": " ".join(words), "since": since}, stream)
    stream.flush()
