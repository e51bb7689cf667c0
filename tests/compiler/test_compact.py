"""Buffers moved together: a lower peak, the same numbers, and no cycle more."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from models.textual import convolution_weight, model_from_text
from stages.compiler.schedule import reorder
from stages.plan.memory_map import memory_usage
from stages.plan.timing import plan_cycles
from tests.compiler.judged import case_of, compile_and_judge
from tests.compiler.specs import hardware


def convolutions(channels: int, extent: int) -> onnx.ModelProto:
    """Three convolutions, one behind the other."""
    shape = f"float16[1, {channels}, {extent}, {extent}]"
    random = np.random.default_rng(6)
    weights = {
        name: convolution_weight(random, channels, channels, 3).astype(np.float16) for name in "uvw"
    }
    return model_from_text(
        f"""g ({shape} x) => ({shape} y) {{
            a = Conv <pads = [1, 1, 1, 1]> (x, u) b = Conv <pads = [1, 1, 1, 1]> (a, v)
            c = Conv <pads = [1, 1, 1, 1]> (b, w) y = Relu(c) }}""",
        weights,
    )


@pytest.mark.parametrize("name", ["rk3588_npu", "nvidia_t4"])
def test_buffers_move_together_where_it_costs_no_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = hardware(name)
    x = np.random.default_rng(7).standard_normal((1, 48, 24, 24)).astype(np.float16)
    case = case_of(convolutions(48, 24), {"x": x})
    moved = compile_and_judge(case, spec).plan
    monkeypatch.setattr(reorder, "compacted", lambda found, ordering, *rest: ordering)
    strewn = compile_and_judge(case, spec).plan
    before, after = (memory_usage(plan.buffers, spec.sram) for plan in (strewn, moved))
    assert after.peak_bytes < 0.9 * before.peak_bytes
    assert after.bound_bytes == before.bound_bytes
    assert plan_cycles(moved, spec) <= plan_cycles(strewn, spec)
