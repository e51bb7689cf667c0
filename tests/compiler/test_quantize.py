"""The quantising passes, SinkDequantize and PrivatizeDequantize: where int8 begins and ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from stages.compiler.draft import Draft
from stages.compiler.passes.fuse import PrivatizeDequantize
from stages.compiler.passes.quantize import QuantizeActivations, QuantizeWeights
from stages.compiler.passes.sink_dequantize import SinkDequantize
from stages.compiler.quantization import Quantization, Range, WeightScales
from stages.hardware.spec import HardwareSpec
from stages.recipe.kinds import Kind
from tests.compiler.passing import run_pass, tidy
from tests.compiler.specs import hardware

CONV = "{dilations=[1,1], group=1, pads=[0,0,0,0], strides=[1,1]}"
PLAIN = f"""
    input %x : f32[1,3,6,6]
    const %w : f32[4,3,3,3]
    %a : f32[1,4,4,4] = conv(%x, %w) {CONV} # conv
    %y : f32[1,4,4,4] = relu(%a)
    output %y
    """


@dataclass(frozen=True)
class Quantize:
    """Activations, then weights, as the compiler runs them."""

    quantization: Quantization
    name: str = "quantize"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        draft = QuantizeActivations(self.quantization).run(draft, spec)
        draft = SinkDequantize().run(draft, spec)
        return QuantizeWeights(self.quantization).run(draft, spec)


def quantize(text: str, ranges: dict[str, tuple[float, float]], keep: tuple[str, ...] = ()):
    quantization = Quantization(
        {name: Range(*limits) for name, limits in ranges.items()}, frozenset(keep)
    )
    return run_pass(Quantize(quantization), text, tolerance=0.1)


def test_an_activation_with_a_range_is_quantised_once_and_weights_by_channel() -> None:
    ran = quantize(PLAIN, {"x": (-4.0, 4.0)})
    assert ran.graph_text == tidy(
        f"""
        input %x : f32[1,3,6,6]
        const %x.scale : f32[]
        const %x.zero : i8[]
        const %w.i8 : i8[4,3,3,3]
        const %w.scale : f32[4]
        %x.i8 : i8[1,3,6,6] = quantize(%x, %x.scale, %x.zero) {{axis=-1}} # x.quantize
        %x.float : f32[1,3,6,6] = dequantize(%x.i8, %x.scale, %x.zero) {{axis=-1}} # x.dequantize
        %w.float : f32[4,3,3,3] = dequantize(%w.i8, %w.scale) {{axis=0}} # conv.dequantize_weights
        %a : f32[1,4,4,4] = conv(%x.float, %w.float) {CONV} # conv
        %y : f32[1,4,4,4] = relu(%a)
        output %y
        """
    )
    assert ran.after.constants["x.scale"] == pytest.approx(8 / 255)


@pytest.mark.parametrize(
    ("low", "high", "zero"), [(0.0, 6.0, -128), (-6.0, 0.0, 127), (-1.0, 3.0, -64)]
)
def test_the_zero_point_of_a_range(low: float, high: float, zero: int) -> None:
    draft = Quantize(Quantization({"x": Range(low, high)}, frozenset()))
    ran = run_pass(draft, PLAIN, tolerance=10)
    assert ran.after.constants["x.zero"] == zero


BIASED = PLAIN.replace("const %w", "const %b : f32[4]\n    const %w").replace("%w)", "%w, %b)")


def test_a_bias_becomes_int32_in_steps_of_the_accumulator() -> None:
    ran = quantize(BIASED, {"x": (-4.0, 4.0)})
    assert "%b.float : f32[4] = dequantize(%b.i32, %b.scale) {axis=0}" in ran.graph_text
    after, bias = ran.after.constants, ran.before.constants["b"]
    step = after["x.scale"] * after["w.scale"]
    np.testing.assert_allclose(after["b.scale"], step, rtol=1e-6)
    np.testing.assert_allclose(after["b.i32"] * step, bias, atol=float(step.max()))


@pytest.mark.parametrize("scales", list(WeightScales))
def test_a_channel_of_hardly_any_weights_keeps_its_bias_in_the_accumulator(
    scales: WeightScales,
) -> None:
    weights = np.random.default_rng(3).standard_normal((4, 3, 3, 3)).astype(np.float32)
    weights[1] *= 1e-12
    bias = np.array([0.5, -2.5, 0.0, 1.0], np.float32)
    quantization = Quantization({"x": Range(-4.0, 4.0)}, frozenset(), weights=scales)
    ran = run_pass(Quantize(quantization), BIASED, {"w": weights, "b": bias}, tolerance=0.1)
    after = ran.after.constants
    step = np.asarray(after["x.scale"] * after["w.scale"], np.float64)
    assert np.abs(after["b.i32"].astype(np.int64)).max() <= 2**30 * (1 + 1e-6)
    np.testing.assert_allclose(after["b.i32"] * step, bias, atol=float(step.max()))
    assert not after["w.i8"][1].any()


def test_weights_behind_a_reshape_are_quantised_too() -> None:
    ran = quantize(
        """
        input %x : f32[1,4,2,2]
        const %w : f32[16,3]
        %a : f32[1,16] = reshape(%x) {shape=[1,16]}
        %y : f32[1,3] = matmul(%a, %w)
        output %y
        """,
        {"x": (-4.0, 4.0)},
    )
    assert "reshape(%x.i8)" in ran.graph_text
    assert "%w.i8 : i8[16,3]" in ran.graph_text


def test_an_operator_that_is_kept_reads_floats_alone() -> None:
    ran = quantize(PLAIN, {"x": (-4.0, 4.0)}, keep=("conv",))
    assert "%a : f32[1,4,4,4] = conv(%x, %w)" in ran.graph_text


def test_without_a_range_nothing_changes() -> None:
    assert quantize(PLAIN, {}).graph_text == tidy(PLAIN)


def test_an_output_with_a_range_stays_float() -> None:
    ran = quantize(PLAIN, {"a": (-16.0, 16.0), "y": (0.0, 4.0)})
    assert ran.graph_text.endswith("%y : f32[1,4,4,4] = relu(%a.float)\noutput %y")


def test_weights_of_a_batched_product_are_quantised_by_column() -> None:
    ran = quantize(
        """
        input %x : f32[2,5,6]
        const %w : f32[2,6,4]
        %y : f32[2,5,4] = matmul(%x, %w) # mm
        output %y
        """,
        {"x": (-4.0, 4.0)},
    )
    assert "%w.float : f32[2,6,4] = dequantize(%w.i8, %w.scale) {axis=2}" in ran.graph_text


STORED = """
    input %x : i8[2,6]
    const %s : f32[]
    const %z : i8[]
    %f : f32[2,6] = dequantize(%x, %s, %z) {axis=-1} # d
    """
SAME_SCALE = {"s": 0.25, "z": 3.0}


def test_each_reader_of_a_dequantised_value_gets_its_own() -> None:
    ran = run_pass(
        PrivatizeDequantize(),
        f"{STORED}%y : f32[2,6] = relu(%f)\n%t : f32[2,6] = neg(%f)\noutput %y\noutput %t",
        SAME_SCALE,
    )
    assert ran.graph_text == tidy(
        f"""
        {STORED}
        %y : f32[2,6] = relu(%f)
        %f.1 : f32[2,6] = dequantize(%x, %s, %z) {{axis=-1}} # f.1.1
        %t : f32[2,6] = neg(%f.1)
        output %y
        output %t
        """
    )


def test_a_dequantised_output_keeps_its_own_too() -> None:
    ran = run_pass(
        PrivatizeDequantize(),
        f"{STORED}%y : f32[2,6] = relu(%f)\noutput %y\noutput %f",
        SAME_SCALE,
    )
    assert ran.graph_text == tidy(
        """
        input %x : i8[2,6]
        const %s : f32[]
        const %z : i8[]
        %f.1 : f32[2,6] = dequantize(%x, %s, %z) {axis=-1} # f.1.1
        %y : f32[2,6] = relu(%f.1)
        %f : f32[2,6] = dequantize(%x, %s, %z) {axis=-1} # d
        output %y
        output %f
        """
    )


@pytest.mark.parametrize(
    ("move", "shape"),
    [
        ("reshape(%f) {shape=[3,4]}", "[3,4]"),
        ("transpose(%f) {permutation=[1,0]}", "[6,2]"),
        ("slice(%f) {starts=[0,1], steps=[1,2], stops=[2,6]}", "[2,3]"),
        ("expand(%f) {shape=[4,2,6]}", "[4,2,6]"),
        ("gather(%f, %i) {axis=1}", "[2,3]"),
    ],
)
def test_a_dequantize_sinks_below_what_only_moves(move: str, shape: str) -> None:
    indices = "const %i : i64[3]" if "%i" in move else ""
    ran = run_pass(
        SinkDequantize(),
        f"{indices}\n{STORED}%y : f32{shape} = {move} # m\noutput %y",
        {**SAME_SCALE, "i": 2.0},
    )
    assert ran.graph_text.splitlines()[-3:] == [
        f"%y.stored : i8{shape} = {move.replace('%f', '%x')} # m",
        f"%y : f32{shape} = dequantize(%y.stored, %s, %z) {{axis=-1}} # m.dequantize",
        "output %y",
    ]


def test_a_dequantize_by_channel_does_not_sink() -> None:
    text = """
        input %x : i8[2,6]
        const %s : f32[6]
        %f : f32[2,6] = dequantize(%x, %s) {axis=1} # d
        %y : f32[3,4] = reshape(%f) {shape=[3,4]}
        output %y
        """
    assert run_pass(SinkDequantize(), text).graph_text == tidy(text)


def test_quantising_what_was_just_dequantised_is_nothing() -> None:
    ran = run_pass(
        SinkDequantize(),
        f"""
        {STORED}
        %r : f32[3,4] = reshape(%f) {{shape=[3,4]}}
        %q : i8[3,4] = quantize(%r, %s, %z) {{axis=-1}}
        %y : i8[4,3] = transpose(%q) {{permutation=[1,0]}}
        output %y
        """,
        SAME_SCALE,
    )
    assert ran.kinds == ["reshape", "transpose"]


@pytest.mark.parametrize("other", ["%t, %z", "%s, %u", "%s"])
def test_quantising_by_other_numbers_stays(other: str) -> None:
    ran = run_pass(
        SinkDequantize(),
        f"""
        const %t : f32[]
        const %u : i8[]
        {STORED}
        %y : u8[2,6] = quantize(%f, {other}) {{axis=-1}}
        output %y
        """.replace("u8[2,6]", "u8[2,6]" if other == "%s" else "i8[2,6]"),
        {**SAME_SCALE, "t": 0.5, "u": 4.0},
    )
    assert ran.kinds == ["dequantize", "quantize"]


SPREAD = PLAIN.replace("output %y", "%z : f32[1,4,4,4] = sigmoid(%y)\n    output %y\n    output %z")
OUTPUT_RANGES = {name: Range(-16.0, 16.0) for name in ("x", "y", "z")}


def test_a_device_without_floats_makes_outputs_as_integers() -> None:
    """Or the convolution before an output would be the host's."""
    for device in ("ethos_u55_256", "edge_tpu"):
        ran = run_pass(
            QuantizeActivations(Quantization(OUTPUT_RANGES, frozenset())),
            SPREAD,
            spec=hardware(device),
            tolerance=0.1,
        )
        kinds = {op.outputs[0]: op.kind for op in ran.after.graph.operators}
        assert kinds["y"] is kinds["z"] is Kind.DEQUANTIZE
        (sigmoid,) = (op for op in ran.after.graph.operators if op.kind is Kind.SIGMOID)
        assert sigmoid.inputs == ("y",)


def test_an_output_whose_maker_is_kept_in_float_stays_float() -> None:
    quantization = Quantization(OUTPUT_RANGES, frozenset({"y"}))
    ran = run_pass(
        QuantizeActivations(quantization), SPREAD, spec=hardware("edge_tpu"), tolerance=0.1
    )
    kinds = {op.outputs[0]: op.kind for op in ran.after.graph.operators}
    assert kinds["y"] is Kind.RELU
    assert kinds["z"] is Kind.DEQUANTIZE


def test_a_kept_reader_of_an_output_reads_what_was_made() -> None:
    quantization = Quantization(OUTPUT_RANGES, frozenset({"z"}))
    ran = run_pass(
        QuantizeActivations(quantization), SPREAD, spec=hardware("edge_tpu"), tolerance=0.1
    )
    (sigmoid,) = (op for op in ran.after.graph.operators if op.kind is Kind.SIGMOID)
    assert sigmoid.inputs == ("y.made",)


def test_a_device_with_floats_writes_an_output_as_it_is() -> None:
    ran = run_pass(
        QuantizeActivations(Quantization(OUTPUT_RANGES, frozenset())), SPREAD, tolerance=0.1
    )
    kinds = {op.outputs[0]: op.kind for op in ran.after.graph.operators}
    assert kinds["y"] is Kind.RELU


@pytest.mark.parametrize(("device", "maker"), [("ethos_u55_256", "dequantize"),
                                               ("edge_tpu", "layer_norm")])  # fmt: skip
def test_a_last_layer_normalisation_is_of_integers_where_it_is_lowered(
    device: str, maker: str
) -> None:
    text = """
        input %x : f32[4,64]
        const %g : f32[64]
        %y : f32[4,64] = layer_norm(%x, %g) {axis=1, epsilon=0.0}
        output %y
        """
    ranges = {name: Range(-16.0, 16.0) for name in ("x", "y")}
    step = QuantizeActivations(Quantization(ranges, frozenset()))
    ran = run_pass(step, text, spec=hardware(device), tolerance=0.1)
    (last,) = (op for op in ran.after.graph.operators if op.outputs == ("y",))
    assert last.kind == maker
