"""Flags that list names: one without a name is refused, and stands for nothing else."""

from pathlib import Path

import pytest

from tallyveil.cli.frame.arguments import names_if_any, names_of
from tallyveil.errors import ConfigError

NOTHING = ["", ",", " , ,"]
COMMANDS = {
    "--tables of intervals": ("intervals", "run", "--tables"),
    "--families of intervals": ("intervals", "run", "--entities", "entities.csv", "--families"),
    "--tables of evaluate": (
        *("evaluate", "run", "--truth", "truth.csv", "--i-understand-this-is-not-private"),
        "--tables",
    ),
    "--named of publish dhc": ("publish", "dhc", "run", "--out", "out", "--named"),
    "--geolevels of spine build": (
        "spine",
        "build",
        "--geography",
        "g.csv",
        "--out",
        "s.parquet",
        "--geolevels",
    ),
    "--families of plan": ("plan", "release.toml", "--families"),
    "--queries of plan": ("plan", "release.toml", "--families", "town", "--queries"),
    "--attributes of init": ("init", "--attributes"),
    "--numbers of init": ("init", "--numbers"),
}


def test_names_are_separated_by_commas():
    assert names_of(" a,b c ,,d", "--tables") == ["a", "b c", "d"]
    assert names_if_any("a", "--tables") == ["a"]
    assert names_if_any(None, "--tables") is None


@pytest.mark.parametrize("text", NOTHING)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_is_refused_before_anything_is_read(command, tmp_path, monkeypatch, name, text):
    monkeypatch.chdir(tmp_path)
    said = command(*COMMANDS[name], text, code=2)
    assert f"{name.split()[0]} is '{text}', which holds no name" in " ".join(said.split("\n"))
    assert "bad-flag" in said
    assert not list(Path().iterdir())


@pytest.mark.parametrize("text", NOTHING)
def test_the_same_of_one_flag(text):
    with pytest.raises(ConfigError, match="holds no name") as caught:
        names_of(text, "--tables")
    assert caught.value.code == "bad-flag"
