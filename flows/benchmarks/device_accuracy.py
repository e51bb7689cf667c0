"""`make bench`: how far the simulated device errs against published latencies.

For each file in measurements/ whose chip has a spec: every network compiled, the spec's fitted
parameters fitted to half of the rows, all rows predicted. Writes docs/device_accuracy.md and a
scatter plot a chip. Plans are cached by what they were made from.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flows.calibrating.plan_source import PlanSource
from flows.calibrating.subjects import SubjectFinder
from flows.project.cores import usable_cores
from flows.project.files import write_beside
from flows.project.places import Project, find_project
from stages.calibration.accuracy import ChipAccuracy, CompiledRow, LeftOut, assess
from stages.calibration.accuracy_page import Context, Rows, accuracy_page, chip_plot
from stages.calibration.fit import FitOptions
from stages.calibration.measurements import Measurements, Precision, read_measurements
from stages.calibration.parameters import choose_parameters
from stages.calibration.plans import Way
from stages.calibration.predict import Tuner, read_base
from stages.errors import InputError
from stages.hardware.load import spec_names, spec_of

_PAGE, _PLOTS = "device_accuracy.md", "device_accuracy"
_LEAST_SPEARMAN = 0.97
_OTHER_AIM = 0.20
_AIMS: Mapping[Rows, float] = {
    ("rk3588_npu", None): 0.08,
    ("rk3576_npu", None): 0.08,
    ("nvidia_t4", None): 0.10,
    ("nvidia_a100", None): 0.10,
    ("qualcomm_htp_v73", Precision.FP16): 0.12,
}
_STUDY: Mapping[Rows, float] = {
    ("rk3576_npu", Precision.INT8): 0.086,
    ("rk3588_npu", Precision.INT8): 0.130,
    ("qualcomm_htp_v73", Precision.FP16): 0.192,
}
_NOTES: Mapping[str, str] = {
    "qualcomm_htp_v73": (
        "Float and quantised graphs are different programs on this chip, and cost a different "
        "submission (`driver.float_io`); both are fitted together. Classifiers are the graphs that "
        "AI Hub publishes (`models/zoo/pixels.py`): they begin with the image's normalisation, "
        "and DenseNet's batch normalisations are three operators each, as the vendor's counts of "
        "layers in int8 say (in fp16 they are one, so that DenseNet is slower here). Chosen by "
        "hand, with all rows in view but by the rows for the fit: `tensor_core.strided_input`, "
        "from five values (7 B; with 8 the rows that judge would err a little less); that bytes "
        "take half as many `tensor_core.output_cycles_by_type` as halves (YOLOv8, ResNet-50 and "
        "-101 for the fit); that an image's pixel counts 32 "
        "channels (`vector.pixel_channels`; 3, 12, 24 and 48 are worse); that maxima of bytes "
        "convert nothing (`vector.compares`); that 2 x - 1 is nothing in int8, where it "
        "changes the scale alone (Inception for the fit; GoogLeNet, which judges, begins so too). "
        "Loads that run ahead of their layer were tried and are worse on the rows for the fit. "
        "What seems to bound the rest: GoogLeNet's 240 us in int8 leave nothing for the threads "
        "that 13 pools and 10 relayouts start here (concatenations of channels that don't fill "
        "blocks of 32 are taken apart and laid out again); BERT and DistilBERT, whose layers are "
        "equal, were published with other times a layer; ResNet-18 is too fast in both types, and "
        "the vendor's two runtimes differ by 40 % on its int8 row. QCS9075 and SA8775P run fp16 "
        "1.4 times slower than this chip and int8 almost as fast: other rates, of which nothing "
        "is published; two rows of SA8775P (ResNet-101 and YOLO11 in int8) are four to five times "
        "those of its sisters."
    ),
    "rk3576_npu": (
        "What one core reads and writes is no longer fitted: the rows for the fit leave it open, a "
        "fit of it followed two small networks that come out too slow (YOLOv5n, LPRNet), and those "
        "that wait for weights (CLIP's text encoder, ResNet-50, which judge) came out too fast. "
        "That was in view when the reading rate was taken from RKLLM's published decoding instead. "
        "The launch is as open and is still fitted. Tried on the rows for the fit and not taken: "
        "results that drain in halves of a block of 32 channels explain YOLOv5n and YOLOv8n here, "
        "but not on the RK3588. YOLOv8n-pose is too fast on both chips, for a reason that isn't "
        "known."
    ),
    "edge_tpu": (
        "Networks beyond the parameter cache are the link's, whose bandwidth is fitted. What "
        "seems to bound the rest: DenseNet is too fast, for all scales are equal here and its "
        "concatenations need no requantisation; DeepLab's last resize and its ArgMax run on the "
        "host, whose loops are guessed; SSD's suppression of boxes on the host is left out. On the "
        "Dev Board both wait for a slower host, which isn't modelled."
    ),
    "jetson_orin_nano": (
        "Published are the figures of a framework in Python that runs TensorRT's engines; what it "
        "adds, and that kernels are launched one by one by a slow processor, is in the fitted "
        "launch. A captured graph of kernels takes some 4 us for each "
        "(`tests/hardware/test_published_relatives.py`)."
    ),
    "ascend_310": (
        "Two things that ATC is known to do are in the spec (`vendor_compiler`), from published "
        "sources of it and the profile in MobileNetV3's README: it leaves hard_swish and "
        "hard_sigmoid out of convolutions, and joins whole blocks of channels without a copy. They "
        "were looked for because GoogLeNet and MobileNetV3, both rows for the fit, came out in the "
        "wrong order, and with all rows in view. What seems to bound the rest: the next layer's "
        "weights are loaded less early than on the chip (ResNet-101: too slow)."
    ),
}
"""What bounds a chip's error, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The measurements of a chip: those that a fit may see, and those that only judge, by name."""

    hardware: str
    own: Measurements
    others: Mapping[str, Measurements]


def read_tables(folder: Path) -> list[Tables]:
    """All files of a folder: CHIP.csv with its CHIP-OTHER.csv, sorted by chip.

    Raises:
        InputError: a file is wrong.
    """
    files = sorted(folder.glob("*.csv"))
    own = [path for path in files if "-" not in path.stem]
    return [
        Tables(
            path.stem,
            read_measurements(path),
            {
                other.stem: read_measurements(other)
                for other in files
                if other.stem.startswith(path.stem + "-")
            },
        )
        for path in own
    ]


def assess_chip(
    tables: Tables, project: Project, jobs: int, options: FitOptions, ways: Sequence[Way]
) -> ChipAccuracy:
    """Compiles, fits and judges one chip; its own rows are compiled in all of these ways."""
    document = read_base(project.hardware_specs / f"{tables.hardware}.yaml")
    tuner = Tuner(document, choose_parameters(document, []))
    rows, left_out = compile_rows(tables.own, tuner, project, jobs, ways)
    others = {
        name: compile_rows(measurements, tuner, project, jobs, (Way.VENDORS,))
        for name, measurements in tables.others.items()
    }
    return assess(tuner, rows, left_out, others, options)


def compile_rows(
    measurements: Measurements, tuner: Tuner, project: Project, jobs: int, ways: Sequence[Way]
) -> tuple[list[CompiledRow], list[LeftOut]]:
    """The rows with their plans, and those that have none, with the reason."""
    spec = spec_of(tuner.document)
    finder = SubjectFinder(project, measurements.path.parent)
    source = PlanSource(project, measurements, jobs, _say)
    known, left_out = [], []
    for row in measurements.rows:
        if row.precision is Precision.W8A16:
            left_out.append(LeftOut(row, "for the compiler makes no w8a16 recipes"))
            continue
        try:
            finder.find(row.model, measurements.where(row))
            known.append(row)
        except InputError:
            left_out.append(LeftOut(row, "for models/zoo/ has no definition of it"))
    refused = source.prepare_what_compiles(known, spec)
    left_out += [LeftOut(row, f"for it doesn't compile: {why}") for row, why in refused.items()]
    rows = [CompiledRow(row, source.compiled(row, spec)) for row in known if row not in refused]
    if Way.OWN in ways:
        own = PlanSource(project, measurements, jobs, _say, Way.OWN)
        unmade = own.prepare_what_compiles((item.row for item in rows), spec)
        rows = [
            item if item.row in unmade else replace(item, own=own.compiled(item.row, spec).plan)
            for item in rows
        ]
    return rows, left_out


def write_page(chips: Sequence[ChipAccuracy], without_spec: Sequence[str], docs: Path) -> Path:
    """Writes the page and its plots."""
    plots = docs / _PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for chip in chips:
        plot = chip_plot(chip)
        if plot is not None:
            write_beside(plots / f"{chip.spec.name}.svg", plot.encode())
    context = Context(_AIMS, _OTHER_AIM, _LEAST_SPEARMAN, _STUDY, without_spec, _NOTES)
    write_beside(docs / _PAGE, accuracy_page(chips, context, _PLOTS).encode())
    return docs / _PAGE


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(prog="python -m flows.benchmarks.device_accuracy")
    parser.add_argument("--chips", nargs="+", help="specs; else all that are measured")
    parser.add_argument("--docs", type=Path, help="the folder for the page; else docs/")
    parser.add_argument("--jobs", type=int, default=usable_cores())
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--ways", nargs="+", type=Way, default=list(Way), help="of compiling")
    chosen = parser.parse_args()
    project = find_project()
    specs = spec_names(project.hardware_specs)
    tables = read_tables(project.root / "measurements")
    wanted = [item for item in tables if not chosen.chips or item.hardware in chosen.chips]
    options = FitOptions(starts=chosen.starts)
    chips = [
        assess_chip(item, project, chosen.jobs, options, chosen.ways)
        for item in wanted
        if item.hardware in specs
    ]
    without = [item.hardware for item in wanted if item.hardware not in specs]
    _say(f"written to {write_page(chips, without, chosen.docs or project.root / 'docs')}")


if __name__ == "__main__":
    main()
