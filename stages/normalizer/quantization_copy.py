"""The quantisation file that a model brings: it travels with the normalised model."""

from __future__ import annotations

from pathlib import Path

from stages.errors import InputError
from stages.normalizer.yaml_file import read_yaml

QUANTIZATION_FILE = "quantization.yaml"
"""Its name in the normalised folder, whatever it was called before."""

_FORM = "give a YAML file as docs/quantization.md describes it"


def read_quantization(path: Path) -> bytes:
    """The file's bytes, known to be a YAML mapping; whether it fits the model, compile says.

    Raises:
        InputError: no such file, or no YAML mapping.
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
    return file.content
