"""Models of a commit put into folders: links, LFS pointers, external data, and once only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.repositories.external_data import KnownLocations, external_locations
from flows.repositories.model_placing import place_models
from flows.repositories.model_tree import read_models
from tests.flows.git_repositories import Repository, tiny_model
from tests.flows.model_mirrors import mirror_of

pytestmark = pytest.mark.usefixtures("surroundings")


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
