"""A seeded bug counts as caught only where a test fails with it."""

import dataclasses
import subprocess

import pytest
from tests.commands import NotCheckedError
from tests.seeded import run
from tests.seeded.run import Bug, failures, scratch_copy

BUG = Bug("wrong-sign", "Adds.", "sums.py", "a - b", "a + b", ("tests/test_sums.py",))


@pytest.fixture
def project(tmp_path):
    for path, text in {
        "src/tallyveil/__init__.py": "",
        "src/tallyveil/sums.py": "def less(a, b):\n    return a - b\n",
        "tests/test_sums.py": "from tallyveil.sums import less\n\ndef test_less():\n    assert less(3, 1) == 2\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def caught(bug, project):
    """What is said of a bug, and whether the source is whole afterwards."""
    said = run._caught(bug, project)
    assert "a - b" in (project / "src" / "tallyveil" / "sums.py").read_text()
    return said


def test_the_test_that_fails_is_named(project):
    assert failures(project, BUG.tests) == ()
    assert caught(BUG, project) == "tests/test_sums.py::test_less"


@pytest.mark.nightly
def test_a_fault_that_no_test_sees_is_not_caught(project):
    assert caught(dataclasses.replace(BUG, new="a - b  # the same"), project) == "NOT CAUGHT"


@pytest.mark.nightly
def test_tests_that_cannot_be_collected_catch_nothing(project):
    said = caught(dataclasses.replace(BUG, new="a - ("), project)
    assert said.startswith("NOT CAUGHT: pytest ended with")


def test_tests_that_do_not_end_in_time_catch_nothing(project, monkeypatch):
    def late(command, **options):
        raise subprocess.TimeoutExpired(command, 900)

    monkeypatch.setattr(subprocess, "run", late)
    assert caught(BUG, project) == "NOT CAUGHT: the tests tests/test_sums.py did not end within 900 s"


def test_a_text_that_the_source_does_not_have_is_refused(project):
    with pytest.raises(NotCheckedError, match="occurs 0 times"):
        run._caught(dataclasses.replace(BUG, old="a * b"), project)


def test_a_link_to_nothing_does_not_end_the_copy(tmp_path, monkeypatch):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "link").symlink_to("nowhere")
    monkeypatch.setattr(run, "PROJECT", tmp_path / "from")
    assert (scratch_copy(tmp_path) / "link").is_symlink()
