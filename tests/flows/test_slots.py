"""Places for what runs side by side: never more than there are, the most urgent first."""

from __future__ import annotations

import threading
import time

import pytest

from flows.running.slots import Slots


def test_the_most_urgent_of_those_that_wait_is_next() -> None:
    slots, order = Slots(1), list[tuple[int, ...]]()

    def work(urgency: tuple[int, ...]) -> None:
        with slots.taken(urgency):
            order.append(urgency)

    urgencies = [(2, 0), (1, -5), (0, 9), (1, -7), (1, -5)]
    with slots.taken((9,)):
        threads = [threading.Thread(target=work, args=(urgency,)) for urgency in urgencies]
        for thread in threads:
            thread.start()
        while slots.waiting < len(urgencies):
            time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert order == sorted(urgencies)


@pytest.mark.parametrize("count", [1, 3])
def test_never_more_at_once_than_there_are(count: int) -> None:
    slots, lock = Slots(count), threading.Lock()
    running, most = 0, 0

    def work(number: int) -> None:
        nonlocal running, most
        with slots.taken((number % 4,)):
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.002)
            with lock:
                running -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert most == count
    assert running == 0


def test_a_place_is_free_again_after_an_error() -> None:
    slots = Slots(1)
    with pytest.raises(ZeroDivisionError), slots.taken((0,)):
        raise ZeroDivisionError
    with slots.taken((0,)):
        assert slots.waiting == 0
