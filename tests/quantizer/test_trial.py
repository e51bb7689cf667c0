"""A trial computes what the package will compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stages.compiler.pipeline import compile_graph
from stages.evaluation.accuracy import compare_floats
from stages.evaluation.whole_groups import run_whole, whole_groups
from stages.normalizer.reference import OnnxRuntimeReference
from stages.quantizer.trial import Remembered, Trial
from stages.recipe.kinds import Kind
from tests.quantizer.small_subject import EQUALIZED, MIN_MAX, affine_model, folder, model, samples


@pytest.mark.parametrize("hardware", ["rk3588_npu", "ethos_u65_512"])
@pytest.mark.parametrize("keep", ["", "keep: [op_c]\n"])
@pytest.mark.parametrize("equalize", [MIN_MAX, EQUALIZED])
def test_it_equals_the_recipe_but_for_a_step(
    tmp_path: Path, hardware: str, keep: str, equalize: str
) -> None:
    made = folder(tmp_path, model(loud=20.0), samples(4), hardware)
    quantization = made.decide(equalize + keep).quantization
    assert quantization is not None
    assert ("b" in quantization.channel_factors) == (equalize is EQUALIZED)
    subject = made.subject()
    arguments = (subject.graph, subject.constants, subject.spec, quantization, subject.sample)
    compiled = compile_graph(*arguments)
    groups = whole_groups(compiled.recipe)
    trial, close = Trial(*arguments), []
    for sample in samples(8, seed=9):
        exact = run_whole(groups, compiled.recipe, compiled.constants, sample)["y"]
        tried = trial.run(sample)["y"]
        assert tried.dtype == exact.dtype
        close.append(compare_floats(tried, exact).sqnr_db)
    assert min(close) > 50
    assert sum(sqnr_db > 100 for sqnr_db in close) > 4, "a step is seldom off, and nothing else is"


@pytest.mark.parametrize("hardware", ["rk3588_npu", "ethos_u65_512"])
def test_a_scale_and_a_shift_leave_no_operator_in_the_recipe(tmp_path: Path, hardware: str) -> None:
    made = folder(tmp_path, affine_model(), samples(4), hardware)
    quantization = made.decide(MIN_MAX).quantization
    assert quantization is not None
    assert {"b", "d"} <= quantization.ranges.keys()
    subject = made.subject()
    arguments = (subject.graph, subject.constants, subject.spec, quantization, subject.sample)
    compiled = compile_graph(*arguments)
    kinds = {op.kind for op in compiled.recipe.graph.operators}
    assert not kinds & {Kind.MUL, Kind.ADD}
    groups = whole_groups(compiled.recipe)
    trial, reference = Trial(*arguments), OnnxRuntimeReference(subject.model)
    for sample in samples(4):  # within the ranges, so that rounding is all that is lost
        exact = run_whole(groups, compiled.recipe, compiled.constants, sample)["y"]
        assert compare_floats(trial.run(sample)["y"], exact).sqnr_db > 50
        assert compare_floats(exact, reference.run(sample)["y"]).sqnr_db > 30


def test_what_is_remembered_is_what_would_be_computed(tmp_path: Path) -> None:
    made = folder(tmp_path, model(), samples(4))
    subject = made.subject()
    (sample,) = samples(1, seed=9)
    remembered = Remembered()
    for keep in ("op_a, op_c, op_y", "op_c", "op_a", "op_y, op_a"):
        quantization = made.decide(f"{MIN_MAX}keep: [{keep}]\n").quantization
        assert quantization is not None
        trial = Trial(subject.graph, subject.constants, subject.spec, quantization, None)
        alone = trial.run(sample)["y"]
        assert np.array_equal(trial.run(sample, remembered)["y"], alone)
