"""`python -m tests.conformance [--hardware NAME] [--only WORD] [--out FILE]`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from stages.hardware.load import find_spec, load_spec
from tests.conformance.cases import load_cases
from tests.conformance.judge import judge
from tests.conformance.report import write_report

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    """Run the tests and write the page."""
    parser = argparse.ArgumentParser(description="Run ONNX's node tests on a simulated device.")
    parser.add_argument("--hardware", default="npu_tiny")
    parser.add_argument("--only", default="", help="run the tests whose name holds this word")
    parser.add_argument("--out", type=Path, help="default: docs/conformance.md, or the screen")
    options = parser.parse_args()
    spec = load_spec(find_spec(options.hardware, ROOT / "hardware_specs"))
    outcomes = []
    for case in load_cases():
        if options.only in case.name:
            print(f"\r{case.name:<78}", end="", flush=True)
            outcomes.append(judge(case, spec))
    print()
    page = write_report(outcomes, options.hardware)
    target = options.out or (ROOT / "docs" / "conformance.md" if not options.only else None)
    if target is None:
        print(page)
        return
    beside = target.with_suffix(".tmp")
    beside.write_text(page, encoding="utf-8")
    os.replace(beside, target)
    print(
        f"wrote {target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target}"
    )


if __name__ == "__main__":
    main()
