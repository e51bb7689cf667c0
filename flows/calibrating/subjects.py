"""What a model in a file of measurements means: the zoo's, the registry's, or an ONNX file."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from flows.project.places import Project
from stages.errors import InputError

if TYPE_CHECKING:
    import onnx

    from stages.calibration.measurements import Precision
    from stages.calibration.plans import Subject
    from stages.compiler.quantization import Quantization
    from stages.hardware.spec import HardwareSpec
    from stages.normalizer.source import ModelSource
    from stages.recipe.graph import Graph
    from stages.tensors import Array

_ZOO = "models.zoo"
_OURS = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SubjectFinder:
    """Finds subjects by name; relative paths are looked for from `folder`, then from here."""

    project: Project
    folder: Path

    def find(self, name: str, where: str) -> Subject:
        """The subject of a name: a definition of the zoo goes before a registry entry, and that
        before a file.

        Raises:
            InputError: none of these, or the registry's entry is wrong.
        """
        from stages.calibration.plans import Subject

        if name in self._zoo:
            load = partial(self._build, name)
            return Subject(name, f"{self._zoo_digest}:{name}", load, self._nominal)
        source = self._source(name, where)
        digest = hashlib.sha256(source.path.read_bytes())
        digest.update(repr(sorted(source.bindings.items())).encode())
        if source.quantization is not None:
            digest.update(source.quantization.read_bytes())
        digest.update(self._zoo_digest.encode())
        own = source.quantization
        ranges = partial(_own_ranges, own) if own is not None else self._nominal
        return Subject(name, digest.hexdigest(), partial(_normalized, source), ranges)

    @property
    def _roots(self) -> tuple[Path, ...]:
        return (self.project.registry.resolve().parent, _OURS)

    @cached_property
    def _zoo(self) -> Mapping[str, object]:
        from stages.normalizer.factories import import_function

        build = import_function(f"{_ZOO}:build", self._roots)
        zoo = importlib.import_module(build.__module__).ZOO
        assert isinstance(zoo, Mapping)
        return zoo

    @cached_property
    def _zoo_digest(self) -> str:
        """A digest of the zoo's code: definitions share builders, so one changes with any."""
        folder = Path(str(importlib.import_module(_ZOO).__file__)).parent if self._zoo else _OURS
        digest = hashlib.sha256()
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

    def _build(self, name: str, precision: Precision) -> onnx.ModelProto:
        """The network with the device's types outside, as vendors time theirs."""
        from stages.normalizer.factories import import_function

        build = import_function(f"{_ZOO}:build", self._roots)
        adapt = import_function(f"{_ZOO}.device_io:with_device_types", self._roots)
        model: onnx.ModelProto = adapt(build(name), precision)
        return model

    def _nominal(
        self, graph: Graph, constants: Mapping[str, Array], spec: HardwareSpec
    ) -> Quantization:
        """int8 at the ends of what the device fuses."""
        from stages.normalizer.factories import import_function

        quantize = import_function(f"{_ZOO}.ranges:fused_quantization", self._roots)
        made: Quantization = quantize(graph, constants, spec)
        return made

    def _source(self, name: str, where: str) -> ModelSource:
        from stages.normalizer.registry import load_registry, resolve

        registry = load_registry(self.project.registry)
        word = name
        if name.endswith(".onnx"):
            paths = [self.folder / name, Path(name)]
            word = str(next((path for path in paths if path.is_file()), paths[-1]))
            if not Path(word).is_file():
                raise InputError(
                    f"no model file {name!r}",
                    where=where,
                    hint="a path is relative to the file of measurements, or to this folder",
                )
        elif name not in registry.entries:
            raise self._unknown(name, where)
        return resolve(word, registry, self.project.cache)

    def _unknown(self, name: str, where: str) -> InputError:
        from stages.hardware.vocabulary import nearest
        from stages.normalizer.registry import load_registry

        known = sorted({*self._zoo, *load_registry(self.project.registry).entries})
        near = nearest(name, known)
        hint = f"did you mean `{near}`?" if near else f"known: {', '.join(known)}"
        return InputError(
            f"no model {name!r}", where=where, hint=f"{hint}; or give the path of an .onnx file"
        )


def _normalized(source: ModelSource, _precision: Precision) -> onnx.ModelProto:
    from stages.normalizer.normalize import normalize_model

    return normalize_model(source).model


def _own_ranges(
    file: Path, graph: Graph, _constants: Mapping[str, Array], _spec: HardwareSpec
) -> Quantization:
    from stages.quantizer import given_ranges, load_settings

    return given_ranges(load_settings(file, graph))
