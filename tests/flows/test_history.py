"""The history of nights: nothing that was written is ever lost."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.nights import history
from flows.nights.history import COLUMNS, append_nights, history_file, print_nights, read_history
from stages.comparison.nights import PairNight
from stages.errors import InputError, Outcome
from tests.comparison.test_drift import BROKEN, SOUND
from tests.flows.command import REPOSITORY, command_environment

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
rows = st.builds(
    replace,
    st.sampled_from([SOUND, BROKEN]),
    model=names,
    hardware=names,
    package=st.text("0123456789abcdef", max_size=8),
    p99_ns=st.none() | st.integers(1, 10**15),
    sqnr_db=st.none() | st.floats(-300, 300),
    outcome=st.sampled_from(list(Outcome)),
    reason=st.text(st.sampled_from('a ",;|\N{GREEK SMALL LETTER MU}'), max_size=30).map(
        lambda text: " ".join(text.split())
    ),
)


@given(st.lists(rows, max_size=4), st.lists(rows, max_size=4))
def test_what_is_read_is_what_was_written(one: list[PairNight], other: list[PairNight]) -> None:
    text = print_nights([*one, *other])
    assert history._parse(text, Path("nights.csv")) == (*one, *other)


def test_appending_keeps_every_byte_before(tmp_path: Path) -> None:
    path = history_file(tmp_path)
    assert read_history(path).rows == ()
    assert append_nights(path, [SOUND]).rows == ()
    first = path.read_bytes()
    assert append_nights(path, [BROKEN, SOUND]).rows == (SOUND,)
    assert path.read_bytes().startswith(first)
    assert read_history(path) == history.History((SOUND, BROKEN, SOUND))
    assert [name for name in os.listdir(path.parent) if "new" in name] == []


def test_pandas_reads_it(tmp_path: Path) -> None:
    path = history_file(tmp_path)
    append_nights(path, [SOUND, replace(BROKEN, reason='a tile, "conv1",\ndoesn\'t fit\x1b[0m')])
    table = pandas.read_csv(path)
    assert list(table.columns) == list(COLUMNS)
    assert table["p99_over_p50"].tolist()[0] == pytest.approx(1.1)
    assert table["compile"].tolist() == ["PASS", "COMPILE_REFUSED"]
    assert table["outcome"].tolist() == ["PASSED", "COMPILE_REFUSED"]
    assert table["reason"].tolist()[1] == 'a tile, "conv1", doesn\'t fit [0m'
    assert table["p99_ns"].isna().tolist() == [False, True]


def test_a_cut_off_line_is_left_out_and_put_aside(tmp_path: Path) -> None:
    path = history_file(tmp_path)
    append_nights(path, [SOUND, SOUND])
    whole = path.read_text()
    path.write_text(whole[:-30])
    found = read_history(path)
    assert found.rows == (SOUND,)
    assert "cut off" in found.mended
    assert "cut off" in append_nights(path, [BROKEN]).mended
    assert read_history(path) == history.History((SOUND, BROKEN))
    assert path.with_name("nights.csv.damaged").read_text().strip() == whole[:-30].splitlines()[-1]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("1100000", "fast", "p99_ns = 'fast'"),
        ("PASSED", "SPLENDID", "no outcome is called 'SPLENDID'"),
        (",p1,", ",p1,p2,", "cells"),
        ("20260101", "", "seed"),
    ],
)
def test_a_damaged_line_is_refused_with_its_number(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = history_file(tmp_path)
    append_nights(path, [BROKEN, SOUND, SOUND])
    lines = path.read_text().splitlines()
    lines[2] = lines[2].replace(old, new, 1)
    path.write_text("\n".join(lines) + "\n")
    for act in (read_history, lambda file: append_nights(file, [SOUND])):
        with pytest.raises(InputError, match=problem) as caught:
            act(path)
        assert caught.value.where.endswith("line 3")
    assert path.read_text().splitlines() == lines


def test_another_files_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nights.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="unknown columns"):
        read_history(path)
    path.write_text("night,seed\n1,2\n")
    with pytest.raises(InputError, match="no columns"):
        append_nights(path, [SOUND])
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="can't be read"):
        read_history(path)


def test_a_file_that_lacks_newer_columns_is_read_and_grows_them(tmp_path: Path) -> None:
    path = history_file(tmp_path)
    path.parent.mkdir()
    table = pandas.read_csv(pandas.io.common.StringIO(print_nights([SOUND])), dtype=str)
    table.drop(columns=["sqnr_db", "hot_p99_over_p50"]).to_csv(path, index=False)
    append_nights(path, [SOUND])
    assert read_history(path).rows == (replace(SOUND, sqnr_db=None), SOUND)
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = history_file(tmp_path)
    append_nights(path, [SOUND])
    before = path.read_bytes()

    def fail(*_given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, fail)
        with pytest.raises(InputError, match="No space left on device") as caught:
            append_nights(path, [BROKEN])
    assert "--seed" in caught.value.hint
    assert path.read_bytes() == before
    assert [name for name in os.listdir(path.parent) if "new-" in name] == []


_APPENDER = """
import sys
from pathlib import Path
from dataclasses import replace
from flows.nights.history import append_nights
from tests.comparison.test_drift import SOUND
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    rows = [replace(SOUND, model=f"{sys.argv[3]}{number}", hardware=str(k)) for k in range(20)]
    append_nights(Path(sys.argv[1]), rows)
"""


def _appender(path: Path, nights: int, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _APPENDER, str(path), str(nights), name],
        env=command_environment(),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    path = history_file(tmp_path)
    writers = [_appender(path, 10, name) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = {row.pair for row in read_history(path).rows}
    assert found == {(f"{w}{n}", str(k)) for w in "ab" for n in range(10) for k in range(20)}


def test_killed_writers_leave_whole_nights(tmp_path: Path) -> None:
    path = history_file(tmp_path)
    for number in range(3):
        writer = _appender(path, 100_000, f"w{number}-")
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.07 * number)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    found = read_history(path)
    assert found.mended == ""
    assert len(found.rows) > 0
    assert len(found.rows) % 20 == 0
    assert append_nights(path, [SOUND]).rows == found.rows
    assert [name for name in os.listdir(path.parent) if "new-" in name] == []
