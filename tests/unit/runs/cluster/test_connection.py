"""The driver's side of the relay, with a program in the relay's place."""

import os
import shutil
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tallyveil.errors import ClusterError
from tallyveil.runs.cluster.connection import Connection
from tallyveil.runs.cluster.site import ClusterSettings

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a program of one file needs its first line")

FAKE = """\
#!{python}
import json, os, sys, time
if sys.argv[2].endswith("probe"):
    sys.exit({probe})
asked = json.loads(sys.stdin.readline())
def say(**report):
    print(json.dumps(report), flush=True)
{relay}
"""
JOINS = "say(event='joined', cpus=3, ray='0')\n"
LISTENS = JOINS + "for line in sys.stdin:\n    say(event='heard', line=json.loads(line))\n"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A function that puts a program in the place of Python."""

    def made(relay="", probe=71):
        path = tmp_path / "python"
        text = FAKE.format(python=sys.executable, relay=textwrap.dedent(relay), probe=probe)
        path.write_text(text)
        path.chmod(0o700)
        monkeypatch.setattr("sys.executable", str(path))

    monkeypatch.setattr("tallyveil.runs.cluster.connection.find_spec", lambda name: name)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "known")
    return made


def test_ray_must_be_installed(monkeypatch):
    monkeypatch.setattr("tallyveil.runs.cluster.connection.find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="pip install") as caught:
        Connection(ClusterSettings())
    assert caught.value.code == "cluster-missing"


def test_requests_and_reports(fake):
    fake(LISTENS)
    with Connection(ClusterSettings("head:1")) as connection:
        assert (connection.cpus, connection.token) == (3, b"known")
        connection.send({"do": "this"})
        assert connection.report(20) == {"event": "heard", "line": {"do": "this"}}
        assert connection.report(0.05) is None


def test_a_cluster_of_this_machine_has_a_token_of_its_own(fake):
    fake(
        """
        path = os.environ["RAY_AUTH_TOKEN_PATH"]
        mode = oct(os.stat(path).st_mode & 0o777)
        say(event="joined", cpus=1, ray="0")
        say(event="told", token=open(path).read(), mode=mode, asked=asked, variables=sorted(os.environ))
        """
    )
    with Connection(ClusterSettings(workers=5)) as connection:
        told = connection.report(20)
        folder = Path(told["asked"]["folder"])
        assert told["token"].encode() == connection.token
        assert len(connection.token) == 64
        assert told["mode"] == "0o600"
        assert folder.stat().st_mode & 0o077 == 0
        assert (told["asked"]["address"], told["asked"]["workers"]) == (None, 5)
        assert "RAY_AUTH_TOKEN" not in told["variables"]
    assert not folder.exists()


def test_a_token_must_be_known(fake, monkeypatch):
    fake(LISTENS)
    monkeypatch.setattr("tallyveil.runs.cluster.connection.read_token", lambda: None)
    with pytest.raises(ClusterError, match="demands a token") as caught:
        Connection(ClusterSettings("head:1"))
    assert caught.value.code == "cluster-token"


def test_an_open_cluster_must_be_allowed(fake):
    fake(JOINS + "say(event='mode', mode=os.environ['RAY_AUTH_MODE'])\nsys.stdin.read()\n", probe=70)
    with pytest.raises(ClusterError, match="open_cluster = true") as caught:
        Connection(ClusterSettings("head:1"))
    assert caught.value.code == "cluster-open"
    with Connection(ClusterSettings("head:1", open_allowed=True)) as connection:
        assert connection.token is None
        assert connection.report(20) == {"event": "mode", "mode": "disabled"}


def test_an_address_where_nobody_answers(fake):
    fake(LISTENS, probe=1)
    with pytest.raises(ClusterError, match="no Ray cluster answers at head:1") as caught:
        Connection(ClusterSettings("head:1"))
    assert caught.value.code == "cluster-unreachable"


def test_a_cluster_that_cannot_be_joined(fake):
    fake("print('\\x1b[31mVersion mismatch\\x1b[0m', file=sys.stderr)\n")
    with pytest.raises(ClusterError, match="Ray's last words: 'Version mismatch'") as caught:
        Connection(ClusterSettings("head:1"))
    assert caught.value.code == "cluster-unreachable"


def test_joining_has_its_time(fake, monkeypatch):
    fake("sys.stdin.read()\n")
    monkeypatch.setattr("tallyveil.runs.cluster.connection._demands_token", lambda address: True)
    monkeypatch.setattr("tallyveil.runs.cluster.connection.JOIN_SECONDS", 0.2)
    with pytest.raises(ClusterError, match=r"within 0\.2 seconds\. Check"):
        Connection(ClusterSettings("head:1"))


def test_a_relay_that_ends_is_a_lost_cluster(fake):
    fake(JOINS + "print('head is gone', file=sys.stderr)\n")
    with Connection(ClusterSettings("head:1")) as connection:
        with pytest.raises(ClusterError, match=r"Ray ended the process .* 'head is gone'") as caught:
            connection.report(20)
        assert caught.value.code == "cluster-lost"
        connection.send({"do": "nothing"})  # nobody hears it


@pytest.mark.parametrize(
    "ending", ["time.sleep(60)\n", "while True: say(event='answer'); time.sleep(0.05)\n"]
)
def test_a_cluster_without_a_pulse_is_lost(fake, monkeypatch, ending):
    """Answers of worker processes are no pulse of the head."""
    fake(JOINS + "say(event='pulse')\n" + ending)
    monkeypatch.setattr("tallyveil.runs.cluster.connection.LOST_SECONDS", 0.5)
    with Connection(ClusterSettings("head:1")) as connection:
        with pytest.raises(ClusterError, match="its head has not answered") as caught:
            dict(enumerate(iter(lambda: connection.report(2), "never")))
        assert caught.value.code == "cluster-lost"


def test_a_relay_that_does_not_end_is_killed(fake, monkeypatch):
    fake(JOINS + "time.sleep(60)\n")
    monkeypatch.setattr("tallyveil.runs.cluster.connection._END_SECONDS", 0.1)
    connection = Connection(ClusterSettings("head:1"))
    child = connection._child
    connection.leave()
    connection.leave()
    assert child.returncode == -9


def test_an_interrupted_run_does_not_wait_for_its_relay(fake, tmp_path):
    """The relay ends by itself, and its folder is left to it."""
    fake(JOINS + "sys.stdin.read()\ntime.sleep(0.5)\nopen(asked['folder'] + '/left', 'w')\n")
    connection = Connection(ClusterSettings("head:1"))
    child = connection._child
    connection.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert child.poll() is None
    assert child.wait(20) == 0
    assert (connection._temporary / "left").exists()
    shutil.rmtree(connection._temporary)


def test_a_run_that_was_stopped_reads_the_pulse_before_it_gives_up(fake, monkeypatch):
    fake(JOINS + "sys.stdin.readline()\nsay(event='pulse')\nsys.stdin.read()\n")
    with Connection(ClusterSettings("head:1")) as connection:
        connection._heard = stale = time.monotonic() - 1000

        def reads(seconds):
            connection.send({})
            while connection._heard == stale:
                pass

        with monkeypatch.context() as patch:
            patch.setattr("tallyveil.runs.cluster.connection.time.sleep", reads)
            assert connection.report(0.1) is None
