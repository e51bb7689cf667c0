"""What a range of commits does to models: by example, and against a naive comparison."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.repositories.external_data import KnownLocations, external_locations
from flows.repositories.model_changes import ModelChanges, changes, last_change
from flows.repositories.model_placing import place_models
from flows.repositories.model_repository import Mirror, RepositoryConfig
from flows.repositories.model_tree import read_models
from stages.errors import InputError
from tests.flows.git_repositories import Repository, tiny_model

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.fixture
def models(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "models")


def mirror_of(models: Repository, *patterns: str, registry: str | None = None) -> Mirror:
    config = RepositoryConfig(
        "team", str(models.folder), "main", patterns or ("**/*.onnx",), None, registry
    )
    return Mirror(models.folder / ".git", config)


def summary(found: ModelChanges) -> dict[str, object]:
    return {
        key: value
        for key, value in {
            "added": list(found.added),
            "changed": list(found.changed),
            "renamed": dict(found.renamed),
            "deleted": list(found.deleted),
        }.items()
        if value
    }


def test_the_first_commit_adds_everything(models: Repository) -> None:
    models.write("a.onnx", tiny_model(1)[0])
    models.write("deep/in folders/b.onnx", tiny_model(2)[0])
    models.write("README.md", "hello")
    head = models.commit()
    found = changes(mirror_of(models), None, head)
    assert summary(found) == {"added": ["a", "b"]}
    assert found.kind_of("a") == "added"


def test_each_kind_of_change(models: Repository) -> None:
    for seed, name in enumerate(("same", "edited", "moved", "gone")):
        models.write(f"{name}.onnx", tiny_model(seed)[0])
    before = models.commit()
    models.write("edited.onnx", tiny_model(11)[0])
    models.git("mv", "moved.onnx", "elsewhere.onnx")
    models.git("rm", "-q", "gone.onnx")
    models.write("new.onnx", tiny_model(12)[0])
    models.write("sub/same.md", "words")
    after = models.commit()
    found = changes(mirror_of(models), before, after)
    assert summary(found) == {
        "added": ["new"],
        "changed": ["edited"],
        "renamed": {"elsewhere": "moved"},
        "deleted": ["gone"],
    }
    assert found.affected == ("edited", "elsewhere", "new")
    assert found.kind_of("elsewhere") == "renamed from moved"


def test_a_readme_touches_nothing_and_neither_does_a_move_of_the_folder(models: Repository) -> None:
    models.write("v1/net.onnx", tiny_model(1)[0])
    before = models.commit()
    models.write("README.md", "words")
    between = models.commit()
    assert summary(changes(mirror_of(models), before, between)) == {}
    models.git("mv", "v1", "v2")
    after = models.commit()
    assert summary(changes(mirror_of(models), before, after)) == {}


def test_a_rename_with_an_edit(models: Repository) -> None:
    content = tiny_model(1)[0] + b"".join(b"\x00" * 40 for _ in range(20))
    models.write("old.onnx", content)
    before = models.commit()
    models.git("mv", "old.onnx", "new.onnx")
    models.write("new.onnx", content[:-1] + b"\x01")
    after = models.commit()
    assert summary(changes(mirror_of(models), before, after)) == {"renamed": {"new": "old"}}


def test_external_data_belong_to_the_model(models: Repository) -> None:
    content, data = tiny_model(1, "weights of net/w.bin")
    models.write("a/net.onnx", content)
    models.write("a/weights of net/w.bin", data)
    models.write("a/other.onnx", tiny_model(2)[0])
    before = models.commit()
    models.write("a/weights of net/w.bin", data[::-1])
    after = models.commit()
    mirror = mirror_of(models)
    found = changes(mirror, before, after)
    assert summary(found) == {"changed": ["net"]}
    placed, failed = place_models(mirror, [found.models["net"]], models.folder.parent / "placed")
    assert failed == {}
    folder = placed["net"]
    assert (folder / "net.onnx").read_bytes() == content
    assert (folder / "weights of net/w.bin").read_bytes() == data[::-1]
    assert (folder / "model.yaml").read_text() == "licence: not stated\nsource:\n  path: net.onnx\n"


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "missing.bin"])
def test_external_data_that_cannot_be_had(models: Repository, location: str) -> None:
    models.write("a/net.onnx", tiny_model(1, location)[0])
    models.write("w.bin", b"x")
    models.write("a/sound.onnx", tiny_model(2)[0])
    tree = read_models(mirror_of(models), models.commit())
    assert tree.models["sound"].defect is None
    defect = tree.models["net"].defect
    assert defect is not None
    assert defect.hint
    assert "a/net.onnx" in defect.where
    placed, failed = place_models(mirror_of(models), tree.models.values(), models.folder / "placed")
    assert set(placed) == {"sound"}
    assert set(failed) == {"net"}


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


def test_two_models_of_one_name(models: Repository) -> None:
    models.write("a/net.onnx", tiny_model(1)[0])
    models.write("b/net.onnx", tiny_model(2)[0])
    head = models.commit()
    with pytest.raises(InputError, match="two models are called 'net'") as caught:
        read_models(mirror_of(models), head)
    assert "'!b/net.onnx'" in caught.value.hint or "'!a/net.onnx'" in caught.value.hint
    assert set(read_models(mirror_of(models, "**/*.onnx", "!b/net.onnx"), head).models) == {"net"}
    models.git("mv", "b/net.onnx", "b/other.onnx")
    after = models.commit()
    found = changes(mirror_of(models), head, after)
    assert summary(found) == {"added": ["net", "other"]}
    assert "can't be told apart" in found.remarks[0]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("with spaces.onnx", "with_spaces"),
        ("größe.onnx", "größe"),
        ("two\nlines.onnx", "two_lines"),
        ("ta\tb\"quote'.onnx", "ta_b_quote_"),
        (".hidden.onnx", "m.hidden"),
        ("a*b?[c].onnx", "a_b__c_"),
        (os.fsdecode(b"latin-\xe9.onnx"), "latin-_"),
    ],
)
def test_odd_file_names(models: Repository, path: str, name: str) -> None:
    models.write(f"dir ü/{path}", tiny_model(1)[0])
    before = models.commit()
    models.write(f"dir ü/{path}", tiny_model(2)[0])
    after = models.commit()
    found = changes(mirror_of(models), before, after)
    assert summary(found) == {"changed": [name]}
    placed, failed = place_models(
        mirror_of(models), found.models.values(), models.folder / ".git/p"
    )
    assert failed == {}
    assert (placed[name] / path).read_bytes() == tiny_model(2)[0]
    assert last_change(mirror_of(models), before, after, found.models[name]) == after


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (("*.onnx",), {"top"}),
        (("**/*.onnx",), {"top", "one", "two", "old"}),
        (("a/**/*.onnx",), {"one", "two"}),
        (("a/*.onnx", "archive"), {"one", "old"}),
        (("**/*.onnx", "!archive/**"), {"top", "one", "two"}),
    ],
)
def test_globs(models: Repository, patterns: tuple[str, ...], names: set[str]) -> None:
    for path in ("top.onnx", "a/one.onnx", "a/b/two.onnx", "archive/old.onnx", "archive/notes.md"):
        models.write(path, tiny_model(1)[0] + path.encode())
    assert set(read_models(mirror_of(models, *patterns), models.commit()).models) == names


def test_merge_commits_and_the_commit_that_changed_a_model(models: Repository) -> None:
    models.write("a.onnx", tiny_model(1)[0])
    models.write("b.onnx", tiny_model(2)[0])
    base = models.commit()
    models.git("checkout", "-q", "-b", "side")
    models.write("a.onnx", tiny_model(3)[0])
    on_side = models.commit("on the side")
    models.git("checkout", "-q", "main")
    models.write("b.onnx", tiny_model(4)[0])
    on_main = models.commit("on main")
    models.git("merge", "-q", "--no-edit", "side")
    head = models.git("rev-parse", "HEAD")
    found = changes(mirror_of(models), base, head)
    assert summary(found) == {"changed": ["a", "b"]}
    assert last_change(mirror_of(models), base, head, found.models["a"]) == on_side
    assert last_change(mirror_of(models), None, head, found.models["b"]) == on_main


def test_links_and_lfs_pointers_are_that_models_own_trouble(
    models: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    models.write("sound.onnx", tiny_model(1)[0])
    (models.folder / "link.onnx").symlink_to("sound.onnx")
    models.write("large.onnx", _POINTER)
    content, _ = tiny_model(3, "large.data")
    models.write("half.onnx", content)
    models.write("large.data", _POINTER)
    tree = read_models(mirror_of(models), models.commit())
    placed, failed = place_models(mirror_of(models), tree.models.values(), models.folder / ".git/p")
    assert set(placed) == {"sound"}
    assert "symbolic link" in failed["link"].problem
    for name, path in (("large", "large.onnx"), ("half", "large.data")):
        assert "Git LFS pointer" in failed[name].problem
        assert "install git-lfs" in failed[name].hint
        assert path in failed[name].where


_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def test_lfs_pointers_are_smudged_where_git_lfs_is(
    models: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, data = tiny_model(3, "w.bin")
    (tmp_path / "real.onnx").write_bytes(content)
    tool = tmp_path / "bin/git-lfs"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\n[ "$1" = smudge ] && cat >/dev/null && cat {tmp_path}/real.onnx\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    models.write("net.onnx", _POINTER)
    models.write("w.bin", data)
    tree = read_models(mirror_of(models), models.commit())
    placed, failed = place_models(mirror_of(models), tree.models.values(), models.folder / ".git/p")
    assert failed == {}
    assert (placed["net"] / "net.onnx").read_bytes() == content
    assert (placed["net"] / "w.bin").read_bytes() == data
    tool.write_text("#!/bin/sh\necho 'batch response: gone' >&2\nexit 2\n")
    (models.folder / ".git/p/net/.placed").unlink()
    _, failed = place_models(mirror_of(models), tree.models.values(), models.folder / ".git/p")
    assert "batch response: gone" in failed["net"].problem


def test_placing_again_writes_nothing_and_drops_what_is_not_wanted(models: Repository) -> None:
    models.write("a.onnx", tiny_model(1)[0])
    models.write("b.onnx", tiny_model(2)[0])
    mirror = mirror_of(models)
    tree = read_models(mirror, models.commit())
    home = models.folder / ".git/placed"
    placed, _ = place_models(mirror, tree.models.values(), home)
    before = (placed["a"] / "a.onnx").stat().st_mtime_ns
    placed, _ = place_models(mirror, [tree.models["a"]], home)
    assert (placed["a"] / "a.onnx").stat().st_mtime_ns == before
    assert [path.name for path in home.iterdir()] == ["a"]


def test_locations_across_pieces_and_kept(tmp_path: Path) -> None:
    content, _ = tiny_model(1, "w.bin")
    for size in (1, 7, len(content)):
        pieces = [content[at : at + size] for at in range(0, len(content), size)]
        assert external_locations(pieces) == ("w.bin",)
    assert external_locations([b"no ONNX at all \n\x08location"]) == ()
    known = KnownLocations(tmp_path / "known.json")
    assert known.of("1234", [content]) == ("w.bin",)
    known.save()

    def unread() -> Iterator[bytes]:
        pytest.fail("read again")
        yield b""

    assert KnownLocations(tmp_path / "known.json").of("1234", unread()) == ("w.bin",)


NAMES = st.sampled_from(["a", "b", "c", "d", "e f", "nü"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.integers(0, 5)),
        st.tuples(st.just("data"), NAMES, st.integers(0, 5)),
        st.tuples(st.just("move"), NAMES, NAMES),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("words"), NAMES, st.integers(0, 5)),
    ),
    max_size=6,
)


def _take(models: Repository, steps: list[tuple[str, str, object]]) -> str:
    for kind, name, other in steps:
        path = models.folder / f"{name}.onnx"
        if kind == "write":
            assert isinstance(other, int)
            models.write(path.name, tiny_model(other, f"{name}.data" if other % 2 else None)[0])
            models.write(f"{name}.data", b"data")
        elif kind == "data":
            models.write(f"{name}.data", f"data {other}")
        elif kind == "words":
            models.write(f"{name}.md", f"words {other}")
        elif kind == "delete":
            path.unlink(missing_ok=True)
        elif path.exists():
            path.replace(models.folder / f"{other}.onnx")
    return models.commit()


def _naive(models: Repository, commit: str) -> dict[str, tuple[bytes, bytes | None]]:
    models.git("checkout", "-q", commit)
    found = {}
    for path in models.folder.glob("*.onnx"):
        content = path.read_bytes()
        location = next((f"{name}.data" for name in ("a", "b", "c", "d", "e f", "nü")
                         if f"{name}.data".encode() in content), None)  # fmt: skip
        data = models.folder / location if location else None
        found[path.stem.replace(" ", "_")] = (
            content,
            data.read_bytes() if data is not None and data.exists() else None,
        )
    models.git("checkout", "-q", "main")
    return found


@settings(max_examples=25)
@given(STEPS, STEPS)
def test_changes_agree_with_a_naive_comparison(
    first: list[tuple[str, str, object]], second: list[tuple[str, str, object]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        models = Repository.make(Path(folder) / "models")
        before = _take(models, first)
        after = _take(models, second)
        found = changes(mirror_of(models), before, after)
        old, new = _naive(models, before), _naive(models, after)
        assert set(found.models) == set(new)
        gone = set(found.deleted) | set(found.renamed.values())
        assert gone == set(old) - set(new)
        assert set(found.added) | set(found.renamed) == set(new) - set(old)
        assert set(found.changed) == {n for n in old.keys() & new.keys() if old[n] != new[n]}
        assert len(set(found.renamed.values())) == len(found.renamed)
        assert not set(found.deleted) & set(found.renamed.values())
        identical = {n for n in found.renamed if new[n][0] == old[found.renamed[n]][0]}
        moved = {n for n in found.added if any(new[n][0] == old[o][0] for o in found.deleted)}
        assert not moved, (identical, moved)
