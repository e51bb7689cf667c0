"""Padding of windowed operators (convolutions and pools) as explicit numbers."""

from __future__ import annotations

from dataclasses import dataclass

from stages.recipe.onnx_import.node import Node
from stages.recipe.onnx_import.translation import NotRepresentable
from stages.tensors import Shape


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves over the spatial axes; `pads` holds all begins, then all ends."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape

    @property
    def reach(self) -> Shape:
        """Elements that a dilated kernel spans along each axis."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return tuple((extent - 1) * step + 1 for extent, step in pairs)


def read_window(node: Node, kernel: Shape, spatial: Shape) -> Window:
    """The window of a node over an input with these spatial extents.

    Raises:
        NotRepresentable: `auto_pad` has a value that ONNX doesn't define.
    """
    rank = len(spatial)
    window = Window(
        kernel,
        node.integers("strides") or (1,) * rank,
        node.integers("dilations") or (1,) * rank,
        node.integers("pads") or (0,) * (2 * rank),
    )
    mode = node.word("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return window
    if mode == "VALID":
        return _padded(window, (0,) * (2 * rank))
    if mode not in {"SAME_UPPER", "SAME_LOWER"}:
        raise NotRepresentable(f"its auto_pad is {mode}")
    totals = [
        max((-(-extent // stride) - 1) * stride + reach - extent, 0)
        for extent, stride, reach in zip(spatial, window.strides, window.reach, strict=True)
    ]
    return _padded(window, split_pads(totals, upper=mode == "SAME_UPPER"))


def split_pads(totals: list[int], *, upper: bool) -> Shape:
    """Total padding of each axis as begins and ends; the odd element goes to the end if `upper`."""
    less = [total // 2 for total in totals]
    more = [total - total // 2 for total in totals]
    return (*less, *more) if upper else (*more, *less)


def _padded(window: Window, pads: Shape) -> Window:
    return Window(window.kernel, window.strides, window.dilations, pads)


def overhang(window: Window, spatial: Shape, result: Shape) -> Shape:
    """How far the last window reaches beyond the padded input along each axis (`ceil_mode`)."""
    rank = len(spatial)
    beyond = []
    for axis, extent in enumerate(spatial):
        needed = (result[axis] - 1) * window.strides[axis] + window.reach[axis]
        padded = extent + window.pads[axis] + window.pads[axis + rank]
        beyond.append(max(needed - padded, 0))
    return tuple(beyond)
