"""The simulated device: a plan run functionally and in time, with weather and heat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stages.device.admission import admit
from stages.device.counters import Counters, count
from stages.device.die import Die
from stages.device.energy import Activity, InferenceEnergy, activity_of, inference_energy
from stages.device.energy_profile import EnergyProfile, energy_profile
from stages.device.functional import Execution, Machine
from stages.device.latencies import Latencies
from stages.device.pace import Pace
from stages.device.samples import Samples
from stages.device.session import Length, run_session
from stages.device.session_timeline import session_timeline
from stages.device.surroundings import USUAL, Surroundings
from stages.device.timeline import timeline_of
from stages.device.weather import Climate
from stages.errors import DeviceError
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.spec import HardwareSpec
from stages.package import Package
from stages.plan.costs import Costs, instruction_costs
from stages.plan.timing import run_costs
from stages.tensors import Array
from stages.trace.spans import Timeline

_WEATHER_RUNS = 1 << 10
"""Runs of different weather in a session that lasts for a time; then it comes again."""
_MOST_WEATHER_RUNS = 1 << 14
"""The same in a session of a number of runs."""


class SimulatedDevice:
    """A device made of a hardware spec. It holds one package at a time."""

    def __init__(self, spec: HardwareSpec) -> None:
        self.spec = spec
        self._package: Package | None = None
        self._costs: Costs | None = None
        self._energy: InferenceEnergy | None = None
        self._machine: Machine | None = None

    @property
    def name(self) -> str:
        """The spec's name, marked as simulated."""
        return f"{self.spec.name} (simulated)"

    def load(self, package: Package, folder: Path) -> None:
        """Judge the plan and price it; memory is filled when the first inference comes.

        Raises:
            RefusedPlanError: the plan breaks a rule, or isn't for this device.
        """
        del folder
        admit(package, self.spec)
        plan = package.plan
        self._package = package
        self._costs = instruction_costs(plan, self.spec)
        self._energy = inference_energy(plan, self.spec.power, self._costs)
        self._machine = None

    def infer(self, inputs: Mapping[str, Array]) -> Execution:
        """Run the plan on flat memory."""
        package = self._loaded()
        if self._machine is None:
            self._machine = Machine(package.plan, package.weights, self.spec)
        return self._machine.run(inputs)

    def measure(self, runs: int, warmup: int, seed: int) -> Samples:
        """Runs from a device at rest in its usual air."""
        return self._session(USUAL, Length(runs + warmup), warmup, seed)

    def soak(self, length: Length, seed: int, where: Surroundings) -> Samples:
        """Runs on a device that stood idle in those surroundings, without warm-up.

        Raises:
            InputError: the spec says nothing of air at that speed.
        """
        return self._session(where, length, 0, seed)

    def timeline(self) -> Timeline:
        """One run without jitter at the nominal clock."""
        package = self._loaded()
        assert self._costs is not None
        return timeline_of(package.plan, run_costs(self._costs), self.spec)

    def session_timeline(self, samples: Samples, warmup: int, seed: int) -> Timeline:
        """What a session of `measure` did, run by run."""
        package = self._loaded()
        assert self._costs is not None
        climate = Climate(self.spec, seed)
        return session_timeline(package.plan, self._costs, climate, samples, warmup)

    def counters(self) -> Counters:
        """What is counted in one run without jitter at the nominal clock."""
        package = self._loaded()
        assert self._costs is not None
        return count(package.plan, self._costs, self.spec)

    @property
    def calm_cycles(self) -> int:
        """Cycles of one run without jitter at the nominal clock."""
        self._loaded()
        assert self._costs is not None
        return int(run_costs(self._costs).total_cycles[0])

    @property
    def activity(self) -> Activity:
        """What one inference moves and multiplies, were there no cache."""
        return activity_of(self._loaded().plan)

    @property
    def energy(self) -> InferenceEnergy:
        """What one inference costs, instruction by instruction."""
        self._loaded()
        assert self._energy is not None
        return self._energy

    def _session(self, where: Surroundings, length: Length, warmup: int, seed: int) -> Samples:
        self._loaded()
        assert self._costs is not None
        most = _WEATHER_RUNS if length.runs is None else min(length.runs, _MOST_WEATHER_RUNS)
        latencies = Latencies(self._costs, Climate(self.spec, seed), most)
        die = Die.placed(self.spec, where)
        energy = self.energy
        return run_session(
            latencies, die, energy.femtojoules_at, length, warmup, self._profile(die)
        )

    def _profile(self, die: Die) -> EnergyProfile | None:
        """When energy is spent within a run, where a run is long enough for the die to tell."""
        assert self._costs is not None
        timing = run_costs(self._costs)
        latency_ns = cycles_to_nanoseconds(self.spec, int(timing.total_cycles[0]))
        if latency_ns <= max(Pace.of(die).parts):
            return None
        return energy_profile(timing, self.energy.instruction_femtojoules)

    def _loaded(self) -> Package:
        if self._package is None:
            raise DeviceError("no package is loaded", hint="call `load` first")
        return self._package
