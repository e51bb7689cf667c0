"""`python -m flows.scaling.report`: how many workers 1,000 models on 20 devices take, and how the
store grows. Writes docs/scaling.md from docs/scaling/*.csv; the same on every machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flows.project.files import write_beside
from flows.project.places import find_project
from flows.scaling import tables
from flows.scaling.load import Assumptions
from flows.scaling.measure import data_folder, read_measured
from flows.scaling.queue import Farm
from flows.scaling.tables import Study

DAYS = 10
SEEDS = (1, 2, 3)
SHOWN = Farm(machines=2, cores=8)
"""The farm of the tables that vary something else."""


def page(study: Study) -> str:
    """docs/scaling.md."""
    everything, timed = tables.totals(study)
    wanted = study.assumptions
    pairs = wanted.models * wanted.devices
    return "\n".join(
        [
            _HEAD.format(models=wanted.models, devices=wanted.devices, pairs=pairs),
            tables.measured_table(study),
            _MEASURED.format(
                everything=everything, timed=timed, pairs=pairs, steps=wanted.steps(wanted.models)
            ),
            _ASSUMED,
            _assumptions(wanted),
            _QUEUE.format(days=study.days, seeds=len(study.seeds)),
            tables.workers_table(study),
            _BUSIER.format(machines=SHOWN.machines, cores=SHOWN.cores),
            tables.busier_table(study, SHOWN),
            _CUTS,
            tables.cuts_table(study, SHOWN),
            _BOARDS,
            tables.boards_table(study),
            _STORE,
            tables.growth_table(study, SHOWN),
            "",
            tables.store_table(study, SHOWN),
            _COLLECT,
            tables.collection_table(study, SHOWN),
            _LIMITS,
        ]
    )


def _assumptions(wanted: Assumptions) -> str:
    spreads = ", ".join(
        f"{spread.fewest if spread.fewest == spread.most else f'{spread.fewest}-{spread.most}'}"
        f" ({spread.share:.0%})"
        for spread in wanted.spreads
    )
    new = 1 - wanted.follow_up_share - wanted.merge_share - wanted.revert_share
    rows = [
        ["commits a day", f"{wanted.commits_a_day:.0f}, Poisson, every day of the year"],
        [
            "when",
            f"even from {wanted.day_starts_hour:.0f} to {wanted.day_ends_hour:.0f} h, "
            f"{wanted.outside_share:.0%} at any hour",
        ],
        ["models that a commit changes", spreads],
        [
            "what a commit is",
            f"a new branch ({new:.0%}), more work on an open one ({wanted.follow_up_share:.0%}), "
            f"a merge of one ({wanted.merge_share:.0%}), a revert ({wanted.revert_share:.0%})",
        ],
        [
            "new files whose normalised model is the one before",
            f"{wanted.same_graph_share:.0%} (names, metadata)",
        ],
        ["models in one repository", f"{wanted.repository_models}"],
        [
            "nights before which the compiler changed",
            f"{wanted.compiler_change_share:.0%}; every step runs, plans change, packed weights "
            + ("don't" if wanted.compiler_keeps_weights else "do too"),
        ],
        ["the nightly starts at", f"{wanted.nightly_starts_hour:.0f} h"],
        [
            "the engine",
            f"{wanted.engine_start_seconds} s a run, {1000 * wanted.engine_step_seconds:.0f} ms "
            f"for each step in its graph, {1000 * wanted.restore_step_seconds:.0f} ms to save or "
            "restore a step's outputs",
        ],
    ]
    return tables.table(("what", "how it is supposed"), rows)


_HEAD = """# Scaling: {models:,} models, {devices} devices, 50 commits a day

Made by `python -m flows.scaling.report`, the same on every machine: a discrete-event simulation
(simpy) of the queue and of the run-cache, over costs and sizes that
`python -m flows.scaling.measure` took from this project's own stages
(`docs/scaling/*.csv`). The matrix has {pairs:,} pairs.

## What was measured

CPU seconds of the stage commands on one core, Python's start included; sizes of the files that they
left, by content. A model's files for several devices are often the same bytes, and so are a night's
traces, which hold the plan's course without weather: DVC stores equal files once.
"""

_MEASURED = """
The devices of the fleet cost what the four measured specs cost, in equal numbers. Everything of
all {pairs:,} pairs ({steps:,} steps) is **{everything:.0f} CPU hours**; a night with new seeds,
which restores all but the timed stages, is **{timed:.0f} CPU hours**. Where a model wasn't measured
on a device, what it took on the others stands for it.
"""

_ASSUMED = """## What is supposed

A run-cache hit is not supposed: commits carry contents, and the simulated cache knows what it has
seen with the present compiler. A merge brings contents that its branch has run; a compiler change
makes all of them new.
"""

_QUEUE = """
## Workers

A machine takes one shard at a time, gives it all its cores (`--jobs`), and is never interrupted;
shards of commits go before shards of nights (two work queues of a Prefect pool). A commit is one
shard, as `recipe flow commit` runs it; the night is cut into 100 as `flows/workers/shards.py` cuts
it: all pairs of a model in one shard, the largest first. The run that collects a night has a
machine of its own, and uses one core of it. {days} days, {seeds} seeds; the fewest machines with
which the P95 of a commit's turnaround is within 15 minutes and every night ends within 8 hours.
"""

_BUSIER = """
More commits, on {machines} machines of {cores} cores, and on twice as many:
"""

_CUTS = """
How fine to cut. Few shards a night leave machines idle at its end and let a commit wait behind a
long shard; many cost the start of each. Commits cut into shards of few models would use more than
one machine's cores, which is worth little:
"""

_BOARDS = """
The simulated device takes a core and no more. A real board takes as long as the model does: 2,050
inferences a pair (50 to warm up, 1,000 cold, 1,000 hot), one at a time. What a night over all
models takes on one board that is as slow as these devices' P50 says, loading and cooling apart:
"""

_STORE = """
## The store

What DVC's cache and its remote grow by. Equal files once is what DVC does by itself, file by
file: a new version of a model stores its weights again, whole. The other way is that each run keeps
all files that it needed or made, as build artefacts are often kept.
"""

_COLLECT = """
`dvc gc --workspace --cloud`, run in the nightly's workspace after the night, keeps what the present
matrix holds and nothing else: the store stops growing. Figures of the past stay in `history/`,
which is no part of the store. The run-cache's entries stay too, 2 to 3 kB each: an entry whose
files are gone is no hit, and its steps run again. So a merge of a branch that ran before the
collection runs once more:
"""

_LIMITS = """
## What to take from it

- Commits need little: most of them change one model, which is minutes on one machine. What sizes
  the farm is the night after a compiler change.
- One graph of the whole matrix is the part that more machines don't make faster: the run that
  collects the shards reads and restores every step, on one core. Commits read only the graph of
  their own repository, shards only that of their own models.
- Where boards are real, boards are what is short, not workers: fewer runs, or fewer models a night
  (`--only-stale`), help more than machines.
- A night with new seeds adds many small objects and few bytes; what fills the store is new
  contents of models, whose packages hold their weights again for each kind of device. Collect.
- A commit on a machine of one core is slow however many machines there are: it is one shard.

## What it leaves out

Machines that fail, transfers between machines and the remote, hardware-spec changes (a spec's
change is one device's part of a night after a compiler change), memory (a machine needs the peak of
a step times its cores), and queues of the CI service before a run begins. A core of another speed
scales every time. The measured models stand for all others: put your own into
`python -m flows.scaling.measure --models ...` and their shares into `Assumptions`.
"""


def main() -> None:
    """Simulates and writes docs/scaling.md."""
    parser = argparse.ArgumentParser(prog="python -m flows.scaling.report", description=__doc__)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    project = find_project()
    measured = read_measured(data_folder(project))
    study = Study(measured, Assumptions(), chosen.days, SEEDS)
    target = chosen.out or project.root / "docs" / "scaling.md"
    write_beside(target, page(study).encode())
    print(f"written to {target}")


if __name__ == "__main__":
    main()
