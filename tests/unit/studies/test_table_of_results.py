"""The table of results in docs/studies.md: it names every exhibit, and every place that it names exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tallyveil.cli.study import Study

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def section():
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    return text.split("## Where each result of the papers is")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def table(section):
    return [line for line in section.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("study", list(Study))
def test_every_exhibit_has_a_row(study, table):
    catalogue = import_module(f"tallyveil_studies.{study.value.replace('-', '_')}.catalogue")
    named = " ".join(
        command for line in table for command in re.findall(rf"`study {study.value} ([^`]*)`", line)
    )
    flags = set(re.findall(r"--(?:figure|table|beyond) [\w-]+", named))
    wanted = {
        f"--{'beyond' if kind not in ('figure', 'table') or not number.isdigit() else kind} "
        f"{number if kind in ('figure', 'table') and number.isdigit() else exhibit.name}"
        for exhibit in catalogue.EXHIBITS
        for kind, _, number in [exhibit.name.partition("-")]
    }
    assert flags == wanted


def test_every_place_exists(table):
    for line in table:
        for place in re.findall(r"(?:[\w-]+/)+(?:[\w-]+\.\w+)?", line.split("|")[3]):
            assert any((root / place).exists() for root in (ROOT, ROOT / "src" / "tallyveil")), place


def test_every_verdict_is_one_that_the_page_defines(section, table):
    defined = [word.lower() for word in re.findall(r"^- \*(.+?)\*: ", section, re.MULTILINE)]
    assert len(defined) == 7
    verdicts = [line.split("|")[4].strip().lower() for line in table]
    assert [one for one in verdicts if not one.startswith(tuple(defined))] == []
    assert [word for word in defined if not any(one.startswith(word) for one in verdicts)] == []


def test_every_paper_and_verdict_is_there(table):
    assert [line.split("|")[1].strip()[:3] for line in table if line.split("|")[1].strip()] == [
        "000",
        "001",
        "002",
        "003",
        "004",
    ]
    assert all(len(line.split("|")) == 6 for line in table)
