"""What goes wrong around DVC's graph: each with a message that says what and where, and a cure."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.dvc_graph import claims as dvc_claims
from flows.dvc_graph import leftovers
from flows.dvc_graph import lockfile as dvc_lockfile
from flows.dvc_graph.graph import open_graph, source_prints
from flows.running.matrix_session import NodeAnswer
from flows.steps.matrix_request import Standing
from flows.steps.stage_calls import Stage
from stages.errors import InputError, Outcome
from tests.flows.matrix_project import MatrixProject, counted, make_matrix_project, standings

STEPS = 6
NORMALIZED = "results/normalized/m0/model.onnx"
GATE = "results/h0/m0/gate/gate.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """One pair, brought up to date."""
    project = make_matrix_project(tmp_path_factory.mktemp("made") / "p", ("m0",), ("h0",))
    assert counted(project.bring_up_to_date()) == {Standing.RAN: STEPS}
    return project


@pytest.fixture
def project(made: MatrixProject, tmp_path: Path) -> MatrixProject:
    """A copy of it."""
    return made.copied(tmp_path / "p")


def failed(answers: dict[str, NodeAnswer]) -> NodeAnswer:
    """The one that failed."""
    (answer,) = (a for a in answers.values() if a.standing is Standing.FAILED)
    return answer


def test_a_stage_that_makes_the_same_again_leaves_the_others_fresh(project: MatrixProject) -> None:
    project.change("models/m0/model.yaml", "# a comment\n")
    answers = standings(project.bring_up_to_date())
    assert answers.pop("normalize@m0") is Standing.RAN
    assert set(answers.values()) == {Standing.FRESH}
    assert project.began() == ["normalize@m0"]
    assert project.status() == {}


def test_forced_stages_run_though_they_are_fresh(project: MatrixProject) -> None:
    before = project.cache()
    answers = standings(project.bring_up_to_date(forced=(Stage.BENCHMARK,)))
    assert answers == {"benchmark@m0-h0": Standing.RAN, "gate@m0-h0": Standing.FRESH}
    assert project.cache() == before
    assert project.status() == {}


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (("models/m0/model.yaml", "more: 1\n"), STEPS - 1),  # the gate reads what it read before
        (("hardware_specs/h0.yaml", "more: 1\n"), 4),
        (("baselines/h0/m0.json", "{}"), 1),
    ],
)
def test_a_change_makes_stale_what_depends_on_it(
    change: tuple[str, str], stale: int, project: MatrixProject
) -> None:
    project.change(*change)
    project.bring_up_to_date()
    assert len(project.began()) == stale
    assert project.status() == {}


def test_parameters_of_a_stage_make_it_stale_and_no_other(project: MatrixProject) -> None:
    project.set_params(gate={"max_p99_increase_percent": 9}, nightly={"median_nights": 3})
    project.bring_up_to_date()
    assert project.began() == ["gate@m0-h0"]


def test_a_missing_parameter_is_named(project: MatrixProject) -> None:
    project.edit("gate", params=["gate.nowhere"])
    with pytest.raises(InputError, match=r"gate@m0-h0 .* 'gate.nowhere'") as refused:
        project.bring_up_to_date()
    assert refused.value.where == "params.yaml"


def test_a_missing_dependency_fails_its_stage_and_skips_the_rest(project: MatrixProject) -> None:
    (project.root / "hardware_specs/h0.yaml").unlink()
    answers = project.bring_up_to_date()
    assert counted(answers) == {Standing.FAILED: 1, Standing.SKIPPED: 4}
    assert failed(answers).outcome is Outcome.BAD_INPUT
    assert "hardware_specs/h0.yaml, which is missing" in failed(answers).message


def test_an_input_that_changes_meanwhile_spoils_the_run(project: MatrixProject) -> None:
    project.change("models/m0/model.yaml", "more: 1\n")
    project.mark("normalize@m0", "echo 'more: 2' >> models/m0/model.yaml")
    answers = project.bring_up_to_date()
    assert "models/m0 changed while normalize@m0 ran" in failed(answers).message
    assert counted(answers) == {Standing.FAILED: 1, Standing.SKIPPED: 5}
    project.unmark("normalize@m0")
    assert counted(project.bring_up_to_date()) == {Standing.RAN: STEPS - 1, Standing.FRESH: 1}
    assert project.status() == {}


def test_an_output_that_isn_t_written_is_named(project: MatrixProject) -> None:
    project.mark("gate@m0-h0", "exit 0")
    answers = project.bring_up_to_date(forced=(Stage.GATE,))
    assert f"gate@m0-h0 ended without writing {GATE}" in failed(answers).message


@pytest.mark.parametrize("lose_runs", [False, True])
def test_an_output_that_vanished_or_was_edited_is_restored(
    lose_runs: bool, project: MatrixProject
) -> None:
    before = project.results()
    if lose_runs:  # dvc.lock knows what it was
        shutil.rmtree(project.root / ".dvc/cache/runs")
    (project.root / GATE).unlink()
    project.change(NORMALIZED, "edited\n")
    answers = standings(project.bring_up_to_date())
    assert answers.pop("normalize@m0") is Standing.RESTORED
    assert answers.pop("gate@m0-h0") is Standing.RESTORED
    assert set(answers.values()) == {Standing.FRESH}
    assert project.began() == []
    assert project.results() == before


def test_what_the_cache_lost_is_made_again(project: MatrixProject) -> None:
    before = project.cache()
    shutil.rmtree(project.root / ".dvc/cache/files")
    assert counted(project.bring_up_to_date()) == {Standing.RAN: STEPS}
    assert project.cache() == before
    assert project.status() == {}


def test_a_frozen_stage_never_runs(project: MatrixProject, tmp_path: Path) -> None:
    project.edit("compile", frozen=True)
    twin = project.copied(tmp_path / "q")
    for copy in (project, twin):
        copy.change("hardware_specs/h0.yaml", "more: 1\n")
        copy.change("results/h0/m0/package/plan.txt", "by hand\n")
    answers = standings(project.bring_up_to_date())
    assert answers["compile@m0-h0"] is Standing.FRESH
    twin.repro()
    assert set(project.began()) == set(twin.began())
    assert "compile@m0-h0" not in project.began()
    assert project.lock() == twin.lock()
    shutil.rmtree(project.root / "results/h0/m0/package")
    assert "`dvc unfreeze compile@m0-h0`" in failed(project.bring_up_to_date()).message


_CIRCLE = "stages: {a: {cmd: x, deps: [p], outs: [q]}, b: {cmd: y, deps: [q], outs: [p]}}"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("dvc.yaml", "stages: [1, 2]", "dvc.yaml"),
        ("dvc.yaml", "stages: {a: {cmd: x, outs: [o]}, b: {cmd: y, outs: [o]}}", "output 'o'"),
        ("dvc.yaml", "stages: {a: {cmd: '${no.such}'}}", "no.such"),
        ("dvc.yaml", _CIRCLE, "both a dependency and an output"),
        ("dvc.yaml", "stages: {a: {", "dvc.yaml"),
        ("params.yaml", "matrix: [", "params.yaml"),
        ("dvc.lock", "", "dvc.lock"),  # as a kill in the middle of `dvc repro` may leave it
        ("dvc.lock", "schema: '2.0'\nstages: {a: {", "dvc.lock"),
        ("dvc.lock", "schema: '2.0'\nstages: [1]\n", "dvc.lock"),
        ("dvc.lock", "\0\0\0", "dvc.lock"),
    ],
)
def test_a_damaged_file_is_named_with_a_cure(
    file: str, content: str, said: str, project: MatrixProject
) -> None:
    project.write(file, content)
    with pytest.raises(InputError, match=said) as refused:
        project.bring_up_to_date()
    assert "Traceback" not in str(refused.value)
    assert refused.value.hint
    if file == "dvc.lock":
        assert "delete it" in refused.value.hint
        (project.root / file).unlink()
        assert counted(project.bring_up_to_date()) == {Standing.RESTORED: STEPS}
        assert project.status() == {}


def test_a_folder_without_dvc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no DVC project") as refused, open_graph(tmp_path):
        pass
    assert "dvc init" in refused.value.hint


def full(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_the_lockfile_keeps_the_old_one(
    project: MatrixProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (project.root / "dvc.lock").read_bytes()
    project.change("models/m0/model.yaml", "more: 1\n")
    with monkeypatch.context() as patched:
        patched.setattr(dvc_lockfile.os, "fsync", full)
        with pytest.raises(InputError, match=r"dvc\.lock can't be written: No space") as refused:
            project.bring_up_to_date()
    assert "run-cache keeps all results" in refused.value.hint
    assert (project.root / "dvc.lock").read_bytes() == before
    assert not list(project.root.glob(".dvc.lock*"))
    project.forget()
    assert Standing.RAN not in counted(project.bring_up_to_date())
    assert project.began() == []
    assert project.status() == {}


@pytest.mark.parametrize("place", ["dvc.output.otransfer", "flows.dvc_graph.runs._yaml"])
def test_a_full_disk_at_the_cache_loses_only_that_stage(
    place: str, project: MatrixProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.change("models/m0/model.yaml", "more: 1\n")
    with monkeypatch.context() as patched:
        patched.setattr(place, full)
        answers = project.bring_up_to_date()
    assert counted(answers) == {Standing.FAILED: 1, Standing.SKIPPED: 5}
    assert "the results of normalize@m0 can't be saved: No space left" in failed(answers).message
    assert failed(answers).outcome is Outcome.BAD_INPUT
    assert counted(project.bring_up_to_date())[Standing.RAN] == STEPS - 1
    assert project.status() == {}


@pytest.mark.parametrize(
    "place",
    [
        ".package.ab12.partial",
        ".package.partial-7",
        ".package.old-9",
    ],
)
def test_what_a_killed_stage_left_is_removed_when_it_runs(
    place: str, project: MatrixProject
) -> None:
    project.write(f"results/h0/m0/{place}/file", "half")
    project.write("results/h0/m0/.packages.partial-7", "not its own")
    project.bring_up_to_date(forced=(Stage.COMPILE,))
    assert not (project.root / "results/h0/m0" / place).exists()
    assert (project.root / "results/h0/m0/.packages.partial-7").exists()


def test_dvc_s_own_leftovers_are_swept_when_they_are_old(
    project: MatrixProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.cache()
    for place in (".a.tmp", "00/.b.tmp"):
        project.write(f".dvc/cache/files/md5/{place}", "half")
    with open_graph(project.root) as graph:
        graph.sweep()
        assert len(project.cache()) == len(before) + 2
        monkeypatch.setattr(leftovers, "_DVC_SECONDS", -1.0)
        graph.sweep()
    assert project.cache() == before


PAIRS = [f"m{model} on h{device}" for model in (0, 1) for device in (0, 1)]


def test_a_remote_that_is_down_is_said_once_and_done_without(
    project: MatrixProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class StoreError(Exception):
        """As a store's own client raises."""

    def pull(*_arguments: object, **_options: object) -> None:
        asked.append(1)
        raise StoreError("no route to host")

    asked: list[int] = []
    monkeypatch.setattr("dvc.data_cloud.DataCloud.pull", pull)
    config = "[core]\n    remote = far\n['remote \"far\"']\n    url = /nowhere\n"
    project.write(".dvc/config.local", config)
    project.lose_results()
    shutil.rmtree(project.root / ".dvc/cache/files")
    assert counted(project.bring_up_to_date()) == {Standing.RAN: STEPS}
    assert asked
    said = capsys.readouterr().err
    assert said.count("going on without it (StoreError: no route to host)") == 1


def test_dvc_commands_keep_away_from_what_a_run_writes(
    project: MatrixProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dvc.exceptions import DvcException

    project.change("hardware_specs/h0.yaml", "more: 1\n")
    with open_graph(project.root) as graph, graph.claimed(["compile@m0-h0"]):
        with pytest.raises(DvcException, match="failed to reproduce"):
            project.repro("compile@m0-h0")
        with pytest.raises(DvcException, match=rf"PID {os.getpid()}\): recipe flow"):
            project.status()
        monkeypatch.setattr(dvc_claims, "_COMMAND", "dvc repro")  # as if it were another's
        with (
            pytest.raises(InputError, match="another command uses the results"),
            graph.claimed(["compile@m0-h0"]),
        ):
            pass
    assert project.began() == []
    project.repro("compile@m0-h0")
    assert project.began() == ["compile@m0-h0"]


def _command(project: MatrixProject) -> None:
    project.edit("validate", cmd="sh step.sh validate ${item.model} ${item.hardware} # other")


@pytest.mark.parametrize(
    ("change", "affected"),
    [
        (lambda p: p.change("models/m0/model.yaml"), {"normalize m0"}),
        (lambda p: p.change("baselines/h1/m0.json"), {"gate m0 on h1", "gate m1 on h1"}),
        (
            lambda p: p.set_params(benchmark={"runs": 7}),
            {f"benchmark m{m} on h{h}" for m in (0, 1) for h in (0, 1)},
        ),
        (_command, {f"validate m{m} on h{h}" for m in (0, 1) for h in (0, 1)}),
        (lambda p: p.change(NORMALIZED), set()),
        (lambda p: p.lose_results(), set()),
    ],
)
def test_source_prints_differ_exactly_where_a_step_is_affected(
    change: Callable[[MatrixProject], None], affected: set[str], tmp_path: Path
) -> None:
    project = make_matrix_project(tmp_path / "p", ("m0", "m1"), ("h0", "h1"))
    project.write(NORMALIZED, "made before\n")
    before = source_prints(project.root)
    assert len(before) == 22
    change(project)
    after = source_prints(project.root)
    assert {f"{s.stage} {s.subject}" for s in before if before[s] != after[s]} == affected
