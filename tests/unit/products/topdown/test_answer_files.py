"""Answers as files in the forms of publications: the numbers are those of the answer; what has no form is refused."""

import json
from dataclasses import replace

import openpyxl
import polars as pl
import pytest
from tests.samples import few

import tallyveil
from tallyveil.api.asking import answer_in_file
from tallyveil.errors import ConfigError
from tallyveil.files.cubes import px, xlsx
from tallyveil.postprocess.derived.answer import ANSWER_ENDINGS
from tallyveil.postprocess.derived.ask import AskedRelease
from tallyveil.products.topdown.answer_files import ENDINGS, FORM_OF_ENDING, endings_of, write_answer_file


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    return tallyveil.run(make_small_inputs(folder / "in"), folder / "out", insecure_test_key="answers")


def written(release, question, ending, folder, **more):
    answer = release.ask(question, **more)
    path = folder / f"answer{ending}"
    write_answer_file(answer, question, path, release.path)
    return answer.table, path


@pytest.mark.parametrize("question", few(1, ["age by Town", "total", "home by Town as share of total"]))
def test_every_form_has_the_numbers_of_the_answer(release, tmp_path, question):
    table, path = written(release, question, ".json", tmp_path)
    number = "published" if "share" in question else "count"
    data = json.loads(path.read_text())
    assert data["version"] == "2.0"
    assert data["label"] == question
    shape = data["size"]
    assert shape[-1] == 5
    values = data["value"]
    if number == "published":
        _, px = written(release, question, ".px", tmp_path)
        assert all(f"{value:.9f}" in px.read_text() for value in (*values[0::5], *values[1::5]))
    # Codes of a dimension come as the answer has them, so that its rows are in the order of the places.
    assert values[0::5] == pytest.approx(table[number].to_list())
    assert values[2::5] == pytest.approx(table["standard_error"].to_list())
    # What holds of counts alone is not said of shares.
    assert any("add up" in note for note in data["note"]) == (number == "count")
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
    drawn = replace(release.ask("age by Town"), of_draws="numbers from 3 draws")
    assert endings_of(drawn) == endings_of(release.ask("median of age by Town")) == ANSWER_ENDINGS
    with pytest.raises(ConfigError, match="numbers from draws"):
        write_answer_file(drawn, "age by Town", tmp_path / "drawn.px", release.path)
    # Whatever has an answer has a table.
    for ending in set(ENDINGS) - set(FORM_OF_ENDING):
        written(release, "median of age by Town", ending, tmp_path)
    assert pl.read_csv(tmp_path / "answer.csv").columns[0] == "geocode"


@pytest.mark.parametrize(
    ("question", "ending", "more"),
    [
        ("median of age by Town", ".px", {}),
        ("age by Town", ".json", {"earlier": "earlier"}),
        ("age by Town", ".px", {"draws": "draws"}),
        ("age by Town", ".xlsx", {}),
    ],
)
def test_what_has_no_form_is_refused_before_it_is_computed(tmp_path, monkeypatch, question, ending, more):
    monkeypatch.setattr("tallyveil.files.cubes.xlsx.find_spec", lambda _: None)
    # A release that is not there would be the next refusal.
    with pytest.raises(ConfigError, match=r"cannot be written as|tallyveil\[xlsx\]"):
        answer_in_file(tmp_path / "none", question, out=tmp_path / f"answer{ending}", **more)


@pytest.mark.parametrize(
    ("ending", "language", "words"),
    [
        (".xlsx", None, "a sheet of Excel has room for 1"),
        (".px", None, "quotation mark"),
        (".json", "xx", "'xx'"),
    ],
)
def test_rows_that_a_form_cannot_hold_are_refused_before_they_are_computed(
    release, tmp_path, monkeypatch, ending, language, words
):
    monkeypatch.setattr(xlsx, "MOST_ROWS", xlsx._ABOVE + 1)
    monkeypatch.setattr(px, "_NO_CODE", "young")  # no name of this release has a quotation mark
    monkeypatch.setattr(AskedRelease, "answer", lambda *_, **more: pytest.fail("was computed"))
    out = tmp_path / f"answer{ending}"
    with pytest.raises(ConfigError, match=words):
        answer_in_file(release.path, "age by Town", out=out, language=language)
    assert not out.exists()


def test_the_command_writes_them(release, tmp_path, command):
    out = tmp_path / "out.json"
    command("ask", release.path, "age by Town", "--out", out, "--quiet")
    _, path = written(release, "age by Town", ".json", tmp_path)
    assert out.read_bytes() == path.read_bytes()
