"""Links, device against recipe, and floors, on integer models from files to a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from stages.compile import compile_model
from stages.evaluation.accuracy_verdict import judge_quantized
from stages.evaluation.conditioning import MOVES, RELATIVE_MOVE, floors_db, moved
from stages.evaluation.links import Link, compare_links
from stages.evaluation.output_checks import AccuracyLimits, check_output
from stages.evaluation.quantized_proof import DeviceFacts, FloorFacts, LinkFacts, Proof
from stages.evaluation.verdict import Verdict
from stages.evaluation.whole_groups import input_values, run_whole, whole_groups
from stages.normalizer.sample_files import load_samples
from stages.package import read_constants, read_package, write_package
from stages.tensors import Array
from stages.validate import Validation, ValidationLimits, validate
from tests.evaluation.quantized_models import RMS_STEPS, deep_chain, shallow_cnn

HARDWARE = Path(__file__).parents[2] / "hardware_specs" / "rk3588_npu.yaml"
Maker = Callable[..., None]


def judged(
    folder: Path,
    make: Maker,
    wrong_scales: dict[str, float] | None = None,
    edit: Callable[[dict[str, Array]], None] | None = None,
) -> Validation:
    """The model `make` builds, judged in a package that was made with wrong scales or then edited
    in its packed weights."""
    make(folder / "right")
    make(folder / "used", wrong_scales)
    compile_model(folder / "used", HARDWARE, folder / "package", quantization=None)
    if edit is not None:
        package = read_package(folder / "package")
        constants = dict(read_constants(folder / "package"))
        weights = {name: np.array(array) for name, array in package.weights.items()}
        edit(weights)
        write_package(folder / "package", replace(package, weights=weights, constants=constants))
    return validate(
        folder / "package", folder / "right", HARDWARE, folder / "out", limits=ValidationLimits()
    )


def check(result: Validation, name: str) -> tuple[bool, str]:
    (found,) = [item for item in result.checks if item.name == name]
    return found.passed, found.figure


def negate_largest(weights: dict[str, Array]) -> None:
    name = max(weights, key=lambda key: (weights[key].size, key))
    weights[name] = (-weights[name].view(np.int8)).view(weights[name].dtype)


def test_a_sound_integer_model_passes_end_to_end_and_by_its_links(tmp_path: Path) -> None:
    result = judged(tmp_path, shallow_cnn)
    assert result.verdict is Verdict.PASS, result.reasons
    assert all(facts.is_conclusive for facts in result.outputs)
    assert result.reasons == ("8 checks passed, 2 outputs compared",)
    proof = result.proof
    assert proof is not None
    assert proof.holds
    assert (
        proof.checked_groups
        == proof.groups
        == len(read_package(tmp_path / "package").recipe.groups)
    )
    assert check(result, "device against recipe") == (
        True,
        "its outputs equal the recipe's to the bit",
    )
    assert [(item.output, item.sample) for item in proof.device] == [("c2.dq", 0), ("c2.dq", 1)]
    report = json.loads((tmp_path / "out" / "validation.json").read_text())
    assert report["proof"]["checked_groups"] == proof.groups
    assert report["proof"]["broken"] == []


def test_a_wrong_scale_fails_a_well_conditioned_model_and_names_its_group(tmp_path: Path) -> None:
    result = judged(tmp_path, shallow_cnn, {"c1": 4.5 / 127})
    assert result.verdict is Verdict.FAIL
    assert all(facts.is_conclusive for facts in result.outputs)
    assert "The model is stable" in result.reasons[0]
    assert "1 wrong: 'c1'" in result.reasons[0]
    assert result.proof is not None
    assert [link.group for link in result.proof.broken] == ["c1"]
    assert check(result, "links")[0] is False
    assert check(result, "device against recipe")[0] is True


def test_a_chaotic_model_is_inconclusive_end_to_end_and_passes_by_its_links(
    tmp_path: Path,
) -> None:
    result = judged(tmp_path, deep_chain)
    assert result.verdict is Verdict.PASS, result.reasons
    (facts,) = result.outputs
    assert facts.is_conclusive is False
    assert facts.sqnr_db is not None
    assert facts.sqnr_db < ValidationLimits().min_sqnr_db
    assert result.proof is not None
    floor = result.proof.floor("c15.dq")
    assert floor is not None
    assert floor.is_below
    # All three figures stand in the reason.
    assert f"SQNR {facts.sqnr_db:.1f} dB end to end is inconclusive by itself" in result.reasons[0]
    assert f"only to {floor.floor_db:.1f} dB when its input moves by 1e-06" in result.reasons[0]
    assert f"{result.proof.groups} of {result.proof.groups} groups checked" in result.reasons[0]
    report = json.loads((tmp_path / "out" / "validation.json").read_text())
    assert report["outputs"][0]["sqnr_db"] == facts.sqnr_db
    assert report["outputs"][0]["is_conclusive"] is False
    assert report["outputs"][0]["check"]["figure"].endswith("inconclusive")


def test_one_wrong_group_of_a_chaotic_model_fails_by_name(tmp_path: Path) -> None:
    # Off by 12 %: end to end that is no worse than the chaos itself.
    result = judged(tmp_path, deep_chain, {"c7": 1.12 / RMS_STEPS})
    assert result.verdict is Verdict.FAIL
    assert result.proof is not None
    assert [link.group for link in result.proof.broken] == ["c7"]
    assert "By its links the device is wrong" in result.reasons[0]
    assert "1 wrong: 'c7'" in result.reasons[0]
    assert result.proof.device_holds


def test_a_plan_that_isnt_its_recipe_fails_a_chaotic_model(tmp_path: Path) -> None:
    result = judged(tmp_path, deep_chain, edit=negate_largest)
    assert result.verdict is Verdict.FAIL
    assert result.proof is not None
    assert result.proof.links_hold
    assert not result.proof.device_holds
    passed, figure = check(result, "device against recipe")
    assert not passed
    assert "Its plan is wrong" in result.reasons[0]
    assert "elements of its outputs differ from the recipe's" in figure


def test_reports_are_the_same_bytes_twice(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        judged(tmp_path / name, deep_chain)
        texts.append((tmp_path / name / "out" / "validation.json").read_bytes())
    assert texts[0] == texts[1]


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    shallow_cnn(tmp_path / "model")
    compile_model(tmp_path / "model", HARDWARE, tmp_path / "package", quantization=None)
    return tmp_path


def test_a_value_the_model_lacks_is_carried_to_the_next_that_it_has(compiled: Path) -> None:
    recipe = read_package(compiled / "package").recipe
    constants = read_constants(compiled / "package")
    sample = load_samples(compiled / "model" / "samples.npz")[0]
    groups = whole_groups(recipe)
    everything: dict[str, Array] = dict(input_values(recipe, sample))
    for group in groups:
        everything |= group.run(constants | everything)
    output = recipe.graph.outputs[0]
    assert np.array_equal(run_whole(groups, recipe, constants, sample)[output], everything[output])
    # The reference shows the input and the output alone: one link holds the whole chain.
    ends = {name: everything[name] for name in (*recipe.graph.inputs, output)}
    links = compare_links(groups, constants, ends)
    (link,) = links.links
    assert link.sqnr_db == inf
    assert {link.group, *link.carried} == {group.name for group in groups}
    assert links.unchecked == ()
    # Without the output there is nothing to judge by.
    inputs = {name: everything[name] for name in recipe.graph.inputs}
    blind = compare_links(groups, constants, inputs)
    assert blind.links == ()
    assert blind.unchecked == tuple(group.name for group in groups)


def test_a_group_that_no_link_reaches_leaves_the_proof_open() -> None:
    link = LinkFacts("a", "v", (), True, 60.0, None, None)
    same = DeviceFacts("y", 0, 0, None, True)
    whole = Proof(2, 2, (), (), link, (), (same,), ())
    assert whole.holds
    assert not replace(whole, checked_groups=1, unchecked=("b",)).holds
    assert replace(whole, checked_groups=1, by_runtime=("b",)).holds
    assert not replace(whole, checked_groups=0, worst=None).holds
    assert not replace(whole, broken=(link,)).holds
    assert not replace(whole, device=()).holds


def test_nan_is_never_excused_by_a_floor() -> None:
    nan, right = np.full(3, np.nan, np.float32), np.ones(3, np.float32)
    facts = check_output("y", 0, nan, right, AccuracyLimits(), is_quantized=True)
    low = FloorFacts("y", 0, 10.0, is_below=True)
    link = LinkFacts("a", "v", (), True, 60.0, None, None)
    proof = Proof(1, 1, (), (), link, (), (DeviceFacts("y", 0, 0, None, True),), (low,))
    judgement = judge_quantized([facts], proof, 30.0)
    assert judgement.outputs == (facts,)
    assert not judgement.outputs[0].check.passed
    noisy = check_output("y", 0, right * [1, 1, 1.5], right, AccuracyLimits(), is_quantized=True)
    assert judge_quantized([noisy], proof, 30.0).outputs[0].check.passed
    unmoved = replace(proof, floors=(FloorFacts("y", 0, None, is_below=False),))
    assert not judge_quantized([noisy], unmoved, 30.0).outputs[0].check.passed


def test_the_zero_point_is_no_signal(compiled: Path) -> None:
    recipe = read_package(compiled / "package").recipe
    constants = read_constants(compiled / "package")
    sample = load_samples(compiled / "model" / "samples.npz")[0]
    groups = whole_groups(recipe)
    values: dict[str, Array] = dict(input_values(recipe, sample))
    for group in groups:
        values |= group.run(constants | values)
    steps = values["r0.q"].astype(np.int64)
    shifted = np.minimum(steps + 4, 127).astype(np.int8)
    links = compare_links(groups, constants, values | {"r0.q": shifted})
    (link,) = [item for item in links.links if item.value == "r0.q"]
    centred = shifted.astype(np.float64) + 128
    noise = np.square(shifted - steps).sum()
    assert link.sqnr_db == pytest.approx(10 * np.log10(np.square(centred).sum() / noise))
    assert link.steps_off == 4
    assert not link.holds(30.0)


@pytest.mark.parametrize(
    ("sqnr_db", "steps_off", "flipped_share", "holds"),
    [
        (30.0, 9, 0.5, True),
        (29.9, 1, 0.01, True),
        (29.9, 1, 0.011, False),
        (29.9, 2, 0.001, False),
        (29.9, None, None, False),
        (-inf, None, None, False),
    ],
)
def test_rare_flips_of_one_step_hold_whatever_their_noise(
    sqnr_db: float, steps_off: int | None, flipped_share: float | None, holds: bool
) -> None:
    link = Link("g", "v", (), sqnr_db, steps_off, flipped_share)
    assert link.holds(30.0) is holds


def test_only_floats_move_and_by_the_same_every_time() -> None:
    sample = {
        "x": np.linspace(1, 2, 1000, dtype=np.float32),
        "h": np.linspace(1, 2, 1000).astype(np.float16),
        "i": np.arange(9),
    }
    first, again, other = moved(sample, 0), moved(sample, 0), moved(sample, 1)
    assert all(np.array_equal(first[name], again[name]) for name in sample)
    assert not np.array_equal(first["x"], other["x"])
    assert first["i"] is sample["i"]
    part = first["x"].astype(np.float64) / sample["x"] - 1
    assert np.sqrt(np.square(part).mean()) == pytest.approx(RELATIVE_MOVE, rel=0.1)
    assert first["h"].dtype == np.float16
    assert np.count_nonzero(first["h"] != sample["h"]) > 300


def test_the_floor_is_the_lowest_of_the_moves() -> None:
    sample = {"x": np.ones(100, np.float32)}
    answers = iter((1.0, 1.1, 1.01))
    outputs = {"y": np.ones(4, np.float32)}
    floors = floors_db(lambda moved: {"y": np.full(4, next(answers), np.float32)}, sample, outputs)
    assert MOVES == 3
    assert floors["y"] == pytest.approx(20.0, abs=1e-3)


def test_a_model_without_float_inputs_has_no_floor() -> None:
    outputs = {"y": np.ones(4, np.float32)}
    assert floors_db(lambda moved: outputs, {"ids": np.arange(3)}, outputs) == {"y": None}
