"""The timeline of a session: its inferences in a row, the engines of the first few, the die's
temperature and the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate

from stages.device.latencies import slowed
from stages.device.samples import HeatHistory, Samples
from stages.device.timeline import timeline_of
from stages.device.weather import Climate
from stages.plan.costs import Costs
from stages.plan.instructions import Plan
from stages.plan.timing import run_costs
from stages.trace.spans import Series, Span, Timeline

RUNS_TRACK = "inference"
_MOST_SPANS = 20_000
_MOST_RUNS = 8
_DECIMALS = 3
_FINEST_RATIO = 1 << 20  # of two clocks


def session_timeline(
    plan: Plan, costs: Costs, climate: Climate, samples: Samples, warmup: int
) -> Timeline:
    """The timed inferences of a session of that climate, one behind the other.

    The engines of the first eight are shown, or of as many as keep a trace readable. Each is
    simulated under its own weather at its slowest clock; where the clock changed midway, its spans
    are stretched evenly to the time that it took.
    """
    latencies = samples.latencies_ns.tolist()
    ends = list(accumulate(latencies))
    starts = [0, *ends[:-1]] if ends else []
    heat = samples.heat
    dividers = [1.0] * len(ends) if heat is None else heat.clock_dividers.tolist()
    shown = max(1, min(_MOST_RUNS, _MOST_SPANS // max(1, len(plan.instructions))))
    spans = [
        Span(
            RUNS_TRACK,
            f"inference {run}",
            start,
            end,
            "inference",
            facts={"clock_divider": f"{slow:.4g}"},
        )
        for run, (start, end, slow) in enumerate(zip(starts, ends, dividers, strict=True))
    ]
    for run in range(min(shown, len(ends))):
        cycles = latencies[run] * climate.spec.clock_hz // 1_000_000_000 + 1
        weather = climate.at([run + warmup], cycles)
        slowdown = Fraction(dividers[run]).limit_denominator(_FINEST_RATIO)
        timing = run_costs(slowed(costs, slowdown), weather)
        spans += _placed(timeline_of(plan, timing, climate.spec), starts[run], latencies[run])
    return Timeline(
        (RUNS_TRACK, *plan.queues),
        tuple(spans),
        ends[-1] if ends else 0,
        () if heat is None else _series(heat, starts, ends, climate.spec.clock_hz),
    )


def _placed(run: Timeline, start_ns: int, latency_ns: int) -> Iterator[Span]:
    """The run's spans from `start_ns` on, stretched to its latency."""

    def at(time_ns: int) -> int:
        return start_ns + time_ns * latency_ns // max(1, run.duration_ns)

    for span in run.spans:
        yield Span(
            span.track,
            span.name,
            at(span.start_ns),
            at(span.end_ns),
            span.category,
            span.group,
            span.facts,
        )


def _series(
    heat: HeatHistory, starts: Sequence[int], ends: Sequence[int], clock_hz: int
) -> tuple[Series, ...]:
    """The die at the end of each run; the slowest clock in each, from its start on."""
    celsius = [round(value, _DECIMALS) for value in heat.junction_celsius.tolist()]
    megahertz = [
        round(clock_hz / divider / 1e6, _DECIMALS) for divider in heat.clock_dividers.tolist()
    ]
    return (
        Series("junction", "degC", ends, celsius),
        Series("clock", "MHz", starts, megahertz),
    )
