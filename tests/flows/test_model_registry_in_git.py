"""A registry inside a repository of models: names, bindings, samples and ranges by commit."""

from __future__ import annotations

import pytest

from flows.repositories.model_changes import changes
from flows.repositories.model_placing import place_models
from flows.repositories.model_tree import read_models
from stages.errors import InputError
from tests.flows.git_repositories import Repository, tiny_model
from tests.flows.model_mirrors import mirror_of, summary

pytestmark = pytest.mark.usefixtures("surroundings")


REGISTRY = """\
small: {path: nets/net.onnx, bindings: {N: 1}, samples: {file: ../data/in.npz}}
large:
  source: {path: nets/net.onnx}
  bindings: {N: 8}
  quantization: q.yaml
  licence: MIT
alone: {bindings: {N: 2}}
"""


def _with_registry(models: Repository) -> None:
    models.write("about/nets/net.onnx", tiny_model(1)[0])
    models.write("x/alone.onnx", tiny_model(2)[0])
    models.write("about/models.yaml", REGISTRY)
    models.write("about/q.yaml", "version: 1\n")
    models.write("data/in.npz", b"npz")


def test_inputs_that_a_quantisation_file_names_are_part_of_the_model(models: Repository) -> None:
    _with_registry(models)
    models.write("about/q.yaml", "calibration: {data: c.npz}\naccuracy: {data: samples}\n")
    models.write("about/c.npz", b"npz")
    first = models.commit()
    mirror = mirror_of(models, registry="about/models.yaml")
    tree = read_models(mirror, first)
    placed, _ = place_models(mirror, tree.models.values(), models.folder / ".git/placed")
    assert (placed["large"] / "quantization/c.npz").read_bytes() == b"npz"
    models.write("about/c.npz", b"npz 2")
    second = models.commit()
    assert summary(changes(mirror, first, second)) == {"changed": ["large"]}
    models.write("about/q.yaml", "calibration: {data: missing.npz}\n")
    defect = read_models(mirror, models.commit()).models["large"].defect
    assert defect is not None
    assert "about/missing.npz" in defect.problem
    assert "about/q.yaml" in defect.where


def test_the_registry_names_describes_and_is_part_of_the_model(models: Repository) -> None:
    _with_registry(models)
    first = models.commit()
    mirror = mirror_of(models, registry="about/models.yaml")
    tree = read_models(mirror, first)
    assert {name: model.path for name, model in tree.models.items()} == {
        "alone": "x/alone.onnx",
        "large": "about/nets/net.onnx",
        "small": "about/nets/net.onnx",
    }
    placed, _ = place_models(mirror, tree.models.values(), models.folder / ".git/placed")
    assert (placed["small"] / "samples/in.npz").read_bytes() == b"npz"
    assert (placed["large"] / "quantization/q.yaml").read_text() == "version: 1\n"
    assert (placed["large"] / "model.yaml").read_text() == (
        "licence: MIT\nsource:\n  path: net.onnx\nbindings:\n  N: 8\n"
        "quantization: quantization/q.yaml\n"
    )
    models.write("data/in.npz", b"npz 2")
    second = models.commit()
    assert summary(changes(mirror, first, second)) == {"changed": ["small"]}
    models.write("about/models.yaml", REGISTRY.replace("N: 2", "N: 3"))
    third = models.commit()
    assert summary(changes(mirror, second, third)) == {"changed": ["alone"]}
    models.write("about/models.yaml", REGISTRY.replace("large:", "huge:"))
    fourth = models.commit()
    assert summary(changes(mirror, second, fourth)) == {"renamed": {"huge": "large"}}
    models.write("about/q.yaml", "version: 2\n")
    assert summary(changes(mirror, fourth, models.commit())) == {"changed": ["huge"]}


def test_a_registry_that_names_what_is_not_there(models: Repository) -> None:
    models.write("models.yaml", "ghost: {path: ghost.onnx}\nspirit: {}\n")
    models.write("net.onnx", tiny_model(1)[0])
    head = models.commit()
    tree = read_models(mirror_of(models, registry="models.yaml"), head)
    assert set(tree.models) == {"net"}
    assert len(tree.remarks) == 2
    absent = read_models(mirror_of(models, registry="nowhere.yaml"), head)
    assert "'nowhere.yaml' isn't in this commit" in absent.remarks[0]


@pytest.mark.parametrize(
    ("text", "where"),
    [("net: {pth: a}", "net.pth"), ("a: [", "line 1"), ("'a b': {}", "a b"), ("- 1", "(top)"),
     ("net: {bindings: {N: 0}}", "net.bindings.N")],
)  # fmt: skip
def test_a_wrong_registry(models: Repository, text: str, where: str) -> None:
    models.write("models.yaml", text)
    models.write("net.onnx", tiny_model(1)[0])
    with pytest.raises(InputError) as caught:
        read_models(mirror_of(models, registry="models.yaml"), models.commit())
    assert where in caught.value.where
    assert "models.yaml in team at" in caught.value.where
