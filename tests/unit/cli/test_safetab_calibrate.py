"""`tallyveil safetab calibrate`: a folder that the other commands take, and options that exclude each other."""

import json
from pathlib import Path

import pytest

TABLE_4 = Path(__file__).parents[3] / "examples" / "safetab_table_4" / "gaussian"


def test_a_folder_for_a_margin_is_a_parameter_folder(command, tmp_path):
    out = tmp_path / "out"
    record = json.loads(
        command("safetab", "calibrate", TABLE_4, "--margins", "USA 2 = 6", "--out", out, "--json")
    )
    assert record["plan"]["runs"]["US"]["budget"] == "225597049/500000000"
    assert json.loads(command("safetab", "plan", out, "--json")) == record
    two = tmp_path / "two"
    assert str(two) in command("safetab", "calibrate", out, "--epsilon", "2", "--out", two)


@pytest.mark.parametrize("words", [(), ("--margins", "USA 2 = 6", "--epsilon", "2")])
def test_either_margins_or_an_epsilon_is_given(command, tmp_path, words):
    said = command("safetab", "calibrate", TABLE_4, *words, "--out", tmp_path / "out", code=2)
    assert "either --margins or --epsilon" in said


def test_the_parameters_are_not_overwritten(command, tmp_path):
    said = command("safetab", "calibrate", TABLE_4, "--margins", "USA 2 = 6", "--out", TABLE_4, code=8)
    assert str(TABLE_4) in "".join(said.split("\n"))
