"""Each operator kind alone on each device: where it is placed, and what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.pipeline import Compiled
from stages.compiler.support import VIEWS
from stages.hardware.spec import OperatorSupport
from stages.recipe.decisions import Engine
from stages.recipe.kinds import Kind
from stages.tensors import Array
from tests.compiler.judged import case_of_graph, compile_and_judge
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware

_X = "input %x : f32[1,8,6,10]"
_SAME = "f32[1,8,6,10]"
_POOL = "pads=[1,1,0,0], strides=[2,1]"
_REDUCTIONS = [kind for kind in Kind if kind.startswith("reduce_")]
_BINARY = ("add", "sub", "mul", "minimum", "maximum", "prelu")
_COMPARISONS = ("equal", "less", "less_or_equal", "greater", "greater_or_equal")
_UNARY = (
    *("neg", "abs", "exp", "erf", "sin", "cos", "relu", "tanh", "sigmoid", "hard_swish"),
    *("silu", "softplus", "softsign", "mish", "floor", "ceil", "round", "sign"),
)
_POSITIVE = ("log", "sqrt", "reciprocal")
_ATTRIBUTES = {
    "leaky_relu": "alpha=0.1",
    "clip": "max=0.5, min=-0.25",
    "hard_sigmoid": "alpha=0.2, beta=0.5",
    "gelu": "approximate=tanh",
    "elu": "alpha=1.5",
    "selu": "alpha=1.67326, gamma=1.0507",
    "softmax": "axis=3",
    "log_softmax": "axis=1",
    "softmax_numerator": "axis=3",
    "max_pool": f"kernel=[3,2], {_POOL}, dilations=[1,1]",
    "average_pool": f"kernel=[3,2], {_POOL}, count_include_pad=0",
    "slice": "starts=[0,1,0,2], stops=[1,7,6,10], steps=[1,2,1,1]",
    "pad": "mode=constant, pads=[0,0,1,0,0,0,2,1], value=0.5",
    "resize": "mode=linear, coordinates=half_pixel, nearest=floor, scales=[1.0,1.0,2.0,1.5]",
    "transpose": "permutation=[0,2,3,1]",
    "reshape": "shape=[8,60]",
    "expand": "shape=[2,8,6,10]",
}
_SHAPES = {
    "max_pool": "f32[1,8,3,10]",
    "average_pool": "f32[1,8,3,10]",
    "slice": "f32[1,3,6,8]",
    "pad": "f32[1,8,9,11]",
    "resize": "f32[1,8,12,15]",
    "transpose": "f32[1,6,10,8]",
    "reshape": "f32[8,60]",
    "expand": "f32[2,8,6,10]",
}
_CONTRACTIONS = {
    "conv": f"""
        {_X}
        const %w : f32[12,4,3,3]
        const %b : f32[12]
        %y : f32[1,12,6,5] = conv(%x, %w, %b) {{dilations=[1,1], group=2, pads=[1,1,1,1], \
strides=[1,2]}}
        """,
    "conv_transpose": f"""
        {_X}
        const %w : f32[8,12,3,2]
        %y : f32[1,12,13,20] = conv_transpose(%x, %w) {{dilations=[1,1], group=1, \
output_padding=[0,0], pads=[0,0,0,0], strides=[2,2]}}
        """,
    "matmul": f"""
        {_X}
        const %w : f32[10,20]
        const %b : f32[20]
        %y : f32[1,8,6,20] = matmul(%x, %w, %b)
        """,
}
_OTHERS = {
    "where": f"""
        {_X}
        input %w : {_SAME}
        const %k : f32[10]
        %m : bool[1,8,6,10] = less(%x, %k)
        %y : {_SAME} = where(%m, %x, %w)
        """,
    "not": "input %x : bool[3,7]\n%y : bool[3,7] = not(%x)",
    "and": "input %x : bool[3,7]\ninput %w : bool[7]\n%y : bool[3,7] = and(%x, %w)",
    "or": "input %x : bool[3,7]\ninput %w : bool[7]\n%y : bool[3,7] = or(%x, %w)",
    "xor": "input %x : bool[3,7]\ninput %w : bool[7]\n%y : bool[3,7] = xor(%x, %w)",
    "is_nan": "input %x : f32[3,7]\n%y : bool[3,7] = is_nan(%x)",
    "div": "input %x : f32[3,7]\nconst %k : f32[7]\n%y : f32[3,7] = div(%x, %k)",
    "mod": "input %x : f32[3,7]\nconst %k : f32[7]\n%y : f32[3,7] = mod(%x, %k) {fmod=1}",
    "layer_norm": f"""
        {_X}
        const %s : f32[10]
        const %b : f32[10]
        %y : {_SAME} = layer_norm(%x, %s, %b) {{axis=3, epsilon=1e-05}}
        """,
    "instance_norm": f"""
        {_X}
        const %s : f32[8]
        const %b : f32[8]
        %y : {_SAME} = instance_norm(%x, %s, %b) {{epsilon=1e-05}}
        """,
    "gather": """
        input %x : f32[9,5]
        input %i : i64[4]
        %y : f32[4,5] = gather(%x, %i) {axis=0}
        """,
    "concat": f"""
        {_X}
        input %w : f32[1,3,6,10]
        %y : f32[1,11,6,10] = concat(%x, %w) {{axis=1}}
        """,
    "split": f"""
        {_X}
        %y : f32[1,3,6,10], %z : f32[1,5,6,10] = split(%x) {{axis=1, sizes=[3,5]}}
        output %z
        """,
    "quantize": f"""
        {_X}
        const %s : f32[]
        const %z : i8[]
        %y : i8[1,8,6,10] = quantize(%x, %s, %z) {{axis=-1}}
        """,
    "dequantize": """
        input %x : i8[1,8,6,10]
        const %s : f32[]
        %y : f32[1,8,6,10] = dequantize(%x, %s) {axis=-1}
        """,
    "cast": f"{_X}\n%y : i32[1,8,6,10] = cast(%x)",
    "pow": f"{_X}\nconst %k : f32[]\n%y : {_SAME} = pow(%x, %k)",
}


def texts() -> dict[str, str]:
    """A recipe for each kind: input %x (and more), result %y."""
    made = dict(_CONTRACTIONS) | _OTHERS
    for kind in _BINARY:
        made[kind] = f"{_X}\nconst %w : f32[8,1,10]\n%y : {_SAME} = {kind}(%x, %w)"
    for kind in _COMPARISONS:
        made[kind] = f"{_X}\nconst %w : f32[10]\n%y : bool[1,8,6,10] = {kind}(%x, %w)"
    for kind in _UNARY:
        made[kind] = f"{_X}\n%y : {_SAME} = {kind}(%x)"
    for kind in _POSITIVE:
        made[kind] = f"{_X}\n%a : {_SAME} = sigmoid(%x)\n%y : {_SAME} = {kind}(%a)"
    for kind, attributes in _ATTRIBUTES.items():
        made[kind] = f"{_X}\n%y : {_SHAPES.get(kind, _SAME)} = {kind}(%x) {{{attributes}}}"
    for kind in _REDUCTIONS:
        made[kind] = f"{_X}\n%y : f32[1,6,10] = {kind}(%x) {{axes=[1], keepdims=0}}"
    return {kind: f"{text}\noutput %y" for kind, text in made.items()}


TEXTS = texts()
_CHOSEN = {Kind.AND, Kind.OR, Kind.XOR, Kind.NOT, Kind.IS_NAN}
"""What devices without logic do by choosing."""
_DECOMPOSED = {Kind.SPLIT: Kind.SLICE}
_NOT_ALONE = {Kind.HOST_CALL, Kind.RELAYOUT, Kind.IDENTITY, Kind.BATCH_NORM}


def compiled(text: str, name: str) -> Compiled:
    data: dict[str, Array | float] = {"s": 0.05, "k": 2.0, "z": 3.0}
    draft = draft_of(text, data, hardware(name))
    random = np.random.default_rng(3)
    feeds = {value: _feed(draft.graph.types[value], random) for value in draft.graph.inputs}
    case = case_of_graph(draft.graph, draft.constants, feeds)
    return compile_and_judge(case, hardware(name))


def _feed(tensor_type, random: np.random.Generator) -> Array:
    """Multiples of 1/8 in (-2, 2) and small integers: comparing and rounding them is exact."""
    shape, dtype = tensor_type.shape, tensor_type.dtype
    if dtype.is_float:
        return (random.integers(-15, 16, shape) / 8).astype(dtype.numpy)
    return random.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype.numpy)


def _interpolates_beyond(kind: str, listed: OperatorSupport) -> bool:
    """Whether the sweep's resize, a linear one, takes more elements than the device does."""
    return kind == "resize" and listed.limits.get("taps", (1, 2))[1] < 2


def test_every_kind_is_swept() -> None:
    assert {str(kind) for kind in Kind} - set(TEXTS) == {str(kind) for kind in _NOT_ALONE}


@pytest.mark.parametrize("name", ["npu_tiny/8K", "rk3588_npu", "ethos_u65_512", "nvidia_t4"])
@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_a_kind_alone(kind: str, name: str) -> None:
    made = compiled(TEXTS[kind], name)
    spec = hardware(name)
    wanted = _DECOMPOSED.get(Kind(kind), Kind(kind))
    if wanted in _CHOSEN and wanted not in spec.operators and Kind.WHERE in spec.operators:
        wanted = Kind.WHERE
    listed = spec.operators.get(wanted)
    kinds = {op.name: op.kind for op in made.recipe.graph.operators}
    groups = [
        group for group in made.recipe.groups if wanted in [kinds[name] for name in group.operators]
    ]
    assert groups
    is_float_only = spec.float_dtype is None and "bool" not in TEXTS[kind].split("%y")[0]
    for group in groups:
        if wanted in VIEWS:
            assert group.engine is Engine.NONE
        elif listed is None or is_float_only or _interpolates_beyond(kind, listed):
            assert group.engine is Engine.HOST
            assert group.reason
        elif wanted in (Kind.SLICE, Kind.CONCAT):
            assert group.engine in (Engine.NONE, Engine(listed.engine)), group.reason
        else:
            assert group.engine is Engine(listed.engine), group.reason
