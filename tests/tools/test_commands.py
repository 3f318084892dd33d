"""What the commands that check the project refuse, and how they end."""

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import commands
from tests.commands import NotCheckedError, alone, digest_of, exit_code, folder, length, whole

PROJECT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="these commands need a POSIX system")


@pytest.mark.parametrize("text", ["0", "-3", "abc", "1.5", ""])
def test_a_number_below_the_least_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"wanted a whole number of at least 1$"):
        whole(1)(text)
    assert whole(1)("1") == 1


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "long"])
def test_a_time_is_finite_and_above_zero(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"wanted a finite number above 0$"):
        length()(text)
    assert length()("0.01") == 0.01
    assert length(0)("0") == 0


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below"):
        with pytest.raises(argparse.ArgumentTypeError, match="file is not a folder"):
            folder(str(tmp_path / path))
    assert folder(str(tmp_path / "new" / "with spaces")) == tmp_path / "new" / "with spaces"
    assert not (tmp_path / "new").exists()


def test_a_folder_without_rights_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(argparse.ArgumentTypeError, match="nothing may be written"):
        folder(str(tmp_path / "new"))


@posix
def test_two_processes_do_not_work_in_one_folder(tmp_path):
    refused = pytest.raises(NotCheckedError, match="another process works in")
    with alone(tmp_path, "first"), refused, alone(tmp_path, "second"):
        pass
    with alone(tmp_path, "third"):
        pass


@posix
def test_what_a_killed_command_has_started_holds_its_folder(tmp_path):
    with alone(tmp_path, "first"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with pytest.raises(NotCheckedError), alone(tmp_path, "second"):
        pass
    child.communicate()
    with alone(tmp_path, "third"):
        pass


def test_a_digest_tells_files_apart(tmp_path):
    (tmp_path / "a.py").write_text("1")
    before = digest_of([tmp_path])
    (tmp_path / "a.pyc").write_text("2")
    assert digest_of([tmp_path]) == before
    (tmp_path / "a.py").write_text("2")
    assert digest_of([tmp_path]) != before


def test_a_command_that_could_not_check_ends_with_2_and_without_a_traceback(capsys):
    def main():
        raise NotCheckedError("no auditor was there")

    before = signal.getsignal(signal.SIGTERM)
    try:
        assert exit_code(main) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == "error: no auditor was there\n"


@posix
def test_a_stopped_command_removes_its_temporary_folders():
    """SIGTERM and Ctrl-C end it in the same way."""
    source = (
        "import os, signal, sys, tempfile; from tests.commands import exit_code\n"
        "def main():\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        print(folder, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.exit(exit_code(main))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert not Path(done.stdout.strip()).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a call of Linux")
def test_a_forked_process_ends_with_its_parent_be_that_killed():
    source = (
        "import os, signal, time; from tests.commands import end_with_parent\n"
        "if os.fork():\n"
        "    time.sleep(1)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "end_with_parent()\n"
        "time.sleep(60)"
    )
    begun = time.monotonic()
    # The child holds the pipe, too, so that this waits for both.
    done = subprocess.run([sys.executable, "-c", source], cwd=PROJECT, stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    assert time.monotonic() - begun < 40


@posix
def test_a_command_of_the_soak_ends_where_the_soak_is_stopped(monkeypatch):
    monkeypatch.syspath_prepend(PROJECT / "tests" / "soak")
    fork_server = importlib.import_module("fork_server")
    with Path(os.devnull).open("w") as nowhere:
        child = fork_server.forked(lambda: time.sleep(60) or 0, nowhere.fileno(), nowhere.fileno())

    def stopped(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(fork_server, "time", SimpleNamespace(sleep=stopped, monotonic=time.monotonic))
    with pytest.raises(KeyboardInterrupt):
        fork_server._wait(child, time.monotonic() + 30)
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


def test_a_package_from_elsewhere_is_not_checked(tmp_path):
    (tmp_path / "tallyveil").mkdir()
    (tmp_path / "tallyveil" / "__init__.py").write_text("")
    source = "from tests.commands import refuse_another_package; refuse_another_package()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"imports tallyveil from {tmp_path}" in done.stderr
    commands.refuse_another_package()


REFUSED = {
    "tests.mutants.run --room noise --sample 0": "wanted a whole number of at least 1",
    "tests.mutants.run --room tiles": "invalid choice",
    "tests.seeded.run --only tail-cut-off typo": "no fault is called typo",
    "tests.auditors.run --number 0": "wanted a whole number of at least 20",
    "tests.auditors.run --groups release-laplace --releases 0": "wanted at least 20",
    "tests.auditors.run --power --faults tail-cut-off --groups tree": "none of these groups shows tail-cut-off",
    "tests.auditors.run --power --faults tail-cut-off --groups release-laplace --releases 0": "shows tail-cut-off",
    "tests.auditors.run --power --releases 3": "wanted at least 20, or 0",
    "tests.auditors.run --out pyproject.toml": "is not a folder",
    "tests.attacks.run --out pyproject.toml": "is not a folder",
    "tests/soak/releases.py --hours 0": "wanted a finite number above 0",
    "tests/soak/releases.py --number 0": "wanted a whole number of at least 1",
    "tests/soak/releases.py --keep pyproject.toml": "is not a folder",
    "tests/fuzz/fuzz.py --minutes nan": "wanted a finite number of at least 0",
    "tests/fuzz/fuzz.py nobody": "no target is called nobody",
    "tests/fuzz/fuzz.py --keep pyproject.toml": "is not a folder",
}


ONE_AFTER_THE_OTHER = """
import contextlib, io, json, os, runpy, sys
for line in sys.argv[1:]:
    sys.argv = line.split()
    command = sys.argv[0]
    run = runpy.run_path if command.endswith(".py") else runpy.run_module
    sys.path.insert(0, os.path.dirname(command))
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            run(command, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, said.getvalue()]))
"""
"""A process of its own starts all commands one after the other: loading what they import takes longest."""


@pytest.mark.nightly
@posix
def test_a_command_refuses_what_would_check_nothing():
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, *REFUSED],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    for (line, wanted), (code, said) in zip(REFUSED.items(), found, strict=True):
        assert code == 2, line
        assert wanted in said
        assert "Traceback" not in said


def test_make_removes_no_folder_that_a_variable_names():
    """But the environments that it makes: `make auditors AUDITS=/home` must not remove a home."""
    lines = (PROJECT / "Makefile").read_text().splitlines()
    removing = [line.strip() for line in lines if "rm -rf" in line]
    assert [line for line in removing if "$" in line] == [
        "rm -rf $(VENV) $(OLDEST) .venv-auditors $(FUZZ) demo-release build dist docs/_build docs/generated"
    ]
