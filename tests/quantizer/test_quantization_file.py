"""The quantisation file: what it says, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.compiler.quantization import ActivationScales, Range, WeightScales
from stages.errors import InputError
from stages.quantizer import given_ranges, load_settings
from stages.quantizer.settings import AccuracyLimit, Calibration, Method, Settings
from stages.recipe.graph import Graph
from tests.compiler.passing import draft_of


def graph() -> Graph:
    return draft_of(
        """
        input %image : f32[1,4]
        %hidden : f32[1,4] = relu(%image) # act
        %y : f32[1,4] = neg(%hidden)
        output %y
        """
    ).graph


def load(folder: Path, text: str):
    path = folder / "ranges.yaml"
    path.write_text(text, encoding="utf-8")
    return given_ranges(load_settings(path, graph()))


def test_ranges_hold_zero(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
version: 1
model: m
activations:
  image: {min: -2.5, max: 1}
  hidden: {min: 1.0, max: 6.0}
  y: {min: -3, max: -1}
keep: [act]
""",
    )
    assert loaded.ranges == {
        "image": Range(-2.5, 1.0),
        "hidden": Range(0.0, 6.0),
        "y": Range(-3.0, 0.0),
    }
    assert loaded.keep == {"act"}


HEAD = "version: 1\nmodel: m\n"
MSE = "calibration: {data: samples, method: mse}\n"


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("version: 1\nmodel: other\nactivations: {y: {min: 0, max: 1}}", "'other'", "`model`"),
        (HEAD + "activations: {imag: {min: 0, max: 1}}", "tensor 'imag'", "'image'?"),
        (HEAD + "activations: {zzzzz: {min: 0, max: 1}}", "'zzzzz'", "another model"),
        (HEAD + "activations: {y: {min: 0, max: 1}}\nkeep: [atc]", "operator 'atc'", "'act'?"),
        (HEAD + "activations: {y: {min: 2, max: 1}}", "[2, 1]", "min < max"),
        (HEAD + "activations: {y: {min: 0, max: 0}}", "[0, 0]", "min < max"),
        (HEAD + "activations: {y: {min: .nan, max: 1}}", "finite", "form"),
        (HEAD + "activations: {y: {min: 0, max: .inf}}", "finite", "form"),
        (HEAD + "activations: {y: {min: '0', max: 1}}", "'0'", "form"),
        (HEAD + "activations: {y: {min: 0}}", "activations.y.max", "form"),
        (HEAD + "activations: {y: {min: 0, max: 1, mid: 2}}", "activations.y.mid", "form"),
        (HEAD + "activations: {}", "activations", "form"),
        ("version: 2\nmodel: m\nactivations: {y: {min: 0, max: 1}}", "version", "form"),
        (HEAD + "activations: {y: {min: 0, max: 1}", "can't be read", "YAML"),
        (HEAD, "neither `calibration` nor `activations`", "give one of them"),
        (HEAD + "calibraton: {}", "calibraton", "`calibration`?"),
        (HEAD + "calibration: {data: samples}", "calibration.method", "form"),
        (HEAD + "calibration: {method: mse}", "calibration.data", "form"),
        (HEAD + "calibration: {data: samples, method: best}", "found 'best'", "form"),
        (HEAD + "calibration: {data: samples, methd: mse}", "calibration.method", "form"),
        (HEAD + "calibration: {data: '', method: mse}", "calibration.data", "form"),
        (HEAD + "calibration: {data: samples, method: percentile}", "`percentile`", "99.99"),
        (
            HEAD + "calibration: {data: samples, method: mse, percentile: 99}",
            "only there",
            "99.99",
        ),
        (
            HEAD + "calibration: {data: samples, method: percentile, percentile: 101}",
            "found 101",
            "form",
        ),
        (HEAD + MSE + "scheme: int4", "found 'int4'", "form"),
        (HEAD + MSE + "weight_scales: per_row", "'per_channel' or 'per_tensor'", "form"),
        (HEAD + MSE + "activation_scales: none", "'asymmetric' or 'symmetric'", "form"),
        (HEAD + MSE + "accuracy: {}", "needs a limit", "min_sqnr_db"),
        (HEAD + MSE + "accuracy: {min_sqnr: 30}", "accuracy.min_sqnr", "`min_sqnr_db`?"),
        (HEAD + MSE + "accuracy: {min_cosine: 1.5}", "found 1.5", "form"),
        (HEAD + MSE + "accuracy: {max_relative_error: 0}", "found 0", "form"),
        (HEAD + MSE + "accuracy: {min_sqnr_db: .nan}", "finite", "form"),
        (HEAD + MSE + "accuracy: {min_argmax_agreement: 98}", "found 98", "form"),
        (HEAD + MSE + "accuracy: {min_mask_agreement: 0}", "found 0", "form"),
        (
            HEAD + MSE + "accuracy: {min_sqnr_db: 30, mask_threshold: 0.3}",
            "`mask_threshold` says nothing without min_mask_agreement or min_region_agreement",
            "take it out",
        ),
        (
            HEAD + MSE + "accuracy: {min_mask_agreement: 1, region_side: 3}",
            "`region_side` says nothing without min_region_agreement",
            "take it out",
        ),
        (HEAD + MSE + "accuracy: {min_region_agreement: 1, region_side: 0}", "found 0", "form"),
        (
            HEAD + MSE + "accuracy: {min_sqnr_db: 30, output: y}",
            "`output` says nothing without min_argmax_agreement or min_mask_agreement or "
            "min_region_agreement",
            "take it out",
        ),
        (
            HEAD + MSE + "accuracy: {min_argmax_agreement: 1, output: none}",
            "names output 'none'",
            "another model",
        ),
        (HEAD + "calibration: {data: samples, method: mse, equalize: rows}", "'channels'", "form"),
        ("just words", "the whole file", "form"),
        ("", "the whole file", "form"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, problem: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    assert problem in caught.value.problem
    assert hint in caught.value.hint
    assert "ranges.yaml" in caught.value.where


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        given_ranges(load_settings(tmp_path / "none.yaml", graph()))


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ranges.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="can't be read"):
        given_ranges(load_settings(path, graph()))


def test_what_needs_data_is_refused_where_there_is_none(tmp_path: Path) -> None:
    for text in (MSE, "activations: {y: {min: 0, max: 1}}\naccuracy: {min_sqnr_db: 30}\n"):
        with pytest.raises(InputError, match="no sample inputs here"):
            load(tmp_path, HEAD + text)


def test_a_whole_file_of_the_calibrating_form(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text(
        HEAD
        + """
scheme: int8
weight_scales: per_tensor
activation_scales: symmetric
calibration: {data: more.npz, method: percentile, percentile: 99.9}
accuracy:
  min_sqnr_db: 30
  min_cosine: 0.99
  max_relative_error: 0.1
  min_argmax_agreement: 0.98
  class_axis: 1
  min_mask_agreement: 0.9
  min_region_agreement: 0.8
  mask_threshold: 0.3
  region_side: 3
  region_score: 0.6
  output: y
  data: judged.npz
activations: {y: {min: 0, max: 1}}
keep: [act]
"""
    )
    assert load_settings(path, graph()) == Settings(
        path,
        WeightScales.PER_TENSOR,
        ActivationScales.SYMMETRIC,
        Calibration("more.npz", Method.PERCENTILE, 99.9),
        AccuracyLimit("judged.npz", 30.0, 0.99, 0.1, 0.98, 1, 0.9, 0.8, 0.3, 3, 0.6, "y"),
        {"y": Range(0.0, 1.0)},
        frozenset({"act"}),
    )


def test_regions_need_an_image(tmp_path: Path) -> None:
    flat = draft_of("input %x : f32[4]\n%y : f32[4] = neg(%x)\noutput %y").graph
    path = tmp_path / "ranges.yaml"
    path.write_text(HEAD + MSE + "accuracy: {min_region_agreement: 1}", encoding="utf-8")
    with pytest.raises(InputError, match="output 'y' has 1 axes"):
        load_settings(path, flat)
