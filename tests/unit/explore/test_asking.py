"""The questions of the page of tables get what the command says, and no more."""

import base64
import json
import shlex
from dataclasses import replace

import polars as pl
import pytest
from tests.samples import few
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.test_page_files import called

import tallyveil
from tallyveil.errors import ConfigError
from tallyveil.explore.asking import AskingPage, asking_entry
from tallyveil.explore.opened import open_for_explorer
from tallyveil.explore.site import make_site
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.question import Condition, Measure, read_question
from tallyveil.products.topdown.run.run import run_release


@pytest.fixture(scope="module")
def root(make_small_inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("asking")
    run_release(
        load_plan(make_small_inputs(folder / "inputs")), folder / "out", test_key=bytes(32), workers=1
    )
    return folder / "out"


@pytest.fixture(scope="module")
def page(root):
    return AskingPage(root)


def about(question, *, level=0.95, threshold=None, plan=None, **others):
    return {
        "ask": "answer",
        "question": question,
        "level": level,
        "threshold": threshold,
        "plan": plan,
        **others,
    }


@pytest.mark.parametrize(
    "question",
    ["age by Town where home = house as share of total", "median of age by Town", "total as deviation"],
)
def test_answers_are_those_of_ask(root, page, question):
    """Whatever was asked before: what is kept between questions changes no number."""
    said = json.loads(json.dumps(page.answer(about(question, level=0.9))))
    wanted = tallyveil.open(root).ask(question, level=0.9).table
    assert said["problem"] == ""
    assert said["rows"] == wanted.height
    for name, values in said["columns"].items():
        assert [float(value) if value in ("Infinity", "-Infinity") else value for value in values] == wanted[
            name
        ].to_list()


def test_files_are_those_of_the_command(root, page, tmp_path, command):
    question = "age by Town where home = house"
    for ending in (".csv", ".parquet"):
        command("ask", root, question, "--out", tmp_path / f"a{ending}", "--quiet")
        said = page.answer(about(question) | {"ask": "file", "ending": ending})
        assert base64.b64decode(said["content"]) == (tmp_path / f"a{ending}").read_bytes()


def given(page, text, name="plan.csv"):
    return page.answer({"ask": "plan", "name": name, "content": base64.b64encode(text.encode()).decode()})


def test_a_file_of_areas(root, page, tmp_path, command):
    """Of finest geounits, or of coarser areas that make the groups up; the command reads the same file."""
    towns = tallyveil.open(root).table("Town", "total")["geocode"].unique(maintain_order=True).to_list()
    groups = pl.DataFrame({"geocode": towns, "group": ["a", *["b"] * (len(towns) - 1)]})
    plan = given(page, groups.write_csv())
    assert plan["areas"] == 2
    said = page.answer(about("age", plan=plan["plan"]))["columns"]
    by_hand = page.answer(about(f"age in {towns[0]}"))["columns"]
    assert said["geocode"][: len(said["age"]) // 2] == ["a"] * (len(said["age"]) // 2)
    assert said["estimate"][: len(by_hand["age"])] == by_hand["estimate"]
    groups.write_csv(tmp_path / "plan.csv")
    record = json.loads(command("ask", root, "age", "--district", tmp_path / "plan.csv", "--json"))
    assert [row["estimate"] for row in record["rows"]] == said["estimate"]
    assert "was not given" in page.answer(about("age", plan="0" * 64))["problem"]
    assert "file my plan.csv lacks" in given(page, "town\n1\n", "my plan.csv")["problem"]
    assert (
        "no geounit"
        in page.answer(about("age", plan=given(page, f"geocode,g\n{towns[0]},a\nX,b\n")["plan"]))["problem"]
    )


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({}, "not known"),
        ({"ask": "answer"}, "not known"),
        (about(7), "not known"),
        (about("total", level="0.9"), "not known"),
        (about("total", threshold="x"), "not known"),
        (about("total", plan=3), "not known"),
        ({"ask": "plan", "name": "x", "content": "!"}, "not known"),
        (about("total") | {"ask": "file", "ending": "/../x"}, "not known"),
        (about("total", level=2), "level is 2"),
        (about("seks"), "no attribute"),
    ],
)
def test_what_is_no_question_is_a_problem(page, asked, problem):
    assert problem in page.answer(asked)["problem"]


def test_the_entry_of_a_site_names_what_can_be_asked(root):
    opened = open_for_explorer(root, None)
    entry = asking_entry(opened)
    names = [
        name
        for item in entry["attributes"]
        for name in (item["name"], *(recode["name"] for recode in item["recodes"]))
    ]
    assert sorted(names) == sorted(opened.schema.factor_names)
    assert entry["lacking"] is None
    body = opened.manifest.body
    manifest = replace(opened.manifest, body={**body, "plan": {**body["plan"], "measurements": "none"}})
    assert '"none"' in asking_entry(replace(opened, manifest=manifest))["lacking"]


LABELS = """
[labels.de]
title = "Klein"
[labels.de.attributes]
age = "Alter"
[labels.de.levels.age]
young = "jung"
middle = "mittel"
old = "alt"
"""


def test_a_site_names_what_can_be_asked_in_its_languages(small_release, tmp_path):
    """In the order of the entry, so that the page finds the name of each level."""
    with small_release.open("a", encoding="utf-8") as file:
        file.write(LABELS)
    run_release(load_plan(small_release), tmp_path / "out", test_key=bytes(32), workers=1)
    make_site(tmp_path / "out", tmp_path / "site")
    content = json.loads((tmp_path / "site" / "data" / "site.json").read_text(encoding="utf-8"))
    (edition,) = content["editions"]
    for entry, words in zip(content["asking"]["attributes"], edition["attributes"], strict=True):
        assert len(words["levels"]) == len(entry["levels"])
        sizes, known = ([len(one["levels"]) for one in item["recodes"]] for item in (words, entry))
        assert sizes == known
        if entry["name"] == "age":
            assert entry["levels"] == ["young", "middle", "old"]
            assert words["title"] == "Alter"
            assert words["levels"] == ["jung", "mittel", "alt"]


QUESTIONS = (
    "total",
    "sex by age5 by Town where citizenship = foreign, stateless and age from 18 to 64 as share of sex",
    'median of "age" by sex by Town',
    "quantile 0.9 of age where work = employed",
    "dissimilarity of citizenship by Town across Block",
    'total by Town in \'a\'\'b\', "c ""d""" minus x',
    'home by "by" where "of" = "=", "," as deviation',
    "total as share of total",
    'age into young from 0 to 17 or "or" = 65, "by" by sex into m = male by Town',
    '\ufeffage by\x1fsex where home = "\x85", "\ufeff"\x1cin\xa0a\ufeff\x85',
)


def conditions(shown):
    return tuple(Condition(one["name"], tuple(one["labels"]), one["span"]) for one in shown)


@node_needed
@pytest.mark.parametrize("text", few(3, QUESTIONS))
def test_the_page_reads_and_writes_questions_as_the_command_does(text):
    wanted = read_question(text)
    shown = called("tables/grammar.js", "readQuestion", text)
    assert tuple(shown["by"]) == wanted.by
    assert conditions(shown["where"]) == wanted.where
    assert {one["name"]: conditions(one["groups"]) for one in shown["groups"]} == wanted.groups
    assert (None if shown["areas"] is None else tuple(shown["areas"])) == wanted.areas
    assert tuple(shown["minus"]) == wanted.minus
    assert (None if shown["shareOf"] is None else tuple(shown["shareOf"])) == wanted.share_of
    assert shown["deviation"] == wanted.is_deviation
    assert shown["across"] == wanted.across
    assert (shown["measure"] is None) == (wanted.measure is None)
    assert wanted.measure != Measure("quantile", 0.5) or shown["measure"] == "median"
    assert read_question(called("tables/grammar.js", "questionText", shown)) == wanted


@node_needed
@pytest.mark.parametrize(
    "text", few(3, ["", "sex by", "a b", "sex where x", "sex as", 'sex "', "sex in", "sex where a from b"])
)
def test_what_the_command_refuses_the_page_cannot_read(text):
    with pytest.raises(ConfigError):
        read_question(text)
    assert "does not have the form" in called("tables/grammar.js", "readQuestion", text)


@node_needed
def test_the_command_is_one_for_a_shell():
    said = called(
        "tables/grammar.js",
        "commandOf",
        "my 'run",
        "sex in 'a'",
        {"level": "0.9", "threshold": "", "file": "a b.csv"},
    )
    assert shlex.split(said) == [
        "tallyveil",
        "ask",
        "my 'run",
        "sex in 'a'",
        "--level",
        "0.9",
        "--district",
        "a b.csv",
    ]
