"""The mean over an image of a pointwise convolution: of the fewer channels before it instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isclose, prod

from stages.compiler.draft import Draft, GraphEditor
from stages.compiler.patterns import scalar
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.window import Window

_FEWER = 2
"""The convolution has at least so many output channels for each input channel."""


@dataclass(frozen=True, slots=True)
class MeanFirst:
    """`mean(conv(x, w, b))` over the image becomes `conv(mean(x), w, b)` where the convolution is
    pointwise and `x` has the fewer channels: both are linear. A squeeze-and-excite block behind
    such a convolution then reads less, and no longer waits for it.
    """

    name: str = "mean_first"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Swap every mean with the convolution before it where that is less work."""
        editor = GraphEditor(draft)
        for operator in draft.graph.operators:
            mean = _mean_of(operator.outputs[0], editor.producers, editor)
            conv = editor.producer(mean.source) if mean is not None else None
            if mean is not None and conv is not None and _is_wider(conv, mean, editor):
                _swap(mean, conv, editor)
        return editor.finish()


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `source` over an image: one operator, or a sum and a product with a number."""

    source: str
    operators: tuple[Operator, ...]


def made_means(graph: Graph, draft: Draft) -> dict[str, Mean]:
    """The means of values of a model that the model itself doesn't have, by name; `draft` is what
    was made of its graph."""
    editor = GraphEditor(draft)
    found: dict[str, Mean] = {}
    for operator in draft.graph.operators:
        (value,) = operator.outputs[:1]
        mean = None if value in graph.types else _mean_of(value, editor.producers, editor)
        if mean is not None and mean.source in graph.types and value.endswith(_SUFFIX):
            found[value] = mean
    return found


_SUFFIX = ".mean"


def _mean_of(value: str, producers: Mapping[str, Operator], editor: GraphEditor) -> Mean | None:
    last = producers.get(value)
    if last is None:
        return None
    if last.kind is Kind.REDUCE_MEAN and _over_image(last, editor):
        return Mean(last.inputs[0], (last,))
    if last.kind is not Kind.MUL:
        return None
    total, share = producers.get(last.inputs[0]), scalar(editor, last.inputs[1])
    if total is None or total.kind is not Kind.REDUCE_SUM or not _over_image(total, editor):
        return None
    count = prod(editor.types[total.inputs[0]].shape[2:])
    alone = editor.only_reader(total.outputs[0]) is last
    if share is None or not alone or not isclose(share * count, 1, rel_tol=1e-6):
        return None
    return Mean(total.inputs[0], (total, last))


def _over_image(reduction: Operator, editor: GraphEditor) -> bool:
    rank = len(editor.types[reduction.inputs[0]].shape)
    kept = reduction.integer("keepdims") == 1
    return rank > 2 and kept and reduction.integers("axes") == tuple(range(2, rank))


def _is_wider(conv: Operator, mean: Mean, editor: GraphEditor) -> bool:
    """Whether a pointwise convolution makes more channels than it reads."""
    if conv.kind is not Kind.CONV or conv.integer("group") != 1:
        return False
    if any(name not in editor.constants for name in conv.operands[1:]):
        return False
    out, channels, *kernel = editor.types[conv.inputs[1]].shape
    pointwise = Window.of(conv, tuple(kernel)).is_pointwise
    return pointwise and channels * _FEWER <= out and editor.types[mean.source].dtype.is_float


def _swap(mean: Mean, conv: Operator, editor: GraphEditor) -> None:
    """The mean's operators on what the convolution reads, and a convolution of its own for what
    they gave."""
    (result,) = mean.operators[-1].outputs
    value = conv.inputs[0]
    held = editor.types[value]
    one = replace(held, shape=(*held.shape[:2], *(1 for _ in held.shape[2:])))
    moved = list[Operator]()
    for operator in mean.operators:
        stem = f"{value}{_SUFFIX}" if operator is mean.operators[-1] else f"{value}.sum"
        made = editor.add_value(stem, one)
        source = moved[-1].outputs[0] if moved else value
        moved.append(replace(operator, inputs=(source, *operator.inputs[1:]), outputs=(made,)))
    for operator in moved:
        editor.put(operator)
    inputs = (moved[-1].outputs[0], *conv.inputs[1:])
    name = editor.fresh(f"{conv.name}.of_mean")
    editor.put(replace(conv, name=name, inputs=inputs, outputs=(result,)))
