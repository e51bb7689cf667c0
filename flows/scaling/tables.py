"""The tables of docs/scaling.md: simulations asked, answers in Markdown rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np

from flows.benchmarks.sections import table as markdown_table
from flows.scaling.costs import Costs, Work, measured_costs, total_cpu_seconds
from flows.scaling.load import HOUR_SECONDS, Assumptions, profiles
from flows.scaling.measure import Measured
from flows.scaling.queue import Answers, Farm, simulate
from flows.scaling.store import Growth, Volume, growth, model_volumes
from flows.steps.stage_calls import Stage

LIMIT_SECONDS = 900.0
NIGHT_LIMIT_SECONDS = 8 * HOUR_SECONDS
CORES = (1, 2, 4, 8, 16)
_DEVICE_RUNS = 2050
"""Inferences of a pair on a real board: 50 to warm up, 1,000 cold, 1,000 hot."""
_MOST_MACHINES = 4096
_SPANS = (1, 30, 365)


@dataclass(frozen=True, eq=False)
class Study:
    """Simulations of the same span, with the same seeds. Equal only to itself."""

    measured: Measured
    assumptions: Assumptions
    days: int
    seeds: tuple[int, ...]

    def costs(self) -> Costs:
        """What the measured stages cost."""
        return _costs(self)

    def answers(self, farm: Farm, *, nightly: bool) -> list[Answers]:
        """One simulation a seed."""
        return _answers(self, farm, nightly)


@cache
def _costs(study: Study) -> Costs:
    return measured_costs(study.measured, study.assumptions)


@cache
def _answers(study: Study, farm: Farm, nightly: bool) -> list[Answers]:
    return [
        simulate(study.assumptions, study.costs(), farm, study.days, seed, nightly=nightly)
        for seed in study.seeds
    ]


def turnaround_seconds(answers: Iterable[Answers], percent: float) -> float:
    """A percentile of the commits of all seeds."""
    times = [seconds for answer in answers for seconds in answer.turnaround_seconds]
    return float(np.percentile(times, percent, method="higher"))


def longest_night_seconds(answers: Iterable[Answers]) -> float:
    """Of all seeds."""
    return max(night.seconds for answer in answers for night in answer.nights)


def machines_for_commits(study: Study, farm: Farm) -> int | None:
    """The fewest machines with which the P95 of commits is within its limit; None where none do."""

    def enough(machines: int) -> bool:
        answers = study.answers(replace(farm, machines=machines), nightly=False)
        return turnaround_seconds(answers, 95) <= LIMIT_SECONDS

    return _fewest(enough)


def machines_for_both(study: Study, farm: Farm) -> int | None:
    """The fewest with which every night and the P95 of commits are within their limits."""

    def enough(machines: int) -> bool:
        answers = study.answers(replace(farm, machines=machines), nightly=True)
        return (
            longest_night_seconds(answers) <= NIGHT_LIMIT_SECONDS
            and turnaround_seconds(answers, 95) <= LIMIT_SECONDS
        )

    return _fewest(enough)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    most = 1
    while not enough(most):
        most *= 2
        if most > _MOST_MACHINES:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    return "\n".join(markdown_table(head, rows))


def measured_table(study: Study) -> str:
    """What was measured, by model."""
    costs, devices = study.costs(), study.assumptions.devices
    rows = []
    for name, share in study.assumptions.profiles:
        full, timed = (costs.cpu_seconds(name, work) for work in (Work.EVERYTHING, Work.MEASURED))
        volumes = model_volumes(study.measured, name, study.assumptions)
        peak = max(cost.peak_mib for cost in study.measured.costs if cost.model == name)
        rows.append(
            [
                name,
                f"{share:.0%}",
                f"{costs.model_bytes[name] / 1e6:.1f} MB",
                f"{full:.0f} s",
                f"{timed:.0f} s",
                f"{peak} MiB",
                bytes_text(volumes.copies),
                bytes_text(volumes.content),
                bytes_text(volumes.seed),
            ]
        )
    head = (
        "costs as", "share of models", "normalised", f"CPU, all steps, {devices} devices",
        "CPU, new seeds only", "peak memory of a step", "all files", "equal files once",
        "a night's new bytes",
    )  # fmt: skip
    return table(head, rows)


def workers_table(study: Study) -> str:
    """How many machines commits and nights need, by cores of a machine."""
    rows = []
    for cores in CORES:
        farm = Farm(1, cores)
        commits, both = machines_for_commits(study, farm), machines_for_both(study, farm)
        if commits is None or both is None:
            rows.append([str(cores), "no number is enough", *[""] * 8])
            continue
        answers = study.answers(replace(farm, machines=both), nightly=True)
        rows.append(
            [
                str(cores),
                str(commits),
                str(both),
                str(both * cores),
                *[minutes(turnaround_seconds(answers, percent)) for percent in (50, 95, 99)],
                *_nights(answers),
                f"{fmean(answer.busy_share for answer in answers):.0%}",
            ]
        )
    head = (
        "cores a machine", "machines, commits alone", "machines, commits and nights",
        "cores in all", "commit P50", "P95", "P99", "night, new seeds", "night, new compiler",
        "busy",
    )  # fmt: skip
    return table(head, rows)


def _nights(answers: Sequence[Answers]) -> list[str]:
    texts = []
    for changed in (False, True):
        times = [
            night.seconds
            for answer in answers
            for night in answer.nights
            if night.compiler_changed is changed
        ]
        texts.append(f"{max(times) / HOUR_SECONDS:.1f} h" if times else "none")
    return texts


def busier_table(study: Study, farm: Farm) -> str:
    """The same farm with more commits, and more machines for them."""
    rows = []
    for times in (1, 2, 4, 8):
        busier = replace(study.assumptions, commits_a_day=study.assumptions.commits_a_day * times)
        other = replace(study, assumptions=busier)
        for machines in (farm.machines, farm.machines * 2):
            answers = other.answers(replace(farm, machines=machines), nightly=True)
            rows.append(
                [
                    f"{busier.commits_a_day:.0f}",
                    str(machines),
                    *[minutes(turnaround_seconds(answers, percent)) for percent in (50, 95, 99)],
                    f"{longest_night_seconds(answers) / HOUR_SECONDS:.1f} h",
                    f"{fmean(answer.hit_share for answer in answers):.0%}",
                ]
            )
    head = ("commits a day", "machines", "P50", "P95", "P99", "longest night", "cache hits")
    return table(head, rows)


def cuts_table(study: Study, farm: Farm) -> str:
    """How finely commits and nights are cut."""
    rows = []
    for models in (1, 2, 50):
        for shards in (farm.machines, 25, 100, 400):
            cut = replace(farm, commit_shard_models=models, night_shards=shards)
            answers = study.answers(cut, nightly=True)
            rows.append(
                [
                    str(models),
                    str(shards),
                    *[minutes(turnaround_seconds(answers, percent)) for percent in (95, 99)],
                    f"{longest_night_seconds(answers) / HOUR_SECONDS:.1f} h",
                ]
            )
    head = ("models in a commit's shard", "shards a night", "P95", "P99", "longest night")
    return table(head, rows)


def boards_table(study: Study) -> str:
    """What a night would take on one real board of each kind, and how many end in eight hours."""
    rows = []
    fleet = profiles(study.assumptions, 0)
    for spec in study.costs().specs:
        latencies_ns = {name: _p50_ns(study.measured, name, spec) for name in set(fleet)}
        hours = sum(latencies_ns[name] for name in fleet) * _DEVICE_RUNS / 1e9 / HOUR_SECONDS
        boards = int(np.ceil(hours * HOUR_SECONDS / NIGHT_LIMIT_SECONDS))
        rows.append([spec, f"{hours:.1f} h", str(boards)])
    return table(("device", "one board, a night", "boards for 8 hours"), rows)


def _p50_ns(measured: Measured, model: str, spec: str) -> float:
    """On this device, or else on those where the model was measured."""
    by_spec = {
        cost.hardware: cost.p50_ns
        for cost in measured.costs
        if cost.model == model and cost.stage is Stage.BENCHMARK
    }
    return by_spec[spec] if spec in by_spec else fmean(by_spec.values())


def growths(study: Study, farm: Farm) -> Growth:
    """The growth of the first seed's span."""
    answers = study.answers(farm, nightly=True)[0]
    fleet = profiles(study.assumptions, study.seeds[0])
    return growth(study.measured, study.assumptions, fleet, answers, study.days)


def growth_table(study: Study, farm: Farm) -> str:
    """What the store grows by."""
    found = growths(study, farm)
    rows = [
        _growth_row("commits' new contents", found.commits),
        _growth_row("nights with new seeds", found.seeds),
        _growth_row("nights after a compiler change", found.compilers),
        _growth_row("**all, equal files once (DVC)**", found.day),
        _growth_row("all, each run keeps its own files", found.copies),
    ]
    return table(("", "a day", "a year", "objects a day"), rows)


def store_table(study: Study, farm: Farm) -> str:
    """How large the store is after a while, beginning with the present matrix."""
    found = growths(study, farm)
    rows = [
        ["each run keeps its own files", *_sizes(found.live, found.copies, None)],
        ["equal files once (DVC), no `dvc gc`", *_sizes(found.live, found.day, None)],
    ]
    for every in (30, 7):
        label = f"equal files once, `dvc gc` every {every} nights, at most"
        rows.append([label, *_sizes(found.live, found.day, every)])
    spans = [f"after {days} days" if days > 1 else "after a day" for days in _SPANS]
    return table(("", "at first", *spans, "objects in the end"), rows)


def _sizes(live: Volume, day: Volume, collected: int | None) -> list[str]:
    sizes = [live + day * min(days, collected or days) for days in (0, *_SPANS)]
    return [*map(bytes_text, sizes), count(sizes[-1])]


def _growth_row(label: str, volume: Volume) -> list[str]:
    return [label, bytes_text(volume), bytes_text(volume * 365), count(volume)]


def collection_table(study: Study, farm: Farm) -> str:
    """What `dvc gc` costs in hits."""
    rows = []
    for days in (None, 30, 7, 1):
        answers = study.answers(replace(farm, collect_days=days), nightly=True)
        rows.append(
            [
                "never" if days is None else f"every {days} nights" if days > 1 else "every night",
                f"{fmean(answer.hit_share for answer in answers):.1%}",
                minutes(turnaround_seconds(answers, 95)),
            ]
        )
    return table(("`dvc gc`", "steps of commits that the run-cache had", "P95"), rows)


def totals(study: Study) -> tuple[float, float]:
    """CPU hours of the whole matrix: everything, and the timed stages alone."""
    fleet = profiles(study.assumptions, 0)
    everything, timed = (
        total_cpu_seconds(study.costs(), fleet, work) / HOUR_SECONDS
        for work in (Work.EVERYTHING, Work.MEASURED)
    )
    return everything, timed


def minutes(seconds: float) -> str:
    """As text."""
    return f"{seconds / 60:.1f} min"


def bytes_text(volume: Volume) -> str:
    """Its bytes, in decimal units as storage is sold."""
    size, unit = volume.size_bytes, "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def count(volume: Volume) -> str:
    """Its objects."""
    return f"{volume.objects:,.0f}"
