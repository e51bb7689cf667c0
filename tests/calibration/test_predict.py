"""A predictor of one plan says what is said of the plan anew, whatever cache the specs have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stages.calibration import predict as room
from stages.calibration.predict import Predictor, predict
from stages.hardware.load import load_spec
from stages.hardware.spec import Cache, WeightCache
from stages.plan.costs import uses_of_cache
from tests.calibration.synthetic import SPECS, synthetic_plans

PLAIN = load_spec(SPECS / "npu_tiny.yaml")
SMALL = Cache(4_096, 64, 4, 8 * 10**9, 6 * 10**9, 20, 10)
LARGE = replace(SMALL, size_bytes=1 << 20)
VARIANTS = (
    PLAIN,
    replace(PLAIN, l2=SMALL),
    replace(PLAIN, l2=replace(SMALL, read_bandwidth=10**9, read_latency_ns=400)),
    replace(PLAIN, l2=replace(SMALL, line_bytes=128)),
    replace(PLAIN, l2=replace(SMALL, ways=1)),
    replace(PLAIN, l2=LARGE),
    replace(PLAIN, l2=LARGE, weight_cache=WeightCache(4_096, 8 * 10**9)),
)


def test_it_says_what_the_plan_takes_on_every_spec() -> None:
    plan = synthetic_plans()[3]
    predictor = Predictor(plan)
    anew = [predict(plan, spec) for spec in VARIANTS]
    assert [predictor.predict(spec) for spec in VARIANTS] == anew
    assert [predictor.predict(spec) for spec in reversed(VARIANTS)] == anew[::-1]
    assert len(set(anew)) > 3, "caches that make no difference would test nothing"


def test_a_cache_of_another_speed_is_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[object] = []

    def counted(*args: object) -> object:
        looked_up.append(args[1])
        return uses_of_cache(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(room, "uses_of_cache", counted)
    predictor = Predictor(synthetic_plans()[3])
    for spec in VARIANTS[1:3] * 2:
        predictor.predict(spec)
    assert looked_up == [VARIANTS[1]]
