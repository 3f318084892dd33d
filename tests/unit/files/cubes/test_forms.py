"""Each form holds what a cube holds, also where names are hostile, and refuses what it cannot hold."""

import json
import re
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.cubes import json_stat, px, sdmx, xlsx
from tallyveil.files.cubes.cube import COUNT, STANDARD_ERROR, Cube, Dimension, placed, status_of
from tallyveil.files.cubes.edition import Edition
from tallyveil.files.cubes.publication import FORMS, Wish
from tallyveil.files.marks import Marks
from tallyveil.storage.write import TEMPORARY_SUFFIX

HOSTILE = ("=1+1", "@a", "-b", "<c> & d", "_x003D_1", "ü\N{COMBINING DIAERESIS}", "e, f", "g;h")


def dimension(name, codes, *, title=None, labels=None, role=""):
    codes = pl.Series(list(codes), dtype=pl.String)
    labels = codes if labels is None else pl.Series(labels, dtype=pl.String)
    return Dimension(name, name, codes, {"en": title or name}, {"en": labels}, role)


def cube(*dimensions, places=None, table="t"):
    size = 1
    for one in dimensions:
        size *= len(one.codes)
    places = list(range(size)) if places is None else places
    frame = pl.DataFrame(
        {
            "place": pl.Series(places, dtype=pl.Int64),
            "count": pl.Series([10 * place for place in places], dtype=pl.Int64),
            "standard_error": pl.Series([None, 0.0, 1.5, 100.0] * len(places), dtype=pl.Float64)[
                : len(places)
            ],
        }
    ).with_columns(status_of(pl.col("standard_error")))
    texts = {"en": table}
    return Cube(
        "",
        table,
        (table,),
        texts,
        "people",
        {"en": "=people"},
        {"en": ("a note",)},
        dimensions,
        (COUNT, STANDARD_ERROR),
        len(places),
        lambda: iter([frame[:2], frame[2:]]),
    )


def edition(*cubes):
    return Edition(
        ("en",), {"en": "r"}, cubes, Marks(True, ()), "run", "digest", "rho = 1", "NSO", None, None
    )


def written(form, tmp_path, *cubes):
    """The text of the first file of a form."""
    asked = edition(*cubes)
    form.refuse(asked)
    files = form.write(tmp_path, asked)
    return (tmp_path / files[-1].path).read_text(encoding="utf-8")


@given(st.lists(st.text(max_size=6), unique=True, min_size=2))
def test_identifiers_of_sdmx_tell_all_names_apart(names):
    for identifier in (sdmx.code_id, sdmx.name_id, lambda name: sdmx.joined_id([name, "x"])):
        assert len({identifier(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", sdmx.code_id(name)) for name in names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", sdmx.name_id(name)) for name in names)


def test_no_field_of_sdmx_csv_is_a_formula(tmp_path):
    text = written(sdmx, tmp_path, cube(dimension("d", HOSTILE)))
    fields = [field for line in text.splitlines()[1:] for field in line.split(",")]
    assert not [field for field in fields if field[:1] in ("=", "@", "+") or field[:2] == "-b"]
    frame = pl.read_csv(text.encode())
    assert set(frame["UNIT_MEASURE"]) == {"people"}
    assert frame["OBS_VALUE"].to_list() == [10 * place for place in range(8)]
    assert frame["OBS_STATUS"].to_list() == ["E", "A", "E", "U"] * 2


def test_lists_of_attributes_are_none_of_our_own(tmp_path):
    names = ["OBS_STATUS", "CONF_STATUS", "UNIT_MEASURE", "X_OBS_STATUS"]
    written(sdmx, tmp_path, cube(*(dimension(name, "xy") for name in names)))
    lists = re.findall(r'Codelist id="(\w+)"', (tmp_path / sdmx.STRUCTURE).read_text())
    assert len(lists) == len(set(lists)) == 7


def test_an_interrupted_workbook_leaves_names_that_are_known(tmp_path):
    """A publication that was killed goes on where it has nothing but its own names."""
    known, there = {*FORMS["xlsx"].names, xlsx.WORKBOOK + TEMPORARY_SUFFIX}, set()
    watched = cube(dimension("a", "xy"))
    read = watched.read

    def reading():
        there.update(path.name for path in tmp_path.iterdir())
        return read()

    xlsx.write(tmp_path, edition(replace(watched, read=reading)))
    assert there
    assert there <= known
    assert [path.name for path in tmp_path.iterdir()] == [xlsx.WORKBOOK]


def test_json_stat_lists_the_places_of_a_table_that_is_not_whole(tmp_path):
    sparse = cube(dimension("a", "xy"), dimension("b", "uvw"), places=[1, 3, 4])
    content = json.loads(written(json_stat, tmp_path, sparse))
    assert content["size"] == [2, 3, 2]
    assert content["value"] == {"2": 10, "3": None, "6": 30, "7": 0.0, "8": 40, "9": 1.5}
    assert content["status"] == {"2": "E", "3": "E", "6": "A", "7": "A", "8": "E", "9": "E"}


def test_px_has_dots_where_a_table_has_no_number(tmp_path, monkeypatch):
    monkeypatch.setattr(px, "_BLOCK", 2)
    text = written(px, tmp_path, cube(dimension("a", "xy"), dimension("b", "uvw"), places=[1, 3, 4]))
    none = '".." ".."'
    lines = [none, '10 ".."', none, "30 0.000000", "40 1.500000", none]
    assert text.partition("DATA=\n")[2] == "".join(f"{line} \n" for line in lines) + ";\n"


def test_px_tells_variables_and_values_of_one_text_apart(tmp_path):
    alike = [
        dimension("a", ["1", "2"], title='"same"', labels=["Kirchdorf", "Kirchdorf"]),
        dimension("b", ["3"], title="”same”", labels=['say "so"']),
    ]
    text = written(px, tmp_path, cube(*alike))
    assert 'STUB="”same” (a)","”same” (b)";' in text
    assert 'VALUES("”same” (a)")="Kirchdorf (1)","Kirchdorf (2)";' in text
    assert 'VALUES("”same” (b)")="say ”so”";' in text


def test_a_file_that_ends_before_its_table_is_refused(tmp_path):
    short = cube(dimension("a", "xyz"), places=[0, 1])
    torn = replace(short, n_rows=3)
    with pytest.raises(StoreError) as refused:
        written(json_stat, tmp_path, torn)
    assert refused.value.code == "release-damaged"
    with pytest.raises(StoreError):
        placed(pl.DataFrame({"a": ["x", "?"]}), {"a": pl.Series(["x", "y"])})


def long_cube(n, n_rows):
    return Cube(
        "",
        "t",
        ("t",),
        {},
        "",
        {},
        {},
        (dimension("a", [str(x) for x in range(n)]),) * 2,
        (COUNT,),
        n_rows,
        iter,
    )


@pytest.mark.parametrize(
    ("form", "refused", "code"),
    [
        (px, cube(dimension("a", ['5" pipe'])), "publish-names"),
        (px, cube(dimension("a", ["a\nb"])), "publish-names"),
        (px, cube(dimension("a", ["a b", "a  b"])), "publish-names"),
        (px, cube(dimension("a", ["a b", "a\N{NO-BREAK SPACE}b"])), "publish-names"),
        (px, cube(dimension("a", ["a", "a "])), "publish-names"),
        (px, long_cube(7100, 3), "publish-large"),
        (xlsx, long_cube(1100, 1100**2), "publish-large"),
        (sdmx, cube(dimension("ä" * 40, ["a"])), "publish-names"),
    ],
)
def test_what_a_form_cannot_hold_is_refused(form, refused, code):
    with pytest.raises(ConfigError) as raised:
        form.refuse(edition(refused))
    assert raised.value.code == code


@pytest.mark.parametrize("period", ["26", "2026-13", "2026-Q5", "2026-02-30", "2026-W01", "2026\n", ""])
def test_a_period_is_one_of_the_calendar(period):
    with pytest.raises(ConfigError):
        Wish(period=period)
    assert Wish(period="2024-02-29").period


@pytest.mark.parametrize("agency", ["1NSO", "NSO.", "N SO", "Ä", "", "NSO\n"])
def test_an_agency_is_an_identifier(agency):
    with pytest.raises(ConfigError):
        Wish(agency=agency)
    assert Wish(agency="NSO.DEMO-2").agency
