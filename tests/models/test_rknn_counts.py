"""The definitions of rknn_model_zoo's networks have the published parameters and MACs.

Sources: the tables in the README or documentation of each project (ultralytics/yolov5 v7.0,
ultralytics docs for YOLOv8 and YOLO11, meituan/YOLOv6 4.0, THU-MIG/yolov10, Megvii YOLOX,
PaddleDetection configs/ppyoloe, PaddleSeg configs/pp_liteseg, tensorflow/models deeplab model
zoo, the papers of MobileNetV2 and ResNet). GFLOPs of the YOLO tables are two operations a MAC;
PaddleDetection, PaddleSeg and TensorFlow count MACs. Published figures are rounded to two or three
digits, and their counters include what isn't a MAC (batch normalisation, activations), so a
tolerance of 3 % is asked; exceptions stand beside their row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx
import pytest

from models.zoo import (
    clip,
    lprnet,
    mobilenet_v2,
    ppyoloe,
    resnet50_v2,
    segmentation,
    yolo11,
    yolo_world,
    yolov5,
    yolov6,
    yolov8,
    yolov10,
    yolox,
)
from models.zoo.device_io import with_device_types
from models.zoo.graph import GraphBuilder
from models.zoo.ranges import fused_quantization
from stages.calibration.measurements import Precision
from stages.hardware.load import load_spec
from stages.recipe.onnx_import import import_model
from tests.hardware.specs import SPECS

TOLERANCE = 0.03

# name: builder, millions of parameters, GMACs
ROWS: dict[str, tuple[Callable[[], GraphBuilder], float | None, float | None]] = {
    "yolov5n": (partial(yolov5.graph, "n"), 1.867, 4.5 / 2),
    "yolov5s": (partial(yolov5.graph, "s"), 7.226, 16.5 / 2),
    "yolov5m": (partial(yolov5.graph, "m"), 21.17, 49.0 / 2),
    "yolov6n": (partial(yolov6.graph, "n"), 4.7, 11.4 / 2),
    "yolov6s": (partial(yolov6.graph, "s"), 18.5, 45.3 / 2),
    "yolov6m": (partial(yolov6.graph, "m"), 34.9, 85.8 / 2),
    "yolov8n": (partial(yolov8.graph, "n"), 3.157, 8.7 / 2),
    "yolov8s": (partial(yolov8.graph, "s"), 11.17, 28.6 / 2),
    # At 640 x 640 and 15 classes, as ultralytics' summary of the fused model counts them.
    "yolov8n_obb": (partial(yolov8.graph, "n", "obb"), 3.080, 8.3 / 2),
    "yolov8n_pose": (partial(yolov8.graph, "n", "pose"), 3.290, 9.2 / 2),
    # The published 12.6 and 110.2 GFLOPs count each tap of the transposed convolution at each of
    # its outputs, four times what it computes: 3 x 6400 pixels x 4 taps x 64^2 or 192^2 MACs less.
    "yolov8n_seg": (partial(yolov8.graph, "n", "seg"), 3.409, 12.6 / 2 - 0.315),
    "yolov8m_seg": (partial(yolov8.graph, "m", "seg"), 27.27, 110.2 / 2 - 2.831),
    "yolov10s": (yolov10.graph, 7.25, 21.6 / 2),
    "yolo11m": (yolo11.graph, 20.1, 68.0 / 2),
    "yolox_s": (partial(yolox.graph, "s"), 9.0, 26.8 / 2),
    "yolox_m": (partial(yolox.graph, "m"), 25.3, 73.8 / 2),
    "ppyoloe_m": (ppyoloe.graph, 23.43, 49.91 / 2),
    # Without the text encoder; AILab-CVC/YOLO-World gives 13 M for the re-parameterised small one.
    "yolo_world_v2s": (yolo_world.graph, 13.0, None),
    # openai/clip-vit-base-patch32: 151.3 M in both towers, of which 87.8 M see images; 57 of the
    # 77 positions of texts aren't exported. MACs as ViT-B/32's 4.4 G (Dosovitskiy et al.).
    "clip_images": (clip.images_graph, 87.85, 4.4),
    "clip_text": (clip.text_graph, 63.43 - 57 * 512 / 1e6, None),
    "deeplab at output stride 16": (partial(segmentation.deeplab_graph, 16), 2.11, 2.75),
    "ppliteseg_t": (partial(segmentation.ppliteseg_graph, 512, 512), 8.04, None),
    "mobilenetv2_12": (mobilenet_v2.graph, 3.50, 0.300),
    "resnet50_v2_7": (resnet50_v2.graph, 25.56, 4.09),
}


@pytest.mark.parametrize("name", ROWS)
def test_counts_are_the_published_ones(name: str) -> None:
    build, parameters, macs = ROWS[name]
    graph = build()
    if parameters is not None:
        assert graph.parameter_count / 1e6 == pytest.approx(parameters, rel=TOLERANCE)
    if macs is not None:
        assert graph.mac_count / 1e9 == pytest.approx(macs, rel=TOLERANCE)


def test_lprnet_has_the_published_weights_but_for_the_zeros_of_its_poolings() -> None:
    """sirius-ai/LPRNet_Pytorch: 1.7 MiB of f32 weights with convolutions on every second or
    fourth channel of three poolings; here those convolutions read all of them."""
    zeros = 64 * 64 + (256 - 64) * 256 * 4
    assert (lprnet.graph().parameter_count - zeros) / 1e6 == pytest.approx(0.446, rel=TOLERANCE)


@pytest.mark.parametrize("build", [partial(yolov8.graph, "n", "pose"), yolov10.graph])
def test_a_graph_is_valid_onnx_of_the_shapes_that_were_tracked(
    build: Callable[[], GraphBuilder],
) -> None:
    onnx.checker.check_model(build().build(), full_check=True)


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.INT8])
def test_inputs_and_outputs_take_the_device_types(precision: Precision) -> None:
    model = with_device_types(mobilenet_v2.graph().build(), precision)
    onnx.checker.check_model(model, full_check=True)
    stored = {Precision.INT8: onnx.TensorProto.INT8, Precision.FP16: onnx.TensorProto.FLOAT16}
    for info in (*model.graph.input, *model.graph.output):
        assert info.type.tensor_type.elem_type == stored[precision]


def test_nominal_ranges_leave_out_what_a_vendor_fuses() -> None:
    g = GraphBuilder("fused")
    x = g.input("x", (1, 8, 16, 16))
    first = g.conv(x, 8, 3, 1, "silu")
    second = g.conv(first, 8, 3)
    g.output(g.activation(g.add(first, second), "relu"))
    graph, constants = import_model(g.build())
    spec = load_spec(SPECS / "rk3588_npu.yaml")
    ranges = set(fused_quantization(graph, constants, spec).ranges)
    assert {"x", first.name} <= ranges
    assert second.name not in ranges
    assert len(ranges) == 3
