"""`make bench`: what each stage costs on this machine, and how good its recipes are.

Each stage runs as its own command, so that CPU time and peak memory are that stage's alone,
Python's start and imports included. Writes docs/benchmarks.md. Never asserted in a test.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from flows.benchmarks.choice import bench_parser
from flows.benchmarks.command_cost import run_recipe
from flows.benchmarks.sections import replace_section, table, table_row
from flows.chain_run import open_session, run_session
from flows.project.context import Options
from flows.project.places import PairPlaces, find_project
from flows.project.requests import make_request
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from stages.report.facts import FOLDERS, PairFacts, gather_facts
from stages.units import format_ns

MODELS = ("resnet50", "mobilenetv2", "ppocr_rec", "bert_base")
HARDWARE = ("npu_tiny", "rk3588_npu", "ethos_u65_512", "nvidia_t4")
_COMMANDS = {Stage.THERMAL_STRESS: "stress"}


@dataclass(frozen=True, slots=True)
class StageCost:
    """One run of one stage's command."""

    stage: Stage
    exit_code: int
    cpu_seconds: float
    peak_mib: int


@dataclass(frozen=True, slots=True)
class EngineShare:
    """One `recipe run` of a small pair: all of its wall time, that in which no stage ran, and the
    CPU time of the flow engine and its server."""

    wall_seconds: float
    idle_seconds: float
    cpu_seconds: float


def measure_engine_share(model: str, hardware: str) -> EngineShare:
    """Runs a pair through the flow and says how long no stage was running: Python's start-up apart,
    that is what the flow engine and its server cost. The server's database should exist."""
    with tempfile.TemporaryDirectory() as out:
        terminal = Terminal(quiet=True)
        began = time.monotonic()
        request = make_request([model], [hardware], {}, None, Path(out), None, Options(terminal))
        session = open_session(request, terminal)
        run_session(session)
        idle = session.clock.idle_seconds()
        return EngineShare(time.monotonic() - began, idle, _engine_cpu_seconds())


def _engine_cpu_seconds() -> float:
    """Of this process and of the server that it ended; stages are children of another process."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def engine_share(model: str, hardware: str) -> EngineShare:
    """The same, in a fresh process: Prefect keeps to the first server that a process meets."""
    command = [sys.executable, "-m", "flows.benchmarks.pairs", "--engine-share", model, hardware]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return EngineShare(*map(float, done.stdout.split()[-3:]))


def measure_pair(model: str, hardware: str, out: Path) -> Iterator[StageCost]:
    """Runs the stages of a pair as commands, up to the first that gives no result."""
    places = PairPlaces(out, model, hardware)
    there = ["--hardware", hardware]
    arguments: dict[Stage, list[str | Path]] = {
        Stage.NORMALIZE: [model, "--out", places.normalized],
        Stage.COMPILE: [places.normalized, *there, "--out", places.package],
        Stage.VALIDATE: [places.package, *there, "--normalized", places.normalized,
                         "--out", places.validation],
        Stage.BENCHMARK: [places.package, *there, "--out", places.benchmark],
        Stage.GATE: [places.benchmark, "--validation", places.validation, "--out", places.gate],
        Stage.THERMAL_STRESS: [places.package, *there, "--out", places.stress],
    }  # fmt: skip
    for stage, given in arguments.items():
        cost = measure_command(stage, given)
        yield cost
        if cost.exit_code not in (Outcome.PASSED, Outcome.VALIDATION_FAILED):
            return


def measure_command(stage: Stage, arguments: Sequence[str | Path]) -> StageCost:
    """Runs one stage's command."""
    cost = run_recipe(_COMMANDS.get(stage, stage.value), *arguments)
    return StageCost(stage, cost.exit_code, cost.cpu_seconds, cost.peak_mib)


def _row(model: str, hardware: str, costs: Sequence[StageCost], facts: PairFacts) -> list[str]:
    by_stage = {cost.stage: cost for cost in costs}
    cells = [model, hardware]
    for stage in Stage:
        cost = by_stage.get(stage)
        if cost is None:
            cells.append("")
        elif cost.exit_code in (Outcome.PASSED, Outcome.VALIDATION_FAILED):
            cells.append(f"{cost.cpu_seconds:.1f} s, {cost.peak_mib} MiB")
        else:
            cells.append(f"exit code {cost.exit_code}")
    return [*cells, *_quality(facts)]


def _quality(facts: PairFacts) -> list[str]:
    latency = roofline = groups = fallbacks = sram = ""
    if facts.benchmark is not None:
        latency = format_ns(facts.benchmark.latency.p50_ns)
        roofline = f"{facts.benchmark.roofline.ratio:.2f}"
    if facts.validation is not None:
        groups = str(facts.validation.fused_groups)
        fallbacks = str(sum(len(item.operators) for item in facts.validation.fallbacks))
        use = facts.validation.memory[0]
        sram = (
            f"{use.peak_bytes / use.lower_bound_bytes:.2f}" if use.lower_bound_bytes else "unused"
        )
    return [latency, roofline, groups, fallbacks, sram]


_HEAD = (
    "model", "hardware", "normalize", "compile", "validate", "benchmark", "gate", "thermal stress",
    "P50", "over roofline", "fused groups", "fallbacks", "SRAM over bound",
)  # fmt: skip


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The section of the pairs."""
    return [
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}.",
        "",
        "Each stage ran as its own command: CPU seconds and peak memory, Python's start and",
        "imports included. P50 is the simulated latency; the roofline is the larger of",
        "arithmetic at peak rate and compulsory bytes at full bandwidth. SRAM over bound is",
        "the peak over the most that is live at once. All models but `ppocr_rec` are exported from",
        "torch: `.venv/bin/pip install 'torch>=2.9' 'transformers>=4.57'` first.",
        "",
        *table(_HEAD, rows),
    ]


def engine_lines(share: EngineShare) -> list[str]:
    """The section of the flow engine."""
    return [
        f"`recipe run ppocr_cls --hardware npu_tiny`: {share.wall_seconds:.1f} s of wall time,",
        f"{share.idle_seconds:.1f} s of it with no stage running; Prefect, its server and our",
        f"own process took {share.cpu_seconds:.1f} CPU seconds.",
    ]


def main() -> None:
    """Measures and writes docs/benchmarks.md."""
    parser = bench_parser("pairs", __doc__, MODELS, HARDWARE)
    parser.add_argument("--engine-share", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.engine_share is not None:
        print(*astuple(measure_engine_share(*chosen.engine_share)))
        return
    project = find_project()
    engine_share("ppocr_cls", "npu_tiny")  # makes the database, fetches the model
    share = engine_share("ppocr_cls", "npu_tiny")
    print(f"engine: {share.idle_seconds:.1f} s of {share.wall_seconds:.1f} s", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for model in chosen.models:
            for hardware in chosen.hardware:
                costs = list(measure_pair(model, hardware, out))
                done = {cost.stage.value for cost in costs if cost.exit_code in _WITH_RESULT}
                facts = gather_facts(PairPlaces(out, model, hardware).folder, done & set(FOLDERS))
                rows.append(_row(model, hardware, costs, facts))
                print(table_row(rows[-1]), flush=True)
    target = project.root / "docs" / "benchmarks.md"
    replace_section(target, "The stages", lines(rows))
    replace_section(target, "The flow engine", engine_lines(share))
    print(f"written to {target}")


_WITH_RESULT = (
    Outcome.PASSED,
    Outcome.VALIDATION_FAILED,
    Outcome.GATE_FAILED,
    Outcome.STRESS_FAILED,
)

if __name__ == "__main__":
    main()
