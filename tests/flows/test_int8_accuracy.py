"""The bench of int8 answers: what an answer is, and one trained model taken through it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.benchmarks import task_inputs
from flows.benchmarks.int8_accuracy import TASKS, Row, measure, write_table
from flows.benchmarks.task_answers import Boxes, agree, found_boxes, is_speech, recognised
from flows.project.places import Project
from stages.errors import InputError
from stages.normalize import normalize
from stages.normalizer.registry import load_registry, resolve
from stages.normalizer.source import ModelSource
from stages.tensors import DType, TensorType
from tests.flows.command import REPOSITORY

BYTES = {"bytes": TensorType(DType.I32, (1, 256))}
SOUND = {"input": TensorType(DType.F32, (1, 576))}
IMAGE = {"x": TensorType(DType.F32, (1, 3, 48, 192))}


@pytest.fixture
def classifier() -> ModelSource:
    """The trained direction classifier, fetched on first use; never left out in CI."""
    cache = Path(os.environ["RECIPE_CACHE"])
    try:
        return resolve("ppocr_cls", load_registry(REPOSITORY / "models"), cache)
    except InputError as error:
        if os.environ.get("CI") == "true" or "can't be downloaded" not in error.problem:
            raise
        pytest.skip(error.problem)


def test_a_string_is_what_is_left_of_repetitions_and_blanks() -> None:
    best = [0, 3, 3, 0, 3, 5, 5, 0, 0]
    scores = np.eye(6, dtype=np.float32)[best][None]
    assert recognised({"y": scores}) == (3, 3, 5)


def test_boxes_are_where_the_map_says_text() -> None:
    chart = np.zeros((1, 1, 20, 40), np.float32)
    chart[0, 0, 2:8, 5:20] = 0.9
    chart[0, 0, 12:18, 1:9] = 0.5  # text by its pixels, but not by its mean
    chart[0, 0, 12:14, 30:38] = 0.9  # too thin
    assert found_boxes({"y": chart}) == Boxes(((2, 5, 8, 20),))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (((0, 0, 10, 10),), ((0, 0, 10, 20),), True),
        (((0, 0, 10, 10),), ((0, 0, 10, 21),), False),
        (((0, 0, 10, 10),), ((0, 0, 10, 10), (20, 0, 30, 10)), False),
        (((0, 0, 10, 10), (20, 0, 30, 10)), ((0, 0, 10, 10),), False),
        ((), (), True),
    ],
)
def test_boxes_agree_where_they_overlap_by_half(one: tuple, other: tuple, same: bool) -> None:
    assert agree(Boxes(one), Boxes(other)) is same


def test_speech_is_more_likely_than_not() -> None:
    assert is_speech(np.array([[0.5]]))
    assert not is_speech(np.array([[0.49]]))


def test_made_up_inputs_depend_on_their_seed_alone() -> None:
    for seed in range(8):
        once, twice = (task_inputs.file_ends(seed, BYTES)["bytes"] for _ in range(2))
        assert np.array_equal(once, twice)
        assert once.dtype == np.int32
        assert once.shape == (1, 256)
        assert 0 <= once.min() <= once.max() <= 256
    assert not np.array_equal(once, task_inputs.file_ends(0, BYTES)["bytes"])
    frames = [np.stack(task_inputs.sound_frames(seed, SOUND, 30)) for seed in (1, 1, 2)]
    assert frames[0].shape == (30, 1, 576)
    assert np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[0], frames[2])


def test_every_second_line_for_the_classifier_is_upside_down() -> None:
    upright, turned = (
        task_inputs.text_line(1, IMAGE)["x"], task_inputs.turned_text_line(1, IMAGE)["x"],
    )  # fmt: skip
    assert np.array_equal(turned, upright[:, :, ::-1, ::-1])
    same = task_inputs.turned_text_line(2, IMAGE)["x"]
    assert np.array_equal(same, task_inputs.text_line(2, IMAGE)["x"])
    assert -1 <= upright.min() < -0.2 < 0.2 < upright.max() <= 1


def test_the_int8_direction_classifier_answers_as_the_float_one(
    classifier: ModelSource, tmp_path: Path
) -> None:
    (task,) = [task for task in TASKS if task.model == "ppocr_cls"]
    normalized = tmp_path / task.model
    normalize(classifier, normalized, seed=0, sample_count=1)
    few = replace(task, calibrating=8, limiting=1)
    (row,) = measure(few, normalized, ["rk3588_npu"], 50, Project(REPOSITORY))
    assert row.alone >= 49


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- int8 accuracy -->\nold\n<!-- end -->\nafter\n")
    row = Row(TASKS[0], "npu_tiny", 50, 50, 40, 49, ("Conv@1",), "")
    write_table([row], page)
    text = page.read_text()
    assert text.startswith("before\n<!-- int8 accuracy -->\n| model")
    assert "| 80% | " in text
    assert "| 1 | 98% |" in text
    assert "`Conv@1`" in text
    assert "old" not in text
    assert text.endswith("<!-- end -->\nafter\n")


def test_the_page_has_the_marks() -> None:
    text = (REPOSITORY / "docs" / "quantization.md").read_text()
    assert text.count("<!-- int8 accuracy -->") == text.count("<!-- end -->") == 1


def test_tasks_are_models_of_the_registry() -> None:
    for task in TASKS:
        assert (REPOSITORY / "models" / task.model / "model.yaml").is_file()
