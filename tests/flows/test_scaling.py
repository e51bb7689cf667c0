"""The simulation of docs/scaling.md, against queues with known answers and by what is conserved."""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from flows.project.places import find_project
from flows.scaling import tables as tables
from flows.scaling.costs import Costs, Task, Work, makespan, measured_costs
from flows.scaling.load import (
    Assumptions,
    Change,
    History,
    Kind,
    arrivals,
    make_commits,
    profiles,
)
from flows.scaling.measure import (
    Measured,
    MeasuredCost,
    MeasuredFile,
    data_folder,
    read_measured,
    write_measured,
)
from flows.scaling.queue import Farm, night_shard_seconds, open_machines, simulate
from flows.scaling.report import page
from flows.scaling.store import distinct_copies, model_volumes
from flows.steps.stage_calls import Stage

SMALL = Assumptions(models=40, devices=2, repository_models=10, profiles=(("a", 0.5), ("b", 0.5)))
SECONDS = {
    Stage.NORMALIZE: 5.0,
    Stage.COMPILE: 4.0,
    Stage.VALIDATE: 3.0,
    Stage.BENCHMARK: 2.0,
    Stage.GATE: 1.0,
    Stage.THERMAL_STRESS: 2.0,
}


def _measured() -> Measured:
    costs = [
        MeasuredCost(model, spec, stage, 0, seconds * (1 + (model == "b")), 100, 1_000_000)
        for model in ("a", "b")
        for spec in ("x", "y")
        for stage, seconds in SECONDS.items()
    ]
    files = []
    for model in ("a", "b"):
        files.append(MeasuredFile(model, "", Stage.NORMALIZE, 0, "model.onnx", 1000, f"{model}m"))
        for spec in ("x", "y"):
            own = f"{model}{spec}"
            files += [
                MeasuredFile(model, spec, Stage.COMPILE, 0, "weights.safetensors", 500, model),
                MeasuredFile(model, spec, Stage.COMPILE, 0, "plan.txt", 70, own),
                MeasuredFile(model, spec, Stage.BENCHMARK, 0, "samples.csv", 30, f"{own}0"),
                MeasuredFile(model, spec, Stage.BENCHMARK, 0, "trace.json", 20, f"{own}t"),
                MeasuredFile(model, spec, Stage.BENCHMARK, 1, "samples.csv", 30, f"{own}1"),
                MeasuredFile(model, spec, Stage.BENCHMARK, 1, "trace.json", 20, f"{own}t"),
            ]
    return Measured(tuple(costs), tuple(files))


def _costs(assumptions: Assumptions = SMALL) -> Costs:
    return measured_costs(_measured(), assumptions)


def _waits(arrivals: Sequence[float], services: Sequence[float], machines: int) -> list[float]:
    """How long each waits, in order of arrival."""
    farm = open_machines(machines)
    waits = [0.0] * len(arrivals)

    def one(number: int) -> Generator[simpy.Event, object, None]:
        yield farm.clock.timeout(arrivals[number])
        yield farm.clock.process(farm.work(services[number], 0))
        waits[number] = farm.clock.now - arrivals[number] - services[number]

    for number in range(len(arrivals)):
        farm.clock.process(one(number))
    farm.clock.run()
    assert math.isclose(farm.busy_seconds, sum(services), rel_tol=1e-9)
    return waits


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_machine_and_equal_services_wait_as_m_d_1_says(load: float) -> None:
    """Pollaczek-Khinchine: the mean wait is load * service / (2 * (1 - load))."""
    random = np.random.default_rng(1)
    times = np.cumsum(random.exponential(10 / load, size=15_000))
    waits = _waits(list(times), [10.0] * len(times), 1)
    assert float(np.mean(waits)) == pytest.approx(load * 10 / (2 * (1 - load)), rel=0.08)


def test_several_machines_wait_as_erlang_c_says() -> None:
    """M/M/3 at two Erlang: the chance of waiting is 4/9, the mean wait 4/9 of a service; and each
    wait is what the recursion of Kiefer and Wolfowitz gives."""
    random = np.random.default_rng(1)
    times = list(np.cumsum(random.exponential(10 / 2, size=15_000)))
    services = list(random.exponential(10, size=len(times)))
    waits = np.array(_waits(times, services, 3))
    assert float(np.mean(waits > 1e-6)) == pytest.approx(4 / 9, rel=0.08)
    assert float(waits.mean()) == pytest.approx(10 * 4 / 9, rel=0.15)
    free, exact = [0.0] * 3, []
    for time, service in zip(times, services, strict=True):
        start = max(time, heapq.heappop(free))
        exact.append(start - time)
        heapq.heappush(free, start + service)
    assert waits == pytest.approx(np.array(exact), abs=1e-6)


def test_priority_goes_first_and_interrupts_nothing() -> None:
    farm, ended = open_machines(1), []

    def one(name: str, at: float, priority: int) -> Generator[simpy.Event, object, None]:
        yield farm.clock.timeout(at)
        yield farm.clock.process(farm.work(10.0, priority))
        ended.append((name, farm.clock.now))

    for name, at, priority in (("night 1", 0, 1), ("night 2", 1, 1), ("commit", 2, 0)):
        farm.clock.process(one(name, at, priority))
    farm.clock.run()
    assert ended == [("night 1", 10), ("commit", 20), ("night 2", 30)]


def test_makespan_by_hand() -> None:
    chain = [Task(2), Task(3, (0,)), Task(4, (0,)), Task(1, (1, 2))]
    assert makespan(chain, 1) == 10
    assert makespan(chain, 2) == 2 + 4 + 1
    assert makespan([Task(1)] * 7, 3) == 3
    with pytest.raises(ValueError, match="ring"):
        makespan([Task(1, (1,)), Task(1, (0,))], 1)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 20), max_size=3)), max_size=20),
    st.integers(1, 6),
)
def test_makespan_keeps_grahams_bounds(drawn: list[tuple[int, list[int]]], cores: int) -> None:
    """Never under the longest chain or the mean load; never over their sum (Graham 1966)."""
    tasks = [
        Task(seconds, tuple({need for need in needs if need < number}))
        for number, (seconds, needs) in enumerate(drawn)
    ]
    longest: list[float] = []
    for task in tasks:
        longest.append(task.seconds + max((longest[need] for need in task.needs), default=0))
    chain, mean = max(longest, default=0.0), sum(task.seconds for task in tasks) / cores
    assert max(chain, mean) <= makespan(tasks, cores) + 1e-9
    assert makespan(tasks, cores) <= chain + mean + 1e-9


def test_costs_of_a_model() -> None:
    free = replace(SMALL, restore_step_seconds=0.0, engine_start_seconds=0, engine_step_seconds=0)
    costs = _costs(free)
    assert costs.cpu_seconds("a", Work.EVERYTHING) == 5 + 2 * 12
    assert costs.cpu_seconds("b", Work.MEASURED) == 2 * 2 * 5
    assert costs.cpu_seconds("a", Work.NORMALIZE) == 5
    assert costs.machine_seconds((("a", Work.EVERYTHING),), 1) == 29
    assert costs.machine_seconds((("a", Work.EVERYTHING),), 100) == 5 + 4 + 3 + 1  # by the gate
    assert costs.machine_seconds((("a", Work.NOTHING),), 4) == 0


def test_commits_come_as_supposed() -> None:
    assumptions = Assumptions()
    commits, history = make_commits(assumptions, 200, seed=3)
    assert len(commits) / 200 == pytest.approx(50, rel=0.05)
    assert [commit.at_seconds for commit in commits] == sorted(c.at_seconds for c in commits)
    hours = np.array([commit.at_seconds % 86400 / 3600 for commit in commits])
    assert float(np.mean((hours >= 8) & (hours < 18))) == pytest.approx(
        0.9 + 0.1 * 10 / 24, abs=0.02
    )
    merges = sum(commit.kind is Kind.MERGE for commit in commits) / len(commits)
    assert merges == pytest.approx(0.38, abs=0.02)
    single = [c for c in commits if c.kind is Kind.BRANCH]
    assert sum(len(c.changes) == 1 for c in single) / len(single) == pytest.approx(0.70, abs=0.03)
    for commit in commits:
        repositories = {change.model // assumptions.repository_models for change in commit.changes}
        assert len(repositories) == 1
    assert len({change.content for change in history.main}) == assumptions.models


def test_a_merge_brings_what_its_branch_held_and_a_revert_what_was_before() -> None:
    history = History(SMALL, np.random.default_rng(4))
    pushed: set[Change] = set()
    merged = 0
    for number in range(400):
        before = {change.model: change for change in history.main}
        commit = history.commit(float(number))
        if commit.kind in (Kind.BRANCH, Kind.FOLLOW_UP):
            assert not set(commit.changes) & pushed
            pushed |= set(commit.changes)
            assert history.main == list(before.values())
        elif commit.kind is Kind.MERGE:
            assert set(commit.changes) <= pushed
            merged += 1
        else:
            (change,) = commit.changes
            assert change.content != before[change.model].content
    assert merged > 50


def test_every_commit_and_night_is_answered_and_the_cache_only_helps() -> None:
    farm = Farm(2, 2, night_shards=8)
    answers = simulate(SMALL, _costs(), farm, 20, 5, nightly=True)
    assert len(answers.turnaround_seconds) == answers.commits > 800
    assert len(answers.nights) == 20
    assert 0 < answers.run_steps < answers.asked_steps
    assert min(answers.turnaround_seconds) > 0
    again = simulate(SMALL, _costs(), farm, 20, 5, nightly=True)
    assert again.turnaround_seconds == answers.turnaround_seconds
    forgetful = simulate(SMALL, _costs(), replace(farm, collect_days=1), 20, 5, nightly=True)
    assert forgetful.hit_share <= answers.hit_share
    more = simulate(SMALL, _costs(), replace(farm, machines=8), 20, 5, nightly=True)
    assert np.mean(more.turnaround_seconds) <= np.mean(answers.turnaround_seconds)


def test_without_repeated_contents_nothing_is_hit() -> None:
    fresh = replace(
        SMALL, merge_share=0, revert_share=0, same_graph_share=0, compiler_change_share=0
    )
    answers = simulate(fresh, _costs(fresh), Farm(4, 2), 5, 6, nightly=True)
    assert answers.hit_share == 0
    merging = replace(fresh, merge_share=0.4)
    served = simulate(merging, _costs(merging), Farm(4, 2), 40, 6, nightly=True)
    assert served.hit_share == pytest.approx(0.4, abs=0.05)


def test_night_shards_hold_all_the_work() -> None:
    free = replace(SMALL, engine_start_seconds=0, engine_step_seconds=0)
    costs, fleet = _costs(free), profiles(free, 0)
    shards = night_shard_seconds(costs, fleet, Work.EVERYTHING, Farm(1, 1, night_shards=7))
    assert len(shards) == 7
    whole = sum(costs.cpu_seconds(profile, Work.EVERYTHING) for profile in fleet)
    assert sum(shards) == pytest.approx(whole)


def test_the_fleet_has_exact_shares_and_arrivals_repeat() -> None:
    fleet = profiles(Assumptions(), 0)
    assert len(fleet) == 1000
    assert fleet.count("bert_base") == 100
    assert fleet != sorted(fleet)
    once, twice = (arrivals(SMALL, 3, np.random.default_rng(7)) for _ in range(2))
    assert once == twice


def test_volumes_by_hand() -> None:
    volumes = model_volumes(_measured(), "a", SMALL)
    entries = SMALL.steps(1) * 4096
    assert volumes.copies.size_bytes - entries == 1000 + 2 * (500 + 70 + 30 + 20)
    assert volumes.content.size_bytes - entries == 1000 + 500 + 2 * (70 + 30 + 20)
    assert volumes.seed.size_bytes - 6 * 4096 == 2 * 30
    assert volumes.compiler.size_bytes - entries == 2 * (70 + 30 + 20)
    assert distinct_copies(["a", "a", "a", "a"], 20) == 1
    assert distinct_copies(["a", "b", "c", "d"], 20) == 20
    assert distinct_copies(["a", "a", "b"], 21) == 11


def test_fewest_machines_are_enough_and_one_fewer_is_not() -> None:
    busy = replace(SMALL, commits_a_day=1500.0)
    study = tables.Study(_measured(), busy, 1, (1,))
    fewest = tables.machines_for_commits(study, Farm(1, 1))
    assert fewest is not None
    assert fewest > 1
    for machines, enough in ((fewest, True), (fewest - 1, False)):
        answers = study.answers(Farm(machines, 1), nightly=False)
        assert (tables.turnaround_seconds(answers, 95) <= tables.LIMIT_SECONDS) is enough


def test_measured_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_measured(_measured(), tmp_path)
    assert read_measured(tmp_path) == _measured()


def test_the_page_is_the_committed_one() -> None:
    """Its first tables, which take no simulation, and that it can be made at all."""
    project = find_project()
    study = tables.Study(read_measured(data_folder(project)), Assumptions(), 1, (1,))
    kept = (project.root / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert tables.measured_table(study) in kept
    assert tables.boards_table(study) in kept
    assert "None" not in page(study)
