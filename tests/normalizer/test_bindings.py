"""Dynamic axes: bound by name or by position, or refused with the line to type."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from stages.errors import InputError
from stages.normalizer.normalize import normalize_model
from stages.normalizer.samples import input_types
from tests.normalizer.graphs import from_text, normalized, save

GRAPH = (
    "g (float[N,3,?,48] x, float[N,1] mask) => (float[N,3,?,48] y) "
    "{ s = ReduceSum <keepdims=0> (mask) y = Mul (x, s) }"
)


def model() -> onnx.ModelProto:
    """`x` has a named axis 0 and an axis 2 without a name; `mask` shares the name."""
    built = from_text(GRAPH)
    for value in (*built.graph.input, *built.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "?":
                dim.ClearField("dim_param")
    return built


def refusal(folder: Path, bindings: dict[str, int]) -> InputError:
    with pytest.raises(InputError) as caught:
        normalized(model(), folder, bindings)
    return caught.value


def test_names_and_positions(tmp_path: Path) -> None:
    result = normalized(model(), tmp_path, {"N": 2, "x.2": 7})
    assert {name: kind.shape for name, kind in input_types(result.graph).items()} == {
        "x": (2, 3, 7, 48),
        "mask": (2, 1),
    }
    assert result.bindings == {"N": 2, "x.2": 7}


def test_a_position_of_a_named_axis_binds_the_name(tmp_path: Path) -> None:
    result = normalized(model(), tmp_path, {"mask.0": 5, "x.2": 7})
    assert input_types(result.graph)["x"].shape == (5, 3, 7, 48)


def test_unbound_axes_are_all_named_with_the_line_to_type(tmp_path: Path) -> None:
    error = refusal(tmp_path, {})
    assert error.problem == (
        'dynamic axes without an extent: x: axis 0 "N", axis 2 (unnamed); mask: axis 0 "N"'
    )
    assert "--bind N=1 x.2=224" in error.hint


def test_the_line_to_type_works(tmp_path: Path) -> None:
    line = refusal(tmp_path, {}).hint.partition("--bind ")[2]
    pairs = dict(pair.split("=") for pair in line.split())
    result = normalized(model(), tmp_path, {key: int(value) for key, value in pairs.items()})
    assert input_types(result.graph)["x"].shape == (1, 3, 224, 48)


def test_only_the_axes_left_are_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"N": 1}).problem.endswith("x: axis 2 (unnamed)")


def test_a_binding_that_names_no_axis(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"N": 1, "x.2": 8, "M": 3})
    assert error.problem == "binding 'M' names no axis of the model"
    assert "x[N,3,?,48]" in error.where
    assert "N, x.2" in error.hint


@pytest.mark.parametrize("key", ["x.9", "z.0", "x.-1", "x.N", "x"])
def test_positions_that_do_not_exist(tmp_path: Path, key: str) -> None:
    assert f"{key!r} names no axis" in refusal(tmp_path, {key: 2}).problem


def test_a_binding_that_contradicts_a_static_axis(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"N": 1, "x.2": 8, "x.1": 4})
    assert error.problem == "binding x.1=4 contradicts the model, where the axis is 3"
    assert error.where == "input x[N,3,?,48], axis 1"


def test_a_binding_that_repeats_a_static_axis(tmp_path: Path) -> None:
    assert normalized(model(), tmp_path, {"N": 1, "x.2": 8, "x.1": 3}).bindings == {
        "N": 1,
        "x.2": 8,
    }


def test_bindings_that_contradict_each_other(tmp_path: Path) -> None:
    assert "N=1 and x.0=2 contradict" in refusal(tmp_path, {"N": 1, "x.0": 2, "x.2": 8}).problem


@pytest.mark.parametrize("extent", [0, -3])
def test_extents_below_one(tmp_path: Path, extent: int) -> None:
    assert f"binding N={extent}" in refusal(tmp_path, {"N": extent, "x.2": 1}).problem


def test_the_user_overrides_the_registry(tmp_path: Path) -> None:
    from dataclasses import replace

    source = replace(save(model(), tmp_path), bindings={"N": 1, "x.2": 8})
    result = normalize_model(source, {"x.0": 3})
    assert input_types(result.graph)["x"].shape == (3, 3, 8, 48)


def test_minus_one_is_dynamic_as_paddle_writes_it(tmp_path: Path) -> None:
    built = from_text("g (float[1,4] x) => (float[1,4] y) { y = Relu (x) }")
    built.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    with pytest.raises(InputError, match=r"axis 0 \(unnamed\)"):
        normalized(built, tmp_path)
    assert normalized(built, tmp_path, {"x.0": 2}).bindings == {"x.0": 2}


def test_names_with_dots(tmp_path: Path) -> None:
    built = from_text("g (float[1,4] x) => (float[1,4] y) { y = Relu (x) }")
    built.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "p2o.Dim.0"
    assert normalized(built, tmp_path, {"p2o.Dim.0": 2}).bindings == {"p2o.Dim.0": 2}


def test_a_scalar_integer_input_takes_a_value(tmp_path: Path) -> None:
    built = from_text(
        "g (float[4] x, int64 rate) => (float[4] y) { r = Cast <to=1> (rate) y = Mul (x, r) }"
    )
    result = normalized(built, tmp_path, {"rate": 16})
    assert list(input_types(result.graph)) == ["x"]
    assert result.operators_after == {"Mul": 1}
    assert result.comparable is not None


def test_an_if_that_a_scalar_input_decides_hints_at_binding_it(tmp_path: Path) -> None:
    built = from_text(
        """
        g (float[4] x, int64 rate) => (float[k] y) {
          high = Greater (rate, limit)
          y = If (high) < then_branch = t () => (float[4] a) { a = Relu (x) },
                          else_branch = e () => (float[2] b) { b = Slice (x, zero, two) }>
        }
        """,
        {"limit": 9, "zero": [0], "two": [2]},  # type: ignore[dict-item]
    )
    with pytest.raises(InputError) as caught:
        normalized(built, tmp_path)
    assert "--bind rate=" in caught.value.hint
    assert normalized(built, tmp_path, {"rate": 16}).operators_after == {"Relu": 1}


def test_an_input_without_a_rank(tmp_path: Path) -> None:
    built = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }")
    built.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputError, match="'x' has no rank"):
        normalized(built, tmp_path)
