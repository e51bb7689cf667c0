"""Python's collector of cycles, paused while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """The collector would walk all that was made so far, and find nothing to free: what isn't
    needed any more goes by its reference count. Also a decorator."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def collector_paused_at_the_end() -> Iterator[None]:
    """The same for the last work of a process: what was made meanwhile counts as old. Else the next
    new object would have all of it walked. Cycles in it are freed when everything is looked at."""
    with collector_paused():
        yield
        if not gc.get_freeze_count():  # what others have frozen stays so
            gc.freeze()
            gc.unfreeze()
