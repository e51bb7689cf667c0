"""Where the cycles went: hand-computed plans, and agreement with the clock on random ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.device.stalls import NOBODY, Cause, attribute, by_queue
from stages.plan.costs import Costs, Role
from stages.plan.timing import run_costs
from tests.plan.test_timing import QUEUES, move, priced, programs, signal, wait, work

Segment = tuple[int, int, Cause, str]


def found(costs: Costs, queue: str) -> list[Segment]:
    segments = attribute(costs)
    numbers = dict(by_queue(segments))[queue]
    return [
        (
            int(segments.start[number]),
            int(segments.end[number]),
            Cause(int(segments.cause[number])),
            "" if segments.source[number] == NOBODY else QUEUES[segments.source[number]],
        )
        for number in numbers
    ]


def test_a_core_that_waits_for_a_transfer() -> None:
    costs = priced(
        move("dma0", cycles=40, latency=100, port=20),
        signal("dma0", 0),
        wait("tensor_core", 0),
        work("tensor_core", cycles=30, launch=7),
        submit=1000,
    )
    # the times of test_timing's first test, with their causes
    assert found(costs, "tensor_core") == [
        (0, 1000, Cause.SUBMIT, ""),
        (1000, 1140, Cause.EVENT, "dma0"),
        (1140, 1145, Cause.SYNC, "dma0"),
        (1145, 1152, Cause.LAUNCH, ""),
        (1152, 1182, Cause.WORK, ""),
    ]
    assert found(costs, "dma0") == [
        (0, 1000, Cause.SUBMIT, ""),
        (1000, 1100, Cause.LATENCY, ""),
        (1100, 1140, Cause.WORK, ""),
        (1140, 1182, Cause.IDLE, ""),
    ]
    assert found(costs, "vector") == [(0, 1182, Cause.IDLE, "")]


def test_latency_that_one_more_outstanding_transfer_would_hide() -> None:
    rows = [move("dma0", cycles=40, latency=100, port=0) for _ in range(3)]
    # two outstanding: [100, 140) [140, 180); the third is issued at 140: 60 of its 100 cycles of
    # latency show after 180, and a third outstanding transfer would hide them.
    assert found(priced(*rows, outstanding=2), "dma0") == [
        (0, 100, Cause.LATENCY, ""),
        (100, 140, Cause.WORK, ""),
        (140, 180, Cause.WORK, ""),
        (180, 240, Cause.OUTSTANDING, ""),
        (240, 280, Cause.WORK, ""),
    ]


def test_the_port_has_one_holder() -> None:
    costs = priced(
        move("dma0", cycles=40, latency=10, port=20),
        move("dma1", cycles=40, latency=10, port=20),
    )
    assert found(costs, "dma1") == [
        (0, 10, Cause.LATENCY, ""),
        (10, 30, Cause.PORT, "dma0"),
        (30, 70, Cause.WORK, ""),
    ]


def test_a_wait_behind_a_running_transfer_stalls_nothing() -> None:
    costs = priced(
        move("dma0", cycles=400, latency=10, port=20),
        work("vector", 300),
        signal("vector", 0),
        wait("dma0", 0),
        move("dma0", cycles=40, latency=10, port=20),
    )
    # the channel works until 410; the event comes at 300 + 5, the transfer is ready at 315
    assert found(costs, "dma0") == [
        (0, 10, Cause.LATENCY, ""),
        (10, 410, Cause.WORK, ""),
        (410, 450, Cause.WORK, ""),
    ]


def test_strict_turns_and_a_back_off() -> None:
    costs = priced(
        work("tensor_core", 100),
        move("dma0", cycles=40, latency=10, port=20),
        work("vector", 5),
        (Role.BACKOFF, "vector", 11, 0, 0, 0, -1),
        strict=True,
    )
    assert found(costs, "dma0") == [
        (0, 100, Cause.STRICT, "tensor_core"),
        (100, 110, Cause.LATENCY, ""),
        (110, 150, Cause.WORK, ""),
        (150, 166, Cause.IDLE, ""),
    ]
    assert found(costs, "vector") == [
        (0, 150, Cause.STRICT, "dma0"),
        (150, 155, Cause.WORK, ""),
        (155, 166, Cause.BACKOFF, ""),
    ]


@given(programs(), st.sampled_from([1, 3]))
def test_every_cycle_of_every_queue_has_one_cause(costs: Costs, divider: int) -> None:
    segments = attribute(costs, divider)
    assert segments.total_cycles == int(run_costs(costs, None, divider).total_cycles[0])
    for _, numbers in by_queue(segments):
        starts, ends = segments.start[numbers].tolist(), segments.end[numbers].tolist()
        if not segments.total_cycles:
            assert starts == []
            continue
        assert starts == [0, *ends[:-1]]
        assert ends[-1] == segments.total_cycles
        assert all(start < end for start, end in zip(starts, ends, strict=True))


@given(programs(), st.sampled_from([1, 3]))
def test_work_and_launch_are_the_spans_of_the_clock(costs: Costs, divider: int) -> None:
    timing, segments = run_costs(costs, None, divider), attribute(costs, divider)
    for index, role in enumerate(costs.roles):
        if role not in (Role.TRANSFER, Role.COMPUTE, Role.HOST):
            continue
        # a transfer's launch passes before its span, beside earlier transfers
        causes = (Cause.WORK,) if role is Role.TRANSFER else (Cause.WORK, Cause.LAUNCH)
        spent = np.isin(segments.cause, causes)
        mine = np.flatnonzero(spent & (segments.instruction == index))
        start, end = int(timing.starts[index]), int(timing.ends[index])
        if start < end:
            assert (segments.start[mine[0]], segments.end[mine[-1]]) == (start, end)
        else:
            assert not mine.size


@given(programs())
def test_waiting_for_an_event_is_waiting_for_the_queue_that_signals_it(costs: Costs) -> None:
    segments = attribute(costs)
    signallers = {
        event: queue
        for role, queue, event in zip(costs.roles, costs.queues, costs.events, strict=True)
        if role is Role.SIGNAL
    }
    for number in np.flatnonzero(segments.cause == Cause.EVENT).tolist():
        waiting = int(segments.instruction[number])
        assert costs.roles[waiting] is Role.WAIT
        assert segments.source[number] == signallers[costs.events[waiting]]
        assert segments.queue[number] == costs.queues[waiting]
