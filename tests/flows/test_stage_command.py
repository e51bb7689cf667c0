"""Commands of dvc.yaml: in a forked process or a shell, what they print, and their end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.locks.file_lock import file_lock
from flows.running.guardian import Guardian
from flows.running.stage_command import CommandEnd, StageCommands, has_our_code, recipe_arguments
from stages.errors import Outcome
from tests.flows.command import REPOSITORY, command_environment


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[StageCommands]:
    """Two at a time, in a folder without code of its own."""
    made = StageCommands(2, tmp_path)
    yield made
    made.stop()


def run(commands: StageCommands, folder: Path, *lines: str) -> CommandEnd:
    return commands.run(lines, folder, lambda: None)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("recipe --quiet compile a/b --out c", ("--quiet", "compile", "a/b", "--out", "c")),
        ("recipe a && recipe b", None),
        ("recipe $HOME", None),
        ("recipe 'a b'", None),
        ("sh recipe", None),
        ("", None),
    ],
)
def test_a_plain_recipe_command_needs_no_shell(
    command: str, arguments: tuple[str, ...] | None
) -> None:
    assert recipe_arguments(command) == arguments


def test_a_shell_runs_in_the_folder_and_its_output_is_kept(
    commands: StageCommands, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    end = run(commands, tmp_path / "sub", "pwd; echo no >&2; exit 4")
    assert (end.exit_code, end.output) == (4, f"{tmp_path / 'sub'}\nno\n")
    assert end.died == ""


def test_a_recipe_command_runs_in_a_forked_process(commands: StageCommands, tmp_path: Path) -> None:
    end = run(commands, tmp_path, "recipe --quiet compile nowhere --hardware npu_tiny --out x")
    assert end.exit_code == Outcome.BAD_INPUT
    assert end.output.startswith("error: ")
    assert "nowhere" in end.output


def test_several_commands_stop_at_the_first_that_fails(
    commands: StageCommands, tmp_path: Path
) -> None:
    end = run(commands, tmp_path, "echo 1", "echo 2; exit 7", "echo 3")
    assert (end.exit_code, end.output) == (7, "1\n2\n")
    assert run(commands, tmp_path, "echo 1", "echo 2").output == "1\n2\n"


@pytest.mark.parametrize("command", ["kill -KILL $$", "sh -c 'kill -KILL $$'; exit $?"])
def test_a_killed_command_names_the_signal(
    command: str, commands: StageCommands, tmp_path: Path
) -> None:
    end = run(commands, tmp_path, command)
    assert end.exit_code != 0
    assert end.died == "SIGKILL, perhaps out of memory"


def test_a_command_that_dies_of_an_interrupt_was_interrupted(
    commands: StageCommands, tmp_path: Path
) -> None:
    end = run(commands, tmp_path, "kill -INT $$")
    assert (end.exit_code, end.output, end.died) == (
        Outcome.INTERRUPTED,
        "error: interrupted",
        "",
    )


def test_a_stop_that_meets_a_shell_just_ended_goes_on(
    commands: StageCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Guardian.ended

    def stop_now(guardian: Guardian, process: int) -> None:
        ended(guardian, process)
        commands.stop()

    monkeypatch.setattr(Guardian, "ended", stop_now)
    end = run(commands, tmp_path, "true && true")
    assert end.exit_code == Outcome.INTERRUPTED


def test_stop_ends_a_shell_with_all_that_it_started(
    commands: StageCommands, tmp_path: Path
) -> None:
    ends: list[CommandEnd] = []
    line = "sleep 60 & echo $! > pid; wait"
    thread = threading.Thread(target=lambda: ends.append(run(commands, tmp_path, line)))
    thread.start()
    child = _pid(tmp_path / "pid")
    commands.stop()
    thread.join(10)
    assert ends[0].exit_code == Outcome.INTERRUPTED
    assert not _lives(child)
    assert run(commands, tmp_path, "echo more").exit_code == Outcome.INTERRUPTED


def test_a_folder_with_other_code_has_its_commands_run_with_it(tmp_path: Path) -> None:
    for name in ("flows", "stages"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=ignored)
    assert has_our_code(tmp_path)
    with (tmp_path / "stages" / "version.py").open("a") as stream:
        stream.write("# another\n")
    assert not has_our_code(tmp_path)
    commands = StageCommands(1, tmp_path)
    try:
        line = 'python -c "import stages.version; print(stages.version.__file__)"'
        assert run(commands, tmp_path, line).output == f"{tmp_path / 'stages/version.py'}\n"
    finally:
        commands.stop()


_KILLED = """
import os, sys
from pathlib import Path
from flows.locks.file_lock import file_lock
from flows.running.stage_command import StageCommands

folder = Path(sys.argv[1])
with file_lock(folder / "lock", "the test") as lock:
    line = "sleep 60 & echo $! > pid; wait"
    StageCommands(1, folder, lock).run([line], folder, (folder / "registered").touch)
"""


def test_commands_of_a_killed_run_are_ended_before_the_lock_is_free(tmp_path: Path) -> None:
    run_ = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], env=command_environment()
    )
    child = _pid(tmp_path / "pid")
    assert _lives(child)
    while not (tmp_path / "registered").exists():
        time.sleep(0.01)
    run_.send_signal(signal.SIGKILL)
    run_.wait()
    with file_lock(tmp_path / "lock", "the test"):
        assert not _lives(child)


def _pid(file: Path) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.01)
    raise AssertionError(f"nothing wrote {file}")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
