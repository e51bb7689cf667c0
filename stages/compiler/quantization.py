"""The quantisation file: ranges of activations, from which the compiler makes an int8 recipe.

    version: 1
    model: NAME                  # of the graph that it was made for
    activations:
      x: {min: -2.1, max: 2.6}   # a tensor of the normalised model, and the range that it takes
    keep: [conv_7]               # operators that stay in float

Activations are quantised per tensor and asymmetric, weights per output channel and symmetric, as
ONNX Runtime's static quantisation does (Jacob et al., "Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stages.errors import InputError
from stages.recipe.graph import Graph


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an activation takes; zero is always within."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Quantization:
    """Ranges by tensor, and the operators that stay in float."""

    ranges: Mapping[str, Range]
    keep: frozenset[str]


class _Range(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    min: float | int
    max: float | int


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    version: Literal[1]
    model: str
    activations: dict[str, _Range] = Field(min_length=1)
    keep: list[str] = []


def load_quantization(path: Path, graph: Graph) -> Quantization:
    """Read a quantisation file and check it against the graph that it is for.

    Raises:
        InputError: the file can't be read, has another form, was made for another model, names
            tensors or operators that the model hasn't, or holds an empty range.
    """
    document = _parsed(path)
    if document.model != graph.name:
        raise InputError(
            f"the quantisation file is for model {document.model!r}, this is {graph.name!r}",
            where=str(path),
            hint="give the file that was made for this model, or correct its `model`",
        )
    operators = {op.name for op in graph.operators}
    for name in document.activations:
        _require(name, graph.types, "activations", "tensor", path)
    for name in document.keep:
        _require(name, dict.fromkeys(operators), "keep", "operator", path)
    ranges = {name: _checked(name, item, path) for name, item in document.activations.items()}
    return Quantization(ranges, frozenset(document.keep))


def _parsed(path: Path) -> _Document:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(
            f"the quantisation file can't be read: {str(error).splitlines()[0]}",
            where=str(path),
            hint="give a YAML file as docs/quantization.md describes it",
        ) from error
    try:
        return _Document.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the whole file"
        raise InputError(
            f"quantisation file: {key}: {first['msg'].lower()}, found {first['input']!r}",
            where=f"{path}: {key}",
            hint="see docs/quantization.md for its form",
        ) from error


def _require(name: str, known: Mapping[str, object], key: str, what: str, path: Path) -> None:
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    raise InputError(
        f"the quantisation file names {what} {name!r}, which the model hasn't",
        where=f"{path}: {key}",
        hint=f"did you mean {near[0]!r}?" if near else "was it made for another model?",
    )


def _checked(name: str, item: _Range, path: Path) -> Range:
    low, high = min(float(item.min), 0.0), max(float(item.max), 0.0)
    if not math.isfinite(high - low) or item.min > item.max or high == low:
        raise InputError(
            f"activation {name!r} has the range [{item.min}, {item.max}], which holds nothing",
            where=f"{path}: activations.{name}",
            hint="give min < max, both finite",
        )
    return Range(low, high)
