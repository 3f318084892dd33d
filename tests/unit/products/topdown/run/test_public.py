"""What public files of a release can mean nothing: refused before a record is opened, by its plan and its run alike."""

import json

import polars as pl
import pytest

from tallyveil.errors import ConstraintError, TallyveilError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraints import ConstraintTable, geounits_without_room, summed_upward
from tallyveil.products.topdown.run.public import read_public
from tallyveil.schema.presets import load_preset

EVERYBODY = 'cells = { age = ["young", "middle", "old"] }'


def change_bounds(release, lower, upper):
    path = release.parent / "barracks.parquet"
    sides = {"lower": pl.lit(lower, pl.Int64), "upper": pl.lit(upper, pl.Int64)}
    pl.read_parquet(path).with_columns(**sides).write_parquet(path)


def nobody_fits(release):
    change_bounds(release, 0, 0)


def bounds_cross(release):
    change_bounds(release, 3, 2)


def the_impossible_is_demanded(release):
    """A bound asks for a young person in barracks, whom the structural zeros forbid."""
    text = release.read_text().replace('query = "home"', 'query = "age*home"')
    release.write_text(text)
    row = {"geocode": ["P0000"], "age": ["young"], "home": ["barracks"], "lower": [1], "upper": [None]}
    pl.DataFrame(row).write_parquet(release.parent / "barracks.parquet")


def names_name_nothing(release):
    text = release.read_text().replace("[geography]\n", '[geography]\nnames = "names.parquet"\n')
    release.write_text(text)
    names = {"geolevel": ["Town"], "geocode": ["1"], "name": ["Somewhere"]}
    pl.DataFrame(names).write_parquet(release.parent / "names.parquet")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (nobody_fits, "nobody-fits"),
        (bounds_cross, "bounds-crossed"),
        (the_impossible_is_demanded, "constraints-conflict"),
        (names_name_nothing, "geounit-names"),
    ],
)
def test_plan_run_and_measure_refuse_alike_and_open_no_record(small_release, command, tmp_path, spoil, code):
    spoil(small_release)
    (small_release.parent / "people.parquet").write_bytes(b"nobody may look in here")
    with pytest.raises(TallyveilError) as caught:
        read_public(load_plan(small_release))
    assert caught.value.code == code
    for words in (
        ("plan", small_release, "--read-geography"),
        ("run", small_release, "--out", tmp_path / "out"),
        ("measure", small_release, "--out", tmp_path / "out"),
    ):
        said = command(*words, code=caught.value.exit_code)
        assert f"[{code}]" in said, words
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('cells = { age = ["young"], home = ["barracks"] }', EVERYBODY, "nobody-fits"),
        ('geolevels = ["Region"]\n\n[[b', 'geolevels = ["Region", "Region"]\n\n[[b', "stated-twice"),
        ("[[bounds]]", '[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n[[bounds]]', "stated-twice"),
        (
            "[outputs]",
            '[[bounds]]\nname = "barracks"\nquery = "age"\ngeolevel = "Town"\npath = "x.csv"\n'
            'missing = "zero"\n[outputs]',
            "stated-twice",
        ),
    ],
)
def test_a_release_file_that_means_nothing_is_refused_before_any_file_is_opened(
    edit, command, tmp_path, old, new, code
):
    release = edit(old, new)
    for path in release.parent.glob("*.parquet"):
        path.unlink()
    with pytest.raises(TallyveilError) as caught:
        load_plan(release)
    for words in (("plan", release), ("run", release, "--out", tmp_path / "out")):
        assert f"[{code}]" in command(*words, code=caught.value.exit_code)


def test_what_may_be_meant_is_a_warning_of_the_plan_and_of_the_run(edit, command, tmp_path):
    release = edit(
        "[outputs]\n",
        '[spine]\nentities = "entities.csv"\nfamilies = ["place"]\n[outputs]\nentities = ["place"]\n',
    )
    blocks = pl.read_parquet(release.parent / "geography.parquet")["geocode"].to_list()
    (release.parent / "entities.csv").write_text("GEOID20,place\n" + "".join(f"{code},\n" for code in blocks))
    path = release.parent / "barracks.parquet"
    bounds = pl.read_parquet(path).filter(~pl.col("geocode").str.starts_with("P00"))
    bounds.write_parquet(path)
    people = pl.read_parquet(release.parent / "people.parquet")
    people.filter(~pl.col("geocode").str.starts_with("P00")).write_parquet(release.parent / "people.parquet")
    warnings = json.loads(command("plan", release, "--read-geography", "--json"))["warnings"]
    assert len(warnings) == 2
    assert "no room for any person in 1 of 8 geounits of Town, such as 'P00'" in warnings[0]
    assert "the family place has no entities" in warnings[1]
    shown = " ".join(command("plan", release, "--read-geography").split())
    assert "the family place has no entities" in shown
    assert list(read_public(load_plan(release)).warnings) == warnings


def test_levels_that_no_record_can_have_are_a_warning_of_every_plan(edit, command):
    release = edit('cells = { age = ["young"], home = ["barracks"] }', 'cells = { age = ["old"] }')
    (warning,) = json.loads(command("plan", release, "--json"))["warnings"]
    assert "the level(s) old of attribute age" in warning
    assert list(read_public(load_plan(release)).warnings) == [warning]


def test_an_ordinary_release_has_no_warning(small_release):
    assert read_public(load_plan(small_release)).warnings == ()


def test_room_is_counted_over_possible_answers_and_groups_of_siblings():
    schema = load_preset("pl94-persons")
    spine = spine_from_prefixes(["A1", "A2", "B1"], ("Region", "Block"), (1, 2))
    query = schema.query("hhgq")
    upper = [[0] * 8, [0] * 7 + [5], [0] * 8]
    sums = summed_upward(pl.DataFrame(upper, orient="row").to_numpy(), 1, spine)
    table = ConstraintTable("facilities", query, sums, sums)
    region, block = geounits_without_room([table], spine, schema)
    assert region.tolist() == [False, True]
    assert block.tolist() == [True, False, True]
    open_query = schema.query("total")
    total = ConstraintTable("total", open_query, (sums[0][:, :1] * 0,), (sums[0][:, :1] * 0,))
    with pytest.raises(ConstraintError, match="'total' leave no room"):
        geounits_without_room([total], spine, schema)
