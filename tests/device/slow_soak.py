"""A soak the slow way: run by run and poll by poll, with nothing precomputed.

It shares no code with the session: shares of work are fractions, the chain is integrated as
a matrix exponential of its equations, and the trip table is walked anew at each poll.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from stages.hardware.spec import HardwareSpec

State = NDArray[np.float64]
Latency = Callable[[int, int], int]
"""Nanoseconds of a run at a clock divider."""


@dataclass
class Slow:
    """What happened: for each run its latency, deepest divider and the die at its end."""

    latencies: list[int]
    dividers: list[int]
    celsius: list[float]


@dataclass
class Board:
    """The chain's equations, and the leakage of the die."""

    spec: HardwareSpec
    ambient: float

    def __post_init__(self) -> None:
        stages = self.spec.thermal.stages
        count = len(stages)
        self.known: dict[int, State] = {}
        self.matrix = np.zeros((count, count))
        self.heat = np.zeros(count)
        self.heat[0] = 1000 / stages[0].millijoules_per_kelvin
        for index, stage in enumerate(stages):
            flow = 1000 / stage.millikelvin_per_watt
            self.matrix[index, index] -= flow * 1000 / stage.millijoules_per_kelvin
            if index + 1 < count:
                outer = 1000 / stages[index + 1].millijoules_per_kelvin
                self.matrix[index, index + 1] += flow * 1000 / stage.millijoules_per_kelvin
                self.matrix[index + 1, index] += flow * outer
                self.matrix[index + 1, index + 1] -= flow * outer

    def idle(self, celsius: float) -> float:
        power = self.spec.power
        doublings = (celsius - 25) / power.leakage_doubling_celsius
        return power.idle_milliwatts / 1000 + power.leakage_milliwatts / 1000 * 2**doublings

    def after(self, rises: State, watts: float, duration_ns: int) -> State:
        """Rises after constant power."""
        if duration_ns not in self.known:
            count = rises.size
            augmented = np.zeros((count + 1, count + 1))
            augmented[:count, :count] = self.matrix
            augmented[:count, count] = self.heat
            self.known[duration_ns] = expm(augmented * (duration_ns / 1e9))[:-1]
        return np.asarray(self.known[duration_ns] @ np.append(rises, watts))

    def midpoint(self, rises: State, dynamic: float, duration_ns: int) -> float:
        """The whole power with the leakage halfway through a trial step."""
        before = self.ambient + float(rises[0])
        trial = self.after(rises, dynamic + self.idle(before), duration_ns)
        return dynamic + self.idle((before + self.ambient + float(trial[0])) / 2)

    def solved(self, rises: State, dynamic: float, duration_ns: int) -> State:
        """Rises by an integrator that knows the leakage at every instant."""

        def slope(_: float, now: State) -> State:
            watts = dynamic + self.idle(self.ambient + float(now[0]))
            return np.asarray(self.matrix @ now + self.heat * watts)

        done = solve_ivp(slope, (0, duration_ns / 1e9), rises, method="Radau", rtol=1e-9, atol=1e-9)
        return np.asarray(done.y[:, -1])


def divider_after(spec: HardwareSpec, held: int, celsius: float) -> int:
    """How many trips hold after a poll at `celsius`."""
    trips = spec.thermal.trips
    while held < len(trips) and celsius >= trips[held].celsius:
        held += 1
    while held and celsius < trips[held - 1].celsius - trips[held - 1].hysteresis_celsius:
        held -= 1
    return held


class Work:
    """Runs one after another, cut into pieces by polls."""

    def __init__(self, latency: Latency, divider: int) -> None:
        self.latency = latency
        self.divider = divider
        self.run = 0
        self.whole = self.left = latency(0, divider)
        self.worth = Fraction(1)  # of the inference's energy, in the `whole`
        self.elapsed = 0
        self.deepest = divider
        self.done: list[tuple[int, int]] = []  # latency and deepest divider of each run

    def until(self, duration: int) -> tuple[Fraction, list[int]]:
        """Inferences' worth of work in that time, and when in it runs ended."""
        spent, passed, ends = Fraction(0), 0, []
        while passed < duration:
            piece = min(self.left, duration - passed)
            spent += self.worth * Fraction(piece, self.whole)
            passed += piece
            self.left -= piece
            self.elapsed += piece
            if self.left == 0:
                ends.append(passed)
                self.done.append((self.elapsed, self.deepest))
                self.run += 1
                self.whole = self.left = self.latency(self.run, self.divider)
                self.worth, self.elapsed, self.deepest = Fraction(1), 0, self.divider
        return spent, ends

    def change(self, divider: int) -> None:
        """Go on at another clock."""
        before = self.latency(self.run, self.divider)
        after = self.latency(self.run, divider)
        self.worth *= Fraction(self.left, self.whole)
        self.whole = self.left = ceil(Fraction(self.left * after, before))
        self.deepest = max(self.deepest, divider) if self.elapsed else divider
        self.divider = divider


def slow_soak(
    board: Board, rises: State, latency: Latency, femtojoules: int, runs: int, parts: Sequence[int]
) -> Slow:
    """The session's own equations, the slow way: `parts` sum to a poll period."""
    spec = board.spec
    dividers = [1, *(trip.divider for trip in spec.thermal.trips)]
    held = divider_after(spec, 0, round(board.ambient + float(rises[0]), 3))
    work, celsius = Work(latency, dividers[held]), []
    while len(work.done) < runs:
        for part in parts:
            spent, ends = work.until(part)
            dynamic = float(spent) * femtojoules / (part * 1e6)
            watts = board.midpoint(rises, dynamic, part)
            celsius += [board.ambient + float(board.after(rises, watts, t)[0]) for t in ends]
            rises = board.after(rises, watts, part)
        now = divider_after(spec, held, round(board.ambient + float(rises[0]), 3))
        if now != held:
            held = now
            work.change(dividers[held])
    done = work.done[:runs]
    return Slow([ns for ns, _ in done], [divider for _, divider in done], celsius[:runs])


def solved_soak(board: Board, rises: State, latency: Latency, femtojoules: int, runs: int) -> Slow:
    """The physics: each piece of a run has its own power, and the leakage is that of the moment."""
    spec = board.spec
    dividers = [1, *(trip.divider for trip in spec.thermal.trips)]
    held = divider_after(spec, 0, round(board.ambient + float(rises[0]), 3))
    work, celsius = Work(latency, dividers[held]), []
    until_poll = spec.thermal.poll_ns
    while len(work.done) < runs:
        piece = min(work.left, until_poll)
        spent, ends = work.until(piece)
        rises = board.solved(rises, float(spent) * femtojoules / (piece * 1e6), piece)
        if ends:
            celsius.append(board.ambient + float(rises[0]))
        until_poll -= piece
        if until_poll == 0:
            until_poll = spec.thermal.poll_ns
            now = divider_after(spec, held, round(board.ambient + float(rises[0]), 3))
            if now != held:
                held = now
                work.change(dividers[held])
    return Slow([ns for ns, _ in work.done], [divider for _, divider in work.done], celsius)
