"""What stands for the accuracy of an integer model where its end-to-end figure can't.

Three facts: every link holds (`links.py`), the device computes what the recipe says, and how far
the model's own outputs move when its input hardly does (`conditioning.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

import numpy as np

from stages.evaluation.accuracy import compare_floats
from stages.evaluation.conditioning import floors_db
from stages.evaluation.links import Link, Links, compare_links
from stages.evaluation.whole_groups import input_values, run_whole, whole_groups
from stages.normalizer.reference_values import ReferenceValues
from stages.recipe.decisions import Recipe
from stages.tensors import Array

DEVICE_MARGIN_DB = 10.0
"""Where the device's outputs aren't the recipe's to the bit (float sums in another order), their
SQNR must pass the limit by as much."""
_LOWEST_DB = -200.0  # JSON has no infinity; an output that turns into NaN is said to move by this


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """One link in figures; `sqnr_db` is None where nothing differs, the others for floats."""

    group: str
    value: str
    carried: tuple[str, ...]
    holds: bool
    sqnr_db: float | None
    steps_off: int | None
    flipped_share: float | None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """How one output of the device compares with the recipe computed whole."""

    output: str
    sample: int
    different_elements: int
    sqnr_db: float | None
    holds: bool


@dataclass(frozen=True, slots=True)
class FloorFacts:
    """The lowest SQNR of one reference output against itself, its sample's inputs moved; None where
    nothing moved it. `is_below` says whether that is below the limit."""

    output: str
    sample: int
    floor_db: float | None
    is_below: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """Links on the first sample; device and floors on every sample.

    `worst` is the link furthest from right, `broken` those that don't hold. `by_runtime` are groups
    that ONNX Runtime itself runs; `unchecked` others of which the model holds nothing to compare.
    """

    checked_groups: int
    groups: int
    by_runtime: tuple[str, ...]
    unchecked: tuple[str, ...]
    worst: LinkFacts | None
    broken: tuple[LinkFacts, ...]
    device: tuple[DeviceFacts, ...]
    floors: tuple[FloorFacts, ...]

    @property
    def holds(self) -> bool:
        """Whether it proves the device right: links there are, all hold, and so does the device."""
        return self.links_hold and self.device_holds

    @property
    def links_hold(self) -> bool:
        """Whether every group but ONNX Runtime's own is right on the reference's values."""
        return self.checked_groups > 0 and not self.broken and not self.unchecked

    @property
    def device_holds(self) -> bool:
        """Whether the device computes what the recipe says."""
        return bool(self.device) and all(facts.holds for facts in self.device)

    def floor(self, output: str) -> FloorFacts | None:
        """The lowest floor of an output, over all samples."""
        found = [item for item in self.floors if item.output == output]
        return min(found, key=lambda item: _or_infinite(item.floor_db), default=None)


class Prover:
    """Gathers the proof of a package while its samples are compared.

    Raises:
        InputError: ONNX Runtime refuses the model.
        DeviceError: the host can't load one of the recipe's nodes.
    """

    def __init__(
        self, recipe: Recipe, constants: Mapping[str, Array], model: Path, min_sqnr_db: float
    ) -> None:
        self._recipe = recipe
        self._constants = constants
        self._limit = min_sqnr_db
        self._groups = whole_groups(recipe)
        inner = {name for group in self._groups for name in group.results}
        self._reference = ReferenceValues(model, inner)
        self._links: Links | None = None
        self._device: list[DeviceFacts] = []
        self._floors: list[FloorFacts] = []

    def look(
        self, index: int, sample: Mapping[str, Array], device: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Take in one sample with what the device made of it; gives the reference's outputs.

        Raises:
            InputError: the reference can't run the sample.
        """
        values = self._reference.run(sample)
        expected = {name: values[name] for name in self._reference.output_names}
        if self._links is None:
            known = input_values(self._recipe, sample) | values
            self._links = compare_links(self._groups, self._constants, known)
        whole = run_whole(self._groups, self._recipe, self._constants, sample)
        for name, array in whole.items():
            if name in device:
                self._device.append(self._compared(name, index, device[name], array))
        for name, floor in floors_db(self._reference.outputs, sample, expected).items():
            below = floor is not None and floor < self._limit
            bounded = None if floor is None else max(floor, _LOWEST_DB)
            self._floors.append(FloorFacts(name, index, _finite(bounded), below))
        return expected

    def proof(self) -> Proof:
        """What was found."""
        links = self._links or Links(())
        worst = links.worst(self._limit)
        return Proof(
            checked_groups=links.checked_groups,
            groups=len(self._groups),
            by_runtime=links.by_runtime,
            unchecked=links.unchecked,
            worst=None if worst is None else self._facts(worst),
            broken=tuple(self._facts(link) for link in links.broken(self._limit)),
            device=tuple(self._device),
            floors=tuple(self._floors),
        )

    def _facts(self, link: Link) -> LinkFacts:
        share = link.flipped_share
        return LinkFacts(
            group=link.group,
            value=link.value,
            carried=link.carried,
            holds=link.holds(self._limit),
            sqnr_db=_finite(max(link.sqnr_db, _LOWEST_DB)),
            steps_off=link.steps_off,
            flipped_share=None if share is None else float(f"{share:.3g}"),
        )

    def _compared(self, name: str, index: int, actual: Array, whole: Array) -> DeviceFacts:
        if actual.shape != whole.shape:
            return DeviceFacts(name, index, whole.size, None, holds=False)
        same = (actual == whole) | ((actual != actual) & (whole != whole))
        different = int(np.count_nonzero(~same))
        accuracy = compare_floats(actual, whole)
        quiet = not accuracy.special_mismatches
        return DeviceFacts(
            name,
            index,
            different,
            _finite(accuracy.sqnr_db) if different else None,
            holds=not different or (quiet and accuracy.sqnr_db >= self._limit + DEVICE_MARGIN_DB),
        )


def _finite(value: float | None) -> float | None:
    return round(value, 3) if value is not None and isfinite(value) else None


def _or_infinite(value: float | None) -> float:
    return inf if value is None else value
