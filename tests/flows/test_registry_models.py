"""Models known by name, through the command: a folder each, with all that lies in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from flows.project.context import Options
from flows.project.requests import Pair, make_request
from flows.steps.board import call_of, steps_of
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from stages.normalizer.sample_files import load_samples
from tests.flows import small_models
from tests.flows.command import REPOSITORY, recipe, recipe_inside
from tests.flows.test_bad_input import check_empty, check_refused

HARDWARE = "npu_tiny"
DESCRIPTION = """
description: a small model
licence: MIT
source: {path: model.onnx}
bindings: {N: 1, H: 12}
samples: {file: samples.npz}
quantization: ranges.yaml
"""
RANGES = """
version: 1
model: small
activations:
  x: {min: -4.0, max: 4.0}
  r: {min: 0.0, max: 6.0}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one model: weights beside it, samples, and a quantisation file."""
    root = tmp_path / "project"
    folder = root / "models" / "tiny"
    folder.mkdir(parents=True)
    (root / "hardware_specs").symlink_to(REPOSITORY / "hardware_specs")
    (root / "params.yaml").write_text("benchmark: {runs: 100}\nthermal_stress: {runs: 50}\n")
    onnx.save(
        small_models.convolution(batch="N", side="H"),
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )
    np.savez(folder / "samples.npz", x=np.full((1, 1, 3, 12, 12), 0.5, np.float32))
    (folder / "ranges.yaml").write_text(RANGES)
    (folder / "model.yaml").write_text(DESCRIPTION)
    monkeypatch.setenv("RECIPE_ROOT", str(root))
    return root


def quantization_of(package: Path) -> str | None:
    """The digest of the quantisation file that a package was made with."""
    stated = json.loads((package / "manifest.json").read_text())["quantization"]
    return str(stated["sha256"]) if stated else None


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compiled(normalized: Path, out: Path, *more: str | Path) -> str:
    """Compiles, and gives the recipe's text."""
    ended = recipe_inside("compile", normalized, "--hardware", HARDWARE, "--out", out, *more)
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    return (out / "recipe.txt").read_text()


def test_a_model_with_its_weights_samples_and_ranges_beside_it(
    project: Path, tmp_path: Path
) -> None:
    normalized = tmp_path / "n"
    ended = recipe_inside("normalize", "tiny", "--out", normalized)
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    assert sorted(path.name for path in normalized.iterdir()) == [
        "model.onnx", "normalize.json", "quantization.yaml", "samples.npz",
    ]  # fmt: skip
    facts = json.loads((normalized / "normalize.json").read_text())
    assert (facts["origin"], facts["licence"]) == ("file model.onnx", "MIT")
    assert facts["bindings"] == {"N": 1, "H": 12}
    assert facts["proof"]["max_absolute_difference"] == 0
    assert np.all(load_samples(normalized / "samples.npz")[0]["x"] == np.float32(0.5))
    ranges = project / "models" / "tiny" / "ranges.yaml"
    assert (normalized / "quantization.yaml").read_bytes() == ranges.read_bytes()
    weights = project / "models" / "tiny" / "model.onnx.data"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    recipe_inside("normalize", "tiny", "--out", normalized)
    again = json.loads((normalized / "normalize.json").read_text())
    assert again["original_sha256"] != facts["original_sha256"]


def test_compile_uses_the_models_own_ranges_unless_told_otherwise(
    project: Path, tmp_path: Path
) -> None:
    normalized, ranges = tmp_path / "n", project / "models" / "tiny" / "ranges.yaml"
    recipe_inside("normalize", "tiny", "--out", normalized)
    own = compiled(normalized, tmp_path / "own")
    assert "i8[" in own
    assert quantization_of(tmp_path / "own") == digest(ranges)

    other = tmp_path / "other.yaml"
    other.write_text(RANGES.replace("4.0", "9.0"))
    named = compiled(normalized, tmp_path / "named", "--quantization", other)
    assert quantization_of(tmp_path / "named") == digest(other)
    assert "i8[" in named
    constants = [
        (tmp_path / name / "constants.safetensors").read_bytes() for name in ("own", "named")
    ]
    assert constants[0] != constants[1]

    entry = project / "models" / "tiny" / "model.yaml"
    entry.write_text(DESCRIPTION.replace("quantization: ranges.yaml\n", ""))
    recipe_inside("normalize", "tiny", "--out", normalized)
    assert not (normalized / "quantization.yaml").exists()
    assert "i8[" not in compiled(normalized, tmp_path / "float")
    assert quantization_of(tmp_path / "float") is None


CALIBRATING = """
version: 1
model: small
calibration: {data: calibration.npz, method: mse}
accuracy: {min_sqnr_db: 20}
"""


def test_inputs_that_the_models_own_file_names_travel_with_it(
    project: Path, tmp_path: Path
) -> None:
    folder, normalized = project / "models" / "tiny", tmp_path / "n"
    (folder / "ranges.yaml").write_text(CALIBRATING)
    inputs = np.random.default_rng(0).standard_normal((4, 1, 3, 12, 12)).astype(np.float32)
    np.savez(folder / "calibration.npz", x=inputs)
    recipe_inside("normalize", "tiny", "--out", normalized)
    copy = normalized / "calibration.npz"
    assert copy.read_bytes() == (folder / "calibration.npz").read_bytes()
    text = compiled(normalized, tmp_path / "package")
    assert "from 4 samples" in text
    assert "i8[" in text
    stated = json.loads((tmp_path / "package" / "manifest.json").read_text())["quantization"]
    assert stated["data"] == {
        "calibration": digest(copy),
        "accuracy": digest(normalized / "samples.npz"),
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.npz", ("'missing.npz'", "aren't there")),
        ("../small.npz", ("'../small.npz'", "beside it")),
        ("samples.npz", ("'samples.npz'", "rename")),
    ],
)
def test_inputs_that_cant_travel_are_refused(
    project: Path, tmp_path: Path, name: str, words: tuple[str, str]
) -> None:
    file = project / "models" / "tiny" / "ranges.yaml"
    file.write_text(CALIBRATING.replace("calibration.npz", name))
    ended = recipe_inside("normalize", "tiny", "--out", tmp_path / "n")
    check_refused(ended, Outcome.BAD_INPUT, *words, "calibration.data")


def test_a_limit_that_cant_be_met_ends_the_compile(project: Path, tmp_path: Path) -> None:
    file = project / "models" / "tiny" / "ranges.yaml"
    file.write_text(CALIBRATING.replace("20", "150").replace("calibration.npz", "samples"))
    recipe_inside("normalize", "tiny", "--out", tmp_path / "n")
    out = tmp_path / "out" / "package"
    ended = recipe_inside("compile", tmp_path / "n", "--hardware", HARDWARE, "--out", out)
    check_refused(ended, Outcome.COMPILE_REFUSED, "150 dB", "every operator in float", "loosen")
    check_empty(out.parent)


def test_a_run_takes_the_models_ranges_along(
    flow_server: str, project: Path, tmp_path: Path
) -> None:
    ended = recipe("run", "tiny", "--hardware", HARDWARE, "--out", tmp_path / "out")
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    ranges = project / "models" / "tiny" / "ranges.yaml"
    assert quantization_of(tmp_path / "out" / HARDWARE / "tiny" / "package") == digest(ranges)


def test_ranges_that_a_run_is_given_win(project: Path, tmp_path: Path) -> None:
    """The run's own calls of the stages, without the flow around them."""
    other = tmp_path / "other.yaml"
    other.write_text(RANGES.replace("4.0", "9.0"))
    options = Options(Terminal(quiet=True))
    request = make_request(["tiny"], [HARDWARE], {}, other, tmp_path / "out", 1, options)
    pair = Pair("tiny", HARDWARE)
    for step in steps_of(pair)[:2]:
        call_of(step, request)()
    assert quantization_of(request.places(pair).package) == digest(other)


def test_ranges_for_another_model_are_refused_when_it_is_compiled(
    project: Path, tmp_path: Path
) -> None:
    (project / "models" / "tiny" / "ranges.yaml").write_text(RANGES.replace("small", "large"))
    recipe_inside("normalize", "tiny", "--out", tmp_path / "n")
    out = tmp_path / "out" / "package"
    ended = recipe_inside("compile", tmp_path / "n", "--hardware", HARDWARE, "--out", out)
    check_refused(ended, Outcome.BAD_INPUT, "'large'", "'small'", "quantization.yaml")
    check_empty(out.parent)


WRONG = {
    "outside": ("path: model.onnx", "path: ../../m.onnx", "'../../m.onnx' lies outside"),
    "a key missing": ("licence: MIT", "", "licence"),
    "no ranges": ("quantization: ranges.yaml", "quantization: rangs.yaml", "'rangs.yaml'"),
    "no model": ("path: model.onnx", "path: other.onnx", "'other.onnx'"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_wrong_description_is_refused(
    project: Path, tmp_path: Path, change: tuple[str, str, str]
) -> None:
    right, wrong, word = change
    (project / "models" / "tiny" / "model.yaml").write_text(DESCRIPTION.replace(right, wrong))
    out = tmp_path / "out"
    ended = recipe_inside("normalize", "tiny", "--out", out / "n")
    check_refused(ended, Outcome.BAD_INPUT, word, "models/tiny")
    check_empty(out)


@pytest.mark.parametrize("change", ["outside", "a key missing"])
def test_a_run_begins_nothing_on_a_wrong_description(
    project: Path, tmp_path: Path, change: str
) -> None:
    right, wrong, word = WRONG[change]
    (project / "models" / "tiny" / "model.yaml").write_text(DESCRIPTION.replace(right, wrong))
    out = tmp_path / "out"
    ended = recipe_inside("run", "tiny", "--hardware", HARDWARE, "--out", out)
    check_refused(ended, Outcome.BAD_INPUT, word, "models/tiny/model.yaml")
    check_empty(out)


def test_a_broken_model_hides_no_other_from_a_run_but_the_list_names_it(
    project: Path, tmp_path: Path
) -> None:
    broken = project / "models" / "broken" / "model.yaml"
    broken.parent.mkdir()
    broken.write_text("licence: [unclosed\n")
    ended = recipe_inside("normalize", "tiny", "--out", tmp_path / "n")
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    check_refused(recipe_inside("models", "list"), Outcome.BAD_INPUT, f"{broken}:2")


def test_a_name_wins_over_a_file_or_folder_called_so(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "models")
    ended = recipe_inside("normalize", "tiny", "--out", tmp_path / "from folder")
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    monkeypatch.chdir(tmp_path)
    Path("tiny").write_text("no model")
    ended = recipe_inside("normalize", "tiny", "--out", tmp_path / "from file")
    assert (ended.code, ended.err) == (Outcome.PASSED, "")


def test_the_path_of_a_models_folder_is_refused_with_its_name(
    project: Path, tmp_path: Path
) -> None:
    folder = f"{project / 'models' / 'tiny'}/"
    ended = recipe_inside("normalize", folder, "--out", tmp_path / "n")
    check_refused(ended, Outcome.BAD_INPUT, "'tiny' is a folder", "the model's name: tiny")
    ended = recipe_inside("normalize", tmp_path, "--out", tmp_path / "n")
    check_refused(ended, Outcome.BAD_INPUT, "is a folder", "recipe models list")


def test_a_project_without_models_still_takes_files(project: Path, tmp_path: Path) -> None:
    model = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    (project / "models").rename(project / "elsewhere")
    ended = recipe_inside("normalize", model, "--out", tmp_path / "n")
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    ended = recipe_inside("normalize", "tiny", "--out", tmp_path / "n")
    check_refused(ended, Outcome.BAD_INPUT, "no model registry", str(project / "models"))
    assert recipe_inside("models", "list").code == Outcome.BAD_INPUT
