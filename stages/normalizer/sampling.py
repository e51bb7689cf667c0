"""Chooses where a model's sample inputs come from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from stages.errors import InputError
from stages.normalizer.factories import import_function
from stages.normalizer.sample_files import Sample, check_sample, read_user_samples
from stages.normalizer.samples import draw_samples, input_types
from stages.normalizer.source import ModelSource
from stages.tensors import Array, TensorType


def choose_samples(
    source: ModelSource, model: ir.Model, seed: int, count: int
) -> tuple[list[Sample], str]:
    """The samples, and where they come from: the entry's file, its function, or the seed.

    Raises:
        InputError: the file or the function gives something that doesn't fit the inputs, or
            `count` is below 1.
    """
    if count < 1:
        raise InputError(
            f"{count} samples can prove nothing", hint="ask for at least one sample input"
        )
    types = input_types(model)
    if source.samples is not None:
        return read_user_samples(source.samples, types)[:count], "file"
    if source.sampler:
        function = import_function(source.sampler, source.import_roots)
        samples = []
        for index in range(count):
            made = function(np.random.default_rng([seed, index]), types)
            samples.append(_checked(made, types, source.sampler))
        return samples, source.sampler
    return draw_samples(model, seed, count), "seed"


def _checked(made: object, types: Mapping[str, TensorType], reference: str) -> Sample:
    if not isinstance(made, Mapping):
        raise InputError(
            f"{reference} returned {type(made).__name__}, not a mapping of arrays by input name",
            where=f"sample function {reference}",
            hint="return {NAME: array} for every input",
        )
    sample: dict[str, Array] = {name: np.asarray(made[name]) for name in types if name in made}
    check_sample(sample, types, f"sample function {reference}")
    return sample
