"""What a quantisation is decided for, and the inputs that its file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stages.hardware.spec import HardwareSpec
from stages.normalizer.sample_files import Sample
from stages.quantizer.sets import InputSet, load_set
from stages.quantizer.settings import Settings
from stages.recipe.graph import Graph
from stages.tensors import Array


@dataclass(frozen=True, slots=True)
class Subject:
    """A normalised model, imported, its device, and the samples that came with it."""

    model: Path
    graph: Graph
    constants: Mapping[str, Array]
    spec: HardwareSpec
    samples_file: Path
    sample: Sample | None

    def load(self, settings: Settings, key: str, data: str) -> InputSet:
        """A set of inputs that the file names."""
        types = {name: self.graph.types[name] for name in self.graph.inputs}
        return load_set(data, key, settings.path, self.samples_file, types)
