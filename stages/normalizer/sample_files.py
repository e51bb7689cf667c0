"""Samples files: inputs of a model by name, several of each.

A samples file is an .npz whose keys are `INDEX/DTYPE/NAME` (`0/f32/x`): sample index, element type
as recipes print it, input name. bfloat16, which numpy's format can't say, is stored as its bits.
A user's file may instead hold plain `NAME` keys: one sample in the input's shape, or several
along an axis in front.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from stages.errors import InputError
from stages.tensors import Array, DType, TensorType

Sample = dict[str, Array]

_KEY = re.compile(rf"(?P<index>\d+)/(?P<dtype>{'|'.join(DType)})/(?P<name>.+)", re.DOTALL)


def save_samples(path: Path, samples: Sequence[Mapping[str, Array]]) -> None:
    """Writes a samples file; equal samples give equal bytes."""
    arrays: dict[str, Array] = {}
    for index, sample in enumerate(samples):
        for name, array in sample.items():
            dtype = DType.of(array.dtype)
            bits = array.view(np.uint16) if dtype is DType.BF16 else array
            arrays[f"{index}/{dtype}/{name}"] = bits
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            entry = zipfile.ZipInfo(f"{key}.npy")  # its date is fixed, unlike numpy.savez's
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)


def load_samples(path: Path) -> list[Sample]:
    """Reads what `save_samples` wrote: one dictionary of arrays by input name for each sample.

    Raises:
        InputError: no such file, or not a samples file.
    """
    samples: dict[int, Sample] = {}
    for key, array in _read_npz(path).items():
        found = _KEY.fullmatch(key)
        if found is None:
            raise InputError(
                f"samples key {key!r} isn't INDEX/DTYPE/NAME", where=str(path),
                hint="run the normalize stage again",
            )  # fmt: skip
        sample = samples.setdefault(int(found["index"]), {})
        sample[found["name"]] = _typed(array, DType(found["dtype"]))
    return [samples[index] for index in sorted(samples)]


def read_user_samples(path: Path, types: Mapping[str, TensorType]) -> list[Sample]:
    """Samples from a user's .npz: in this module's format, or one `NAME` key for each input.

    Raises:
        InputError: not an .npz, an input is missing, or an array has another shape or type.
    """
    arrays = _read_npz(path)
    if not arrays.keys() >= types.keys() and all("/" in key for key in arrays):
        samples = load_samples(path)
    else:
        columns = {name: _column(path, name, arrays, kind) for name, kind in types.items()}
        counts = {len(column) for column in columns.values()}
        if len(counts) > 1:
            raise InputError(
                "inputs with different numbers of samples: "
                + ", ".join(f"{name} {len(column)}" for name, column in columns.items()),
                where=str(path),
                hint="give every input the same number of samples",
            )
        samples = [
            {name: column[index] for name, column in columns.items()}
            for index in range(counts.pop() if counts else 1)
        ]
    for sample in samples:
        check_sample(sample, types, str(path))
    return samples


def named_inputs(path: Path) -> list[str]:
    """The inputs that a user's .npz has arrays for, by the name in each of its keys.

    Raises:
        InputError: not an .npz.
    """
    with _open_npz(path) as archive:
        matches = {key: _KEY.fullmatch(key) for key in archive.files}
    return [match["name"] if match else key for key, match in matches.items()]


def check_sample(sample: Mapping[str, Array], types: Mapping[str, TensorType], where: str) -> None:
    """Every input is there, in its shape and element type.

    Raises:
        InputError: names the input and what it should be.
    """
    for name, kind in types.items():
        array = sample.get(name)
        if array is None:
            raise InputError(
                f"no sample for input {name!r}", where=where,
                hint=f"add an array {name!r} of type {kind}",
            )  # fmt: skip
        if array.shape != kind.shape or array.dtype != kind.dtype.numpy:
            raise InputError(
                f"sample of input {name!r} is {array.dtype}{list(array.shape)}, "
                f"the input is {kind}",
                where=where,
                hint=f"give arrays of {kind.dtype.numpy} in shape {list(kind.shape)}",
            )


def _read_npz(path: Path) -> dict[str, Array]:
    with _open_npz(path) as archive:
        return dict(archive.items())


@contextmanager
def _open_npz(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            yield archive
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise InputError(
            f"samples can't be read: {error}", where=str(path),
            hint="save them with numpy.savez(PATH, **{NAME: array})",
        ) from error  # fmt: skip


def _column(
    path: Path, name: str, arrays: Mapping[str, Array], kind: TensorType
) -> Sequence[Array]:
    if name not in arrays:
        raise InputError(
            f"no array for input {name!r}", where=str(path),
            hint=f"the file holds: {', '.join(sorted(arrays)) or 'nothing'}",
        )  # fmt: skip
    array = arrays[name]
    rows = [array] if array.ndim == kind.rank else list(array)
    return [_typed(np.asarray(row), kind.dtype) for row in rows]


def _typed(array: Array, dtype: DType) -> Array:
    if dtype is DType.BF16 and array.dtype in (np.uint16, np.dtype("V2")):
        return array.view(dtype.numpy)
    return array
