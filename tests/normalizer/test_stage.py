"""The stage as a whole: its files, their sameness, and nothing half-written."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from models.synthetic import residual_cnn, separable_net, transformer_block
from stages.errors import InputError, RecipeError
from stages.normalize import load_samples, normalize
from stages.normalizer import proof
from stages.normalizer.source import ModelSource
from tests.normalizer.graphs import from_text, save


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("build", [residual_cnn, separable_net, transformer_block])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, build: object) -> None:
    assert callable(build)
    source = save(build(), tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = save(build(), elsewhere)
    normalize(source, tmp_path / "a", seed=1, sample_count=3)
    normalize(moved, tmp_path / "b" / "c", seed=1, sample_count=3)
    assert files(tmp_path / "a") == files(tmp_path / "b" / "c")


def test_the_report_on_disk(tmp_path: Path) -> None:
    source = replace(save(residual_cnn(), tmp_path, "cnn"), licence="MIT", origin="by hand")
    report = normalize(source, tmp_path / "out", seed=9, sample_count=2)
    text = (tmp_path / "out" / "normalize.json").read_text(encoding="utf-8")
    content = json.loads(text)
    assert text == json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert content["inputs"] == {"image": "f32[1,3,32,32]"}
    assert content["outputs"] == {"scores": "f32[1,10]"}
    assert content["nodes_before"] == content["nodes_after"] == report.nodes_after == 14
    assert content["proof"] == {
        "compared_with": "the original", "reason": "", "samples": 2,
        "max_absolute_difference": 0.0, "max_relative_difference": 0.0,
    }  # fmt: skip
    assert content["licence"] == "MIT"
    assert content["original_sha256"] == report.original_sha256
    assert str(tmp_path) not in text


def test_the_samples_on_disk(tmp_path: Path) -> None:
    normalize(save(residual_cnn(), tmp_path), tmp_path / "out", seed=9, sample_count=4)
    samples = load_samples(tmp_path / "out" / "samples.npz")
    assert len(samples) == 4
    assert all(sample["image"].shape == (1, 3, 32, 32) for sample in samples)


def test_samples_from_a_file(tmp_path: Path) -> None:
    image = np.full((2, 1, 3, 32, 32), 0.25, np.float32)
    np.savez(tmp_path / "mine.npz", image=image)
    source = replace(save(residual_cnn(), tmp_path), samples=tmp_path / "mine.npz")
    report = normalize(source, tmp_path / "out", seed=9, sample_count=2)
    assert (report.samples_from, report.sample_count) == ("file", 2)
    np.testing.assert_array_equal(
        load_samples(tmp_path / "out" / "samples.npz")[1]["image"], image[1]
    )


def test_samples_from_a_function(tmp_path: Path) -> None:
    source = replace(save(residual_cnn(), tmp_path), sampler="models.sampling:text_line")
    report = normalize(source, tmp_path / "out", seed=9, sample_count=2)
    assert report.samples_from == "models.sampling:text_line"
    first, second = load_samples(tmp_path / "out" / "samples.npz")
    assert not np.array_equal(first["image"], second["image"])
    assert -1.0 <= float(first["image"].min()) < float(first["image"].max()) <= 1.0


def test_a_sample_function_that_does_not_fit(tmp_path: Path) -> None:
    source = replace(save(transformer_block(), tmp_path), sampler="models.sampling:speech_frame")
    source = replace(source, sampler="json:dumps")
    with pytest.raises((InputError, TypeError)):
        normalize(source, tmp_path / "out", seed=9, sample_count=2)
    assert not (tmp_path / "out").exists()


def test_no_samples_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 samples can prove nothing"):
        normalize(save(residual_cnn(), tmp_path), tmp_path / "out", seed=9, sample_count=0)


def test_the_quantisation_file_travels_byte_for_byte(tmp_path: Path) -> None:
    content = "# für das Modell\r\nversion: 1\n".encode()
    (tmp_path / "q.yml").write_bytes(content)
    source = replace(save(residual_cnn(), tmp_path), quantization=tmp_path / "q.yml")
    normalize(source, tmp_path / "out", seed=9, sample_count=1)
    assert files(tmp_path / "out")["quantization.yaml"] == content
    normalize(replace(source, quantization=None), tmp_path / "out", seed=9, sample_count=1)
    assert "quantization.yaml" not in files(tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "problem", "where"),
    [
        (None, "no quantisation file 'q.yaml'", ""),
        (b"version: 1\nkeep: [a\n", "the quantisation file isn't YAML", ":3"),
        (b"\xff\xfe", "the quantisation file can't be read", ""),
        (b"", "the quantisation file holds NoneType, not keys and values", ""),
        (b"- version", "the quantisation file holds list", ""),
    ],
    ids=["missing", "unclosed", "not text", "empty", "a list"],
)
def test_a_quantisation_file_that_is_no_yaml_stops_the_stage(
    tmp_path: Path, content: bytes | None, problem: str, where: str
) -> None:
    file = tmp_path / "q.yaml"
    if content is not None:
        file.write_bytes(content)
    source = replace(save(residual_cnn(), tmp_path), quantization=file)
    with pytest.raises(InputError) as caught:
        normalize(source, tmp_path / "out", seed=9, sample_count=1)
    assert caught.value.problem.startswith(problem)
    assert caught.value.where == f"{file}{where}"
    assert caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_run_replaces_the_folder_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "leftover").touch()
    normalize(save(residual_cnn(), tmp_path), out, seed=9, sample_count=1)
    assert sorted(files(out)) == ["model.onnx", "normalize.json", "samples.npz"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "out"]


def test_a_failed_run_leaves_the_old_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    normalize(save(residual_cnn(), tmp_path), out, seed=9, sample_count=1)
    before = files(out)
    broken = from_text("g (float[4] x) => (int64[1,n] y) { y = NonZero (x) }")
    with pytest.raises(InputError):
        normalize(save(broken, tmp_path), out, seed=9, sample_count=1)
    assert files(out) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RecipeError])
def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise stop("now")

    monkeypatch.setattr("stages.normalize.prove_equal", interrupted)
    with pytest.raises(stop):
        normalize(save(residual_cnn(), tmp_path), tmp_path / "out", seed=9, sample_count=1)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        normalize(save(residual_cnn(), tmp_path), tmp_path / "file" / "out", seed=1, sample_count=1)
    assert "output folder can't be written" in caught.value.problem
    assert caught.value.where.endswith("out")
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(InputError):
            normalize(save(residual_cnn(), tmp_path), locked / "out", seed=1, sample_count=1)


def test_a_result_that_differs_is_a_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = save(residual_cnn(), tmp_path)
    changed = residual_cnn()
    for node in changed.graph.node:
        if node.op_type == "BatchNormalization":
            node.attribute.append(onnx.helper.make_attribute("epsilon", 0.1))
    other = save(changed, tmp_path, "other")
    monkeypatch.setattr(
        proof, "_original", lambda *_: (proof.OnnxRuntimeReference(other.path), "the original")
    )
    with pytest.raises(RecipeError) as caught:
        normalize(source, tmp_path / "out", seed=1, sample_count=1)
    assert not isinstance(caught.value, InputError)
    assert "doesn't compute what the original computes" in caught.value.problem
    assert caught.value.where == "output 'scores'"
    assert not (tmp_path / "out").exists()


def test_an_external_registry_fact_travels_with_the_source() -> None:
    source = ModelSource("m", Path("m.onnx"))
    assert source.bindings == {}
    assert (source.licence, source.origin, source.sampler) == ("", "", "")
