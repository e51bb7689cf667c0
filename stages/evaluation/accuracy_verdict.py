"""The verdict on an integer model's accuracy: end to end where that tells, by links where not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stages.evaluation.conditioning import RELATIVE_MOVE
from stages.evaluation.output_checks import Measure, OutputFacts
from stages.evaluation.quantized_proof import LinkFacts, Proof
from stages.evaluation.verdict import Check

_NAMED = 3
_MOVE = f"{RELATIVE_MOVE:g}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Outputs as they count in the end, what else was checked, and what a reader must know."""

    outputs: tuple[OutputFacts, ...]
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()


def judge_quantized(outputs: Sequence[OutputFacts], proof: Proof, min_sqnr_db: float) -> Judgement:
    """An output that misses its SQNR limit is inconclusive where the model's own floor misses it
    too; the proof then decides. Where all outputs pass by themselves, the proof is for reading.
    """
    judged = tuple(_judged(facts, proof, min_sqnr_db) for facts in outputs)
    is_needed = any(not facts.check.passed or not facts.is_conclusive for facts in judged)
    checks = (_links_check(proof, min_sqnr_db, is_needed), _device_check(proof, is_needed))
    notes = tuple(_inconclusive(facts, proof) for facts in judged if not facts.is_conclusive)
    return Judgement(judged, checks, notes if proof.holds else ())


def _judged(facts: OutputFacts, proof: Proof, min_sqnr_db: float) -> OutputFacts:
    if facts.check.passed or facts.measure is not Measure.SQNR:
        return facts
    floor = proof.floor(facts.output)
    if floor is None or not floor.is_below:
        itself = (
            "doesn't move"
            if floor is None or floor.floor_db is None
            else f"agrees with itself to {floor.floor_db:.1f} dB"
        )
        message = (
            f"{facts.check.message}. The model is stable, it {itself} when its input moves by "
            f"{_MOVE}, so the figure tells: {_links_text(proof)}; {_device_text(proof)}"
        )
        return replace(facts, check=replace(facts.check, message=message))
    check = replace(
        facts.check,
        passed=proof.holds,
        figure=f"{facts.check.figure}, inconclusive",
        message="" if proof.holds else _inconclusive(facts, proof),
    )
    return replace(facts, check=check, is_conclusive=False)


def _inconclusive(facts: OutputFacts, proof: Proof) -> str:
    """The three figures, in words."""
    floor = proof.floor(facts.output)
    assert floor is not None, "only a floor makes an output inconclusive"
    assert floor.floor_db is not None
    sqnr = "no SQNR" if facts.sqnr_db is None else f"SQNR {facts.sqnr_db:.1f} dB"
    return (
        f"{facts.check.name}: {sqnr} end to end is inconclusive by itself, since the model agrees "
        f"with itself only to {floor.floor_db:.1f} dB when its input moves by {_MOVE}. "
        f"{_conclusion(proof)}: {_links_text(proof)}; {_device_text(proof)}"
    )


def _conclusion(proof: Proof) -> str:
    if proof.holds:
        return "By its links the device is right"
    return "By its links the device is wrong" if not proof.links_hold else "Its plan is wrong"


def _links_check(proof: Proof, min_sqnr_db: float, is_needed: bool) -> Check:
    passed = proof.links_hold or not is_needed
    message = (
        f"links: {_links_text(proof)}: compare these groups with the model's nodes of the same "
        "names (`recipe show PACKAGE`); their scales, zero points or constants differ"
    )
    figure = _links_text(proof)
    return Check("links", passed, figure, f"{min_sqnr_db:g} dB", "" if passed else message)


def _device_check(proof: Proof, is_needed: bool) -> Check:
    passed = proof.device_holds or not is_needed
    message = (
        f"device against recipe: {_device_text(proof)}: the plan doesn't compute what the recipe "
        "says; recompile the package, and report it if that doesn't help"
    )
    return Check(
        "device against recipe", passed, _device_text(proof), "equal", "" if passed else message
    )


def _links_text(proof: Proof) -> str:
    count = f"{proof.checked_groups} of {proof.groups} groups checked alone"
    if proof.by_runtime:
        count += f" ({len(proof.by_runtime)} are ONNX Runtime's own)"
    if proof.unchecked:
        count += f", {_named([repr(name) for name in proof.unchecked])} can't be checked, since "
        count += "the model holds no value that they lead to"
    if proof.broken:
        return f"{count}, {len(proof.broken)} wrong: {_named(list(map(_link_text, proof.broken)))}"
    if proof.worst is None:
        return count
    return f"{count}, worst {_link_text(proof.worst)}"


def _named(items: Sequence[str]) -> str:
    more = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _link_text(link: LinkFacts) -> str:
    carried = f" (with {_named(list(map(repr, link.carried)))})" if link.carried else ""
    figure = "equal" if link.sqnr_db is None else f"{link.sqnr_db:.1f} dB"
    return f"{link.group!r}{carried} {figure}"


def _device_text(proof: Proof) -> str:
    if not proof.device:
        return "the device gave no output of the recipe"
    different = sum(facts.different_elements for facts in proof.device)
    if not different:
        return "its outputs equal the recipe's to the bit"
    lowest = min(
        (facts.sqnr_db for facts in proof.device if facts.sqnr_db is not None), default=None
    )
    noise = "" if lowest is None else f", SQNR {lowest:.1f} dB"
    return f"{different} elements of its outputs differ from the recipe's{noise}"
