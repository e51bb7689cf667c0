"""The registry at its door, and what a name, a path or a function resolves to."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import onnx
import pytest

from models.synthetic import residual_cnn
from stages.errors import InputError
from stages.normalizer.registry import Registry, load_registry, resolve
from stages.normalizer.wheels import Wheel, fetch_member

ENTRY = """
licence: Apache-2.0
source: {path: tiny.onnx}
bindings: {N: 1}
"""


def registry_from(folder: Path, text: str, name: str = "tiny") -> Registry:
    """A registry in `folder` that holds, besides what was there, one model."""
    path = folder / name / "model.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return load_registry(folder)


def refusal(folder: Path, text: str, name: str = "tiny") -> InputError:
    registry = registry_from(folder, text, name)
    with pytest.raises(InputError) as caught:
        resolve(name, registry, folder / "cache")
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


def test_files_are_relative_to_the_models_folder(tmp_path: Path) -> None:
    files = "samples: {file: in/s.npz}\nquantization: q.yaml\n"
    registry = registry_from(tmp_path, ENTRY + files)
    source = resolve("tiny", registry, tmp_path / "cache")
    assert source.path == tmp_path / "tiny" / "tiny.onnx"
    assert source.samples == tmp_path / "tiny" / "in" / "s.npz"
    assert source.quantization == tmp_path / "tiny" / "q.yaml"
    assert source.bindings == {"N": 1}
    assert source.licence == "Apache-2.0"
    assert source.origin == "file tiny.onnx"


def test_a_path_on_the_command_line(tmp_path: Path) -> None:
    registry = registry_from(tmp_path, ENTRY)
    path = tmp_path / "mine.onnx"
    assert resolve(str(path), registry, tmp_path).name == "mine"


def test_a_function_of_the_registry(tmp_path: Path) -> None:
    text = "licence: Apache-2.0\nsource: {function: models.synthetic:residual_cnn}\n"
    registry = registry_from(tmp_path, text, "cnn")
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
        ("source: {path: x}", "Field required", "licence"),
        ("licence: L", "Field required", "source"),
        ("licence: L\nsource: {}", "none given", "source"),
        ("licence: L\nsource: {path: x, function: 'm:f'}", "['path', 'function'] given", "source"),
        ("licence: L\nsource: {wheel: p}", "a wheel source needs version", "source"),
        ("licence: L\nsource: {path: x, version: '1'}", "version: for wheel sources only",
         "source"),
        ("licence: L\nsource: {function: nocolon}", "(value: 'nocolon')", "source.function"),
        ("licence: L\nsource: {path: x}\nbindings: {N: 0}",
         "greater than or equal to 1 (value: 0)", "bindings.N"),
        ("licence: L\nsource: {path: x}\nbindings: {N: '3'}", "valid integer (value: '3')",
         "bindings.N"),
        ("licence: L\nsource: {path: x}\ncolour: red", "(value: 'red')", "colour"),
        ("licence: L\nsource: {path: x}\nsamples: {}", "from a file or from a function", "samples"),
        ("licence: L\nsource: {path: x}\nsamples: {file: ''}", "at least 1 character",
         "samples.file"),
        ("licence: L\nsource: {path: x}\nquantization: ''", "at least 1 character",
         "quantization"),
        ("licence: L\nsource: {path: x}\nquantization: [q.yaml]", "valid string", "quantization"),
        ('licence: L\nsource: {path: "a\\0b"}', "String should match", "source.path"),
        ("licence: L\nsource: {path: ../x.onnx}", "'../x.onnx' lies outside the model's folder",
         "source.path"),
        ("licence: L\nsource: {path: a/../../x.onnx}", "lies outside", "source.path"),
        ("licence: L\nsource: {path: /etc/hostname}", "lies outside", "source.path"),
        ("licence: L\nsource: {path: x}\nsamples: {file: ../s.npz}", "lies outside",
         "samples.file"),
        ("licence: L\nsource: {path: x}\nquantization: ../q.yaml", "lies outside", "quantization"),
        ("[1, 2]", "valid dictionary", "(top)"),
        ("", "valid dictionary", "(top)"),
    ],
)  # fmt: skip
def test_wrong_descriptions(tmp_path: Path, text: str, problem: str, key: str) -> None:
    error = refusal(tmp_path, text)
    assert problem in error.problem
    assert error.where == f"{tmp_path / 'tiny' / 'model.yaml'}, key {key}"
    assert error.hint


@pytest.mark.parametrize("key", ["source.path", "samples.file", "quantization"])
def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path, key: str) -> None:
    text = "licence: L\nsource: {path: a}\nsamples: {file: b}\nquantization: c\n"
    registry = registry_from(tmp_path, text)
    (tmp_path / "elsewhere").touch()
    link = {"source.path": "a", "samples.file": "b", "quantization": "c"}[key]
    (tmp_path / "tiny" / "inside").touch()
    for name in "abc":
        (tmp_path / "tiny" / name).symlink_to("../elsewhere" if name == link else "inside")
    with pytest.raises(InputError, match=f"'{link}' lies outside") as caught:
        resolve("tiny", registry, tmp_path)
    assert caught.value.where.endswith(f"key {key}")


def test_a_folder_that_is_itself_a_link_is_a_model(tmp_path: Path) -> None:
    registry_from(tmp_path / "elsewhere", ENTRY)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "linked").symlink_to(tmp_path / "elsewhere" / "tiny")
    source = resolve("linked", load_registry(tmp_path / "models"), tmp_path)
    assert source.path == tmp_path / "models" / "linked" / "tiny.onnx"


@pytest.mark.parametrize(
    ("content", "problem", "line"),
    [
        (b"licence: L\nsource: [unclosed\n", "isn't YAML", ":3"),
        (b"licence: \xff\xfe", "can't be read", ""),
        (b"licence: a\0b", "isn't YAML", ""),
        (b"licence: 2026-13-45", "can't be read", ""),
        (b"[" * 5000, "can't be read", ""),
    ],
    ids=["unclosed", "not text", "a control character", "no date", "nested too deep"],
)
def test_descriptions_that_are_no_yaml(
    tmp_path: Path, content: bytes, problem: str, line: str
) -> None:
    registry = registry_from(tmp_path, "")
    file = tmp_path / "tiny" / "model.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        resolve("tiny", registry, tmp_path)
    assert caught.value.problem.startswith(f"the model description {problem}")
    assert caught.value.where == f"{file}{line}"
    assert "models/README.md" in caught.value.hint


def test_a_lookup_reads_one_description_and_a_listing_all(tmp_path: Path) -> None:
    registry_from(tmp_path, "not: a model", "broken")
    registry = registry_from(tmp_path, ENTRY)
    assert resolve("tiny", registry, tmp_path).name == "tiny"
    assert list(registry.entries) == ["broken", "tiny"]
    assert "broken" in registry.entries
    with pytest.raises(InputError, match="model 'broken': Field required"):
        list(registry.entries.values())


def test_only_folders_with_a_description_are_models(tmp_path: Path) -> None:
    registry = registry_from(tmp_path, ENTRY)
    registry_from(tmp_path, ENTRY, ".half-written")
    registry_from(tmp_path, ENTRY, "nested/inner")
    (tmp_path / "bare").mkdir()
    (tmp_path / "synthetic.py").touch()
    (tmp_path / "model.yaml").write_text(ENTRY)
    assert list(registry.entries) == ["tiny"]
    assert len(registry.entries) == 1
    for word in ("", ".", "..", "tiny/", "nested/inner", ".half-written", "a\0b", "x" * 300):
        assert word not in registry.entries
        assert registry.entries.get(word) is None
    with pytest.raises(InputError, match=r"no model.yaml in 'bare'") as caught:
        resolve("bare", registry, tmp_path)
    assert "models/README.md" in caught.value.hint


@pytest.mark.parametrize("name", ["my model", "_tiny", "-tiny", "tiny\n"])
def test_a_folder_with_a_name_that_no_model_can_have(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path, ENTRY, name)
    assert error.problem == f"a model can't be called {name!r}"
    assert error.where == str(tmp_path / name)
    assert "rename its folder" in error.hint


def test_a_missing_registry(tmp_path: Path) -> None:
    registry = load_registry(tmp_path / "models")
    with pytest.raises(InputError, match="no model registry"):
        list(registry.entries)
    with pytest.raises(InputError, match="no model registry"):
        resolve("tiny", registry, tmp_path)
    assert resolve("mine.onnx", registry, tmp_path).name == "mine"


def test_a_registry_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    with pytest.raises(InputError, match="the model registry can't be read"):
        list(load_registry(tmp_path / "models").entries)


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
