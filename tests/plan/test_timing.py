"""Times of plans of a few instructions, computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.plan.costs import Costs, Role
from stages.plan.timing import run_costs
from stages.plan.weathered import StallTable, Weather

QUEUES = ("tensor_core", "vector", "host", "dma0", "dma1")
Row = tuple[Role, str, int, int, int, int, int]  # role, queue, cycles, launch, latency, port, event


def work(queue: str, cycles: int, launch: int = 0) -> Row:
    role = Role.HOST if queue == "host" else Role.COMPUTE
    return (role, queue, cycles, launch, 0, 0, -1)


def move(queue: str, cycles: int, latency: int, port: int) -> Row:
    return (Role.TRANSFER, queue, cycles, 0, latency, port, -1)


def signal(queue: str, event: int) -> Row:
    return (Role.SIGNAL, queue, 0, 0, 0, 0, event)


def wait(queue: str, event: int) -> Row:
    return (Role.WAIT, queue, 0, 0, 0, 0, event)


def priced(
    *rows: Row, submit: int = 0, event: int = 5, outstanding: int = 2, strict: bool = False
) -> Costs:
    roles, queues, cycles, launch, latency, port, events = zip(*rows, strict=True)
    return Costs(
        queue_names=QUEUES,
        roles=roles,
        queues=[QUEUES.index(queue) for queue in queues],
        cycles=cycles,
        launch=launch,
        latency=latency,
        port=port,
        events=events,
        submit_cycles=submit,
        event_cycles=event,
        outstanding=outstanding,
        strict=strict,
    )


def spans(costs: Costs, divider: int = 1) -> tuple[list[tuple[int, int]], int]:
    timing = run_costs(costs, compute_divider=divider)
    pairs = zip(timing.starts.tolist(), timing.ends.tolist(), strict=True)
    return list(pairs), int(timing.total_cycles[0])


def test_a_transfer_then_compute_that_waits_for_it() -> None:
    costs = priced(
        move("dma0", cycles=40, latency=100, port=20),
        signal("dma0", 0),
        wait("tensor_core", 0),
        work("tensor_core", cycles=30, launch=7),
        submit=1000,
    )
    # issue 1000, start 1000 + 100 = 1100, end 1100 + 40 = 1140; signalled at 1140;
    # the core waits from 1000 until 1140 + 5 = 1145, then 30 + 7: 1182.
    assert spans(costs) == ([(1100, 1140), (1140, 1140), (1000, 1145), (1145, 1182)], 1182)


def test_a_wait_that_finds_its_event_signalled_costs_nothing() -> None:
    costs = priced(
        work("vector", 10), signal("vector", 3), work("tensor_core", 50), wait("tensor_core", 3)
    )
    # the vector unit signals at 10; the core comes to its wait at 50: no event cycles.
    assert spans(costs) == ([(0, 10), (10, 10), (0, 50), (50, 50)], 50)


def test_outstanding_transfers_hide_latency() -> None:
    rows = [move("dma0", cycles=40, latency=100, port=0) for _ in range(3)]
    # two outstanding: 1st [100, 140); 2nd issued at 0 too: max(100, 140) -> [140, 180);
    # 3rd issued when the 1st ended: 140 + 100 = 240 -> [240, 280).
    assert spans(priced(*rows, outstanding=2))[0] == [(100, 140), (140, 180), (240, 280)]
    # one outstanding: each pays its latency. 2nd 140 + 100 = 240, 3rd 280 + 100 = 380.
    assert spans(priced(*rows, outstanding=1))[0] == [(100, 140), (240, 280), (380, 420)]


def test_channels_share_the_ddr_port() -> None:
    costs = priced(
        move("dma0", cycles=40, latency=10, port=20),
        move("dma1", cycles=40, latency=10, port=20),
        move("dma1", cycles=8, latency=10, port=0),
    )
    # dma0 [10, 50) holds the port until 30; dma1 starts at 30 -> [30, 70);
    # the third doesn't touch ddr: max(0 + 10, 70) -> [70, 78).
    assert spans(costs) == ([(10, 50), (30, 70), (70, 78)], 78)


def test_strict_driver_never_overlaps_transfers_and_compute() -> None:
    rows = (
        work("tensor_core", 100),
        move("dma0", cycles=40, latency=10, port=20),
        work("vector", 5),
    )
    # async: all begin at once.
    assert spans(priced(*rows)) == ([(0, 100), (10, 50), (0, 5)], 100)
    # strict: the transfer is issued at 100 -> [110, 150); the vector unit starts at 150.
    assert spans(priced(*rows, strict=True)) == ([(0, 100), (110, 150), (150, 155)], 155)


def three(compute: str = "vector") -> tuple[Row, Row, Row]:
    """Load, compute on something else, load."""
    return (
        move("dma0", cycles=40, latency=10, port=20),
        work(compute, 30, launch=4),
        move("dma1", cycles=60, latency=10, port=50),
    )


def test_three_instructions_overlap_under_an_async_driver() -> None:
    # dma0 [10, 50) holds the port until 30; compute [0, 34); dma1 max(10, 30) -> [30, 90).
    assert spans(priced(*three())) == ([(10, 50), (0, 34), (30, 90)], 90)


def test_three_instructions_follow_each_other_under_a_strict_driver() -> None:
    # dma0 [10, 50); compute waits for it: [50, 84); dma1 is issued at 84 -> [94, 154).
    assert spans(priced(*three(), strict=True)) == ([(10, 50), (50, 84), (94, 154)], 154)


def test_one_physical_channel_blocks_a_second_transfer() -> None:
    first, _, second = three()
    one_channel = (second[0], "dma0", *second[2:])
    # two channels: the port is free at 30. One: the first transfer holds it until 50.
    assert spans(priced(first, second))[0] == [(10, 50), (30, 90)]
    assert spans(priced(first, one_channel))[0] == [(10, 50), (50, 110)]
    # one at a time: the second is issued when the first has ended, and pays its latency again.
    assert spans(priced(first, one_channel, outstanding=1))[0] == [(10, 50), (60, 120)]


def test_each_class_of_instruction_pays_its_own_launch() -> None:
    launched = (Role.TRANSFER, "dma0", 40, 7, 10, 20, -1)
    rows = (work("tensor_core", 30, 4), work("vector", 30, 5), work("host", 30, 6), launched)
    # the transfer is issued 7 later: 0 + 7 + 10 = 17.
    assert spans(priced(*rows))[0] == [(0, 34), (0, 35), (0, 36), (17, 57)]


def test_throttling_slows_compute_alone() -> None:
    rows = (
        work("tensor_core", 100, launch=9),
        work("host", 60, launch=1),
        move("dma0", cycles=40, latency=10, port=20),
        (Role.BACKOFF, "vector", 11, 0, 0, 0, -1),
    )
    # 100 x 4 + 9 = 409; host and transfer as before; a back-off is nominal cycles.
    assert spans(priced(*rows), divider=4) == ([(0, 409), (0, 61), (10, 50), (0, 11)], 409)


def test_a_signal_of_a_channel_waits_for_its_transfers() -> None:
    costs = priced(
        work("vector", 300),
        signal("vector", 0),
        move("dma0", cycles=40, latency=10, port=20),
        wait("dma0", 0),
        signal("dma0", 1),
        move("dma0", cycles=40, latency=10, port=20),
    )
    # dma0 [10, 50); its wait blocks until 300 + 5; it signals then; next start 305 + 10.
    assert spans(costs)[0][2:] == [(10, 50), (0, 305), (305, 305), (315, 355)]


def test_stalls_fall_where_the_table_has_them() -> None:
    # slots of 16 cycles; run 0 has none, run 1 has 7 stall cycles in slot 1 ([16, 32)).
    table = StallTable(np.array([[0, 0, 0, 0], [0, 0, 7, 7]], dtype=np.int64), slot_shift=4)
    rows = (work("tensor_core", 20), work("tensor_core", 20), work("tensor_core", 20))
    # run 1: [0, 20) lies in slots 0..1: table[1] - table[0] = 0 -> 20; [20, 40): table[2] -
    # table[1] = 7 -> 47; [47, 67): clipped at the last column: 0 -> 67.
    timing = run_costs(priced(*rows), Weather(runs=2, compute=table))
    assert timing.total_cycles.tolist() == [60, 67]
    assert timing.ends.tolist() == [20, 40, 60]
    # the same table on another class touches nothing here
    calm = run_costs(priced(*rows), Weather(runs=2, transfer=table, host=table))
    assert calm.total_cycles.tolist() == [60, 60]


def test_submission_is_host_work() -> None:
    table = StallTable(np.array([[0, 3, 3]], dtype=np.int64), slot_shift=4)
    costs = priced(work("tensor_core", 1), submit=16)
    # [0, 16) ends in slot 1: 3 stalls -> 19, then one cycle.
    assert run_costs(costs, Weather(runs=1, host=table)).total_cycles.tolist() == [20]


@st.composite
def programs(draw: st.DrawFn) -> Costs:
    rows: list[Row] = []
    events = 0
    cycles = st.integers(1, 300)
    for _ in range(draw(st.integers(1, 40))):
        queue = draw(st.sampled_from(QUEUES))
        choice = draw(st.integers(0, 3))
        if choice == 0:
            rows.append(signal(queue, events))
            events += 1
        elif choice == 1 and events:
            rows.append(wait(queue, draw(st.integers(0, events - 1))))
        elif queue.startswith("dma"):
            rows.append(
                (
                    Role.TRANSFER,
                    queue,
                    draw(cycles),
                    draw(st.integers(0, 50)),
                    draw(cycles),
                    draw(st.integers(0, 300)),
                    -1,
                )
            )
        elif choice == 2:
            rows.append((Role.BACKOFF, queue, draw(cycles), 0, 0, 0, -1))
        else:
            rows.append(work(queue, draw(cycles), draw(cycles)))
    return priced(
        *rows,
        submit=draw(st.integers(0, 100)),
        event=draw(st.integers(0, 20)),
        outstanding=draw(st.integers(1, 3)),
        strict=draw(st.booleans()),
    )


@given(programs(), st.sampled_from([1, 2, 4]))
def test_many_runs_without_stalls_equal_the_one_run(costs: Costs, divider: int) -> None:
    calm = run_costs(costs, compute_divider=divider)
    table = StallTable(np.zeros((3, 5), dtype=np.int64), slot_shift=6)
    for weather in (Weather(3), Weather(3, table, table, table)):
        many = run_costs(costs, weather, divider)
        assert many.total_cycles.tolist() == [int(calm.total_cycles[0])] * 3
        assert np.array_equal(many.starts, calm.starts)
        assert np.array_equal(many.ends, calm.ends)


@given(programs(), st.integers(0, 2**32 - 1))
def test_a_run_doesnt_depend_on_its_neighbours(costs: Costs, seed: int) -> None:
    random = np.random.default_rng(seed)

    def table() -> StallTable:
        stalls = random.integers(0, 30, (4, 64))
        return StallTable(np.cumsum(stalls, axis=1, dtype=np.int64), slot_shift=6)

    def row(source: StallTable, run: int) -> StallTable:
        return StallTable(source.cumulative[run : run + 1], source.slot_shift)

    transfer, compute, host = table(), table(), table()
    together = run_costs(costs, Weather(4, transfer, compute, host)).total_cycles
    for run in range(4):
        alone = Weather(1, row(transfer, run), row(compute, run), row(host, run))
        assert run_costs(costs, alone).total_cycles[0] == together[run]


@given(programs())
def test_spans_of_a_queue_follow_each_other(costs: Costs) -> None:
    timing = run_costs(costs)
    last: dict[Sequence[int] | int, int] = {}
    for role, queue, start, end in zip(
        costs.roles, costs.queues, timing.starts.tolist(), timing.ends.tolist(), strict=True
    ):
        assert costs.submit_cycles <= start <= end <= timing.total_cycles[0]
        if role in (Role.TRANSFER, Role.COMPUTE, Role.HOST):
            assert start >= last.get(queue, 0)
            last[queue] = end


@pytest.mark.parametrize("divider", [2, 4, 8])
def test_a_slower_clock_is_never_faster(divider: int) -> None:
    costs = priced(
        move("dma0", 40, 10, 20), signal("dma0", 0), wait("vector", 0), work("vector", 9)
    )
    assert run_costs(costs, None, divider).total_cycles[0] > run_costs(costs).total_cycles[0]
