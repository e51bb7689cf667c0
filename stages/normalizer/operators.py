"""Which operators a model may hold: those of ONNX, and those that ONNX Runtime adds."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from stages.errors import InputError

ONNX_DOMAIN = ""
ONNX_DOMAIN_IN_FULL = "ai.onnx"
KNOWN_DOMAINS = frozenset({ONNX_DOMAIN, "ai.onnx.ml", "com.microsoft"})
"""Domains whose operators ONNX Runtime can run on the host."""

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip


def shorten_domain(model: ir.Model) -> str:
    """`ai.onnx` and the empty domain are one (ONNX IR, "Operator sets"): keep the short form.

    Raises:
        InputError: both are imported, in different versions.
    """
    count = 0
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        imports = graph.opset_imports
        if (version := imports.pop(ONNX_DOMAIN_IN_FULL, None)) is not None:
            if imports.setdefault(ONNX_DOMAIN, version) != version:
                raise InputError(
                    f'operator set imported twice, as "" {imports[ONNX_DOMAIN]} and as '
                    f'"{ONNX_DOMAIN_IN_FULL}" {version}',
                    where=f"opset_import of {graph.name or 'the graph'}",
                    hint="import it once",
                )
            count += 1
        for node in ir.traversal.RecursiveGraphIterator(graph):
            if node.domain == ONNX_DOMAIN_IN_FULL:
                node.domain = ONNX_DOMAIN
                count += 1
    return f"{count} spelled-out domains shortened" if count else ""


def check_operators(model: ir.Model) -> None:
    """Every operator is one that ONNX, or ONNX Runtime, defines.

    A foreign domain that is imported and not used is no fault. Model-local functions must have
    been inlined before.

    Raises:
        InputError: an operator of an unknown domain, or unknown to its operator set.
    """
    version = model.opset_imports.get(ONNX_DOMAIN, 1)
    newest = onnx.defs.onnx_opset_version()
    if version > newest:
        raise InputError(
            f"operator set {version} is newer than the newest that onnx {onnx.__version__} knows, "
            f"{newest}",
            where="opset_import",
            hint="install a newer onnx, or export for an older operator set",
        )
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain not in KNOWN_DOMAINS:
            raise InputError(
                f"unknown operator {node.domain}.{node.op_type}: its domain {node.domain!r} is "
                f"neither ONNX's nor ONNX Runtime's",
                where=place(node),
                hint="export the model without custom operators, or as a model-local function",
            )
        if node.domain == ONNX_DOMAIN and not onnx.defs.has(node.op_type, version):
            raise InputError(
                f"no operator {node.op_type!r} in operator set {version}",
                where=place(node),
                hint="raise the model's opset_import, or export it again",
            )


def refuse_random(model: ir.Model) -> None:
    """A result that differs from run to run can be neither validated nor compared.

    Raises:
        InputError: an operator draws random numbers.
    """
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain == ONNX_DOMAIN and node.op_type in _RANDOM:
            raise InputError(
                f"{node.op_type} draws random numbers, so two runs differ",
                where=place(node),
                hint="export the model in eval mode, or feed the random tensor as an input",
            )


def place(node: ir.Node) -> str:
    """How a message names an operator: by its own name, or else by what it makes."""
    if node.name:
        return f"operator {node.op_type} {node.name!r}"
    made = ", ".join(repr(value.name) for value in node.outputs if value.name)
    return f"operator {node.op_type} (nameless) that makes {made}"
