"""The driver's side of the relay, with a program in the relay's place."""

import os
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tallyveil.errors import ClusterError
from tallyveil.runs.cluster import connection as module
from tallyveil.runs.cluster.connection import LOST_SECONDS, Connection, remove_abandoned
from tallyveil.runs.executor import ClusterSettings
from tallyveil.storage.system import usable_cores

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

    (tmp_path / "own").mkdir()
    monkeypatch.setattr("tallyveil.runs.cluster.connection._parent", lambda: tmp_path / "own")
    monkeypatch.setattr("tallyveil.runs.cluster.connection.find_spec", lambda name: name)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "known")
    return made


@pytest.fixture
def own(tmp_path):
    """A function that lists the folders of drivers."""
    return lambda: list((tmp_path / "own").iterdir())


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


def test_a_report_is_waited_for_as_long_as_is_said(fake):
    """Longer than the second after which the pulse is looked at."""
    fake(JOINS + "time.sleep(1.3)\nsay(event='late')\nsys.stdin.read()\n")
    with Connection(ClusterSettings("head:1")) as connection:
        assert connection.report(20) == {"event": "late"}


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


SAYS_ITS_ENVIRONMENT = (
    JOINS + "say(event='told', variables=dict(os.environ), asked=asked, leads=os.getsid(0) == os.getpid())\n"
)


@pytest.mark.parametrize("address", [None, "head:1"])
def test_the_relay_has_what_its_driver_has_and_nothing_that_would_mislead_it(fake, monkeypatch, address):
    """Ray tells nobody that it is used, and joins the cluster that was asked for."""
    fake(SAYS_ITS_ENVIRONMENT)
    given = {
        "RAY_USAGE_STATS_ENABLED": "1",
        "RAY_ADDRESS": "other:1",
        "RAY_AUTH_MODE": "disabled",
        "MINE": "kept",
    }
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    with Connection(ClusterSettings(address)) as connection:
        told = connection.report(20)
        found, folder = told["variables"], told["asked"]["folder"]
    assert "RAY_ADDRESS" not in found
    assert {
        name: found[name] for name in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "MINE", "PYTHONUNBUFFERED")
    } == {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "MINE": "kept",
        "PYTHONUNBUFFERED": "1",  # what Ray says last is in its log, however it ends
    }
    assert told["asked"] == {"address": address, "workers": usable_cores(), "folder": folder}
    assert told["leads"]  # Ctrl-C reaches the driver alone
    own = {"RAY_AUTH_TOKEN_PATH": f"{folder}/token", "RAY_worker_niceness": "0"}
    wanted = own if address is None else {"RAY_AUTH_TOKEN": "known"}
    assert {name: found[name] for name in found.keys() & {*own, "RAY_AUTH_TOKEN"}} == wanted


def test_the_niceness_that_a_user_chose_stays(fake, monkeypatch):
    fake(SAYS_ITS_ENVIRONMENT)
    monkeypatch.setenv("RAY_worker_niceness", "5")
    with Connection(ClusterSettings()) as connection:
        assert connection.report(20)["variables"]["RAY_worker_niceness"] == "5"


def test_the_probe_has_no_token_and_is_not_heard(fake, monkeypatch, capfd):
    """It asks as somebody who knows nothing would."""
    asked = ["-m", "tallyveil.runs.cluster.probe", "head:1"]
    knows = "{'RAY_AUTH_TOKEN', 'RAY_AUTH_TOKEN_PATH'} & {*os.environ} or os.environ['RAY_AUTH_MODE'] != 'disabled'"
    fake(LISTENS, probe=f"print('from Ray') or (70 if {knows} or sys.argv[1:] != {asked} else 71)")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "absent")
    with Connection(ClusterSettings("head:1")) as connection:
        assert connection.token == b"known"
    assert capfd.readouterr() == ("", "")


def test_the_probe_has_its_time(fake, monkeypatch):
    fake(LISTENS, probe="time.sleep(20) or 71")
    monkeypatch.setattr("tallyveil.runs.cluster.connection.JOIN_SECONDS", 0.2)
    with pytest.raises(ClusterError, match="no Ray cluster answers at head:1") as caught:
        Connection(ClusterSettings("head:1"))
    assert caught.value.code == "cluster-unreachable"


def test_a_token_must_be_known(fake, monkeypatch):
    fake(LISTENS)
    monkeypatch.setattr("tallyveil.runs.cluster.connection.read_token", lambda: None)
    with pytest.raises(ClusterError, match="the cluster at head:1 demands a token") as caught:
        Connection(ClusterSettings("head:1"))
    assert caught.value.code == "cluster-token"


def test_an_open_cluster_must_be_allowed(fake):
    fake(JOINS + "say(event='mode', mode=os.environ['RAY_AUTH_MODE'])\nsys.stdin.read()\n", probe=70)
    with pytest.raises(
        ClusterError, match=r"the cluster at head:1 demands no token.*open_cluster = true"
    ) as caught:
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


def test_joining_has_its_time(fake, monkeypatch, own):
    fake("sys.stdin.read()\n")
    monkeypatch.setattr("tallyveil.runs.cluster.connection._demands_token", lambda address: True)
    monkeypatch.setattr("tallyveil.runs.cluster.connection.JOIN_SECONDS", 0.2)
    with pytest.raises(ClusterError, match=r"within 0\.2 seconds\. Check"):
        Connection(ClusterSettings("head:1"))
    assert own() == []


def test_a_relay_that_ends_is_a_lost_cluster(fake):
    fake(JOINS + "print('head is gone', file=sys.stderr)\n")
    with Connection(ClusterSettings("head:1")) as connection:
        with pytest.raises(ClusterError, match=r"Ray ended the process .* 'head is gone'") as caught:
            connection.report(20)
        assert caught.value.code == "cluster-lost"
        connection.send({"do": "nothing"})  # nobody hears it


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", ""),
        (b"\n \n", ""),
        (b"first\nsecond\n\n", "Ray's last words: 'second'. "),
        (b"\x1b[1;31mred\x1b[0m", "Ray's last words: 'red'. "),
        (b"\x1b]0;title\x07", r"Ray's last words: '\u001b]0;title\u0007'. "),
        (b"not \xff UTF-8", "Ray's last words: 'not \ufffd UTF-8'. "),
        (b"x" * 301, f"Ray's last words: '{'x' * 300}'. "),
    ],
)
def test_the_last_line_that_ray_wrote_is_quoted(fake, said, words):
    fake(JOINS + f"sys.stderr.buffer.write({said!r})\n")
    lost = "the cluster is lost: Ray ended the process that speaks with the cluster. "
    with Connection(ClusterSettings("head:1")) as connection, pytest.raises(ClusterError) as caught:
        connection.report(20)
    assert str(caught.value).startswith(f"{lost}{words}Finished chunks are kept.")


def test_a_report_that_is_cut_off_is_the_end_of_the_relay(fake):
    """It was killed while it wrote. Nobody waits for more of it."""
    fake(JOINS + 'print(\'{"event": "answ\', flush=True)\ntime.sleep(60)\n')
    connection = Connection(ClusterSettings("head:1"))
    with pytest.raises(ClusterError, match="Ray ended the process"):
        connection.report(20)
    connection.leave()


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


def test_a_pulse_may_be_late_by_as_much_as_is_said_and_no_more(fake, monkeypatch):
    fake(LISTENS)
    slept = []
    with Connection(ClusterSettings("head:1")) as connection:
        for silent, is_lost in ((LOST_SECONDS, False), (LOST_SECONDS + 0.75, True)):
            clock = SimpleNamespace(monotonic=lambda at=silent: 1000 + at, sleep=slept.append)
            connection._heard = 1000
            with monkeypatch.context() as patch:
                patch.setattr(module, "time", clock)
                if not is_lost:
                    connection._require_pulse()
                    assert slept == []
                    continue
                with pytest.raises(ClusterError, match="for 31 seconds its head has not answered"):
                    connection._require_pulse()
    assert slept == [1.0]


def test_a_relay_that_does_not_end_is_killed(fake, monkeypatch):
    fake(JOINS + "time.sleep(60)\n")
    monkeypatch.setattr("tallyveil.runs.cluster.connection._END_SECONDS", 0.1)
    connection = Connection(ClusterSettings("head:1"))
    child = connection._child
    connection.leave()
    connection.leave()
    assert child.returncode == -9


LEAVES_LATE = "sys.stdin.read()\ntime.sleep(0.5)\nopen(asked['folder'] + '/../left', 'w')\n"


@pytest.mark.parametrize("kind", [None, ValueError])
def test_a_relay_has_time_to_leave(fake, own, kind):
    fake(JOINS + LEAVES_LATE)
    connection = Connection(ClusterSettings("head:1"))
    child = connection._child
    connection.__exit__(kind)
    assert child.returncode == 0
    assert [path.name for path in own()] == ["left"]


def test_a_lost_cluster_is_left_at_once(fake, monkeypatch, own):
    fake(JOINS + "time.sleep(60)\n")
    monkeypatch.setattr("tallyveil.runs.cluster.connection.LOST_SECONDS", 0.1)
    monkeypatch.setattr("tallyveil.runs.cluster.connection._CATCH_UP_SECONDS", 0.1)
    connection = Connection(ClusterSettings("head:1"))
    with pytest.raises(ClusterError, match="its head has not answered"):
        connection.report(2)
    begun = time.monotonic()
    connection.leave()
    assert time.monotonic() - begun < 10
    assert own() == []


def test_an_interrupted_run_does_not_wait_for_its_relay(fake, own):
    """The relay ends by itself, and its folder is left to it; no other driver removes it before."""
    fake(JOINS + LEAVES_LATE)
    before = set(threading.enumerate())
    connection = Connection(ClusterSettings("head:1"))
    assert [thread.daemon for thread in set(threading.enumerate()) - before] == [True]
    child = connection._child
    connection.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert child.poll() is None
    (folder,) = own()
    remove_abandoned(folder.parent)
    assert folder.exists()
    assert child.wait(20) == 0
    assert (folder.parent / "left").exists()
    remove_abandoned(folder.parent)
    assert not folder.exists()


def test_joining_may_be_interrupted(fake, monkeypatch, own):
    def interrupted(connection):
        children.append(connection._child)
        raise KeyboardInterrupt

    children = []
    fake(LEAVES_LATE)
    monkeypatch.setattr(Connection, "_joined", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Connection(ClusterSettings("head:1"))
    assert children[0].poll() is None
    assert len(own()) == 1
    assert children[0].wait(20) == 0


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
