"""Type checkers accept what the documentation shows, and a user's script, which also runs."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("users_script.py")
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("**/*.md"))]
INTERNAL = ("tiles.md", "release-file.md")
"""The first page shows modules that are not public; the second goes on from a table of the reader's own."""


def examples_of(page: Path) -> str:
    """The Python of a page, as one script; commands of notebooks are left out."""
    blocks = re.findall(
        r"^```(?:python|\{code-cell\}.*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
    )
    return re.sub(r"^[!%:].*\n", "", "\n".join(blocks), flags=re.MULTILINE)


def mypy(folder: Path, *options: str) -> str:
    """What mypy says of the scripts in a folder, without the types of packages that have none."""
    settings = ("--ignore-missing-imports", "--disable-error-code=import-untyped", "--check-untyped-defs")
    scripts = sorted(folder.glob("*.py"))
    # One cache for both calls: most of the time goes into the types of polars and numpy.
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={folder.parent / 'cache'}"]
    return subprocess.run(
        [*command, *settings, *options, *scripts], capture_output=True, text=True, check=False
    ).stdout


def pyright(folder: Path, mode: str) -> list[str]:
    """What pyright says of the scripts in a folder."""
    command = Path(sys.executable).with_name("basedpyright")
    if not command.exists():
        pytest.skip("needs basedpyright, which is in the extra `dev`")
    settings = {"typeCheckingMode": mode, "reportUnusedExpression": False, "reportMissingTypeStubs": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    said = subprocess.run(
        [command, "--pythonpath", sys.executable, "--outputjson", "--project", folder],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return [
        f"{Path(item['file']).name}:{item['range']['start']['line'] + 1}: {item['message']}"
        for item in json.loads(said)["generalDiagnostics"]
        if item["severity"] == "error"
    ]


@pytest.fixture(scope="module")
def documented(tmp_path_factory) -> Path:
    """The examples of every page, a script for each."""
    folder = tmp_path_factory.mktemp("typed") / "documented"
    folder.mkdir()
    scripts = {page: examples_of(page) for page in PAGES if page.name not in INTERNAL}
    for page, script in scripts.items():
        if script.strip():
            name = "_".join(page.relative_to(PROJECT).with_suffix("").parts).replace("-", "_")
            (folder / f"{name}.py").write_text(script)
    assert len(list(folder.iterdir())) > 20
    return folder


@pytest.fixture(scope="module")
def written(documented) -> Path:
    """The user's script alone."""
    folder = documented.parent / "written"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT.read_text())
    return folder


@pytest.mark.long
def test_mypy_accepts_what_is_documented(documented, written):
    assert mypy(documented).startswith("Success")
    assert mypy(written, "--strict").startswith("Success")


@pytest.mark.long
def test_pyright_accepts_what_is_documented(documented, written):
    assert pyright(documented, "standard") == []
    assert pyright(written, "strict") == []


def test_checkers_still_find_mistakes(written):
    """Names that are not there, and methods that the kind that was asked for does not have."""
    folder = written.parent / "wrong"
    folder.mkdir()
    lines = [
        'tallyveil.opne("made")',
        'tallyveil.accounting.compos("made")',
        'tallyveil.open("made").tabel("Town", "home")',
        'tallyveil.open("made", kind="topdown-measurements").table("Town", "home")',
        'tallyveil.open("made", kind="safetab").guarantee',
        'tallyveil.open("made", kind="nothing")',
    ]
    (folder / "script.py").write_text("\n".join(["import tallyveil", *lines, ""]))
    said = mypy(folder)
    assert [line for line in range(2, len(lines) + 2) if f"script.py:{line}: error" not in said] == []


def test_the_script_runs(small_release, monkeypatch):
    monkeypatch.chdir(small_release.parent)
    runpy.run_path(str(SCRIPT), run_name="__main__")
