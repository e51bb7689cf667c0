"""The compiler's estimate is what the device takes without jitter, for every plan of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from models import synthetic
from models.zoo import ZOO
from stages.compiler.pipeline import Compiled, compile_graph
from stages.device.simulated import SimulatedDevice
from stages.device.stalls import attribute
from stages.errors import CompileError
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.load import load_spec
from stages.hardware.spec import Cache, HardwareSpec, WeightCache
from stages.package import DecidedFacts, Manifest, Package
from stages.plan.costs import instruction_costs
from stages.plan.timing import plan_cycles, simulate
from stages.recipe.onnx_import import import_model
from tests.compiler.campaign import device_of, model_of

SPECS = sorted((Path(__file__).resolve().parents[2] / "hardware_specs").glob("*.yaml"))
SPECS = [path for path in SPECS if not path.name.endswith(".overlay.yaml")]
COMMITTED: dict[str, Callable[[], onnx.ModelProto]] = {
    "residual_cnn": synthetic.residual_cnn,
    "separable_net": synthetic.separable_net,
    "transformer_block": synthetic.transformer_block,
    "quantized_cnn": synthetic.quantized_cnn,
    "quantized_operators_cnn": synthetic.quantized_operators_cnn,
}


def assert_estimate_holds(compiled: Compiled, spec: HardwareSpec) -> None:
    """What the compiler says, what the clock says, what the attribution says, and what a device
    without weather measures, cold, are one number."""
    plan = compiled.plan
    estimate = plan_cycles(plan, spec)
    assert int(simulate(plan, spec).total_cycles[0]) == estimate
    assert attribute(instruction_costs(plan, spec)).total_cycles == estimate
    manifest = Manifest("m", "1" * 64, spec.name, spec.version, spec.digest, "0.1.0")
    device = SimulatedDevice(replace(spec, jitter=()))
    decided = DecidedFacts(packings=compiled.packings)
    package = Package(
        compiled.recipe, plan, compiled.weights, manifest, compiled.constants, decided=decided
    )
    device.load(package, Path())
    assert device.timeline().duration_ns == cycles_to_nanoseconds(spec, estimate)
    heat = device.measure(2, 1, 0).heat
    assert heat is not None
    assert set(heat.unthrottled_ns.tolist()) == {cycles_to_nanoseconds(spec, estimate)}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", COMMITTED)
def test_the_estimate_is_the_devices_time(name: str, path: Path) -> None:
    spec = load_spec(path)
    graph, constants = import_model(COMMITTED[name]())
    try:
        compiled = compile_graph(graph, constants, spec)
    except CompileError as refused:
        pytest.skip(str(refused))
    assert_estimate_holds(compiled, spec)


L2 = Cache(16_384, 64, 4, 8 * 10**9, 6 * 10**9, 20, 10)
KEPT = WeightCache(4_096, 8 * 10**9)


@pytest.mark.parametrize("seed", range(12))
def test_the_estimate_is_the_devices_time_for_any_model_on_any_device(seed: int) -> None:
    """Random models, each on a random device: caches, strict drivers, channels and host calls."""
    spec = device_of(seed, "random")
    spec = replace(spec, l2=L2 if seed % 2 else None, weight_cache=KEPT if seed % 3 else None)
    try:
        compiled = compile_graph(*import_model(model_of(seed).model), spec)
    except CompileError as refused:
        pytest.skip(str(refused))
    assert_estimate_holds(compiled, spec)


@pytest.mark.slow
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ZOO)
def test_the_estimate_is_the_devices_time_for_the_zoo(name: str, path: Path) -> None:
    spec = load_spec(path)
    compiled = compile_graph(*import_model(ZOO[name]()), spec)
    assert_estimate_holds(compiled, spec)
