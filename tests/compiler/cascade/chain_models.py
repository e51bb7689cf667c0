"""Random chains of convolutions, pools, pointwise operators and residuals, and plans in which
every chain that can be a cascade is one, whether it pays or not."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from stages.compiler.cascade.chains import Chain, Site, axes_of, chains_ending, site_of
from stages.compiler.cascade.stripes import Striped, striped
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment
from stages.compiler.pipeline import Compiled, begin, begin_decisions, decisions, rewrites
from stages.compiler.progress import decide, rewrite
from stages.compiler.quantization import Quantization
from stages.compiler.tiling.streams import align
from stages.errors import DoesNotFitError
from stages.hardware.spec import HardwareSpec
from stages.plan.packing import pack
from tests.compiler.judged import Case, case_of
from tests.compiler.model_builder import Choices, ModelBuilder, Value


@dataclass(frozen=True)
class ChainPlans:
    """A model layer by layer, and with the cascades that were asked for."""

    case: Case
    layers: Compiled
    cascaded: Compiled
    cascades: tuple[Striped, ...]


def chain_case(choices: Choices, longest: int = 5) -> Case:
    """A chain of image operators, some of them with a residual around them."""
    random = np.random.default_rng(choices.integer(0, 2**16))
    builder = ModelBuilder(random)
    rows, columns = choices.pick((12, 9, 17, 24, 7)), choices.pick((6, 5, 8))
    value = builder.input((1, choices.pick((4, 3, 16)), rows, columns))
    earlier = [value]
    for _ in range(choices.integer(2, longest)):
        value = _next(builder, choices, value, earlier)
        earlier.append(value)
    return case_of(builder.model([value]), builder.feeds)


def late_residual() -> Case:
    """A residual block as late layers have them: few rows, many channels, and more weights than
    the SRAM holds."""
    builder = ModelBuilder(np.random.default_rng(2))
    source = builder.float_like("Relu", _pointwise(builder, builder.input((1, 64, 7, 7)), 1024))
    value = builder.float_like("Relu", _pointwise(builder, source, 512))
    value = builder.float_like("Add", _pointwise(builder, value, 1024), source.name)
    return case_of(builder.model([_pointwise(builder, value, 64)]), builder.feeds)


def joined_case(choices: Choices) -> Case:
    """Branches of several heights, brought to one and joined by their channels, as the neck
    of a text detector has them; then a convolution or two."""
    builder = ModelBuilder(np.random.default_rng(choices.integer(0, 2**16)))
    rows, columns, channels = (
        choices.pick((16, 8, 12)),
        choices.pick((8, 16)),
        choices.pick((8, 24)),
    )
    image = builder.input((1, 16, rows, columns))
    branches = []
    for scale in choices.pick(((2, 4), (1, 2), (1, 2, 4))):
        small = (1, 16, rows // scale, columns // scale)
        source = image if scale == 1 else builder.input(small)
        value = _pointwise(builder, source, channels)
        branches.append(value if scale == 1 else _upsampled(builder, value, scale))
    shape = (1, channels * len(branches), rows, columns)
    (joined,) = builder.add("Concat", [item.name for item in branches], [("f32", shape)], axis=1)
    value = _conv(builder, choices, joined, choices.pick((3, 1)), 1, 16)
    if choices.integer(0, 1):
        value = _conv(builder, choices, value, 3, 1, 8)
    return case_of(builder.model([value]), builder.feeds)


def _pointwise(builder: ModelBuilder, value: Value, out: int) -> Value:
    weights = builder.normal((out, value.shape[1], 1, 1), 0.3)
    (result,) = builder.add(
        "Conv",
        [value.name, builder.constant(weights)],
        [("f32", (1, out, *value.shape[2:]))],
        kernel_shape=[1, 1],
    )
    return result


def _upsampled(builder: ModelBuilder, value: Value, scale: int) -> Value:
    batch, channels, rows, columns = value.shape
    scales = builder.constant(np.array([1, 1, scale, scale], dtype=np.float32))
    (result,) = builder.add(
        "Resize",
        [value.name, "", scales],
        [("f32", (batch, channels, scale * rows, scale * columns))],
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    return result


def inverted_residuals(rows: int, blocks: int = 2) -> Case:
    """Inverted residual blocks, as MobileNetV2 has them, on a high image."""
    builder = ModelBuilder(np.random.default_rng(1))
    value = builder.input((1, 8, rows, 16))
    for _ in range(blocks):
        source = value
        for out, size, group in ((32, 1, 1), (32, 3, 32), (8, 1, 1)):
            channels = value.shape[1]
            weights = builder.normal((out, channels // group, size, size), 0.2)
            (value,) = builder.add(
                "Conv",
                [value.name, builder.constant(weights)],
                [("f32", (1, out, rows, 16))],
                kernel_shape=[size, size],
                group=group,
                pads=[size // 2] * 4,
            )
            if out == 32:
                value = builder.float_like("Relu", value)
        value = builder.float_like("Add", value, source.name)
    return case_of(builder.model([value]), builder.feeds)


def _next(builder: ModelBuilder, choices: Choices, value: Value, earlier: list[Value]) -> Value:
    kind = choices.pick(("conv", "depthwise", "pointwise", "pool", "add", "average", "conv"))
    if kind == "add":
        same = [item for item in earlier if item.shape == value.shape and item is not value]
        if same:
            return builder.float_like("Add", value, choices.pick(same).name)
        kind = "pointwise"
    if kind in ("pool", "average") and min(value.shape[2:]) >= 3:
        return _pool(builder, choices, value, kind)
    if kind == "conv":
        size = choices.pick((3, 1, 5)) if value.shape[1] <= 20 else 1
        return _conv(builder, choices, value, size, 1, choices.pick((8, 4, 20)))
    if kind == "depthwise":
        return _conv(builder, choices, value, 3, value.shape[1], value.shape[1])
    return _conv(builder, choices, value, 1, 1, choices.pick((16, 8, 40)))


def _conv(
    builder: ModelBuilder, choices: Choices, value: Value, size: int, group: int, out: int
) -> Value:
    stride = choices.pick((1, 1, 2))
    before, after = (choices.pick((size // 2, 0)) for _ in range(2)) if size > 1 else (0, 0)
    batch, channels, *spatial = value.shape
    shape = tuple((extent + before + after - size) // stride + 1 for extent in spatial)
    if min(shape) < 1:
        return builder.float_like("Relu", value)
    weights = builder.normal((out, channels // group, size, size), 1 / sqrt(channels * size * size))
    (result,) = builder.add(
        "Conv",
        [value.name, builder.constant(weights), builder.constant(builder.normal((out,), 0.3))],
        [("f32", (batch, out, *shape))],
        kernel_shape=[size, size],
        strides=[stride, stride],
        group=group,
        pads=[before, before, after, after],
    )
    return builder.float_like("Relu", result) if choices.integer(0, 1) else result


def _pool(builder: ModelBuilder, choices: Choices, value: Value, kind: str) -> Value:
    stride, pad = choices.pick((2, 1)), choices.pick((1, 0))
    batch, channels, *spatial = value.shape
    shape = tuple((extent + 2 * pad - 3) // stride + 1 for extent in spatial)
    (result,) = builder.add(
        "MaxPool" if kind == "pool" else "AveragePool",
        [value.name],
        [("f32", (batch, channels, *shape))],
        kernel_shape=[3, 3],
        strides=[stride, stride],
        pads=[pad] * 4,
    )
    return result


def chain_plans(
    case: Case, spec: HardwareSpec, quantization: Quantization | None, choices: Choices
) -> ChainPlans | None:
    """Both plans of a case, the second with cascades wherever chains are legal; None where none is,
    or where the buffers of those that were drawn don't fit."""
    progress = begin(case.graph, case.constants, spec)
    progress = begin_decisions(rewrite(progress, rewrites(quantization, None), spec), spec)
    draft = decide(progress, decisions(), spec).draft
    assignment = Assignment(draft, spec)
    layers, memory = assignment.run()
    numbers = {group.name: number for number, group in enumerate(draft.recipe.groups)}
    works = {numbers[name]: work for name, work in memory.works.items()}
    cascades = tuple(_cut(chain, choices) for chain in _chains(site_of(draft, works), choices))
    if not cascades:
        return None
    try:
        beside, placed = assignment.beside(cascades, frozenset(memory.resident)).run()
    except DoesNotFitError:
        return None
    plans = []
    for planned, where in ((layers, memory), (beside, placed)):
        plan, packings = PlanEmitter(planned, where, spec).emit()
        weights = pack(packings, planned.constants, planned.recipe.layout)
        plans.append(Compiled(planned.recipe, plan, weights, planned.constants, packings=packings))
    return ChainPlans(case, plans[0], plans[1], cascades)


def _chains(site: Site, choices: Choices) -> list[Chain]:
    """Chains that don't share a group, from the last group backwards."""
    found: list[Chain] = []
    free = max(site.works, default=-1)
    for last in sorted(site.works, reverse=True):
        if last > free:
            continue
        chains = [
            [chain for chain in chains_ending(site, last, axis, 8) if chain.is_whole]
            for axis in axes_of(site, last)
        ]
        if any(chains):
            along = choices.pick([item for item in chains if item])
            found.append(choices.pick(along[::-1]))
            free = found[-1].start - 1
    return found[::-1]


def _cut(chain: Chain, choices: Choices) -> Striped:
    stripe = min(align(choices.integer(1, chain.extent), chain.step), chain.extent)
    shared = [value for value in sorted(chain.inner) if value not in chain.held]
    buffered = [*chain.held, *(value for value in shared if choices.integer(0, 3))]
    wanted = {value: choices.pick((1, 2, 5, 1000)) for value in buffered}
    extents = {
        value: work.result_type.shape[axis]
        for value, work, axis in zip(chain.passes, chain.works, chain.axes, strict=True)
    }
    return striped(
        chain,
        stripe,
        {value: min(align(rows, chain.step), extents[value]) for value, rows in wanted.items()},
    )
