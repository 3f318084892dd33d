"""The table of measured numbers in benchmarks/README.md: pages still say them, and what measures them is there."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BENCHMARKS = PROJECT / "benchmarks" / "README.md"
COMMANDS = PROJECT / "src" / "tallyveil" / "cli"
TARGETS = re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def rows() -> list[list[str]]:
    """The cells of each row: numbers, place, meaning, command, date, details."""
    table = (
        BENCHMARKS.read_text(encoding="utf-8")
        .split("\n|---|---|---|---|---|---|\n", 1)[1]
        .split("\n\n", 1)[0]
    )
    return [line.strip("| ").split(" | ") for line in table.splitlines()]


def section_of(page: str, anchor: str) -> str:
    """The text below the headings with this anchor, without line breaks; without an anchor the whole page."""
    text = (BENCHMARKS.parent / page).read_text(encoding="utf-8")
    parts = [
        part
        for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE)
        if not anchor or named(part) == anchor
    ]
    return " ".join(" ".join(parts).split())


def named(part: str) -> str:
    """The anchor of the heading with which a part of a page begins."""
    title = part.split("\n", 1)[0].lstrip("# ").strip()
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def exists(command: str) -> bool:
    """Whether a target of the Makefile, a command of Tallyveil or a script is there, and the files that it is given."""
    program, *words = command.split()
    files = [word for word in words if "/" in word]
    if program == "make":
        known = words[0] in TARGETS
    elif program == "tallyveil":
        known = (COMMANDS / f"{words[0].replace('-', '_')}.py").is_file()
    else:
        known = (PROJECT / program).is_file()
    return known and all((PROJECT / file).is_file() for file in files)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_pages_say_the_numbers_and_commands_exist(row):
    numbers, place, _, command, date, _ = row
    ((page, anchor),) = re.findall(r"\]\(([^#)]+)#?([^)]*)\)$", place)
    text = section_of(page, anchor)
    missing = [n for n in numbers.split("; ") if not re.search(rf"(?<![\w.,]){re.escape(n)}(?![\w])", text)]
    assert missing == []
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", date)
    lines = re.findall(r"`([^`]+)`", command)
    assert command == "no command" or (lines and [line for line in lines if not exists(line)] == [])
