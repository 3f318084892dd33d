"""A release with labels in three languages: its page, site, CSV files and answers speak them, and verify holds."""

import base64
import json
import re

import polars as pl
import pytest

import tallyveil
from tallyveil.api.asking import answer_in_file
from tallyveil.errors import ConfigError
from tallyveil.explore.asking import AskingPage
from tallyveil.explore.site import make_site
from tallyveil.files.whole_tables import publish_csv

WORDS = {
    "en": ("Two <regions>", "resident", "residents", "age", "under 18", "town", "towns"),
    "de": ("Zwei Regionen", "Einwohner", "Einwohner", "Alter", "unter 18", "Stadt", "Städte"),
    "fr": ("Deux régions", "habitant", "habitants", "âge", "moins de 18 ans", "ville", "villes"),
}
LABELS = "".join(
    f"""
[labels.{tag}]
title = "{title}"
unit = {{ one = "{unit}", other = "{units}" }}
[labels.{tag}.attributes]
age = "{age}"
[labels.{tag}.levels.age]
young = "{young}"
[labels.{tag}.geolevels]
Town = {{ one = "{town}", other = "{towns}" }}
"""
    for tag, (title, unit, units, age, young, town, towns) in WORDS.items()
)


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory) -> tallyveil.Release:
    folder = tmp_path_factory.mktemp("labelled")
    path = make_small_inputs(folder)
    text = path.read_text().replace("tables = [", 'intervals = "0.95"\ntables = [')
    path.write_text(text.replace("[geography]\n", '[geography]\nnames = "names.csv"\n') + LABELS)
    names = {"geolevel": ["Town"], "geocode": ["P01"], "name": ["Northtown"], "name:fr": ["Ville-du-Nord"]}
    pl.DataFrame(names).write_csv(folder / "names.csv")
    return tallyveil.run(path, folder / "release")


def test_the_page_has_every_language_and_asks_for_nothing(release):
    page = (release.path / "report.html").read_text(encoding="utf-8")
    editions = re.split(r'<div class="edition edition-(\w+)" lang="\w+">', page)
    spoken = dict(zip(editions[1::2], editions[2::2], strict=True))
    assert list(spoken) == ["en", "de", "fr"]
    assert page.count(" checked>") == 1
    assert "Two &lt;regions&gt;" in spoken["en"]
    for tag, text in spoken.items():
        _, _, units, age, _, town, _ = WORDS[tag]
        assert all(word in text for word in (units, age, town))
        # What only a release can state, such as advice on its plan, is quoted, and marked as English.
        quoted = re.findall(r'<span lang="en">', text)
        assert (not quoted) if tag == "en" else len(quoted) < 6
    assert "Wie sicher jede Zahl ist" in spoken["de"]
    assert "Fiabilité de chaque effectif" in spoken["fr"]
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert not re.search(r"<script|src=|https?://(?!www\.w3\.org)", page)


@pytest.mark.nightly
def test_the_page_of_errors_has_every_language(make_small_inputs, tmp_path, command):
    path = make_small_inputs(tmp_path)
    path.write_text(path.read_text() + LABELS)
    release = tallyveil.run(path, tmp_path / "release")
    truth = ("--truth", tmp_path / "people.parquet", "--i-understand-this-is-not-private")
    command("evaluate", release.path, *truth, "--quiet")
    page = (release.path / "evaluation" / "report.html").read_text(encoding="utf-8")
    editions = re.split(r'<div class="edition edition-(\w+)" lang="\w+">', page)
    spoken = dict(zip(editions[1::2], editions[2::2], strict=True))
    assert list(spoken) == ["en", "de", "fr"]
    marks = {"en": "NOT PRIVATE", "de": "NICHT GESCHÜTZT", "fr": "NON PROTÉGÉ"}
    for tag, text in spoken.items():
        assert text.index(marks[tag]) < text.index("<h1>")
        assert text.rindex(marks[tag]) > text.rindex("</section>")
        assert '<span lang="en">' not in text
        assert WORDS[tag][5] in text
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.nightly
def test_verify_holds_of_the_release_its_site_and_its_csv(release, tmp_path):
    verdict = release.verify()
    assert not verdict.wrong
    assert any("byte by byte" in said for said in verdict.proved)
    make_site(release.path, tmp_path / "site")
    verdict = tallyveil.verify(tmp_path / "site", releases=[release.path])
    assert not verdict.wrong
    assert any("byte by byte" in said for said in verdict.proved)


def test_a_site_says_what_it_is_called_in_each_language(release, tmp_path):
    make_site(release.path, tmp_path / "site")
    content = json.loads((tmp_path / "site" / "data" / "site.json").read_text(encoding="utf-8"))
    editions = {edition["tag"]: edition for edition in content["editions"]}
    assert list(editions) == ["en", "de", "fr"]
    assert [edition["words"] for edition in editions.values()] == [None, "de", "fr"]
    ages = {tag: edition["tables"][1] for tag, edition in editions.items()}
    assert [ages[tag]["answers"] for tag in WORDS] == [[WORDS[tag][4], "middle", "old"] for tag in WORDS]
    assert editions["fr"]["kinds"] == [None, {"one": "ville", "other": "villes"}, None]
    assert sorted(path.name for path in (tmp_path / "site" / "app" / "words").iterdir()) == [
        "de.json",
        "fr.json",
    ]
    towns = pl.read_parquet(tmp_path / "site" / "data" / "areas" / "1" / "list-0.parquet")
    assert towns.filter(geocode="P01").select("name", "name:fr").row(0) == ("Northtown", "Ville-du-Nord")


def test_labels_of_rows_in_python_csv_and_answers(release, tmp_path, command):
    assert release.languages == ("en", "de", "fr")
    table = release.table("Region", "age")
    assert release.with_labels(table, "fr")["age"].unique(maintain_order=True).to_list() == [
        "moins de 18 ans", "middle", "old",
    ]  # fmt: skip
    assert release.with_labels(table)["age"][0] == "under 18"
    # A group of a recode has its own name, and the label of the attribute's level only where both are one.
    assert release.with_labels(table.drop("age"), "de").equals(table.drop("age"))
    with pytest.raises(ConfigError, match="no labels in it") as refused:
        release.with_labels(table, "it")
    assert refused.value.code == "no-labels"
    assert "unter 18" in command("ask", str(release.path), "age by Region", "--language", "de")
    page = AskingPage(release.path)
    asked = {"ask": "file", "question": "age by Town", "level": 0.95, "ending": ".json", "language": "fr"}
    for out, language in ((tmp_path / "answer.json", "fr"), (tmp_path / "first.json", None)):
        answer_in_file(release.path, "age by Town", out=out, language=language)
    answer = (tmp_path / "answer.json").read_bytes()
    assert base64.b64decode(page.answer(asked)["content"]) == answer
    assert json.loads(answer)["dimension"]["age"]["category"]["label"]["young"] == "moins de 18 ans"
    assert json.loads(answer)["dimension"]["geocode"]["category"]["label"]["P01"] == "Ville-du-Nord"
    assert b"Ville-du-Nord" not in (tmp_path / "first.json").read_bytes()
    publish_csv(release.path, tmp_path / "csv")
    labels = pl.read_csv(tmp_path / "csv" / "labels.csv")
    assert labels.filter(language="de", kind="levels", attribute="age")["label"].to_list() == ["unter 18"]
    assert labels.filter(kind="release", name="title")["label"].to_list() == [WORDS[tag][0] for tag in WORDS]


@pytest.mark.nightly
def test_a_release_without_labels_has_none_of_it(make_small_inputs, tmp_path):
    release = tallyveil.run(make_small_inputs(tmp_path / "in"), tmp_path / "out")
    assert "edition" not in (tmp_path / "out" / "report.html").read_text()
    assert release.languages == ()
    make_site(release.path, tmp_path / "site")
    assert "editions" not in (tmp_path / "site" / "data" / "site.json").read_text()
    assert not (tmp_path / "site" / "app" / "words").exists()
    publish_csv(release.path, tmp_path / "csv")
    assert not (tmp_path / "csv" / "labels.csv").exists()
