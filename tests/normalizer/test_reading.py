"""What can be wrong with a model file, and what its messages say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from models.synthetic import residual_cnn
from stages.errors import InputError
from stages.normalizer.reading import read_model
from tests.normalizer.graphs import from_text, normalized


def external_model(folder: Path, location: str = "weights.bin") -> Path:
    """`residual_cnn` with every weight in a file beside it."""
    path = folder / "model.onnx"
    onnx.save(
        residual_cnn(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    if location != "weights.bin":
        model = onnx.load(path, load_external_data=False)
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        path.write_bytes(model.SerializeToString())
    return path


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_model(path)
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none.onnx")
    assert error.problem == "no model file 'none.onnx'"
    assert "recipe models list" in error.hint


def test_a_folder(tmp_path: Path) -> None:
    assert "can't be read" in refusal(tmp_path).problem


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    assert refusal(path).problem.startswith("the model file is empty")


def test_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("version https://git-lfs example\noid sha256:0\n")
    error = refusal(path)
    assert error.problem.startswith("a text file, not an ONNX model (it begins 'version https")
    assert error.where == str(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    content = residual_cnn().SerializeToString()
    path = tmp_path / "short.onnx"
    path.write_bytes(content[: int(len(content) * share)])
    assert "cut short" in refusal(path).problem


def test_a_file_cut_where_a_field_ends(tmp_path: Path) -> None:
    model = residual_cnn()
    del model.opset_import[:]
    path = tmp_path / "cut.onnx"
    path.write_bytes(model.SerializeToString())
    assert "no operator set version" in refusal(path).problem


def test_a_model_without_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "hollow.onnx"
    path.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())
    assert "holds no graph" in refusal(path).problem


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    content = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }").SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content.replace(b"Relu", b"Re\xff\xfe"))
    assert "isn't text" in refusal(path).problem


def test_a_value_that_nothing_makes(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Add (x, ghost) }")
    with pytest.raises(InputError, match=r"'ghost', which nothing makes"):
        normalized(model, tmp_path)


def test_a_cycle(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { a = Add (x, b) b = Neg (a) y = Relu (b) }")
    with pytest.raises(InputError, match="cycle"):
        normalized(model, tmp_path)


def test_external_data_are_mapped_and_digested(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    opened = read_model(path)
    values = opened.model.graph.initializers["fc.b"].const_value
    assert values is not None
    inline = {t.name: onnx.numpy_helper.to_array(t) for t in residual_cnn().graph.initializer}
    np.testing.assert_array_equal(values.numpy(), inline["fc.b"])
    weights = tmp_path / "weights.bin"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert read_model(path).sha256 != opened.sha256


@pytest.mark.parametrize("location", ["../weights.bin", "a/../../weights.bin", "/etc/hostname", ""])
def test_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(100_000))
    error = refusal(external_model(folder, location))
    assert "outside the model's folder" in error.problem
    assert "tensor 'c1.w'" in error.where


def test_external_data_behind_a_link_that_leads_out(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = external_model(folder)
    (folder / "weights.bin").rename(tmp_path / "elsewhere.bin")
    (folder / "weights.bin").symlink_to(tmp_path / "elsewhere.bin")
    assert "outside the model's folder" in refusal(path).problem


def test_external_data_missing(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    (tmp_path / "weights.bin").unlink()
    assert refusal(path).problem == "no external data file 'weights.bin'"


def test_external_data_cut_short(tmp_path: Path) -> None:
    path = external_model(tmp_path)
    content = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").write_bytes(content[:100])
    error = refusal(path)
    assert "holds 100 bytes, the tensor needs" in error.problem


def test_a_model_with_external_data_goes_through(tmp_path: Path) -> None:
    from stages.normalize import normalize
    from stages.normalizer.source import ModelSource

    source = ModelSource("model", external_model(tmp_path))
    report = normalize(source, tmp_path / "out", seed=1, sample_count=1)
    assert report.proof.max_absolute_difference == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "model.onnx", "normalize.json", "samples.npz",
    ]  # fmt: skip


def test_shapes_in_external_data_fold_all_the_same(tmp_path: Path) -> None:
    """Even inside an operator of a branch, where tools that lose the folder can't find them."""
    from stages.normalize import normalize
    from stages.normalizer.source import ModelSource

    model = from_text(
        """
        g (float[2,6] x, bool c) => (float[a,b] y, float[d,e] z) {
          shape = Constant <value: tensor = int64[2] {3, 4}> ()
          y = Reshape (x, shape)
          z = If (c) < then_branch = t () => (float[d,e] p)
              { s = Constant <value: tensor = int64[2] {4, 3}> () p = Reshape (x, s) },
            else_branch = f () => (float[d,e] q) { q = Reshape (x, outer) }>
        }
        """,
        {"outer": np.array([4, 3])},
        opset=13,
    )
    path = tmp_path / "model.onnx"
    onnx.save(
        model, path, save_as_external_data=True, location="w.bin", size_threshold=0,
        convert_attribute=True,
    )  # fmt: skip
    report = normalize(ModelSource("m", path), tmp_path / "out", seed=1, sample_count=1)
    assert report.outputs == {"y": "f32[3,4]", "z": "f32[4,3]"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("missing attribute", "isn't legal: Required attribute 'to' is missing"),
        ("unknown attribute", "isn't legal: Unrecognized attribute: colour"),
        ("value made twice", "y"),
        ("too few bytes", "holds 8 bytes, not 16"),
        ("too few elements", "tensor 'w' can't be read"),
        ("negative shape", r"has shape \[-4\]"),
        ("unknown type", "unknown element type 99"),
    ],
)
def test_graphs_that_are_not_legal(tmp_path: Path, change: str, said: str) -> None:
    model = from_text(
        "g (float[4] x) => (float[4] y) { a = Cast <to=1> (x) b = Add (a, w) y = Neg (b) }",
        {"w": np.ones(4, np.float32)},
    )
    cast, weight = model.graph.node[0], model.graph.initializer[0]
    match change:
        case "missing attribute":
            del cast.attribute[:]
        case "unknown attribute":
            cast.attribute.append(onnx.helper.make_attribute("colour", 3))
        case "value made twice":
            model.graph.node[1].output[0] = "y"
        case "too few bytes":
            weight.raw_data = bytes(8)
        case "too few elements":
            weight.ClearField("raw_data")
            weight.float_data.extend([1, 2])
        case "negative shape":
            weight.dims[0] = -4
        case "unknown type":
            weight.data_type = 99
    with pytest.raises(InputError, match=said):
        normalized(model, tmp_path)


def test_sparse_initialisers(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Add (x, w) }")
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.array([2]))
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [4]))
    with pytest.raises(InputError, match="sparse initialiser 'w'"):
        normalized(model, tmp_path)


def test_an_unknown_operator(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Frobnicate (x) }")
    with pytest.raises(InputError, match="no operator 'Frobnicate' in operator set 17"):
        normalized(model, tmp_path)


def test_an_unknown_domain(tmp_path: Path) -> None:
    from models.faults import unknown_operator

    with pytest.raises(InputError) as caught:
        normalized(unknown_operator(), tmp_path)
    assert "acme.ops.FancyNorm" in caught.value.problem
    assert "'acme.ops'" in caught.value.problem
    assert "'t'" in caught.value.where


def test_an_operator_set_imported_twice(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { y = Relu (x) }", domains={"ai.onnx": 11})
    with pytest.raises(InputError, match="imported twice"):
        normalized(model, tmp_path)


def test_random_numbers(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { r = RandomNormalLike (x) y = Add (x, r) }")
    with pytest.raises(InputError, match="RandomNormalLike draws random numbers"):
        normalized(model, tmp_path)


def test_random_numbers_that_nothing_reads(tmp_path: Path) -> None:
    model = from_text("g (float[4] x) => (float[4] y) { r = RandomNormalLike (x) y = Neg (x) }")
    assert normalized(model, tmp_path).operators_after == {"Neg": 1}


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ("g (float[4] x, seq(float[4]) s) => (float[4] y) { y = Relu (x) }", "not a tensor"),
        ("g (string[4] x) => (string[4] y) { y = Identity (x) }", "elements of type string"),
        ("g (float[4] x) => (bool[4] y) { d = Cast <to=7> (x) y = Equal (d, x) }", "mixes INT64"),
        ("g (float[4] x) => (int64[1,n] y) { y = NonZero (x) }", "NonZero makes it as long"),
    ],
)
def test_what_has_no_place_in_a_recipe(tmp_path: Path, graph: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        normalized(from_text(graph), tmp_path)


def test_data_dependent_shapes_name_operator_axis_and_cure(tmp_path: Path) -> None:
    from models.faults import non_max_suppression

    with pytest.raises(InputError) as caught:
        normalized(non_max_suppression(), tmp_path)
    error = caught.value
    assert "'selected' has axis 0" in error.problem
    assert "NonMaxSuppression" in error.where
    assert "onnx.utils.extract_model" in error.hint
    assert "['boxes', 'scores']" in error.hint
