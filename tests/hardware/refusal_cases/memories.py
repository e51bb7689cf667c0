"""Memories and caches that can't be."""

from __future__ import annotations

from tests.hardware.refusal_cases.words import Case

MEMORIES: dict[str, Case] = {
    "reserved over size": (
        "reserved: 1 KiB",
        "reserved: 256 KiB",
        "memory.sram.reserved: 256 KiB leave nothing of 256 KiB",
        "reserved: 256 KiB",
        "lower it, or raise the size",
    ),
    "odd alignment": (
        "alignment: 64 B",
        "alignment: 48 B",
        "memory.sram.alignment: 48 B isn't a power of two",
        "48 B",
        "round it up to one",
    ),
    "odd interleave": (
        "    banks: 8\n  ddr:",
        "    banks: 8\n    interleave: 48 B\n  ddr:",
        "memory.sram.interleave: 48 B isn't a power of two",
        "interleave: 48 B",
        "round it up to one",
    ),
    "interleave below a burst": (
        "    banks: 8\n  ddr:",
        "    banks: 8\n    bank_interleave: 8 B\n  ddr:",
        "memory.sram.bank_interleave: 8 B is less than a burst of 16 B",
        "bank_interleave: 8 B",
        "a burst comes from one bank of one channel: raise it",
    ),
    "half a set": (
        "memory:\n",
        "memory:\n  l2: {size: 1000 B, line: 64 B, ways: 4, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.size: 1,000 B isn't a whole number of sets of 4 lines of 64 B",
        "size: 1000 B",
        "size is line x ways x sets",
    ),
    "a cache of a terabyte": (
        "memory:\n",
        "memory:\n  l2: {size: 1024 GiB, line: 64 B, ways: 4, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.size: 1,024 GiB are 17,179,869,184 lines of 64 B",
        "size: 1024 GiB",
        "a cache has at most 4,194,304 lines: check the prefixes",
    ),
    "one set": (
        "memory:\n",
        "memory:\n  l2: {size: 64 KiB, line: 64 B, ways: 1024, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.ways: 1024 lines share a set",
        "ways: 1024",
        "write at most 128: of a fully associative cache too, sets behave alike then",
    ),
    "odd line": (
        "memory:\n",
        "memory:\n  l2: {size: 960 B, line: 48 B, ways: 4, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.line: 48 B isn't a power of two",
        "line: 48 B",
        "round it up to one",
    ),
    "no share": (
        "  startup: 16 cycles\n",
        "  startup: 16 cycles\n  efficiency: 0.8\n",
        "vector.efficiency: 0.8 has no unit",
        "efficiency: 0.8",
        "write a share such as `85 %` (units: permille, %)",
    ),
    "more than all": (
        "  startup: 16 cycles\n",
        "  startup: 16 cycles\n  efficiency: 110 %\n",
        "vector.efficiency: 110 % is more than all of it",
        "efficiency: 110 %",
        "write `100 %` or less",
    ),
}
