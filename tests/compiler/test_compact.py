"""Buffers moved together: a lower peak, the same numbers, and no cycle more."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from stages.compiler.schedule import reorder
from stages.plan.memory_map import memory_usage
from stages.plan.timing import plan_cycles
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.specs import hardware
from tests.recipe.onnx_models import parse

RANDOM = np.random.default_rng(6)


def convolutions(channels: int, extent: int) -> onnx.ModelProto:
    """Three convolutions, one behind the other."""
    shape = f"float16[1, {channels}, {extent}, {extent}]"
    model = parse(
        f"""g ({shape} x) => ({shape} y) {{
            a = Conv <pads = [1, 1, 1, 1]> (x, u) b = Conv <pads = [1, 1, 1, 1]> (a, v)
            c = Conv <pads = [1, 1, 1, 1]> (b, w) y = Relu(c) }}"""
    )
    for name in "uvw":
        data = RANDOM.standard_normal((channels, channels, 3, 3)) / np.sqrt(9 * channels)
        model.graph.initializer.append(numpy_helper.from_array(data.astype(np.float16), name))
    return model


@pytest.mark.parametrize("name", ["rk3588_npu", "nvidia_t4"])
def test_buffers_move_together_where_it_costs_no_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = hardware(name)
    feeds = {"x": RANDOM.standard_normal((1, 48, 24, 24)).astype(np.float16)}
    case = case_of(convolutions(48, 24), feeds)
    moved = compile_and_judge(case, spec).plan
    monkeypatch.setattr(reorder, "compacted", lambda found, ordering, *rest: ordering)
    strewn = compile_and_judge(case, spec).plan
    before, after = (memory_usage(plan.buffers, spec.sram) for plan in (strewn, moved))
    assert after.peak_bytes < 0.9 * before.peak_bytes
    assert after.bound_bytes == before.bound_bytes
    assert plan_cycles(moved, spec) <= plan_cycles(strewn, spec)
