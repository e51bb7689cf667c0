"""The bench of what runs on the host: a small model on devices with floats and without."""

from __future__ import annotations

from pathlib import Path

import onnx

from flows.benchmarks.on_the_host import cell, lines, rows_of
from models.synthetic import transformer_block
from tests.compiler.specs import hardware


def test_a_transformer_runs_whole_where_floats_are_and_in_parts_where_not(tmp_path: Path) -> None:
    onnx.save(transformer_block(), tmp_path / "model.onnx")
    rows = list(rows_of("block", tmp_path, [hardware("npu_tiny"), hardware("edge_tpu")]))
    assert all(row is not None for row in rows)
    npu, edge = (cell(row) for row in rows)
    assert npu == "0"
    listed, lacking, formats = map(int, edge.split(" / "))
    assert rows[1] is not None
    assert listed + lacking + formats == rows[1]["host"]
    assert rows[0] is not None
    assert rows[0]["device_ns"] == rows[0]["estimate_ns"]
    assert lacking > 0  # the list has no GELU
    assert formats > 0
    assert lines(["a", "b"], [("block", rows)])[-1] == f"| `block` | 0 | {edge} |"


def test_a_device_that_takes_another_time_than_estimated_is_shown() -> None:
    row = {"claimed": [], "unlisted": [], "rules": 0, "estimate_ns": 70, "device_ns": 71}
    assert cell(row) == "0, 71 ns instead of 70"
    assert cell(row | {"device_ns": 70}) == "0"


def test_a_broken_rule_and_a_refusal_are_shown() -> None:
    row = {"claimed": ["2 resize: two taps", "1 quantize: f32"], "unlisted": [], "rules": 3}
    assert cell(row) == "2 / 0 / 1, rules: 3"
    assert cell(None) == "refused"
