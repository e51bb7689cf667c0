"""Random models from end to end: compiled, judged by the rules, run, and compared with the model
under ONNX Runtime. `python -m tests.compiler.campaign` runs as many as one likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.errors import CompileError
from tests.compiler.judged import case_of, compile_and_judge, compile_in_integers
from tests.compiler.model_builder import Item
from tests.compiler.random_models import RandomModel, random_model
from tests.compiler.random_specs import random_spec
from tests.compiler.specs import NAMES, hardware


@dataclass(frozen=True)
class DrawnChoices:
    """Decisions that hypothesis draws, and shrinks."""

    draw: st.DrawFn

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]


@st.composite
def models(draw: st.DrawFn) -> RandomModel:
    return random_model(DrawnChoices(draw), 8)


def allowed_to_refuse(error: CompileError, name: str) -> bool:
    """A refusal names the tensor, and only a shrunken device refuses these models."""
    return "%" in str(error) and "K" in name


@pytest.mark.parametrize("name", NAMES)
def test_a_random_model_computes_the_same_on_the_device(name: str) -> None:
    @settings(
        max_examples=15 if name == "nvidia_t4" else 40, suppress_health_check=list(HealthCheck)
    )
    @given(models())
    def check(made: RandomModel) -> None:
        case = case_of(made.model, made.feeds)
        try:
            compile_and_judge(case, hardware(name))
        except CompileError as error:
            if not allowed_to_refuse(error, name):
                raise

    check()


@pytest.mark.parametrize("name", ["npu_tiny/16K", "rk3588_npu", "ethos_u65_512"])
def test_a_random_model_in_integers_computes_what_its_recipe_means(name: str) -> None:
    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(models())
    def check(made: RandomModel) -> None:
        try:
            compile_in_integers(case_of(made.model, made.feeds), hardware(name))
        except CompileError as error:
            if not allowed_to_refuse(error, name):
                raise

    check()


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(models(), st.data())
def test_a_random_model_on_a_random_device(made: RandomModel, data: st.DataObject) -> None:
    spec = random_spec(DrawnChoices(data.draw))
    case = case_of(made.model, made.feeds)
    try:
        compile_and_judge(case, spec)
    except CompileError as error:
        if not allowed_to_refuse(error, "K"):
            raise
