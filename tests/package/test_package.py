"""Packages come back as they were written, or are refused with the file and the digests named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors

from stages.errors import InputError, Outcome, PackageError
from stages.package import (
    CompileEnvironment,
    FileFacts,
    file_facts,
    read_package,
    require_spec,
    write_package,
)
from stages.package.manifest import DIGESTED, ENVIRONMENT, MANIFEST
from stages.plan.text import parse_plan
from tests.package.sample_package import sample_package, sample_weights
from tests.plan.sample_plan import small_spec

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A written package."""
    target = tmp_path / "package"
    write_package(target, sample_package())
    return target


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_package_comes_back_as_it_was_written(folder: Path) -> None:
    written, package = sample_package(), read_package(folder)
    assert package.recipe == written.recipe
    assert package.plan == written.plan
    assert replace(package.manifest, files={}, recipe_sha256="") == written.manifest
    assert set(package.weights) == set(written.weights)
    for name, array in sample_weights().items():
        found = package.weights[name]
        assert found.dtype == array.dtype.newbyteorder("="), name
        assert found.shape == array.shape, name
        assert np.array_equal(found, array), name
        assert not found.flags.writeable


def test_the_files_of_a_package(folder: Path) -> None:
    assert set(contents(folder)) == {*DIGESTED, MANIFEST, ENVIRONMENT}
    assert parse_plan((folder / "plan.txt").read_text(encoding="utf-8")) == sample_package().plan
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    recipe = file_facts(folder / "recipe.txt")
    assert manifest["recipe_sha256"] == recipe.sha256
    assert manifest["files"]["recipe.txt"] == {
        "sha256": recipe.sha256,
        "size_bytes": recipe.size_bytes,
    }
    assert manifest["not_digested"] == [ENVIRONMENT]
    assert set(json.loads((folder / ENVIRONMENT).read_bytes())) == {
        "thread_count",
        "machine_load",
        "cpu_seconds",
        "wall_seconds",
        "cpu_share",
        "code_sha256",
        "note",
    }


def test_the_library_reads_the_weights(folder: Path) -> None:
    data = (folder / "weights.safetensors").read_bytes()
    entries = dict(safetensors.deserialize(data))
    assert set(entries) == set(sample_weights())
    found = entries["a name/with: Ünicode"]
    assert (found["dtype"], found["shape"]) == ("BF16", [3, 5])
    for name, array in sample_weights().items():
        little = array.astype(array.dtype.newbyteorder("<"))
        assert bytes(entries[name]["data"]) == np.ascontiguousarray(little).tobytes(), name


def test_equal_packages_give_equal_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from stages.package import write_package\n"
        "from tests.package.sample_package import sample_package\n"
        "write_package(Path(sys.argv[1]), sample_package())\n"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", script, str(tmp_path / seed)]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)
    one, other = contents(tmp_path / "1"), contents(tmp_path / "2")
    for name in (*DIGESTED, MANIFEST):
        assert one[name] == other[name], name


@pytest.mark.parametrize(
    ("cpu", "wall", "starved"),
    [(9.0, 10.0, False), (16.0, 10.0, False), (3.0, 10.0, True), (0.1, 1.0, False), (0, 0, False)],
)
def test_a_compile_that_was_short_of_cpu_says_so(cpu: float, wall: float, starved: bool) -> None:
    said = CompileEnvironment(2, 7.5, cpu, wall).starved
    assert bool(said) is starved
    if starved:
        assert said.startswith(
            "the compile got 30% of a CPU: 3.0 s in 10.0 s (2 threads, load 7.5)"
        )
    assert CompileEnvironment(2, None, cpu, wall).cpu_share == (cpu / wall if wall else None)


def test_the_environment_changes_no_other_byte(tmp_path: Path) -> None:
    package = sample_package()
    write_package(tmp_path / "a", replace(package, environment=CompileEnvironment(2, 0.5)))
    write_package(tmp_path / "b", replace(package, environment=CompileEnvironment(64, None)))
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert {name for name in one if one[name] != other[name]} == {ENVIRONMENT}


@pytest.mark.parametrize("name", DIGESTED)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_byte_changed_is_found(folder: Path, name: str, place: str) -> None:
    expected = file_facts(folder / name)
    data = bytearray((folder / name).read_bytes())
    index = {"first": 0, "middle": len(data) // 2, "last": len(data) - 1}[place]
    data[index] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(PackageError) as caught:
        read_package(folder)
    message = str(caught.value)
    assert f"the package's {name} isn't the file that was packed" in message
    assert expected.sha256 in message
    assert file_facts(folder / name).sha256 in message
    assert "hint: compile the package again" in message
    assert caught.value.outcome is Outcome.BAD_PACKAGE


def test_the_bytes_of_the_manifest_count(folder: Path) -> None:
    data = (folder / MANIFEST).read_bytes()
    for index in range(0, len(data), 3):
        changed = bytearray(data)
        changed[index] ^= 1
        (folder / MANIFEST).write_bytes(changed)
        with pytest.raises(PackageError, match=r"manifest|format") as caught:
            read_package(folder)
        assert str(folder / MANIFEST) in str(caught.value)
    (folder / MANIFEST).write_bytes(data + b"\n")
    with pytest.raises(PackageError, match="other bytes"):
        read_package(folder)


def test_a_manifest_of_consistent_lies_is_found(folder: Path) -> None:
    (folder / "recipe.txt").write_text("recipe x for y 1\n", encoding="utf-8")
    facts = file_facts(folder / "recipe.txt")
    document = json.loads((folder / MANIFEST).read_bytes())
    document["files"]["recipe.txt"] = {"sha256": facts.sha256, "size_bytes": facts.size_bytes}
    (folder / MANIFEST).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    with pytest.raises(PackageError, match="changed after it was written"):
        read_package(folder)


@pytest.mark.parametrize("name", [*DIGESTED, MANIFEST])
def test_truncated_and_missing_files_are_found(folder: Path, name: str) -> None:
    path = folder / name
    data = path.read_bytes()
    for size in (len(data) // 2, 0):
        path.write_bytes(data[:size])
        with pytest.raises(PackageError) as caught:
            read_package(folder)
        assert name in str(caught.value)
        if name != MANIFEST:
            assert f"({len(data)} bytes expected, {size} found)" in str(caught.value)
    path.unlink()
    with pytest.raises(PackageError, match="can't be read"):
        read_package(folder)


def test_the_environment_file_may_be_missing(folder: Path) -> None:
    (folder / ENVIRONMENT).unlink()
    assert read_package(folder).plan == sample_package().plan


def test_there_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="there is no package here"):
        read_package(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format=2), "format 2"),
        (lambda d: d.pop("model"), "model: Field required"),
        (lambda d: d.update(more=1), "more: Extra inputs"),
        (lambda d: d["files"].pop("plan.bin"), "a package's files are"),
        (lambda d: d["files"].update({"../x": d["files"]["plan.bin"]}), "lists ../x"),
        (lambda d: d["files"]["plan.bin"].update(size_bytes=-1), "files.plan.bin.size_bytes"),
        (lambda d: d["hardware"].update(sha256="ABC"), "hardware.sha256"),
    ],
)
def test_manifests_out_of_form(folder: Path, change: Callable[[object], object], says: str) -> None:
    document = json.loads((folder / MANIFEST).read_bytes())
    change(document)
    (folder / MANIFEST).write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(PackageError) as caught:
        read_package(folder)
    assert says in str(caught.value)


def test_a_package_for_another_spec_is_refused(folder: Path) -> None:
    package, spec = read_package(folder), small_spec()
    require_spec(package, spec)
    for fields, says in (
        ({"name": "npu_large"}, "made for npu_small, not for npu_large"),
        ({"version": "2.0"}, "made for version 1.0 of npu_small, the spec is version 2.0"),
        ({"digest": "6" * 64}, "was changed since the package was made"),
    ):
        with pytest.raises(PackageError) as caught:
            require_spec(package, replace(spec, **fields))
        assert says in str(caught.value)
        assert "hint: compile again for this spec" in str(caught.value)


def test_an_existing_package_is_replaced(folder: Path) -> None:
    package = sample_package()
    other = replace(package, weights={"w": np.ones(3, np.float32)})
    write_package(folder, other)
    assert set(read_package(folder).weights) == {"w"}
    assert os.listdir(folder.parent) == ["package"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_package(tmp_path / "empty", sample_package())
    assert read_package(tmp_path / "empty").plan == sample_package().plan


def test_what_is_not_a_package_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    for target in (home, tmp_path / "file"):
        with pytest.raises(InputError, match="something else where the package should go"):
            write_package(target, sample_package())
    assert (home / "thesis.txt").read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["file", "home"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError) as caught:
        write_package(tmp_path / "file" / "package", sample_package())
    assert f"the package can't be written: {tmp_path / 'file'} is no folder" in str(caught.value)
    assert "hint: choose another output folder" in str(caught.value)
    assert caught.value.outcome is Outcome.BAD_INPUT


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match="Permission denied"):
            write_package(tmp_path / "package", sample_package())
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_fault_at_any_step_leaves_the_old_package_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException | type[BaseException]
) -> None:
    before = contents(folder)
    other = replace(sample_package(), weights={"w": np.ones(3, np.float32)})
    steps = 0
    for allowed in range(40):
        calls = iter(range(allowed))

        def step(real: Callable[..., object], calls: object = calls) -> Callable[..., object]:
            def stepping(*arguments: object) -> object:
                if next(calls, None) is None:  # type: ignore[call-overload]
                    monkeypatch.undo()  # one fault: putting things back goes well
                    raise fault
                return real(*arguments)

            return stepping

        for name in ("fsync", "rename"):
            monkeypatch.setattr(os, name, step(getattr(os, name)))
        try:
            write_package(folder, other)
        except (KeyboardInterrupt, InputError):
            steps += 1
        else:
            break
        finally:
            monkeypatch.undo()
        assert os.listdir(folder.parent) == ["package"]
        if contents(folder) != before:
            assert set(read_package(folder).weights) == {"w"}
            shutil.rmtree(folder)
            write_package(folder, sample_package())
    assert steps >= 9  # six files, their folder, and the renames
    assert set(read_package(folder).weights) == {"w"}


def test_file_facts(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert file_facts(tmp_path / "x") == FileFacts(
        3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
