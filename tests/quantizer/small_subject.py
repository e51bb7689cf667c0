"""A small normalised folder, and what `decide` needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from models.textual import convolution_weight, matrix, model_from_text
from stages.compile import MODEL_FILE, SAMPLES_FILE
from stages.hardware.spec import HardwareSpec
from stages.normalizer.sample_files import Sample
from stages.quantizer import Decided, Subject, decide, load_settings
from stages.recipe.onnx_import import import_model
from tests.compiler.folders import save_folder
from tests.compiler.specs import hardware

_GRAPH = """
small (float[1,4,8,8] x) => (float[1,5] y) {
    a = Conv <pads = [1,1,1,1]> (x, k1)
    b = Relu (a)
    c = Conv <pads = [1,1,1,1]> (b, k2)
    d = Relu (c)
    e = GlobalAveragePool (d)
    f = Flatten (e)
    y = MatMul (f, w)
}
"""
HEAD = "version: 1\nmodel: small\n"
MIN_MAX = "calibration: {data: samples, method: min_max, equalize: none}\n"
EQUALIZED = "calibration: {data: samples, method: min_max, equalize: channels}\n"


_AFFINE = """
affine (float[1,4,8,8] x) => (float[1,6,8,8] y) {
    a = Conv <pads = [1,1,1,1]> (x, k1)
    b = HardSwish (a)
    c = Mul (b, s)
    d = Add (c, t)
    y = Conv (d, k2)
}
"""


def samples(count: int, seed: int = 0) -> list[Sample]:
    """Inputs x f32[1,4,8,8]; every channel of `x` is of another size."""
    random = np.random.default_rng(seed)
    sizes = np.array([0.1, 0.5, 1.0, 2.0], np.float32)[:, None, None]
    return [
        {"x": (random.standard_normal((1, 4, 8, 8)) * sizes).astype(np.float32)}
        for _ in range(count)
    ]


def model(loud: float = 1.0) -> onnx.ModelProto:
    """Two convolutions and a product; one output channel of the first is `loud` times larger, and
    what reads it takes as much off, so that one scale for all channels loses the others."""
    random = np.random.default_rng(3)
    first, second = convolution_weight(random, 8, 4, 3), convolution_weight(random, 8, 8, 3)
    first[0] *= loud
    second[:, 0] /= loud
    made = model_from_text(_GRAPH, {"k1": first, "k2": second, "w": matrix(random, 8, 5)})
    for node in made.graph.node:
        node.name = f"op_{node.output[0]}"
    return made


def affine_model() -> onnx.ModelProto:
    """A scale and a shift by numbers between an activation and a convolution."""
    random = np.random.default_rng(4)
    weights = {
        "k1": convolution_weight(random, 8, 4, 3),
        "k2": convolution_weight(random, 6, 8, 1),
        "s": np.array([0.7], np.float32),
        "t": np.array([-0.23], np.float32),
    }
    made = model_from_text(_AFFINE, weights)
    for node in made.graph.node:
        node.name = f"op_{node.output[0]}"
    return made


@dataclass(frozen=True)
class Folder:
    """A normalised folder with a quantisation file beside it."""

    path: Path
    spec: HardwareSpec

    def subject(self) -> Subject:
        """The model, imported."""
        file = self.path / MODEL_FILE
        graph, constants = import_model(onnx.load(file))
        return Subject(file, graph, constants, self.spec, self.path / SAMPLES_FILE, samples(1)[0])

    def decide(self, text: str) -> Decided:
        """What a quantisation file with this content makes."""
        file = self.path / "q.yaml"
        subject = self.subject()
        head = HEAD.replace("small", subject.graph.name)
        file.write_text(head + text, encoding="utf-8")
        return decide(load_settings(file, subject.graph), subject)


def folder(
    path: Path, made: onnx.ModelProto, given: Sequence[Sample], spec: str = "rk3588_npu"
) -> Folder:
    """Write a normalised folder."""
    return Folder(save_folder(path, made, *given), hardware(spec))
