"""Recognize: each spelling of an activation becomes one operator, and near misses don't."""

from __future__ import annotations

import math

import pytest

from stages.compiler.passes.recognize import Recognize
from tests.compiler.passing import Data, run_pass, tidy

ROOT2 = {"%r2": 1.4142135, "%h": 0.5, "%1": 1.0, "%i2": 0.70710678, "%2": 2.0}
ERF_GATES = ("div(%x, %r2)", "mul(%x, %i2)", "mul(%i2, %x)")
PRODUCTS = (
    ("mul(%x, %gate)", "mul(%p, %h)"),
    ("mul(%gate, %x)", "mul(%h, %p)"),
    ("mul(%x, %h)", "mul(%p, %gate)"),
    ("mul(%h, %x)", "mul(%gate, %p)"),
    ("mul(%gate, %h)", "mul(%x, %p)"),
    ("mul(%x, %gate)", "div(%p, %2)"),
)


def numbers(names: Data) -> str:
    return "\n".join(f"const {name} : f32[]" for name in names)


def check_becomes(body: str, kind: str, data: dict[str, float], tolerance: float = 1e-5) -> None:
    """A body that makes %y of %x : f32[2,8] becomes the one operator `kind`."""
    used = {
        name: number for name, number in data.items() if f"{name}," in body or f"{name})" in body
    }
    text = f"input %x : f32[2,8]\n{numbers(used)}\n{body}\noutput %y"
    given = {name[1:]: number for name, number in used.items()}
    ran = run_pass(Recognize(), text, given, tolerance=tolerance)
    assert ran.graph_text == tidy(f"input %x : f32[2,8]\n%y : f32[2,8] = {kind}\noutput %y")


def check_stays(text: str, data: Data | None = None) -> None:
    """A text in which nothing is recognised."""
    ran = run_pass(Recognize(), text, data)
    before, after = ran.before.graph.operators, ran.after.graph.operators
    assert sorted(op.kind for op in after) == sorted(op.kind for op in before)


@pytest.mark.parametrize("scaled", ERF_GATES)
@pytest.mark.parametrize("order", ["add(%e, %1)", "add(%1, %e)"])
@pytest.mark.parametrize(("inner", "outer"), PRODUCTS)
def test_gelu_by_erf(scaled: str, order: str, inner: str, outer: str) -> None:
    body = f"""
        %s : f32[2,8] = {scaled}
        %e : f32[2,8] = erf(%s)
        %gate : f32[2,8] = {order}
        %p : f32[2,8] = {inner}
        %y : f32[2,8] = {outer}
        """
    check_becomes(body, "gelu(%x) {approximate=none}", ROOT2)


@pytest.mark.parametrize("cube", ["pow(%x, %3)", "mul(%sq, %x)", "mul(%x, %sq)"])
@pytest.mark.parametrize(("inner", "outer"), PRODUCTS)
def test_gelu_by_tanh(cube: str, inner: str, outer: str) -> None:
    square = "%sq : f32[2,8] = mul(%x, %x)" if "sq" in cube else ""
    body = f"""
        {square}
        %c : f32[2,8] = {cube}
        %k : f32[2,8] = mul(%c, %small)
        %a : f32[2,8] = add(%x, %k)
        %m : f32[2,8] = mul(%a, %root)
        %t : f32[2,8] = tanh(%m)
        %gate : f32[2,8] = add(%t, %1)
        %p : f32[2,8] = {inner}
        %y : f32[2,8] = {outer}
        """
    data = {"%3": 3.0, "%small": 0.044715, "%root": math.sqrt(2 / math.pi)} | ROOT2
    check_becomes(body, "gelu(%x) {approximate=tanh}", data)


@pytest.mark.parametrize("product", ["mul(%x, %s)", "mul(%s, %x)"])
def test_silu(product: str) -> None:
    check_becomes(f"%s : f32[2,8] = sigmoid(%x)\n%y : f32[2,8] = {product}", "silu(%x)", {})


@pytest.mark.parametrize("alpha", [0.16666667, 0.1666])
def test_hard_swish_by_its_gate(alpha: float) -> None:
    body = f"""
        %g : f32[2,8] = hard_sigmoid(%x) {{alpha={alpha}, beta=0.5}}
        %y : f32[2,8] = mul(%x, %g)
        """
    check_becomes(body, "hard_swish(%x)", {}, tolerance=1e-3)


@pytest.mark.parametrize(
    "rest",
    [
        "%d : f32[2,8] = div(%c, %6)\n%y : f32[2,8] = mul(%x, %d)",
        "%d : f32[2,8] = mul(%c, %sixth)\n%y : f32[2,8] = mul(%d, %x)",
        "%d : f32[2,8] = mul(%x, %c)\n%y : f32[2,8] = div(%d, %6)",
        "%d : f32[2,8] = mul(%c, %x)\n%y : f32[2,8] = mul(%d, %sixth)",
    ],
)
def test_hard_swish_spelled_out(rest: str) -> None:
    body = f"""
        %a : f32[2,8] = add(%x, %3)
        %c : f32[2,8] = clip(%a) {{max=6.0, min=0.0}}
        {rest}
        """
    check_becomes(body, "hard_swish(%x)", {"%3": 3.0, "%6": 6.0, "%sixth": 1 / 6})


@pytest.mark.parametrize("last", ["div(%c, %6)", "mul(%c, %sixth)"])
def test_hard_sigmoid_spelled_out(last: str) -> None:
    body = f"""
        %a : f32[2,8] = add(%3, %x)
        %c : f32[2,8] = clip(%a) {{max=6.0, min=0.0}}
        %y : f32[2,8] = {last}
        """
    kind = f"hard_sigmoid(%x) {{alpha={1 / 6}, beta=0.5}}"
    check_becomes(body, kind, {"%3": 3.0, "%6": 6.0, "%sixth": 1 / 6})


def softmax(axes: str = "[1]", keep: int = 1, sum_axes: str = "[1]", row: str = "[2,1]") -> str:
    return f"""
        input %x : f32[2,8]
        %m : f32{row} = reduce_max(%x) {{axes={axes}, keepdims={keep}}}
        %d : f32[2,8] = sub(%x, %m)
        %e : f32[2,8] = exp(%d)
        %s : f32{row} = reduce_sum(%e) {{axes={sum_axes}, keepdims={keep}}}
        %y : f32[2,8] = div(%e, %s)
        output %y
        """


@pytest.mark.parametrize(("axes", "row", "axis"), [("[1]", "[2,1]", 1), ("[0]", "[1,8]", 0)])
def test_softmax(axes: str, row: str, axis: int) -> None:
    ran = run_pass(Recognize(), softmax(axes, 1, axes, row))
    assert ran.graph_text == tidy(
        f"input %x : f32[2,8]\n%y : f32[2,8] = softmax(%x) {{axis={axis}}}\noutput %y"
    )


def layer_norm(square: str, divide: str, last: str = "") -> str:
    reciprocal = "%i : f32[2,4,1] = reciprocal(%s)" if "%i" in divide else ""
    return f"""
        input %x : f32[2,4,6]
        const %two : f32[]
        const %epsilon : f32[]
        const %scale : f32[6]
        const %bias : f32[6]
        %m : f32[2,4,1] = reduce_mean(%x) {{axes=[2], keepdims=1}}
        %c : f32[2,4,6] = sub(%x, %m)
        %q : f32[2,4,6] = {square}
        %v : f32[2,4,1] = reduce_mean(%q) {{axes=[2], keepdims=1}}
        %a : f32[2,4,1] = add(%v, %epsilon)
        %s : f32[2,4,1] = sqrt(%a)
        {reciprocal}
        %n : f32[2,4,6] = {divide}
        %g : f32[2,4,6] = mul(%n, %scale)
        %y : f32[2,4,6] = {last or "add(%g, %bias)"}
        output %y
        """


@pytest.mark.parametrize("square", ["pow(%c, %two)", "mul(%c, %c)"])
@pytest.mark.parametrize("divide", ["div(%c, %s)", "mul(%c, %i)", "mul(%i, %c)"])
@pytest.mark.parametrize("last", ["add(%g, %bias)", "add(%bias, %g)"])
def test_layer_norm(square: str, divide: str, last: str) -> None:
    ran = run_pass(Recognize(), layer_norm(square, divide, last), {"two": 2, "epsilon": 0.125})
    assert ran.graph_text == tidy(
        """
        input %x : f32[2,4,6]
        const %y.scale : f32[6]
        const %y.bias : f32[6]
        %y : f32[2,4,6] = layer_norm(%x, %y.scale, %y.bias) {axis=2, epsilon=0.125}
        output %y
        """
    )


@pytest.mark.parametrize(
    ("name", "number"),
    [("%r2", 1.41), ("%1", 1.01), ("%h", 0.501)],
)
def test_other_constants_are_no_gelu(name: str, number: float) -> None:
    check_stays(
        f"""
        input %x : f32[2,8]
        {numbers(["%r2", "%1", "%h"])}
        %s : f32[2,8] = div(%x, %r2)
        %e : f32[2,8] = erf(%s)
        %gate : f32[2,8] = add(%e, %1)
        %p : f32[2,8] = mul(%x, %gate)
        %y : f32[2,8] = mul(%p, %h)
        output %y
        """,
        {key[1:]: value for key, value in (ROOT2 | {name: number}).items()},
    )


def test_a_value_read_elsewhere_or_returned_keeps_its_operators() -> None:
    body = """
        input %x : f32[2,8]
        %s : f32[2,8] = sigmoid(%x)
        %y : f32[2,8] = mul(%x, %s)
        output %y
        """
    check_stays(body + "output %s")
    check_stays(body + "%z : f32[2,8] = neg(%s)\noutput %z")


def test_another_operand_is_no_silu() -> None:
    check_stays(
        """
        input %x : f32[2,8]
        input %w : f32[2,8]
        %s : f32[2,8] = sigmoid(%w)
        %y : f32[2,8] = mul(%x, %s)
        output %y
        """
    )


@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (-1.0, 6.0)])
def test_other_limits_are_no_hard_swish(low: float, high: float) -> None:
    check_stays(
        f"""
        input %x : f32[2,8]
        const %three : f32[]
        const %six : f32[]
        %a : f32[2,8] = add(%x, %three)
        %c : f32[2,8] = clip(%a) {{max={high}, min={low}}}
        %d : f32[2,8] = div(%c, %six)
        %y : f32[2,8] = mul(%x, %d)
        output %y
        """,
        {"three": 3, "six": 6},
    )


@pytest.mark.parametrize("slope", ["alpha=0.2, beta=0.5", "alpha=0.16666667, beta=0.4"])
def test_another_slope_is_no_hard_swish(slope: str) -> None:
    check_stays(
        f"""
        input %x : f32[2,8]
        %g : f32[2,8] = hard_sigmoid(%x) {{{slope}}}
        %y : f32[2,8] = mul(%x, %g)
        output %y
        """
    )


def test_a_maximum_over_another_axis_is_no_softmax() -> None:
    check_stays(
        """
        input %x : f32[8,8]
        %m : f32[8,1] = reduce_max(%x) {axes=[1], keepdims=1}
        %d : f32[8,8] = sub(%x, %m)
        %e : f32[8,8] = exp(%d)
        %s : f32[1,8] = reduce_sum(%e) {axes=[0], keepdims=1}
        %y : f32[8,8] = div(%e, %s)
        output %y
        """
    )


def test_axes_that_are_dropped_are_no_softmax() -> None:
    check_stays(
        """
        input %x : f32[8,8]
        %m : f32[8] = reduce_max(%x) {axes=[1], keepdims=0}
        %d : f32[8,8] = sub(%x, %m)
        %e : f32[8,8] = exp(%d)
        %s : f32[8] = reduce_sum(%e) {axes=[1], keepdims=0}
        %y : f32[8,8] = div(%e, %s)
        output %y
        """
    )


def square_norm(axes: str = "[1]", keep: int = 1, row: str = "[6,1]", scale: str = "[6]") -> str:
    return f"""
        input %x : f32[6,6]
        const %epsilon : f32[]
        const %scale : f32{scale}
        const %bias : f32[6]
        %m : f32{row} = reduce_mean(%x) {{axes={axes}, keepdims={keep}}}
        %c : f32[6,6] = sub(%x, %m)
        %q : f32[6,6] = mul(%c, %c)
        %v : f32{row} = reduce_mean(%q) {{axes={axes}, keepdims={keep}}}
        %a : f32{row} = add(%v, %epsilon)
        %s : f32{row} = sqrt(%a)
        %n : f32[6,6] = div(%c, %s)
        %g : f32[6,6] = mul(%n, %scale)
        %y : f32[6,6] = add(%g, %bias)
        output %y
        """


@pytest.mark.parametrize(
    "text",
    [
        square_norm(axes="[0]", row="[1,6]"),
        square_norm(keep=0, row="[6]"),
        square_norm(scale="[6,1]"),
        square_norm(scale="[6,6]"),
    ],
    ids=["over the first axis", "axes dropped", "a scale for each row", "a scale for each element"],
)
def test_what_only_looks_like_layer_norm_stays(text: str) -> None:
    check_stays(text, {"epsilon": 0.125})
