"""Whole graphs: values are rounded to their declared types, host calls are injected."""

from collections.abc import Sequence

import numpy as np
import pytest

from stages.errors import InputError
from stages.recipe.graph import Operator
from stages.recipe.semantics import interpret
from stages.recipe.text import parse_recipe
from stages.tensors import Array
from tests.recipe.reference import numbers

TEXT = """\
recipe net for none 0
input %x : f16[2,3]
const %w : f16[3,2]
%m : f16[2,2] = matmul(%x, %w)
%h : f32[2,2] = host_call(%m, _) {names=["m",""], node=b64"", opsets=["ai.onnx:17"], results=["h"]}
%y : f16[2,2] = add(%h, %m)
output %y
output %x
"""


def double(operator: Operator, operands: Sequence[Array | None]) -> list[Array]:
    assert operator.name == "h"
    assert operands[1] is None
    assert operands[0] is not None
    return [np.asarray(operands[0].astype(np.float32) * 2)]


def test_every_value_is_rounded_to_its_type() -> None:
    graph = parse_recipe(TEXT).graph
    x, w = numbers((2, 3)).astype(np.float16), numbers((3, 2), 1).astype(np.float16)
    found = interpret(graph, {"w": w}, {"x": x}, host_call=double, keep=["m"])
    assert list(found) == ["y", "x", "m"]
    product = (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(found["m"], product)
    assert found["y"].dtype == np.float16
    np.testing.assert_array_equal(
        found["y"], (product.astype(np.float32) * 2 + product).astype(np.float16)
    )
    np.testing.assert_array_equal(found["x"], x)


def test_wrong_inputs_are_refused() -> None:
    graph = parse_recipe(TEXT).graph
    w = numbers((3, 2)).astype(np.float16)
    with pytest.raises(InputError, match="input 'x' is missing"):
        interpret(graph, {"w": w}, {})
    with pytest.raises(InputError, match=r"input 'x' is float32\[2, 3\], declared as f16\[2,3\]"):
        interpret(graph, {"w": w}, {"x": numbers((2, 3))})
    with pytest.raises(InputError, match="no host is given"):
        interpret(graph, {"w": w}, {"x": w.T.copy()})
