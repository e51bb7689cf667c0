"""The bench of the compiler's steps: a small network as exported, and with each step."""

from __future__ import annotations

import numpy as np

from flows.benchmarks.compiler_steps import EACH, OriginalLayouts, cycles
from stages.compiler.pipeline import decisions
from stages.recipe.onnx_import import import_model
from stages.tensors import ROW_MAJOR
from tests.compiler.model_builder import SeededChoices
from tests.compiler.passing import draft_of
from tests.compiler.random_models import random_model
from tests.compiler.specs import hardware


def test_every_step_gives_a_recipe_and_all_of_them_the_fastest() -> None:
    spec = hardware("rk3588_npu")
    graph, constants = import_model(random_model(SeededChoices(np.random.default_rng(3)), 6).model)
    found = {name: cycles(graph, constants, spec, steps) for name, steps in EACH.items()}
    known = [value for value in found.values() if value is not None]
    assert len(known) == len(found)
    assert found["all"] == min(known)
    assert found["as exported"] == max(known)


def test_original_layouts_are_row_major_where_they_can_be() -> None:
    window = "{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}"
    text = f"""
        input %x : f16[1,16,8,8]
        const %w : f16[16,16,1,1]
        group a on tensor_core
          %a : f16[1,16,8,8] = conv(%x, %w) {window}
        group b on vector
          %b : f16[1,16,8,8] = relu(%a)
        output %b
        """
    recipe = OriginalLayouts().run(draft_of(text), hardware("rk3588_npu")).recipe
    assert recipe.layout("b") == ROW_MAJOR
    assert recipe.layout("a") != ROW_MAJOR
    assert [step.name for step in decisions()].count("layout") == 1
