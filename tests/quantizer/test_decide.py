"""From a quantisation file to a quantisation: calibrated, limited, explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from models.synthetic import quantized_cnn
from models.textual import convolution_weight, model_from_text
from stages.compiler.pipeline import Compiled, compile_graph
from stages.compiler.quantization import ActivationScales, Quantization, Range, WeightScales
from stages.errors import CompileError, InputError
from stages.normalizer.reference import OnnxRuntimeReference
from stages.quantizer import Decided, decide, load_settings
from stages.quantizer.trial import Trial
from stages.recipe.kinds import Kind
from tests.quantizer.small_subject import (
    EQUALIZED,
    HEAD,
    MIN_MAX,
    Folder,
    folder,
    model,
    samples,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return folder(tmp_path_factory.mktemp("small"), model(), samples(6))


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """One channel drowns the others in the value between its convolutions."""
    return folder(tmp_path_factory.mktemp("loud"), model(loud=400.0), samples(6))


def quantization_of(decided: Decided) -> Quantization:
    assert decided.quantization is not None
    return decided.quantization


def compiled(made: Folder, quantization: Quantization) -> Compiled:
    subject = made.subject()
    return compile_graph(
        subject.graph, subject.constants, subject.spec, quantization, subject.sample
    )


def answers(made: Folder, quantization: Quantization | None) -> np.ndarray:
    """What a recipe makes of other inputs; the float model's answers without one."""
    subject = made.subject()
    if quantization is None:
        runs = OnnxRuntimeReference(subject.model)
        return np.stack([runs.run(sample)["y"] for sample in samples(6, seed=8)])
    trial = Trial(subject.graph, subject.constants, subject.spec, quantization, None)
    return np.stack([trial.run(sample)["y"] for sample in samples(6, seed=8)])


def test_ranges_are_what_the_model_made_of_the_samples(small: Folder) -> None:
    found = quantization_of(small.decide(MIN_MAX))
    taken = np.stack([sample["x"] for sample in samples(6)])
    assert found.ranges["x"].low == taken.min()
    assert found.ranges["x"].high == taken.max()
    assert {"x", "b", "d"} <= found.ranges.keys()
    assert "a" not in found.ranges  # stays between a convolution and its activation
    assert found.ranges["b"].low == 0
    (note,) = found.notes
    assert "min_max from 6 samples, weights per_channel, activations asymmetric" in note


SQUEEZE = """
squeeze (float[1,4,8,8] x) => (float[1,8,1,1] y) {
    a = Conv (x, k1)
    b = Conv (a, k2)
    y = GlobalAveragePool (b)
}
"""


@pytest.mark.parametrize("spec", ["rk3588_npu", "ethos_u65_512"])
def test_a_mean_that_the_compiler_moved_is_measured_where_it_went(
    tmp_path: Path, spec: str
) -> None:
    random = np.random.default_rng(3)
    weights = {
        "k1": convolution_weight(random, 2, 4, 1),
        "k2": convolution_weight(random, 8, 2, 1),
    }
    made = folder(tmp_path, model_from_text(SQUEEZE, weights), samples(6), spec)
    found = quantization_of(made.decide(MIN_MAX))
    means = [
        np.einsum("nchw,oc->no", sample["x"], weights["k1"][:, :, 0, 0]) / 64
        for sample in samples(6)
    ]
    assert found.ranges["a.mean"].low == pytest.approx(min(0, np.min(means)), rel=1e-4)
    assert found.ranges["a.mean"].high == pytest.approx(max(0, np.max(means)), rel=1e-4)
    recipe = compiled(made, found).recipe
    hosted = {name for group in recipe.fallbacks for name in group.operators}
    kinds = {op.kind for op in recipe.graph.operators if op.name in hosted}
    assert kinds <= {Kind.QUANTIZE, Kind.DEQUANTIZE}  # of the float input and output
    given = quantization_of(made.decide("activations: {a: {min: -3, max: 5}}\n"))
    assert given.ranges["a.mean"] == Range(-3, 5)


def test_each_method_is_stated_and_none_is_wider_than_all_that_was_seen(small: Folder) -> None:
    methods = ("min_max", "percentile, percentile: 99", "entropy", "mse")
    found = [
        quantization_of(small.decide(f"calibration: {{data: samples, method: {method}}}\n"))
        for method in methods
    ]
    assert max(item.ranges["b"].high for item in found) == found[0].ranges["b"].high
    assert found[1].ranges["b"].high < found[0].ranges["b"].high * 0.9
    for item, word in zip(found, ("min_max", "percentile 99", "entropy", "mse"), strict=True):
        assert f"by {word} from" in item.notes[0]


def test_a_given_range_overrides_a_calibrated_one(small: Folder) -> None:
    found = quantization_of(small.decide(MIN_MAX + "activations: {b: {min: 0, max: 123}}\n"))
    assert found.ranges["b"].high == 123
    assert found.ranges["x"].high < 20


def test_scales_of_both_kinds_reach_the_recipe(small: Folder) -> None:
    one = quantization_of(
        small.decide(MIN_MAX + "weight_scales: per_tensor\nactivation_scales: symmetric\n")
    )
    assert one.weights is WeightScales.PER_TENSOR
    assert one.activations is ActivationScales.SYMMETRIC
    made = compiled(small, one)
    scales = made.constants["k2.scale"]
    assert np.unique(scales).size == 1
    assert made.constants["b.zero"] == 0
    assert made.constants["b.scale"] == np.float32(one.ranges["b"].high / 127)
    other = compiled(small, quantization_of(small.decide(MIN_MAX)))
    assert np.unique(other.constants["k2.scale"]).size == 8
    assert other.constants["b.zero"] == -128


def test_calibration_data_beside_the_file(small: Folder) -> None:
    np.savez(small.path / "own.npz", x=np.full((2, 1, 4, 8, 8), 3.0, np.float32))
    decided = small.decide("calibration: {data: own.npz, method: min_max}\n")
    assert quantization_of(decided).ranges["x"].high == 3.0
    assert decided.data_sha256.keys() == {"calibration"}


def test_twice_the_same(small: Folder) -> None:
    text = "calibration: {data: samples, method: entropy}\naccuracy: {min_sqnr_db: 45}\n"
    assert small.decide(text) == small.decide(text)


def test_what_is_kept_by_a_name_that_was_folded_away_is_kept(small: Folder) -> None:
    found = quantization_of(small.decide(MIN_MAX + "keep: [op_d]\n"))
    assert found.keep == {"op_d"}


def test_no_search_where_int8_is_enough(small: Folder) -> None:
    found = quantization_of(small.decide(MIN_MAX + "accuracy: {min_sqnr_db: 15}\n"))
    assert not found.keep
    assert "no search" in found.notes[1]
    assert not found.weighed


def test_operators_go_back_to_float_until_the_limit_is_met(loud: Folder) -> None:
    plain = quantization_of(loud.decide(MIN_MAX + "accuracy: {min_sqnr_db: 1}\n"))
    assert not plain.keep
    found = quantization_of(loud.decide(MIN_MAX + "accuracy: {min_sqnr_db: 25}\n"))
    assert found.keep == {"op_c"}  # it alone reads what the loud channel drowns
    assert "1 of " in found.notes[1]
    assert "op_c" in found.notes[1]
    (why,) = found.weighed
    assert (why.subject, why.question, why.chosen) == ("op_c", "accuracy", "float")
    made = compiled(loud, found)
    assert set(found.notes) <= set(made.recipe.notes)
    assert why in made.weighed
    (convolution,) = [op for op in made.recipe.graph.operators if op.name == "op_c"]
    assert made.recipe.graph.types[convolution.inputs[0]].dtype.is_float


def test_what_the_limit_says_stays_beside_what_the_passes_say_of_the_same(small: Folder) -> None:
    found = quantization_of(small.decide(MIN_MAX + "accuracy: {min_sqnr_db: 50}\n"))
    made = compiled(small, found)
    types = {item.subject for item in made.weighed if item.question == "precision"}
    assert types & {item.subject for item in found.weighed}
    assert set(found.weighed) <= set(made.weighed)


def test_the_limit_may_be_a_cosine_or_an_error(loud: Folder) -> None:
    for limit, word in (("min_cosine: 0.999", "cosine"), ("max_relative_error: 0.02", "of the")):
        found = quantization_of(loud.decide(MIN_MAX + f"accuracy: {{{limit}}}\n"))
        assert found.keep
        assert word in found.notes[1]


def test_a_loud_channel_is_brought_to_the_size_of_the_others(loud: Folder) -> None:
    plain = quantization_of(loud.decide(MIN_MAX))
    found = quantization_of(loud.decide(EQUALIZED))
    assert not plain.channel_factors
    assert "channels of b" in found.notes[1]
    (factors,) = [item for name, item in found.channel_factors.items() if name == "b"]
    assert factors[0] == max(factors) > 5 * max(factors[1:])
    wanted = answers(loud, None)
    noise = [float(np.square(answers(loud, item) - wanted).sum()) for item in (plain, found)]
    assert noise[1] < noise[0] / 10
    made = compiled(loud, found)
    assert set(found.notes) <= set(made.recipe.notes)


def test_ranges_are_those_of_the_scaled_channels(loud: Folder) -> None:
    plain, found = (quantization_of(loud.decide(text)) for text in (MIN_MAX, EQUALIZED))
    assert found.ranges["b"].high == pytest.approx(
        plain.ranges["b"].high, rel=0.01
    )  # the largest stays
    assert found.ranges["d"] == plain.ranges["d"]


def test_a_given_range_is_of_channels_as_they_are(loud: Folder) -> None:
    found = quantization_of(loud.decide(EQUALIZED + "activations: {b: {min: 0, max: 9}}\n"))
    assert "b" not in found.channel_factors
    assert found.ranges["b"].high == 9


def test_the_limit_may_be_what_the_task_makes_of_the_output(loud: Folder) -> None:
    for limit, word in (
        ("min_argmax_agreement: 1", "100.00% of arg max equal"),
        ("min_mask_agreement: 0.97, mask_threshold: 0.1", "mask overlap"),
        ("min_region_agreement: 0.9, region_side: 2, region_score: 0.2", "regions found"),
    ):
        found = quantization_of(loud.decide(MIN_MAX + f"accuracy: {{{limit}}}\n"))
        assert word in found.notes[1]


def test_a_limit_that_float_misses_too_is_refused(small: Folder) -> None:
    with pytest.raises(CompileError) as caught:
        small.decide(MIN_MAX + "accuracy: {min_sqnr_db: 120}\n")
    assert "missed even with every operator in float: SQNR" in caught.value.problem
    assert "int8 alone: SQNR" in caught.value.problem
    assert caught.value.where.endswith("q.yaml: accuracy")


def test_the_accuracy_set_is_checked_too(small: Folder) -> None:
    np.savez(small.path / "bad.npz", x=np.full((1, 4, 8, 8), np.nan, np.float32))
    with pytest.raises(InputError, match=r"accuracy data 'bad\.npz': sample 0"):
        small.decide(MIN_MAX + "accuracy: {min_sqnr_db: 20, data: bad.npz}\n")


def test_a_value_that_is_infinite_stays_in_float(tmp_path: Path) -> None:
    quiet = model()
    weights = numpy_helper.to_array(quiet.graph.initializer[0]).copy()
    weights[0] = np.inf
    quiet.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "k1"))
    found = quantization_of(folder(tmp_path, quiet, samples(1)).decide(MIN_MAX))
    assert "b" not in found.ranges
    assert "in float for want of finite values other than zero: b" in found.notes[0]


def test_a_model_in_fp16_becomes_an_int8_recipe(tmp_path: Path) -> None:
    half = model()
    for tensor in half.graph.initializer:
        array = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for info in (*half.graph.input, *half.graph.output):
        info.type.tensor_type.elem_type = TensorProto.FLOAT16
    given = [{"x": sample["x"].astype(np.float16)} for sample in samples(6)]
    made = folder(tmp_path, half, given)
    found = quantization_of(made.decide(MIN_MAX + "accuracy: {min_sqnr_db: 20}\n"))
    assert not found.keep
    subject = made.subject()
    graph = compile_graph(
        subject.graph, subject.constants, subject.spec, found, given[0]
    ).recipe.graph
    weights = [op.inputs[1] for op in graph.operators if op.kind is Kind.CONV]
    makers = graph.producers()
    assert {makers[name].kind for name in weights} == {Kind.DEQUANTIZE}


def test_a_quantised_model_keeps_its_numbers_and_says_so(tmp_path: Path) -> None:
    made = quantized_cnn()
    kinds = {TensorProto.FLOAT: np.float32, TensorProto.INT8: np.int8}
    given = {
        info.name: np.zeros(
            [axis.dim_value for axis in info.type.tensor_type.shape.dim],
            kinds[info.type.tensor_type.elem_type],
        )
        for info in made.graph.input
    }
    there = folder(tmp_path, made, [given])
    text = HEAD.replace("small", made.graph.name) + MIN_MAX
    (tmp_path / "q.yaml").write_text(text)
    subject = there.subject()
    found = quantization_of(decide(load_settings(tmp_path / "q.yaml", subject.graph), subject))
    assert found.ranges == {}
    assert "keeps its own numbers" in found.notes[0]
    plain = compile_graph(subject.graph, subject.constants, subject.spec, None, given)
    with_file = compile_graph(subject.graph, subject.constants, subject.spec, found, given)
    assert with_file.recipe.graph == plain.recipe.graph
    assert set(found.notes) <= set(with_file.recipe.notes)
    assert all(np.array_equal(data, with_file.constants[n]) for n, data in plain.constants.items())
