"""The single-stage commands one after the other, and what they refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from flows.project.places import PairPlaces
from stages.errors import Outcome
from stages.normalizer.reference import OnnxRuntimeReference
from stages.normalizer.sample_files import load_samples
from tests.flows import small_models
from tests.flows.command import REPOSITORY, Ended, recipe_inside
from tests.flows.test_bad_input import check_refused

HARDWARE = "npu_tiny"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> PairPlaces:
    """A small model, taken through all six stages by their own commands."""
    folder = tmp_path_factory.mktemp("stages")
    model = small_models.save(small_models.convolution(), folder / "small.onnx")
    places = PairPlaces(folder / "out", "small", HARDWARE)
    there = ["--hardware", HARDWARE]
    for command in (
        ["normalize", model, "--out", places.normalized],
        ["compile", places.normalized, *there, "--out", places.package],
        ["validate", places.package, *there, "--normalized", places.normalized,
         "--out", places.validation],
        ["benchmark", places.package, *there, "--runs", "200", "--out", places.benchmark],
        ["gate", places.benchmark, "--validation", places.validation, "--out", places.gate],
        ["stress", places.package, *there, "--runs", "50", "--out", places.stress],
    ):  # fmt: skip
        ended = recipe_inside(*command)
        assert (ended.code, ended.err) == (Outcome.PASSED, ""), command
    return places


def test_each_stage_writes_its_files(made: PairPlaces) -> None:
    files = {path.relative_to(made.out).as_posix() for path in made.out.rglob("*.*")}
    assert {
        "normalized/small/model.onnx",
        "normalized/small/samples.npz",
        "normalized/small/normalize.json",
        "npu_tiny/small/package/recipe.txt",
        "npu_tiny/small/package/manifest.json",
        "npu_tiny/small/validation/validation.json",
        "npu_tiny/small/benchmark/samples.csv",
        "npu_tiny/small/benchmark/benchmark.json",
        "npu_tiny/small/benchmark/trace.json",
        "npu_tiny/small/gate/gate.json",
        "npu_tiny/small/stress/stress.json",
        "npu_tiny/small/stress/stress.csv",
    } <= files
    assert not [name for name in files if "partial" in name]
    assert len((made.benchmark / "samples.csv").read_text().splitlines()) == 201


def test_show_prints_recipe_plan_and_memory_map(made: PairPlaces) -> None:
    recipe = recipe_inside("show", made.package)
    assert recipe.code == Outcome.PASSED
    assert recipe.out.startswith("recipe ")
    assert "group " in recipe.out
    plan = recipe_inside("show", made.package, "--plan", "--memory")
    assert "DMA_COPY" in plan.out
    assert "sram" in plan.out


def test_show_says_why(made: PairPlaces) -> None:
    said = recipe_inside("show", made.package, "--why", "relu")
    assert said.code == Outcome.PASSED
    assert said.out.startswith("group conv on tensor_core: ")
    for word in ("fusion: conv+relu", "precision: f16", "tile: [", "<- chosen", " us "):
        assert word in said.out
    assert recipe_inside("show", made.package, "--why", "%r").out == said.out, "the maker of %r"
    wrong = recipe_inside("show", made.package, "--why", "convv")
    assert wrong.code == Outcome.BAD_INPUT
    assert "hint: the nearest names: conv" in wrong.err
    far = recipe_inside("show", made.package, "--why", "zzz")
    assert far.code == Outcome.BAD_INPUT
    assert f"hint: `recipe show {made.package}` prints all names" in far.err


def test_compile_stops_goes_on_and_uses_old_decisions(made: PairPlaces, tmp_path: Path) -> None:
    common = ["compile", made.normalized, "--hardware", HARDWARE, "--fresh"]
    stopped = recipe_inside(*common, "--out", tmp_path / "fused", "--stop-after", "fuse")
    assert (stopped.code, stopped.err) == (Outcome.PASSED, "")
    text = tmp_path / "fused" / "recipe.txt"
    assert "group conv on tensor_core" in text.read_text()
    went_on = recipe_inside(*common, "--out", tmp_path / "again", "--start-from", text)
    warm = recipe_inside(*common, "--out", tmp_path / "warm", "--reuse", made.package)
    assert went_on.code == warm.code == Outcome.PASSED
    assert "used again" in warm.out
    for name in ("manifest.json", "recipe.txt", "plan.bin", "weights.safetensors"):
        expected = (made.package / name).read_bytes()
        assert (tmp_path / "again" / name).read_bytes() == expected
        assert (tmp_path / "warm" / name).read_bytes() == expected
    wrong = recipe_inside(*common, "--out", tmp_path / "no", "--stop-after", "tiles")
    assert wrong.code == Outcome.BAD_INPUT
    assert "canonicalize, " in wrong.err


def test_compile_says_what_an_option_couldnt_do(made: PairPlaces, tmp_path: Path) -> None:
    common = ["compile", made.normalized, "--hardware", HARDWARE, "--fresh", "--out"]
    stopped = recipe_inside(*common, tmp_path / "ordered", "--stop-after", "order")
    assert stopped.code == Outcome.PASSED
    started = ["--start-from", tmp_path / "ordered", "--reuse"]
    said = recipe_inside(*common, tmp_path / "package", *started, made.package, "--merge-lora")
    assert said.code == Outcome.PASSED
    assert "no LoRA branch was found to merge" in said.out
    assert "can be used again: some decisions are made already" in said.out
    no_package = recipe_inside(*common, tmp_path / "other", *started, made.normalized)
    check_refused(no_package, Outcome.BAD_PACKAGE, "there is no package here")


@pytest.mark.parametrize(
    ("content", "problem"), [(b"garbage", "can't be read: "), (b"", "holds no graph")]
)
def test_compile_refuses_what_is_no_model(
    content: bytes, problem: str, made: PairPlaces, tmp_path: Path
) -> None:
    folder = tmp_path / "normalized"
    shutil.copytree(made.normalized, folder)
    (folder / "model.onnx").write_bytes(content)
    said = recipe_inside("compile", folder, "--hardware", HARDWARE, "--out", tmp_path / "out")
    check_refused(said, Outcome.BAD_INPUT, problem, "recipe normalize")
    assert not (tmp_path / "out").exists()


def refuse_package(package: Path, outcome: Outcome, *words: str, hardware: str = HARDWARE) -> None:
    """Every command that reads a package refuses it, and writes nothing."""
    out = package.parent / "refused" / "out"
    there = ["--hardware", hardware, "--out", out]
    for command in (["validate", package, "--normalized", package, *there],
                    ["benchmark", package, *there], ["stress", package, *there]):  # fmt: skip
        check_refused(recipe_inside(*command), outcome, *words)
        assert not out.exists()
        assert not list(out.parent.iterdir())


@pytest.mark.parametrize(
    "file", ["recipe.txt", "plan.txt", "constants.safetensors", "manifest.json"]
)
def test_a_package_with_one_byte_changed_is_refused(
    file: str, made: PairPlaces, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    shutil.copytree(made.package, package)
    content = bytearray((package / file).read_bytes())
    content[len(content) // 2] ^= 1
    (package / file).write_bytes(content)
    refuse_package(package, Outcome.BAD_PACKAGE, "package")
    check_refused(recipe_inside("show", package), Outcome.BAD_PACKAGE)


def test_a_package_with_a_file_missing_is_refused(made: PairPlaces, tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(made.package, package)
    (package / "plan.bin").unlink()
    refuse_package(package, Outcome.BAD_PACKAGE, "plan.bin")


def test_a_package_made_for_another_spec_is_refused(made: PairPlaces) -> None:
    refuse_package(
        made.package, Outcome.BAD_PACKAGE, "npu_tiny", "rk3588_npu", hardware="rk3588_npu"
    )


def test_a_package_is_refused_once_its_spec_has_changed(made: PairPlaces, tmp_path: Path) -> None:
    changed = tmp_path / "npu_tiny.yaml"
    content = (REPOSITORY / "hardware_specs" / "npu_tiny.yaml").read_text()
    changed.write_text(content + "# a word more\n")
    refuse_package(made.package, Outcome.BAD_PACKAGE, "npu_tiny", hardware=str(changed))


def test_a_quantisation_file_for_another_model_is_refused(made: PairPlaces, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("version: 1\nmodel: other\nactivations: {x: {min: -1.0, max: 1.0}}\n")
    out = tmp_path / "out" / "package"
    ended = recipe_inside(
        "compile", made.normalized, "--hardware", HARDWARE, "--quantization", file, "--out", out
    )
    check_refused(ended, Outcome.BAD_INPUT, "'other'", "'small'")
    assert not list(out.parent.iterdir())


def judge(made: PairPlaces, baseline: Path, *more: str) -> Ended:
    """The gate against a baseline."""
    reports = [made.benchmark, "--validation", made.validation]
    return recipe_inside("gate", *reports, "--baseline", baseline, "--out", made.gate, *more)


def test_a_slower_package_fails_the_gate_with_its_own_exit_code(
    made: PairPlaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("params.yaml", "hardware_specs", "models"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.setenv("RECIPE_ROOT", str(tmp_path))
    accepted = recipe_inside("baseline", "accept", tmp_path / "small.onnx",
                             "--hardware", HARDWARE, "--out", made.out)  # fmt: skip
    assert (accepted.code, accepted.err) == (Outcome.PASSED, "")
    baseline = tmp_path / "baselines" / HARDWARE / "small.json"
    assert judge(made, baseline).code == Outcome.PASSED

    facts = json.loads(baseline.read_text())
    facts["latency"]["p99_ns"] = facts["latency"]["p99_ns"] * 90 // 100
    baseline.write_text(json.dumps(facts))
    ended = judge(made, baseline)
    assert ended.code == Outcome.GATE_FAILED
    assert "FAIL" in ended.out
    verdict = json.loads((made.gate / "gate.json").read_text())
    assert verdict["verdict"] == "FAIL"
    shutil.rmtree(made.gate)
    assert judge(made, baseline, "--exit-zero").code == Outcome.PASSED
    assert json.loads((made.gate / "gate.json").read_text()) == verdict


def test_a_stage_over_its_limit_fails_with_its_own_exit_code(
    made: PairPlaces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hardware_specs", "models"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "params.yaml").write_text(
        "validate: {max_sram_bytes: 1}\nthermal_stress: {max_p99_over_p50: 1.0, runs: 50}\n"
    )
    monkeypatch.setenv("RECIPE_ROOT", str(tmp_path))
    there = ["--hardware", HARDWARE, "--out"]
    validation = ["validate", made.package, "--normalized", made.normalized, *there, tmp_path / "v"]
    assert recipe_inside(*validation).code == Outcome.VALIDATION_FAILED
    assert recipe_inside(*validation, "--exit-zero").code == Outcome.PASSED
    assert json.loads((tmp_path / "v" / "validation.json").read_text())["verdict"] == "FAIL"
    hot = ["stress", made.package, *there, tmp_path / "s"]
    assert recipe_inside(*hot, "--exit-zero").code == Outcome.PASSED
    assert recipe_inside(*hot).code == Outcome.STRESS_FAILED
    assert json.loads((tmp_path / "s" / "stress.json").read_text())["verdict"] == "FAIL"


def test_a_stress_run_in_moving_air_says_where_it_was(made: PairPlaces, tmp_path: Path) -> None:
    reports = {}
    for name, options in {
        "chamber": [],
        "still": ["--ambient", "40"],
        "windy": ["--ambient", "40", "--airflow", "2"],
        "soak": ["--ambient", "40", "--minutes", "0.1"],
    }.items():
        out = tmp_path / name
        there = ["--hardware", HARDWARE, "--out", out]
        assert recipe_inside("stress", made.package, *there, *options).code == Outcome.PASSED
        reports[name] = json.loads((out / "stress.json").read_text())
    chamber, still, windy, soak = (reports[name] for name in ("chamber", "still", "windy", "soak"))
    assert (chamber["in_chamber"], chamber["junction_celsius"]) == (True, 85.0)
    assert (still["in_chamber"], still["ambient_celsius"]) == (False, 40.0)
    assert (still["airflow_m_per_s"], windy["airflow_m_per_s"]) == (None, 2.0)
    assert 40.0 < windy["peak_celsius"] < still["peak_celsius"]
    assert soak["latency"]["runs"] * soak["latency"]["mean_ns"] == pytest.approx(6e9, rel=0.01)
    assert len((tmp_path / "soak" / "stress.csv").read_text().splitlines()) <= 10_001
    for report in reports.values():
        heat = report["heat"]
        both = heat["stored_joules"] + heat["released_joules"]
        assert both == pytest.approx(heat["supplied_joules"], abs=3e-6)


@pytest.mark.parametrize(
    ("options", "outcome", "words"),
    [
        (["--runs", "5", "--minutes", "1"], Outcome.BAD_INPUT, ("both --runs and --minutes",)),
        (["--airflow", "50"], Outcome.BAD_INPUT, ("the spec knows 0 to 3 m/s", "thermal.airflow")),
        (["--ambient", "120"], Outcome.BAD_INPUT, ("goes off at 110 degC", "ambient_celsius")),
    ],
)
def test_a_stress_run_that_cant_be_is_refused(
    options: list[str],
    outcome: Outcome,
    words: tuple[str, ...],
    made: PairPlaces,
    tmp_path: Path,
) -> None:
    there = ["--hardware", HARDWARE, "--out", tmp_path / "s"]
    check_refused(recipe_inside("stress", made.package, *there, *options), outcome, *words)
    assert not (tmp_path / "s").exists()


def test_exit_zero_hides_a_verdict_but_no_error(made: PairPlaces, tmp_path: Path) -> None:
    other = tmp_path / "validation"
    shutil.copytree(made.validation, other)
    report = other / "validation.json"
    report.write_text(report.read_text().replace('"package": "', '"package": "0'))
    out = tmp_path / "gate"
    ended = recipe_inside(
        "gate", made.benchmark, "--validation", other, "--out", out, "--exit-zero"
    )
    check_refused(ended, Outcome.BAD_INPUT, "different packages")
    assert not out.exists()


def test_the_exported_recipe_runs_in_onnx_runtime_and_computes_the_same(
    made: PairPlaces, tmp_path: Path
) -> None:
    file = tmp_path / "new" / "recipe.onnx"
    ended = recipe_inside("export", made.package, "--onnx", file)
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    assert [path.name for path in file.parent.iterdir()] == ["recipe.onnx"]
    sample = load_samples(made.normalized / "samples.npz")[0]
    expected = OnnxRuntimeReference(made.normalized / "model.onnx").run(sample)
    exported = OnnxRuntimeReference(file).run(sample)
    assert list(exported) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(exported[name], values, atol=0.01 * np.ptp(values))
