"""Inputs that a trained model has an answer to: drawn text, made-up files, made-up speech.

Each function takes a seed and the tensor types of the model's inputs, and gives one sample; equal
seeds give equal samples on every machine (text is drawn in the font that Pillow brings).
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stages.normalizer.sample_files import Sample
from stages.tensors import Array, TensorType

if TYPE_CHECKING:
    from PIL import Image

Types = Mapping[str, TensorType]

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
_PADDING = 256  # the token behind a file's end
_RATE = 16_000
_WORDS = tuple(
    "total amount invoice date order ship to customer street model power input output speed volt "  # noqa: SIM905
    "table report market paper house water light garden winter summer north south river signal "
    "number second minute system value error begin return import class public static void".split()
)


def text_line(seed: int, types: Types) -> Sample:
    """One line of words that fills the image's height, dark on light or light on dark, pixels in
    [-1, 1]; every second one for a direction classifier is upside down."""
    ((name, kind),) = types.items()
    image = _line(np.random.default_rng(seed), *kind.shape[2:])
    return {name: _pixels(image, np.float32(0.5), np.float32(0.5), kind)}


def turned_text_line(seed: int, types: Types) -> Sample:
    """The same, and every second one upside down."""
    ((name, kind),) = types.items()
    image = _line(np.random.default_rng(seed), *kind.shape[2:])
    if seed % 2:
        image = image[::-1, ::-1]
    return {name: _pixels(image, np.float32(0.5), np.float32(0.5), kind)}


def text_page(seed: int, types: Types) -> Sample:
    """A page of separate pieces of text in several sizes, pixels scaled as for ImageNet."""
    ((name, kind),) = types.items()
    random = np.random.default_rng(seed)
    height, width = kind.shape[2:]
    paper, ink = _colours(random)
    page = _page(height, width, paper)
    top = int(random.integers(10, 40))
    while True:
        size = int(random.integers(16, 44))
        if top + 2 * size > height:
            break
        left = int(random.integers(10, width // 3))
        while left < width - 6 * size:
            words = " ".join(random.choice(_WORDS, int(random.integers(1, 4))))
            left = _write(page, (left, top), words, size, ink) + int(random.integers(40, 160))
        top += int(size * random.uniform(1.6, 3.0))
    return {name: _pixels(_grainy(random, np.asarray(page)), _MEAN, _DEVIATION, kind)}


def file_ends(seed: int, types: Types) -> Sample:
    """The first and the last bytes of a made-up file, as Magika takes them: half of the tokens
    each, blanks stripped, padded with 256."""
    ((name, kind),) = types.items()
    random = np.random.default_rng(seed)
    makers = (_python, _json, _html, _csv, _markdown, _c, _shell, _ini)
    content = makers[seed % len(makers)](random).strip().encode()
    half = kind.shape[1] // 2
    tokens = np.full(kind.shape[1], _PADDING)
    first, last = content[:half], content[-half:]
    tokens[: len(first)] = list(first)
    tokens[kind.shape[1] - len(last) :] = list(last)
    return {name: tokens.reshape(kind.shape).astype(kind.dtype.numpy)}


def sound_frames(seed: int, types: Types, count: int) -> list[NDArray[np.float32]]:
    """Frames that follow each other: voiced speech (a glottal pulse train through moving formants)
    that comes and goes in noise, as the detector's `input` takes them."""
    kind = types["input"]
    random = np.random.default_rng(seed)
    length = count * kind.shape[-1]
    time = np.arange(length) / _RATE
    pitch = random.uniform(90, 220) * (1 + 0.1 * np.sin(2 * np.pi * random.uniform(1, 3) * time))
    phase = np.cumsum(pitch) / _RATE
    wave = np.zeros(length)
    formants = [random.uniform(*bounds) for bounds in ((300, 800), (900, 2200), (2300, 3000))]
    for harmonic in range(1, 40):
        frequency = harmonic * pitch
        gain = sum(
            1 / (1 + ((frequency - centre * (1 + 0.15 * np.sin(2 * np.pi * 4 * time))) / 90) ** 2)
            for centre in formants
        )
        wave += gain * np.sin(2 * np.pi * harmonic * phase) / harmonic**0.5
    syllables = np.clip(np.sin(2 * np.pi * random.uniform(2.5, 5) * time) * 2, 0, 1)
    talks = np.repeat(random.integers(0, 2, -(-count // 12)), 12 * kind.shape[-1])[:length]
    loudness = random.uniform(0.05, 0.3)
    sound = loudness * wave / np.abs(wave).max() * syllables * talks
    sound += random.uniform(0.001, 0.02) * random.standard_normal(length)
    return list(sound.reshape(count, *kind.shape).astype(np.float32))


def _colours(random: np.random.Generator) -> tuple[int, int]:
    light, dark = int(random.integers(200, 256)), int(random.integers(0, 70))
    return (light, dark) if random.integers(4) else (dark, light)


def _page(height: int, width: int, paper: int) -> Image.Image:
    from PIL import Image

    return Image.new("L", (width, height), paper)


def _write(page: Image.Image, place: tuple[int, int], words: str, size: int, ink: int) -> int:
    """Draws words with their upper left corner at `place`; gives the column behind them."""
    from PIL import ImageDraw, ImageFont

    font = ImageFont.load_default(size=size)
    ImageDraw.Draw(page).text(place, words, fill=ink, font=font)
    return place[0] + round(float(font.getlength(words)))


def _line(random: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """Words and numbers as long as the image is wide."""
    paper, ink = _colours(random)
    page = _page(height, width, paper)
    size = int(random.integers(height * 5 // 10, height * 7 // 10))
    left = int(random.integers(2, 10))
    while left < width - 3 * size:
        letters = string.ascii_letters + string.digits
        word = (
            str(random.choice(_WORDS))
            if random.integers(3)
            else "".join(random.choice(list(letters), int(random.integers(2, 6))))
        )
        if left + len(word) * size * 0.62 > width:
            break
        top = (height - size) // 2 - size // 8 + int(random.integers(-2, 3))
        left = _write(page, (left, top), word, size, ink) + size // 3
    return _grainy(random, np.asarray(page))


def _grainy(random: np.random.Generator, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    grain = random.normal(0, random.uniform(0, 6), image.shape)
    return np.clip(image + grain, 0, 255).astype(np.uint8)


def _pixels(
    image: NDArray[np.uint8],
    mean: NDArray[np.float32] | np.float32,
    deviation: NDArray[np.float32] | np.float32,
    kind: TensorType,
) -> Array:
    shares = np.broadcast_to(image.astype(np.float32) / 255, kind.shape[1:])
    return ((shares - mean) / deviation).reshape(kind.shape).astype(kind.dtype.numpy)


def _words(random: np.random.Generator, low: int, high: int) -> list[str]:
    return [str(word) for word in random.choice(_WORDS, int(random.integers(low, high)))]


def _python(random: np.random.Generator) -> str:
    lines = ["from __future__ import annotations", "", "import json", "import os", ""]
    for word in _words(random, 4, 14):
        other, third = _words(random, 2, 3)
        lines += [
            f"def {word}_{other}({third}: int) -> str:",
            f'    """Return the {other} of {third}."""',
            f"    if {third} > {int(random.integers(100))}:",
            f"        raise ValueError(f'no {word} for {{{third}}}')",
            f"    return json.dumps({{'{other}': {third}, 'path': os.getcwd()}})",
            "",
        ]
    return "\n".join(lines)


def _json(random: np.random.Generator) -> str:
    rows = [
        {word: int(random.integers(1000)), "name": " ".join(_words(random, 1, 4)), "ok": True}
        for word in _words(random, 5, 25)
    ]
    return json.dumps({"version": 1, "items": rows}, indent=2)


def _html(random: np.random.Generator) -> str:
    body = "\n".join(
        f'<div class="{word}"><h2>{word}</h2><p>{" ".join(_words(random, 5, 20))}</p></div>'
        for word in _words(random, 4, 16)
    )
    return (
        f"<!DOCTYPE html>\n<html><head><title>{_words(random, 1, 2)[0]}</title></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _csv(random: np.random.Generator) -> str:
    lines = ["id,name,amount,date,city"]
    for row in range(int(random.integers(15, 60))):
        name, city = _words(random, 2, 3)
        amount = random.uniform(1, 900)
        lines.append(f"{row},{name},{amount:.2f},2024-{random.integers(1, 13):02d}-11,{city}")
    return "\n".join(lines)


def _markdown(random: np.random.Generator) -> str:
    lines = ["# " + " ".join(_words(random, 2, 5)), ""]
    for word in _words(random, 3, 10):
        lines += [f"## The {word}", "", " ".join(_words(random, 15, 40)) + ".", ""]
        lines += [f"- **{item}**: see [{item}](docs/{item}.md)" for item in _words(random, 2, 5)]
        lines.append("")
    return "\n".join(lines)


def _c(random: np.random.Generator) -> str:
    lines = ["#include <stdio.h>", "#include <stdlib.h>", ""]
    for word in _words(random, 3, 12):
        lines += [
            f"static int {word}_count(const char *text, size_t length) {{",
            "    int found = 0;",
            f"    for (size_t i = 0; i < length; i++) {{ if (text[i] == '{word[0]}') found++; }}",
            f'    printf("{word}: %d\\n", found);',
            "    return found;",
            "}",
            "",
        ]
    return "\n".join([*lines, "int main(int argc, char **argv) { return argc > 1; }"])


def _shell(random: np.random.Generator) -> str:
    lines = ["#!/bin/bash", "set -euo pipefail", ""]
    for word in _words(random, 4, 14):
        lines += [f'{word}="${{1:-{word}}}"', f'if [ -d "build/${word}" ]; then']
        lines += [f'  echo "removing ${word}" >&2', f'  rm -rf "build/${word}"', "fi", ""]
    return "\n".join(lines)


def _ini(random: np.random.Generator) -> str:
    lines = []
    for word in _words(random, 4, 12):
        lines.append(f"[{word}]")
        lines += [f"{key} = {int(random.integers(100))}" for key in _words(random, 2, 6)]
        lines.append("")
    return "\n".join(lines)
