"""The definitions of classifiers, encoders and detectors have the published parameters and MACs.

Sources: torchvision's table of weights (parameters; "GFLOPS", which count MACs); timm's results for
EfficientNet-EdgeTPU (efficientnet_es, efficientnet_em) and Inception v4; the papers of MobileNet v1
and v2; the DeepLab model zoo; model cards of Qualcomm AI Hub (BERT, DistilBERT, YOLO); ultralytics'
documentation (two operations a MAC). Batch normalisation is folded here, which takes half of its
parameters away, and counters differ in what isn't a MAC: 3 % are allowed. Where no MACs are
published, a sum over the layers by hand stands in its place.
"""

from __future__ import annotations

import onnx
import pytest

from models.zoo import ZOO, build
from models.zoo.graph import GraphBuilder

TOLERANCE = 0.03


def _bert(layers: int, width: int, tokens: int, words: int = 0) -> float:
    """GMACs of an encoder by hand: its weights, two products of attention, the decoder of words."""
    layer = 12 * width**2 * tokens + 2 * tokens**2 * width
    head = tokens * width * (width + words) if words else tokens * width * 2
    return (layers * layer + head) / 1e9


# name: millions of parameters, GMACs
ROWS: dict[str, tuple[float, float | None]] = {
    "resnet18": (11.690, 1.814),
    "resnet50": (25.557, 4.089),
    "resnet101": (44.549, 7.801),
    "regnet_x_3_2gf": (15.297, 3.177),
    "googlenet": (6.625, 1.498),
    "inception_v3_224": (23.835, None),
    "inception_v4": (42.680, 12.28),
    "densenet121": (7.979, 2.834),
    "squeezenet": (1.248, 0.819),
    "mobilenet_v1": (4.240, 0.569),
    "mobilenet_v2": (3.505, 0.301),
    "mobilenet_v3_large": (5.483, 0.217),
    "mobilenet_v3_small": (2.543, 0.057),
    "deeplab_v3": (2.11, 2.75),
    "shufflenet_v2_x0_5": (1.367, 0.040),
    "efficientnet_edgetpu_s": (5.44, 1.81),
    "efficientnet_edgetpu_m": (6.90, 3.04),
    "vgg16": (138.358, 15.470),
    "vgg19": (143.667, 19.632),
    "resnet50_v1_299": (25.557, None),
    "resnet50_v2_299": (25.57, None),
    "bert_base_seq128": (109.48 - 0.59, _bert(12, 768, 128)),
    "bert_base_seq384": (109.48 - 0.59, _bert(12, 768, 384)),
    "bert_large_seq128": (335.14 - 1.05, _bert(24, 1024, 128)),
    "bert_large_seq384": (335.14 - 1.05, _bert(24, 1024, 384)),
    "bert_base_mlm_seq384": (109.51, _bert(12, 768, 384, 30522)),
    "distilbert_base_mlm_seq384": (66.99, _bert(6, 768, 384, 30522)),
    "vit_base": (86.568, 17.564),
    "vit_large": (304.327, 61.555),
    "yolov8_det": (3.157, 8.7 / 2),
    "yolov11_det": (2.624, 6.5 / 2),
    "yolox": (8.97, 26.8 / 2),
    "yolo11n_boxes": (2.6, 6.5 / 2),
    "yolo11s_boxes": (9.4, 21.5 / 2),
    "yolo11m_boxes": (20.1, 68.0 / 2),
    "yolo11l_boxes": (25.3, 86.9 / 2),
    "yolo11x_boxes": (56.9, 194.9 / 2),
}


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[GraphBuilder]:
    """The builders of models built since."""
    seen: list[GraphBuilder] = []
    finish = GraphBuilder.build

    def remember(self: GraphBuilder) -> onnx.ModelProto:
        seen.append(self)
        return finish(self)

    monkeypatch.setattr(GraphBuilder, "build", remember)
    return seen


@pytest.mark.parametrize("name", ROWS)
def test_counts_are_the_published_ones(name: str, counts: list[GraphBuilder]) -> None:
    model = build(name)
    (graph,) = counts
    parameters, macs = ROWS[name]
    assert model.graph.name == name
    assert graph.parameter_count / 1e6 == pytest.approx(parameters, rel=TOLERANCE)
    if macs is not None:
        assert graph.mac_count / 1e9 == pytest.approx(macs, rel=TOLERANCE)


@pytest.mark.parametrize("name", ["shufflenet_v2_x0_5", "mobilenet_v3_small", "yolov11_det"])
def test_a_graph_is_valid_onnx_of_the_shapes_that_were_tracked(name: str) -> None:
    onnx.checker.check_model(build(name), full_check=True)


def test_a_name_that_the_zoo_hasnt_is_refused_with_those_it_has() -> None:
    with pytest.raises(KeyError, match="resnet18"):
        build("resnet_18")
    assert "resnet18" in ZOO
