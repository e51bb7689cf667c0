"""What the merge gate runs and compares, with an engine that pretends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from flows.git.command import GitError
from flows.merging.comparison import compare
from flows.merging.merge_repository import repository_source
from flows.merging.result import MergeRequest, judge_idle, judge_request
from flows.merging.sides import affected_pairs, plain_message
from flows.merging.source import project_source
from flows.project.places import CACHE_VARIABLE
from flows.project.requests import Pair
from flows.repositories.all_models import RepositoryModels
from flows.steps.board import Step
from flows.steps.matrix_request import MatrixRunner
from flows.steps.stage_calls import Stage
from flows.terminal.terminal import Terminal
from stages.comparison.merge_rule import PairVerdict
from stages.errors import InputError, Outcome
from stages.report.merge_report import MergeReport, headline
from tests.flows.git_repositories import Repository, set_git_environment
from tests.flows.merge_project import (
    DEVICE,
    FakeEngine,
    activated,
    make_merge_project,
    write_model,
)
from tests.flows.small_models import save

QUIET = Terminal(quiet=True)


class Merges:
    """A project in Git on a new branch of main, and an engine that pretends."""

    def __init__(self, folder: Path, engine: FakeEngine) -> None:
        self.repository, self.project = make_merge_project(folder / "project")
        self.models = Repository(folder / "models")
        self.engine = engine
        self.run: MatrixRunner = engine.run_matrix

    @property
    def root(self) -> Path:
        return self.project.root

    def branch(self, start: str = "main") -> None:
        self.repository.git("checkout", "-q", "-B", "work", start)

    def compare(self, base: str = "main", head: str | None = None) -> MergeReport:
        self.engine.ran.clear()
        return compare(
            self.project,
            project_source(self.project, base, head, RepositoryModels()),
            1,
            QUIET,
            self.run,
        )

    def set_params(self, old: str, new: str) -> None:
        text = (self.root / "params.yaml").read_text()
        assert old in text
        (self.root / "params.yaml").write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Merges:
    return Merges(tmp_path_factory.mktemp("merges"), FakeEngine())


@pytest.fixture
def merges(made: Merges, monkeypatch: pytest.MonkeyPatch) -> Iterator[Merges]:
    monkeypatch.setenv(CACHE_VARIABLE, str(made.root.parent / "cache"))
    set_git_environment(monkeypatch)
    monkeypatch.setattr(made, "run", made.engine.run_matrix)
    made.engine.crashes_in = ""
    made.branch()
    yield made
    made.repository.git("reset", "-q", "--hard")
    made.repository.git("clean", "-q", "-f", "-d")


def verdicts(report: MergeReport) -> dict[str, PairVerdict]:
    return {pair.sides.model: pair.verdict for pair in report.judgement.pairs}


def test_only_what_differs_is_run_base_first(merges: Merges) -> None:
    write_model(merges.root, "net_b", activated("Atan"))
    report = merges.compare()
    assert merges.engine.ran == [("base", ["net_b"]), ("head", ["net_b"])]
    assert headline(report) == (
        "FAIL: net_b on npu_tiny: P99 1.200 ms -> 3.000 ms (+150.0 %, limit +5 %); now on the "
        "host: Atan_3 (NonMaxSuppression isn't in the operator list of hw1)"
    )
    assert report.judgement.outcome is Outcome.GATE_FAILED
    assert report.untouched == 1
    assert report.head.endswith(" with local changes")


def test_a_commit_that_touches_no_model_runs_nothing(merges: Merges) -> None:
    merges.repository.write("README.md", "done\n")
    merges.repository.commit("words")
    report = merges.compare()
    assert headline(report) == "PASS: no pair is affected (2 untouched)"
    assert merges.engine.ran == []
    assert report.base.startswith("main (")


def test_a_branch_is_compared_with_where_it_left_its_base(merges: Merges) -> None:
    write_model(merges.root, "net_b", activated("Tanh"))
    merges.repository.commit("mine")
    merges.repository.git("checkout", "-q", "-B", "moved", "main")
    write_model(merges.root, "net_a", activated("Atan"))
    merges.repository.commit("theirs")
    report = merges.compare("moved", "work")
    assert list(verdicts(report)) == ["net_b"]
    assert report.head.startswith("work (")


def test_a_spec_change_affects_every_model_on_the_device(merges: Merges) -> None:
    path = merges.root / "hardware_specs" / f"{DEVICE}.yaml"
    path.write_text(path.read_text().replace("clock: 500 MHz", "clock: 400 MHz", 1))
    report = merges.compare()
    assert set(verdicts(report)) == {"net_a", "net_b"}


def test_a_compiler_change_affects_everything(merges: Merges) -> None:
    path = merges.root / "stages" / "compiler" / "__init__.py"
    path.write_text(path.read_text() + "# changed\n")
    assert set(verdicts(merges.compare())) == {"net_a", "net_b"}


def test_new_and_deleted_models(merges: Merges) -> None:
    write_model(merges.root, "net_c", activated("Sinh"))
    shutil.rmtree(merges.root / "models" / "net_a")
    merges.set_params("[net_a, net_b]", "[net_b, net_c]")
    report = merges.compare()
    assert verdicts(report) == {"net_c": PairVerdict.NEW_FAIL, "net_a": PairVerdict.DELETED}
    assert merges.engine.ran == [("head", ["net_c"])]
    assert headline(report) == "FAIL: net_c on npu_tiny (new): compile failed: no room"
    new = report.judgement.pairs[0].sides.head
    assert new is not None
    assert new.failures[0].message == "no room\nat: x\nhint: shrink it"


def test_a_raised_limit_holds_and_is_said(merges: Merges) -> None:
    merges.set_params("percent: 5", "percent: 500")
    write_model(merges.root, "net_b", activated("Atan"))
    report = merges.compare()
    assert verdicts(report)["net_b"] is PairVerdict.PASS
    assert report.limit_percent == 500
    assert report.notes == (
        "gate.max_p99_increase_percent is 5 in base and 500 in head; head's holds",
    )


def test_a_limit_that_is_none_is_refused(merges: Merges) -> None:
    merges.set_params("percent: 5", "percent: much")
    with pytest.raises(InputError, match="max_p99_increase_percent is 'much'"):
        merges.compare()


def test_both_sides_are_measured_in_the_same_weather(merges: Merges) -> None:
    merges.set_params("warmup: 5, seed: 0", "warmup: 5, seed: 9")
    report = merges.compare()
    assert headline(report) == "PASS: no pair is affected (2 untouched)"
    assert report.notes == (
        "benchmark.seed is 0 in base and 9 in head; both were measured with head's",
    )


def test_a_base_from_before_the_graph_is_no_base(merges: Merges) -> None:
    report = merges.compare("before")
    assert set(verdicts(report).values()) == {PairVerdict.NEW}
    assert merges.engine.ran == [("head", ["net_a", "net_b"])]
    assert "has no dvc.yaml, so there is nothing to compare with" in report.notes[0]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("dvc.yaml", "stages: [unreadable\n"),
        ("dvc.yaml", "stages: {compile: {matrix: {model: '${matrix.nets}'}, cmd: x}}\n"),
        ("params.yaml", "matrix: [unreadable\n"),
        ("params.yaml", "one: 1\n"),
    ],
)
def test_a_base_whose_graph_can_not_be_read_is_no_base(
    merges: Merges, file: str, content: str
) -> None:
    merges.repository.write(file, content)
    broken = merges.repository.commit("broken")
    merges.repository.git("checkout", "-q", "main", "--", ".")
    merges.repository.commit("mended")
    report = merges.compare(broken)
    assert set(verdicts(report).values()) == {PairVerdict.NEW}
    assert report.notes[-1].startswith("base can't be read, so every pair counts as new: ")
    assert str(merges.root.parent) not in report.notes[-1]


def test_a_base_that_breaks_down_excuses_nothing(merges: Merges) -> None:
    write_model(merges.root, "net_b", activated("Tanh"))
    merges.engine.crashes_in = "base"
    report = merges.compare()
    assert verdicts(report)["net_b"] is PairVerdict.NEW
    assert report.judgement.pairs[0].reasons[-1] == (
        "nothing to compare with: in base compile failed: KeyError: 1"
    )


def test_a_compiler_that_crashes_on_head_blocks(merges: Merges) -> None:
    write_model(merges.root, "net_b", activated("Cosh"))
    report = merges.compare()
    assert headline(report) == "FAIL: net_b on npu_tiny: compile failed: KeyError: 1"
    assert report.judgement.outcome is Outcome.INTERNAL_ERROR


def test_a_head_without_a_matrix_is_refused(merges: Merges) -> None:
    with pytest.raises(InputError, match="DVC can't read the graph"):
        merges.compare("before", "before")
    merges.set_params("[net_a, net_b]", "[]")
    with pytest.raises(InputError, match="head has no matrix"):
        merges.compare()


def test_bad_revisions_are_refused(merges: Merges) -> None:
    with pytest.raises(GitError, match="no commit 'nowhere'"):
        merges.compare("nowhere")
    lonely = merges.repository.git("commit-tree", "-m", "alone", "HEAD^{tree}")
    with pytest.raises(GitError, match="share no commit") as caught:
        merges.compare(lonely)
    assert "fetch-depth: 0" in caught.value.hint


def test_reports_that_can_not_be_read_are_a_failure_of_their_pair(
    merges: Merges, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(merges.root, "net_b", activated("Tanh"))
    original = merges.engine.run_matrix

    def damaged(request: object, terminal: Terminal) -> object:
        result = original(request, terminal)  # type: ignore[arg-type]
        if result.root.name == "head":
            (result.places(Pair("net_b", DEVICE)).gate / "gate.json").write_text("{")
        return result

    monkeypatch.setattr(merges, "run", damaged)
    report = merges.compare()
    assert headline(report).startswith("FAIL: net_b on npu_tiny: compile failed: the report: ")


def test_a_merge_that_affects_nothing_needs_no_engine(merges: Merges, tmp_path: Path) -> None:
    request = MergeRequest("main")
    idle = judge_idle(merges.project, request, tmp_path)
    assert idle is not None
    assert idle.headline == "PASS: no pair is affected (2 untouched)"
    assert {path.name for path in idle.folder.iterdir()} == {
        "report.md",
        "report.json",
        "junit.xml",
    }
    write_model(merges.root, "net_b", activated("Tanh"))
    assert judge_idle(merges.project, request, tmp_path) is None
    judged = judge_request(merges.project, request, tmp_path, QUIET, merges.run)
    assert judged.headline.startswith("PASS: 1 pair compared: 1 changed")
    assert judged.results.parent.name == "head"


# A model repository.


@pytest.fixture
def models(merges: Merges, tmp_path: Path) -> Repository:
    """Five models on main; the branch `work` is checked out."""
    repository = Repository.make(tmp_path / "models")
    for name in ("m1", "m2", "m3", "m4", "m5"):
        save_model(repository, name, "Relu", channels=4 + int(name[1]))
    repository.commit("five models")
    repository.git("checkout", "-q", "-b", "work")
    configure(merges, repository)
    return repository


def save_model(repository: Repository, name: str, activation: str, channels: int = 8) -> None:
    folder = repository.folder / "nets"
    folder.mkdir(exist_ok=True)
    save(activated(activation, channels), folder / f"{name}.onnx")


def configure(merges: Merges, repository: Repository) -> None:
    merges.repository.write(
        "models/repositories.yaml", yaml.safe_dump({"team": {"url": str(repository.folder)}})
    )


def compare_models(merges: Merges, base: str = "main", head: str = "work") -> MergeReport:
    merges.engine.ran.clear()
    with repository_source(merges.project, "team", base, head, QUIET.say) as source:
        return compare(merges.project, source, 1, QUIET, merges.run)


def test_one_of_five_models_is_run(merges: Merges, models: Repository) -> None:
    save_model(models, "m3", "Atan", 7)
    models.commit("slower")
    report = compare_models(merges)
    assert merges.engine.ran == [("base", ["m3"]), ("head", ["m3"])]
    assert headline(report).startswith("FAIL: m3 on npu_tiny: P99 1.200 ms -> 3.000 ms")
    assert (report.untouched, report.repository, report.key) == (4, "team", "team")
    assert report.base.startswith("main (")


def test_a_readme_of_a_model_repository_runs_nothing(merges: Merges, models: Repository) -> None:
    models.write("README.md", "five models\n")
    models.commit("words")
    report = compare_models(merges)
    assert merges.engine.ran == []
    assert headline(report) == "PASS: no pair is affected (5 untouched)"


def test_added_renamed_and_deleted_models(merges: Merges, models: Repository) -> None:
    save_model(models, "m6", "Tanh", 32)
    models.git("mv", "nets/m1.onnx", "nets/first.onnx")
    models.git("rm", "-q", "nets/m2.onnx")
    models.commit("moves")
    report = compare_models(merges)
    assert verdicts(report) == {
        "m6": PairVerdict.NEW,
        "first": PairVerdict.UNCHANGED,
        "m2": PairVerdict.DELETED,
    }
    assert merges.engine.ran == [("base", ["m1"]), ("head", ["first", "m6"])]


def test_a_model_that_can_not_be_placed_blocks(merges: Merges, models: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 10\n"
    models.write("nets/m4.onnx", pointer.format("0" * 64))
    models.write("nets/m7.onnx", pointer.format("1" * 64))
    models.commit("pointers")
    report = compare_models(merges)
    assert verdicts(report) == {"m4": PairVerdict.FAIL, "m7": PairVerdict.NEW_FAIL}
    assert headline(report).startswith("FAIL: m4 on npu_tiny: normalize failed: ")
    assert merges.engine.ran == []


def test_a_model_that_could_not_be_placed_before_is_fixed(
    merges: Merges, models: Repository
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 10\n"
    models.write("nets/m4.onnx", pointer.format("0" * 64))
    before = models.commit("a pointer")
    save_model(models, "m4", "Relu")
    models.commit("the model")
    assert verdicts(compare_models(merges, before)) == {"m4": PairVerdict.FIXED}


# Pure parts.


def prints(**digests: str) -> dict[Step, str]:
    """`a="x"`: model a on device d, all of whose steps depend on x."""
    steps = {Step(stage, model, "" if stage is Stage.NORMALIZE else "d"): f"{digest} {stage}"
             for model, digest in digests.items() for stage in Stage}  # fmt: skip
    return steps


def test_affected_pairs() -> None:
    base = prints(same="1", changed="1", gone="1", old="1")
    head = prints(same="1", changed="2", come="1", new="1")
    found = affected_pairs(base, head, {"new": "old"})
    assert found.pairs == {Pair("changed", "d"): Pair("changed", "d"), Pair("come", "d"): None}
    assert found.deleted == (Pair("gone", "d"),)
    assert found.untouched == 2
    moved = affected_pairs(base, prints(new="2"), {"new": "old"})
    assert moved.pairs == {Pair("new", "d"): Pair("old", "d")}


def test_one_changed_step_is_enough() -> None:
    base = prints(a="1")
    head = base | {Step(Stage.NORMALIZE, "a"): "other"}
    assert list(affected_pairs(base, head, {}).pairs) == [Pair("a", "d")]


def test_messages_name_no_machine(tmp_path: Path) -> None:
    assert plain_message(f"no\nat: {tmp_path}/models/a", tmp_path) == "no\nat: models/a"
    trace = f'Traceback (most recent call last):\n  File "{tmp_path}/x"\nKeyError: 1\n'
    assert plain_message(trace, tmp_path) == "KeyError: 1"
    assert plain_message("", tmp_path) == "no message"
