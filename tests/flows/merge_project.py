"""A project of two tiny models on one device, as a clone of this one would hold it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from flows.project.places import Project
from flows.project.requests import Pair
from flows.steps.board import Step, steps_of
from flows.steps.matrix_request import MatrixRequest, MatrixResult, Standing, StepAnswer
from flows.terminal.terminal import Terminal
from stages.errors import Outcome
from stages.report.facts import FOLDERS
from tests.flows.git_repositories import Repository
from tests.flows.project_files import OF_DVC, copy_project
from tests.flows.sample_reports import FALLBACK, LATENCY, REPORTS, write_report
from tests.flows.small_models import save

DEVICE = "npu_tiny"
_TAKEN = ("stages", "flows", "models/*.py", f"hardware_specs/{DEVICE}.yaml", *OF_DVC, "dvc.yaml")
PARAMS = """matrix:
  models: [net_a, net_b]
  hardware: [npu_tiny]
normalize: {seed: 0, sample_count: 1}
validate: {min_cosine: 0.999, max_relative_error: 0.01, min_sqnr_db: 30.0,
           max_fallbacks: null, max_sram_bytes: null, max_ddr_bytes: null}
benchmark: {runs: 60, warmup: 5, seed: 0}
gate: {max_p99_increase_percent: 5, max_p99_over_p50: 1.5}
thermal_stress: {runs: 60, seed: 0, junction_celsius: 60.0, max_p99_over_p50: 2.0}
"""
_MODEL = "description: {}\nlicence: Apache-2.0\nsource:\n  path: model.onnx\n"


def activated(activation: str, channels: int = 8, side: int = 16) -> onnx.ModelProto:
    """Two convolutions with an activation between them, called after its kind."""
    random = np.random.default_rng(3)
    kernels = [
        numpy_helper.from_array(
            (random.standard_normal((channels, inputs, 3, 3)) / 5).astype(np.float32), name
        )
        for name, inputs in (("k1", 3), ("k2", channels))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "k1"], ["c"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node(activation, ["c"], ["r"], f"{activation}_3"),
        helper.make_node("Conv", ["r", "k2"], ["y"], "conv2", pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "activated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, channels, side, side])],
        kernels,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_reports(folder: Path, p99_ns: int, package: str, *fallbacks: str) -> None:
    """All reports of a pair, as far as the gate asks for them; `fallbacks` are operators."""
    hosted = [FALLBACK | {"operators": [name], "kinds": ["host_call"]} for name in fallbacks]
    changes: dict[str, dict[str, object]] = {
        "validate": {"fallbacks": hosted},
        "benchmark": {"latency": LATENCY | {"p99_ns": p99_ns}},
        "gate": {"baseline_package": None},
    }
    for stage, name in FOLDERS.items():
        content = REPORTS.get(stage, {}) | {"package": package, "checks": []}
        write_report(stage, folder / name, content | changes.get(stage, {}))
    (folder / "benchmark" / "samples.csv").write_text(f"run,latency_ns\n0,{p99_ns}\n")
    (folder / "stress" / "stress.csv").write_text("run\n")


class FakeEngine:
    """Stands for the engine: a model with Atan in it is slow and on the host, one with Sinh has no
    recipe, and one with Cosh crashes the compiler. Notes what it ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, list[str]]] = []
        self.crashes_in: str = ""

    def run_matrix(self, request: MatrixRequest, _terminal: Terminal) -> MatrixResult:
        """As `flows.matrix.run_matrix`."""
        pairs = sorted(request.pairs or (), key=lambda pair: (pair.model, pair.hardware))
        self.ran.append((request.root.name, [pair.model for pair in pairs]))
        answers: dict[Step, StepAnswer] = {}
        for pair in pairs:
            answers |= self._answers(request.root, pair)
        result = MatrixResult(request.root, answers)
        for pair in pairs:
            kinds = _kinds(request.root, pair)
            slow = "Atan" in kinds
            if result.outcome_of(pair) is Outcome.PASSED:
                folder = result.places(pair).folder
                p99_ns = 3_000_000 if slow else 1_200_000
                write_reports(folder, p99_ns, "-".join(kinds), *(["Atan_3"] if slow else []))
        return result

    def _answers(self, root: Path, pair: Pair) -> dict[Step, StepAnswer]:
        kinds = _kinds(root, pair)
        outcome, message = Outcome.PASSED, ""
        if "Sinh" in kinds:
            outcome, message = Outcome.COMPILE_REFUSED, f"no room\nat: {root}/x\nhint: shrink it"
        if "Cosh" in kinds or root.name == self.crashes_in:
            outcome = Outcome.INTERNAL_ERROR
            message = f'Traceback (most recent call last):\n  File "{root}/x"\nKeyError: 1'
        steps = steps_of(pair)
        if outcome is Outcome.PASSED:
            return {step: StepAnswer(step, Standing.RAN, outcome, "") for step in steps}
        failed = StepAnswer(steps[1], Standing.FAILED, outcome, message)
        rest = (StepAnswer(step, Standing.SKIPPED, Outcome.PASSED, "") for step in steps[2:])
        first = StepAnswer(steps[0], Standing.RAN, Outcome.PASSED, "")
        return {answer.step: answer for answer in (first, failed, *rest)}


def _kinds(root: Path, pair: Pair) -> list[str]:
    """The operators of a pair's model."""
    path = next((root / "models" / pair.model).glob("*.onnx"))
    return [node.op_type for node in onnx.load(path).graph.node]


def write_model(root: Path, name: str, model: onnx.ModelProto) -> None:
    """A model folder."""
    folder = root / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / "model.onnx")
    (folder / "model.yaml").write_text(_MODEL.format(name))


def make_merge_project(folder: Path) -> tuple[Repository, Project]:
    """The project's own code, `net_a` and `net_b`, all committed on the branch main; the tag
    `before` is from when there was no graph yet."""
    repository = Repository.make(folder)
    repository.write("README.md", "to be done\n")
    repository.commit("begin")
    repository.git("tag", "before")
    copy_project(folder, *_TAKEN)
    repository.write(".gitignore", ".cache/\nresults/\nout/\n__pycache__/\n.dvc/config.local\n")
    repository.write("params.yaml", PARAMS)
    repository.write(f"baselines/{DEVICE}/.gitkeep", "")
    write_model(folder, "net_a", activated("Sigmoid"))
    write_model(folder, "net_b", activated("Relu"))
    repository.commit("two models")
    return repository, Project(folder)
