"""Resize computes what ONNX Runtime computes, and a box of the result needs only its span."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stages.errors import RecipeError
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.recipe.semantics import resize_axis, resize_span
from stages.tensors import DType, TensorType
from tests.recipe.reference import Data, assert_close, numbers, run_onnx, run_ours

# The last one has no counterpart in opset 17: its interpolation is compared, its ties are not.
COORDINATES = [
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def ours_and_theirs(
    x: Data, scales: tuple[float, ...], mode: str, coordinates: str, nearest: str, **more: object
) -> tuple[Data, Data, dict[str, Attribute]]:
    """The same resize both ways; scales as in the graph."""
    theirs = run_onnx(
        "Resize",
        [x, None, np.array(scales, np.float32)],
        {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
        | more,
        opset=19,
    )[0]
    attributes: dict[str, Attribute] = {
        "mode": mode,
        "coordinates": coordinates,
        "nearest": nearest,
        "scales": tuple(float(np.float32(scale)) for scale in scales),
    }
    if "cubic_coeff_a" in more:
        attributes["cubic_coefficient"] = float(str(more["cubic_coeff_a"]))
    if "exclude_outside" in more:
        attributes["exclude_outside"] = int(str(more["exclude_outside"]))
    return run_ours(Kind.RESIZE, [x], attributes)[0], theirs, attributes


SCALES = st.sampled_from([0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 2.3, 3.0, 4.0])


@given(
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(SCALES, SCALES),
    st.sampled_from(COORDINATES[:-1]),
    st.sampled_from(NEAREST),
)
def test_nearest(
    extents: tuple[int, int], scales: tuple[float, float], coordinates: str, nearest: str
) -> None:
    assume(all(int(e * s) >= 1 for e, s in zip(extents, scales, strict=True)))
    x = numbers((1, 2, *extents))
    ours, theirs, _ = ours_and_theirs(x, (1.0, 1.0, *scales), "nearest", coordinates, nearest)
    assert_close(ours, theirs)


@given(
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(SCALES, SCALES),
    st.sampled_from(COORDINATES),
    st.sampled_from(["linear", "cubic"]),
)
def test_interpolation(
    extents: tuple[int, int], scales: tuple[float, float], coordinates: str, mode: str
) -> None:
    assume(all(int(e * s) >= 1 for e, s in zip(extents, scales, strict=True)))
    x = numbers((2, 1, *extents))
    ours, theirs, _ = ours_and_theirs(x, (1.0, 1.0, *scales), mode, coordinates, "floor")
    assert_close(ours, theirs, 2e-5)


def test_nearest_for_tensorflow() -> None:
    """ONNX dropped this one in opset 13: y = floor((x + 0.5) / scale)."""
    x = numbers((1, 1, 5))
    ours = run_ours(
        Kind.RESIZE,
        [x],
        {
            "mode": "nearest",
            "coordinates": "tf_half_pixel_for_nn",
            "nearest": "floor",
            "scales": (1.0, 1.0, 1.6),
        },
    )[0]
    places = np.floor((np.arange(8) + 0.5) / 1.6).astype(int)
    assert_close(ours, x[..., np.minimum(places, 4)])


@pytest.mark.parametrize("coefficient", [-0.5, -0.75])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("scale", [0.7, 2.5])
def test_cubic_options(coefficient: float, exclude: int, scale: float) -> None:
    ours, theirs, _ = ours_and_theirs(
        numbers((1, 1, 6, 7)),
        (1.0, 1.0, scale, scale),
        "cubic",
        "half_pixel",
        "floor",
        cubic_coeff_a=coefficient,
        exclude_outside=exclude,
    )
    assert_close(ours, theirs, 2e-5)


def test_linear_of_three_axes() -> None:
    ours, theirs, _ = ours_and_theirs(
        numbers((1, 2, 3, 4, 5)), (1.0, 1.0, 2.0, 1.5, 0.5), "linear", "half_pixel", "floor"
    )
    assert_close(ours, theirs, 2e-5)


@given(
    st.integers(1, 9),
    SCALES,
    st.sampled_from(COORDINATES),
    st.sampled_from(NEAREST),
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.data(),
)
def test_a_tile_needs_only_its_span(
    extent: int, scale: float, coordinates: str, nearest: str, mode: str, data: st.DataObject
) -> None:
    assume(int(extent * scale) >= 1)
    x = numbers((1, 2, extent, 3))
    attributes: dict[str, Attribute] = {
        "mode": mode,
        "coordinates": coordinates,
        "nearest": nearest,
        "scales": (1.0, 1.0, float(np.float32(scale)), 2.0),
    }
    whole = run_ours(Kind.RESIZE, [x], attributes)[0]
    start = data.draw(st.integers(0, whole.shape[2] - 1))
    stop = data.draw(st.integers(start + 1, whole.shape[2]))
    operator = Operator("", Kind.RESIZE, (), (), attributes)
    low, high = resize_span(resize_axis(operator, x.shape, whole.shape, 2), start, stop)
    assert 0 <= low < high <= extent
    tile = attributes | {
        "full_input": x.shape,
        "full_output": whole.shape,
        "origin_input": (0, 0, low, 0),
        "origin_output": (0, 0, start, 0),
    }
    declared = TensorType(DType.F32, (1, 2, stop - start, whole.shape[3]))
    part = run_ours(Kind.RESIZE, [x[:, :, low:high]], tile, declared=[declared])[0]
    np.testing.assert_array_equal(part, whole[:, :, start:stop])


def test_the_span_is_the_smallest() -> None:
    """Spoiling any element outside the span changes nothing; inside, every end matters."""
    x = numbers((1, 1, 9))
    attributes: dict[str, Attribute] = {
        "mode": "linear",
        "coordinates": "half_pixel",
        "nearest": "floor",
        "scales": (1.0, 1.0, 2.0),
    }
    operator = Operator("", Kind.RESIZE, (), (), attributes)
    low, high = resize_span(resize_axis(operator, (1, 1, 9), (1, 1, 18), 2), 5, 9)
    whole = run_ours(Kind.RESIZE, [x], attributes)[0][..., 5:9]
    for place in range(9):
        spoilt = x.copy()
        spoilt[..., place] = 100
        changed = run_ours(Kind.RESIZE, [spoilt], attributes)[0][..., 5:9]
        assert bool((changed != whole).any()) is (low <= place < high)


def test_a_tile_must_lie_in_the_whole() -> None:
    attributes: dict[str, Attribute] = {
        "mode": "nearest",
        "coordinates": "asymmetric",
        "nearest": "floor",
        "scales": (1.0, 1.0, 2.0),
        "full_output": (1, 1, 6),
        "origin_output": (0, 0, 4),
    }
    with pytest.raises(RecipeError, match="doesn't lie in the whole"):
        run_ours(
            Kind.RESIZE,
            [numbers((1, 1, 3))],
            attributes,
            declared=[TensorType(DType.F32, (1, 1, 3))],
        )
