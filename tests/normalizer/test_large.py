"""Weights over 2 GB: streamed to a file beside the model, never held twice."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

ROWS, COLUMNS = 1 << 18, 1 << 11
TENSOR_BYTES = ROWS * COLUMNS * 4
GIB = 1 << 30

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("RECIPE_SLOW_TESTS"), reason="set RECIPE_SLOW_TESTS=1: 9 GiB of disk"
    ),
]


def sparse_model(folder: Path) -> Path:
    """Two tables of 2 GiB each, in one sparse file: it takes no disk until it is copied."""
    data = folder / "weights.bin"
    with data.open("wb") as stream:
        for table in range(2):
            stream.seek(table * TENSOR_BYTES + 4096)
            stream.write(b"\x00\x00\x80\x3f" * 1024)  # float32 ones in an early row
        stream.truncate(2 * TENSOR_BYTES)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table0", "i"], ["a"]),
            helper.make_node("Gather", ["table1", "i"], ["b"]),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        "large",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, COLUMNS])],
        [external_tensor(f"table{index}", index * TENSOR_BYTES) for index in range(2)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    path = folder / "large.onnx"
    onnx.save(model, path)
    return path


def external_tensor(name: str, offset: int) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, dims=[ROWS, COLUMNS], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", TENSOR_BYTES)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


@pytest.fixture
def folder() -> Iterator[Path]:
    """Unlike `tmp_path`, gone when the test ends."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_weights_over_2_gb(folder: Path) -> None:
    if shutil.disk_usage(folder).free < 12 * GIB:
        pytest.skip("needs 12 GiB of disk")
    if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < 12 * GIB:
        pytest.skip("needs 12 GiB of memory")
    path = sparse_model(folder)
    program = (
        "from pathlib import Path\n"
        "from stages.normalize import normalize\n"
        "from stages.normalizer.source import ModelSource\n"
        f"source = ModelSource('large', Path({str(path)!r}))\n"
        f"report = normalize(source, Path({str(folder / 'out')!r}), seed=1, sample_count=1)\n"
        "assert report.proof.samples == 1, report\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    subprocess.run([sys.executable, "-c", program], check=True)
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert before < peak_bytes // 1024
    written = onnx.load(folder / "out" / "model.onnx", load_external_data=False)
    assert {entry.version for entry in written.opset_import} == {17}
    assert (folder / "out" / "model.onnx").stat().st_size < 100_000
    assert (folder / "out" / "model.onnx.data").stat().st_size >= 2 * TENSOR_BYTES
    assert peak_bytes < 2 * TENSOR_BYTES + 2 * GIB
