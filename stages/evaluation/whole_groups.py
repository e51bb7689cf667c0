"""A recipe's groups made ready to compute whole, without tiles, in the device's own arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stages.device.host import HostRuntime
from stages.device.kernels import ReadyKernel, ready
from stages.plan.instructions import Kernel
from stages.recipe.decisions import Group, Recipe
from stages.recipe.graph import Operator
from stages.recipe.semantics import rounded
from stages.tensors import Array, TensorType


@dataclass(frozen=True, slots=True)
class WholeGroup:
    """A group that computes its whole results from its whole operands.

    `operands` and `results` name what enters and leaves it, constants among the operands.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    operators: tuple[Operator, ...]
    result_types: tuple[TensorType, ...]
    kernel: ReadyKernel

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The results by name, each rounded to the type in which it is stored."""
        with np.errstate(all="ignore"):
            made = self.kernel.run([values[name] for name in self.operands])
        return {
            name: rounded(array, type_)
            for name, array, type_ in zip(self.results, made, self.result_types, strict=True)
        }

    def maker(self, value: str) -> Operator:
        """The operator that makes one of the results."""
        return next(operator for operator in self.operators if value in operator.outputs)


def whole_groups(recipe: Recipe) -> tuple[WholeGroup, ...]:
    """Every group, in execution order.

    Raises:
        DeviceError: the host can't load one of its nodes.
    """
    graph = recipe.graph
    by_name = {operator.name: operator for operator in graph.operators}
    readers = Counter(name for operator in graph.operators for name in operator.operands)
    readers.update(graph.outputs)
    host = HostRuntime()
    return tuple(
        _whole(group, [by_name[name] for name in group.operators], recipe, readers, host)
        for group in recipe.groups
    )


def run_whole(
    groups: Sequence[WholeGroup],
    recipe: Recipe,
    constants: Mapping[str, Array],
    sample: Mapping[str, Array],
) -> dict[str, Array]:
    """The outputs of the whole recipe for one sample, each group reading what the last ones made.

    Raises:
        DeviceError: a node fails on the host.
        InputError: an index or a shape that depends on data is out of range.
    """
    values = {name: constants[name] for name in recipe.graph.constants}
    values |= input_values(recipe, sample)
    wanted = set(recipe.graph.outputs)
    readers = Counter(name for group in groups for name in group.operands)
    for group in groups:
        values |= group.run(values)
        readers.subtract(group.operands)
        for name in {*group.operands, *group.results}:
            if not readers[name] and name not in wanted:
                del values[name]
    return {name: values[name] for name in recipe.graph.outputs}


def input_values(recipe: Recipe, sample: Mapping[str, Array]) -> dict[str, Array]:
    """A sample in the types in which the device takes it."""
    graph = recipe.graph
    return {name: rounded(sample[name], graph.types[name]) for name in graph.inputs}


def _whole(
    group: Group,
    members: Sequence[Operator],
    recipe: Recipe,
    readers: Counter[str],
    host: HostRuntime,
) -> WholeGroup:
    made = [name for member in members for name in member.outputs]
    within = Counter(name for member in members for name in member.operands)
    results = tuple(name for name in made if readers[name] > within[name])
    operands = tuple(name for name in within if name not in set(made))
    types = {name: recipe.graph.types[name] for name in (*within, *made)}
    kernel = Kernel(group.name, operands, results, tuple(members), types)
    return WholeGroup(
        name=group.name,
        operands=operands,
        results=results,
        operators=tuple(members),
        result_types=tuple(types[name] for name in results),
        kernel=ready(kernel, host),
    )
