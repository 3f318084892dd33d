"""`tallyveil study`, end to end."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import polars as pl
import pytest

import tallyveil_studies
from tallyveil.cli.main import main
from tallyveil.cli.study import Study
from tallyveil.cli.study import study as command_function


@pytest.fixture
def study(monkeypatch, capsys):
    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tallyveil", "study", "fdp-census", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out + captured.err

    return run


def test_a_figure_has_a_plot(study, tmp_path):
    code, _ = study("--figure", "11", "--out", tmp_path, "--plots", "png", "-q")
    assert code == 0
    assert (tmp_path / "figure-11.png").stat().st_size > 10_000
    table = pl.read_csv(tmp_path / "figure-11.csv")
    assert (table["exact: lower"] <= table["exact: upper"]).all()


def test_what_cannot_be_recomputed(study, tmp_path):
    code, text = study("--figure", "99", "--out", tmp_path)
    assert code == 2
    assert "figure-99 cannot be recomputed" in text
    code, text = study("--out", tmp_path)
    assert code == 2
    assert "nothing was asked for" in text


def test_data_are_asked_for(study, tmp_path):
    code, text = study("--figure", "8", "--out", tmp_path)
    assert code == 2
    assert "--data DIR" in text


def test_all_goes_on_without_data(study, tmp_path, monkeypatch):
    from tallyveil_studies.fdp_census import catalogue

    few = tuple(exhibit for exhibit in catalogue.EXHIBITS if exhibit.name in ("figure-8", "table-3"))
    monkeypatch.setattr(catalogue, "EXHIBITS", few)
    code, text = study("--all", "--out", tmp_path)
    assert code == 0
    assert "skipped: Figure 8" in text
    assert (tmp_path / "table-3.csv").exists()
    assert not (tmp_path / "figure-8.csv").exists()


def test_every_paper_has_a_name_in_the_command():
    """A study that the command does not know would never be run by --all."""
    folders = {path.parent.name for path in Path(tallyveil_studies.__file__).parent.glob("*/catalogue.py")}
    assert {study.value.replace("-", "_") for study in Study} == folders


def test_the_help_names_every_exhibit_that_is_no_figure_or_table():
    beyond = get_type_hints(command_function, include_extras=True)["beyond"].__metadata__[0].help
    for paper in Study:
        for exhibit in import_module(f"tallyveil_studies.{paper.replace('-', '_')}.catalogue").EXHIBITS:
            if exhibit.name.partition("-")[0] not in ("figure", "table"):
                assert re.search(rf"\b{exhibit.name}\b", beyond), exhibit.name


@pytest.mark.nightly
def test_all_without_a_paper_runs_every_paper(command, tmp_path, monkeypatch):
    quick = {
        "fdp_census": "table-3",
        "safetab": "table-1",
        "integer_subspace": "table-1",
        "geographic_spines": "fan-out",
    }
    for folder in (study.value.replace("-", "_") for study in Study):
        catalogue = import_module(f"tallyveil_studies.{folder}.catalogue")
        few = tuple(exhibit for exhibit in catalogue.EXHIBITS if exhibit.name == quick.get(folder, "fan-out"))
        monkeypatch.setattr(catalogue, "EXHIBITS", few)
    command("study", "--all", "--out", tmp_path, "-q")
    for study_name in Study:
        assert list((tmp_path / study_name.value).glob("*.csv")), study_name


def test_a_paper_is_named_unless_all_are_wanted(command, tmp_path):
    said = command("study", "--out", tmp_path, code=2)
    assert "geographic-spines" in said
    assert "no paper was named" in command("study", "--all", "--figure", "1", "--out", tmp_path, code=2)
    assert not list(tmp_path.iterdir())
