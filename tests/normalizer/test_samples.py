"""Sample inputs: seeded, bounded, stored so that they come back the same."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from models.synthetic import transformer_block
from stages.errors import InputError
from stages.normalizer.sample_files import load_samples, read_user_samples, save_samples
from stages.normalizer.samples import draw_samples, input_types
from stages.tensors import Array, DType, TensorType
from tests.normalizer.graphs import from_text, normalized

TYPES = {"x": TensorType(DType.F32, (2, 3)), "n": TensorType(DType.I64, ())}


def test_indices_stay_inside_the_table_they_pick_from(tmp_path: Path) -> None:
    graph = normalized(transformer_block(), tmp_path).graph
    drawn = np.concatenate([sample["tokens"] for sample in draw_samples(graph, 1, 50)])
    assert drawn.min() >= 0
    assert 40 < drawn.max() < 50


def test_indices_are_followed_through_what_only_moves_them(tmp_path: Path) -> None:
    model = from_text(
        "g (int32[2,3] i) => (float[3,2,4] y) { c = Cast <to=7> (i) t = Transpose (c) "
        "y = Gather (w, t) }",
        {"w": np.ones((5, 4), np.float32)},
    )
    graph = normalized(model, tmp_path).graph
    drawn = np.stack([sample["i"] for sample in draw_samples(graph, 1, 30)])
    assert (drawn.min(), drawn.max(), drawn.dtype) == (0, 4, np.int32)


def test_floats_that_become_indices_are_whole_and_inside(tmp_path: Path) -> None:
    model = from_text(
        "g (float[9] i) => (float[9,4] y) { c = Cast <to=6> (i) y = Gather (w, c) }",
        {"w": np.ones((5, 4), np.float32)},
    )
    (sample,) = draw_samples(normalized(model, tmp_path).graph, 1, 1)
    assert sample["i"].dtype == np.float32
    assert set(sample["i"].tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_masks_are_ones_and_floats_are_normal(tmp_path: Path) -> None:
    model = from_text(
        "g (float[1000] x, int64[4] attention_mask, bool[64] b, int8[900] q) => "
        "(float[1000] y, int64[4] z, bool[64] c, int8[900] r) "
        "{ y = Neg (x) z = Identity (attention_mask) c = Not (b) r = Identity (q) }"
    )
    (sample,) = draw_samples(normalized(model, tmp_path).graph, 1, 1)
    assert sample["attention_mask"].tolist() == [1] * 4
    assert abs(float(sample["x"].std()) - 1) < 0.1
    assert 0 < int(sample["b"].sum()) < 64
    assert sample["q"].min() < -100
    assert sample["q"].max() > 100


def test_a_seed_gives_the_same_samples_and_another_seed_others(tmp_path: Path) -> None:
    graph = normalized(transformer_block(), tmp_path).graph
    first, again, other = (draw_samples(graph, seed, 3) for seed in (5, 5, 6))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a["tokens"], b["tokens"])
    assert not np.array_equal(first[0]["tokens"], other[0]["tokens"])
    assert not np.array_equal(first[0]["tokens"], first[1]["tokens"])


def test_samples_come_back_as_they_were(tmp_path: Path) -> None:
    samples: list[dict[str, Array]] = [
        {
            "x": np.arange(6, dtype=np.float32).reshape(2, 3) + index,
            "a/b:0": np.array(index, np.int64),
            "file": np.ones((0, 2), np.bool_),
            "Σ": np.ones(3, ml_dtypes.bfloat16),
        }
        for index in range(11)
    ]
    path = tmp_path / "s.npz"
    save_samples(path, samples)
    loaded = load_samples(path)
    assert len(loaded) == 11
    for before, after in zip(samples, loaded, strict=True):
        assert list(before) == list(after)
        for name, array in before.items():
            assert after[name].dtype == array.dtype
            np.testing.assert_array_equal(after[name], array)
    save_samples(tmp_path / "t.npz", samples)
    assert path.read_bytes() == (tmp_path / "t.npz").read_bytes()


def test_a_users_file_with_one_sample(tmp_path: Path) -> None:
    path = tmp_path / "u.npz"
    np.savez(path, x=np.ones((2, 3), np.float32), n=np.int64(4))
    (sample,) = read_user_samples(path, TYPES)
    assert sample["n"] == 4


def test_a_users_file_with_several_samples(tmp_path: Path) -> None:
    path = tmp_path / "u.npz"
    np.savez(path, x=np.ones((5, 2, 3), np.float32), n=np.arange(5))
    samples = read_user_samples(path, TYPES)
    assert [int(sample["n"]) for sample in samples] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.ones((2, 3), np.float32)}, "no array for input 'n'"),
        ({"x": np.ones((2, 4), np.float32), "n": np.int64(1)}, r"float32\[2, 4\], the input is"),
        ({"x": np.ones((2, 3)), "n": np.int64(1)}, r"float64\[2, 3\]"),
        ({"x": np.ones((5, 2, 3), np.float32), "n": np.arange(4)}, "different numbers of samples"),
    ],
)
def test_a_users_file_that_does_not_fit(
    tmp_path: Path, arrays: dict[str, Array], said: str
) -> None:
    path = tmp_path / "u.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=said):
        read_user_samples(path, TYPES)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 and then nothing"])
def test_files_that_are_no_samples(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="samples can't be read"):
        load_samples(path)
    with pytest.raises(InputError, match="samples can't be read"):
        load_samples(tmp_path / "missing.npz")


def test_input_types_in_order(tmp_path: Path) -> None:
    model = from_text("g (float16[2] b, int32 a) => (float16[2] y) { y = Neg (b) }")
    types = input_types(normalized(model, tmp_path).graph)
    assert [f"{name}: {kind}" for name, kind in types.items()] == ["b: f16[2]", "a: i32[]"]
