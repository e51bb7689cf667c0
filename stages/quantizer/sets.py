"""Sets of inputs: those that ranges are measured on, those that accuracy is judged on."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from stages.errors import InputError
from stages.normalizer.sample_files import Sample, check_sample, read_user_samples
from stages.quantizer.settings import SAMPLES
from stages.tensors import Array, DType, TensorType

_INDEXED = re.compile(rf"\d+/(?:{'|'.join(DType)})/(?P<name>.+)")


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
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{key} data {data!r} can't be read: {error.strerror}",
            where=where,
            hint="give `samples`, or the path of an .npz, relative to the quantisation file",
        ) from error
    _refuse_foreign(path, data, where, types)
    samples = read_user_samples(path, types)
    if not samples:
        raise InputError(
            f"{key} data {data!r} holds no sample",
            where=where,
            hint="save at least one, better a hundred, with numpy.savez(PATH, **{NAME: array})",
        )
    for index, sample in enumerate(samples):
        check_sample(sample, types, where)
        for name, array in sample.items():
            _refuse_special(array, f"{key} data {data!r}", index, name, where)
    return InputSet(tuple(samples), sha256(content).hexdigest())


def _refuse_foreign(path: Path, data: str, where: str, types: Mapping[str, TensorType]) -> None:
    foreign = sorted(set(_names(path)) - set(types))
    if foreign:
        raise InputError(
            f"{data!r} holds {', '.join(map(repr, foreign[:3]))}, which the model has no input for",
            where=where,
            hint=f"name the arrays as the inputs: {', '.join(types)}",
        )


def _names(path: Path) -> Sequence[str]:
    """The inputs that a file names; nothing where it isn't one (its reader will say so)."""
    if not zipfile.is_zipfile(path):
        return ()
    with zipfile.ZipFile(path) as archive:
        keys = [name.removesuffix(".npy") for name in archive.namelist()]
    matches = [_INDEXED.fullmatch(key) for key in keys]
    return [match["name"] if match else key for match, key in zip(matches, keys, strict=True)]


def _refuse_special(array: Array, what: str, index: int, name: str, where: str) -> None:
    if not DType.of(array.dtype).is_float:
        return
    special = ~np.isfinite(array.astype(np.float64))
    if special.any():
        first = array.astype(np.float64)[special][0]
        raise InputError(
            f"{what}: sample {index} of input {name!r} holds {int(special.sum())} values that "
            f"aren't finite, the first is {first}",
            where=where,
            hint="take that sample out, or mend what made it: no range holds NaN or infinity",
        )
