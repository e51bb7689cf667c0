"""Older operator sets are raised to the recipe's, by onnx's version converter."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir

from stages.errors import InputError
from stages.normalizer.operators import ONNX_DOMAIN
from stages.normalizer.skeleton import through_proto

RECIPE_OPSET = 17
"""The operator set that every normalised model uses."""


def raise_opset(model: ir.Model) -> tuple[ir.Model, str]:
    """The model in operator set 17, if it came in an older one.

    Raises:
        InputError: the converter has no rule for an operator.
    """
    version = model.opset_imports.setdefault(ONNX_DOMAIN, RECIPE_OPSET)
    if version >= RECIPE_OPSET:
        return model, ""
    try:
        raised = through_proto(model, _convert)
    except (RuntimeError, onnx.version_converter.ConvertError) as error:
        raise InputError(
            f"operator set {version} can't be raised to {RECIPE_OPSET}: {_reason(error)}",
            where="opset_import",
            hint=f"export the model for operator set {RECIPE_OPSET}",
        ) from error
    return raised, f"{version} to {RECIPE_OPSET}"


def _convert(proto: onnx.ModelProto) -> onnx.ModelProto:
    for index, node in enumerate(proto.graph.node):
        # The converter addresses operators by name and mixes nameless ones up.
        node.name = node.name or f"{node.op_type}_{index}"
    return onnx.version_converter.convert_version(proto, RECIPE_OPSET)


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()[-1]
    return re.sub(r"^.*?Assertion `.*?` failed:\s*", "", text) or "unknown reason"
