"""Examples of README.md and of several pages of the documentation work as they are written."""

import re
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tallyveil.declared import adapter_of
from tallyveil.plans.constraints import BoundsInput
from tallyveil.plans.from_toml.spine_tables import SpineTable
from tallyveil.schema.attribute import Recode
from tallyveil.schema.labels import LabelsByLanguage

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


def blocks_of(page: str, language: str) -> list[str]:
    """The code blocks of one language on a page of docs/."""
    return re.findall(rf"```{language}\n(.*?)```", (PROJECT / "docs" / page).read_text(), re.DOTALL)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """A new folder, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_release_file_of_the_readme_makes_a_release(empty_folder, command):
    (toml,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    Path("release.toml").write_text(toml)
    planned = [line.strip() for line in command("plan", "release.toml").splitlines()]
    shown = [line.strip() for line in re.findall(r"```\n(Suppose .*?)```", README, re.DOTALL)[0].splitlines()]
    assert [line for line in shown if line not in planned] == []
    assert not any(line.startswith("note (shares)") for line in planned)
    blocks = [
        f"{state:02d}{county:03d}{block:010d}" for state in (1, 2) for county in (1, 2) for block in range(9)
    ]
    pl.DataFrame({"block": blocks}).write_parquet("blocks.parquet")
    pl.DataFrame(
        {"block": blocks[:5] * 20, "sex": ["male", "female"] * 50, "age": ["18-64"] * 100}
    ).write_parquet("people.parquet")
    command("run", "release.toml", "--out", "DIR", "--quiet")
    promised = re.findall(r"^\| (`.*?) \|", README.split("| in `DIR` |")[1].split("\n\n")[0], re.MULTILINE)
    names = [name for cell in promised for name in re.findall(r"`([^`]+)`", cell)]
    assert len(names) == 11
    assert [name for name in names if not Path("DIR", name).exists()] == []


def test_every_command_of_the_readme_exists(command):
    """A code span of the table is a command, a further subcommand of the one before it, or one of its options."""
    section = README.split("\n## Commands\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) <= 12
    commands = []
    for span in re.findall(r"`([^`]+)`", "\n".join(rows)):
        words = span.removeprefix("tallyveil ").split()
        if span.startswith("tallyveil "):
            helped = command(words[0], "--help")
            subcommands = re.findall(r"^  ([a-z0-9-]+)  ", helped.partition("Commands:\n")[2], re.MULTILINE)
            commands.append(words[0])
            if subcommands:
                assert words[1] in subcommands
                helped = command(*words[:2], "--help")
        elif not span.startswith("--"):
            assert span in subcommands
        assert [option for option in re.findall(r"--[a-z-]+", span) if option not in helped] == []
    assert len(set(commands)) > 20


def test_the_example_and_the_commands_of_the_accountant(empty_folder, command):
    names: dict[str, Any] = {}
    for example in blocks_of("accounting.md", "python"):
        exec(compile(example, "accounting.md", "exec"), names)
    found = names["guarantee"].epsilon("1e-10")
    assert found.lower < found.upper
    page = (PROJECT / "docs" / "accounting.md").read_text()
    commands = re.findall(r"^tallyveil (.*)$", page, re.MULTILINE)
    assert len(commands) == 6
    (events,) = blocks_of("accounting.md", "toml")
    Path("events.toml").write_text(events)
    assert "delta: between" in command("account", "delta", "--epsilon", "3", "--events", "events.toml")
    said = [command(*line.split()) for line in commands if "--plan" not in line]
    assert f"epsilon: between {found.upper:.12f}"[:-4] in said[0]
    assert all("epsilon: between" in text for text in said)


def test_the_parts_of_a_release_file(empty_folder):
    steps, preset, labels, overlapping, single, bounds = map(
        tomllib.loads, blocks_of("release-file.md", "toml")
    )
    assert dict(adapter_of(LabelsByLanguage).validate_python(labels["labels"]))["en"].title
    for table in (steps, preset):
        SpineTable.model_validate(table["spine"], context=Path())
    assert adapter_of(Recode).validate_python(overlapping["schema"]["recodes"][0]).overlapping
    assert len(adapter_of(Recode).validate_python(single["schema"]["recodes"][0]).groups) == 1
    adapter_of(BoundsInput).validate_python(bounds["bounds"][0], context=Path())
    housing = pl.DataFrame(
        {"geocode": ["a", "b", "c"], "housing_units": [2, 0, 1], "group_quarters": [0, 0, 1]}
    )
    (example,) = blocks_of("release-file.md", "python")
    exec(compile(example, "release-file.md", "exec"), {"pl": pl, "housing": housing})
    assert pl.read_parquet("bounds.parquet").rows() == [("a", 0, 40), ("c", 0, None)]


@pytest.mark.nightly
def test_the_commands_of_the_spine(empty_folder, monkeypatch, command):
    bounds, block = blocks_of("spine.md", "sh")
    lines = [line.partition("#")[0].split() for line in block.replace("\\\n", "").splitlines()]
    assert len(lines) == 9
    for line in lines:
        if line[0] == "cd":
            monkeypatch.chdir(line[1])
        else:
            command(*("600" if word == "40000" else word for word in line[1:]))
    assert Path("spine.html").is_file()
    assert set(pl.read_parquet_schema("plain.parquet")) >= {"Block", "share.Block"}
    assert len(bounds.replace("\\\n", "").splitlines()) == 5


@pytest.mark.nightly
def test_the_gaps_of_a_made_up_state(empty_folder, monkeypatch, command):
    """The page shows what the command prints, by its words."""
    bounds, _ = blocks_of("spine.md", "sh")
    printed = ""
    for line in bounds.replace("\\\n", "").splitlines():
        if line.startswith("cd "):
            monkeypatch.chdir(line.removeprefix("cd "))
        else:
            printed = command(*line.split()[1:])
    said = [line.split() for line in printed.splitlines()]
    (shown,) = blocks_of("spine.md", "text")
    assert [line for line in shown.splitlines() if line and line.split() not in said] == []


def test_the_files_of_made_up_households(empty_folder, command):
    page = (PROJECT / "docs" / "made-up-households.md").read_text()
    first, second = re.findall(r"^tallyveil (.*)$", page, re.MULTILINE)
    command(*first.split(), "--quiet")
    rows = re.findall(r"^\| (`.*?) \|", page.split("| file |")[1].split("\n\n")[0], re.MULTILINE)
    names = {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}
    assert names == {path.name for path in Path("people").iterdir()}
    persons = pl.read_parquet("people/persons.parquet")
    race = pl.when(pl.col("hispanic") == "hispanic").then(pl.lit("hisp")).otherwise(pl.lit("two"))
    counts = persons.group_by(
        "geocode", pl.col("votingage").alias("voting_age"), race.alias("race_ethnicity")
    )
    counts.agg(pl.len().alias("count")).write_parquet("ri_2010_counts.parquet")
    again = command(*second.replace("--out people", "--out again").split(), "--json")
    assert "persons.parquet" in again
    assert pl.read_parquet("again/persons.parquet").height == persons.height


def test_the_atoms_and_sums_of_the_page_on_intervals(capsys):
    (example,) = (text for text in blocks_of("intervals.md", "python") if "derive_atoms" in text)
    exec(compile(example, "intervals.md", "exec"), {})
    assert f"It prints `{capsys.readouterr().out.strip()}`" in (PROJECT / "docs" / "intervals.md").read_text()
