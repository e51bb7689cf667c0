"""Words that the text form of a plan is made of: names, types, regions, comments."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from stages.errors import InputError
from stages.plan.instructions import Region
from stages.recipe.printer import print_name as print_recipe_name
from stages.tensors import DType, Layout, LayoutKind, Shape, TensorType, dense_strides

NAME = r'(?:[A-Za-z0-9_.]+|"(?:[^"\\]|\\.)*")'
TYPE = r"[a-z0-9]+\[[0-9,]*\]"
_TYPE = re.compile(r"([a-z0-9]+)\[([0-9,]*)\]")
_FORM = re.compile(rf"({TYPE})(?: ([a-z_0-9]+)(?:/([0-9]+))?)?(?: by \[([-0-9,]*)\])?")
PLACE = rf"({NAME})\+(-?0x[0-9a-f]+)"
_REGION = re.compile(rf"{PLACE} (.+)")

Form = tuple[DType, Shape, Layout, tuple[int, ...]]
"""What a region holds, without its place: element type, logical shape, layout, byte strides."""


class PlanTextError(InputError):
    """A line of a plan's text isn't in the form."""

    def __init__(self, problem: str, line_number: int, line: str) -> None:
        shown = line if len(line) <= 160 else f"{line[:157]}..."
        super().__init__(
            problem,
            where=f"line {line_number}: {shown.strip()}",
            hint="compare with the lines that `recipe show --plan` prints",
        )


@lru_cache(maxsize=65536)
def print_name(name: str) -> str:
    """A name as recipes print it: as it is where plain, in JSON's quotes elsewhere."""
    return print_recipe_name(name)


@lru_cache(maxsize=65536)
def read_name(text: str) -> str:
    """The name that `print_name` printed."""
    return str(json.loads(text)) if text.startswith('"') else text


def escape_comment(text: str) -> str:
    """A comment on one line."""
    if "\n" in text or "\\" in text or "\r" in text:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return text


def unescape_comment(text: str) -> str:
    """The inverse of `escape_comment`."""
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), text)


@lru_cache(maxsize=65536)
def read_type(text: str) -> TensorType:
    """The tensor type that prints as `f16[1,8]`.

    Raises:
        ValueError: it isn't one.
    """
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is no tensor type; one looks like f16[1,64,56,56]")
    return TensorType(DType(match[1]), _integers(match[2]))


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(item) for item in text.split(",")) if text else ()


def print_form(form: Form) -> str:
    """Type, then the layout unless row-major, then the byte strides unless dense."""
    dtype, shape, layout, strides = form
    words = [str(TensorType(dtype, shape))]
    if layout.kind is not LayoutKind.ROW_MAJOR or layout.quantum != 1:
        words.append(f"{layout.kind}/{layout.quantum}" if layout.quantum != 1 else layout.kind)
    if not _fits(layout, shape) or strides != dense_strides(
        layout.physical_shape(shape), dtype.size_bytes
    ):
        words.append(f"by [{','.join(map(str, strides))}]")
    return " ".join(words)


def _fits(layout: Layout, shape: Shape) -> bool:
    return layout.kind is LayoutKind.ROW_MAJOR or (len(shape) >= 2 and layout.quantum > 0)


def read_form(text: str) -> Form:
    """The inverse of `print_form`.

    Raises:
        ValueError: it isn't a type with layout and strides.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is no type of a region, such as f16[1,16,8,8] nhwc")
    tensor = read_type(match[1])
    kind = LayoutKind(match[2]) if match[2] else LayoutKind.ROW_MAJOR
    layout = Layout(kind, int(match[3]) if match[3] else 1)
    if match[4] is not None:
        return tensor.dtype, tensor.shape, layout, _integers(match[4])
    if not _fits(layout, tensor.shape):
        raise ValueError(f"`{text}` has too few axes for its layout")
    physical = layout.physical_shape(tensor.shape)
    return tensor.dtype, tensor.shape, layout, dense_strides(physical, tensor.dtype.size_bytes)


def form_of(region: Region) -> Form:
    """What a region holds, without its place."""
    return region.dtype, region.shape, region.layout, region.strides


def print_region(region: Region) -> str:
    """A region with its place: `sram+0x0400 f16[1,16,8,8] nhwc`."""
    form = print_form(form_of(region))
    return f"{print_name(region.memory)}+{region.address:#06x} {form}"


def read_region(text: str) -> Region:
    """The inverse of `print_region`.

    Raises:
        ValueError: it isn't a region.
    """
    match = _REGION.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is no region, such as sram+0x0400 f16[1,16,8,8] nhwc")
    dtype, shape, layout, strides = read_form(match[3])
    return Region(read_name(match[1]), int(match[2], 16), dtype, shape, layout, strides)
