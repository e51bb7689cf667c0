"""The command as a user meets it: help, exit codes, what it imports and how long it takes."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from flows import cli
from flows.terminal.outcomes import exit_code_lines
from stages.errors import HardwareSpecError, InputError, Outcome
from tests.flows.command import REPOSITORY, command_environment, recipe

COMMANDS = ["run", "normalize", "compile", "validate", "benchmark", "gate", "stress", "show",
            "export", "hardware", "models", "baseline", "calibrate"]  # fmt: skip
HEAVY = ("prefect", "dvc", "onnxruntime", "onnxscript", "torch", "onnx", "numpy", "scipy")


def test_help_names_every_command_and_every_exit_code() -> None:
    ended = recipe("--help")
    assert ended.code == Outcome.PASSED
    words = ended.out.split()
    assert [name for name in COMMANDS if name not in words] == []
    flat = " ".join(words)
    assert [line for line in exit_code_lines() if " ".join(line.split()) not in flat] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    ended = recipe(command, "--help")
    assert ended.code == Outcome.PASSED
    assert "Usage: recipe " + command in ended.out


def test_help_takes_less_than_half_a_second_of_cpu() -> None:
    recipe("--help")  # writes the bytecode
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    recipe("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def modules_after(code: str) -> set[str]:
    """Top-level modules imported once `code` has run."""
    script = f"{code}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env=command_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_command_alone_imports_nothing_heavy() -> None:
    loaded = modules_after("import flows.cli")
    assert [name for name in HEAVY if name in loaded] == []


def test_single_stages_never_import_the_flow_engine() -> None:
    loaded = modules_after("import flows.cli, flows.steps.stage_calls, flows.running.preloaded")
    assert not loaded & {"prefect", "dvc"}


def test_no_arguments_show_the_help_and_count_as_wrong_usage() -> None:
    ended = recipe()
    assert ended.code == Outcome.BAD_INPUT
    assert "Usage: recipe" in ended.out + ended.err


@pytest.mark.parametrize("arguments", [["nonsense"], ["run"], ["run", "x.onnx", "--jobs", "0"]])
def test_wrong_usage_ends_as_bad_input(arguments: list[str]) -> None:
    ended = recipe(*arguments)
    assert ended.code == Outcome.BAD_INPUT
    assert "Traceback" not in ended.err


def test_errors_say_what_where_and_the_cure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise HardwareSpecError("sram.size = -1", where="a.yaml:3", hint="give a size")

    monkeypatch.setattr(cli, "app", refuse)
    assert cli.call(["hardware", "list"]) is Outcome.BAD_HARDWARE_SPEC
    assert capsys.readouterr().err == "error: sram.size = -1\nat: a.yaml:3\nhint: give a size\n"


def interrupted_inside(error: Exception) -> Exception:
    """The error that an extension makes of an interrupt."""
    error.__cause__ = KeyboardInterrupt()
    return error


def test_unknown_errors_and_ctrl_c_have_their_own_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_this(error: BaseException) -> int:
        def command(*_arguments: object, **_options: object) -> None:
            raise error

        monkeypatch.setattr(cli, "app", command)
        return cli.call([])

    assert raise_this(KeyError("x")) == Outcome.INTERNAL_ERROR
    assert "bug of the recipe pipeline" in capsys.readouterr().err
    assert raise_this(KeyboardInterrupt()) == Outcome.INTERRUPTED
    assert raise_this(interrupted_inside(ImportError("initialization failed"))) == (
        Outcome.INTERRUPTED
    )
    assert raise_this(interrupted_inside(InputError("unreadable"))) == Outcome.INTERRUPTED
    assert not capsys.readouterr().err


def test_lists_are_plain_lines_where_stdout_is_no_terminal() -> None:
    for command in ("hardware", "models"):
        ended = recipe(command, "list")
        assert ended.code == Outcome.PASSED
        assert "\x1b" not in ended.out
    assert "ppocr_cls" in ended.out
