"""Spec files for the tests of this room: the shipped ones, and edited copies."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "hardware_specs"
TINY = (SPECS / "npu_tiny.yaml").read_text(encoding="utf-8")


def write_edited(folder: Path, *edits: tuple[str, str]) -> Path:
    """A copy of npu_tiny with the first occurrence of each text replaced."""
    text = TINY
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / "npu_tiny.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def with_optional_keys(folder: Path) -> Path:
    """npu_tiny with every optional key of its rates, memories and driver."""
    return write_edited(
        folder,
        (
            "tensor_core:\n",
            "tensor_core:\n  efficiency: {i8: 85 %, f16: 70.5 %}\n  lanes: 4\n"
            "  lane_alignment: 64 B\n  misaligned_lanes: 2\n",
        ),
        ("  startup: 16 cycles\n", "  startup: 16 cycles\n  efficiency: 60 %\n"),
        (
            "    banks: 8\n  ddr:\n",
            "    banks: 8\n    bank_interleave: 16 B\n  ddr:\n    channels: 2\n"
            "    interleave: 256 B\n    read_efficiency: 90 %\n    write_efficiency: 80 %\n",
        ),
        (
            "memory:\n",
            "memory:\n  l2: {size: 64 KiB, line: 64 B, ways: 4, read_bandwidth: 8 GB/s, "
            "write_bandwidth: 6 GB/s, read_latency: 20 ns, write_latency: 10 ns}\n"
            "  weight_cache: {size: 32 KiB, read_bandwidth: 8 GB/s}\n",
        ),
        ("dma: 0 ns}", "dma: 100 ns, host: 1 us}"),
    )


def line_of(path: Path, fragment: str) -> int:
    """The number of the first line that holds a fragment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if fragment in line)
