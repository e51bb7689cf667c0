"""Sets of inputs are refused where they don't match, are empty, or hold NaN or infinity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stages.errors import InputError
from stages.quantizer.sets import InputSet, load_set
from stages.tensors import DType, TensorType

TYPES = {"x": TensorType(DType.F32, (1, 4)), "n": TensorType(DType.I64, (2,))}
X, N = np.ones((3, 1, 4), np.float32), np.ones((3, 2), np.int64)


def load(folder: Path, **arrays: np.ndarray) -> InputSet:
    np.savez(folder / "set.npz", **arrays)
    return load_set("set.npz", "calibration", folder / "q.yaml", folder / "none.npz", TYPES)


def test_several_samples_along_an_axis_in_front(tmp_path: Path) -> None:
    found = load(tmp_path, x=X, n=N)
    assert len(found.samples) == 3
    assert found.samples[2]["x"].shape == (1, 4)
    assert len(found.sha256) == 64


NAN, INFINITE = X.copy(), X.copy()
NAN[1, 0, 2] = np.nan
INFINITE[2, 0, 0] = -np.inf


@pytest.mark.parametrize(
    ("arrays", "problem", "hint"),
    [
        ({"x": X}, "'n'", "x"),
        ({"x": X, "n": N, "z": N}, "'z'", "x, n"),
        ({"x": X[:, :, :3], "n": N}, "float32[1, 3]", "[1, 4]"),
        ({"x": X.astype(np.float64), "n": N}, "float64[1, 4]", "float32"),
        ({"x": X[:2], "n": N}, "x 2, n 3", "same number"),
        ({"x": X[:0], "n": N[:0]}, "no sample", "at least one"),
        ({}, "no sample", "at least one"),
        ({"x": NAN, "n": N}, "sample 1 of input 'x' holds 1 values", "NaN"),
        ({"x": INFINITE, "n": N}, "the first is -inf", "infinity"),
    ],
)
def test_a_set_that_doesnt_fit_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], problem: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, **arrays)
    assert problem in caught.value.problem
    assert hint in caught.value.hint
    assert caught.value.where


def test_a_file_that_isnt_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'set\.npz' can't be read") as caught:
        load_set("set.npz", "accuracy", tmp_path / "q.yaml", tmp_path / "s.npz", TYPES)
    assert caught.value.where.endswith("q.yaml: accuracy.data")


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="can't be read"):
        load_set("set.npz", "accuracy", tmp_path / "q.yaml", tmp_path / "s.npz", TYPES)
