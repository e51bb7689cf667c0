"""What the matrix costs beyond its stages, and how well it uses two cores.

For the first, the project under test has this project's dvc.yaml, code and dependencies, but as
many models and devices as asked, and each command copies what one real pair wrote. For the second,
real stages run cold. Each figure comes from a fresh process. `make bench` writes
docs/matrix-benchmarks.md; `python -m flows.benchmarks.matrix 2x2 10x4` measures some sizes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from flows.benchmarks.sections import table
from flows.nights.idle_night import fresh_matrix
from flows.project.files import write_beside
from flows.project.places import CACHE_VARIABLE, PairPlaces, Project, find_project
from flows.running.engine import flow_engine
from flows.running.flow_server import FlowServer
from flows.steps.matrix_request import RESULTS_FOLDER, MatrixRequest, Standing
from flows.steps.stage_calls import Stage
from flows.steps.step_reports import folder_of
from flows.terminal.terminal import Terminal
from stages.errors import Outcome

SIZES = ("2x2", "10x4", "40x6")
REAL = {
    "models": ["ppocr_cls", "ppocr_rec", "magika", "silero_vad", "quantized_cnn", "residual_cnn"],
    "hardware": ["npu_tiny", "rk3588_npu", "ethos_u65_512", "nvidia_t4"],
}
_MODEL, _HARDWARE = "quantized_cnn", "npu_tiny"
_COPIED = ("stages", "models/__init__.py", ".dvcignore")


@dataclass(frozen=True, slots=True)
class EngineCost:
    """CPU seconds of the process that runs the flow, of its server, and of the commands; steps that
    ran."""

    wall_seconds: float
    own_seconds: float
    server_seconds: float
    command_seconds: float
    steps: int


def measure(size: str, project: Project) -> Iterator[tuple[str, EngineCost]]:
    """A cold run of a matrix of MODELSxDEVICES, then one in which nothing is stale."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        build(root, size, project)
        for what in ("cold", "no-op"):
            wall, own, server, commands, steps = _said_by_run("--run", root, project)[-5:]
            seconds = (float(wall), float(own), float(server), float(commands))
            yield what, EngineCost(*seconds, int(steps))


@dataclass(frozen=True, slots=True)
class CoreUse:
    """Of a cold run of real stages: wall time from the first command's start to the last one's end,
    and the share of it in which at least two ran."""

    seconds: float
    share_of_two: float
    steps: int


def measure_real(project: Project) -> CoreUse:
    """The matrix REAL, cold, in a clone of the project."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        subprocess.run(["git", "clone", "-q", project.root, root], check=True)
        params = yaml.safe_load((root / "params.yaml").read_text()) | {"matrix": REAL}
        (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
        seconds, share, steps = _said_by_run("--run-real", root, project)[-3:]
        return CoreUse(float(seconds), float(share), int(steps))


def _said_by_run(flag: str, root: Path, project: Project) -> list[str]:
    """The words that a run in a fresh process prints; its server's database is the project's."""
    command = [sys.executable, "-m", "flows.benchmarks.matrix", flag, str(root)]
    shared = {**os.environ, CACHE_VARIABLE: str(project.cache.absolute())}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env=shared, cwd=project.root
    )
    return done.stdout.split()


def _run_real(root: Path) -> None:
    """One run, for `measure_real`. A model that a device refuses is part of it."""
    with flow_engine(Project(root)):
        from flows.matrix import run_matrix

        result = run_matrix(MatrixRequest(root, jobs=2), Terminal(quiet=True))
    spans = sorted(result.spans)
    seconds = max(end for _, end in spans) - spans[0][0]
    print(seconds, _seconds_of_two(spans) / seconds, len(spans))


def _seconds_of_two(spans: Sequence[tuple[float, float]]) -> float:
    """The time in which at least two spans overlap."""
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    total, running, before = 0.0, 0, edges[0][0]
    for at, change in edges:
        total += at - before if running > 1 else 0.0
        running, before = running + change, at
    return total


def build(root: Path, size: str, project: Project) -> None:
    """A Git and DVC project in `root` with so many models and devices."""
    models, devices = (int(word) for word in size.split("x"))
    root.mkdir()
    for name in _COPIED:
        source, target = project.root / name, root / name
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, target)
    graph = yaml.safe_load((project.root / "dvc.yaml").read_text())
    for path in graph["stages"]["normalize"]["deps"]:
        if path.endswith(".py"):
            shutil.copy2(project.root / path, root / path)
    for stage in Stage:
        graph["stages"][stage.value]["cmd"] = _copy_command(stage)
    (root / "dvc.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    names = {"models": [f"m{i}" for i in range(models)], "hardware": _device_names(devices)}
    params = yaml.safe_load(project.params.read_text()) | {"matrix": names}
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    for name in names["models"]:
        (root / "models" / name).mkdir()
        (root / "models" / name / "model.yaml").write_text(f"name: {name}\n")
    for name in names["hardware"]:
        (root / "baselines" / name).mkdir(parents=True)
        (root / "hardware_specs").mkdir(exist_ok=True)
        (root / "hardware_specs" / f"{name}.yaml").write_text(f"name: {name}\n")
    _make_pair(root / "canned", project)
    for command in ("git init -q", "dvc init -q"):
        subprocess.run([*_tool(command.split())], cwd=root, check=True)


def _device_names(count: int) -> list[str]:
    return [f"d{i}" for i in range(count)]


def _tool(words: list[str]) -> list[str]:
    return [sys.executable, "-m", *words] if words[0] == "dvc" else words


def _copy_command(stage: Stage) -> str:
    canned = folder_of(stage, PairPlaces(Path("canned"), "model", "device"))
    there = folder_of(stage, PairPlaces(Path(RESULTS_FOLDER), "${item.model}", "${item.hardware}"))
    return f"mkdir -p {there} && cp -r {canned}/. {there}/"


def _make_pair(out: Path, project: Project) -> None:
    """What a small real pair writes, once in a cache beside the others, and anew where dvc.yaml
    asks for other files."""
    asked = hashlib.sha256((project.root / "dvc.yaml").read_bytes()).hexdigest()
    cached = project.cache / f"bench_pair_{asked[:12]}"
    if not cached.is_dir():
        with tempfile.TemporaryDirectory(dir=project.cache) as folder:
            command = [sys.executable, "-m", "flows", "--quiet", "run", _MODEL]
            command += ["--hardware", _HARDWARE, "--out", folder]
            subprocess.run(command, cwd=project.root, check=True, stdout=subprocess.DEVNULL)
            shutil.move(folder, cached)
            Path(folder).mkdir()
    made = PairPlaces(cached, _MODEL, _HARDWARE)
    shutil.copytree(made.normalized, out / "normalized" / "model")
    shutil.copytree(made.folder, out / "device" / "model")


def _run(root: Path) -> None:
    """One run, for `measure`: as `recipe flow nightly --only-stale` goes about it."""
    began, own = time.monotonic(), _cpu_seconds(resource.RUSAGE_SELF)
    result, server_seconds = fresh_matrix(root), 0.0
    if result is None:
        with flow_engine(Project(root)):
            from flows.matrix import run_matrix

            result = run_matrix(MatrixRequest(root), Terminal(quiet=True))
            server = FlowServer(Project(root).cache / "prefect").find_running()
            server_seconds = sum(psutil.Process(server).cpu_times()[:2]) if server else 0.0
    if result.outcome is not Outcome.PASSED:
        raise SystemExit(f"the run under test ended with {result.outcome.name}")
    ran = sum(answer.standing is Standing.RAN for answer in result.answers.values())
    commands = max(0.0, _cpu_seconds(resource.RUSAGE_CHILDREN) - server_seconds)
    seconds = time.monotonic() - began, _cpu_seconds(resource.RUSAGE_SELF) - own
    print(*seconds, server_seconds, commands, ran)


def _cpu_seconds(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def cost_table(rows: Sequence[tuple[str, str, EngineCost]]) -> list[str]:
    """The lines of docs/matrix-benchmarks.md."""
    head = (
        "matrix",
        "run",
        "steps run",
        "wall",
        "engine, CPU s",
        "server, CPU s",
        "commands, CPU s",
    )
    cells = [
        (size, what, str(cost.steps), f"{cost.wall_seconds:.1f} s", f"{cost.own_seconds:.1f}",
         f"{cost.server_seconds:.1f}", f"{cost.command_seconds:.1f}")
        for size, what, cost in rows
    ]  # fmt: skip
    return table(head, cells)


def page(rows: Sequence[tuple[str, str, EngineCost]], use: CoreUse) -> str:
    """docs/matrix-benchmarks.md."""
    return "\n".join(
        [
            "# What the matrix costs",
            "",
            "Made by `make bench`; figures of one machine, never asserted in a test.",
            f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}.",
            "",
            "This project's own dvc.yaml with commands that only copy. CPU seconds of the process",
            "that runs the flow (Python's start, Prefect's and DVC's imports included), of the",
            "Prefect server beside it (its start included), and of the commands themselves.",
            "",
            *cost_table(rows),
            "",
            "## Two cores",
            "",
            f"Real stages, cold, {len(REAL['models'])} models on {len(REAL['hardware'])} devices:",
            f"{use.steps} commands in {use.seconds:.0f} s, {use.share_of_two:.0%} of the time two",
            "or more at once.",
            "",
        ]
    )


def main() -> None:
    """Prints the table; writes the page where all was measured."""
    parser = argparse.ArgumentParser(prog="python -m flows.benchmarks.matrix", description=__doc__)
    parser.add_argument("sizes", nargs="*", default=SIZES, metavar="MODELSxDEVICES")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run-real", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    os.environ["DVC_NO_ANALYTICS"] = "1"
    if chosen.run is not None:
        _run(chosen.run)
        return
    if chosen.run_real is not None:
        _run_real(chosen.run_real)
        return
    project = find_project()
    rows = [(size, *row) for size in chosen.sizes for row in measure(size, project)]
    print("\n".join(cost_table(rows)), flush=True)
    if tuple(chosen.sizes) == SIZES:
        target = project.root / "docs" / "matrix-benchmarks.md"
        write_beside(target, page(rows, measure_real(project)).encode())
        print(f"written to {target}")


if __name__ == "__main__":
    main()
