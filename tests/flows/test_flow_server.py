"""The flow server's life: started when it is missing, shared, ended with the last user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.running import flow_server
from flows.running.flow_server import API_VARIABLE, FlowServer, FlowServerError
from stages.errors import InputError
from tests.flows.command import command_environment


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose servers are small processes that never answer."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(flow_server, "server_command", lambda port: sleeper)
    monkeypatch.setenv("PREFECT_HOME", "")
    monkeypatch.delenv(API_VARIABLE, raising=False)
    return tmp_path / "home"


def server_of(home: Path) -> dict[str, int]:
    """What server.json says."""
    found = json.loads((home / "server.json").read_text())
    assert isinstance(found, dict)
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs, and isn't a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_a_server_is_started_and_ended(home: Path) -> None:
    server = FlowServer(home)
    server.open()
    found = server_of(home)
    assert server.is_own
    assert os.environ[API_VARIABLE] == f"http://127.0.0.1:{found['port']}/api"
    assert is_alive(found["pid"])
    server.close()
    assert not is_alive(found["pid"])
    assert not (home / "server.json").exists()
    assert API_VARIABLE not in os.environ


def test_two_runs_share_one_and_the_last_ends_it(home: Path) -> None:
    first, second = FlowServer(home), FlowServer(home)
    first.open()
    pid = server_of(home)["pid"]
    os.environ.pop(API_VARIABLE)
    second.open()
    assert server_of(home)["pid"] == pid
    first.close()
    assert is_alive(pid)
    second.close()
    assert not is_alive(pid)


def test_one_that_a_killed_run_left_is_used_and_ended(home: Path) -> None:
    killed = FlowServer(home)
    killed.open()
    pid = server_of(home)["pid"]
    os.environ.pop(API_VARIABLE)
    assert killed._users is not None
    killed._users.close()  # as the system does at a kill
    later = FlowServer(home)
    later.open()
    assert server_of(home)["pid"] == pid
    later.close()
    assert not is_alive(pid)


def test_a_dead_servers_record_is_replaced(home: Path) -> None:
    home.mkdir()
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    record = {"pid": int(dead.stdout), "started": time.time(), "port": 1}
    (home / "server.json").write_text(json.dumps(record))
    server = FlowServer(home)
    server.open()
    assert server_of(home)["pid"] != int(dead.stdout)
    server.close()


def test_a_process_that_has_the_dead_servers_number_is_left_alone(home: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    record = {"pid": other.pid, "started": time.time() - 3600, "port": 1}
    home.mkdir()
    (home / "server.json").write_text(json.dumps(record))
    server = FlowServer(home)
    server.open()
    assert server_of(home)["pid"] != other.pid
    server.close()
    assert other.poll() is None
    other.kill()
    other.wait()


STARTER = """
import sys, time
from pathlib import Path
from flows.running import flow_server
flow_server.server_command = lambda port: [sys.executable, "-c", "import time; time.sleep(60)"]
flow_server.FlowServer(Path(sys.argv[1])).open()
print("open", flush=True)
time.sleep(60)
"""


def test_a_server_whose_starter_lives_on_is_ended_without_waiting_for_it(home: Path) -> None:
    """An ended process whose parent doesn't ask for it stays in the process table."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(home)],
        env=command_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == "open\n"
    server = FlowServer(home)
    server.open()
    assert server._record is not None
    began = time.monotonic()
    flow_server._end(server._record)
    assert time.monotonic() - began < flow_server._END_SECONDS
    assert not is_alive(server._record.pid)
    starter.kill()
    starter.communicate()
    server.close()


def test_the_users_own_server_is_honoured(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_VARIABLE, "http://127.0.0.1:1/api")
    server = FlowServer(home)
    server.open()
    with pytest.raises(InputError, match="no flow server answers") as refused:
        server.wait_until_ready()
    server.close()
    assert refused.value.where == "PREFECT_API_URL=http://127.0.0.1:1/api"
    assert not server.is_own
    assert os.environ[API_VARIABLE] == "http://127.0.0.1:1/api"
    assert not home.exists()


def test_a_server_that_ends_at_once_is_reported_with_its_log(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [sys.executable, "-c", "raise SystemExit('no room')"]
    monkeypatch.setattr(flow_server, "server_command", lambda port: failing)
    server = FlowServer(home)
    server.open()
    with pytest.raises(FlowServerError, match="ended before it answered") as refused:
        server.wait_until_ready()
    server.close()
    assert Path(refused.value.where).read_text().strip() == "no room"


def test_a_home_that_cant_be_made_is_refused(tmp_path: Path, home: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cache folder") as refused:
        FlowServer(tmp_path / "file" / "home").open()
    assert "RECIPE_CACHE" in refused.value.hint
