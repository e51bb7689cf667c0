"""What a package says of itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

FORMAT = 1
RECIPE, PLAN_TEXT, PLAN, WEIGHTS = "recipe.txt", "plan.txt", "plan.bin", "weights.safetensors"
CONSTANTS = "constants.safetensors"
EXPLANATION, DECISIONS = "explanation.json", "decisions.json"
DIGESTED = (RECIPE, PLAN_TEXT, PLAN, WEIGHTS, CONSTANTS, EXPLANATION, DECISIONS)
"""The files that the manifest vouches for."""
MANIFEST = "manifest.json"
STOPPED = "stopped.json"
"""Stands where a compile was stopped after a pass: see `stopped.py`."""
ENVIRONMENT = "compile_environment.json"
"""The one file that nothing vouches for: see `environment.py`."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file's length and the SHA-256 of its bytes, in hexadecimal."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """From what a package was made, by what, and the digest of each of its files.

    `model_sha256` is that of the normalised model's file, `hardware_sha256` the spec's digest,
    `quantization_sha256` that of the quantisation config, where there was one, and
    `quantization_data_sha256` those of the inputs that it names, by its keys; `cascades` says
    whether groups could run in cascades, `on` or `off`. `recipe_sha256` and `files` are filled in
    when the package is written.

    Nothing here depends on the machine, the clock or the load at compile time, so equal inputs
    give equal manifests.
    """

    model: str
    model_sha256: str
    hardware: str
    hardware_version: str
    hardware_sha256: str
    compiler_version: str
    quantization_sha256: str | None = None
    quantization_data_sha256: Mapping[str, str] = field(default_factory=dict)
    cascades: str = "on"
    recipe_sha256: str = ""
    files: Mapping[str, FileFacts] = field(default_factory=dict)

    @property
    def package_sha256(self) -> str:
        """The hash of the package: the SHA-256 of everything that the manifest says, the digests
        of the files included."""
        text = json.dumps(manifest_document(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def manifest_document(manifest: Manifest) -> dict[str, object]:
    """The manifest as JSON holds it, without the package's hash."""
    return {
        "format": FORMAT,
        "model": {"name": manifest.model, "sha256": manifest.model_sha256},
        "hardware": {
            "name": manifest.hardware,
            "version": manifest.hardware_version,
            "sha256": manifest.hardware_sha256,
        },
        "quantization": _quantization_document(manifest),
        "compiler_version": manifest.compiler_version,
        "strategy": {"cascades": manifest.cascades},
        "recipe_sha256": manifest.recipe_sha256,
        "files": {
            name: {"size_bytes": facts.size_bytes, "sha256": facts.sha256}
            for name, facts in manifest.files.items()
        },
        "not_digested": [ENVIRONMENT],
    }


def _quantization_document(manifest: Manifest) -> dict[str, object] | None:
    if manifest.quantization_sha256 is None:
        return None
    data = dict(manifest.quantization_data_sha256)
    return {"sha256": manifest.quantization_sha256} | ({"data": data} if data else {})


def print_manifest(manifest: Manifest) -> str:
    """The text of `manifest.json`."""
    document = {**manifest_document(manifest), "package_sha256": manifest.package_sha256}
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
