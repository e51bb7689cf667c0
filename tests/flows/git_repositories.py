"""Small Git repositories for tests, whatever the user's own Git settings are."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flows.project.places import Project

_SETTINGS = {"init.defaultBranch": "main", "protocol.file.allow": "always", "gc.auto": "0"}
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2026-01-05T10:00:00Z",
    "GIT_COMMITTER_NAME": "Ann Author",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_COMMITTER_DATE": "2026-01-05T10:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_SETTINGS.values())},
}


def set_git_environment(patch: pytest.MonkeyPatch) -> None:
    """Lets every git of this process and of its children see these settings alone."""
    for key, value in ENVIRONMENT.items():
        patch.setenv(key, value)


@dataclass(frozen=True)
class Repository:
    """A work tree under Git."""

    folder: Path

    @staticmethod
    def make(folder: Path) -> Repository:
        """An empty repository, no commit yet."""
        folder.mkdir(parents=True, exist_ok=True)
        made = Repository(folder)
        made.git("init", "-q")
        return made

    def git(self, *arguments: str) -> str:
        """Runs git there; what it prints."""
        ended = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"git {arguments}: {ended.stderr}"
        return ended.stdout.strip()

    def write(self, path: str, content: bytes | str) -> Path:
        """Writes a file, with its folders."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, message: str = "work") -> str:
        """Commits all there is; the commit's hash."""
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


def make_project(folder: Path) -> tuple[Repository, Project]:
    """A project with the least that a workspace needs, committed."""
    repository = Repository.make(folder)
    repository.write(".gitignore", ".cache/\nresults/\nhistory/\n__pycache__/\n.dvc/config.local\n")
    repository.write("params.yaml", "# kept out of the way\nbenchmark:\n  runs: 10\n  seed: 0\n")
    repository.write("dvc.yaml", "stages: {}\n")
    repository.write("hardware_specs/npu_a.yaml", "name: npu_a\n")
    repository.write("stages/compile.py", "VERSION = 1\n")
    repository.write("models/own/model.yaml", "licence: none\n")
    repository.write(".dvc/config", "")
    repository.commit("the project")
    return repository, Project(folder)


def tiny_model(seed: int = 0, external: str | None = None) -> tuple[bytes, bytes]:
    """A dense layer as ONNX, and its external data where `external` names their file."""
    weights = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
    tensor = numpy_helper.from_array(weights, "w")
    data = tensor.raw_data
    if external is not None:
        onnx.external_data_helper.set_external_data(tensor, external, 0, len(data))
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "dense")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString(), data if external is not None else b""
