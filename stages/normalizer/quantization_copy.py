"""The quantisation file that a model brings, and the inputs that it names: they travel with the
normalised model, so that the compile stage depends on that folder alone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from stages.errors import InputError
from stages.normalizer.yaml_file import read_yaml

QUANTIZATION_FILE = "quantization.yaml"
"""Its name in the normalised folder, whatever it was called before."""

_FORM = "give a YAML file as docs/quantization.md describes it"
_SECTIONS = ("calibration", "accuracy")
SAMPLES = "samples"
"""As `data`: the sample inputs in the normalised folder."""


def read_quantization(path: Path, taken: tuple[str, ...]) -> Mapping[str, Path]:
    """What the normalised folder gets, by its name there: the file, known to be a YAML mapping,
    and the files of inputs that it names. Whether they fit the model, compile says.

    Raises:
        InputError: no such file, or no YAML mapping; or it names inputs that aren't there, don't
            lie beside it, or are called as one of `taken`, which the folder holds anyway.
    """
    file = read_yaml(
        path,
        "quantisation file",
        missing="put it there, or take the key `quantization` out of model.yaml",
        wrong=_FORM,
    )
    if not isinstance(file.document, dict):
        raise InputError(
            f"the quantisation file holds {type(file.document).__name__}, not keys and values",
            where=str(path),
            hint=_FORM,
        )
    found = {QUANTIZATION_FILE: path}
    for key, name in named_inputs(file.document).items():
        _check(name, path, f"{path}: {key}.data", (*taken, QUANTIZATION_FILE))
        found[name] = path.parent / name
    return found


def named_inputs(document: object) -> dict[str, str]:
    """The files of inputs that a quantisation file names, by the section that names each."""
    if not isinstance(document, dict):
        return {}
    sections = {key: document.get(key) for key in _SECTIONS}
    named = {key: item.get("data") for key, item in sections.items() if isinstance(item, dict)}
    return {key: name for key, name in named.items() if isinstance(name, str) and name != SAMPLES}


def copy_quantization(files: Mapping[str, Path], folder: Path) -> None:
    """Copy what `read_quantization` found, byte for byte."""
    for name, path in files.items():
        shutil.copyfile(path, folder / name)


def _check(name: str, path: Path, where: str, taken: tuple[str, ...]) -> None:
    if Path(name).name != name:
        raise InputError(
            f"the quantisation file names inputs {name!r}, which don't lie beside it",
            where=where,
            hint="a model's own file names files of its folder: give the name alone",
        )
    if name in taken:
        raise InputError(
            f"the quantisation file names inputs {name!r}, as the normalised folder's own file",
            where=where,
            hint="rename the file, calibration.npz for example; or write `data: samples`",
        )
    if not (path.parent / name).is_file():
        raise InputError(
            f"the quantisation file names inputs {name!r}, which aren't there",
            where=where,
            hint="put the file beside it, or write `data: samples`",
        )
