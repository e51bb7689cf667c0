"""The networks of rknn_model_zoo's performance table, by the names of its rows in lower case."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import onnx

from models.zoo import ppocr
from models.zoo.clip import clip_images, clip_text
from models.zoo.lprnet import lprnet
from models.zoo.mobilenet_v2 import mobilenetv2_12
from models.zoo.ppyoloe import ppyoloe_m
from models.zoo.resnet50_v2 import resnet50_v2_7
from models.zoo.segmentation import deeplab_v3_plus_mobilenet_v2, ppseg_lite_1024x512
from models.zoo.yolo11 import yolo11m
from models.zoo.yolo_world import yolo_world_v2s
from models.zoo.yolov5 import yolov5
from models.zoo.yolov6 import yolov6
from models.zoo.yolov8 import yolov8
from models.zoo.yolov10 import yolov10s
from models.zoo.yolox import yolox

_ROOT = Path(__file__).resolve().parents[2]


def _fetched(build: Callable[[Path], onnx.ModelProto]) -> onnx.ModelProto:
    """A trained model, from the project's cache of downloads (`RECIPE_CACHE`, or `.cache`)."""
    return build(Path(os.environ.get("RECIPE_CACHE", _ROOT / ".cache")))


DEFINITIONS: Mapping[str, Callable[[], onnx.ModelProto]] = MappingProxyType(
    {
        "mobilenetv2_12": mobilenetv2_12,
        "resnet50_v2_7": resnet50_v2_7,
        **{f"yolov5{scale}": partial(yolov5, scale) for scale in "nsm"},
        **{f"yolov6{scale}": partial(yolov6, scale) for scale in "nsm"},
        **{f"yolov8{scale}": partial(yolov8, scale) for scale in "ns"},
        **{f"yolov8n_{task}": partial(yolov8, "n", task) for task in ("obb", "pose", "seg")},
        "yolov8m_seg": partial(yolov8, "m", "seg"),
        "yolov10s": yolov10s,
        "yolo11m": yolo11m,
        "yolox_s": partial(yolox, "s"),
        "yolox_m": partial(yolox, "m"),
        "ppyoloe_m": ppyoloe_m,
        "yolo_world_v2s": yolo_world_v2s,
        "clip_text": clip_text,
        "clip_images": clip_images,
        "deeplab_v3_plus_mobilenet_v2": deeplab_v3_plus_mobilenet_v2,
        "ppseg_lite_1024x512": ppseg_lite_1024x512,
        "lprnet": lprnet,
        "ppocrv4_det": partial(_fetched, ppocr.ppocrv4_det),
        "ppocrv4_rec": partial(_fetched, ppocr.ppocrv4_rec),
    }
)
