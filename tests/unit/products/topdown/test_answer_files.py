"""Answers as files in the forms of publications: the numbers are those of the answer; what has no form is refused."""

import json

import openpyxl
import polars as pl
import pytest

import tallyveil
from tallyveil.errors import ConfigError
from tallyveil.products.topdown.answer_files import ENDINGS, FORM_OF_ENDING, write_answer_file


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    return tallyveil.run(make_small_inputs(folder / "in"), folder / "out", insecure_test_key="answers")


def written(release, question, ending, folder, **more):
    answer = release.ask(question, **more)
    path = folder / f"answer{ending}"
    write_answer_file(answer, question, path, release.path)
    return answer.table, path


@pytest.mark.parametrize("question", ["age by Town", "total", "home by Town as share of total"])
def test_every_form_has_the_numbers_of_the_answer(release, tmp_path, question):
    table, path = written(release, question, ".json", tmp_path)
    number = "published" if "share" in question else "count"
    data = json.loads(path.read_text())
    assert data["version"] == "2.0"
    assert data["label"] == question
    shape = data["size"]
    assert shape[-1] == 5
    values = data["value"]
    # Codes of a dimension come as the answer has them, so that its rows are in the order of the places.
    assert values[0::5] == pytest.approx(table[number].to_list())
    assert values[2::5] == pytest.approx(table["standard_error"].to_list())
    table, path = written(release, question, ".px", tmp_path)
    text = path.read_text()
    assert f'TITLE="{question}";' in text
    assert text.rstrip().endswith(";")
    table, path = written(release, question, ".xlsx", tmp_path)
    sheet = openpyxl.load_workbook(path).worksheets[-1]
    rows = [row for row in sheet.iter_rows(values_only=True) if row[-1] in ("A", "E", "U")]
    assert len(rows) == table.height


def test_what_has_no_form_is_refused(release, tmp_path):
    for ending in FORM_OF_ENDING:
        with pytest.raises(ConfigError, match="levels of an attribute"):
            written(release, "median of age by Town", ending, tmp_path)
    # Whatever has an answer has a table.
    for ending in set(ENDINGS) - set(FORM_OF_ENDING):
        written(release, "median of age by Town", ending, tmp_path)
    assert pl.read_csv(tmp_path / "answer.csv").columns[0] == "geocode"


def test_the_command_writes_them(release, tmp_path, command):
    out = tmp_path / "out.json"
    command("ask", release.path, "age by Town", "--out", out, "--quiet")
    _, path = written(release, "age by Town", ".json", tmp_path)
    assert out.read_bytes() == path.read_bytes()
