"""Writes out in operators what one operator stands for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stages.compiler.draft import GraphEditor
from stages.compiler.rests import rested_in
from stages.recipe.graph import Attribute, Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType, Shape, TensorType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Puts operators of one float type in an editor, with names after `stem`; `made` holds them in
    order."""

    stem: str
    dtype: DType
    editor: GraphEditor
    made: list[Operator] = field(default_factory=list)

    def op(
        self,
        kind: Kind,
        inputs: tuple[str, ...],
        shape: Shape,
        attributes: dict[str, Attribute] | None = None,
    ) -> str:
        """Append an operator; returns its result's name."""
        editor = self.editor
        value = editor.add_value(f"{self.stem}.{kind}", TensorType(self.dtype, shape))
        name = editor.fresh(f"{value}.of")
        self.made.append(editor.put(Operator(name, kind, inputs, (value,), attributes or {})))
        return value

    def last(self, name: str, kind: Kind, inputs: tuple[str, ...], result: str) -> None:
        """Append the operator of that name that makes a value which is there already."""
        self.made.append(self.editor.put(Operator(name, kind, inputs, (result,), {})))

    def dequantized(self, value: str, scale: float) -> str:
        """Integers as floats, with one scale and no zero point."""
        shape = self.editor.types[value].shape
        number = self.constant("unit", np.asarray(scale, np.float32))
        return self.op(Kind.DEQUANTIZE, (value, number), shape, {"axis": -1})

    def rested(self, value: str, scale: np.float32, zero: np.generic) -> str:
        """A value as it is behind a quantize and a dequantize."""
        return self.rested_in(scale, value, scale, zero)

    def rested_in(self, unit: np.float32, value: str, scale: np.float32, zero: np.generic) -> str:
        """A value as it is behind a quantize, and a dequantize with steps of another unit."""
        restored = rested_in(unit, value, scale, zero, self.editor)
        dequantize = self.editor.producers[restored]
        self.made.extend((self.editor.producers[dequantize.inputs[0]], dequantize))
        return restored

    def column(self, count: int, number: float) -> str:
        """A column of equal numbers, stored in int8: a product with it sums rows."""
        return self.dequantized(self.constant("ones", np.ones((count, 1), np.int8)), number)

    def constant(self, what: str, data: Array) -> str:
        """A constant's name."""
        return self.editor.add_constant(f"{self.stem}.{what}", data)

    def number(self, value: float) -> str:
        """One number's name."""
        return self.constant("number", np.asarray(value, self.dtype.numpy))
