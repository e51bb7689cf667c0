"""Bad input through the command: exit code, a message with its cure, nothing half-written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stages.errors import Outcome
from tests.flows import small_models
from tests.flows.command import REPOSITORY, Ended, recipe, recipe_inside

SPECS = REPOSITORY / "hardware_specs"


def check_refused(ended: Ended, outcome: Outcome, *words: str) -> None:
    """The exit code, the design's form of message, the words in it, and no traceback."""
    assert ended.code == outcome, ended.err
    assert ended.err.startswith("error: ")
    assert "\nhint: " in ended.err
    assert "Traceback" not in ended.err
    assert [word for word in words if word not in ended.err] == []


def check_empty(folder: Path) -> None:
    """Nothing was written, not even a hidden part."""
    assert not folder.exists() or not list(folder.iterdir())


def missing(folder: Path) -> Path:
    return folder / "missing.onnx"


def truncated(folder: Path) -> Path:
    content = small_models.convolution().SerializeToString()
    path = folder / "truncated.onnx"
    path.write_bytes(content[: len(content) // 2])
    return path


def text(folder: Path) -> Path:
    path = folder / "text.onnx"
    path.write_text("this is a shopping list\n" * 20)
    return path


def foreign(folder: Path) -> Path:
    return small_models.save(small_models.foreign_operator(), folder / "foreign.onnx")


def dynamic(folder: Path) -> Path:
    model = small_models.convolution(batch="N", side="H")
    return small_models.save(model, folder / "dynamic.onnx")


BAD_MODELS = pytest.mark.parametrize(
    ("make", "words"),
    [
        (missing, ["missing.onnx"]),
        (truncated, ["truncated.onnx"]),
        (text, ["text file"]),
        (foreign, ["com.example", "Magic"]),
        (dynamic, ["N", "H", "--bind"]),
    ],
)


@BAD_MODELS
def test_a_bad_model_is_refused_by_normalize(
    make: Callable[[Path], Path], words: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ended = recipe_inside("normalize", make(tmp_path), "--out", out / "n")
    check_refused(ended, Outcome.BAD_INPUT, *words)
    check_empty(out)


@pytest.mark.parametrize(
    ("bindings", "words"),
    [
        (["N=1", "H=12", "W=9"], ["W"]),
        (["N=1", "H=12", "x.1=5"], ["x.1", "5", "3"]),
        (["N=one"], ["AXIS=EXTENT", "N=one"]),
        (["N=1", "N=2", "H=12"], ["N", "1", "2"]),
        (["N=0", "H=12"], ["N", "0"]),
    ],
)
def test_a_binding_that_contradicts_the_model_is_refused(
    bindings: list[str], words: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ended = recipe_inside("normalize", dynamic(tmp_path), "--bind", *bindings, "--out", out / "n")
    check_refused(ended, Outcome.BAD_INPUT, *words)
    check_empty(out)


@pytest.mark.parametrize("spelling", [["--bind", "N=1", "H=12"], ["--bind", "N=1", "--bind=H=12"]])
def test_bound_axes_are_accepted_in_both_spellings(spelling: list[str], tmp_path: Path) -> None:
    ended = recipe_inside("normalize", dynamic(tmp_path), *spelling, "--out", tmp_path / "n")
    assert (ended.code, ended.err) == (Outcome.PASSED, "")
    assert sorted(path.name for path in (tmp_path / "n").iterdir()) == [
        "model.onnx",
        "normalize.json",
        "samples.npz",
    ]


def spoil(pattern: str, replacement: str, folder: Path) -> Path:
    """npu_tiny's spec with one line changed."""
    content = (SPECS / "npu_tiny.yaml").read_text()
    spoilt, count = re.subn(pattern, replacement, content, count=1, flags=re.MULTILINE)
    assert count == 1
    path = folder / "spoilt.yaml"
    path.write_text(spoilt)
    return path


BAD_SPECS = pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        (r"^clock:.*$", "clock: 500 MiB", ["clock", "500 MiB", "Hz"]),
        (r"^clock:.*$\n", "", ["clock"]),
        (r"(^    size: )\S+ KiB", r"\1-256 KiB", ["size", "-256 KiB"]),
        (r"^layouts:.*$", "layouts: {nhwc_typo: [conv]}\nignored:", ["nhwc_typo"]),
    ],
    ids=["wrong unit", "missing key", "negative size", "unknown layout"],
)


@BAD_SPECS
def test_a_wrong_spec_is_refused_with_file_line_key_and_value(
    pattern: str, replacement: str, words: list[str], tmp_path: Path
) -> None:
    spec = spoil(pattern, replacement, tmp_path)
    check_refused(
        recipe_inside("hardware", "check", spec), Outcome.BAD_HARDWARE_SPEC, "spoilt.yaml", *words
    )


@BAD_SPECS
def test_a_run_begins_nothing_on_a_wrong_spec(
    pattern: str, replacement: str, words: list[str], tmp_path: Path
) -> None:
    model = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    spec = spoil(pattern, replacement, tmp_path)
    ended = recipe_inside("run", model, "--hardware", spec, "--out", tmp_path / "out")
    check_refused(ended, Outcome.BAD_HARDWARE_SPEC, *words)
    check_empty(tmp_path / "out")


def test_an_unknown_device_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    model = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    ended = recipe_inside("run", model, "--hardware", "npu_tinny", "--out", tmp_path / "out")
    check_refused(ended, Outcome.BAD_HARDWARE_SPEC, "npu_tinny", "npu_tiny")


def test_an_unknown_model_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    ended = recipe_inside("run", "ppocr_clss", "--hardware", "npu_tiny", "--out", tmp_path / "out")
    check_refused(ended, Outcome.BAD_INPUT, "ppocr_clss", "ppocr_cls")


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(small_models.save(small_models.convolution(), tmp_path / name / "m.onnx"))
    ended = recipe_inside("run", *paths, "--hardware", "npu_tiny", "--out", tmp_path / "out")
    check_refused(ended, Outcome.BAD_INPUT, "'m'")
    check_empty(tmp_path / "out")


@pytest.mark.parametrize("command", ["run", "normalize"])
def test_an_output_folder_that_cant_be_written_is_refused(command: str, tmp_path: Path) -> None:
    model = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    (tmp_path / "file").write_text("in the way")
    rest = ["--hardware", "npu_tiny"] if command == "run" else []
    ended = recipe(command, model, *rest, "--out", tmp_path / "file" / "out")
    check_refused(ended, Outcome.BAD_INPUT, "file/out" if command == "run" else "file", "--out")
    assert (tmp_path / "file").read_text() == "in the way"


def test_wrong_params_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hardware_specs").mkdir()
    (tmp_path / "params.yaml").write_text("benchmark: {runs: none}\n")
    model = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    ended = recipe("run", model, "--hardware", SPECS / "npu_tiny.yaml", cwd=tmp_path)
    check_refused(ended, Outcome.BAD_INPUT, "benchmark.runs", "none", "params.yaml")
    check_empty(tmp_path / "out")


def test_bad_models_in_a_run_are_refused_one_by_one(flow_server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    models = [make(tmp_path) for make in (truncated, text, foreign, dynamic)]
    ended = recipe("run", *models, "--hardware", "npu_tiny", "--out", out)
    check_refused(ended, Outcome.BAD_INPUT, "truncated.onnx", "text file", "com.example", "--bind")
    assert ended.err.count("error: ") == len(models)
    assert ended.out.count("skipped") == 2 * 5 * len(models)
    assert not (out / "npu_tiny").exists()
    assert not list(out.rglob("*.*"))


def test_a_missing_model_stops_a_run_before_it_begins(tmp_path: Path) -> None:
    good = small_models.save(small_models.convolution(), tmp_path / "small.onnx")
    out = tmp_path / "out"
    ended = recipe_inside("run", good, missing(tmp_path), "--hardware", "npu_tiny", "--out", out)
    check_refused(ended, Outcome.BAD_INPUT, "missing.onnx")
    check_empty(out)
