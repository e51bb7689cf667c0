"""`--bind` in every spelling."""

from __future__ import annotations

import pytest

from flows.arguments import parse_bindings, spread_bindings
from stages.errors import InputError


@pytest.mark.parametrize(
    ("given", "spread"),
    [
        ("--bind N=1 H=48 W=192", "--bind N=1 --bind H=48 --bind W=192"),
        ("--bind N=1 --bind H=48", "--bind N=1 --bind H=48"),
        ("--bind=N=1 H=48 m.onnx", "--bind N=1 --bind H=48 m.onnx"),
        ("--bind N=1 H=48 --hardware a", "--bind N=1 --bind H=48 --hardware a"),
        ("m.onnx --bind N=1 other.onnx", "m.onnx --bind N=1 other.onnx"),
        ("--bind N=1 a=b.onnx", "--bind N=1 a=b.onnx"),
        ("--bind N=1 -- H=48", "--bind N=1 -- H=48"),
        ("--bind N=x H=2", "--bind N=x --bind H=2"),
        ("--bind", "--bind"),
        ("--bind --hardware a", "--bind --hardware a"),
        ("--hardware a N=1", "--hardware a N=1"),
    ],
)
def test_values_after_one_flag_are_as_good_as_one_flag_each(given: str, spread: str) -> None:
    assert spread_bindings(given.split()) == spread.split()


def test_bindings_are_parsed_by_axis() -> None:
    words = ["N=1", "x.2=48", "p2o.DynamicDimension.0=7", "N=1"]
    assert parse_bindings(words) == {"N": 1, "x.2": 48, "p2o.DynamicDimension.0": 7}
    assert parse_bindings(None) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["N"], "AXIS=EXTENT, not 'N'"),
        (["N=one"], "not 'N=one'"),
        (["=3"], "not '=3'"),
        (["N=1.5"], "not 'N=1.5'"),
        (["N=-1"], "the extent -1"),
        (["N=1", "N=2"], "bound to 1 and to 2"),
    ],
)
def test_a_wrong_binding_is_refused_with_its_value(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")) as refused:
        parse_bindings(words)
    assert refused.value.hint
