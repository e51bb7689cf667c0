"""The door through which a quantisation file comes in: its keys, checked by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stages.errors import InputError
from stages.normalizer.quantization_copy import SAMPLES
from stages.yaml_text import load

_FORM = "see docs/quantization.md for its form"
_Number = Annotated[float | int, Field(allow_inf_nan=False)]


_LIMITS = (
    "min_sqnr_db",
    "min_cosine",
    "max_relative_error",
    "min_argmax_agreement",
    "min_mask_agreement",
    "min_region_agreement",
)
_BELONGS = {
    "class_axis": ("min_argmax_agreement",),
    "mask_threshold": ("min_mask_agreement", "min_region_agreement"),
    "region_side": ("min_region_agreement",),
    "region_score": ("min_region_agreement",),
    "output": ("min_argmax_agreement", "min_mask_agreement", "min_region_agreement"),
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class RangeDocument(_Part):
    """A given range."""

    min: float | int
    max: float | int


class CalibrationDocument(_Part):
    """On what ranges are measured, and how one is made of what was seen."""

    data: Annotated[str, Field(min_length=1)]
    method: Literal["min_max", "percentile", "entropy", "mse"]
    percentile: Annotated[float | int, Field(gt=50, le=100)] | None = None
    equalize: Literal["channels", "none"] = "none"

    @model_validator(mode="after")
    def _percentile_where_it_counts(self) -> CalibrationDocument:
        if (self.method == "percentile") != (self.percentile is not None):
            raise ValueError(
                "`percentile` is needed with `method: percentile`, and only there; write, for "
                "example, `percentile: 99.99`"
            )
        return self


class AccuracyDocument(_Part):
    """The limit below which operators go back to float, in the measures of `recipe validate`, or
    in what the task makes of the output."""

    min_sqnr_db: _Number | None = None
    min_cosine: Annotated[float | int, Field(gt=0, le=1)] | None = None
    max_relative_error: Annotated[float | int, Field(gt=0)] | None = None
    min_argmax_agreement: Annotated[float | int, Field(gt=0, le=1)] | None = None
    class_axis: int | None = None
    min_mask_agreement: Annotated[float | int, Field(gt=0, le=1)] | None = None
    min_region_agreement: Annotated[float | int, Field(gt=0, le=1)] | None = None
    mask_threshold: _Number | None = None
    region_side: Annotated[int, Field(gt=0)] | None = None
    region_score: _Number | None = None
    output: Annotated[str, Field(min_length=1)] | None = None
    data: Annotated[str, Field(min_length=1)] = SAMPLES

    @model_validator(mode="after")
    def _one_limit_at_least(self) -> AccuracyDocument:
        if all(getattr(self, name) is None for name in _LIMITS):
            raise ValueError(f"it needs a limit; give one of {', '.join(_LIMITS)}")
        for option, limit in _BELONGS.items():
            given = getattr(self, option) is not None
            if given and all(getattr(self, name) is None for name in limit):
                raise ValueError(
                    f"`{option}` says nothing without {' or '.join(limit)}; give that, or take it "
                    "out"
                )
        return self


class Document(_Part):
    """The whole file."""

    version: Literal[1]
    model: str
    scheme: Literal["int8"] = "int8"
    weight_scales: Literal["per_channel", "per_tensor"] = "per_channel"
    activation_scales: Literal["asymmetric", "symmetric"] = "asymmetric"
    calibration: CalibrationDocument | None = None
    accuracy: AccuracyDocument | None = None
    activations: Annotated[dict[str, RangeDocument], Field(min_length=1)] | None = None
    keep: list[str] = []

    @model_validator(mode="after")
    def _ranges_from_somewhere(self) -> Document:
        if self.calibration is None and self.activations is None:
            raise ValueError(
                "it has neither `calibration` nor `activations`, so no tensor has a range; give "
                "one of them"
            )
        return self


_KEYS: Mapping[str, type[BaseModel]] = {
    "": Document,
    "calibration": CalibrationDocument,
    "accuracy": AccuracyDocument,
}


def read_document(path: Path) -> Document:
    """Read the file's keys.

    Raises:
        InputError: it can't be read, isn't YAML, or has another form; names key and value.
    """
    try:
        data = load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(
            f"the quantisation file can't be read: {str(error).splitlines()[0]}",
            where=str(path),
            hint="give a YAML file as docs/quantization.md describes it",
        ) from error
    try:
        return Document.model_validate(data)
    except ValidationError as error:
        raise _refusal(error, path) from error


def _refusal(error: ValidationError, path: Path) -> InputError:
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"] if part not in ("int", "float")]
    key = ".".join(parts) or "the whole file"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return InputError(
            f"quantisation file: {key}: {message.partition(';')[0]}",
            where=f"{path}: {key}",
            hint=f"{message.partition(';')[2].strip() or message.partition(': ')[2]} ({_FORM})",
        )
    return InputError(
        f"quantisation file: {key}: {message.lower()}, found {_shown(first['input'])}",
        where=f"{path}: {key}",
        hint=_hint(first["type"], parts),
    )


def _hint(kind: str, parts: list[str]) -> str:
    if kind != "extra_forbidden" or not parts:
        return _FORM
    known = list(_KEYS[parts[0]].model_fields) if parts[0] in _KEYS else []
    known = list(Document.model_fields) if len(parts) == 1 else known
    near = get_close_matches(parts[-1], known, n=1)
    if near:
        return f"did you mean `{near[0]}`? ({_FORM})"
    return f"take it out{'; known keys: ' + ', '.join(known) if known else ''} ({_FORM})"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
