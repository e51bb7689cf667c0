"""The device runs nothing that the rules refuse, and they see all damage that changes numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from stages.compiler.pipeline import Compiled, compile_graph
from stages.device.admission import RefusedPlanError, admit
from stages.device.simulated import SimulatedDevice
from stages.package import DecidedFacts, Manifest, Package
from stages.plan.instructions import Binding, Opcode
from stages.plan.packing import Packed
from stages.plan.rules import check_plan
from stages.plan.rules.agreement import AGREEMENTS, check_agreement
from stages.recipe.onnx_import import import_model
from stages.tensors import DType
from tests.compiler.campaign import model_of
from tests.compiler.specs import hardware
from tests.device.mutants import Fate, mutants, subjects
from tests.plan.mutations import MUTATIONS

SPEC = hardware("npu_tiny/16K")
SEED = 51  # two inputs of one type, weights, kernels on the vector unit


def test_damaged_plans_are_refused_or_change_nothing() -> None:
    damages: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for subject in subjects(0, 8, ("npu_tiny/16K", "rk3588_npu")):
        for found in mutants(subject, each=3):
            assert found.fate in (Fate.REFUSED, Fate.HARMLESS), found
            damages[found.mutation] += found.fate is Fate.REFUSED
            rules[found.rule] += 1
    assert rules["package-placement"] >= 15
    assert all(damages[mutation.__name__] for mutation in MUTATIONS)


@cache
def compiled() -> Compiled:
    return compile_graph(*import_model(model_of(SEED).model), SPEC)


def package(made: Compiled) -> Package:
    manifest = Manifest("m", "1" * 64, SPEC.name, SPEC.version, SPEC.digest, "0.1.0")
    decided = DecidedFacts(packings=made.packings)
    return Package(made.recipe, made.plan, made.weights, manifest, decided=decided)


def renamed_input() -> Compiled:
    made = compiled()
    (first, *rest) = made.plan.inputs
    inputs = (Binding("another", first.region), *rest)
    return replace(made, plan=replace(made.plan, inputs=inputs))


def without_weights() -> Compiled:
    return replace(compiled(), weights={})


def narrower_weights() -> Compiled:
    made = compiled()
    name = next(iter(made.weights))
    return replace(made, weights={**made.weights, name: made.weights[name][:-1]})


def without_packings() -> Compiled:
    return replace(compiled(), packings=())


def packed_otherwise() -> Compiled:
    """A constant is made of another one, of another type."""
    made = compiled()
    first, *rest = made.packings
    assert isinstance(first, Packed)
    parts = (replace(first.parts[0], box=((0, 9),)), *first.parts[1:])
    return replace(made, packings=(replace(first, parts=parts), *rest))


def wider_inside() -> Compiled:
    """A value within a kernel has another float type than the recipe's."""
    made = compiled()
    place, name = next(
        (place, name)
        for place, kernel in enumerate(made.plan.kernels)
        for name, held in kernel.types.items()
        if name not in (*kernel.parameters, *kernel.results) and held.dtype is DType.F16
    )
    kernel = made.plan.kernels[place]
    types = {**kernel.types, name: replace(kernel.types[name], dtype=DType.F64)}
    kernels = list(made.plan.kernels)
    kernels[place] = replace(kernel, types=types)
    return replace(made, plan=replace(made.plan, kernels=tuple(kernels)))


def other_operator() -> Compiled:
    """The first kernel's operator under another name."""
    made = compiled()
    kernel, *rest = made.plan.kernels
    operators = (replace(kernel.operators[0], name="another"), *kernel.operators[1:])
    kernels = (replace(kernel, operators=operators), *rest)
    return replace(made, plan=replace(made.plan, kernels=kernels))


def one_tile_less() -> Compiled:
    """The last compute instruction becomes a back-off; its buffers were written before."""
    made = compiled()
    rows = list(made.plan.instructions)
    place = max(i for i, row in enumerate(rows) if row.opcode is Opcode.VECTOR)
    rows[place] = replace(
        rows[place], opcode=Opcode.THERMAL_BACKOFF, reads=(), writes=(), kernel=-1, cycles=1
    )
    return replace(made, plan=replace(made.plan, instructions=tuple(rows)))


def unlaunched_group() -> Compiled:
    made = compiled()
    rows = tuple(replace(row, launch=False) for row in made.plan.instructions)
    return replace(made, plan=replace(made.plan, instructions=rows))


def exchanged_inputs() -> Compiled:
    """Each input comes where the other is read."""
    made = compiled()
    one, two = made.plan.inputs
    inputs = (Binding(one.name, two.region), Binding(two.name, one.region))
    return replace(made, plan=replace(made.plan, inputs=inputs))


def exchanged_scales() -> Compiled:
    """Two constants of one type lie where the other is read."""
    made = compiled()
    one, two, *rest = made.plan.constants
    assert one.region.shape == two.region.shape
    constants = (Binding(one.name, two.region), Binding(two.name, one.region), *rest)
    return replace(made, plan=replace(made.plan, constants=constants))


BROKEN: dict[str, list[Callable[[], Compiled]]] = {
    "interface": [renamed_input],
    "constants": [without_weights, narrower_weights, without_packings, packed_otherwise],
    "operators": [other_operator, one_tile_less, wider_inside],
    "groups": [unlaunched_group],
    "values": [exchanged_inputs],
    "placement": [exchanged_scales],
}


def test_every_package_rule_is_broken_here() -> None:
    assert set(BROKEN) == {rule.__name__ for rule in AGREEMENTS}
    made = compiled()
    assert made.weights
    assert check_agreement(made.plan, made.recipe, made.weights, made.packings) == ()
    admit(package(made), SPEC)


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        pytest.param(rule, case, id=f"{rule}-{case.__name__}")
        for rule, cases in BROKEN.items()
        for case in cases
    ],
)
def test_a_package_that_breaks_a_rule_is_refused(rule: str, case: Callable[[], Compiled]) -> None:
    made = case()
    violations = check_agreement(made.plan, made.recipe, made.weights, made.packings)
    assert f"package-{rule}" in {violation.rule for violation in violations}
    device = SimulatedDevice(SPEC)
    with pytest.raises(RefusedPlanError) as refused:
        device.load(package(made), Path())
    assert refused.value.violations == (check_plan(made.plan, SPEC) or violations)
    assert "hint: " in str(refused.value)


def test_a_refused_package_leaves_the_loaded_one_alone() -> None:
    device, feeds = SimulatedDevice(SPEC), model_of(SEED).feeds
    device.load(package(compiled()), Path())
    before = device.infer(feeds).outputs
    with pytest.raises(RefusedPlanError):
        device.load(package(unlaunched_group()), Path())
    after = device.infer(feeds).outputs
    assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)
