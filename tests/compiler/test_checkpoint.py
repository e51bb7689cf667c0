"""A compile that stops after a pass, is edited perhaps, and goes on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from stages.compile import Reuse, compile_model, compile_until
from stages.compiler.interleaving import Interleaving
from stages.compiler.pipeline import decisions, rewrites
from stages.errors import InputError
from stages.package import code_digest, read_package
from stages.recipe.decisions import Engine
from tests.compiler.campaign import model_of
from tests.compiler.folders import package_bytes, residual_folder, save_folder
from tests.compiler.specs import FOLDER

SPEC = FOLDER / "npu_tiny.yaml"
PASSES = [step.name for step in (*rewrites(None, {}), *decisions())]
NOTED = 12
"""The seed of a model of which a rewrite says something in the recipe."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return residual_folder(tmp_path_factory.mktemp("model") / "residual", 1)


@pytest.fixture(scope="module")
def cold(folder: Path) -> Path:
    package = folder.parent / "cold"
    compile_model(folder, SPEC, package, quantization=None)
    return package


def stop(folder: Path, out: Path, after: str, start: Path | None = None) -> Path:
    compile_until(folder, SPEC, out, quantization=None, stop_after=after, start_from=start)
    return out / "recipe.txt"


def go_on(folder: Path, out: Path, start: Path, reuse: Reuse | None = None) -> Path:
    compile_model(folder, SPEC, out, quantization=None, reuse=reuse or Reuse(), start_from=start)
    return out


def edit(text: Path, old: str, new: str) -> Path:
    content = text.read_text()
    assert old in content
    text.write_text(content.replace(old, new))
    return text


@pytest.mark.parametrize("after", PASSES)
def test_the_package_is_the_same_wherever_the_compile_stopped(
    after: str, folder: Path, cold: Path, tmp_path: Path
) -> None:
    text = stop(folder, tmp_path / "stopped", after)
    assert json.loads((tmp_path / "stopped/stopped.json").read_bytes())["after"] == after
    assert package_bytes(go_on(folder, tmp_path / "package", text)) == package_bytes(cold)


def test_every_pass_in_turn_and_a_copy_of_the_folder(
    folder: Path, cold: Path, tmp_path: Path
) -> None:
    text: Path | None = None
    for after in PASSES:
        text = stop(folder, tmp_path / after, after, text)
    assert text is not None
    moved = text.parent.rename(tmp_path / "elsewhere")
    assert package_bytes(go_on(folder, tmp_path / "package", moved)) == package_bytes(cold)


@pytest.mark.parametrize("seed", [19, 1169, NOTED])
@pytest.mark.parametrize("after", ["recognize", "fuse", "order"])
def test_random_models_go_on(seed: int, after: str, tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "m", model_of(seed).model, model_of(seed).feeds)
    compile_model(folder, SPEC, tmp_path / "cold", quantization=None)
    text = stop(folder, tmp_path / "stopped", after)
    warm = go_on(folder, tmp_path / "warm", text)
    assert package_bytes(warm) == package_bytes(tmp_path / "cold")
    assert ("merged" in "".join(read_package(warm).recipe.notes)) is (seed == NOTED)


def test_an_edited_text_is_compiled_and_noted(folder: Path, tmp_path: Path) -> None:
    text = edit(
        stop(folder, tmp_path / "stopped", "fuse"),
        "group pool on vector",
        'group pool on host because "to see what it costs"',
    )
    recipe = read_package(go_on(folder, tmp_path / "package", text)).recipe
    assert "edited by hand after fuse" in recipe.notes
    (group,) = recipe.fallbacks
    assert "to see what it costs" in group.reason


def test_decisions_of_an_edited_order_are_no_ones_but_this_packages(
    folder: Path, cold: Path, tmp_path: Path
) -> None:
    text = stop(folder, tmp_path / "stopped", "order")
    text.write_text(text.read_text() + "# looked at\n")
    go_on(folder, tmp_path / "edited", text, Reuse(cold, tmp_path / "store"))
    assert not (tmp_path / "store").exists()
    decisions = json.loads((tmp_path / "edited/decisions.json").read_bytes())
    assert decisions["structure_sha256"] == ""


def test_edited_decisions_may_stop_again(folder: Path, tmp_path: Path) -> None:
    text = stop(folder, tmp_path / "stopped", "order")
    text.write_text(text.read_text() + "# looked at\n")
    at_once = go_on(folder, tmp_path / "package", text)
    again = stop(folder, tmp_path / "again", "layout", text)
    in_steps = go_on(folder, tmp_path / "other", again)
    assert package_bytes(in_steps) == package_bytes(at_once)


def test_another_model_or_spec_doesnt_go_on(folder: Path, tmp_path: Path) -> None:
    text = stop(folder, tmp_path / "stopped", "fuse")
    other = residual_folder(tmp_path / "other", 2)
    with pytest.raises(InputError, match=r"was begun from another model\n"):
        go_on(other, tmp_path / "package", text)
    spec = tmp_path / "npu_tiny.yaml"
    spec.write_text(SPEC.read_text() + "# changed\n")
    with pytest.raises(InputError, match=r"was begun from another hardware spec\n"):
        compile_model(folder, spec, tmp_path / "package", quantization=None, start_from=text)
    assert not (tmp_path / "package").exists()


def test_decisions_begun_by_other_code_are_no_ones_but_this_packages(
    folder: Path, tmp_path: Path
) -> None:
    text = stop(folder, tmp_path / "stopped", "order")
    said = text.with_name("stopped.json")
    said.write_text(said.read_text().replace(code_digest(), "0" * 64))
    go_on(folder, tmp_path / "package", text, Reuse(store=tmp_path / "store"))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("after", ["fuse", "order"])
def test_without_cascades_it_is_the_same(after: str, folder: Path, tmp_path: Path) -> None:
    off = partial(compile_model, folder, SPEC, quantization=None, interleaving=Interleaving.LOADS)
    stopped = tmp_path / "stopped"
    off(tmp_path / "cold")
    compile_until(
        folder, SPEC, stopped, quantization=None, stop_after=after, interleaving=Interleaving.LOADS
    )
    off(tmp_path / "warm", start_from=stopped)
    assert package_bytes(tmp_path / "warm") == package_bytes(tmp_path / "cold")


def test_decisions_begun_with_another_option_are_no_ones_but_this_packages(
    folder: Path, tmp_path: Path
) -> None:
    for after, structure_is_known in (("fuse", True), ("order", False)):
        text = stop(folder, tmp_path / after, after)
        package = tmp_path / f"{after}.off"
        compile_model(
            folder,
            SPEC,
            package,
            quantization=None,
            start_from=text,
            interleaving=Interleaving.LOADS,
        )
        decisions = json.loads((package / "decisions.json").read_bytes())
        assert bool(decisions["structure_sha256"]) is structure_is_known


@pytest.mark.parametrize(
    ("old", "new", "problem", "where"),
    [
        ("= relu(", "= reluu(", "reluu", "line "),
        ("relu(%c1)", "relu(%c9)", "%c9", "= relu(%c9)"),
        ("f32[1,16,12,12] = relu", "f32[1,16,12,11] = relu", "relu", "^^^"),
        ("pads=[1,1,1,1]", "pads=[1,1,1,2]", "conv", "= conv("),
        ("group pool on vector", "group pool on tensor_core", "max_pool doesn't run", "group pool"),
        ("for npu_tiny", "for npu_huge", "npu_huge", "first line"),
        ("%k1 : f32[16,3,3,3]", "%k7 : f32[16,3,3,3]", "%k", "%k"),
    ],
)  # fmt: skip
def test_what_an_edit_breaks_is_shown_where_it_is(
    old: str, new: str, problem: str, where: str, folder: Path, tmp_path: Path
) -> None:
    text = edit(stop(folder, tmp_path / "stopped", "fuse"), old, new)
    with pytest.raises(InputError) as caught:
        go_on(folder, tmp_path / "package", text)
    assert problem in caught.value.problem
    assert where in caught.value.where
    assert caught.value.hint
    assert not (tmp_path / "package").exists()


def test_wrong_passes_get_the_list(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'fuze'") as caught:
        stop(folder, tmp_path / "stopped", "fuze")
    assert ", ".join(PASSES) in caught.value.hint
    text = stop(folder, tmp_path / "stopped", "fuse")
    with pytest.raises(InputError, match="'canonicalize'") as caught:
        stop(folder, tmp_path / "again", "canonicalize", text)
    assert caught.value.hint.endswith(", ".join(PASSES[PASSES.index("fuse") + 1 :]))


def test_what_isnt_a_stopped_compile(folder: Path, cold: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"stopped\.json can't be read"):
        go_on(folder, tmp_path / "package", cold)
    with pytest.raises(InputError, match="can't be read"):
        go_on(folder, tmp_path / "package", tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="something else"):
        stop(folder, folder, "fuse")


def test_the_engines_of_the_text_are_those_of_the_package(folder: Path, tmp_path: Path) -> None:
    """What a person sees after the last pass is what is built."""
    text = stop(folder, tmp_path / "stopped", PASSES[-1]).read_text()
    recipe = read_package(go_on(folder, tmp_path / "package", tmp_path / "stopped")).recipe
    lines = [line for line in text.splitlines() if line.startswith("group ")]
    assert [line.split(" on ")[1].split()[0] for line in lines] == [
        str(group.engine) for group in recipe.groups
    ]
    assert any(group.engine is Engine.TENSOR_CORE for group in recipe.groups)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("constants.safetensors", b"\x08", "safetensors"),
        ("explanation.json", b"[{}]", "explanation isn't in the form: 0.subject: Field required"),
        ("stopped.json", b'{"after": 3}', "isn't in the form: after: "),
    ],
)
def test_what_is_broken_beside_the_text_is_named(
    name: str, content: bytes, problem: str, folder: Path, tmp_path: Path
) -> None:
    text = stop(folder, tmp_path / "stopped", "fuse")
    text.with_name(name).write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        go_on(folder, tmp_path / "package", text)
    assert caught.value.where == str(text.with_name(name))
    assert "--stop-after" in caught.value.hint
