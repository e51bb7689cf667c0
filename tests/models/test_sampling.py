"""Sample functions give what their models take, and differ from sample to sample."""

from __future__ import annotations

import numpy as np
import pytest

from models.sampling import Sample, Types, file_bytes, speech_frame, text_line, text_page
from stages.normalizer.sample_files import check_sample
from stages.tensors import DType, TensorType

CASES = [
    (text_line, {"x": TensorType(DType.F32, (1, 3, 48, 192))}),
    (text_page, {"x": TensorType(DType.F32, (1, 3, 160, 224))}),
    (file_bytes, {"bytes": TensorType(DType.I32, (2, 2048))}),
    (speech_frame, {"input": TensorType(DType.F32, (1, 576)),
                    "state": TensorType(DType.F32, (2, 1, 128)),
                    "sr": TensorType(DType.I64, ())}),
]  # fmt: skip


@pytest.mark.parametrize(("function", "types"), CASES)
def test_samples_fit_and_differ(function: object, types: Types) -> None:
    assert callable(function)
    first: Sample = function(np.random.default_rng([1, 0]), types)
    again: Sample = function(np.random.default_rng([1, 0]), types)
    other: Sample = function(np.random.default_rng([1, 1]), types)
    for sample in (first, again, other):
        check_sample(sample, types, "test")
    name = next(iter(types))
    np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first[name], other[name])


def test_a_line_of_text_is_dark_on_light() -> None:
    sample = text_line(np.random.default_rng(0), CASES[0][1])
    image = sample["x"]
    assert float(np.median(image)) > 0.8
    assert 0.05 < float((image < -0.5).mean()) < 0.5


def test_bytes_end_in_padding() -> None:
    data = file_bytes(np.random.default_rng(0), CASES[2][1])["bytes"]
    assert (data[:, -1] == 256).all()
    assert data[:, :512].max() < 127
