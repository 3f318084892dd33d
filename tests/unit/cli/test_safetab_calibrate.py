"""`tallyveil safetab calibrate`: a folder that the other commands take, and options that exclude each other."""

import json
from pathlib import Path

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


def test_something_is_calibrated(command, tmp_path):
    said = command("safetab", "calibrate", TABLE_4, "--out", tmp_path / "out", code=2)
    assert "--total-margins, --epsilon or --relative-margin" in " ".join(said.split())


def test_the_details_that_groups_of_an_earlier_table_get_are_shown(command, tmp_path):
    sizes = tmp_path / "t1.txt"
    sizes.write_text("REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n1|USA|1101|1200\n")
    words = ("safetab", "calibrate", TABLE_4, "--relative-margin", "1/4", "--out")
    chances = command(*words, tmp_path / "a")
    assert "Share of stage 1: 0.1" in chances
    assert "100.0%" in chances
    shown = command(*words, tmp_path / "b", "--group-sizes", sizes)
    assert "misplaced" in shown
    assert "1,000-9,999" in shown


def test_the_parameters_are_not_overwritten(command, tmp_path):
    said = command("safetab", "calibrate", TABLE_4, "--margins", "USA 2 = 6", "--out", TABLE_4, code=8)
    assert str(TABLE_4) in "".join(said.split("\n"))
