"""ONNX Runtime's contrib operators."""

import pytest

from tests.recipe.onnx_models import check, host_types, kinds, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = com.microsoft.Gelu(x)", ["gelu"]),
        ("y = com.microsoft.BiasGelu(x, b)", ["add", "gelu"]),
        ("y = com.microsoft.FastGelu(x)", ["gelu"]),
        ("y = com.microsoft.FastGelu(x, b)", ["add", "gelu"]),
        ("y = com.microsoft.QuickGelu(x)", ["mul", "sigmoid", "mul"]),
        ("y = com.microsoft.QuickGelu<alpha=1.0>(x)", ["silu"]),
        (
            "y = com.microsoft.SkipLayerNormalization<epsilon=0.001>(x, x, b, b)",
            ["add", "layer_norm"],
        ),
        (
            "y = com.microsoft.SkipLayerNormalization<epsilon=0.001>(x, x, b, b, b)",
            ["add", "add", "layer_norm"],
        ),
    ],
)
def test_of_one_shape(text, expected):
    model = parse(
        f"g (float[2,3,4] x, float[4] b) => (float[2,3,4] y) {{ {text} }}", microsoft=True
    )
    graph = check(model, tolerance=1e-4)
    assert kinds(graph) == expected


def test_skip_layer_norm_whose_sum_is_read():
    model = parse(
        "g (float[2,3,4] x, float[2,3,4] k, float[4] b) => (float[2,3,4] y, float[2,3,4] s) "
        "{ y, , , s = com.microsoft.SkipLayerNormalization<epsilon=0.001>(x, k, b, b) }",
        microsoft=True,
    )
    assert kinds(check(model)) == ["add", "layer_norm"]


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_fused_matmul(trans_a, trans_b):
    a = "[2,4,3]" if trans_a else "[2,3,4]"
    b = "[2,5,4]" if trans_b else "[2,4,5]"
    model = parse(
        f"g (float{a} a, float{b} b) => (float[2,3,5] y) {{ y = com.microsoft.FusedMatMul"
        f"<transA={trans_a}, transB={trans_b}, alpha=0.5>(a, b) }}",
        microsoft=True,
    )
    assert not host_types(check(model))


@pytest.mark.parametrize(
    "activation",
    ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"],
)
def test_fused_conv(activation):
    parameters = {"LeakyRelu": "0.1", "Clip": "-0.5, 0.5", "HardSigmoid": "0.2, 0.5"}
    given = parameters.get(activation, "")
    given = f", activation_params=[{given}]" if given else ""
    model = parse(
        "g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] b) => (float[1,3,3,3] y) "
        f'{{ y = com.microsoft.FusedConv<activation="{activation}"{given}>(x, w, b) }}',
        microsoft=True,
    )
    graph = check(model)
    assert kinds(graph)[0] == "conv"
    assert len(graph.operators) == 2


def test_types_after_contrib_operators_are_found():
    model = parse(
        "g (float[2,4] x, float[4] b) => (float[4,2] y) "
        "{ g = com.microsoft.BiasGelu(x, b) r = Relu(g) y = Transpose(r) }",
        microsoft=True,
    )
    assert kinds(check(model)) == ["add", "gelu", "relu", "transpose"]


def test_an_unlisted_contrib_operator_runs_on_the_host():
    model = parse(
        "g (float[2,3,3] x) => (float[2,3,3] y) { y = com.microsoft.Inverse(x) }", microsoft=True
    )
    graph = check(model, tolerance=1e-3)
    assert host_types(graph) == ["Inverse"]
    assert graph.operators[0].attributes["opsets"] == ("ai.onnx:17", "com.microsoft:1")
