"""The memory map: its figures, its picture, its list."""

from __future__ import annotations

from dataclasses import replace

from stages.plan.instructions import SRAM, Buffer
from stages.plan.memory_map import PICTURE_COLUMNS, Usage, memory_usage, print_memory_map
from stages.recipe.decisions import Lifetime
from tests.plan.large_plan import large_plan
from tests.plan.sample_plan import legal_plan, small_spec

GOLDEN = """\
sram: 4 buffers, peak 1792 B of 65280 B (2.7%)
  lower bound 1024 B live at instruction 4; fragmentation 42.9%
  0x000780 |............33333333......|
  0x000700 |............33333333......|
  0x000680 |............33333333......|
  0x000600 |............33333333......|
  0x000580 |..........................|
  0x000500 |..........................|
  0x000480 |....1111..................|
  0x000400 |....1111..................|
  0x000380 |00000000..................|
  0x000300 |00000000..................|
  0x000280 |00000000222222222222222222|
  0x000200 |00000000222222222222222222|
  0x000180 |00000000222222222222222222|
  0x000100 |00000000222222222222222222|
  0x000080 |==========================|
  0x000000 |==========================|
           0            instruction 26
  a cell shows the buffer that holds most of it; . free, = reserved
  0 [0x000100, 0x000400)        768 B  live [0, 8) scoped     %a
  2 [0x000100, 0x000300)        512 B  live [8, 26) long_lived %"c d"
  1 [0x000400, 0x000500)        256 B  live [4, 8) ephemeral  %b
  3 [0x000600, 0x000800)        512 B  live [12, 20) scoped     %d

ddr: 0 buffers, peak 0 B of 1048576 B (0.0%)
"""

FOUR = (
    Buffer("a", SRAM, 0x100, 768, Lifetime.SCOPED, 0, 8),
    Buffer("b", SRAM, 0x400, 256, Lifetime.EPHEMERAL, 4, 8),
    Buffer("c d", SRAM, 0x100, 512, Lifetime.LONG_LIVED, 8, 26),
    Buffer("d", SRAM, 0x600, 512, Lifetime.SCOPED, 12, 20),
)


def test_the_map_of_four_buffers() -> None:
    plan = replace(legal_plan(), buffers=FOUR)
    assert print_memory_map(plan, small_spec()) == GOLDEN


def test_usage() -> None:
    memory = small_spec().sram
    assert memory_usage(FOUR, memory) == Usage(0x800 - 0x100, 1024, 4)
    assert memory_usage(FOUR[:2], memory).fragmentation == 0.0
    assert memory_usage((), memory) == Usage(0, 0, 0)
    assert memory_usage(FOUR, small_spec().ddr) == Usage(0, 0, 0)


def test_a_large_plan_keeps_its_width() -> None:
    plan = large_plan(30, 8)
    lines = print_memory_map(plan, small_spec()).splitlines()
    picture = [line for line in lines if line.startswith("  0x")]
    assert picture
    assert {len(line) for line in picture} == {len("  0x000000 ||") + PICTURE_COLUMNS}
    assert sum("live [" in line for line in lines) == len(plan.buffers)
