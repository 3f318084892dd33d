"""The examples of docs/how-to run one page after the other, on the release of the tutorial."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
TUTORIAL = (PAGES.parent / "start" / "tutorial.md").read_text()


def blocks_of(page: str, language: str) -> list[str]:
    """The code blocks of one language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


def run_python(page: str) -> dict[str, Any]:
    """The names that the example of a page leaves; its blocks run one after the other."""
    names: dict[str, Any] = {}
    for block in blocks_of(page, "python"):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture
def town(tmp_path, monkeypatch, command):
    """The folder of the tutorial with its release; commands and examples run in it."""
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^(?:tallyveil|cd) .*$", TUTORIAL, re.MULTILINE)[:5]:
        words = line.split()
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
        else:
            command(*words[1:])
    return Path.cwd()


@pytest.mark.nightly
def test_pages(town, command):
    areas = run_python("areas.md")
    upper, lower = (areas[name].estimate(["work"]).to_frame() for name in ("upper", "lower"))
    assert upper.height == lower.height == 4
    assert areas["release"].interval("total", "upper").height == 1
    (zones,) = blocks_of("areas.md", "toml")
    own = Path("release.toml").read_text().split("[outputs]")[0]
    Path("zones.toml").write_text(own + zones)
    (line,) = blocks_of("areas.md", "sh")
    said = command(*line.replace("release.toml", "zones.toml").split()[1:])
    assert "zone" in said

    run_python("before-publishing.md")

    total, budget = blocks_of("several-releases.md", "sh")
    said = [command(*line.split()[1:]) for line in total.splitlines()][-1]
    assert "epsilon: between 9.618206356" in said
    said = command(*budget.split()[1:])
    assert "noise chosen on the way: epsilon at most 10.8706" in said
    assert "budget: rho 3; left 2; epsilon at most 18.8284" in said

    (exact,) = blocks_of("exact-totals.md", "toml")
    with Path("release.toml").open("a") as stream:
        stream.write("\n" + exact)
    (line,) = blocks_of("exact-totals.md", "sh")
    said = command(*line.split()[1:], "--details")
    assert "exact       total at Region (published without noise)" in said
    assert "note (shares)  6.67 %" in said


def test_one_table():
    names = run_python("one-table.md")
    assert names["found"].epsilon[1] <= 1
    assert names["published"].dtype == "int64"
    assert 60 < names["variance"] < 75
