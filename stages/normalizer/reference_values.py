"""What ONNX Runtime makes of a model on the way, not at its outputs alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx

from stages.normalizer.reference import OnnxRuntimeReference
from stages.tensors import Array

_LARGEST_MESSAGE_BYTES = 1_900_000_000  # protobuf refuses messages of 2 GiB


class ReferenceValues:
    """A normalised model in ONNX Runtime, optimisation disabled, that shows inner values too.

    Nothing is fused, so to show a value changes no other. A model of 2 GB or more, which can't be
    changed in memory, shows its outputs alone.

    Raises:
        InputError: ONNX Runtime refuses the model.
    """

    def __init__(self, path: Path, wanted: Collection[str]) -> None:
        size_bytes = sum(item.stat().st_size for item in path.parent.iterdir() if item.is_file())
        model = onnx.load(path, load_external_data=False)
        self.output_names = tuple(value.name for value in model.graph.output)
        if size_bytes < _LARGEST_MESSAGE_BYTES:
            onnx.load_external_data_for_model(model, str(path.parent))
            _show(model, wanted)
            self._reference = OnnxRuntimeReference(model)
        else:
            self._reference = OnnxRuntimeReference(path)

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """The model's outputs, and the tensors that were wanted and exist, by name.

        Raises:
            InputError: as `OnnxRuntimeReference.run`.
        """
        values = self._reference.run(sample)
        return {name: array for name, array in values.items() if isinstance(array, np.ndarray)}

    def outputs(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """The model's outputs alone.

        Raises:
            InputError: as `run`.
        """
        values = self.run(sample)
        return {name: values[name] for name in self.output_names}


def _show(model: onnx.ModelProto, wanted: Collection[str]) -> None:
    outputs = {value.name for value in model.graph.output}
    made = {name for node in model.graph.node for name in node.output if name}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name)
        for name in sorted(made.intersection(wanted).difference(outputs))
    )
