"""A matrix whose commands take milliseconds: the project's own dvc.yaml with its stages, places and
parameters, but each command copies a made-up report, marked with its inputs' checksum.

Every command logs its begin and its end, in a file that no stage lists. A marker changes what a
step's command does: shell code of the test, such as `sleep 5`, `exit 4` or `reports=failed`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flows.project.requests import Pair
from flows.running.matrix_session import NodeAnswer
from flows.steps.matrix_request import Standing
from flows.steps.stage_calls import Stage
from stages.package.manifest import MANIFEST, print_manifest
from stages.report.facts import FILES
from tests.flows.command import REPOSITORY
from tests.flows.dvc_project import DvcProject, contents
from tests.flows.fake_matrix import manifest_of
from tests.flows.git_repositories import Repository
from tests.flows.project_files import OF_DVC, copy_project
from tests.flows.sample_reports import REPORTS, write_report

LOG, MARKERS, CANNED = "log/commands", "markers", "canned"
_KEPT = ("results/", "hardware_specs/", "models/${", "baselines/")

_STEP = """\
#!/bin/sh
# step.sh STAGE MODEL [HARDWARE]: writes what the stage writes, beside, and moves it into place.
set -e
stage=$1 model=$2 hardware=$3 name=$1@$2${3:+-$3} reports=passed made=metrics.json
mkdir -p log
echo "began $name" >> log/commands
[ ! -f "markers/$name" ] || . "markers/$name"
pair=results/$hardware/$model spec=hardware_specs/$hardware.yaml
normalized=results/normalized/$model
case $stage in
normalize) out=$normalized inputs=models/$model/model.yaml made= ;;
compile) out=$pair/package inputs="$normalized/model.onnx $spec" made= ;;
validate) out=$pair/validation inputs="$normalized/model.onnx $pair/package/plan.txt $spec" ;;
benchmark) out=$pair/benchmark inputs="$pair/package/plan.txt $spec"
    made="metrics.json groups.csv operators.csv trace.json samples.csv" ;;
gate) out=$pair/gate inputs="$pair/benchmark/benchmark.json $pair/validation/validation.json" ;;
thermal_stress) out=$pair/stress inputs="$pair/package/plan.txt $spec"
    made="metrics.json stress.csv" ;;
esac
partial=${out%/*}/.${out##*/}.partial-$$
mkdir -p $partial
cp canned/$stage/$reports/* $partial
# what a person may change without changing the model
[ $stage != normalize ] || grep -v '^#' $inputs > $partial/model.onnx
[ $stage != compile ] || cat $inputs > $partial/plan.txt
sum=$(cat $inputs | cksum | cut -d' ' -f1)
for file in $made; do
    case $file in
    *.json) echo "{\\"inputs\\": $sum}" > $partial/$file ;;
    *) printf "run,latency_ns\\n0,$sum\\n" > $partial/$file ;;
    esac
done
rm -rf $out
mv $partial $out
echo "ended $name" >> log/commands
"""


@dataclass(frozen=True)
class MatrixProject(DvcProject):
    """A project whose commands take milliseconds."""

    def mark(self, step: str, code: str) -> None:
        """Lets the command of a step, such as `compile@m0-h0`, begin with this shell code."""
        marker = self.root / MARKERS / step
        marker.parent.mkdir(exist_ok=True)
        marker.write_text(code + "\n")

    def unmark(self, step: str) -> None:
        """Lets it be as it was."""
        (self.root / MARKERS / step).unlink()

    def began(self) -> list[str]:
        """The steps whose commands began, in order, since the log was cleared."""
        return self._logged("began")

    def ended(self) -> list[str]:
        """The steps whose commands came to their end, in order."""
        return self._logged("ended")

    def forget(self) -> None:
        """Clears the log of commands."""
        (self.root / LOG).unlink(missing_ok=True)

    def write(self, path: str, content: str) -> None:
        """Writes a file of the project."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def change(self, path: str, content: str = "# changed\n") -> None:
        """Appends to a file of the project."""
        with (self.root / path).open("a") as stream:
            stream.write(content)

    def edit(self, stage: str, **keys: object) -> None:
        """Sets keys of a stage of dvc.yaml."""
        file = self.root / "dvc.yaml"
        content = yaml.safe_load(file.read_text())
        content["stages"].setdefault(stage, {}).update(keys)
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    def lock(self) -> Any:
        """dvc.lock's stages by name."""
        return yaml.safe_load((self.root / "dvc.lock").read_text())["stages"]

    def copied(self, root: Path) -> MatrixProject:
        """The same project in another folder, its log empty."""
        shutil.copytree(self.root, root)
        copy = MatrixProject(root)
        copy.forget()
        return copy

    def results(self) -> dict[str, bytes]:
        """What lies in results/."""
        return contents(self.root / "results")

    def cache(self) -> dict[str, Any]:
        """DVC's cache: the files by their hash, and what the run-cache's entries say; DVC folds
        long lines elsewhere."""
        folder = self.root / ".dvc" / "cache"
        entries = contents(folder / "runs")
        return contents(folder / "files") | {
            name: yaml.safe_load(entry) for name, entry in entries.items()
        }

    def lose_results(self) -> None:
        """What a fresh clone lacks, but for the cache."""
        shutil.rmtree(self.root / "results", ignore_errors=True)
        (self.root / "dvc.lock").unlink(missing_ok=True)

    def repro(self, *names: str) -> None:
        """`dvc repro` in this process, which spares the imports."""
        from dvc.repo import Repo

        with contextlib.chdir(self.root), Repo() as repo:
            repo.reproduce(list(names) or None)

    def status(self) -> Any:
        """`dvc status`, likewise."""
        from dvc.repo import Repo

        with contextlib.chdir(self.root), Repo() as repo:
            return repo.status()

    def _logged(self, what: str) -> list[str]:
        log = self.root / LOG
        lines = log.read_text().splitlines() if log.exists() else []
        return [name for word, name in (line.split() for line in lines) if word == what]


def make_matrix_project(
    root: Path, models: Sequence[str], hardware: Sequence[str]
) -> MatrixProject:
    """The project, committed."""
    project = MatrixProject(root)
    repository = Repository.make(root)
    copy_project(root, *OF_DVC)
    repository.write(".gitignore", f"results/\n.cache/\nhistory/\nlog/\n{MARKERS}/\n")
    for model in models:
        repository.write(f"models/{model}/model.yaml", f"description: {model}\n")
    for name in hardware:
        repository.write(f"hardware_specs/{name}.yaml", f"name: {name}\n")
        repository.write(f"baselines/{name}/.gitkeep", "")
    repository.write("step.sh", _STEP)
    params = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
    params["matrix"] = {"models": list(models), "hardware": list(hardware)}
    repository.write("params.yaml", yaml.safe_dump(params, sort_keys=False))
    repository.write("dvc.yaml", yaml.safe_dump({"stages": _stages()}, sort_keys=False))
    _write_reports(root / CANNED)
    repository.commit("the project")
    return project


def standings(answers: dict[str, NodeAnswer]) -> dict[str, Standing]:
    """How each came to its outputs."""
    return {name: answer.standing for name, answer in answers.items()}


def counted(answers: dict[str, NodeAnswer]) -> Counter[Standing]:
    """How many came so to their outputs."""
    return Counter(answer.standing for answer in answers.values())


def _stages() -> dict[str, Any]:
    """Those of the repository's dvc.yaml, with other commands and less code to depend on."""
    stages = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]
    for name, stage in stages.items():
        item = "${item.model}" if name == "normalize" else "${item.model} ${item.hardware}"
        stage["cmd"] = f"sh step.sh {name} {item}"
        code = ["step.sh", f"{CANNED}/{name}"]
        stage["deps"] = [dep for dep in stage["deps"] if dep.startswith(_KEPT)] + code
    return dict(stages)


def _write_reports(folder: Path) -> None:
    for stage in Stage:
        write_report(stage.value, folder / stage / "passed")
    manifest = print_manifest(manifest_of(Pair("model", "device")))
    (folder / Stage.COMPILE / "passed" / MANIFEST).write_text(manifest)
    for stage in Stage:
        if "verdict" in REPORTS.get(stage.value, {}):
            reasons = {"verdict": "FAIL", "reasons": [f"{stage} says no"]}
            write_report(stage.value, folder / stage / "failed", REPORTS[stage.value] | reasons)
    assert (folder / Stage.GATE / "failed" / FILES["gate"]).exists()
