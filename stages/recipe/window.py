"""The sliding window of convolutions and pooling: kernel, strides, pads, dilations."""

from __future__ import annotations

from dataclasses import dataclass

from stages.recipe.graph import Operator
from stages.tensors import Shape


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window, one entry for each spatial axis.

    Negative pads crop. A tile of a whole operator has the same window with the pads of its edge.
    """

    kernel: Shape
    strides: Shape
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    dilations: Shape

    @classmethod
    def of(cls, operator: Operator, kernel: Shape) -> Window:
        """The window of a convolution (kernel: the weight's spatial extents) or of a pooling.

        Raises:
            KeyError: `strides` or `pads` is missing.
        """
        axes = len(kernel)
        pads = operator.integers("pads")
        dilations = (1,) * axes
        if "dilations" in operator.attributes:
            dilations = operator.integers("dilations")
        return cls(kernel, operator.integers("strides"), pads[:axes], pads[axes:], dilations)

    @property
    def spans(self) -> Shape:
        """The extent that one window covers along each axis, holes of dilation included."""
        return tuple(
            [
                dilation * (extent - 1) + 1
                for extent, dilation in zip(self.kernel, self.dilations, strict=True)
            ]
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether it reads each element once, alone and in order."""
        return (
            all(extent == 1 for extent in (*self.kernel, *self.strides))
            and not any(self.begins)
            and not any(self.ends)
        )

    def result_extents(self, extents: Shape) -> Shape:
        """How many windows fit along each axis of an operand with these spatial extents.

        May be zero or negative where the kernel is larger than the padded operand.
        """
        return tuple(
            (extent + begin + end - span) // stride + 1
            for extent, begin, end, span, stride in zip(
                extents, self.begins, self.ends, self.spans, self.strides, strict=True
            )
        )

    def spread_extents(self, extents: Shape, output_padding: Shape) -> Shape:
        """Result extents of the transposed convolution with this window."""
        return tuple(
            (extent - 1) * stride + padding + span - begin - end
            for extent, stride, padding, span, begin, end in zip(
                extents,
                self.strides,
                output_padding,
                self.spans,
                self.begins,
                self.ends,
                strict=True,
            )
        )
