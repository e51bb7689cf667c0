"""Legal plans of any size: layers of a convolution in row tiles, double-buffered."""

from __future__ import annotations

from dataclasses import replace

from stages.plan.instructions import (
    DDR,
    SRAM,
    Binding,
    Buffer,
    Contraction,
    Instruction,
    Kernel,
    Opcode,
    Plan,
    Region,
)
from stages.recipe.decisions import Lifetime
from stages.recipe.graph import Operator
from stages.recipe.kinds import Kind
from stages.tensors import DType, TensorType
from tests.plan.sample_plan import NHWC, region, rows

CHANNELS, WIDTH, TILE_ROWS = 16, 16, 4
QUEUES = ("tensor_core", "vector", "host", "dma0", "dma1")


class LargePlan:
    """Builds `layers` 1 x 1 convolutions of `tiles` row tiles; the features ping-pong in ddr."""

    def __init__(self, layers: int, tiles: int) -> None:
        self.layers, self.tiles = layers, tiles
        shape = (1, CHANNELS, tiles * TILE_ROWS, WIDTH)
        feature_bytes = TILE_ROWS * WIDTH * CHANNELS * 2 * tiles
        self.features = [region(DDR, step * feature_bytes, shape, NHWC) for step in range(2)]
        self.weight_base = 2 * feature_bytes
        self.program: list[Instruction] = []
        self.buffers: list[Buffer] = []
        self.constants: list[Binding] = []
        self.events = 0
        self.stored: list[tuple[str, int]] = []  # the store that last read each output slot

    def build(self) -> Plan:
        """The plan; it ends in feature `layers % 2`."""
        previous: list[int] = []
        for layer in range(self.layers):
            previous = self._layer(layer, previous)
        for event in previous:
            self._emit(Opcode.WAIT_EVENT, "host", "end", event=event)
        end = len(self.program)
        whole = [
            Buffer(f"f{i}", DDR, f.address, f.size_bytes, Lifetime.LONG_LIVED, 0, end)
            for i, f in enumerate(self.features)
        ]
        weights = [
            Buffer(c.name, DDR, c.region.address, 512, Lifetime.WEIGHTS, 0, end)
            for c in self.constants
        ]
        last = self.features[self.layers % 2]
        return Plan(
            "npu_small",
            QUEUES,
            (_kernel(),),
            (*whole, *weights, *self.buffers),
            (Binding("x", self.features[0]),),
            (Binding("y", last),),
            tuple(self.constants),
            tuple(self.program),
        )

    def _emit(self, opcode: Opcode, queue: str, group: str, **fields: object) -> int:
        self.program.append(replace(Instruction(opcode, queue, group), **fields))  # type: ignore[arg-type]
        return len(self.program) - 1

    def _event(self, queue: str, group: str) -> int:
        self.events += 1
        self._emit(Opcode.SIGNAL_EVENT, queue, group, event=self.events)
        return self.events

    def _copy(self, queue: str, group: str, source: Region, sink: Region, note: str) -> int:
        return self._emit(
            Opcode.DMA_COPY, queue, group, reads=(source,), writes=(sink,), comment=note
        )

    def _layer(self, layer: int, previous: list[int]) -> list[int]:
        """One layer; awaits the stores of the one before, gives the events of its own."""
        group = f"conv{layer}"
        weight = region(DDR, self.weight_base + layer * 512, (CHANNELS, CHANNELS, 1, 1))
        self.constants.append(Binding(f"{group}.w", weight))
        for event in previous:
            self._emit(Opcode.WAIT_EVENT, "dma0", group, event=event)
        begin = len(self.program)
        weight_slot = replace(weight, memory=SRAM, address=0x100)
        self._copy("dma0", group, weight, weight_slot, f"{group}.w")
        source, sink = self.features[layer % 2], self.features[1 - layer % 2]
        done: list[int] = []
        stored: list[int] = []
        slots = [(0x300 + 0x1000 * s, 0xB00 + 0x1000 * s) for s in range(2)]
        for tile in range(self.tiles):
            take, give = slots[tile % 2]
            tile_in = region(SRAM, take, (1, CHANNELS, TILE_ROWS, WIDTH), NHWC)
            tile_out = replace(tile_in, address=give)
            if tile >= 2:
                self._emit(Opcode.WAIT_EVENT, "dma0", group, event=done[tile - 2])
            span = (tile * TILE_ROWS, (tile + 1) * TILE_ROWS)
            self._copy("dma0", group, rows(source, *span), tile_in, f"tile {tile}")
            loaded = self._event("dma0", group)
            self._emit(Opcode.WAIT_EVENT, "tensor_core", group, event=loaded)
            if tile >= 2:
                self._emit(Opcode.WAIT_EVENT, "tensor_core", group, event=stored[tile - 2])
            self._emit(
                Opcode.TENSOR_CORE_CONV,
                "tensor_core",
                group,
                reads=(tile_in, weight_slot),
                writes=(tile_out,),
                kernel=0,
                contraction=Contraction(TILE_ROWS * WIDTH, CHANNELS, CHANNELS, 1, 1, DType.F16),
                launch=tile == 0,
            )
            done.append(self._event("tensor_core", group))
            self._emit(Opcode.WAIT_EVENT, "dma1", group, event=done[-1])
            self._copy("dma1", group, tile_out, rows(sink, *span), f"tile {tile}")
            stored.append(self._event("dma1", group))
        end = len(self.program)
        for number, (take, give) in enumerate(slots):
            for word, address in (("in", take), ("out", give)):
                name = f"{group}.{word}{number}"
                size = TILE_ROWS * WIDTH * CHANNELS * 2
                self.buffers.append(
                    Buffer(name, SRAM, address, size, Lifetime.EPHEMERAL, begin, end)
                )
        self.buffers.append(
            Buffer(f"{group}.w.sram", SRAM, 0x100, 512, Lifetime.SCOPED, begin, end)
        )
        return stored[-2:]


def _kernel() -> Kernel:
    shape = (1, CHANNELS, TILE_ROWS, WIDTH)
    attributes = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    types = {
        "x": TensorType(DType.F16, shape),
        "w": TensorType(DType.F16, (CHANNELS, CHANNELS, 1, 1)),
        "y": TensorType(DType.F16, shape),
    }
    operator = Operator("conv", Kind.CONV, ("x", "w"), ("y",), attributes)
    return Kernel("conv", ("x", "w"), ("y",), (operator,), types)


def large_plan(layers: int, tiles: int) -> Plan:
    """About `9 * layers * tiles` instructions."""
    return LargePlan(layers, tiles).build()
