"""models/: every entry is sound, and what needs no download builds."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from stages.errors import InputError
from stages.normalize import normalize
from stages.normalizer.registry import load_registry, resolve

REGISTRY = load_registry(Path(__file__).parents[2] / "models")
PURE = [
    name for name, entry in REGISTRY.entries.items()
    if entry.function.startswith("models.synthetic:")
]  # fmt: skip


def has_library(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@pytest.mark.parametrize("name", sorted(REGISTRY.entries))
def test_functions_that_entries_name_exist(name: str) -> None:
    """Read from the source, since the modules themselves may need torch."""
    entry = REGISTRY.entries[name]
    for reference in filter(None, (entry.function, entry.sampler)):
        module, _, function = reference.partition(":")
        source = Path(__file__).parents[2] / f"{module.replace('.', '/')}.py"
        assert f"\ndef {function}(" in source.read_text(encoding="utf-8")
    assert entry.licence in ("Apache-2.0", "MIT")
    assert entry.description


@pytest.mark.parametrize("name", PURE)
def test_entries_that_need_nothing_go_through_the_stage(tmp_path: Path, name: str) -> None:
    source = resolve(name, REGISTRY, tmp_path / "cache")
    report = normalize(source, tmp_path / "out", seed=1, sample_count=1)
    assert report.proof.compared_with == "the original"
    assert report.licence == "Apache-2.0"


@pytest.mark.skipif(has_library("torch"), reason="torch is installed")
@pytest.mark.parametrize("name", ["resnet8", "bert_tiny", "qdq_resnet8"])
def test_without_torch_the_message_says_what_to_install(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(name, REGISTRY, tmp_path)
    assert "'torch' isn't installed" in caught.value.problem
    assert caught.value.hint == "pip install torch"


@pytest.mark.skipif(not has_library("torch"), reason="torch isn't installed")
@pytest.mark.parametrize("name", ["resnet8", "unet_tiny", "mlp", "lstm_gru", "qdq_resnet8"])
def test_torch_factories_are_exported_in_eval_mode_and_static(tmp_path: Path, name: str) -> None:
    source = resolve(name, REGISTRY, tmp_path / "cache")
    report = normalize(source, tmp_path / "out", seed=1, sample_count=1)
    assert report.opset_from == 17
    assert report.bindings == {}
    assert report.proof.compared_with == "the original"
    assert "inference mode" not in [step["name"] for step in report.steps]


@pytest.mark.skipif(not has_library("torch"), reason="torch isn't installed")
def test_an_export_computes_what_torch_computes(tmp_path: Path) -> None:
    import numpy as np
    import torch

    from models.torch_vision import resnet8
    from stages.normalizer.reference import OnnxRuntimeReference

    source = resolve("resnet8", REGISTRY, tmp_path / "cache")
    module, inputs = resnet8()
    with torch.no_grad():
        wanted = module(*inputs.values()).numpy()
    got = OnnxRuntimeReference(source.path).run({"x": inputs["x"].numpy()})
    np.testing.assert_allclose(next(iter(got.values())), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not has_library("transformers"), reason="transformers isn't installed")
@pytest.mark.parametrize("name", ["bert_tiny", "gpt2_mini", "vit_tiny", "whisper_mini_enc"])
def test_transformers_are_exported(tmp_path: Path, name: str) -> None:
    source = resolve(name, REGISTRY, tmp_path / "cache")
    report = normalize(source, tmp_path / "out", seed=1, sample_count=1)
    assert report.proof.compared_with == "the original"
