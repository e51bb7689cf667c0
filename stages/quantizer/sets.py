"""Sets of inputs: those that ranges are measured on, those that accuracy is judged on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stages.errors import InputError
from stages.normalizer.quantization_copy import SAMPLES
from stages.normalizer.sample_files import Sample, named_inputs, read_user_samples
from stages.package import file_facts
from stages.tensors import Array, DType, TensorType


@dataclass(frozen=True, slots=True)
class InputSet:
    """At least one sample, each complete and finite; `sha256` is the digest of the file."""

    samples: tuple[Sample, ...]
    sha256: str


def load_set(
    data: str, key: str, file: Path, samples_file: Path, types: Mapping[str, TensorType]
) -> InputSet:
    """The set that a quantisation file names under `key`: `samples`, or an .npz beside the file.

    Raises:
        InputError: it can't be read, is empty, lacks an input or has one that the model hasn't, an
            array has another shape or element type, or a value is NaN or infinite.
    """
    path = samples_file if data == SAMPLES else file.parent / data
    where = f"{file}: {key}.data"
    try:
        facts = file_facts(path)
    except OSError as error:
        raise InputError(
            f"{key} data {data!r} can't be read: {error.strerror}",
            where=where,
            hint="give `samples`, or the path of an .npz, relative to the quantisation file",
        ) from error
    _refuse_foreign(named_inputs(path), data, where, types)
    samples = read_user_samples(path, types)
    if not samples:
        raise InputError(
            f"{key} data {data!r} holds no sample",
            where=where,
            hint="save at least one, better a hundred, with numpy.savez(PATH, **{NAME: array})",
        )
    for index, sample in enumerate(samples):
        for name, array in sample.items():
            _refuse_special(array, f"{key} data {data!r}", index, name, where)
    return InputSet(tuple(samples), facts.sha256)


def _refuse_foreign(
    names: Iterable[str], data: str, where: str, types: Mapping[str, TensorType]
) -> None:
    foreign = sorted(set(names) - set(types))
    if foreign:
        raise InputError(
            f"{data!r} holds {', '.join(map(repr, foreign[:3]))}, which the model has no input for",
            where=where,
            hint=f"name the arrays as the inputs: {', '.join(types)}",
        )


def _refuse_special(array: Array, what: str, index: int, name: str, where: str) -> None:
    if not DType.of(array.dtype).is_float:
        return
    values = array.astype(np.float64)
    special = values[~np.isfinite(values)]
    if special.size:
        raise InputError(
            f"{what}: sample {index} of input {name!r} holds {special.size} values that "
            f"aren't finite, the first is {special[0]}",
            where=where,
            hint="take that sample out, or mend what made it: no range holds NaN or infinity",
        )
