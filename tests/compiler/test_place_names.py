"""Names that the compiler makes up: none is one of the model's, whatever it calls its values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from stages.compiler.pipeline import Compiled
from stages.compiler.place_names import place_stems
from tests.compiler.campaign import model_of
from tests.compiler.judged import case_of, compile_and_judge, compile_in_integers
from tests.compiler.specs import hardware


def renamed(
    model: onnx.ModelProto, values: Mapping[str, str], nodes: Mapping[str, str]
) -> onnx.ModelProto:
    """The model with other names of some values and nodes."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for node in graph.node:
        node.input[:] = [values.get(name, name) for name in node.input]
        node.output[:] = [values.get(name, name) for name in node.output]
        node.name = nodes.get(node.name, node.name)
    for item in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        item.name = values.get(item.name, item.name)
    return result


def made_up(compiled: Compiled) -> tuple[set[str], set[str]]:
    """All names of values and places, and all of operators and groups, that a package holds."""
    plan, recipe = compiled.plan, compiled.recipe
    bound = (*plan.buffers, *plan.constants, *plan.inputs, *plan.outputs)
    inside = {name for kernel in plan.kernels for name in kernel.types}
    computed = {op.name for kernel in plan.kernels for op in kernel.operators}
    operators = {op.name for op in recipe.graph.operators}
    return (
        {item.name for item in bound} | inside | {*recipe.graph.types},
        computed | operators | {group.name for group in recipe.groups},
    )


def shuffled_onto(names: set[str], others: set[str], random: np.random.Generator) -> dict[str, str]:
    """Each of the names with another one, as far as these last."""
    free = random.permutation(sorted(others - names)).tolist()
    return dict(zip(random.permutation(sorted(names)).tolist(), free, strict=False))


@pytest.mark.parametrize("name", ["npu_tiny", "rk3588_npu", "ethos_u65_512"])
@pytest.mark.parametrize("seed", [5, 12, 17, 24, 46, 52, 68, 109, 144])
def test_a_model_may_call_its_values_as_the_compiler_would(seed: int, name: str) -> None:
    made, spec = model_of(seed), hardware(name)
    graph = made.model.graph
    values = {value for node in graph.node for value in (*node.input, *node.output) if value}
    values |= {item.name for item in (*graph.input, *graph.output)}
    nodes = {node.name for node in graph.node if node.name}
    case = case_of(made.model, made.feeds)
    variants = [compile_and_judge(case, spec)]
    if not made.is_quantized:
        variants.append(compile_in_integers(case, spec))
    random = np.random.default_rng(seed)
    for compiled in variants:
        of_values, of_operators = made_up(compiled)
        names = shuffled_onto(values, of_values, random)
        model = renamed(made.model, names, shuffled_onto(nodes, of_operators, random))
        feeds = {names.get(key, key): array for key, array in made.feeds.items()}
        compile_and_judge(case_of(model, feeds), spec)
        if not made.is_quantized:
            compile_in_integers(case_of(model, feeds), spec)


def test_a_group_keeps_its_name_unless_a_value_is_called_like_a_place_of_it() -> None:
    values = ["a/operand0.0", "b.weights", "c.weights.1", "d/rows.0.3", "e/other", "f.weights.w"]
    stems = place_stems(["a", "a_", "b", "c", "d", "e", "f", "g"], values)
    assert stems == {
        "a": "a__", "a_": "a_", "b": "b_", "c": "c_", "d": "d_", "e": "e", "f": "f", "g": "g",
    }  # fmt: skip
    assert len({*stems.values()}) == len(stems)
