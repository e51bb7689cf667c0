"""`recipe calibrate`, from files to an overlay that a compile takes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from flows.benchmarks.device_accuracy import assess_chip, read_tables, write_page
from flows.calibrating.plan_source import PlanSource
from flows.calibrating.subjects import SubjectFinder
from flows.project.places import Project
from stages.calibration.fit import FitOptions
from stages.calibration.measurements import read_measurements
from stages.calibration.plans import Way
from stages.calibration.predict import predict
from stages.errors import InputError, Outcome
from stages.hardware.load import load_spec
from tests.flows.command import REPOSITORY, recipe
from tests.hardware.specs import write_edited

MODELS = (
    "residual_cnn",
    "separable_net",
    "transformer_block",
    "quantized_cnn",
    "quantized_operators_cnn",
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """npu_tiny, and latencies of a device whose ddr is half as fast."""
    folder = tmp_path_factory.mktemp("calibrate")
    spec = write_edited(folder)
    slow = write_edited(
        tmp_path_factory.mktemp("slow"),
        ("    read_bandwidth: 4 GB/s", "    read_bandwidth: 2 GB/s"),
        ("    write_bandwidth: 4 GB/s", "    write_bandwidth: 2 GB/s"),
    )
    file = folder / "m.csv"
    write(file, dict.fromkeys(MODELS, 1.0))
    rows = read_measurements(file).rows
    source = PlanSource(Project(REPOSITORY), read_measurements(file), 1, lambda text: None)
    base, device = load_spec(spec), load_spec(slow)
    write(file, {row.model: predict(source.plan_of(row, base), device) / 1e6 for row in rows})
    return file


def write(file: Path, latencies_ms: Mapping[str, float]) -> None:
    rows = [f"{model},fp16,{latency}" for model, latency in latencies_ms.items()]
    file.write_text("\n".join(["model,precision,latency_ms", *rows, ""]), encoding="utf-8")


def test_from_measurements_to_a_compile_with_the_overlay(measured: Path, tmp_path: Path) -> None:
    spec = measured.with_name("npu_tiny.yaml")
    before = spec.read_bytes()
    ended = recipe(
        "calibrate", spec, "--measurements", measured, "--fit", "memory.ddr.bandwidth",
        "--rounds", "1", "--starts", "1", "--jobs", "1",
    )  # fmt: skip
    assert ended.code == Outcome.PASSED, ended.err
    assert "memory.ddr.bandwidth 4 GB/s" in " ".join(ended.out.split())
    assert spec.read_bytes() == before
    overlay = measured.with_name("npu_tiny.overlay.yaml")
    text = overlay.read_text(encoding="utf-8")
    assert "reviewed: false" in text
    (value, _) = re.findall(r'value: "([0-9.]+) GB/s"', text)
    assert float(value) == pytest.approx(2, rel=0.01)

    out = tmp_path / "normalized"
    assert recipe("normalize", "residual_cnn", "--out", out).code == Outcome.PASSED
    compile_ = ("compile", out, "--hardware", overlay, "--out", tmp_path / "package")
    refused = recipe(*compile_)
    assert refused.code == Outcome.BAD_HARDWARE_SPEC
    assert "nobody has reviewed this overlay" in refused.err

    overlay.write_text(text.replace("reviewed: false", "reviewed: true"), encoding="utf-8")
    assert recipe(*compile_).code == Outcome.PASSED
    manifest = json.loads((tmp_path / "package" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["hardware"]["sha256"] == load_spec(overlay).digest
    assert "+overlay." in manifest["hardware"]["version"]
    checked = recipe("hardware", "check", overlay)
    assert checked.code == Outcome.PASSED
    assert "npu_tiny: the spec is sound" in checked.out
    again = recipe("calibrate", spec, "--measurements", measured)
    assert again.code == Outcome.BAD_INPUT
    assert "a reviewed overlay stands there already" in again.err
    upon = ("calibrate", overlay, "--measurements", measured, "--out", tmp_path / "o.yaml")
    assert "an overlay can't be calibrated" in recipe(*upon).err
    other = recipe("benchmark", tmp_path / "package", "--hardware", spec, "--out", tmp_path / "b")
    assert other.code == Outcome.BAD_PACKAGE


@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        ("residual_cnm,fp16,1", Outcome.BAD_INPUT, "did you mean `residual_cnn`?"),
        ("gone.onnx,fp16,1", Outcome.BAD_INPUT, "no model file 'gone.onnx'"),
        ("residual_cnn,w8a16,1", Outcome.COMPILE_REFUSED, "aren't compiled yet"),
        ("residual_cnn,fp16,0", Outcome.BAD_INPUT, "isn't more than zero"),
    ],
)
def test_wrong_rows(measured: Path, tmp_path: Path, row: str, code: Outcome, said: str) -> None:
    file = tmp_path / "m.csv"
    rows = [line for line in measured.read_text(encoding="utf-8").splitlines()
            if not line.startswith("residual_cnn")]  # fmt: skip
    file.write_text("\n".join([*rows, row]) + "\n", encoding="utf-8")
    ended = recipe(
        "calibrate", "npu_tiny", "--measurements", file, "--fit", "memory.ddr.bandwidth",
        "--out", tmp_path / "o.yaml", "--jobs", "1",
    )  # fmt: skip
    assert ended.code == code
    assert said in ended.err
    assert f"{file}:6" in ended.err
    assert not (tmp_path / "o.yaml").exists()


def test_a_definition_of_the_zoo_goes_before_the_registry(tmp_path: Path) -> None:
    finder = SubjectFinder(Project(REPOSITORY), tmp_path)
    zoo = finder.find("resnet50", "here")
    assert zoo.digest.endswith(":resnet50")
    with pytest.raises(InputError, match="no model 'resnet5O'"):
        finder.find("resnet5O", "here")


def test_tables_know_their_chip_and_its_judges() -> None:
    tables = {item.hardware: item for item in read_tables(REPOSITORY / "measurements")}
    assert set(tables["qualcomm_htp_v73"].others) == {
        f"qualcomm_htp_v73-{other}" for other in ("qcs9075", "sa8775p", "x_elite")
    }
    assert "rk3588_npu" in tables
    assert not tables["rk3588_npu"].others


def test_the_page_of_a_chip_and_what_it_leaves_out(measured: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    for folder in ("hardware_specs", "measurements", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "models").symlink_to(REPOSITORY / "models")
    shutil.copy(measured.with_name("npu_tiny.yaml"), root / "hardware_specs")
    text = measured.read_text(encoding="utf-8") + "nobodys_net,int8,3\nseparable_net,w8a16,2\n"
    (root / "measurements" / "npu_tiny.csv").write_text(text, encoding="utf-8")
    judged = text.replace("precision,", "precision,used,").replace("fp16,", "fp16,judge,")
    judged = judged.replace("int8,", "int8,judge,").replace("w8a16,", "w8a16,judge,")
    (root / "measurements" / "npu_tiny-other.csv").write_text(judged, encoding="utf-8")

    (tables,) = read_tables(root / "measurements")
    chip = assess_chip(tables, Project(root), 1, FitOptions(starts=1), list(Way))
    assert chip.fit is None  # three rows, and five parameters
    assert [item.row.model for item in chip.rows] == list(MODELS)
    reasons = {item.row.model: item.reason for item in chip.left_out}
    assert reasons == {
        "nobodys_net": "for models/zoo/ has no definition of it",
        "separable_net": "for the compiler makes no w8a16 recipes",
    }
    page = write_page([chip], ["chip_without_spec"], root / "docs").read_text(encoding="utf-8")
    assert "### Judged only: `npu_tiny-other`" in page
    assert "nobodys_net (int8)" in page
    assert all(item.own_ns for item in chip.rows)
    assert (root / "docs" / "device_accuracy" / "npu_tiny.svg").is_file()
