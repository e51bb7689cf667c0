"""Long runs of random models: `python -m tests.compiler.campaign FIRST LAST [HARDWARE ...]`,
where HARDWARE may be `random`: another device for each seed.

Prints one line for each failure: seed, steps, hardware, and what is wrong; then a summary.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter

import numpy as np

from stages.errors import CompileError
from stages.hardware.spec import HardwareSpec
from tests.compiler.judged import case_of, compile_and_judge, compile_in_integers
from tests.compiler.model_builder import SeededChoices
from tests.compiler.random_models import RandomModel, random_model
from tests.compiler.random_specs import random_spec
from tests.compiler.specs import NAMES, hardware


def model_of(seed: int) -> RandomModel:
    """The model of a seed: small ones first, larger ones the higher the seed's last digit."""
    return random_model(SeededChoices(np.random.default_rng(seed)), 1 + seed % 10)


def device_of(seed: int, name: str) -> HardwareSpec:
    """A device by its name, or the random one of a seed."""
    if name == "random":
        return random_spec(SeededChoices(np.random.default_rng([seed, 1])))
    return hardware(name)


def main(first: int, last: int, names: tuple[str, ...]) -> int:
    """Run every seed on every device; the number of failures."""
    outcomes: Counter[str] = Counter()
    for seed in range(first, last):
        for name in names:
            try:
                model = model_of(seed)
                case = case_of(model.model, model.feeds)
                spec = device_of(seed, name)
                compiled = compile_and_judge(case, spec, model.feeds if seed % 2 else None)
                if seed % 3 == 0 and not model.is_quantized:
                    compile_in_integers(case, spec)
                outcomes["on the device" if not compiled.recipe.fallbacks else "with host"] += 1
            except CompileError as error:
                outcomes["refused"] += 1
                print(f"{seed} {name}: refused: {error.problem} | {error.where}", flush=True)
            except Exception as error:
                outcomes["FAILED"] += 1
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
                text = str(error).replace("\n", " | ")[:300]
                print(f"{seed} {name}: {type(error).__name__} at {place}: {text}", flush=True)
    print(dict(outcomes))
    return outcomes["FAILED"]


if __name__ == "__main__":
    start, stop, *chosen = sys.argv[1:]
    sys.exit(bool(main(int(start), int(stop), tuple(chosen) or NAMES)))
