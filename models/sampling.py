"""Sample inputs that mean something to trained models.

Noise says little about a trained network: a text detector, say, finds no text in it, and puts out
millionths everywhere. A sample function takes a random generator and the tensor type of each
input, and gives an array for each input.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stages.tensors import TensorType

Sample = dict[str, NDArray[np.generic]]
Types = Mapping[str, TensorType]

_IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def text_line(rng: np.random.Generator, types: Types) -> Sample:
    """A line of strokes that fills the image, pixels scaled to [-1, 1] (PP-OCR cls and rec)."""
    ((name, kind),) = types.items()
    height, width = kind.shape[2:]
    page = np.full((height, width), 0.95, np.float32)
    _write_line(rng, page, 0, height)
    return {name: _normalized(rng, page, kind, np.float32(0.5), np.float32(0.5))}


def text_page(rng: np.random.Generator, types: Types) -> Sample:
    """Lines of strokes on a page, pixels scaled as for ImageNet (PP-OCR det)."""
    ((name, kind),) = types.items()
    height, width = kind.shape[2:]
    page = np.full((height, width), 0.95, np.float32)
    top = height // 16
    while top + height // 16 < height:
        line = int(rng.integers(height // 24, height // 12))
        left = int(rng.integers(0, width // 4))
        _write_line(rng, page[:, left : left + width * 2 // 3], top, line)
        top += line + int(rng.integers(line // 2, 2 * line))
    return {
        name: _normalized(
            rng, page, kind, _IMAGENET_MEAN[:, None, None], _IMAGENET_DEVIATION[:, None, None]
        )
    }


def file_bytes(rng: np.random.Generator, types: Types) -> Sample:
    """Printable bytes, then the padding token 256, as Magika reads the ends of a file."""
    ((name, kind),) = types.items()
    data = rng.integers(32, 127, kind.shape)
    data[:, int(rng.integers(kind.shape[1] // 4, kind.shape[1])) :] = 256
    return {name: data.astype(kind.dtype.numpy)}


def speech_frame(rng: np.random.Generator, types: Types) -> Sample:
    """A voiced 16 kHz frame: harmonics of a pitch and some breath; recurrent state at rest."""
    sample: Sample = {}
    for name, kind in types.items():
        if name == "sr":
            sample[name] = np.full(kind.shape, 16_000, kind.dtype.numpy)
        elif name == "input":
            time = np.arange(kind.shape[-1]) / 16_000
            pitch = rng.uniform(90, 250)
            tones = [np.sin(2 * np.pi * pitch * k * time + rng.uniform(0, 6)) / k
                     for k in range(1, 12)]  # fmt: skip
            wave = 0.1 * np.sum(tones, axis=0) + 0.01 * rng.standard_normal(time.size)
            sample[name] = np.broadcast_to(wave, kind.shape).astype(kind.dtype.numpy)
        else:
            sample[name] = np.zeros(kind.shape, kind.dtype.numpy)
    return sample


def _write_line(rng: np.random.Generator, page: NDArray[np.float32], top: int, height: int) -> None:
    """Draws glyphs, each a few straight strokes, in place."""
    stroke = max(1, height // 10)
    low, high = top + height // 6, top + height - height // 6
    left = height // 4
    while left + height // 2 < page.shape[1] - height // 4:
        right = left + int(rng.integers(height // 3, height // 2 + 1))
        for _ in range(int(rng.integers(2, 5))):
            ink = np.float32(rng.uniform(0.0, 0.2))
            if rng.integers(2):
                column = int(rng.integers(left, right))
                page[low:high, column : column + stroke] = ink
            else:
                row = int(rng.integers(low, max(high - stroke, low + 1)))
                page[row : row + stroke, left:right] = ink
        left = right + height // 6


def _normalized(
    rng: np.random.Generator,
    page: NDArray[np.float32],
    kind: TensorType,
    mean: NDArray[np.float32] | np.float32,
    deviation: NDArray[np.float32] | np.float32,
) -> NDArray[np.generic]:
    grain = 0.02 * rng.standard_normal((*kind.shape[:2], *page.shape))
    image = np.clip(page + grain.astype(np.float32), 0, 1)
    return ((image - mean) / deviation).astype(kind.dtype.numpy)
