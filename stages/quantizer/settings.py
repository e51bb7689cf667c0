"""What a quantisation file asks for, checked against the model that it is for.

version: 1
model: NAME                       # of the graph that it was made for
weight_scales: per_channel        # or per_tensor
activation_scales: asymmetric     # or symmetric
calibration:
  data: samples                   # or an .npz
  method: percentile              # or min_max, entropy, mse
  percentile: 99.99
accuracy: {min_sqnr_db: 30}       # operators go back to float until it is reached
activations:                      # given ranges, in place of calibrated ones
  x: {min: -2.1, max: 2.6}
keep: [conv_7]                    # operators that stay in float
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from stages.compiler.quantization import ActivationScales, Quantization, Range, WeightScales
from stages.errors import InputError
from stages.quantizer.document import (
    AccuracyDocument,
    CalibrationDocument,
    RangeDocument,
    read_document,
)
from stages.recipe.graph import Graph


class Method(StrEnum):
    """How a range is made of the values that were seen; `range_methods.py` has the formulas."""

    MIN_MAX = "min_max"
    PERCENTILE = "percentile"
    ENTROPY = "entropy"
    MSE = "mse"


class Equalize(StrEnum):
    """What is brought to like sizes before ranges are measured."""

    CHANNELS = "channels"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Calibration:
    """`data` is `samples` or the path of an .npz; `percentile` counts for that method alone."""

    data: str
    method: Method
    percentile: float
    equalize: Equalize = Equalize.NONE

    @property
    def words(self) -> str:
        """The method as notes name it."""
        return (
            f"percentile {self.percentile:g}" if self.method is Method.PERCENTILE else self.method
        )


@dataclass(frozen=True, slots=True)
class AccuracyLimit:
    """The worst output of the worst sample must keep every limit that is given; None: no limit.

    The last three are about what the task makes of `output` (of every output, where that is None),
    by the formulas of `answers.py`; the share of arg max that agree is of all positions of all
    samples.
    """

    data: str
    min_sqnr_db: float | None = None
    min_cosine: float | None = None
    max_relative_error: float | None = None
    min_argmax_agreement: float | None = None
    class_axis: int = -1
    min_mask_agreement: float | None = None
    min_region_agreement: float | None = None
    mask_threshold: float = 0.5
    region_side: int = 1
    region_score: float | None = None
    output: str | None = None

    @property
    def words(self) -> str:
        """The limits as messages name them."""
        limits = []
        if self.min_sqnr_db is not None:
            limits.append(f"SQNR {self.min_sqnr_db:g} dB")
        if self.min_cosine is not None:
            limits.append(f"cosine {self.min_cosine:g}")
        if self.max_relative_error is not None:
            limits.append(f"error {self.max_relative_error:.3%} of the range")
        if self.min_argmax_agreement is not None:
            limits.append(f"{self.min_argmax_agreement:.2%} of arg max equal")
        if self.min_mask_agreement is not None:
            limits.append(f"mask overlap {self.min_mask_agreement:.2%}")
        if self.min_region_agreement is not None:
            limits.append(f"{self.min_region_agreement:.2%} of regions found")
        return ", ".join(limits)


@dataclass(frozen=True, slots=True)
class Settings:
    """A quantisation file, understood. Data files that it names are relative to `path`'s folder."""

    path: Path
    weights: WeightScales
    activations: ActivationScales
    calibration: Calibration | None
    accuracy: AccuracyLimit | None
    ranges: Mapping[str, Range]
    keep: frozenset[str]


def load_settings(path: Path, graph: Graph) -> Settings:
    """Read a quantisation file and check it against the graph that it is for.

    Raises:
        InputError: the file can't be read, has another form, was made for another model, names
            tensors or operators that the model hasn't, or holds an empty range.
    """
    document = read_document(path)
    if document.model != graph.name:
        raise InputError(
            f"the quantisation file is for model {document.model!r}, this is {graph.name!r}",
            where=f"{path}: model",
            hint="give the file that was made for this model, or correct its `model`",
        )
    ranges = document.activations or {}
    for name in ranges:
        _require(name, graph.types, "activations", "tensor", path)
    operators = {op.name: op for op in graph.operators}
    for name in document.keep:
        _require(name, operators, "keep", "operator", path)
    if document.accuracy is not None and document.accuracy.output is not None:
        _require(
            document.accuracy.output,
            dict.fromkeys(graph.outputs),
            "accuracy.output",
            "output",
            path,
        )
    if document.accuracy is not None and document.accuracy.min_region_agreement is not None:
        _require_images(document.accuracy.output, graph, path)
    return Settings(
        path=path,
        weights=WeightScales(document.weight_scales),
        activations=ActivationScales(document.activation_scales),
        calibration=_calibration(document.calibration),
        accuracy=_limit(document.accuracy),
        ranges={name: _checked(name, item, path) for name, item in ranges.items()},
        keep=frozenset(document.keep),
    )


def given_ranges(settings: Settings) -> Quantization:
    """What the file gives by itself, without data.

    Raises:
        InputError: it asks for calibration or an accuracy limit, which need sample inputs.
    """
    for key, part in (("calibration", settings.calibration), ("accuracy", settings.accuracy)):
        if part is not None:
            raise InputError(
                f"the quantisation file has `{key}`, and there are no sample inputs here",
                where=f"{settings.path}: {key}",
                hint="give the ranges under `activations`, and take this key out",
            )
    return Quantization(settings.ranges, settings.keep, settings.weights, settings.activations)


def _calibration(document: CalibrationDocument | None) -> Calibration | None:
    if document is None:
        return None
    percentile = 100.0 if document.percentile is None else float(document.percentile)
    equalize = Equalize(document.equalize)
    return Calibration(document.data, Method(document.method), percentile, equalize)


def _limit(document: AccuracyDocument | None) -> AccuracyLimit | None:
    if document is None:
        return None
    return AccuracyLimit(
        data=document.data,
        min_sqnr_db=_number(document.min_sqnr_db),
        min_cosine=_number(document.min_cosine),
        max_relative_error=_number(document.max_relative_error),
        min_argmax_agreement=_number(document.min_argmax_agreement),
        class_axis=-1 if document.class_axis is None else document.class_axis,
        min_mask_agreement=_number(document.min_mask_agreement),
        min_region_agreement=_number(document.min_region_agreement),
        mask_threshold=0.5 if document.mask_threshold is None else float(document.mask_threshold),
        region_side=1 if document.region_side is None else document.region_side,
        region_score=_number(document.region_score),
        output=document.output,
    )


def _number(given: float | None) -> float | None:
    return None if given is None else float(given)


def _require_images(output: str | None, graph: Graph, path: Path) -> None:
    for name in graph.outputs if output is None else (output,):
        if graph.types[name].rank < 2:
            raise InputError(
                f"`min_region_agreement` is about regions of images, and output {name!r} has "
                f"{graph.types[name].rank} axes",
                where=f"{path}: accuracy.min_region_agreement",
                hint="name an output of two axes or more under `output`, or give another limit",
            )


def _require(name: str, known: Mapping[str, object], key: str, what: str, path: Path) -> None:
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    raise InputError(
        f"the quantisation file names {what} {name!r}, which the model hasn't",
        where=f"{path}: {key}",
        hint=f"did you mean {near[0]!r}?" if near else "was it made for another model?",
    )


def _checked(name: str, item: RangeDocument, path: Path) -> Range:
    low, high = min(float(item.min), 0.0), max(float(item.max), 0.0)
    if not math.isfinite(high - low) or item.min > item.max or high == low:
        raise InputError(
            f"activation {name!r} has the range [{item.min}, {item.max}], which holds nothing",
            where=f"{path}: activations.{name}",
            hint="give min < max, both finite",
        )
    return Range(low, high)
