"""A draft goes from a register to a release file, keeps every answer, and knows no value of a record."""

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.registers import CANARY, write_register

from tallyveil.desk.draft import AREAS_FILE, NAMES_FILE, TITLES, Draft
from tallyveil.desk.questions import cost_sentences, step_of, view_of
from tallyveil.errors import TallyveilError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.table_errors import table_errors
from tallyveil.storage.text_forms import shape_of
from tallyveil.words.language import language_of

ABOVE = {
    "1": {"name": "Country", "source": "everything"},
    "2": {"name": "Canton", "source": "column:canton"},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "records": {"file": "persons.csv"},
    "areas": {
        "area": "municipality", "file": "municipalities.csv", "code": "code", "name": "name",
        "finest": "Municipality", "above": ABOVE,
    },
    "meaning": {
        "codebook": "codebook.csv",
        "columns": {
            "age": {"kind": "ranges", "levels": "0-17; 18-64; 65+"},
            "marital status": {"levels": "single, married, widowed, divorced", "missing": "not asked"},
        },
    },
    "words": {"title": "Population", "unit": "person", "units": "people"},
    "tables": {"tables": ["total", "age", "sex*age"], "exact": ["Canton"]},
    "exactness": {"within": {"total": {"Municipality": "10"}, "age": {"Municipality": "12,5"}}},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_register(tmp_path, 400)
    return tmp_path


def taken(folder: Path, **changed: Mapping[str, Any]) -> Draft:
    """A draft with all answers, some of them others."""
    draft = Draft.opened(folder)
    for name, answers in ANSWERS.items():
        draft.take(name, {**answers, **changed.get(name, {})})
        step_of(draft, name)
    return draft


def test_from_a_register_to_a_release_file(folder: Path, command) -> None:
    draft = taken(folder)
    for name in TITLES:
        step = step_of(draft, name)
        assert step.is_done, (name, step.problems, step.unsaid)
    assert step_of(draft, "areas").shown == ("1 × Country", "26 × Canton", "60 × Municipality")
    assert step_of(draft, "records").shown[0] == (
        "Found: semicolon between columns, Latin-1 (ISO 8859-1), decimal comma (1,5)."
    )
    path = draft.write()
    plan = load_plan(path)
    assert plan.records.form.encoding == "iso-8859-1"
    assert dict(plan.records.missing) == {"marital status": "not asked"}
    assert plan.tables == ("total", "age", "sex*age")
    errors = {(item.table, item.geolevel): item for item in table_errors(plan, Fraction(95, 100))}
    assert errors["total", "Canton"].is_exact
    # Totals of cantons are exact, so that totals in them are more exact than their measurements are.
    assert 10 <= (errors["total", "Municipality"].margin or 0) <= 15
    assert 10 <= (errors["age", "Municipality"].margin or 0) <= 16
    assert step_of(draft, "budget").shown[0] in command("plan", path)
    command("run", path, "--out", folder / "release", "--insecure-test-key", "k", "--quiet")
    names = pl.read_parquet(folder / "release" / "names.parquet")
    assert "Dörfli 7" in names["name"].to_list()
    dearest = cost_sentences(draft)[0]
    assert "% of the budget would be saved" in dearest


def test_larger_errors_cost_less(folder: Path) -> None:
    draft = taken(folder)
    whole, as_wished = draft.chosen()
    draft.take("budget", {"factor": "2"})
    quarter, larger = draft.chosen()
    assert quarter.total == whole.total / 4
    assert float(larger.epsilon) < float(as_wished.epsilon)
    assert step_of(draft, "budget").fields[0].value == "2"


def test_every_answer_is_kept_also_a_wrong_one(folder: Path) -> None:
    taken(folder, exactness={"within": {"total": {"Municipality": "many"}}})
    again = Draft.opened(folder)
    (problem,) = step_of(again, "exactness").problems
    assert "“many” is no number above 0" in problem
    assert step_of(again, "exactness").fields[0].value == {"total": {"Municipality": "many"}}
    assert [step["name"] for step in view_of(again)["steps"]][-1] == "exactness"
    with pytest.raises(TallyveilError, match="no number"):
        again.write()


def test_no_value_of_a_record_is_in_a_draft(folder: Path) -> None:
    draft = taken(folder)
    draft.write()
    seen = json.dumps(view_of(draft))
    assert CANARY not in seen
    for path in folder.iterdir():
        assert path.name == "persons.csv" or CANARY.encode() not in path.read_bytes(), path
    for name in TITLES:
        assert CANARY not in repr(step_of(draft, name))


def test_another_file_of_records_is_looked_at_anew(folder: Path) -> None:
    draft = taken(folder)
    draft.take("records", {"file": "persons.csv", "delimiter": ",", "encoding": "utf-8", "decimal": "."})
    assert draft.shape().columns == ("person;municipality;sex;age;marital status;income;note",)
    (folder / "plain.csv").write_text("area,sex\nA,m\n")
    draft.take("records", {"file": "plain.csv", "delimiter": ";", "encoding": "utf-8", "decimal": "."})
    assert draft.shape().columns == ("area", "sex")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("7;a;C1\n8;b;C1\n7;c;C2\n", "Rows 2 and 4 of other.csv have the same code."),
        ("7;a;C1\n;b;C1\n", "Row 3 of other.csv has no code of its Municipality."),
        ("7;a;C1\n8;b;\n", "Row 3 of other.csv has no code of its Canton."),
        ("", "has no row"),
    ],
)
def test_problems_of_areas_name_their_row(folder: Path, rows: str, said: str) -> None:
    (folder / "other.csv").write_text(f"code;name;canton\n{rows}")
    draft = taken(folder, areas={"file": "other.csv"})
    assert any(said in problem for problem in step_of(draft, "areas").problems)


def test_an_area_in_two_larger_ones_is_named(folder: Path) -> None:
    (folder / "other.csv").write_text("code;district;canton\n1;D1;C1\n2;D2;C1\n3;D1;C2\n")
    above = {
        "1": {"name": "Canton", "source": "column:canton"},
        "2": {"name": "District", "source": "column:district"},
    }
    draft = taken(folder, areas={"file": "other.csv", "name": "", "above": above})
    assert step_of(draft, "areas").problems == (
        "Rows 2 and 4 of other.csv put one District into two areas of Canton. Correct one of them.",
    )


def test_parents_by_prefix_of_codes_of_unequal_length(folder: Path) -> None:
    (folder / "other.csv").write_text("code\n101\n102\n1001\n")
    above = {"1": {"name": "District", "source": "without:2"}}
    draft = taken(folder, areas={"file": "other.csv", "name": "", "above": above})
    assert step_of(draft, "areas").is_done
    assert pl.read_csv(folder / AREAS_FILE, infer_schema=False).rows() == [
        ("1", "101"),
        ("1", "102"),
        ("10", "1001"),
    ]


def test_a_release_file_of_somebody_else_stays(folder: Path) -> None:
    draft = taken(folder)
    (folder / "release.toml").write_text("mine")
    with pytest.raises(TallyveilError, match="was not written by the desk"):
        draft.write()
    (folder / "release.toml").unlink()
    draft.write()
    draft.write()


def test_the_records_are_no_public_file(folder: Path) -> None:
    draft = taken(folder, areas={"file": "persons.csv", "code": "municipality", "name": "note"})
    step = step_of(draft, "areas")
    assert "names the records" in step.errors[0]
    assert CANARY not in repr(step)


def test_a_draft_that_is_damaged_is_named(folder: Path) -> None:
    with pytest.raises(TallyveilError, match="is no folder"):
        Draft.opened(folder / "none")
    (folder / "desk.json").write_text("{")
    with pytest.raises(TallyveilError, match="Move it away"):
        Draft.opened(folder)


def test_a_file_with_a_name_of_the_desk_is_not_written_over(folder: Path) -> None:
    theirs = folder / AREAS_FILE
    theirs.write_text("the records of somebody\n")
    step = step_of(taken(folder), "areas")
    assert any("was not written by the desk" in error for error in step.errors)
    assert theirs.read_text() == "the records of somebody\n"
    theirs.unlink()
    # The desk's own file is written anew, also by a desk that was opened later.
    assert step_of(taken(folder), "areas").is_done
    assert step_of(taken(folder, areas={"finest": "Town"}), "areas").is_done


def test_nothing_is_written_into_a_release(folder: Path) -> None:
    (folder / "ledger.jsonl").touch()
    with pytest.raises(TallyveilError, match="folder of a release"):
        Draft.opened(folder)


@pytest.mark.parametrize(
    "said", [{"encoding": "utf-8"}, {"encoding": []}, {"encoding": "x", "delimiter": ";"}]
)
def test_a_form_that_is_no_form_is_found_anew(folder: Path, said: dict[str, Any]) -> None:
    draft = taken(folder)
    draft.take("records", {"file": "persons.csv", **said})
    assert step_of(draft, "records").is_done


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "a\ud800"},
        {"file": "a" * 256},
        {"file": "a/" * 1_000},
        {"file": "a\x00b"},
        {"file": float("nan")},
        {"file": 5},
        {"file": None},
        {"columns": {"age": {"kind": float("inf")}}},
        {"columns": {"a\u202eb": {"kind": "levels"}}},
        {"columns": {"age": {"levels": "a" * 100_001}}},
        {"tables": ["total", "a\nb"]},
    ],
)
def test_what_could_not_be_kept_is_refused_and_not_noted(folder: Path, wrong: dict[str, Any]) -> None:
    draft = taken(folder)
    before = (folder / "desk.json").read_bytes()
    with pytest.raises(TallyveilError, match="Nothing was noted") as refused:
        draft.take("records", {"file": "persons.csv", **wrong})
    assert str(refused.value).isprintable()
    assert (folder / "desk.json").read_bytes() == before
    assert step_of(draft, "records").is_done


def test_a_folder_has_one_desk_at_a_time(folder: Path) -> None:
    with Draft.held(folder) as draft:
        draft.take("records", {"file": "persons.csv"})
        with pytest.raises(TallyveilError, match="another desk is open") as refused, Draft.held(folder):
            pass
        assert refused.value.code == "folder-locked"
    with Draft.held(folder) as draft:
        assert step_of(draft, "records").is_done
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_a_file_in_utf16_is_named(folder: Path) -> None:
    (folder / "wide.csv").write_bytes("code;sex\nA;m\n".encode("utf-16"))
    draft = Draft.opened(folder)
    draft.take("records", {"file": "wide.csv"})
    assert any("UTF-16" in error and "CSV UTF-8" in error for error in step_of(draft, "records").errors)


def test_public_files_are_looked_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counted(path: Path, what: str, form: Any = None) -> Any:
        looked.append(what)
        return shape_of(path, what, form)

    monkeypatch.setattr("tallyveil.desk.draft.shape_of", counted)
    draft = taken(folder)
    view_of(draft)
    assert sorted(looked) == ["areas", "codebook", "records"]
    with (folder / "municipalities.csv").open("ab") as file:
        file.write(b"99999;x;C1\r\n")
    step_of(draft, "areas")
    assert looked.count("areas") == 2


def test_rows_may_stand_for_several_records_and_be_secret(folder: Path) -> None:
    lines = (folder / "persons.csv").read_text(encoding="latin-1").splitlines()
    counted = [f"{line};{'n' if place == 0 else 2}" for place, line in enumerate(lines)]
    (folder / "persons.csv").write_text("\n".join(counted) + "\n", encoding="latin-1")
    draft = taken(folder, records={"count": "n"}, tables={"exact": [], "neighbours": "unbounded"})
    assert "n" not in dict(step_of(draft, "meaning").fields[1].rows)
    plan = load_plan(draft.write())
    assert (plan.records.count, plan.neighbours.value) == ("n", "unbounded")


def test_labels_are_asked_for_in_each_language(folder: Path) -> None:
    (folder / "codebook.csv").write_text(
        "attribute;level;label;label:fr\nsex;m;männlich;masculin\nsex;w;weiblich;\n", encoding="utf-8"
    )
    typed = {
        "title": {"de": "Bevölkerung", "fr": "Population"},
        "unit.one": {"de": "Einwohner", "fr": "habitant"},
        "unit.other": {"de": "Einwohner", "fr": "habitants"},
        'attributes."marital status"': {"de": "Zivilstand"},
        "geolevels.Canton.one": {"de": "Kanton", "fr": "canton"},
        "geolevels.Canton.other": {"de": "Kantone"},
    }
    words = {"languages": "de, fr", "labels": typed}
    draft = taken(folder, words=words)
    assert "both words" in step_of(draft, "words").unsaid[0]
    typed["geolevels.Canton.other"]["fr"] = "cantons"
    draft.take("words", {**ANSWERS["words"], **words})
    step = step_of(draft, "words")
    assert step.is_done
    # The codebook says what levels are called, until somebody types something else.
    assert step.fields[-1].value["levels.sex.m"] == {"de": "", "fr": ""}
    assert "(codebook: männlich, masculin)" in dict(step.fields[-1].rows)["levels.sex.m"]
    labels = load_plan(draft.write()).labels_in("fr")
    assert (labels.title, labels.geolevel("Canton").other) == ("Population", "cantons")
    # What a language lacks is shown by its name.
    assert (labels.attribute("marital status"), labels.level("sex", "w")) == ("marital status", "w")
    assert load_plan(folder / "release.toml").languages == ("de", "fr")
    # The labels of a language come back with it.
    draft.take("words", {"languages": "de", "labels": {"title": {"de": "Personen"}}})
    draft.take("words", {"languages": "de, fr", "labels": {}})
    assert step_of(draft, "words").fields[-1].value["title"] == {"de": "Personen", "fr": "Population"}


@pytest.mark.parametrize(
    ("languages", "labels", "said"),
    [
        ("de", {"title": {"de": "a" * 201}}, "at most 200 characters"),
        ("de", {"levels.sex.m": {"de": "w"}}, "could not tell them apart"),
        ("de", {"unit.one": {"de": "a/b"}, "unit.other": {"de": "c"}}, "within sentences"),
    ],
)
def test_labels_that_no_page_could_show_are_named(
    folder: Path, languages: str, labels: dict[str, Any], said: str
) -> None:
    draft = taken(folder, words={"languages": languages, "labels": labels})
    assert said in step_of(draft, "words").errors[0]


def test_a_unit_that_no_sentence_could_hold_is_named_where_it_is_typed(folder: Path) -> None:
    draft = taken(folder, words={"unit": "person/1"})
    assert "person/1" in step_of(draft, "words").errors[0]


def test_the_desk_speaks_the_language_of_its_reader(folder: Path) -> None:
    draft = taken(folder)
    draft.language = language_of("de")
    assert step_of(draft, "records").title == "Die Datensätze"
    assert "höchstens" in step_of(draft, "budget").shown[0]
    assert "Person" in step_of(draft, "budget").shown[0]
    assert "%" in cost_sentences(draft)[0]
    draft.take("words", {"unit": "resident", "units": "residents", "languages": "de", "labels": {
        "unit.one": {"de": "Einwohnerin"}, "unit.other": {"de": "Einwohnerinnen"}}})  # fmt: skip
    assert "Einwohnerinnen" in step_of(draft, "exactness").why


LIST = """code;name;name:de;upper
1;Nord;Norden;
2;Sued;Süden;
11;Ost;;1
12;West;;1
21;Tal;;2
111;Dorf;;11
121;Stadt;;12
211;Weiler;;21
"""


@pytest.mark.parametrize("sources", [("first:1", "first:2"), ("column:upper", "column:upper")])
def test_areas_of_a_public_list_of_all_kinds(folder: Path, sources: tuple[str, str]) -> None:
    (folder / "list.csv").write_text(LIST, encoding="utf-8")
    above = {
        "1": {"name": "Region", "source": sources[0]},
        "2": {"name": "District", "source": sources[1]},
    }
    draft = taken(folder, areas={"file": "list.csv", "rows": "all", "above": above})
    assert step_of(draft, "areas").shown == ("2 × Region", "3 × District", "3 × Municipality")
    assert pl.read_csv(folder / AREAS_FILE, infer_schema=False).rows() == [
        ("1", "11", "111"),
        ("1", "12", "121"),
        ("2", "21", "211"),
    ]
    names = pl.read_csv(folder / NAMES_FILE, infer_schema=False)
    assert ("Region", "2", "Sued", "Süden") in names.rows()
    assert names.height == 8


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("22;Leer;;2\n", "Row 10 of list.csv needs one area to be both a District and a Municipality."),
        ("11;Ost;;1\n", "Rows 4 and 10 of list.csv have the same code."),
        (";Ost;;1\n", "Row 10 of list.csv has no code."),
    ],
)
def test_problems_of_a_list_of_all_kinds_name_their_row(folder: Path, row: str, said: str) -> None:
    (folder / "list.csv").write_text(LIST + row, encoding="utf-8")
    above = {"1": {"name": "Region", "source": "first:1"}, "2": {"name": "District", "source": "first:2"}}
    draft = taken(folder, areas={"file": "list.csv", "rows": "all", "above": above})
    assert step_of(draft, "areas").problems[0].startswith(said)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # Two areas that are above each other.
        (
            "K1;K2\nK2;K1\nM1;K1\nM2;K2\n",
            "Row 5 of list.csv needs one area to be both a Region and a District.",
        ),
        # Two areas that are above each other, and have no smallest area in them.
        (
            "R;\nK1;R\nM1;K1\nK2;K3\nK3;K2\n",
            "Rows 5 and 6 of list.csv are areas that lie in each other, with no smallest area in them: K2, K3.",
        ),
        # A town that is as deep as a district.
        (
            "R;\nK1;R\nB1;K1\nM1;B1\nM2;K1\n",
            "Row 6 of list.csv needs one area to be both a Region and a District.",
        ),
        # An empty district below a root that is above itself.
        ("R;R\nK1;R\nK2;R\nM1;K1\n", "Row 4 of list.csv needs one area to be both a Region and a District."),
        ("K1;R\nM1;K1\nM2;K1\n", "Row 3 of list.csv is in a Region that has no row."),
    ],
)
def test_an_area_of_a_list_is_at_one_level(folder: Path, rows: str, said: str) -> None:
    (folder / "list.csv").write_text(f"code;upper\n{rows}")
    above = {
        "1": {"name": "Region", "source": "column:upper"},
        "2": {"name": "District", "source": "column:upper"},
    }
    draft = taken(folder, areas={"file": "list.csv", "rows": "all", "name": "", "above": above})
    assert step_of(draft, "areas").problems[0].startswith(said)
    with pytest.raises(TallyveilError, match=r"list\.csv"):
        draft.smallest()


def test_a_country_between_columns_has_no_row(folder: Path) -> None:
    (folder / "list.csv").write_text("code;upper\nR;\nK1;R\nK2;R\nM1;K1\nM2;K2\n")
    above = {
        "1": {"name": "Region", "source": "column:upper"},
        "2": {"name": "Country", "source": "everything"},
        "3": {"name": "District", "source": "column:upper"},
    }
    draft = taken(folder, areas={"file": "list.csv", "rows": "all", "name": "", "above": above})
    assert step_of(draft, "areas").shown == ("1 × Region", "1 × Country", "2 × District", "2 × Municipality")


@pytest.mark.nightly
def test_a_release_may_have_one_attribute(folder: Path) -> None:
    columns = {name: {"kind": "left out"} for name in ("age", "marital status")}
    draft = taken(
        folder,
        meaning={"columns": columns},
        tables={"tables": ["total", "sex"]},
        exactness={"within": {"sex": {"Municipality": "10"}}},
    )
    assert step_of(draft, "budget").is_done


def test_tables_that_need_no_noise_are_not_enough(folder: Path) -> None:
    draft = taken(folder, tables={"tables": ["total"], "exact": ["Municipality"]})
    assert "known already" in step_of(draft, "tables").problems[0]


def test_a_name_that_is_mistyped_erases_nothing(folder: Path) -> None:
    columns = {**ANSWERS["meaning"]["columns"], "sex": {"kind": "left out"}}
    draft = taken(folder, meaning={"columns": columns})
    before = step_of(draft, "meaning").fields[1].value
    for codebook in ("none.csv", "codebook.csv"):
        # As the page does it: what stands in the form is kept.
        draft.take("meaning", {"codebook": codebook, "columns": step_of(draft, "meaning").fields[1].value})
    assert step_of(draft, "meaning").fields[1].value == before
    draft.take("exactness", {"within": {"total": {"Canton": ""}}})
    assert step_of(draft, "exactness").fields[0].value["age"] == {"Municipality": "12,5"}


@pytest.mark.parametrize(
    "areas",
    [
        {"finest": "*"},
        {"finest": "^a$"},
        {"above": {"1": {"name": "Canton", "source": "first:abc"}}},
        {"above": {"1": {"name": "Canton", "source": "bogus"}}},
        {"file": "lists.parquet", "name": ""},
    ],
)
def test_areas_that_no_table_could_have_are_named(folder: Path, areas: dict[str, Any]) -> None:
    pl.DataFrame({"code": [[1]], "canton": [b"a"]}).write_parquet(folder / "lists.parquet")
    step = step_of(taken(folder, areas=areas), "areas")
    assert len([*step.problems, *step.errors]) == 1


@pytest.mark.parametrize("above", ["x", {"1": "x"}, {"1": {"name": 5}}])
def test_areas_above_that_are_no_table_are_none(folder: Path, above: Any) -> None:
    draft = taken(folder)
    draft.answers["areas"] = {**ANSWERS["areas"], "above": above}
    step = step_of(draft, "areas")
    assert step.is_done
    assert step.fields[-1].value in ({}, {"1": {}})


def test_a_budget_is_that_of_the_areas_of_the_answers(folder: Path) -> None:
    draft = taken(folder)
    (folder / AREAS_FILE).unlink()
    draft.smallest()
    assert (folder / AREAS_FILE).is_file()


@pytest.mark.parametrize(
    ("name", "answers", "said"),
    [
        ("areas", {"finest": "a/b"}, "slashes"),
        ("areas", {"finest": "0"}, "looks like a number"),
        ("areas", {"finest": "a" * 300}, "300 characters"),
        ("words", {"title": "a/b"}, "slashes"),
        ("words", {"languages": "DE"}, "“DE” is no tag of a language"),
        ("words", {"languages": "Deutsch"}, "“Deutsch” is no tag of a language"),
        ("meaning", {"columns": {"age": {"kind": "levels", "levels": "a * b"}}}, "joins the parts"),
        ("exactness", {"within": {"total": {"Municipality": "1e-9"}}}, "at least 0.1 (people)"),
    ],
)
def test_what_a_plan_would_refuse_is_named_where_it_is_typed(
    folder: Path, name: str, answers: dict[str, Any], said: str
) -> None:
    step = step_of(taken(folder, **{name: answers}), name)
    assert said in [*step.problems, *step.errors][0]


def test_a_column_that_no_table_can_have_is_named_with_the_columns(folder: Path) -> None:
    (folder / "plain.csv").write_text("area,count\n1,a\n")
    draft = taken(
        folder,
        records={"file": "plain.csv"},
        areas={"area": "area"},
        meaning={"columns": {"count": {"kind": "levels", "levels": "a, b"}}},
    )
    assert "reserved" in step_of(draft, "meaning").errors[0]


def test_a_list_read_as_the_smallest_areas_is_asked_about(folder: Path) -> None:
    (folder / "list.csv").write_text("code;upper\nR;R\nM1;R\nM2;R\n")
    above = {"1": {"name": "Region", "source": "column:upper"}}
    draft = taken(folder, areas={"file": "list.csv", "name": "", "above": above})
    assert "larger areas" in step_of(draft, "areas").shown[-1]
    assert "larger areas" not in step_of(taken(folder), "areas").shown[-1]


@pytest.mark.nightly
def test_budgets_that_there_cannot_be_are_not_offered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyveil.desk.budget.FACTORS", (Fraction(1, 2), Fraction(1)))
    # At half the errors, the noise of a table could no longer be drawn.
    draft = taken(folder, exactness={"within": {"total": {"Municipality": "0.1"}, "age": {}}})
    draft.take("budget", {"factor": "1/2"})
    step = step_of(draft, "budget")
    assert step.is_done
    assert "1/2" not in dict(step.fields[0].choices)
    assert draft.chosen()[1].factor == 1
