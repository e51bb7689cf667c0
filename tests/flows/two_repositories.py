"""A pipeline's repository with its own code and two models, and a repository of five models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx

from flows.project.places import Project
from tests.flows.git_repositories import Repository
from tests.flows.merge_project import activated, write_model
from tests.flows.project_files import OF_DVC, copy_project

DEVICES = ("npu_tiny", "rk3588_npu")
NAME = "zoo"
MODELS = {
    "curved": activated("Tanh"),
    "plain": activated("Relu"),
    "smooth": activated("Sigmoid"),
    "steep": activated("HardSwish"),
    "wide": activated("Relu", channels=16),
}
_TAKEN = (
    *("stages", "flows", "models/*.py"),
    *(*OF_DVC, ".gitignore", "dvc.yaml"),
    *(f"hardware_specs/{name}.yaml" for name in DEVICES),
)
_FOLLOWED = f"{NAME}: {{url: ../model zoo, models: ['nets/*.onnx']}}\n"
_PARAMS = """matrix:
  models: [own_a, own_b]
  hardware: [npu_tiny, rk3588_npu]
normalize: {seed: 0, sample_count: 1}
validate: {min_cosine: 0.999}
benchmark: {runs: 60, warmup: 5, seed: 0}
gate: {max_p99_increase_percent: 5}
thermal_stress: {runs: 60, seed: 0, junction_celsius: 60.0}
"""


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """`own` is the pipeline's, `zoo` the models'."""

    own: Repository
    zoo: Repository

    @property
    def project(self) -> Project:
        """The pipeline's project."""
        return Project(self.own.folder)

    def save(self, name: str, model: onnx.ModelProto) -> None:
        """A model file in the zoo."""
        self.zoo.write(f"nets/{name}.onnx", model.SerializeToString())


def make_two_repositories(folder: Path) -> TwoRepositories:
    """Both committed, each on its branch main."""
    own, zoo = Repository.make(folder / "pipeline"), Repository.make(folder / "model zoo")
    copy_project(own.folder, *_TAKEN)
    own.write("params.yaml", _PARAMS)
    own.write("models/repositories.yaml", _FOLLOWED)
    write_model(own.folder, "own_a", activated("Relu"))
    write_model(own.folder, "own_b", activated("Sigmoid"))
    for name in DEVICES:
        own.write(f"baselines/{name}/.gitkeep", "")
    own.commit("the pipeline")
    made = TwoRepositories(own, zoo)
    for name, model in MODELS.items():
        made.save(name, model)
    zoo.write("README.md", "Our nets\n")
    zoo.commit("five nets")
    return made
