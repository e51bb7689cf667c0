"""Digests of packages of some random models: `python -m tests.compiler.fingerprint SEED ...`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from stages.compiler.pipeline import compile_graph
from stages.package import Manifest, Package, write_package
from stages.recipe.onnx_import import import_model
from stages.version import COMPILER_VERSION
from tests.compiler.campaign import model_of
from tests.compiler.specs import hardware

DEVICES = ("npu_tiny/16K", "rk3588_npu")


def package_digest(seed: int, name: str) -> str:
    """The sha256 of the package that a seed's model becomes on a device, biases corrected."""
    spec = hardware(name)
    model = model_of(seed)
    graph, constants = import_model(model.model)
    compiled = compile_graph(graph, constants, spec, sample=model.feeds)
    manifest = Manifest(
        model=graph.name,
        model_sha256="0" * 64,
        hardware=spec.name,
        hardware_version=spec.version,
        hardware_sha256=spec.digest,
        compiler_version=COMPILER_VERSION,
    )
    package = Package(
        compiled.recipe,
        compiled.plan,
        compiled.weights,
        manifest,
        compiled.constants,
        compiled.weighed,
    )
    with tempfile.TemporaryDirectory() as folder:
        return write_package(Path(folder) / "package", package).package_sha256


if __name__ == "__main__":
    for word in sys.argv[1:]:
        print(*(package_digest(int(word), name) for name in DEVICES))
