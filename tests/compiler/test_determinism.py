"""The same model and spec give the same package: twice in a process, and in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.compiler.fingerprint import DEVICES, package_digest

SEEDS = (57, 158, 1169, 2039)


def in_another_process(hash_seed: str, repository: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiler.fingerprint", *map(str, SEEDS)],
        cwd=repository,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_packages_are_the_same_everywhere(repository: Path) -> None:
    first = [package_digest(seed, name) for seed in SEEDS for name in DEVICES]
    again = [package_digest(seed, name) for seed in SEEDS for name in DEVICES]
    assert first == again
    assert in_another_process("1", repository) == first
    assert in_another_process("4242", repository) == first
