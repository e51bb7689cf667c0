"""Ends the commands of a run that was killed.

They lead process groups of their own, so that a run can end each with all that it started; so what
kills the run doesn't kill them, and they would go on writing where the next run writes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading

# Told the groups over a pipe, which ends when the run does, however that ends.
_SCRIPT = """
groups=
while read -r verb group; do
    rest=
    for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
    groups=$rest
    [ "$verb" = end ] || groups="$groups $group"
done
for group in $groups; do kill -TERM -"$group"; done
for wait in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    alive=
    for group in $groups; do kill -0 -"$group" && alive=yes; done
    [ -n "$alive" ] || exit 0
    sleep 0.1
done
for group in $groups; do kill -KILL -"$group"; done
"""


class Guardian:
    """A small process beside the run, started before its first command. For many threads.

    It inherits the descriptor `lock`: the next run waits until it has done its work.
    """

    def __init__(self, lock: int | None) -> None:
        self._lock_descriptor = lock
        self._mutex = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Starts it, unless it runs."""
        with self._mutex:
            if self._process is None:
                self._process = self._start()

    def began(self, group: int) -> None:
        """A command runs in this process group."""
        with self._mutex:
            if self._process is not None:
                self._tell(self._process, "begin", group)

    def ended(self, group: int) -> None:
        """It has come to its end."""
        with self._mutex:
            if self._process is not None:
                self._tell(self._process, "end", group)

    def close(self) -> None:
        """Ends the guardian, and the commands that it still knows of."""
        with self._mutex:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                self._process.wait()
                self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=() if self._lock_descriptor is None else (self._lock_descriptor,),
            start_new_session=True,
        )

    def _tell(self, process: subprocess.Popen[bytes], verb: str, group: int) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody killed it: we are without, that's all
            os.write(process.stdin.fileno(), f"{verb} {group}\n".encode())
