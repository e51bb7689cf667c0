"""A quantisation with nominal ranges: for timing, what counts is which values are int8."""

from __future__ import annotations

from collections import defaultdict

import onnx

from stages.compiler.quantization import Quantization, Range
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model

NOMINAL = Range(-8.0, 8.0)
"""One range for all: concatenation, pooling and addition need no change of scale then, which
vendors' tools arrange too."""

_PRODUCTS = frozenset({Kind.CONV, Kind.CONV_TRANSPOSE, Kind.MATMUL})
_STAGES = frozenset({*_PRODUCTS, Kind.BATCH_NORM, Kind.ADD, Kind.MUL})
_ACTIVATIONS = frozenset(
    {
        Kind.RELU,
        Kind.LEAKY_RELU,
        Kind.CLIP,
        Kind.SIGMOID,
        Kind.TANH,
        Kind.HARD_SIGMOID,
        Kind.HARD_SWISH,
        Kind.SILU,
        Kind.ELU,
        Kind.SOFTPLUS,
    }
)


def nominal_quantization(model: onnx.ModelProto) -> Quantization:
    """The same range for every float activation of a model that is stored.

    Values within what vendors' compilers fuse get none: between a convolution, sum or product and
    its activation (SiLU's two operators included), and between a convolution and the sum that
    follows it, where one of the operands is such.

    Raises:
        InputError, CompileError: the model can't be imported.
    """
    graph, constants = import_model(model)
    inner = _inner_values(graph)
    return Quantization(
        {
            name: NOMINAL
            for name, type_ in graph.types.items()
            if type_.dtype.is_float and name not in constants and name not in inner
        },
        frozenset(),
    )


def _inner_values(graph: Graph) -> set[str]:
    readers: dict[str, list[Operator]] = defaultdict(list)
    for operator in graph.operators:
        for name in operator.inputs:
            readers[name].append(operator)
    made_by = {name: operator for operator in graph.operators for name in operator.outputs}
    inner: set[str] = set()
    for operator in graph.operators:
        if operator.kind in _STAGES and operator.outputs[0] not in graph.outputs:
            inner |= _before_activation(operator.outputs[0], readers)
        if operator.kind is Kind.ADD:
            inner |= _before_sum(operator, readers, made_by)
    return inner - set(graph.outputs)


def _before_activation(value: str, readers: dict[str, list[Operator]]) -> set[str]:
    """The value, where only an activation reads it; with the gate, where that is SiLU."""
    kinds = [reader.kind for reader in readers[value]]
    if len(kinds) == 1:
        return {value} if kinds[0] in _ACTIVATIONS else set()
    gates = [reader for reader in readers[value] if reader.kind is Kind.SIGMOID]
    products = [reader for reader in readers[value] if reader.kind is Kind.MUL]
    if len(kinds) == 2 and gates and products and gates[0].outputs[0] in products[0].inputs:
        return {value, gates[0].outputs[0]}
    return set()


def _before_sum(
    operator: Operator, readers: dict[str, list[Operator]], made_by: dict[str, Operator]
) -> set[str]:
    """The latest operand of a sum that a convolution or product makes for it alone."""
    fusable = [
        name
        for name in operator.inputs
        if name in made_by and made_by[name].kind in _PRODUCTS and len(readers[name]) == 1
    ]
    return set(fusable[-1:])
