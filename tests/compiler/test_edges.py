"""Odd but legal graphs: empty and scalar tensors, high ranks, unused inputs, wide types."""

from __future__ import annotations

import numpy as np
import pytest

from stages.compiler.pipeline import Compiled
from stages.tensors import Array, TensorType
from tests.compiler.judged import case_of_graph, compile_and_judge
from tests.compiler.passing import draft_of
from tests.compiler.specs import hardware

CONV = "{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}"
HIGH = "f32[2,3,2,3,2,3,2]"
TEXTS = {
    "an empty tensor": "input %x : f32[0,4]\n%y : f32[0,4] = relu(%x)",
    "an empty part": """
        input %x : f32[0,4]
        input %z : f32[3,4]
        %y : f32[3,4] = concat(%x, %z) {axis=0}
        """,
    "a sum of nothing": """
        input %x : f32[0,4]
        %y : f32[4] = reduce_sum(%x) {axes=[0], keepdims=0}
        """,
    "a product of nothing": """
        input %x : f32[3,0]
        const %w : f32[0,4]
        %y : f32[3,4] = matmul(%x, %w)
        """,
    "a scalar": "input %x : f32[]\n%y : f32[] = exp(%x)",
    "a scalar and more": """
        input %x : f32[]
        input %z : f32[3,4]
        %y : f32[3,4] = add(%x, %z)
        """,
    "six axes": """
        input %x : f32[2,3,2,3,2,3]
        %a : f32[3,2,3,2,3,2] = transpose(%x) {permutation=[5,4,3,2,1,0]}
        %y : f32[3,2,3,2,3,2] = relu(%a)
        """,
    "a slice of seven axes": f"""
        input %x : {HIGH}
        %y : f32[1,2,1,2,1,2,1] = slice(%x) {{starts=[1,1,1,1,1,1,1], steps=[1,1,1,1,1,1,1], \
stops=[2,3,2,3,2,3,2]}}
        """,
    "three spatial axes": """
        input %x : f32[1,2,5,5,5]
        const %w : f32[3,2,3,3,3]
        %y : f32[1,3,3,3,3] = conv(%x, %w) {dilations=[1,1,1], group=1, pads=[0,0,0,0,0,0], \
strides=[1,1,1]}
        """,
    "an output that is a constant": "const %c : f32[4]\n%y : f32[4] = identity(%c)",
    "a constant result": "input %x : f32[3]\nconst %c : f32[4]\n%y : f32[4] = relu(%c)",
    "an output that is an input": "input %x : f32[3]\n%y : f32[3] = relu(%x)\noutput %x",
    "two names of one value": """
        input %x : f32[3]
        %a : f32[3] = relu(%x)
        %y : f32[3] = identity(%a)
        output %a
        """,
    "an input that nobody reads": "input %x : f32[3]\ninput %u : f32[7]\n%y : f32[3] = relu(%x)",
    "a long row": """
        input %x : f32[70000]
        const %k : f32[70000]
        %y : f32[70000] = add(%x, %k)
        """,
    "indices of a computed table": """
        input %i : i64[5]
        input %t : f32[400,16]
        %a : f32[400,16] = relu(%t)
        %y : f32[5,16] = gather(%a, %i) {axis=0}
        """,
    "one index": """
        input %i : i64[]
        const %t : f32[40,16]
        %y : f32[16] = gather(%t, %i) {axis=0}
        """,
    "float64": "input %x : f64[3,4]\nconst %w : f64[4,5]\n%y : f64[3,5] = matmul(%x, %w)",
    "bfloat16": "input %x : bf16[3,4]\nconst %w : bf16[4,5]\n%y : bf16[3,5] = matmul(%x, %w)",
    "int32 products": "input %x : i32[3,4]\nconst %w : i32[4,5]\n%y : i32[3,5] = matmul(%x, %w)",
    "casts in a row": """
        input %x : f32[3,4]
        %a : i8[3,4] = cast(%x)
        %b : i32[3,4] = cast(%a)
        %y : f32[3,4] = cast(%b)
        """,
    "a pool over everything": """
        input %x : f32[1,1,300,300]
        %y : f32[1,1,1,1] = average_pool(%x) {count_include_pad=0, kernel=[300,300], \
pads=[0,0,0,0], strides=[1,1]}
        """,
    "a wide softmax": "input %x : f32[1,30000]\n%y : f32[1,30000] = softmax(%x) {axis=1}",
    "channels resized": f"""
        input %x : f32[1,16,4,4]
        const %w : f32[16,16,1,1]
        %c : f32[1,16,4,4] = conv(%x, %w) {CONV}
        %y : f32[1,24,4,4] = resize(%c) {{coordinates=asymmetric, mode=nearest, nearest=floor, \
scales=[1.0,1.5,1.0,1.0]}}
        """,
    "a choice behind a convolution": f"""
        input %x : f32[1,16,4,4]
        const %w : f32[16,16,1,1]
        const %k : f32[16,1,1]
        %c : f32[1,16,4,4] = conv(%x, %w) {CONV}
        %m : bool[1,16,4,4] = less(%x, %k)
        %y : f32[1,16,4,4] = where(%m, %c, %x)
        """,
}


def feed(tensor_type: TensorType, random: np.random.Generator) -> Array:
    if tensor_type.dtype.is_float:
        eighths = random.integers(-15, 16, tensor_type.shape) / 8
        return np.asarray(eighths).astype(tensor_type.dtype.numpy)
    return np.asarray(random.integers(0, 5, tensor_type.shape)).astype(tensor_type.dtype.numpy)


def compiled(text: str, name: str) -> Compiled:
    draft = draft_of(f"{text}\noutput %y", {"k": 0.5}, hardware(name))
    random = np.random.default_rng(3)
    graph = draft.graph
    feeds = {value: feed(graph.types[value], random) for value in graph.inputs}
    return compile_and_judge(case_of_graph(graph, draft.constants, feeds), hardware(name))


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "ethos_u65_512", "nvidia_t4"])
@pytest.mark.parametrize("what", sorted(TEXTS))
def test_an_odd_graph_compiles_and_computes(what: str, name: str) -> None:
    compiled(TEXTS[what], name)


def test_products_in_a_type_that_the_core_lacks_are_the_host_s() -> None:
    made = compiled(TEXTS["int32 products"], "npu_tiny")
    (group,) = made.recipe.fallbacks
    assert group.reason == ("matmul on i32: the tensor core of npu_tiny multiplies f16, i8, u8")
