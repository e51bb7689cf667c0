"""What a wrong spec is told, case by case: each an edit of a sound spec by its name."""

from __future__ import annotations

from tests.hardware.refusal_cases.engines import ENGINES
from tests.hardware.refusal_cases.form import FORM
from tests.hardware.refusal_cases.heat import HEAT
from tests.hardware.refusal_cases.memories import MEMORIES
from tests.hardware.refusal_cases.words import Case

CASES: dict[str, Case] = FORM | ENGINES | MEMORIES | HEAT
