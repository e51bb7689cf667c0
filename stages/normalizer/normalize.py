"""A model from anywhere -> the same model in the form that recipes start from.

The steps, in order, each a function of its own module:

    read        the file; external data stay where they are
    functions   model-local functions inlined, `ai.onnx` shortened, operators known
    inputs      initialisers aren't inputs, dynamic axes bound
    mode        BatchNormalization and Dropout in inference mode
    opset       raised to 17, or (after folding) lowered to it
    folding     constants, shape arithmetic, constant conditions, dead branches, no-ops
    tidying     outputs made by nodes, node names, no traces of the exporter
    check       every shape static, every element type one that a recipe can hold
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx_ir import external_data
from onnx_ir.passes import common

from stages.errors import InputError
from stages.normalizer.bindings import bind_inputs
from stages.normalizer.folding import fold_constants
from stages.normalizer.inference_mode import use_inference_mode
from stages.normalizer.legality import check_legal
from stages.normalizer.lowering import expand_newer_functions, lower_opset
from stages.normalizer.operators import ONNX_DOMAIN, check_operators, shorten_domain
from stages.normalizer.raising import RECIPE_OPSET, raise_opset
from stages.normalizer.reading import read_model
from stages.normalizer.shapes import forget_inferred, require_static
from stages.normalizer.source import NO_BINDINGS, ModelSource
from stages.normalizer.tidying import make_outputs, mend_split, name_nodes, strip_traces
from stages.normalizer.type_check import require_one_type

_INITIALIZERS_APART = 4
"""The first IR version in which an initialiser needn't be an input."""

LARGEST_MESSAGE_BYTES = 1_900_000_000
"""Protobuf messages end at 2 GB; larger models keep their weights in a file beside them."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that changed something, and what it did in words."""

    name: str
    done: str


@dataclass(frozen=True, slots=True)
class Normalized:
    """A clean graph, and how it came about.

    `comparable` is the graph that computes what the normalised one should, where that isn't the
    file itself: training mode switched off, a scalar input fixed, or an invalid attribute dropped.
    """

    graph: ir.Model
    comparable: ir.Model | None
    original_sha256: str
    opset_from: int
    bindings: Mapping[str, int]
    steps: tuple[Step, ...]
    operators_before: Mapping[str, int]
    operators_after: Mapping[str, int]
    renamed_outputs: Mapping[str, str]

    @property
    def model(self) -> onnx.ModelProto:
        """The graph as a message; its weights in memory.

        Raises:
            InputError: it is larger than a message can be; save it with `save_model`.
        """
        if weight_bytes(self.graph) > LARGEST_MESSAGE_BYTES:
            raise InputError(
                "a model over 2 GB doesn't fit one protobuf message",
                where=str(self.graph.graph.name),
                hint="use the model.onnx that the normalize stage writes",
            )
        return ir.to_proto(external_data.load_to_model(self.graph))


def normalize_model(source: ModelSource, bindings: Mapping[str, int] = NO_BINDINGS) -> Normalized:
    """Normalises the model in `source.path`; `bindings` override the source's axis by axis.

    Raises:
        InputError: the model can't be read, bound, converted, or given static shapes.
    """
    log = _Log()
    opened = read_model(source.path)
    model = opened.model
    opset_from = _stated_opset(model)
    before = count_operators(model.graph)
    log.add("domains", shorten_domain(model))
    log.add("functions", _inline_functions(model))
    check_operators(model)
    comparable = None
    log.add("initialisers", _separate_initializers(model))
    inputs = len(model.graph.inputs)
    done, used = bind_inputs(model, source.bindings, bindings)
    log.add("bindings", done)
    altered = [
        log.add("inference mode", use_inference_mode(model)),
        log.add("mending", mend_split(model)),
        len(model.graph.inputs) != inputs,
    ]
    check_legal(model)
    if any(altered):
        comparable = model.clone()
    log.add("stale shapes", forget_inferred(model))
    signature, names = _signature(model), _names(model.graph.outputs)
    model = _convert(model, log)
    _require_signature(model, signature)
    assert _names(model.graph.outputs) == names, "a conversion renamed an output"
    log.add("outputs", make_outputs(model))
    pairs = zip(names, _names(model.graph.outputs), strict=True)
    renamed = {old: new for old, new in pairs if old != new}
    log.add("node names", name_nodes(model))
    log.add("traces", strip_traces(model))
    require_one_type(model)
    require_static(model)
    return Normalized(
        graph=model,
        comparable=comparable,
        original_sha256=opened.sha256,
        opset_from=opset_from,
        bindings=used,
        steps=tuple(log.steps),
        operators_before=before,
        operators_after=count_operators(model.graph),
        renamed_outputs=renamed,
    )


def save_model(model: ir.Model, path: Path) -> None:
    """Writes a model; weights over 2 GB go to a file `NAME.data` beside it, streamed."""
    if weight_bytes(model) > LARGEST_MESSAGE_BYTES:
        ir.save(model, path, external_data=f"{path.name}.data")
    else:
        message = ir.to_proto(external_data.load_to_model(model))
        path.write_bytes(message.SerializeToString(deterministic=True))


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initialisers."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def count_operators(graph: ir.Graph) -> dict[str, int]:
    """Nodes of the main graph by operator, foreign domains spelled out, sorted by name."""
    counts = Counter(
        f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in graph
    )
    return dict(sorted(counts.items()))


class _Log:
    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, name: str, done: str) -> bool:
        """Notes a step if it did something; says whether it did."""
        if done:
            self.steps.append(Step(name, done))
        return bool(done)


def _names(values: Sequence[ir.Value]) -> list[str]:
    return [str(value.name) for value in values]


def _signature(model: ir.Model) -> list[str]:
    return [f"{value.name}: {value.type} {value.shape}" for value in model.graph.inputs]


def _require_signature(model: ir.Model, before: list[str]) -> None:
    """onnx's converter takes the batch axis off inputs that a Scan of operator set 8 reads."""
    after = _signature(model)
    if after != before:
        raise InputError(
            f"raising the operator set changed the inputs from {before} to {after}",
            where="opset_import",
            hint=f"export the model for operator set {RECIPE_OPSET}",
        )


def _stated_opset(model: ir.Model) -> int:
    imports = model.opset_imports
    return imports.get(ONNX_DOMAIN, imports.get("ai.onnx", RECIPE_OPSET))


def _inline_functions(model: ir.Model) -> str:
    count = len(model.functions)
    if count:
        common.InlinePass()(model)
        common.RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
    return f"{count} model-local functions inlined" if count else ""


def _separate_initializers(model: ir.Model) -> str:
    before = len(model.graph.inputs)
    common.RemoveInitializersFromInputsPass()(model)
    model.ir_version = max(model.ir_version, _INITIALIZERS_APART)
    removed = before - len(model.graph.inputs)
    return f"{removed} were inputs too" if removed else ""


def _convert(model: ir.Model, log: _Log) -> ir.Model:
    """To operator set 17, constants folded and shapes known."""
    model, done = raise_opset(model)
    log.add("opset", done)
    model, done = fold_constants(model)
    log.add("folding", done)
    model, done = expand_newer_functions(model)
    expanded = log.add("newer operators", done)
    if expanded:
        model, done = fold_constants(model)
        log.add("folding", done)
    if log.add("opset", lower_opset(model)):
        model, done = fold_constants(model)
        log.add("folding", done)
    return model
