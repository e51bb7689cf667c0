"""The end of an import: outputs get their names, and what nothing reads is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import.translation import GraphBuilder
from stages.tensors import Array


def finish(
    builder: GraphBuilder, name: str, inputs: list[str], outputs: list[str]
) -> tuple[Graph, dict[str, Array]]:
    """The finished graph, and the data of the constants that it reads."""
    wanted = [_output_name(builder, output, inputs) for output in dict.fromkeys(outputs)]
    renames, copies = _name_outputs(builder, wanted)
    operators = [_renamed(operator, renames) for operator in builder.operators]
    for old, new in renames.items():
        builder.types[new] = builder.types[old]
        if old in builder.constants:
            builder.constants[new] = builder.constants[old]
    for value, output in copies:
        source = renames.get(value, value)
        builder.types[output] = builder.types[source]
        builder.append(f"copy of {output}", Kind.IDENTITY, (source,), (output,), {})
        operators.append(builder.operators[-1])
    operators = _live(operators, wanted)
    used = dict.fromkeys([*inputs, *(name for operator in operators for name in operator.operands)])
    produced = [output for operator in operators for output in operator.outputs]
    constants = tuple(value for value in used if value in builder.constants)
    types = {value: builder.types[value] for value in dict.fromkeys([*used, *produced])}
    graph = Graph(name, tuple(inputs), tuple(wanted), constants, types, tuple(operators))
    return graph, {value: builder.constants[value] for value in constants}


def _output_name(builder: GraphBuilder, output: str, inputs: list[str]) -> str:
    """An output's name: another one where the model returns an input under the input's name."""
    if output not in inputs:
        return output
    copy = builder.fresh_value(f"{output}.output", builder.types[output])
    builder.aliases[copy] = output
    return copy


def _name_outputs(
    builder: GraphBuilder, outputs: list[str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Which values take another name, so that each output keeps its own; and which are copied.

    A copy is needed where two outputs share a value, and where an output is an input or a constant.
    """
    renames: dict[str, str] = {}
    copies: list[tuple[str, str]] = []
    for output in outputs:
        value = builder.resolve(output)
        if value in builder.producers:
            if value == output:
                continue
            if value not in outputs and value not in renames:
                renames[value] = output
                continue
        elif value == output and value in builder.constants:
            renames[value] = builder.fresh_value(f"{value}.constant", builder.types[value])
        copies.append((value, output))
    return renames, copies


def _renamed(operator: Operator, renames: Mapping[str, str]) -> Operator:
    names = (*operator.inputs, *operator.outputs)
    if not any(name in renames for name in names):
        return operator
    return replace(
        operator,
        inputs=tuple(renames.get(name, name) for name in operator.inputs),
        outputs=tuple(renames.get(name, name) for name in operator.outputs),
    )


def _live(operators: list[Operator], outputs: list[str]) -> list[Operator]:
    wanted = set(outputs)
    kept: list[Operator] = []
    for operator in reversed(operators):
        if any(output in wanted for output in operator.outputs):
            kept.append(operator)
            wanted.update(operator.operands)
    return kept[::-1]
