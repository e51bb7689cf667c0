"""The collector of cycles around large work."""

from __future__ import annotations

import gc

from stages.collector import collector_paused, collector_paused_at_the_end


def test_what_was_made_at_the_end_is_old_and_still_collected() -> None:
    with collector_paused_at_the_end():
        made: list[list[object]] = [[] for _ in range(10_000)]
        made[0].append(made[0])
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert any(item is made for item in gc.get_objects(generation=2))
    del made
    assert gc.collect() >= 1


def test_a_pause_within_a_pause_ends_with_the_outer_one() -> None:
    with collector_paused():
        with collector_paused_at_the_end():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
