"""What a range of commits does to models: by example, and against a naive comparison."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.repositories.model_changes import changes, last_change
from flows.repositories.model_placing import place_models
from flows.repositories.model_tree import read_models
from stages.errors import InputError
from tests.flows.git_repositories import Repository, tiny_model
from tests.flows.model_mirrors import mirror_of, summary

pytestmark = pytest.mark.usefixtures("surroundings")


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
