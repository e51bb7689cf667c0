"""Decisions used again for other weights: the package is the one that a compile would make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stages.compile import CompileReport, Reuse, compile_model
from stages.compiler.draft import Draft
from stages.compiler.pipeline import begin, decide_all, decisions, rewrites
from stages.compiler.progress import begin_decisions, rewrite
from stages.package import code_digest, store
from stages.recipe.onnx_import import import_model
from stages.tensors import Array
from tests.compiler.campaign import model_of
from tests.compiler.folders import (
    package_bytes,
    residual_folder,
    save_folder,
    with_other_weights,
)
from tests.compiler.specs import FOLDER, hardware

SPEC = FOLDER / "npu_tiny.yaml"
SEEDS = (57, 158, 1169, 2039, 8, 19, 77, 301)
OF_WIDE_WEIGHTS = (57, 2039, 8, 77, 7, 38, 118, 12)


def compiled(folder: Path, package: Path, reuse: Reuse | None = None) -> CompileReport:
    return compile_model(folder, SPEC, package, quantization=None, reuse=reuse or Reuse())


def test_other_weights_take_the_old_decisions(tmp_path: Path) -> None:
    old, new = (residual_folder(tmp_path / str(seed), seed) for seed in (1, 2))
    assert compiled(old, tmp_path / "old").reused == ""
    cold = compiled(new, tmp_path / "cold")
    warm = compiled(new, tmp_path / "warm", Reuse(package=tmp_path / "old"))
    assert "used again" in warm.reused
    assert replace(warm, reused="", environment=cold.environment) == cold
    assert package_bytes(tmp_path / "warm") == package_bytes(tmp_path / "cold")
    assert package_bytes(tmp_path / "warm") != package_bytes(tmp_path / "old")


def test_the_store_is_found_filled_and_mended(tmp_path: Path) -> None:
    one, two = (residual_folder(tmp_path / str(seed), seed) for seed in (1, 2))
    reuse = Reuse(store=tmp_path / "store")
    assert compiled(one, tmp_path / "a", reuse).reused == ""
    (kept,) = (tmp_path / "store").iterdir()
    assert "used again" in compiled(two, tmp_path / "b", reuse).reused
    kept.write_bytes(kept.read_bytes()[:-40])
    assert compiled(two, tmp_path / "c", reuse).reused == "", "half a file is none"
    assert "used again" in compiled(two, tmp_path / "d", reuse).reused
    cold = package_bytes(tmp_path / "c")
    assert package_bytes(tmp_path / "b") == cold == package_bytes(tmp_path / "d")


def test_a_store_that_cant_be_written_stops_nothing(tmp_path: Path) -> None:
    folder = residual_folder(tmp_path / "1", 1)
    (tmp_path / "store").write_text("a file")
    report = compiled(folder, tmp_path / "package", Reuse(store=tmp_path / "store"))
    assert "can't be kept" in report.reused
    assert (tmp_path / "package" / "manifest.json").is_file()


def test_the_store_keeps_the_last_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_KEPT", 2)
    reuse = Reuse(store=tmp_path / "store")
    for channels in (8, 16, 24):
        folder = residual_folder(tmp_path / f"c{channels}", 1, channels)
        compiled(folder, tmp_path / "package", reuse)
        assert "used again" in compiled(tmp_path / "c8", tmp_path / "package", reuse).reused
    assert len(list((tmp_path / "store").iterdir())) == 2
    assert compiled(tmp_path / "c16", tmp_path / "package", reuse).reused == ""


def test_another_structure_is_decided_anew_and_said(tmp_path: Path) -> None:
    one, other = residual_folder(tmp_path / "1", 1), residual_folder(tmp_path / "2", 1, 24)
    compiled(one, tmp_path / "old")
    report = compiled(other, tmp_path / "new", Reuse(package=tmp_path / "old"))
    assert "its structure is another" in report.reused
    compiled(other, tmp_path / "cold")
    assert package_bytes(tmp_path / "new") == package_bytes(tmp_path / "cold")


def test_another_compiler_of_the_same_version_decides_anew(tmp_path: Path) -> None:
    folder = residual_folder(tmp_path / "1", 1)
    compiled(folder, tmp_path / "old")
    said = tmp_path / "old" / "compile_environment.json"
    said.write_text(said.read_text().replace(code_digest(), "0" * 64))
    report = compiled(folder, tmp_path / "new", Reuse(package=tmp_path / "old"))
    assert "another compiler made it" in report.reused


@pytest.mark.parametrize("seed", OF_WIDE_WEIGHTS)
def test_random_models_with_other_weights(seed: int, tmp_path: Path) -> None:
    made = model_of(seed)
    save_folder(tmp_path / "a", made.model, made.feeds)
    save_folder(tmp_path / "b", with_other_weights(made.model, seed), made.feeds)
    compiled(tmp_path / "a", tmp_path / "old")
    report = compiled(tmp_path / "b", tmp_path / "warm", Reuse(package=tmp_path / "old"))
    compiled(tmp_path / "b", tmp_path / "cold")
    assert "used again" in report.reused
    assert package_bytes(tmp_path / "warm") == package_bytes(tmp_path / "cold")
    assert package_bytes(tmp_path / "warm") != package_bytes(tmp_path / "old")


class _Sealed:
    """Stands for a constant: has a type and a shape, and no elements to look at."""

    def __init__(self, array: Array) -> None:
        self.dtype, self.shape = array.dtype, array.shape

    def view(self) -> _Sealed:
        return self


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("device", ["npu_tiny", "rk3588_npu"])
def test_decisions_look_at_no_constants_elements(seed: int, device: str) -> None:
    spec = hardware(device)
    graph, constants = import_model(model_of(seed).model)
    progress = rewrite(begin(graph, constants, spec), rewrites(None, None), spec)
    sealed = {name: _Sealed(array) for name, array in progress.draft.constants.items()}
    draft = Draft(progress.draft.recipe, sealed)  # type: ignore[arg-type]
    blind = decide_all(begin_decisions(replace(progress, draft=draft), spec), decisions(), spec)
    seeing = decide_all(begin_decisions(progress, spec), decisions(), spec)
    assert blind.plan == seeing.plan
    assert blind.packings == seeing.packings
    assert blind.progress.draft.recipe == seeing.progress.draft.recipe
    assert blind.progress.structure_sha256 == seeing.progress.structure_sha256


def test_a_decision_that_makes_a_constant_is_found_out() -> None:
    class Doubles:
        name = "doubles"

        def run(self, draft: Draft, spec: object) -> Draft:
            doubled = {name: np.add(data, data) for name, data in draft.constants.items()}
            return replace(draft, constants=doubled)

    spec = hardware("npu_tiny")
    graph, constants = import_model(model_of(57).model)
    progress = rewrite(begin(graph, constants, spec), rewrites(None, None), spec)
    assert progress.draft.constants
    with pytest.raises(AssertionError, match="it must be a rewrite"):
        decide_all(begin_decisions(progress, spec), (Doubles(),), spec)
