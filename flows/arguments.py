"""Options that several commands share, and the parsing of `--bind`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from stages.compiler.interleaving import Interleaving
from stages.errors import InputError

_BIND = "--bind"
_BINDING = re.compile(r"(?P<axis>[^=]+)=(?P<extent>-?\d+)")
_DEVICE = "A device: a name that `recipe hardware list` prints, or the path of a spec."

Hardware = Annotated[
    str,
    typer.Option("--hardware", metavar="NAME", help=_DEVICE),
]
HardwareList = Annotated[
    list[str],
    typer.Option("--hardware", metavar="NAME", help=f"{_DEVICE} Give it once for each device."),
]
Bindings = Annotated[
    list[str] | None,
    typer.Option(
        _BIND,
        metavar="AXIS=EXTENT ...",
        help="Extents of dynamic axes, such as `--bind N=1 H=48 W=192`; `x.2=48` binds axis 2 of "
        "input x.",
    ),
]
Quantization = Annotated[
    Path | None,
    typer.Option(
        "--quantization",
        metavar="FILE",
        help="A quantisation file; else the model's own, where it has one.",
    ),
]
Cascades = Annotated[
    Interleaving,
    typer.Option(
        "--cascades",
        help="What may run across layers: on, several in stripes (docs/cascades.md); off, loads "
        "that run ahead; layer-by-layer, nothing, as vendors' compilers work.",
    ),
]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder for what this writes.")
]
PackageFolder = Annotated[
    Path, typer.Argument(metavar="PACKAGE", help="A folder that `recipe compile` wrote.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Stages that may run side by side; else one a core."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only results and errors.")]


def spread_bindings(arguments: Sequence[str]) -> list[str]:
    """`--bind N=1 H=48` as `--bind N=1 --bind H=48`, which an option parser understands.

    Only words with a `=` that aren't .onnx files belong to the flag, so a model may follow it.
    """
    rest = list(arguments)
    spread: list[str] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*spread, word, *rest]
        flag, equals, value = word.partition("=")
        if flag != _BIND:
            spread.append(word)
            continue
        values = [value] if equals else []
        while rest and _is_binding(rest[0]):
            values.append(rest.pop(0))
        spread += [part for value in values for part in (_BIND, value)] or [_BIND]
    return spread


def _is_binding(word: str) -> bool:
    return "=" in word and not word.startswith("-") and not word.endswith(".onnx")


def parse_bindings(words: Sequence[str] | None) -> Mapping[str, int]:
    """Bindings by axis.

    Raises:
        InputError: a word isn't AXIS=EXTENT, the extent is negative, or an axis has two extents.
    """
    bindings: dict[str, int] = {}
    for word in words or ():
        match = _BINDING.fullmatch(word)
        if match is None:
            raise InputError(
                f"a binding must read AXIS=EXTENT, not {word!r}",
                where=_BIND,
                hint="for example `--bind N=1 H=48 W=192`",
            )
        axis, extent = match["axis"], int(match["extent"])
        if extent < 0:
            raise InputError(
                f"an axis can't have the extent {extent}",
                where=f"{_BIND} {word}",
                hint="give a whole number from 0 up",
            )
        if bindings.get(axis, extent) != extent:
            raise InputError(
                f"axis {axis!r} is bound to {bindings[axis]} and to {extent}",
                where=_BIND,
                hint="give each axis one extent",
            )
        bindings[axis] = extent
    return bindings
