"""Plans of measured models: what they are made from, and their cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from models.textual import model_from_text
from stages.calibration.measurements import Precision
from stages.calibration.plans import Compiled, Subject, Way, compiled_plan
from stages.calibration.work import Work
from stages.compiler.quantization import Quantization, Range
from stages.errors import CompileError
from stages.hardware.spec import HardwareSpec
from stages.plan.timing import plan_cycles
from stages.recipe.graph import Graph
from stages.tensors import Array, DType
from tests.compiler.specs import hardware

TEXT = """
net (float[1,4,8,8] x) => (float[1,6,8,8] y) {
  c = Conv <pads=[1,1,1,1]> (x, w)
  y = Relu (c)
}
"""


class Loads:
    """A model that counts how often it is made."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, precision: Precision) -> onnx.ModelProto:
        del precision
        self.count += 1
        return model_from_text(TEXT, {"w": np.ones((6, 4, 3, 3), np.float32)})


def ranges(graph: Graph, _constants: Mapping[str, Array], _spec: HardwareSpec) -> Quantization:
    return Quantization(
        {name: Range(-4.0, 4.0) for name in graph.types if name != "w"}, frozenset()
    )


@pytest.fixture
def loads() -> Loads:
    return Loads()


def compiled(loads: Loads, folder: Path, precision: Precision, digest: str = "d") -> Compiled:
    subject = Subject("net", digest, loads, ranges)
    return compiled_plan(subject, precision, hardware("npu_tiny"), folder)


def test_a_cached_plan_is_the_plan(loads: Loads, tmp_path: Path) -> None:
    made = compiled(loads, tmp_path, Precision.FP16)
    again = compiled(loads, tmp_path, Precision.FP16)
    assert again == made
    assert loads.count == 1
    spec = hardware("npu_tiny")
    assert plan_cycles(again.plan, spec) == plan_cycles(made.plan, spec)


def test_another_model_precision_or_device_is_compiled_anew(loads: Loads, tmp_path: Path) -> None:
    one = compiled(loads, tmp_path, Precision.FP16)
    compiled(loads, tmp_path, Precision.FP16, digest="another")
    integer = compiled(loads, tmp_path, Precision.INT8)
    other = compiled_plan(
        Subject("net", "d", loads, ranges), Precision.FP16, hardware("rk3588_npu"), tmp_path
    )
    assert loads.count == 4
    assert other.plan.hardware == "rk3588_npu" != one.plan.hardware
    assert _dtypes(one) == {DType.F16}
    assert _dtypes(integer) == {DType.I8}


def test_a_plan_made_another_way_is_another_plan(loads: Loads, tmp_path: Path) -> None:
    subject, spec = Subject("net", "d", loads, ranges), hardware("npu_tiny")
    vendors = compiled_plan(subject, Precision.INT8, spec, tmp_path)
    own = compiled_plan(subject, Precision.INT8, spec, tmp_path, Way.OWN)
    assert loads.count == 2
    assert plan_cycles(own.plan, spec) <= plan_cycles(vendors.plan, spec)
    assert compiled_plan(subject, Precision.INT8, spec, tmp_path, Way.OWN) == own


def _dtypes(compiled: Compiled) -> set[DType]:
    works = (instruction.contraction for instruction in compiled.plan.instructions)
    return {work.dtype for work in works if work is not None}


def test_a_damaged_cache_is_replaced(loads: Loads, tmp_path: Path) -> None:
    made = compiled(loads, tmp_path, Precision.FP16)
    for path in tmp_path.glob("*.plan"):
        path.write_bytes(path.read_bytes()[:100])
    assert compiled(loads, tmp_path, Precision.FP16) == made
    assert loads.count == 2


def test_the_size_of_a_network(loads: Loads, tmp_path: Path) -> None:
    made = compiled(loads, tmp_path, Precision.FP16)
    assert made.work == Work(macs=6 * 64 * 4 * 9, parameters=6 * 4 * 9, activations=6 * 64)
    assert made.fallbacks == 0


def test_a_precision_without_recipes_is_refused(loads: Loads, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no recipe of net in w8a16"):
        compiled(loads, tmp_path, Precision.W8A16)
    assert loads.count == 0
