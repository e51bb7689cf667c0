"""The bench of the compiler's steps: a small network as exported, and with each step."""

from __future__ import annotations

from flows.benchmarks.compiler_steps import EACH, OriginalLayouts, cycles
from stages.compiler.pipeline import decisions
from stages.tensors import ROW_MAJOR
from tests.compiler.cascade.chain_models import inverted_residuals
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware, with_sram


def test_every_step_gains_and_all_of_them_the_most() -> None:
    spec = with_sram(hardware("rk3588_npu"), 24 * 1024)
    case = inverted_residuals(32)
    found = {name: cycles(case.graph, case.constants, spec, steps) for name, steps in EACH.items()}
    ends = {name: found.pop(name) for name in ("as exported", "all")}
    assert len(found) == 4
    for value in found.values():
        assert value is not None
        assert ends["all"] < value < ends["as exported"]


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
