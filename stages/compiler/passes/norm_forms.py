"""Layer normalisation as sums and elementwise steps: what it is made of where that is stored.

Both forms compute `(x - mean) * (1 / sqrt(mean((x - mean)^2) + epsilon)) * scale + bias` of a
quantised operand. What is read twice is computed twice: the value is cheap, storing it isn't.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod, sqrt

import numpy as np

from stages.compiler.arithmetic import Arithmetic
from stages.compiler.draft import GraphEditor
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Shape, TensorType

_LEAST, _LEVELS = -32768, 65535
_LEAST_DEVIATION = 0.25
"""In steps of the operand: rows that vary less than this are constant but for rounding."""
_STEPS = 128.0
"""The products' unit in steps of the operand: all of an int8 value is within [-1, 1)."""
_LONGEST_ROW = 1 << 14
"""Beyond it the weights of the mean would be smaller than f16's least normal number."""
_LARGEST_EPSILON = 1024.0
"""In squares of that unit: beyond it the result is nothing but rounding in f16."""


@dataclass(frozen=True, slots=True)
class QuantizedNorm:
    """A layer normalisation between a dequantize of one step and a quantize.

    `source` is that dequantize, `step` its scale.
    """

    norm: Operator
    source: Operator
    step: float
    editor: GraphEditor

    @property
    def axes(self) -> tuple[int, ...]:
        """The normalised axes."""
        return tuple(range(self.norm.integer("axis"), self.whole.rank))

    @property
    def whole(self) -> TensorType:
        """The type of the operand as a float."""
        return self.editor.types[self.norm.inputs[0]]

    @property
    def count(self) -> int:
        """Elements of a row."""
        return prod(self.whole.shape[axis] for axis in self.axes)

    @property
    def rows(self) -> Shape:
        """The shape of what there is one of for each row."""
        return (*self.whole.shape[: self.axes[0]], *(1 for _ in self.axes))


def in_integers(found: QuantizedNorm) -> None:
    """Replace it in its editor by four groups, with int16 between them: the mean, the sum of the
    squares of what is left, the root's reciprocal, and the result.

    The ranges of those follow from the operand's: the mean square of the deviations is a quarter
    of its range squared at most (Popoviciu's inequality). A row whose standard deviation is less
    than a quarter of the operand's step holds nothing but rounding, which bounds the reciprocal.
    The squares are summed in the group that makes them: rounded to int16 each they would cost
    three times as much.
    """
    steps, levels = _Norm(found), 255 * found.step
    write, x = steps.write, found.norm.inputs[0]
    over: dict[str, Attribute] = {"axes": found.axes, "keepdims": 1}
    mean = write.op(Kind.REDUCE_MEAN, (x,), found.rows, over)
    mean = steps.stored(mean, -levels, levels)
    total = write.op(Kind.REDUCE_SUM, (steps.squares(x, mean),), found.rows, over)
    # Stored before the root, which acts on few elements: behind the sum in one group it would be
    # charged for all that the sum reads.
    total = steps.stored(total, 0.0, levels * levels / 4 * found.count)
    variance = write.op(Kind.MUL, (total, write.number(1 / found.count)), found.rows)
    epsilon = found.norm.number("epsilon")
    inverse = steps.inverse_root(variance, epsilon)
    least = _LEAST_DEVIATION * found.step
    inverse = steps.stored(inverse, 0.0, 1 / sqrt(least * least + epsilon))
    steps.result(x, mean, inverse)


def by_products(found: QuantizedNorm) -> list[Operator]:
    """Replace it in its editor by five groups, whose two sums over rows are products with a column
    of ones: the array sums a row in the time in which it multiplies one.

    Works on the operand's own integers, in units of 128 steps and without their zero point, which
    a normalisation doesn't see. So all squares and their mean are within f16's normal range but
    for those of less than half a step.
    """
    steps = _Norm(found)
    write = steps.write
    x = write.dequantized(found.source.inputs[0], 1 / _STEPS)
    mean = write.op(Kind.MATMUL, (x, write.column(found.count, 1 / found.count)), found.rows)
    part = 2.0 ** -ceil(log2(found.count))
    parts = write.constant("parts", np.full((found.count, 1), part, found.whole.dtype.numpy))
    total = write.op(Kind.MATMUL, (steps.squares(x, mean), parts), found.rows)
    variance = write.op(Kind.MUL, (total, write.number(1 / (part * found.count))), found.rows)
    floor = write.number((_LEAST_DEVIATION / _STEPS) ** 2)
    variance = write.op(Kind.MAXIMUM, (variance, floor), found.rows)
    return steps.result(x, mean, steps.inverse_root(variance, epsilon_in_units(found)))


def epsilon_in_units(found: QuantizedNorm) -> float:
    """The epsilon of a norm whose operand counts in units of 128 steps."""
    return found.norm.number("epsilon") / (_STEPS * found.step) ** 2


def can_be_products(found: QuantizedNorm) -> bool:
    """Whether sums over the rows are matrix products, and all numbers are within f16."""
    one_axis = found.axes == (found.whole.rank - 1,) and found.whole.rank > 1
    return (
        one_axis and 1 < found.count <= _LONGEST_ROW and epsilon_in_units(found) <= _LARGEST_EPSILON
    )


class _Norm:
    """The steps that both forms have."""

    def __init__(self, found: QuantizedNorm) -> None:
        self.norm = found.norm
        self.whole = found.whole
        self.write = Arithmetic(found.norm.name, found.whole.dtype, found.editor)

    def squares(self, x: str, mean: str) -> str:
        """The squares of the deviations."""
        centred = self.write.op(Kind.SUB, (x, mean), self.whole.shape)
        return self.write.op(Kind.MUL, (centred, centred), self.whole.shape)

    def inverse_root(self, variance: str, epsilon: float) -> str:
        """`1 / sqrt(variance + epsilon)`."""
        write = self.write
        shape = write.editor.types[variance].shape
        shifted = write.op(Kind.ADD, (variance, write.number(epsilon)), shape)
        return write.op(Kind.RECIPROCAL, (write.op(Kind.SQRT, (shifted,), shape),), shape)

    def result(self, x: str, mean: str, inverse: str) -> list[Operator]:
        """The norm's result from its operand and what there is one of for each row; returns all
        operators."""
        write, shape = self.write, self.whole.shape
        scale, *bias = self.norm.inputs[1:]
        centred = write.op(Kind.SUB, (x, mean), shape)
        end, operands = Kind.MUL, (write.op(Kind.MUL, (centred, inverse), shape), scale)
        if any(bias):
            end, operands = Kind.ADD, (write.op(end, operands, shape), bias[0])
        write.last(self.norm.name, end, operands, self.norm.outputs[0])
        return write.made

    def stored(self, value: str, low: float, high: float) -> str:
        """The value, which lies in a range, as it is after a rest in int16."""
        zero = np.int16(_LEAST if low == 0 else 0)
        return self.write.rested(value, np.float32((high - low) / _LEVELS), zero)
