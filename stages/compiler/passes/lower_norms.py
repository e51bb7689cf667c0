"""Layer normalisation on devices that have the arithmetic for it, but no operator of that name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.compiler.rests import rested
from stages.hardware.spec import HardwareSpec
from stages.recipe.explanation import Alternative, Weighed
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, Shape, TensorType

_NEEDED = (Kind.REDUCE_MEAN, Kind.SUB, Kind.MUL, Kind.ADD, Kind.SQRT, Kind.RECIPROCAL,
           Kind.QUANTIZE, Kind.DEQUANTIZE)  # fmt: skip
_LEAST, _LEVELS = -32768, 65535
_LEAST_DEVIATION = 0.25
"""In steps of the operand: rows that vary less than this are constant but for rounding."""


@dataclass(frozen=True, slots=True)
class LowerLayerNorm:
    """A layer normalisation of quantised values becomes five groups: the mean, the squares of what
    is left, their mean, its root's reciprocal, and the result, with int16 between them.

    The ranges of those follow from the operand's: deviations are at most its range wide, their
    mean square a quarter of its square (Popoviciu's inequality). A row whose standard deviation is
    less than a quarter of the operand's step holds nothing but rounding, which bounds the
    reciprocal.
    """

    name: str = "lower_layer_norm"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Lower every layer_norm between dequantize and quantize, where the list lacks it."""
        if Kind.LAYER_NORM in spec.operators or not has_arithmetic(spec):
            return draft
        editor = GraphEditor(draft)
        norms = [op for op in draft.graph.operators if op.kind is Kind.LAYER_NORM]
        lowered = [op.name for op in norms if _lower(op, editor)]
        reason = f"layer_norm isn't in the operator list of {spec.name}, its arithmetic is"
        ways = (
            Alternative("host", None, "one operator, and both ways over the link"),
            Alternative("arithmetic", None, "five groups, int16 between them"),
        )
        return editor.finish().with_weighed(
            Weighed(name, "layer_norm", ways, "arithmetic", reason) for name in lowered
        )


def has_arithmetic(spec: HardwareSpec) -> bool:
    """Whether the list has all that a layer normalisation is made of, in int16."""
    return all(
        kind in spec.operators and DType.I16 in spec.operators[kind].dtypes for kind in _NEEDED
    )


def _lower(norm: Operator, editor: GraphEditor) -> bool:
    x, *parameters = norm.inputs
    source = editor.producer(x)
    if source is None or source.kind is not Kind.DEQUANTIZE or source.integer("axis") >= 0:
        return False
    reader = editor.only_reader(norm.outputs[0])
    step = scalar(editor, source.inputs[1])
    if reader is None or reader.kind is not Kind.QUANTIZE or step is None:
        return False
    if any(name and name not in editor.constants for name in parameters):
        return False
    _Lowering(norm, editor, step).run()
    return True


class _Lowering:
    def __init__(self, norm: Operator, editor: GraphEditor, step: float) -> None:
        self.norm = norm
        self.editor = editor
        self.step = step
        self.type = editor.types[norm.inputs[0]]
        axis = norm.integer("axis")
        self.axes = tuple(range(axis, self.type.rank))
        self.rows: Shape = (*self.type.shape[:axis], *(1 for _ in self.axes))

    def run(self) -> None:
        """The normal form: `(x - mean) * (1 / sqrt(mean((x - mean)^2) + epsilon)) * scale + bias`.
        What is read twice is computed twice: the value is cheap, storing it isn't."""
        x, *parameters = self.norm.inputs
        levels = 255 * self.step
        average: dict[str, Attribute] = {"axes": self.axes, "keepdims": 1}
        mean = self.op(Kind.REDUCE_MEAN, (x,), self.rows, average)
        mean = self.stored(mean, -levels, levels)
        centred = self.op(Kind.SUB, (x, mean), self.type.shape)
        square = self.op(Kind.MUL, (centred, centred), self.type.shape)
        square = self.stored(square, 0.0, levels * levels)
        variance = self.op(Kind.REDUCE_MEAN, (square,), self.rows, average)
        # Stored before the root, which acts on few elements: behind the mean in one group it
        # would be charged for all that the mean reads.
        variance = self.stored(variance, 0.0, levels * levels / 4)
        epsilon = self.norm.number("epsilon")
        shifted = self.op(Kind.ADD, (variance, self.number(epsilon)), self.rows)
        root = self.op(Kind.SQRT, (shifted,), self.rows)
        inverse = self.op(Kind.RECIPROCAL, (root,), self.rows)
        least = _LEAST_DEVIATION * self.step
        largest = 1 / float(np.sqrt(least * least + epsilon))
        inverse = self.stored(inverse, 0.0, largest)
        centred = self.op(Kind.SUB, (x, mean), self.type.shape)
        result = self.op(Kind.MUL, (centred, inverse), self.type.shape)
        scale, bias = parameters[0], parameters[1] if len(parameters) > 1 else ""
        result = self.op(Kind.MUL, (result, scale), self.type.shape, last=not bias)
        if bias:
            self.op(Kind.ADD, (result, bias), self.type.shape, last=True)

    def op(
        self,
        kind: Kind,
        inputs: tuple[str, ...],
        shape: Shape,
        attributes: dict[str, Attribute] | None = None,
        *,
        last: bool = False,
    ) -> str:
        """Append an operator; the last one takes the norm's name and result."""
        editor = self.editor
        if last:
            editor.put(Operator(self.norm.name, kind, inputs, self.norm.outputs, attributes or {}))
            return self.norm.outputs[0]
        value = editor.add_value(f"{self.norm.name}.{kind}", TensorType(self.type.dtype, shape))
        editor.put(Operator(editor.fresh(f"{value}.of"), kind, inputs, (value,), attributes or {}))
        return value

    def number(self, value: float) -> str:
        return self.editor.add_constant(
            f"{self.norm.name}.epsilon", np.asarray(value, self.type.dtype.numpy)
        )

    def stored(self, value: str, low: float, high: float) -> str:
        """The value, which lies in a range, as it is after a rest in int16."""
        zero = np.int16(_LEAST if low == 0 else 0)
        return rested(value, np.float32((high - low) / _LEVELS), zero, self.editor)
