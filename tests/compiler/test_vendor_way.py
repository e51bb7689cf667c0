"""Networks as vendors' compilers make them: layer by layer, and as each spec knows its vendor's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest

from models.textual import convolution_weight, model_from_text
from stages.compiler.pipeline import Compiled
from stages.compiler.vendor_way import as_vendors_fuse, compile_as_vendors_do
from stages.hardware.spec import HardwareSpec, VendorCompiler
from tests.compiler.judged import Case, case_of, judge_numbers, judge_plan, own_ranges
from tests.compiler.specs import hardware

_BRANCHES = """branches (float16[1, 32, 8, 8] x) => (float16[1, Z, 8, 8] y) {
    a = Conv <kernel_shape = [1, 1]> (x, v) p = Relu(a)
    b = Conv <kernel_shape = [1, 1]> (x, w) q = Relu(b)
    j = Concat <axis = 1> (p, q) y = MaxPool <kernel_shape = [1, 1]> (j) }"""
_SWISH = """swish (float16[1, 16, 8, 8] x) => (float16[1, 16, 8, 8] y) {
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w) y = HardSwish(a) }"""


def branches(left: int, right: int) -> onnx.ModelProto:
    weights = {"v": _weight(left, 32, 1), "w": _weight(right, 32, 1)}
    return model_from_text(_BRANCHES.replace("Z", str(left + right)), weights)


def _weight(outputs: int, inputs: int, kernel: int) -> np.ndarray:
    return convolution_weight(np.random.default_rng(outputs), outputs, inputs, kernel).astype(
        np.float16
    )


def swish() -> onnx.ModelProto:
    return model_from_text(_SWISH, {"w": _weight(16, 16, 3)})


def case(model: onnx.ModelProto, channels: int) -> Case:
    data = np.random.default_rng(2).standard_normal((1, channels, 8, 8)).astype(np.float16)
    return case_of(model, {"x": data})


def judged(made: Case, spec: HardwareSpec) -> Compiled:
    """Compiled as vendors do, for a plan that the device's own spec must find right."""
    compiled = compile_as_vendors_do(made.graph, made.constants, spec)
    judge_plan(compiled, spec)
    judge_numbers(made, compiled, spec)
    return compiled


def engines(compiled: Compiled) -> Mapping[str, str]:
    """The engine of each group, by the kinds in it."""
    kinds = {operator.name: operator.kind.value for operator in compiled.recipe.graph.operators}
    return {
        " ".join(kinds[name] for name in group.operators): str(group.engine)
        for group in compiled.recipe.groups
    }


def without(spec: HardwareSpec) -> HardwareSpec:
    return replace(spec, vendor_compiler=VendorCompiler())


@pytest.mark.parametrize(
    ("left", "right", "layout"), [(32, 16, "nc1hwc2/16"), (24, 24, "row_major")]
)
def test_whole_blocks_are_joined_without_a_copy_and_others_are_laid_out_for_it(
    left: int, right: int, layout: str
) -> None:
    compiled = judged(case(branches(left, right), 32), hardware("ascend_310"))
    assert engines(compiled)["concat"] == "none"
    assert str(compiled.recipe.layout("j")) == layout


def test_a_vendor_that_is_not_known_to_view_copies() -> None:
    made = case(branches(32, 16), 32)
    assert engines(judged(made, without(hardware("ascend_310"))))["concat"] == "dma"


def test_what_the_vendor_does_not_fuse_is_a_group_of_its_own() -> None:
    made, spec = case(swish(), 16), hardware("ascend_310")
    apart = judged(made, spec)
    assert engines(apart)["hard_swish"] == "vector"
    assert engines(judged(made, without(spec)))["conv hard_swish"] == "tensor_core"
    assert apart.plan.hardware == spec.name


def test_integers_are_quantised_where_the_vendor_ends_a_group() -> None:
    made, spec = case(swish(), 16), hardware("ascend_310")
    compiled = compile_as_vendors_do(made.graph, made.constants, spec, own_ranges(made))
    judge_plan(compiled, spec)
    contracting = [group for kinds, group in engines(compiled).items() if "conv" in kinds]
    assert contracting == ["tensor_core"]
    assert not any("conv" in kinds and "hard_swish" in kinds for kinds in engines(compiled))


def test_prices_are_the_devices() -> None:
    spec = hardware("ascend_310")
    fused = as_vendors_fuse(spec)
    assert spec.tensor_core.output_stage - fused.tensor_core.output_stage == {
        "hard_swish",
        "hard_sigmoid",
    }
    changed = replace(fused.tensor_core, output_stage=spec.tensor_core.output_stage)
    assert replace(fused, tensor_core=changed) == spec
    assert as_vendors_fuse(hardware("rk3588_npu")) == hardware("rk3588_npu")
