"""The version names the commit: from the package, or of the checkout."""

import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

import tallyveil
from tallyveil.cli.main import commit
from tallyveil.version import VERSION

CHECKOUT = Path(tallyveil.__file__).parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An empty package in a folder of its own."""
    made = tmp_path / "copy" / "src" / "tallyveil"
    made.mkdir(parents=True)
    monkeypatch.setattr(resources, "files", lambda name: made)
    return made


def test_what_a_build_has_written_comes_first(package):
    (package / "commit.txt").write_text("0123456789ab\n")
    assert commit() == "0123456789ab"


def test_neither_a_build_nor_a_checkout(package):
    assert commit() is None


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_checkout_of_something_else_above_does_not_count(package):
    subprocess.run(["git", "init", "--quiet", str(package.parents[2])], check=True)
    assert commit() is None


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_checkout(package):
    git = ["git", "-C", str(package.parents[1]), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert commit() is None  # nothing was committed
    (package / "a.py").write_text("1\n")
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "a"]):
        subprocess.run([*git, *words], check=True)
    found = commit()
    assert found is not None
    assert re.fullmatch("[0-9a-f]{12}", found)
    (package / "a.py").write_text("2\n")
    assert commit() == f"{found}+changes"


def test_git_is_not_there(package, monkeypatch):
    def absent(*_, **__):
        raise FileNotFoundError

    (package.parents[1] / ".git").mkdir()
    monkeypatch.setattr(subprocess, "run", absent)
    assert commit() is None


def test_the_version(command):
    said = command("--version")
    pattern = rf"tallyveil {re.escape(VERSION)}( \(commit [0-9a-f]{{12}}(\+changes)?\))?\n"
    assert re.fullmatch(pattern, said), said
    assert ("commit" in said) == (CHECKOUT / ".git").exists()
