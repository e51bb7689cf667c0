"""The simulated device as a whole: promises, refusals, agreement with the cost model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from stages.device.admission import RefusedPlanError
from stages.device.onnxruntime_host import OnnxRuntimeHost
from stages.device.protocol import Device, HeatedDevice, TracedDevice
from stages.device.session import Length
from stages.device.simulated import SimulatedDevice
from stages.device.surroundings import Surroundings
from stages.errors import DeviceError, InputError
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.spec import Trip
from stages.plan.instructions import Plan
from stages.plan.timing import plan_cycles
from tests.device.packages import package_of
from tests.device.plans import conv_relu_plan
from tests.device.specs import tiny_spec

RANDOM = np.random.default_rng(5)
WEIGHT = (RANDOM.standard_normal((8, 8, 3, 3)) * 0.1).astype(np.float16)
X = RANDOM.standard_normal((1, 8, 6, 6)).astype(np.float32)


def loaded(plan: Plan | None = None, jitter: bool = True) -> SimulatedDevice:
    spec = tiny_spec() if jitter else tiny_spec(jitter=())
    device = SimulatedDevice(spec)
    device.load(package_of(plan or conv_relu_plan(), {"w": WEIGHT}, spec), Path())
    return device


def test_it_keeps_the_protocols() -> None:
    device: HeatedDevice = loaded()
    traced: TracedDevice = loaded()
    assert "simulated" in device.name
    assert traced.timeline().duration_ns > 0


def test_a_calm_device_takes_exactly_the_cycles_of_the_cost_model() -> None:
    device = loaded(jitter=False)
    expected = cycles_to_nanoseconds(device.spec, plan_cycles(conv_relu_plan(), device.spec))
    assert set(device.measure(20, 3, 0).latencies_ns.tolist()) == {expected}
    assert device.timeline().duration_ns == expected


def test_two_devices_measure_the_same_bytes() -> None:
    first, again, other = (loaded().measure(50, 5, seed) for seed in (1, 1, 2))
    assert first.latencies_ns.tobytes() == again.latencies_ns.tobytes()
    assert first.latencies_ns.tobytes() != other.latencies_ns.tobytes()
    assert first.heat is not None
    assert again.heat is not None
    assert first.heat.junction_celsius.tobytes() == again.heat.junction_celsius.tobytes()


def test_two_inferences_give_the_same_bytes() -> None:
    device = loaded()
    assert (
        device.infer({"x": X}).outputs["y"].tobytes()
        == device.infer({"x": X}).outputs["y"].tobytes()
    )


def test_jitter_only_adds() -> None:
    calm = int(loaded(jitter=False).measure(1, 0, 0).latencies_ns[0])
    assert (loaded().measure(200, 0, 0).latencies_ns >= calm).all()


def test_a_hot_device_is_throttled_and_a_cold_one_isnt() -> None:
    cold, hot = loaded().measure(50, 0, 0), loaded().soak(Length(50), 0, Surroundings(85.0))
    assert cold.heat is not None
    assert hot.heat is not None
    assert set(cold.heat.clock_dividers.tolist()) == {1}
    assert set(hot.heat.clock_dividers.tolist()) == {2}
    assert (hot.heat.junction_celsius > 85).all()
    assert hot.latencies_ns.mean() > cold.latencies_ns.mean()


def test_the_compute_clock_alone_is_divided() -> None:
    spec = tiny_spec(jitter=())
    spec = replace(spec, thermal=replace(spec.thermal, trips=(Trip(60.0, 4, 1.0),)))
    device = SimulatedDevice(spec)
    package = package_of(conv_relu_plan(), {"w": WEIGHT}, spec)
    device.load(package, Path())
    calm = int(device.measure(1, 0, 0).latencies_ns[0])
    hot = int(device.soak(Length(1), 0, Surroundings(70.0)).latencies_ns[0])
    core = [span for span in device.timeline().spans if span.track == "tensor_core"]
    work = sum(span.duration_ns for span in core) - 200  # the launch isn't divided
    assert hot - calm == 3 * work


def test_refusals() -> None:
    spec = tiny_spec()
    with pytest.raises(DeviceError, match="no package"):
        SimulatedDevice(spec).measure(1, 0, 0)
    other = replace(conv_relu_plan(), hardware="another")
    with pytest.raises(RefusedPlanError, match="is for another"):
        loaded(other)
    plan = conv_relu_plan()
    hanging = replace(plan, instructions=tuple(i for i in plan.instructions if i.event != 1)
                      + tuple(i for i in plan.instructions if i.event == 1)[::-1])  # fmt: skip
    with pytest.raises(RefusedPlanError, match="awaits event 1") as refused:
        loaded(hanging)
    assert refused.value.violations[0].rule == "plan-event-order"


def test_the_host_runs_the_normalised_model(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 8, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 8, 6, 6])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    host: Device = OnnxRuntimeHost(path)
    with pytest.raises(DeviceError, match="no package"):
        host.measure(1, 0, 0)
    host.load(package_of(conv_relu_plan(), {"w": WEIGHT}), tmp_path)
    samples = host.measure(5, 1, 0)
    assert samples.latencies_ns.shape == (5,)
    assert (samples.latencies_ns > 0).all()
    half = X.astype(np.float16)
    np.testing.assert_array_equal(host.infer({"x": half}).outputs["y"], np.maximum(half, 0))
    with pytest.raises(DeviceError, match="failed"):
        host.infer({"x": X[0].astype(np.float16)})
    with pytest.raises(InputError, match="can't be read"):
        OnnxRuntimeHost(tmp_path / "nothing.onnx")
