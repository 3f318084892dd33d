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
INTERNAL = ("release-file.md",)
"""This page goes on from a table of the reader's own."""


MISTAKES = (
    'tallyveil.opne("made")',
    'tallyveil.accounting.compos("made")',
    'tallyveil.open("made").tabel("Town", "home")',
    'tallyveil.open("made", kind="topdown-measurements").table("Town", "home")',
    'tallyveil.open("made", kind="safetab").guarantee',
    'tallyveil.open("made", kind="nothing")',
)
"""Names that are not there, and what the kind that was asked for does not have."""
LINES = list(range(2, 2 + len(MISTAKES)))


def examples_of(page: Path) -> str:
    """The Python of a page, as one script; commands of notebooks are left out."""
    blocks = re.findall(
        r"^```(?:python|\{code-cell\}.*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
    )
    return re.sub(r"^[!%:].*\n", "", "\n".join(blocks), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> Path:
    """The examples of every page, a script for each, the user's script, and a script of mistakes."""
    folder = tmp_path_factory.mktemp("typed")
    examples = {page: examples_of(page) for page in PAGES if page.name not in INTERNAL}
    for page, script in examples.items():
        if script.strip():
            name = "_".join(page.relative_to(PROJECT).with_suffix("").parts).replace("-", "_")
            (folder / f"{name}.py").write_text(script)
    assert len(list(folder.iterdir())) > 20
    (folder / "script.py").write_text(f"# pyright: strict\n{SCRIPT.read_text()}")
    (folder / "mistakes.py").write_text("\n".join(["import tallyveil", *MISTAKES, ""]))
    return folder


def in_mistakes(said: list[str]) -> list[int]:
    """The lines of the script of mistakes that a checker finds; it must find nothing in the other scripts."""
    assert [line for line in said if not line.startswith("mistakes.py:")] == []
    return sorted({int(line.split(":")[1]) for line in said})


@pytest.mark.nightly
def test_mypy_accepts_what_is_documented(scripts):
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={scripts / 'cache'}", "--strict"]
    # Packages without types are none of the documentation's business.
    settings = ["--ignore-missing-imports", "--disable-error-code=import-untyped"]
    done = subprocess.run(
        [*command, *settings, *(path.name for path in scripts.glob("*.py"))],
        cwd=scripts,
        capture_output=True,
        text=True,
        check=False,
    )
    assert in_mistakes([line for line in done.stdout.splitlines() if ": error: " in line]) == LINES, (
        done.stderr
    )


@pytest.mark.nightly
def test_pyright_accepts_what_is_documented(scripts):
    command = Path(sys.executable).with_name("basedpyright")
    if not command.exists():
        pytest.skip("needs basedpyright, which is in the extra `dev`")
    settings = {"typeCheckingMode": "standard", "reportUnusedExpression": False, "exclude": ["cache"]}
    (scripts / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [command, "--pythonpath", sys.executable, "--outputjson", "--project", scripts],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [
        f"{Path(item['file']).name}:{item['range']['start']['line'] + 1}: {item['message']}"
        for item in json.loads(done.stdout)["generalDiagnostics"]
        if item["severity"] == "error"
    ]
    assert in_mistakes(said) == LINES


@pytest.mark.nightly
def test_the_script_runs(small_release, monkeypatch):
    monkeypatch.chdir(small_release.parent)
    runpy.run_path(str(SCRIPT), run_name="__main__")
