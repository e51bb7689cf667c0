"""Running one pass on a recipe text, and comparing what comes out: as text, and in meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import dedent

import numpy as np

from stages.compiler.draft import Draft, Pass
from stages.hardware.spec import HardwareSpec
from stages.recipe.decisions import Group
from stages.recipe.semantics import interpret
from stages.recipe.text import parse_recipe, print_recipe
from stages.recipe.verify import verify
from stages.tensors import Array, TensorType
from tests.compiler.specs import hardware

Data = Mapping[str, Array | float]


@dataclass(frozen=True)
class Ran:
    """A draft before and after a pass."""

    before: Draft
    after: Draft

    @property
    def kinds(self) -> list[str]:
        """The kinds of the operators after the pass, in order."""
        return [str(op.kind) for op in self.after.graph.operators]

    @property
    def text(self) -> str:
        """The recipe after the pass, its header left out, one space between words."""
        return tidy(print_recipe(self.after.recipe).partition("\n")[2])

    @property
    def graph_text(self) -> str:
        """The same without the groups, of which each holds one operator."""
        assert all(len(group.operators) == 1 for group in self.after.recipe.groups)
        return "\n".join(line for line in self.text.split("\n") if not line.startswith("group"))


def tidy(text: str) -> str:
    """Lines without indentation and runs of spaces, so that texts compare word by word."""
    lines = (" ".join(line.split()) for line in dedent(text).split("\n"))
    return "\n".join(line for line in lines if line)


def draft_of(text: str, data: Data | None = None, spec: HardwareSpec | None = None) -> Draft:
    """A draft from recipe text without its header; constants that `data` lacks are random.

    Where the text has no groups, each operator is one.
    """
    spec = spec or hardware("npu_tiny")
    body = dedent(text) if "group " in text else tidy(text)
    recipe = parse_recipe(f"recipe m for {spec.name} {spec.version}\n{body}")
    random = np.random.default_rng(7)
    given = dict(data or {})
    constants = {
        name: _array(given[name], recipe.graph.types[name])
        if name in given
        else random_array(recipe.graph.types[name], random)
        for name in recipe.graph.constants
    }
    draft = Draft(recipe, constants)
    if not recipe.groups:
        draft = draft.with_groups(Group(op.name, (op.name,)) for op in recipe.graph.operators)
    verify(draft.recipe, draft.constants)
    return draft


def run_pass(
    step: Pass,
    text: str,
    data: Data | None = None,
    *,
    spec: HardwareSpec | None = None,
    tolerance: float = 1e-5,
) -> Ran:
    """Run a pass on recipe text; assert that the result is legal and means what it meant.

    `tolerance`: of each output, relative to its largest magnitude.
    """
    before = draft_of(text, data, spec)
    after = step.run(before, spec or hardware("npu_tiny"))
    verify(after.recipe, after.constants)
    assert_same_meaning(before, after, tolerance)
    return Ran(before, after)


def assert_same_meaning(before: Draft, after: Draft, tolerance: float) -> None:
    """Both drafts compute the same of random inputs."""
    graph = before.graph
    assert after.graph.inputs == graph.inputs
    assert after.graph.outputs == graph.outputs
    random = np.random.default_rng(11)
    feeds = {name: random_array(graph.types[name], random) for name in graph.inputs}
    wanted = interpret(graph, before.constants, feeds)
    actual = interpret(after.graph, after.constants, feeds)
    for name in graph.outputs:
        assert after.graph.types[name] == graph.types[name]
        one, other = np.asarray(actual[name], np.float64), np.asarray(wanted[name], np.float64)
        scale = float(np.abs(other).max(initial=1e-6))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale, err_msg=name)


def random_array(tensor_type: TensorType, random: np.random.Generator) -> Array:
    """Normal floats, integers and booleans of a type."""
    dtype = tensor_type.dtype.numpy
    if tensor_type.dtype.is_float:
        return random.standard_normal(tensor_type.shape).astype(dtype)
    if tensor_type.dtype == "bool":
        return random.integers(0, 2, tensor_type.shape).astype(dtype)
    return random.integers(0, 100, tensor_type.shape).astype(dtype)


def _array(data: Array | float, tensor_type: TensorType) -> Array:
    numbers = np.asarray(data).astype(tensor_type.dtype.numpy)
    return np.array(np.broadcast_to(numbers, tensor_type.shape), order="C")
