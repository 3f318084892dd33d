"""Tables of finest geounits and their areas: one reader for all commands, and plans that are no single district."""

import polars as pl
import pytest

from tallyveil.errors import ConfigError, GeographyError, TallyveilError
from tallyveil.geography.census.source_files import read_source
from tallyveil.geography.tables import area_columns, family_columns, read_assignments, read_districts

FLAG = "--district-column NAME"


@pytest.fixture
def table(tmp_path):
    def write(text: str, name: str = "plan.txt"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize("key", ["geocode", "BLOCKID", "GEOID", "GEOID20", "blockid20", "GEOID_TABBLOCK_20"])
@pytest.mark.parametrize(("sign", "ending"), [("|", ".txt"), (",", ".txt"), ("|", ".csv"), (",", ".csv")])
def test_every_usual_form_of_a_block_assignment_file_is_read(table, key, sign, ending):
    path = table(f"\ufeff{key}{sign}DISTRICT\r\n0101{sign}01\r\n0102{sign}\r\n", f"plan{ending}")
    frame = read_assignments(path, ["DISTRICT"], "entities")
    assert frame.to_dict(as_series=False) == {"geocode": ["0101", "0102"], "DISTRICT": ["01", None]}
    assert area_columns(path, "entities") == ["DISTRICT"]
    assert family_columns(path) == ("DISTRICT",)


@pytest.mark.parametrize("name", ["blocks.txt", "blocks.csv", "blocks.parquet"])
def test_the_importer_of_geographies_knows_the_same_names(tmp_path, name):
    frame = pl.DataFrame({"GEOID20": ["0101"], "DISTRICT": ["01"]})
    path = tmp_path / name
    frame.write_parquet(path) if name.endswith("parquet") else frame.write_csv(path, separator="|")
    assert read_source(path, ["BLOCKID", "DISTRICT"]).rows.columns == ["BLOCKID", "DISTRICT"]


def test_a_column_of_geocodes_that_could_be_several_or_none_is_refused(table):
    with pytest.raises(ConfigError, match="GEOID, GEOID20, so it is not clear"):
        read_districts(table("GEOID,GEOID20\n1,2\n"), None, FLAG)
    with pytest.raises(ConfigError, match="lacks the column of finest geocodes") as caught:
        read_districts(table("440010001001000,canary\n"), None, FLAG)
    assert "canary" not in str(caught.value)


def test_a_list_of_blocks_is_one_district_also_beside_a_column_that_says_the_same_everywhere(table):
    path = table(",GEOID20,STATE\n0,0102,44\n1,0101,44\n")  # as pandas writes an index
    districts = read_districts(path, None, FLAG)
    assert districts.column is None
    assert districts.only("--district").to_list() == ["0102", "0101"]


def test_geocodes_of_another_year_are_no_districts(table):
    path = table("geocode,GEOID20\n0101,0201\n0102,0202\n")
    assert read_districts(path, None, FLAG).column is None
    plan = read_districts(table("geocode,GEOID20,district\n0101,0201,a\n0102,0202,b\n"), None, FLAG)
    assert (plan.column, list(plan.geocodes)) == ("district", ["a", "b"])


@pytest.mark.parametrize("values", [["1", "2", "1"], ["1", "1", ""], ["1", " ", "1"]])
def test_a_column_of_several_values_or_of_blanks_makes_a_plan(table, values):
    rows = "".join(f"010{n}|{value}\n" for n, value in enumerate(values))
    districts = read_districts(table(f"BLOCKID|DISTRICT\n{rows}"), None, FLAG)
    assert districts.column == "DISTRICT"
    assert {name: part.to_list() for name, part in districts.geocodes.items()} == {
        name: [f"010{n}" for n, value in enumerate(values) if value == name]
        for name in ("1", "2")
        if name in values
    }
    with pytest.raises(ConfigError, match="takes the finest geounits of one district") as caught:
        districts.only("--minus FILE")
    assert caught.value.code == "district-plan"


def test_numbers_of_districts_stand_in_order_also_where_blanks_made_them_decimal(tmp_path):
    frame = pl.DataFrame({"geocode": list("abcd"), "district": [10.0, 2.0, None, float("nan")]})
    frame.write_parquet(tmp_path / "plan.parquet")
    districts = read_districts(tmp_path / "plan.parquet", None, FLAG)
    assert {name: part.to_list() for name, part in districts.geocodes.items()} == {"2": ["b"], "10": ["a"]}


def test_a_plan_with_several_columns_says_the_flag_that_chooses_one(table):
    path = table("GEOID20,COUNTY,DISTRICT\n0101,1,x\n0102,2,y\n")
    with pytest.raises(ConfigError, match=f"COUNTY, DISTRICT.*{FLAG}"):
        read_districts(path, None, FLAG)
    assert list(read_districts(path, "DISTRICT", FLAG).geocodes) == ["x", "y"]
    with pytest.raises(ConfigError, match="'WARD'"):
        read_districts(path, "WARD", FLAG)


@pytest.mark.parametrize("text", ["0101|1\n0101|2\n", "0101|\n0102|\n"])
def test_a_block_in_two_districts_and_a_plan_without_districts_are_refused(table, text):
    with pytest.raises(GeographyError) as caught:
        read_districts(table(f"BLOCKID|DISTRICT\n{text}"), None, FLAG)
    assert caught.value.code == "district-plan"


def test_numbers_are_no_geocodes(tmp_path):
    pl.DataFrame({"GEOID20": [101, 102]}).write_parquet(tmp_path / "blocks.parquet")
    with pytest.raises(TallyveilError) as caught:
        read_districts(tmp_path / "blocks.parquet", None, FLAG)
    assert caught.value.code == "geocode-not-text"
