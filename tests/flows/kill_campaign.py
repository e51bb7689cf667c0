"""Kills runs of a matrix at random moments, and looks at what the next run makes of it.

    python -m tests.flows.kill_campaign --kills 30 --seed 0

A moment is drawn as a number of commands that have begun or ended, and a few milliseconds more, so
that it doesn't depend on how busy the machine is. Half of the kills hit the main process alone, the
others its whole process group.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from flows.locks.file_lock import file_lock
from flows.project.places import CACHE_VARIABLE
from flows.running.flow_server import API_VARIABLE, FlowServer
from flows.steps.matrix_request import LOCK_FILE
from flows.terminal.outcomes import MEANINGS
from stages.errors import Outcome
from tests.flows.command import Ended, command_environment, recipe_inside_project
from tests.flows.matrix_project import LOG, MatrixProject, make_matrix_project

_JOBS = 2
ARGUMENTS = ("flow", "nightly", "--only-stale", "--jobs", str(_JOBS))
COMMAND = ("-m", "flows", *ARGUMENTS)
_KNOWN_HIDDEN = {".gitignore"}


@dataclass(frozen=True)
class Moment:
    """When to kill, and whom: after so many lines of the log of commands, and a delay."""

    lines: int
    delay_seconds: float
    whole_group: bool


@dataclass
class Aftermath:
    """What a kill left, and what the next run did. `problems` is empty where all is well."""

    moment: Moment
    saved: int = 0
    repeated: int = 0
    finished_unsaved: int = 0
    killed: bool = True
    next_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        whom = "group" if self.moment.whole_group else "main "
        said = "; ".join(self.problems) or "ok"
        return (
            f"after line {self.moment.lines:>3} + {self.moment.delay_seconds:.2f} s, {whom}: "
            f"{self.saved:>2} saved, {self.repeated} ran again ({self.finished_unsaved} had come "
            f"to their end), next run {self.next_seconds:.0f} s: {said}"
        )


@dataclass(frozen=True)
class Campaign:
    """`undisturbed` was run in peace; `pristine` never. `home` is the flow server's."""

    pristine: MatrixProject
    undisturbed: MatrixProject
    home: Path

    @staticmethod
    def make(folder: Path, models: int, hardware: int, home: Path) -> Campaign:
        """Makes both, and runs the one."""
        names = [f"m{number}" for number in range(models)]
        devices = [f"h{number}" for number in range(hardware)]
        pristine = make_matrix_project(folder / "pristine", names, devices)
        campaign = Campaign(pristine, pristine.copied(folder / "undisturbed"), home)
        ended = campaign.run(campaign.undisturbed)
        assert ended.code == Outcome.PASSED, ended.err
        return campaign

    @property
    def steps(self) -> int:
        """All there are."""
        return len(self.undisturbed.lock())

    def draw(self, generator: random.Random) -> Moment:
        """Any moment, from the start of the run until after the end of its last command."""
        lines = generator.randint(0, 2 * self.steps)
        return Moment(lines, generator.uniform(0.0, 0.3), generator.random() < 0.5)

    def start(self, project: MatrixProject, home: Path | None = None) -> subprocess.Popen[str]:
        """A run in a process group of its own, as under a terminal."""
        return subprocess.Popen(
            [sys.executable, *COMMAND],
            cwd=project.root,
            env=command_environment() | {CACHE_VARIABLE: str(home or self.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, project: MatrixProject) -> Ended:
        """A run in peace, in this process, which spares the imports."""
        home = {CACHE_VARIABLE: str(self.home)}
        return recipe_inside_project(project.root, *ARGUMENTS, **home)

    def kill(self, folder: Path, moment: Moment) -> Aftermath:
        """Kills a run at that moment, runs again, and looks."""
        project = self.pristine.copied(folder)
        after = Aftermath(moment)
        after.killed = self._run_and_kill(project, moment)
        with file_lock(project.root / LOCK_FILE, "the results"):  # its last commands are ended, too
            pass
        after.saved = _saved(project)
        before, finished = Counter(project.began()), Counter(project.ended())
        project.forget()
        began = time.monotonic()
        ended = self.run(project)
        after.next_seconds = time.monotonic() - began
        again = Counter(project.began())
        after.repeated = sum((again & before).values())
        after.finished_unsaved = sum((again & finished).values())
        self._judge(project, ended, again, after)
        return after

    def _run_and_kill(self, project: MatrixProject, moment: Moment) -> bool:
        process = self.start(project)
        log = project.root / LOG
        while process.poll() is None and _lines(log) < moment.lines:
            time.sleep(0.002)
        time.sleep(moment.delay_seconds)
        alive = process.poll() is None
        if alive and moment.whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.communicate()
        return alive

    def _judge(
        self,
        project: MatrixProject,
        ended: Ended,
        again: Counter[str],
        after: Aftermath,
    ) -> None:
        claims = {
            f"exit code {ended.code}: {MEANINGS.get(Outcome(ended.code))}": (
                ended.code == Outcome.PASSED
            ),
            "a traceback": "Traceback" not in ended.err,
            f"ran {sum(again.values())} commands, where {self.steps} - {after.saved} were due": (
                sum(again.values()) == self.steps - after.saved
            ),
            "more had ended unsaved than may run at once": after.finished_unsaved <= _JOBS,
            "a command ran twice": max(again.values(), default=1) == 1,
            "`dvc status` isn't clean": project.status() == {},
            "other results": project.results() == self.undisturbed.results(),
            "another dvc.lock": project.lock() == self.undisturbed.lock(),
            f"left behind: {_hidden(project)}": not _hidden(project),
        }
        after.problems += [what for what, holds in claims.items() if not holds]
        if after.problems:
            after.problems.append(ended.err[-2000:])


def _saved(project: MatrixProject) -> int:
    """Entries in the run-cache."""
    runs = project.root / ".dvc" / "cache" / "runs"
    return sum(1 for path in runs.rglob("*") if path.is_file() and not path.name.startswith("."))


def _lines(log: Path) -> int:
    try:
        return log.read_bytes().count(b"\n")
    except OSError:
        return 0


def _hidden(project: MatrixProject) -> list[str]:
    """Hidden files where only a killed writer leaves them; but for DVC's own, which are swept from
    its cache an hour later."""
    found = [
        path.relative_to(project.root).as_posix()
        for folder in ("results", ".dvc")
        for path in (project.root / folder).rglob(".*")
        if path.name not in _KNOWN_HIDDEN and not (folder == ".dvc" and path.suffix == ".tmp")
    ]
    return sorted(found)


def runs_left_running(url: str) -> list[str]:
    """The names of flow runs that Prefect takes for running."""
    import httpx

    body = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}
    answer = httpx.post(f"{url}/flow_runs/filter", json=body, timeout=60)
    answer.raise_for_status()
    return [f"{run['name']} of {run['start_time']}" for run in answer.json()]


def main() -> int:
    """Runs a campaign; 0 where every kill was survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--hardware", type=int, default=3)
    given = parser.parse_args()
    generator = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = FlowServer(
            folder / "cache" / "prefect"
        )  # one for all runs: starting takes seconds
        server.open()
        server.wait_until_ready()
        url = os.environ.pop(API_VARIABLE)
        try:
            campaign = Campaign.make(folder, given.models, given.hardware, folder / "cache")
            bad = 0
            for number in range(given.kills):
                after = campaign.kill(folder / f"kill{number}", campaign.draw(generator))
                left = runs_left_running(url)
                if left:
                    after.problems.append(f"left running in Prefect: {left}")
                bad += bool(after.problems)
                print(f"{number + 1:>3} {after}", flush=True)
        finally:
            server.close()
    print(f"{given.kills} kills, {bad} not survived")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
