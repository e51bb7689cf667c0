"""FoldStrides: convolutions beyond a device's stride or kernel."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.compiler.passes.fold_strides import FoldStrides
from tests.compiler.passing import Ran, run_pass, tidy
from tests.compiler.specs import hardware


def listed(values: Iterable[int]) -> str:
    return f"[{','.join(map(str, values))}]"


def text_of(extents, kernel, strides, pads, channels=2, out=3, batch=1) -> str:
    rank = len(extents)
    results = [
        (extent + pads[axis] + pads[axis + rank] - kernel[axis]) // strides[axis] + 1
        for axis, extent in enumerate(extents)
    ]

    def shape(*values: int) -> str:
        return f"f32{listed(values)}"

    attributes = (
        f"{{dilations={listed([1] * rank)}, group=1, pads={listed(pads)},"
        f" strides={listed(strides)}}}"
    )
    return f"""
        input %x : {shape(batch, channels, *extents)}
        const %w : {shape(out, channels, *kernel)}
        const %b : f32[{out}]
        %y : {shape(batch, out, *results)} = conv(%x, %w, %b) {attributes}
        output %y
        """


def folded(text: str, name: str = "npu_tiny") -> Ran:
    return run_pass(FoldStrides(), text, spec=hardware(name))


def test_patches_become_a_pointwise_convolution() -> None:
    ran = folded(text_of((32, 48), (16, 16), (16, 16), (0,) * 4, channels=3))
    assert ran.graph_text == tidy(
        """
        input %x : f32[1,3,32,48]
        const %b : f32[3]
        const %w.folded : f32[3,768,1,1]
        %y.reshape : f32[96,3,16] = reshape(%x) {shape=[96,3,16]} # y.reshape.of
        %y.transpose : f32[96,16,3] = transpose(%y.reshape) {permutation=[0,2,1]} # y.transpose.of
        %y.reshape.1 : f32[3,2,256,3] = reshape(%y.transpose) {shape=[3,2,256,3]} # y.reshape.1.of
        %y.transpose.1 : f32[3,256,2,3] = transpose(%y.reshape.1) {permutation=[0,2,1,3]} \
# y.transpose.1.of
        %x.folded : f32[1,768,2,3] = reshape(%y.transpose.1) {shape=[1,768,2,3]} # x.folded.of
        %y : f32[1,3,2,3] = conv(%x.folded, %w.folded, %b) \
{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}
        output %y
        """
    )


def test_a_fourier_transform_becomes_two_taps() -> None:
    ran = folded(text_of((640,), (256,), (128,), (0, 0), channels=1, out=4))
    assert ran.after.graph.types["w.folded"].shape == (4, 128, 2)


def test_what_the_device_takes_stays() -> None:
    text = text_of((32, 32), (7, 7), (2, 2), (3, 3, 3, 3))
    assert folded(text).kinds == ["conv"]
    assert folded(text_of((32, 32), (16, 16), (16, 16), (0,) * 4), "nvidia_t4").kinds == ["conv"]


def test_a_kernel_without_a_stride_stays() -> None:
    assert folded(text_of((64,), (40,), (1,), (0, 0))).kinds == ["conv"]


def test_a_device_of_integers_folds_too() -> None:
    assert "transpose" in folded(text_of((16, 16), (4, 4), (4, 4), (0,) * 4), "ethos_u65_512").kinds


@st.composite
def convolutions(draw):
    rank = draw(st.integers(1, 2))
    strides = tuple(draw(st.integers(9, 12)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 20)) for _ in range(rank))
    pads = tuple(draw(st.integers(0, 2)) for _ in range(2 * rank))
    extents = tuple(draw(st.integers(extent, extent + 15)) for extent in kernel)
    batch, channels = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    return text_of(extents, kernel, strides, pads, channels, batch=batch)


@settings(max_examples=25)
@given(convolutions())
def test_random_convolutions(text: str) -> None:
    ran = folded(text)
    assert ran.after.constants.keys() >= {"w.folded"}
    (conv,) = (op for op in ran.after.graph.operators if op.kind == "conv")
    assert set(conv.integers("strides")) == {1}


@pytest.mark.parametrize("group", ["group=1", "group=3"])
def test_dilated_and_grouped_convolutions_stay(group: str) -> None:
    dilated = "2" if group == "group=1" else "1"
    inner = "3" if group == "group=1" else "1"
    text = f"""
        input %x : f32[1,3,40]
        const %w : f32[3,{inner},3]
        %y : f32[1,3,4] = conv(%x, %w) \
{{dilations=[{dilated}], {group}, pads=[0,0], strides=[10]}}
        output %y
        """
    assert folded(text).kinds == ["conv"]
