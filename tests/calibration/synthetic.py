"""Plans whose times depend on every parameter in another proportion, and a spec to tune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from stages.calibration.fit import FitRow
from stages.calibration.parameters import choose_parameters
from stages.calibration.predict import Tuner, predict, read_base
from stages.plan.instructions import Plan
from tests.device.plans import conv_relu_at

SPECS = Path(__file__).resolve().parents[2] / "hardware_specs"
NAMES = ("memory.ddr.bandwidth", "driver.launch", "driver.submit", "tensor_core.efficiency")
TRUTH = {
    "memory.ddr.bandwidth": 2_700_000_000,
    "driver.launch": 1_350,
    "driver.submit": 47_000,
    "tensor_core.efficiency": 620,
}
_SHAPES = (
    (8, 8, 1), (8, 8, 40), (16, 8, 4), (32, 8, 2), (24, 16, 6), (12, 64, 3), (8, 128, 5),
    (48, 8, 9), (32, 32, 12), (8, 16, 90), (16, 96, 2), (64, 4, 3), (40, 24, 20), (8, 8, 300),
)  # fmt: skip


@cache
def synthetic_plans() -> tuple[Plan, ...]:
    """Convolutions of all shapes, repeated: few or many launches, many bytes or much work."""
    return tuple(_repeated(*shape) for shape in _SHAPES)


def _repeated(height: int, channels: int, times: int) -> Plan:
    plan = conv_relu_at(ddr=1 << 20, sram=1 << 10, height=height, channels=channels)
    return replace(plan, hardware="npu_tiny", instructions=plan.instructions * times)


def tuner_of(names: Sequence[str]) -> Tuner:
    """npu_tiny with these parameters."""
    document = read_base(SPECS / "npu_tiny.yaml")
    return Tuner(document, choose_parameters(document, names))


def true_values(tuner: Tuner) -> list[int]:
    """The values that the made-up device has."""
    return [TRUTH[parameter.name] for parameter in tuner.parameters]


def measured_rows(tuner: Tuner, factors: Sequence[float] | None = None) -> list[FitRow]:
    """The plans with what the made-up device takes for them, each by a factor too long."""
    device = tuner.spec(true_values(tuner))
    plans = synthetic_plans()
    errors = factors or [1.0] * len(plans)
    return [
        FitRow(plan, predict(plan, device) * error)
        for plan, error in zip(plans, errors, strict=True)
    ]
