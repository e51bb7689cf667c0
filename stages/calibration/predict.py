"""What the simulated device says a plan takes, and specs with other values to ask it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stages.calibration.parameters import Parameter
from stages.errors import HardwareSpecError
from stages.hardware.cost import cycles_to_nanoseconds
from stages.hardware.document import Document, KeyPath, read_document
from stages.hardware.load import spec_of
from stages.hardware.overlay import LaidValue, base_name, is_overlay, with_values
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import CacheUses, uses_of_cache
from stages.plan.instructions import Plan
from stages.plan.timing import plan_cycles


def predict(plan: Plan, spec: HardwareSpec) -> int:
    """Nanoseconds of one inference without jitter, at the nominal clock, submission included."""
    return cycles_to_nanoseconds(spec, plan_cycles(plan, spec))


@dataclass(slots=True)
class Predictor:
    """Predicts one plan for many specs: what it finds in a cache is looked up once for each shape
    of the cache that they have."""

    plan: Plan
    _uses: dict[object, CacheUses] = field(init=False, default_factory=dict)

    def predict(self, spec: HardwareSpec) -> int:
        """The same nanoseconds as `predict` of the plan."""
        if spec.l2 is None:
            return predict(self.plan, spec)
        cache = (spec.l2.size_bytes, spec.l2.line_bytes, spec.l2.ways)
        shape = (*cache, spec.ddr.size_bytes, spec.weight_cache)
        if shape not in self._uses:
            self._uses[shape] = uses_of_cache(self.plan, spec)
        return cycles_to_nanoseconds(spec, plan_cycles(self.plan, spec, self._uses[shape]))


@dataclass(frozen=True, slots=True)
class Tuner:
    """A spec's document and the parameters that may move in it.

    A spec with other values is made as an overlay would make it, from the texts that stand in the
    YAML, so that what was fitted is what is loaded later.
    """

    document: Document
    parameters: tuple[Parameter, ...]

    def laid(self, values: Sequence[int]) -> dict[KeyPath, str | int]:
        """What YAML holds at every key that the parameters set; `values` in their order."""
        return {
            path: parameter.yaml(value)
            for parameter, value in zip(self.parameters, values, strict=True)
            for path in parameter.paths
        }

    def spec(self, values: Sequence[int]) -> HardwareSpec:
        """The spec with these values.

        Raises:
            HardwareSpecError: they contradict the rest of the spec.
        """
        laid = {path: LaidValue(text, "a fit") for path, text in self.laid(values).items()}
        note = ";".join(f"{path}={item.value}" for path, item in laid.items())
        content = self.document.content + note.encode()
        version = str(self.document.data.get("version"))
        return spec_of(with_values(self.document, laid, version, content))


def read_base(path: Path) -> Document:
    """The document of a spec that is to be calibrated.

    Raises:
        HardwareSpecError: it can't be read, isn't a sound spec, or is an overlay.
    """
    document = read_document(path)
    if is_overlay(document):
        name = base_name(path)
        raise HardwareSpecError(
            "an overlay can't be calibrated",
            where=str(path),
            hint=f"calibrate the spec that it is for: `recipe calibrate {name}`",
        )
    spec_of(document)
    return document
