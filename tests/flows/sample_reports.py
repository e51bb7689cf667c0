"""Reports as the stages write them, of a made-up pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stages.report.facts import FILES, FOLDERS

LATENCY = {
    "runs": 1000,
    "minimum_ns": 1_000_000,
    "p50_ns": 1_100_000,
    "p90_ns": 1_150_000,
    "p99_ns": 1_210_000,
    "maximum_ns": 1_300_000,
    "mean_ns": 1_105_000,
}
CHECK = {"name": "output 'y'", "passed": True, "figure": "1.0", "limit": "0.999", "message": ""}
FALLBACK = {
    "group": "nms",
    "operators": ["nms"],
    "kinds": ["host_call"],
    "reason": "NonMaxSuppression isn't in the operator list of hw1",
    "priced_ns": 250_000,
    "share": 0.2,
}
OUTPUT = {
    "output": "y",
    "sample": 0,
    "check": CHECK,
    "cosine": 0.99999,
    "relative_error": 0.0004,
    "sqnr_db": None,
    "mismatches": None,
}
SRAM = {
    "memory": "sram",
    "peak_bytes": 200 * 1024,
    "lower_bound_bytes": 180 * 1024,
    "available_bytes": 256 * 1024,
}
REPORTS: dict[str, dict[str, Any]] = {
    "normalize": {
        "nodes_before": 566,
        "nodes_after": 142,
        "opset_from": 11,
        "opset_to": 17,
        "proof": {"compared_with": "onnxruntime", "max_relative_difference": 1.5e-6},
    },
    "validate": {
        "verdict": "PASS",
        "reasons": ["4 checks passed, 1 outputs compared"],
        "outputs": [OUTPUT],
        "fallbacks": [FALLBACK, FALLBACK | {"group": "nms2", "operators": ["nms2"]}],
        "memory": [SRAM],
        "fused_groups": 12,
        "is_quantized": False,
    },
    "benchmark": {"latency": LATENCY, "roofline": {"bound_ns": 500_000, "ratio": 2.2}},
    "gate": {"verdict": "NEW", "reasons": ["no baseline yet: P99 is 1210000 ns"]},
    "thermal_stress": {
        "verdict": "PASS",
        "reasons": ["P99/P50 1.100"],
        "latency": LATENCY,
        "junction_celsius": 85.0,
        "peak_celsius": 86.5,
        "throttled_runs": 40,
    },
}


def write_report(stage: str, folder: Path, report: dict[str, Any] | None = None) -> None:
    """Writes a stage's report to its output folder; a package for `compile`."""
    folder.mkdir(parents=True, exist_ok=True)
    if stage == "compile":
        recipe = (
            'recipe "m" for hw1 1.0\ngroup conv1 on tensor_core\ngroup nms on host because "x"\n'
        )
        (folder / "recipe.txt").write_text(recipe)
        (folder / "weights.safetensors").write_bytes(bytes(2048))
    else:
        (folder / FILES[stage]).write_text(json.dumps(report or REPORTS[stage]))


def write_pair(folder: Path) -> None:
    """Writes every report of a pair."""
    for stage, name in FOLDERS.items():
        write_report(stage, folder / name)
