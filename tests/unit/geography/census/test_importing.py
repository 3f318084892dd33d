import csv
from pathlib import Path

import polars as pl
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.census import Sources, import_geography
from tallyveil.geography.tables import entities_from_columns

TRIBAL_BLOCKS = ("440090511011000", "440090511011001")


def imported(files, states=("44", "10"), **others):
    return import_geography(Sources(tuple(files.assigned(state) for state in states), **others))


def column(made, name):
    return dict(made.entities.select("geocode", name).iter_rows())


def test_every_block_has_its_state_county_tract_and_block_group(files):
    made = imported(files)
    assert made.geography.columns == ["geocode", "state", "county", "tract", "block_group"]
    assert made.geography.height == 10
    assert made.geography["geocode"].is_sorted()
    assert made.geography.rows()[0] == ("100010401001000", "10", "10001", "10001040100", "100010401001")
    assert made.entities["geocode"].equals(made.geography["geocode"])


def test_a_strong_mcd_state_has_subdivisions_outside_tribal_areas_and_places_inside(files):
    made = imported(files, ["44"])
    assert list(column(made, "county_subdivision").values()) == [
        "4400105140", "4400105140", "4400105140", None, None, None, "4400922960",
    ]  # fmt: skip
    # The place that lies outside the tribal area is no entity there, and the area of class 9600 is none of the spine.
    assert list(column(made, "place").values()) == [None, None, None, "4410000", None, None, None]
    assert {block for block, area in column(made, "tribal_area").items() if area} == set(TRIBAL_BLOCKS)


def test_other_states_have_places(files):
    made = imported(files, ["10"])
    assert made.entities["county_subdivision"].null_count() == 3
    assert made.entities["place"].to_list() == ["1021200", None, "1021200"]


def test_published_areas_are_whole(files):
    made = imported(files, ["44"])
    assert made.entities["published_place"].to_list() == [
        None, None, "4410000", "4410000", None, None, None,
    ]  # fmt: skip
    assert made.entities["published_tribal_area"].to_list() == [
        None,
        None,
        None,
        "2415",
        "2415",
        None,
        "9600",
    ]
    assert made.entities["published_county_subdivision"].null_count() == 1


def test_school_districts_are_named_together(files):
    made = imported(files, ["44"])
    assert made.entities["school_district"].to_list() == [
        "4400030", "4400030", "4400510", "4400120", "4400120", None, "4400120",
    ]  # fmt: skip
    assert made.entities["elementary_school_district"].drop_nulls().to_list() == ["4400510"]
    assert "secondary_school_district" not in made.entities.columns


def test_a_block_in_two_kinds_of_school_districts_is_in_their_combination(files):
    folder = files.assigned()
    files.text(
        "baf44/BlockAssign_ST44_RI_SDELM.txt",
        ["BLOCKID|DISTRICT", *(f"{row[0]}|00510" for row in _rows(folder))],
    )
    made = import_geography(Sources((folder,)))
    assert made.entities["school_district"][0] == "4400030+4400510"
    assert any(
        "Blocks in a unified school district and in an elementary or secondary one: 5" in one
        for one in made.report["misfits"]
    )


def _rows(folder: Path):
    lines = (folder / "BlockAssign_ST44_RI_MCD.txt").read_text().splitlines()[1:]
    return [line.split("|") for line in lines]


def test_a_reference_file_gives_the_same_tables(files):
    by_kind = imported(files)
    by_block = import_geography(Sources((), (files.reference(("44", "10")),)))
    assert by_block.geography.equals(by_kind.geography)
    same = [name for name in by_kind.entities.columns if name in by_block.entities.columns]
    assert by_block.entities.select(same).equals(by_kind.entities.select(same))
    assert set(by_kind.entities.columns) == set(same)


def test_states_may_have_different_sources(files):
    made = import_geography(Sources((files.assigned("44"),), (files.reference(("10",)),)))
    assert made.entities.equals(imported(files).entities)


def test_the_order_of_rows_does_not_matter(files):
    folder = files.assigned()
    first = import_geography(Sources((folder,)))
    path = folder / "BlockAssign_ST44_RI_INCPLACE_CDP.txt"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(rows)]) + "\n")
    assert import_geography(Sources((folder,))).entities.equals(first.entities)


def test_primitives_are_subdivisions_and_governed_places(files):
    statuses = {"COUSUBFS": list("AAAAAFA"), "PLACEFS": ["", "", "S", "A", "", "", ""]}
    made = import_geography(Sources((), (files.reference(extra=statuses),)))
    assert made.entities["prim"].to_list() == [
        "440010514099999", "440010514099999", "440010514099999", "440092296010000", "440092296099999",
        "440090000099999", "440092296099999",
    ]  # fmt: skip


def test_without_governing_subdivisions_primitives_are_places_and_the_rest_of_the_county(files):
    statuses = {"COUSUBFS": list("SSS"), "PLACEFS": ["A", "", "A"]}
    made = import_geography(Sources((), (files.reference(("10",), statuses),)))
    assert made.entities["prim"].to_list() == ["100019999921200", None, "100019999921200"]


def test_lists_of_areas_give_the_same_primitives(files):
    places = files.text(
        "places.txt",
        ["STATE|STATEFP|PLACEFP|PLACENAME|FUNCSTAT", "RI|44|10000|Elm|A", "DE|10|21200|Oak CDP|S"],
    )
    subdivisions = files.text(
        "cousubs.txt",
        [
            "STATEFP|COUNTYFP|COUSUBFP|COUSUBNAME|FUNCSTAT", "44|001|05140|A town|A", "44|009|22960|B town|A",
            "10|001|90444|C|S",
        ],
    )  # fmt: skip
    made = imported(files, area_lists=(places, subdivisions))
    primitives = column(made, "prim")
    assert primitives["440090511011000"] == "440092296010000"
    assert primitives["100010401001000"] is None


def test_zctas_of_other_states_are_passed_over(files):
    path = files.text(
        "zcta.txt",
        [
            "OID_ZCTA5_20|GEOID_ZCTA5_20|GEOID_TABBLOCK_20", "1|02806|440010301001000", "2|10001|360010301001000",
            "3||440010301001001", "4|99999|",
        ],
        end="\r\n",
        start=b"\xef\xbb\xbf",
    )  # fmt: skip
    made = imported(files, ["44"], zctas=path)
    assert made.entities["zcta"].to_list() == ["02806", *[None] * 6]
    notes = [one for one in made.report["misfits"] if str(path) in one]
    assert len(notes) == 2
    assert "byte-order mark" in notes[0]
    assert "Windows line ends" in notes[1]


PUBLISHED = "CBSA Code,CSA Code,CBSA Title,County/County Equivalent,FIPS State Code,FIPS County Code"
ROW = '39300,148,"Providence-Warwick, RI-MA",Bristol County,44,001'


@pytest.mark.parametrize(
    "lines",
    [
        [PUBLISHED, ROW, "14460,,Boston,Essex County,25,009"],
        ["cbsacode,fipscountycode,fipsstatecode", "39300,001,44", "14460,009,25"],
        [
            "List 1. AREAS,,,,,",
            ",,,,,",
            PUBLISHED,
            ROW,
            "Note: as of 2020.,,,,,",
            '"Source: a file, of somebody"',
        ],
    ],
    ids=["published", "other names", "titles and notes"],
)
def test_metropolitan_areas_are_made_of_counties(files, lines):
    made = imported(files, ["44"], cbsas=files.text("list1.csv", lines[:-1]))
    blocks = column(made, "cbsa")
    assert {area for block, area in blocks.items() if block.startswith("44001")} == {"39300"}
    assert {area for block, area in blocks.items() if block.startswith("44009")} == {None}
    assert made.report["families"]["cbsa"] == {"entities": 1, "blocks": 3}
    again = imported(files, ["44"], cbsas=files.text("list1.csv", lines, end="\r\n", start=b"\xef\xbb\xbf"))
    assert again.entities.equals(made.entities)
    for sign in ";\t":
        others = ["\n".join(map(sign.join, csv.reader([line]))) for line in lines[:-1]]
        again = imported(files, ["44"], cbsas=files.text("list2.csv", others))
        assert again.entities.equals(made.entities)


def test_facilities_give_kinds_and_bounds(files):
    path = files.text(
        "facilities.txt",
        [
            "BLOCKID|GQTYPE|FACILITIES", "440010301001000|501|2", "440010301001000|college|1",
            "440010301001000|104|1", "440010301001001|301|0", "440010301002000|801|3",
        ],
    )  # fmt: skip
    made = imported(files, ["44"], facilities=path)
    assert made.entities["group_quarters"].to_list() == [
        "adult_correctional+college", None, "other_noninstitutional", *[None] * 4,
    ]  # fmt: skip
    assert made.facilities.filter(pl.col("hhgq") != "household").rows() == [
        ("440010301001000", "adult_correctional", 1, None),
        ("440010301001000", "college", 3, None),
        ("440010301002000", "other_noninstitutional", 3, None),
    ]
    # Nothing says which blocks have no housing units, so every block may have households.
    households = made.facilities.filter(hhgq="household")
    assert households["geocode"].equals(made.geography["geocode"])
    assert households.select("lower", "upper").unique().rows() == [(0, None)]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_facilities_may_be_another_kind_of_table(files, suffix):
    table = pl.DataFrame({"BLOCKID": ["440010301001000"], "GQTYPE": ["501"], "FACILITIES": [2]})
    path = files.folder / f"facilities{suffix}"
    table.write_csv(path) if suffix == ".csv" else table.write_parquet(path)
    made = imported(files, ["44"], facilities=path)
    assert made.entities["group_quarters"][0] == "college"


def test_tables_make_a_spine_and_families(files):
    made = imported(files)
    levels = {"State": "state", "County": "county", "Block_Group": "block_group", "Block": "geocode"}
    spine = spine_from_columns(
        {name: made.geography[source] for name, source in levels.items()}, list(levels)
    )
    table = {name: made.entities[name] for name in made.entities.columns}
    families = entities_from_columns(spine, table, [name for name in table if name != "geocode"])
    assert {family.name: family.n_entities for family in families}["county_subdivision"] == 2


def test_a_state_from_two_sources_is_refused(files):
    with pytest.raises(GeographyError, match=r"State 44: got it from .* one source for each State"):
        import_geography(Sources((files.assigned(),), (files.reference(),)))


def test_rhode_island(shared_data):
    """The published files of 2020: places and districts as the files give them, and the Narragansett Reservation."""
    made = import_geography(Sources((shared_data / "geo" / "baf_ri_2020",)))
    counts = pl.read_csv(
        shared_data / "geo" / "ri_2010_counts_on_2020_blocks.csv.gz",
        columns=["GEOID", "tract"],
        infer_schema=False,
    )
    assert made.geography.select("geocode", "tract").rows() == sorted(counts.rows())
    (tribal,) = made.report["tribal_areas"]
    assert (tribal["code"], tribal["blocks"], tribal["in_spine"]) == ("2415", 25, True)
    (state,) = made.report["states"]
    assert (state["county_subdivisions"], state["places"], state["blocks_in_neither"]) == (39, 0, 45)
    found = made.report["families"]
    assert found["published_place"] == {"entities": 36, "blocks": 14_208}
    assert found["school_district"] == {"entities": 35, "blocks": 25_629}
