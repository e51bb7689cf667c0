"""Random devices: npu_tiny with other memories, channels, layouts, limits and operator lists."""

from __future__ import annotations

from dataclasses import replace

from stages.hardware.spec import HardwareSpec, SyncMode
from stages.recipe.kinds import Kind
from stages.tensors import DType, Layout, LayoutKind
from tests.compiler.model_builder import Choices
from tests.compiler.specs import hardware

_WINDOWED = (Kind.CONV, Kind.CONV_TRANSPOSE, Kind.MAX_POOL, Kind.AVERAGE_POOL)
_STAGES = (
    frozenset(),
    frozenset({"relu", "quantize", "dequantize"}),
    frozenset({"add", "relu", "cast", "quantize", "dequantize"}),
)


def random_spec(choices: Choices) -> HardwareSpec:
    """A device that no one makes, but someone could."""
    spec = hardware("npu_tiny")
    spec = replace(
        spec,
        sram=replace(
            spec.sram,
            size_bytes=choices.pick((32, 64, 24, 256)) * 1024,
            reserved_bytes=choices.pick((0, 1024, 96)),
            alignment_bytes=choices.pick((64, 1, 16, 256)),
        ),
        ddr=replace(spec.ddr, alignment_bytes=choices.pick((64, 1, 4096))),
        dma=replace(
            spec.dma,
            channels=choices.pick((1, 2, 3)),
            outstanding=choices.pick((2, 1, 8)),
            max_dimensions=choices.pick((5, 1, 2, 3)),
            max_transfer_bytes=choices.pick((64 * 1024, 4096, 1024)),
        ),
        driver=replace(spec.driver, sync_mode=choices.pick(tuple(SyncMode))),
    )
    spec = _with_layouts(spec, choices)
    if choices.integer(0, 1):
        stage = choices.pick(_STAGES)
        spec = replace(spec, tensor_core=replace(spec.tensor_core, output_stage=stage))
    if choices.integer(0, 1):
        core = replace(spec.tensor_core, max_m=choices.pick((256, 64)), max_n=128, max_k=4096)
        spec = replace(spec, tensor_core=core)
    dropped = {choices.pick(tuple(spec.operators)) for _ in range(choices.integer(0, 5))}
    kept = {
        kind: item
        for kind, item in spec.operators.items()
        if kind not in dropped or kind == Kind.RELAYOUT
    }
    return replace(spec, operators=kept)


def _with_layouts(spec: HardwareSpec, choices: Choices) -> HardwareSpec:
    kind = choices.pick((LayoutKind.NC1HWC2, LayoutKind.NHWC, LayoutKind.ROW_MAJOR))
    if kind is LayoutKind.ROW_MAJOR:
        return replace(spec, layouts={})
    quantum = choices.pick((8, 4, 16)) if kind is LayoutKind.NC1HWC2 else 1
    wanted = _WINDOWED if choices.integer(0, 1) else (Kind.CONV, Kind.MATMUL)
    narrow = choices.pick((1, 2)) * quantum
    quanta = {DType.F16: quantum, DType.I8: narrow, DType.U8: narrow, DType.F32: quantum}
    layouts = dict.fromkeys((str(item) for item in wanted), Layout(kind, quantum))
    return replace(spec, layouts=layouts, channel_quantum=quanta)
