"""Newer operator sets are lowered to the recipe's.

onnx's version converter has no downward rule for Pad or Resize and leaves attributes behind that
operator set 17 hasn't (Split's `num_outputs`), so the differences between operator sets 17 and
28, read from onnx's own schemas, are undone here: one function an operator. Operators that came
later are replaced by the body that their schema gives.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import onnx
import onnx_ir as ir
from onnx import inliner

from stages.errors import InputError
from stages.normalizer.bodies import expand_one_by_one
from stages.normalizer.lowering_rules import RULES, no_form
from stages.normalizer.operators import ONNX_DOMAIN
from stages.normalizer.raising import RECIPE_OPSET
from stages.normalizer.skeleton import through_proto

_WITHOUT_INFERENCE = frozenset({"MeanVarianceNormalization"})
"""Operators of set 17 that onnx gives a body, but no shape rule."""


def expand_newer_functions(model: ir.Model) -> tuple[ir.Model, str]:
    """Operators newer than set 17 whose schema gives them a body (Gelu, Attention) become it."""
    expanded: list[str] = []
    while newer := _expandable(model):
        expanded.extend(newer)
        _state_defaults(model, newer)
        try:
            model = through_proto(model, partial(_expand, newer))
        except RuntimeError as error:
            if not expand_one_by_one(model, newer):
                raise _unexpandable(model, newer) from error
    return model, ", ".join(expanded)


def lower_opset(model: ir.Model) -> str:
    """Makes every operator one of set 17, in place; constants must have been folded.

    Raises:
        InputError: an operator, or an option of it, has no form in operator set 17.
    """
    version = model.opset_imports[ONNX_DOMAIN]
    if version <= RECIPE_OPSET:
        return ""
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain != ONNX_DOMAIN:
            continue
        if not onnx.defs.has(node.op_type, RECIPE_OPSET):
            raise no_form(node, f"{node.op_type} came after operator set {RECIPE_OPSET}")
        rule = RULES.get(node.op_type)
        if rule is not None:
            rule(node)
        _drop_defaults(node, version)
        _check_arity(node)
    model.opset_imports[ONNX_DOMAIN] = RECIPE_OPSET
    return f"{version} to {RECIPE_OPSET}"


def _unexpandable(model: ir.Model, names: list[str]) -> InputError:
    node = next(
        node
        for node in ir.traversal.RecursiveGraphIterator(model.graph)
        if node.domain == ONNX_DOMAIN and node.op_type in names
    )
    return no_form(node, f"{node.op_type} with these inputs")


def _expandable(model: ir.Model) -> list[str]:
    """Operators newer than set 17 that have a body in the model's own set."""
    version = model.opset_imports[ONNX_DOMAIN]
    return sorted(
        {
            node.op_type
            for node in ir.traversal.RecursiveGraphIterator(model.graph)
            if node.domain == ONNX_DOMAIN
            and (
                node.op_type in _WITHOUT_INFERENCE
                or (
                    not onnx.defs.has(node.op_type, RECIPE_OPSET)
                    and _has_body(node.op_type, version)
                )
            )
        }
    )


def _state_defaults(model: ir.Model, names: list[str]) -> None:
    """Writes default attributes out: onnx's inliner leaves references to missing ones empty."""
    version = model.opset_imports[ONNX_DOMAIN]
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain != ONNX_DOMAIN or node.op_type not in names:
            continue
        for name, formal in onnx.defs.get_schema(node.op_type, version).attributes.items():
            if name not in node.attributes and formal.default_value.name:
                node.attributes[name] = ir.serde.deserialize_attribute(formal.default_value)


def _expand(names: list[str], proto: onnx.ModelProto) -> onnx.ModelProto:
    ids = [(ONNX_DOMAIN, name) for name in names]
    return inliner.inline_selected_functions(proto, ids, inline_schema_functions=True)


def _has_body(op_type: str, version: int) -> bool:
    schema: Any = onnx.defs.get_schema(op_type, version)  # its stub lacks these two
    return bool(schema.has_function or schema.has_context_dependent_function)


def _drop_defaults(node: ir.Node, version: int) -> None:
    """Drops attributes that set 17 doesn't know where they only say the default."""
    known = onnx.defs.get_schema(node.op_type, RECIPE_OPSET).attributes
    newer = onnx.defs.get_schema(node.op_type, version).attributes
    for name, attribute in list(node.attributes.items()):
        if name in known:
            continue
        stated = newer[name].default_value if name in newer else None
        neutral = [0] if stated is None else [onnx.helper.get_attribute_value(stated)]
        value = attribute.value
        if value not in neutral and not _all_ones(value):
            raise no_form(node, f"{name}={value} of {node.op_type}")
        del node.attributes[name]


def _all_ones(value: object) -> bool:
    """Dilations of 1 are none."""
    return isinstance(value, (list, tuple)) and all(item == 1 for item in value)


def _check_arity(node: ir.Node) -> None:
    schema = onnx.defs.get_schema(node.op_type, RECIPE_OPSET)
    if len(node.inputs) > schema.max_input or len(node.outputs) > schema.max_output:
        raise no_form(node, f"{node.op_type} with {len(node.inputs)} inputs")
