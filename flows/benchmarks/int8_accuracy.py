"""`make bench`: what int8 recipes of trained models answer, against what the float models answer.

For each task and device: ranges from one set of made-up inputs, the accuracy limit kept on a
second, and the task's own answers compared on a third. Writes the table in docs/quantization.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flows.benchmarks import task_answers, task_inputs
from flows.benchmarks.choice import load_specs
from flows.benchmarks.sections import replace_marked, table
from flows.benchmarks.task_inputs import Types
from flows.project.places import Project, find_project
from stages.compiler.quantization import Quantization
from stages.hardware.spec import HardwareSpec
from stages.normalizer.reference import OnnxRuntimeReference
from stages.normalizer.sample_files import Sample, load_samples, save_samples
from stages.quantizer import Subject, decide, load_settings
from stages.quantizer.trial import Trial
from stages.tensors import Array

_DEVICES = ("rk3588_npu", "ethos_u65_512")
_JUDGED, _CALIBRATING, _LIMITING = 0, 100_000, 200_000  # first seeds of the three sets
_PAGE, _MARK = "quantization.md", "int8 accuracy"

Answer = Callable[[dict[str, Array]], object]


@dataclass(frozen=True, slots=True)
class Task:
    """A trained model of the registry, inputs that it has an answer to, and how it is quantised.

    `limit` is the accuracy limit in the file; None where int8 alone is enough. `on_device` has
    others by device. `equalize` is the key of that name. The numbers of inputs are those that
    ranges are measured on, and that the limit is kept on.
    """

    model: str
    inputs: Callable[[int, int, Types, OnnxRuntimeReference], list[Sample]]
    answer: Answer
    method: str
    limit: str | None
    equalize: str = "none"
    calibrating: int = 16
    limiting: int = 3
    on_device: Mapping[str, str] = field(default_factory=dict)

    def limit_of(self, device: str) -> str | None:
        """The accuracy limit on a device."""
        return self.on_device.get(device, self.limit)


@dataclass(frozen=True, slots=True)
class Row:
    """What was found for a task on a device: of `judged` inputs how many agree in the device's own
    float, in int8 alone, and with the limit; `kept` are the operators in float then."""

    task: Task
    device: str
    judged: int
    in_float: int
    alone: int
    limited: int
    kept: tuple[str, ...]
    note: str


def _each(make: Callable[[int, Types], Sample]) -> Callable[..., list[Sample]]:
    def inputs(
        first: int, count: int, types: Types, _reference: OnnxRuntimeReference
    ) -> list[Sample]:
        return [make(seed, types) for seed in range(first, first + count)]

    return inputs


def _frames(first: int, count: int, types: Types, reference: OnnxRuntimeReference) -> list[Sample]:
    """Frames of one made-up recording after another, each with the state that the float model had
    reached before it."""
    found: list[Sample] = []
    seed = first
    while len(found) < count:
        state = np.zeros(types["state"].shape, types["state"].dtype.numpy)
        for frame in task_inputs.sound_frames(seed, types, 40):
            sample = {"input": frame, "state": state}
            found.append(sample)
            state = reference.run(sample)["stateN"]
        seed += 1
    return found[:count]


def _speech(outputs: dict[str, Array]) -> object:
    return task_answers.is_speech(outputs["output"])


TASKS = (
    Task(
        "ppocr_cls",
        _each(task_inputs.turned_text_line),
        task_answers.greatest,
        "mse",
        "min_sqnr_db: 5",
        limiting=8,
    ),
    Task(
        "ppocr_rec",
        _each(task_inputs.text_line),
        task_answers.recognised,
        "percentile, percentile: 99.99",
        "min_argmax_agreement: 0.9995",
        "channels",
        limiting=48,
        # Its own f16 loses positions where the float model hesitates.
        on_device={"rk3588_npu": "min_argmax_agreement: 0.9985"},
    ),
    Task(
        "ppocr_det",
        _each(task_inputs.text_page),
        task_answers.found_boxes,
        "percentile, percentile: 99.99",
        "min_region_agreement: 1, mask_threshold: 0.3, region_side: 3, region_score: 0.6",
        "channels",
        calibrating=8,
        limiting=48,
    ),
    Task("silero_vad", _frames, _speech, "min_max", "min_sqnr_db: 12", calibrating=80, limiting=40),
    Task(
        "magika",
        _each(task_inputs.file_ends),
        task_answers.greatest,
        "min_max",
        "min_sqnr_db: 20",
        limiting=24,
    ),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """Inputs with the float model's answers, and the folder with the other two sets."""

    samples: Sequence[Sample]
    answers: Sequence[object]
    folder: Path


def measure(
    task: Task, normalized: Path, devices: Sequence[str], judged: int, project: Project
) -> list[Row]:
    """One row a device; `normalized` holds the task's model."""
    specs = load_specs(devices, project)
    subject = _subject(normalized, specs[0])
    with TemporaryDirectory() as name:
        sets = _make_sets(task, subject, judged, Path(name))
        return [_row(task, replace(subject, spec=spec), sets) for spec in specs]


def _subject(normalized: Path, spec: HardwareSpec) -> Subject:
    import onnx

    from stages.recipe.onnx_import import import_model

    model, samples = normalized / "model.onnx", normalized / "samples.npz"
    graph, constants = import_model(onnx.load(model))
    return Subject(model, graph, constants, spec, samples, load_samples(samples)[0])


def _make_sets(task: Task, subject: Subject, judged: int, folder: Path) -> Judged:
    types = {name: subject.graph.types[name] for name in subject.graph.inputs}
    reference = OnnxRuntimeReference(subject.model)
    for file, seed, count in (
        ("calibration.npz", _CALIBRATING, task.calibrating),
        ("limiting.npz", _LIMITING, task.limiting),
    ):
        save_samples(folder / file, task.inputs(seed, count, types, reference))
    samples = task.inputs(_JUDGED, judged, types, reference)
    return Judged(samples, [task.answer(reference.run(sample)) for sample in samples], folder)


def _row(task: Task, subject: Subject, sets: Judged) -> Row:
    alone = limited = _quantized(task, subject, sets.folder, "")
    agreeing_alone = agreeing = _agreeing(task, subject, alone, sets)
    wanted = task.limit_of(subject.spec.name)
    if wanted is not None:
        limit = f"accuracy: {{{wanted}, data: limiting.npz}}\n"
        limited = _quantized(task, subject, sets.folder, limit)
        agreeing = _agreeing(task, subject, limited, sets)
    row = Row(
        task=task,
        device=subject.spec.name,
        judged=len(sets.samples),
        in_float=_agreeing(task, subject, Quantization({}, frozenset()), sets),
        alone=agreeing_alone,
        limited=agreeing,
        kept=tuple(op.name for op in subject.graph.operators if op.name in limited.keep),
        note=limited.notes[-1],
    )
    print(
        f"{task.model} {row.device}: {row.alone} of {row.judged} agree in int8 alone, "
        f"{row.limited} with {len(row.kept)} operators in float; {row.note}",
        flush=True,
    )
    return row


def _quantized(task: Task, subject: Subject, folder: Path, limit: str) -> Quantization:
    file = folder / "quantization.yaml"
    file.write_text(
        f"version: 1\nmodel: {subject.graph.name}\n{limit}"
        f"calibration: {{data: calibration.npz, method: {task.method}, "
        f"equalize: {task.equalize}}}\n"
    )
    quantization = decide(load_settings(file, subject.graph), subject).quantization
    assert quantization is not None, "a file was given"
    return quantization


def _agreeing(task: Task, subject: Subject, quantization: Quantization, sets: Judged) -> int:
    trial = Trial(subject.graph, subject.constants, subject.spec, quantization, subject.sample)
    return sum(
        task_answers.agree(task.answer(trial.run(sample)), answer)
        for sample, answer in zip(sets.samples, sets.answers, strict=True)
    )


_HEAD = (
    "model", "device", "ranges", "inputs", "all in float", "int8 alone", "limit", "in float",
    "with them",
)  # fmt: skip


def lines(rows: Sequence[Row]) -> list[str]:
    """The page's part, between its marks."""
    kept = [
        f"- {row.task.model} on {row.device} in float: "
        + ", ".join(f"`{name}`" for name in row.kept)
        for row in rows
        if row.kept
    ]
    return [*table(_HEAD, [_cells(row) for row in rows]), "", *kept]


def _cells(row: Row) -> list[str]:
    return [
        row.task.model,
        row.device,
        row.task.method.split(":")[-1].strip(),
        str(row.judged),
        f"{row.in_float / row.judged:.0%}",
        f"{row.alone / row.judged:.0%}",
        _limit(row),
        str(len(row.kept)),
        f"{row.limited / row.judged:.0%}",
    ]


def _limit(row: Row) -> str:
    limit = row.task.limit_of(row.device)
    return "none" if limit is None else f"`{limit}`"


def write_table(rows: Sequence[Row], page: Path) -> None:
    """Puts the table between the marks of the page."""
    replace_marked(page, _MARK, lines(rows))


def normalize_task(task: Task, folder: Path, project: Project) -> Path:
    """The registry's model, normalised."""
    from stages.normalize import normalize
    from stages.normalizer.registry import load_registry, resolve

    source = resolve(task.model, load_registry(project.registry), project.cache)
    normalize(source, folder / task.model, seed=0, sample_count=1)
    return folder / task.model


def main() -> None:
    """Measures every task on every device, and writes the page's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judged", type=int, default=50, help="inputs a task")
    parser.add_argument("--tasks", nargs="*", default=[task.model for task in TASKS])
    parser.add_argument("--hardware", nargs="*", default=list(_DEVICES))
    arguments = parser.parse_args()
    project = find_project()
    rows: list[Row] = []
    with TemporaryDirectory() as name:
        for task in TASKS:
            if task.model in arguments.tasks:
                normalized = normalize_task(task, Path(name), project)
                rows += measure(task, normalized, arguments.hardware, arguments.judged, project)
    if len(rows) == len(TASKS) * len(_DEVICES):
        write_table(rows, project.root / "docs" / _PAGE)
    else:
        print("\n".join(lines(rows)))


if __name__ == "__main__":
    main()
