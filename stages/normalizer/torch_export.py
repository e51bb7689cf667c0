"""Torch modules become ONNX files: eval mode, static shapes, operator set 17."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.errors import InputError
from stages.normalizer.raising import RECIPE_OPSET


def export_module(module: Any, inputs: Any, target: Path) -> None:
    """Exports a torch module with `torch.onnx.export`, the tracing exporter first.

    The tracing exporter writes operator set 17 itself; the newer one writes 18 and converts. What
    the first can't trace goes to the second.

    Raises:
        InputError: neither can export it.
    """
    import torch

    names = (
        list(inputs) if isinstance(inputs, Mapping) else [f"input_{i}" for i in range(len(inputs))]
    )
    arguments = tuple(inputs.values()) if isinstance(inputs, Mapping) else tuple(inputs)
    module.eval()
    failures = []
    for dynamo in (False, True):
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    module, arguments, str(target), input_names=names,
                    opset_version=RECIPE_OPSET, dynamo=dynamo, external_data=False, verbose=False,
                )  # fmt: skip
        except Exception as error:  # torch raises many types, its exporters' own among them
            failures.append(f"{type(error).__name__}: {_first_line(error)}")
        else:
            return
    raise InputError(
        f"torch.onnx.export can't export {type(module).__name__}: {' / '.join(failures)}",
        where=f"torch module {type(module).__qualname__}",
        hint="check that the module runs on its example inputs",
    )


def _first_line(error: Exception) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # torch colours its messages
    return (plain.strip().splitlines() or [""])[0]
