"""Runs one after another on a die that heats up: latencies, temperatures and the clock.

Time goes in steps from poll to poll of the governor, not from run to run: between two polls the
clock doesn't change, so the work done follows from sums of latencies, and the chain's answer to its
mean power is exact. A soak of an hour costs as much as its polls do, however short the runs.
Where a poll period is long against the die's own time constant, a step is a part of it; where it is
short, and the die too far from any trip for a poll to change anything, a step is several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stages.device.clocks import ClockLevel, Governor, clock_levels, governor_of
from stages.device.die import Die
from stages.device.energy_profile import EnergyProfile
from stages.device.history import History, dividers_of, latencies_of
from stages.device.latencies import Latencies
from stages.device.pace import Pace
from stages.device.run_queue import Bank, RunQueue
from stages.device.samples import HeatHistory, Samples
from stages.errors import InputError

_FEMTOJOULES_PER_NANOSECOND_AT_ONE_WATT = 1_000_000
_MOST_RUNS = 1 << 25  # a few gigabytes of samples

EnergyAt = Callable[[float], float]
"""Femtojoules of one inference at a share of the nominal voltage."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long a session lasts: until so many runs are done, or so much time has passed, but for
    one run at least; whichever comes first where both are given."""

    runs: int | None = None
    duration_ns: int | None = None


@dataclass(slots=True)
class Session:
    """One session in progress."""

    latencies: Latencies
    die: Die
    energy_at: EnergyAt
    profile: EnergyProfile | None = None
    levels: tuple[ClockLevel, ...] = field(init=False)
    governor: Governor = field(init=False)
    history: History = field(init=False, default_factory=History)
    queue: RunQueue = field(init=False)
    now_ns: int = field(init=False, default=0)
    level: int = field(init=False)
    watts: float | None = field(init=False, default=None)  # of the last step at this level
    _energies: list[float] = field(init=False)
    _banks: dict[int, Bank] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.levels = clock_levels(self.die.spec)
        self.governor = governor_of(self.die.spec)
        self._energies = [self.energy_at(level.voltage) for level in self.levels]
        self.level = self.governor.poll(self.die.sensor_celsius)
        self.queue = RunQueue(self._bank(self.level), self.level, self.profile)

    def step(self, duration_ns: int) -> None:
        """Let time pass at the present clock."""
        work = self.queue.advance(duration_ns)
        femtojoules = work * self._energies[self.level]
        watts = femtojoules / (duration_ns * _FEMTOJOULES_PER_NANOSECOND_AT_ONE_WATT)
        before, voltage = self.die.modes, self.levels[self.level].voltage
        self.now_ns += duration_ns
        self.watts = self.die.advance(watts, duration_ns, voltage)
        self.history.add(before, self.watts, self.now_ns)

    def poll(self) -> None:
        """Let the governor look."""
        level = self.governor.poll(self.die.sensor_celsius)
        if level != self.level:
            self.queue.change(self._bank(level), level)
            self.level, self.watts = level, None

    def _bank(self, level: int) -> Bank:
        if level not in self._banks:
            self._banks[level] = Bank.of(self.latencies.at(self.levels[level].slowdown))
        return self._banks[level]

    def samples(self, runs: int, warmup: int, shutdown_run: int | None) -> Samples:
        """Of the first `runs` runs, without the warm-up."""
        slowdowns = {level: self.levels[level].slowdown for level in self._banks}
        banks = {level: self.latencies.at(slowdown) for level, slowdown in slowdowns.items()}
        latencies, levels = latencies_of(self.queue, runs, banks)
        chain = self.die.chain
        rises = self.history.junction_rises(chain, latencies.cumsum())
        warmest = max(float(rises.max()), self.history.warmest_rise(chain))
        first = chain.rises_of(self.history.modes[: len(chain.stages)])
        heat = HeatHistory(
            junction_celsius=(self.die.ambient_celsius + rises)[warmup:],
            clock_dividers=dividers_of(levels, self.levels)[warmup:],
            ambient_celsius=self.die.ambient_celsius,
            start_celsius=self.die.ambient_celsius + float(first[0]),
            peak_celsius=self.die.ambient_celsius + warmest,
            unthrottled_ns=self.latencies.at(self.levels[0].slowdown)[warmup:],
            ledger=self.history.ledger(chain, self.die.modes),
            shutdown_run=shutdown_run,
        )
        return Samples(latencies[warmup:], heat)


def run_session(
    latencies: Latencies,
    die: Die,
    energy_at: EnergyAt,
    length: Length,
    warmup: int = 0,
    profile: EnergyProfile | None = None,
) -> Samples:
    """Let runs follow each other; the first `warmup` aren't in the samples.

    Within a run energy is spent as `profile` says, or evenly. A die that becomes critical ends the
    session with the run in progress.

    Raises:
        InputError: there are more runs than memory holds.
    """
    session = Session(latencies, die, energy_at, profile)
    pace = Pace.of(die)
    critical_run: int | None = None
    wanted = length.runs
    queue = session.queue
    while True:
        for duration in pace.next_steps(die, session.governor.quiet_band(), session.watts):
            session.step(duration)
            if critical_run is None and die.is_critical:
                critical_run = queue.run
        session.poll()
        if critical_run is not None and queue.run > critical_run:
            wanted = min(critical_run + 1, queue.run if wanted is None else wanted)
        done = queue.run if wanted is None else min(queue.run, wanted)
        if done > _MOST_RUNS:
            raise InputError(
                f"a session of more than {_MOST_RUNS:,} runs",
                hint="shorten it: `--minutes`, or `thermal_stress` in params.yaml",
            )
        late = length.duration_ns is not None and session.now_ns >= length.duration_ns
        if done == wanted or (late and done):
            break
    off = critical_run is not None and done == critical_run + 1
    return session.samples(done, warmup, max(0, done - warmup) if off else None)
