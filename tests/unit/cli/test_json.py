"""What commands say with `--json` and `--quiet`, where no other test looks."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_are_listed(folder, command):
    made = json.loads(command("synth", "--blocks", 40, "--out", "made", "--json"))
    assert all(Path(path).is_file() for path in made["files"])
    assert "made/release.toml" in made["files"]
    example = json.loads(command("init", "--example", "town", "--json"))
    assert sorted(map(Path, example["files"])) == sorted(Path("town").iterdir())


def test_a_first_release_file(folder, command):
    command("init", "--example", "town", "--quiet")
    words = "--geography town/areas.csv --geocode area --geolevels Region=1,Town=2,Area --codebook town/codebook.csv"
    said = command("init", "town/persons.csv", *words.split(), "--numbers", "age", "--rho", "1/2", "--json")
    assert json.loads(said) == {
        "release_file": "release.toml",
        "attributes": ["sex", "age", "work"],
        "levels_from_records": False,
    }


def test_an_explanation(command):
    said = json.loads(command("explain", "no-locks", "--json"))
    assert said["code"] == "no-locks"
    assert "To mend it" in said["explanation"]


def test_a_spine(folder, command):
    command("synth", "--blocks", 60, "--out", "made", "--quiet")
    words = (
        "spine",
        "build",
        "--geography",
        "made/geography.parquet",
        "--geolevels",
        "state,county,tract,geocode",
    )
    assert command(*words, "--out", "plain.parquet", "--quiet") == ""
    said = json.loads(command(*words, "--out", "again.parquet", "--json"))
    sizes = list(said["geounits"].values())
    assert (sizes[0], sizes[-1]) == (1, 60)
    assert said["out"] == "again.parquet"
    page = json.loads(command("spine", "show", "plain.parquet", "--out", "page.html", "--json", "--within", "county",
                              "--group", "tract"))["page"]  # fmt: skip
    assert Path(page).is_file()
    distance = (
        "spine",
        "distance",
        "plain.parquet",
        "--entities",
        "made/entities.parquet",
        "--out",
        "far.parquet",
    )
    assert command(*distance, "--quiet") == ""
    assert Path("far.parquet").is_file()


@pytest.mark.nightly
def test_a_study(folder, command):
    said = json.loads(
        command("study", "geographic-spines", "--beyond", "theorem-2", "--out", "study", "--json")
    )
    (paper,) = said
    assert paper["paper"] == "geographic-spines"
    (exhibit,) = paper["exhibits"]
    assert all(Path(path).is_file() for path in exhibit["files"])


def test_an_infinite_epsilon_is_a_text(command):
    words = "account epsilon --approximate-dp 1:1e-3 --delta 1e-6 --json"
    said = json.loads(command(*words.split()), parse_constant=pytest.fail)
    assert said["epsilon"] == {"lower": "Infinity", "upper": "Infinity"}
