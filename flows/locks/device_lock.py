"""One benchmark at a time on a real device, whichever run or checkout on this machine it is of."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows.locks.file_lock import file_lock

FOLDER_VARIABLE = "RECIPE_DEVICE_LOCKS"


@contextmanager
def device_lock(command: Sequence[str]) -> Iterator[None]:
    """Holds the device behind a command; no command means a simulated one, of which there are many.

    Two commands are two devices. The system frees the lock of a killed holder at once.

    Raises:
        InputError: the lock's file can't be made.
    """
    if not command:
        yield
        return
    name = hashlib.sha256("\0".join(command).encode()).hexdigest()[:16]
    with file_lock(lock_folder() / f"{name}.lock", f"the device behind {command[0]}"):
        yield


def lock_folder() -> Path:
    """The machine's folder of device locks; RECIPE_DEVICE_LOCKS names another, for all users."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(tempfile.gettempdir()) / f"recipe-devices-{os.getuid()}"
