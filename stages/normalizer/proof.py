"""The normalised model computes what the original computes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stages.errors import InputError, RecipeError
from stages.normalizer.normalize import Normalized, save_model
from stages.normalizer.reference import OnnxRuntimeReference
from stages.tensors import Array

RELATIVE_LIMITS = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9}
"""Largest difference allowed, as a share of the output's largest magnitude. Folding computes in
another order than the original graph, hence not zero. 8-bit integers, which are quantised, may
differ by one step for the same reason; other integers and booleans must be equal."""


@dataclass(frozen=True, slots=True)
class Proof:
    """How far the normalised model lies from the original, over all samples and outputs.

    `compared_with` is empty where ONNX Runtime can't run the original; `reason` then says why.
    """

    compared_with: str
    reason: str
    samples: int
    max_absolute_difference: float
    max_relative_difference: float


def prove_equal(
    original: Path, normalized: Normalized, path: Path, samples: Sequence[Mapping[str, Array]]
) -> Proof:
    """Runs both models on the samples. `path` is where the normalised one was saved.

    Raises:
        InputError: ONNX Runtime can't load the normalised model, or can't run one of them.
        RecipeError: the results differ, which is a fault of this program.
    """
    results = _run_all(path, samples)
    with tempfile.TemporaryDirectory() as folder:
        try:
            before, compared_with = _original(original, normalized, Path(folder))
        except InputError as error:
            return Proof("", error.problem, 0, 0.0, 0.0)
        expected = [before.run(sample) for sample in samples]
    absolute = relative = 0.0
    for wanted, got in zip(expected, results, strict=True):
        for (name, a), b in zip(wanted.items(), got.values(), strict=True):
            here = _difference(name, a, b)
            absolute, relative = max(absolute, here[0]), max(relative, here[1])
    return Proof(compared_with, "", len(samples), absolute, relative)


def _run_all(path: Path, samples: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """A function of its own, so that one session's weights are freed before the next one's load."""
    reference = OnnxRuntimeReference(path)
    return [reference.run(sample) for sample in samples]


def _original(path: Path, normalized: Normalized, folder: Path) -> tuple[OnnxRuntimeReference, str]:
    """The model to compare with: the file itself, unless a step changed the meaning on purpose."""
    if normalized.comparable is None:
        reference = OnnxRuntimeReference(path)
        return reference, "the original" + (" in float32" if reference.is_widened else "")
    altered = folder / "comparable.onnx"
    save_model(normalized.comparable, altered)
    meant = ("bindings", "inference mode", "mending")
    steps = [step.name for step in normalized.steps if step.name in meant]
    return OnnxRuntimeReference(altered), f"the original after {', '.join(steps)}"


def _difference(name: str, wanted: Array, got: Array) -> tuple[float, float]:
    """Largest absolute difference, and as a share of the largest finite magnitude wanted."""
    floats = np.issubdtype(wanted.dtype, np.floating) and np.issubdtype(got.dtype, np.floating)
    if (wanted.dtype != got.dtype and not floats) or wanted.shape != got.shape:
        raise _unequal(
            name,
            f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}",
        )
    if not floats:
        wrong = _unequal_elements(wanted, got)
        if wrong:
            raise _unequal(name, f"{wrong} of {wanted.size} elements differ")
        return 0.0, 0.0
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        raise _unequal(name, "infinities or NaNs lie elsewhere")
    if not finite.any():
        return 0.0, 0.0
    absolute = float(np.abs(a[finite] - b[finite]).max())
    largest = float(np.abs(a[finite]).max())
    relative = absolute / largest if largest else absolute
    limit = max(RELATIVE_LIMITS[str(array.dtype)] for array in (wanted, got))
    if not relative <= limit:  # a NaN among the results is larger than any limit
        raise _unequal(
            name, f"they differ by {relative:.3g} of the output's range ({limit:g} allowed)"
        )
    return absolute, relative


def _unequal_elements(wanted: Array, got: Array) -> int:
    if wanted.dtype in (np.int8, np.uint8):
        steps = np.abs(wanted.astype(np.int16) - got.astype(np.int16))
        return int(np.count_nonzero(steps > 1))
    return int(np.count_nonzero(wanted != got))


def _unequal(name: str, what: str) -> RecipeError:
    return RecipeError(
        f"the normalised model doesn't compute what the original computes: {what}",
        where=f"output {name!r}",
        hint="this is a fault of the normalize stage: please report it with the model",
    )
