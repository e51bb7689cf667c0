"""Low-rank branches beside a product: `x@W + x@A@B*s` is `x@(W + A@B*s)`.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, section 4.1: a trained
branch costs nothing at inference once it is part of the weights that it adapts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.exact import factor_bits, on_grid
from stages.compiler.lora import NOTED, Lora
from stages.compiler.patterns import scalar
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import Array, DType


@dataclass(frozen=True, slots=True)
class MergeLora:
    """Merges low-rank branches, or counts them; notes say what was done, and why where it wasn't.

    Known are scales by one number (mul or div, anywhere along the branch), biases and reshapes
    behind the product, several branches on one product. `W`, `A` and `B` must be constants.
    """

    lora: Lora = Lora.KEEP
    name: str = "merge_lora"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Look at each sum."""
        editor, notes = GraphEditor(draft), list[str]()
        ranks: Counter[int] = Counter()
        for operator in draft.graph.operators:
            found = _branch(operator, editor) if operator.kind is Kind.ADD else None
            if found is None:
                continue
            reason = _obstacle(found, editor)
            if self.lora is Lora.KEEP:
                ranks[found.rank] += not reason
                continue
            reason = reason or _merge(found, editor)
            if reason:
                notes.append(f"{NOTED} at {operator.name} (rank {found.rank}) kept: {reason}")
            else:
                ranks[found.rank] += 1
        ranks = +ranks
        if not ranks:
            return draft.with_notes(notes)
        merging = self.lora is Lora.MERGE
        done = "merged into weights" if merging else "kept, --merge-lora merges them"
        told = ", ".join(f"{count} of rank {rank}" for rank, count in sorted(ranks.items()))
        merged = editor.finish() if merging else draft
        return merged.with_notes([f"{NOTED}es {done}: {told}", *notes])


@dataclass(frozen=True, slots=True)
class _Branch:
    """A sum of `base`, which leads to the product `product`, and of a low-rank branch from what
    that product reads, by the constants `down` [k, rank] and `up` [rank, n], scaled by `scale`
    (None: not by one number)."""

    sum: Operator
    base: str
    product: Operator
    down: str
    up: str
    scale: float | None
    rank: int


def _branch(operator: Operator, editor: GraphEditor) -> _Branch | None:
    """A sum as a product and its low-rank branch; None where it isn't that."""
    first, second = operator.inputs
    for base, side in ((first, second), (second, first)):
        product = _product(base, editor)
        if product is None:
            continue
        up, after = _scaled_product(side, editor)
        if up is None:
            continue
        down, between = _scaled_product(up.inputs[0], editor)
        if down is None:
            continue
        source, before = _unscaled(down.inputs[0], editor)
        beside, common = _unscaled(product.inputs[0], editor)
        a, b = (editor.constants[item.inputs[1]] for item in (down, up))
        if source != beside or not a.ndim == b.ndim == 2:
            continue
        if a.shape[1] < min(a.shape[0], b.shape[1]):
            scale = _scale((after, between, before), common)
            names = (down.inputs[1], up.inputs[1])
            return _Branch(operator, base, product, *names, scale, a.shape[1])
    return None


def _scale(scales: tuple[float | None, ...], common: float | None) -> float | None:
    """The scale of a branch over that of what the product beside it reads; None where one isn't a
    number."""
    numbers = [item for item in scales if item is not None]
    if len(numbers) < len(scales) or not common:
        return None
    return prod(numbers) / common


def _product(value: str, editor: GraphEditor) -> Operator | None:
    """The product that a value is, behind biases and reshapes; None where it's none."""
    while True:
        operator = editor.producer(value)
        if operator is None:
            return None
        if operator.kind is Kind.MATMUL:
            return operator
        if operator.kind in (Kind.RESHAPE, Kind.IDENTITY):
            value = operator.inputs[0]
        elif operator.kind is Kind.ADD:
            data = [name for name in operator.inputs if name not in editor.constants]
            if len(data) != 1:
                return None
            (value,) = data
        else:
            return None


def _scaled_product(value: str, editor: GraphEditor) -> tuple[Operator | None, float | None]:
    """A bare product with a constant, behind scales and reshapes, and the scale."""
    inner, scale = _unscaled(value, editor)
    operator = editor.producer(inner)
    if operator is None or operator.kind is not Kind.MATMUL or any(operator.inputs[2:]):
        return None, None
    return (operator if operator.inputs[1] in editor.constants else None), scale


def _unscaled(value: str, editor: GraphEditor) -> tuple[str, float | None]:
    """A value before scales by one number, reshapes and identities; the scale is None where one of
    the factors isn't one constant number."""
    scale: float | None = 1.0
    while True:
        operator = editor.producer(value)
        if operator is None or operator.kind not in _PASSED:
            return value, scale
        if operator.kind in (Kind.MUL, Kind.DIV):
            first, second = operator.inputs
            if operator.kind is Kind.MUL and scalar(editor, first) is not None:
                first, second = second, first
            number = scalar(editor, second)
            if editor.types[first].shape != editor.types[operator.outputs[0]].shape:
                return value, scale
            if number is None or (operator.kind is Kind.DIV and not number):
                scale = None
            elif scale is not None:
                scale = scale * number if operator.kind is Kind.MUL else scale / number
            value = first
        else:
            value = operator.inputs[0]


_PASSED = frozenset({Kind.MUL, Kind.DIV, Kind.RESHAPE, Kind.IDENTITY})


def _obstacle(found: _Branch, editor: GraphEditor) -> str:
    """Why a branch can't be merged; empty where it can."""
    product = found.product
    weights = editor.constants.get(product.inputs[1])
    if weights is None or weights.ndim != 2 or not DType.of(weights.dtype).is_float:
        return "the weights beside it aren't a constant matrix of floats"
    a, b = editor.constants[found.down], editor.constants[found.up]
    if weights.shape != (a.shape[0], b.shape[1]):
        return f"its product is {a.shape[0]}x{b.shape[1]}, the weights {list(weights.shape)}"
    if found.scale is None:
        return "its scale isn't one constant number"
    shape = editor.types[found.sum.outputs[0]].shape
    if any(editor.types[name].shape != shape for name in found.sum.inputs):
        return "the sum broadcasts"
    if shape[-1:] != editor.types[product.outputs[0]].shape[-1:]:
        return "a reshape behind the product cuts its channels"
    return _shared(found, editor)


def _shared(found: _Branch, editor: GraphEditor) -> str:
    """Whether something else reads what the merged product will no longer be."""
    value = found.base
    while True:
        operator = editor.producer(value)
        assert operator is not None
        if editor.only_reader(value) is None:
            return f"%{value}, the product without it, is read elsewhere too"
        if operator.name == found.product.name:
            return ""
        data = [name for name in operator.inputs if name not in editor.constants]
        value = data[0]


def _merge(found: _Branch, editor: GraphEditor) -> str:
    """Let the product have the merged weights, and what leads from it the sum's name."""
    assert found.scale is not None
    weights = editor.constants[found.product.inputs[1]]
    a, b = editor.constants[found.down], editor.constants[found.up]
    with np.errstate(over="ignore", invalid="ignore"):
        adapted = np.asarray(weights, np.float64) + found.scale * _exact(a, b)
        merged = adapted.astype(weights.dtype)
    if not np.isfinite(merged).all():
        return "the merged weights aren't finite"
    name = editor.add_constant(f"{found.product.inputs[1]}.merged", merged)
    x, _, *rest = found.product.inputs
    editor.put(replace(found.product, inputs=(x, name, *rest)))
    last = editor.producer(found.base)
    assert last is not None
    editor.drop(found.sum.name)
    editor.put(replace(last, outputs=found.sum.outputs))
    return ""


def _exact(a: Array, b: Array) -> NDArray[np.float64]:
    """The product of two matrices, the same on every machine."""
    bits = factor_bits(a.shape[1])
    left, right = (np.asarray(on_grid(data, bits), np.float64) for data in (a, b))
    return np.asarray(np.matmul(left, right), np.float64)
