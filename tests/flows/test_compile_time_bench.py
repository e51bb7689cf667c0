"""The section on compile times: shares and growth, and how a command is run."""

from __future__ import annotations

import subprocess

import pytest

from flows.benchmarks.command_cost import run_recipe
from flows.benchmarks.compile_time import CompileTime, lines


def test_shares_and_growth() -> None:
    small = CompileTime("vit_base", "npu", 100, 1_000, 2.0, 0.5)
    large = CompileTime("vit_large", "npu", 200, 8_000, 16.0, 4.0)
    text = lines([small, large])
    assert "| vit_base | npu | 100 | 1,000 | 2.00 s | 0.50 s | 25% |  |" in text
    assert text[-2:] == [
        "From ViT-Base to ViT-Large on npu: operators to the power of 3.00,",
        "instructions to the power of 1.00.",
    ]


def test_a_command_keeps_its_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, str]] = []
    started = subprocess.Popen

    def popen(command: list[str], stdin: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
        told.append(env)
        return started(["true"], stdin=stdin, env=env)

    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(subprocess, "Popen", popen)
    assert run_recipe("--help").exit_code == 0
    assert "PYTHONDONTWRITEBYTECODE" not in told[0]
    assert "PATH" in told[0]
