"""PP-OCRv4 detector and recogniser: the trained models of the registry, at other input shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from stages.normalizer.normalize import normalize_model
from stages.normalizer.registry import load_registry, resolve

_MODELS = Path(__file__).resolve().parents[1]


def ppocrv4_det(cache_dir: Path) -> onnx.ModelProto:
    """f32[1,3,480,480] -> f32[1,1,480,480]; the file is fetched once into `cache_dir`."""
    return _bound("ppocr_det", {"x.0": 1, "x.2": 480, "x.3": 480}, cache_dir)


def ppocrv4_rec(cache_dir: Path) -> onnx.ModelProto:
    """f32[1,3,48,320] -> f32[1,40,6625]; the file is fetched once into `cache_dir`."""
    return _bound("ppocr_rec", {"x.0": 1, "x.2": 48, "x.3": 320}, cache_dir)


def _bound(name: str, bindings: Mapping[str, int], cache_dir: Path) -> onnx.ModelProto:
    source = resolve(name, load_registry(_MODELS), cache_dir)
    return normalize_model(source, bindings).model
