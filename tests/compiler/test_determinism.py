"""The same model and spec give the same package: twice in a process, in other ones whose threads,
hash seed, locale, time zone, folder and processor differ, and on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from stages.compiler.exact import factor_bits, on_grid
from tests.compiler.fingerprint import DEVICES, package_digest

SEEDS = (57, 158, 1169, 2039)
ONE = {
    "PYTHONHASHSEED": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "LC_ALL": "C",
    "TZ": "UTC",
}
OTHER = {
    "PYTHONHASHSEED": "4242",
    "OPENBLAS_NUM_THREADS": "4",
    "OPENBLAS_CORETYPE": "Sandybridge",
    "LC_ALL": "tr_TR.UTF-8",
    "TZ": "Pacific/Kiritimati",
}
"""Turkish has an i of its own; Sandybridge's vectors are narrower, and it has no fused products."""


def in_another_process(repository: Path, folder: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiler.fingerprint", *map(str, SEEDS)],
        cwd=folder,
        env=os.environ | environment | {"PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@contextmanager
def busy_machine() -> Iterator[None]:
    """As many processes as there are cores, and one more, that do nothing but work."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_packages_are_the_same_everywhere(repository: Path, tmp_path: Path) -> None:
    first = [package_digest(seed, name) for seed in SEEDS for name in DEVICES]
    again = [package_digest(seed, name) for seed in SEEDS for name in DEVICES]
    assert first == again
    assert in_another_process(repository, repository, ONE) == first
    with busy_machine():
        assert in_another_process(repository, tmp_path, OTHER) == first


def test_no_order_of_terms_changes_a_sum_of_products() -> None:
    """All of one sign and near the largest, so that a sum needs all the bits that it may need."""
    random = np.random.default_rng(1)
    x, w = random.uniform(0.9, 1, (64, 3072)), random.uniform(0.9, 1, (3072, 64))
    order = random.permutation(3072)
    assert np.matmul(x, w).tobytes() != np.matmul(x[:, order], w[order]).tobytes(), "else no test"
    bits = factor_bits(3072)
    a, b = on_grid(x, bits), on_grid(w, bits)
    assert np.matmul(a, b).tobytes() == np.matmul(a[:, order], b[order]).tobytes()
    np.testing.assert_allclose(np.matmul(a, b), np.matmul(x, w), rtol=0, atol=1e-3)
    single = on_grid(x.astype(np.float32), bits)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, x, rtol=0, atol=2.0**-16)


def test_what_has_no_grid_is_left_as_it_is() -> None:
    for data in (np.array([1.0, np.inf]), np.zeros(3), np.arange(4), np.array([1e-300])):
        assert on_grid(data, 20) is data
