"""The accuracy limit: as few operators in float as it asks for."""

from __future__ import annotations

from dataclasses import replace

from stages.compiler.draft import Draft
from stages.compiler.quantization import Quantization
from stages.errors import CompileError
from stages.normalizer.reference_values import ReferenceValues
from stages.normalizer.sample_files import Sample
from stages.quantizer.closeness import Closeness, closeness, worst
from stages.quantizer.search import Found, Judge, Kept, fewest_in_float
from stages.quantizer.sets import InputSet
from stages.quantizer.settings import AccuracyLimit, Settings
from stages.quantizer.subject import Subject
from stages.quantizer.trial import Remembered, Trial, reading_quantized
from stages.recipe.explanation import Alternative, Weighed


def limited(
    settings: Settings,
    limit: AccuracyLimit,
    subject: Subject,
    data: InputSet,
    quantization: Quantization,
    simple: Draft,
) -> Quantization:
    """The quantisation with as few more operators of the simplified graph in float as the limit
    asks for.

    Raises:
        CompileError: it is missed even with every operator in float.
    """
    candidates = reading_quantized(simple, quantization)
    order = list(range(len(data.samples)))
    reference = ReferenceValues(subject.model, ())
    expected = [reference.outputs(sample) for sample in data.samples]

    def trial(kept: Kept, sample: Sample | None) -> Trial:
        tried = replace(quantization, keep=quantization.keep | kept)
        return Trial(subject.graph, subject.constants, subject.spec, tried, sample)

    def measure(kept: Kept) -> Closeness:
        tried = trial(kept, subject.sample)
        return worst(
            closeness(tried.run(sample), outputs, limit)
            for sample, outputs in zip(data.samples, expected, strict=True)
        )

    def attempt(kept: Kept) -> Closeness | None:
        tried = trial(kept, subject.sample)
        reached = Closeness()
        for seen, place in enumerate(tuple(order), start=1):
            found = tried.run(data.samples[place])
            reached = reached.worse(closeness(found, expected[place], limit))
            if not reached.may_meet(limit, seen / len(order)):
                # What one trial stumbles over is likely to trip the next: it goes first.
                order.remove(place)
                order.insert(0, place)
                return None
        return reached

    remembered = Remembered()

    def rank(kept: Kept) -> Closeness:
        """On the first sample, without the correction of biases."""
        return closeness(trial(kept, None).run(data.samples[0], remembered), expected[0], limit)

    judge = Judge(measure, attempt, rank, lambda reached: reached.meets(limit))
    found = fewest_in_float(candidates, judge)
    if found.kept is None:
        raise CompileError(
            f"the accuracy limit, {limit.words}, is missed even with every operator in float: "
            f"{found.reached.words(limit)} (int8 alone: {found.in_int8.words(limit)})",
            where=f"{settings.path}: accuracy",
            hint="loosen the limit; what the device's own float computes can't be bettered",
        )
    return replace(
        quantization,
        keep=quantization.keep | set(found.kept),
        notes=(*quantization.notes, _search_note(found, limit, len(candidates), len(data.samples))),
        weighed=(*quantization.weighed, *_weighed(found, limit)),
    )


def _search_note(found: Found, limit: AccuracyLimit, candidates: int, samples: int) -> str:
    assert found.kept is not None
    judged = f"on {samples} samples, the limit is {limit.words}"
    if not found.kept:
        return f"accuracy: int8 reaches {found.reached.words(limit)} {judged}; no search"
    return (
        f"accuracy: {len(found.kept)} of {candidates} operators in float reach "
        f"{found.reached.words(limit)} {judged} (int8 alone: {found.in_int8.words(limit)}); "
        f"ranked one at a time, grown and dropped in {found.trials} trials: "
        + ", ".join(found.kept)
    )


def _weighed(found: Found, limit: AccuracyLimit) -> tuple[Weighed, ...]:
    """One for each operator left in float: what it does alone in int8, and why it stays."""
    assert found.kept is not None
    alone = dict(found.alone)
    return tuple(
        Weighed(
            subject=name,
            question="accuracy",
            alternatives=(
                Alternative("int8", None, f"alone in int8: {alone[name].words(limit)}"),
                Alternative("float", None, f"with the others: {found.reached.words(limit)}"),
            ),
            chosen="float",
            bound=f"the accuracy limit, {limit.words}, is missed without it",
        )
        for name in found.kept
    )
