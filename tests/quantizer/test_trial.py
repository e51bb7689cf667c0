"""A trial computes what the package will compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stages.compiler.pipeline import compile_graph
from stages.evaluation.accuracy import compare_floats
from stages.evaluation.whole_groups import run_whole, whole_groups
from stages.quantizer.trial import Remembered, Trial
from tests.quantizer.small_subject import MIN_MAX, folder, model, samples


@pytest.mark.parametrize("hardware", ["rk3588_npu", "ethos_u65_512"])
@pytest.mark.parametrize("keep", ["", "keep: [op_c]\n"])
def test_it_equals_the_recipe_but_for_a_step(tmp_path: Path, hardware: str, keep: str) -> None:
    made = folder(tmp_path, model(), samples(4), hardware)
    quantization = made.decide(MIN_MAX + keep).quantization
    assert quantization is not None
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
