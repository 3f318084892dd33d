"""Areas beside the spine: read from a table, refused where their names or members do not fit, and summed."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import ConfigError, GeographyError, SchemaError, StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals import areas as interval_areas
from tallyveil.postprocess.intervals.areas import (
    IntervalArea,
    entity_families,
    family_counts,
    read_entity_table,
    with_given,
)
from tallyveil.postprocess.intervals.expected_deviations import AreaDeviations, expected_deviations
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
CODES = [f"A{i}" for i in range(6)]
SPINE = spine_from_prefixes(CODES, ("Region", "Block"), (1, 2))


def table(**columns):
    return pl.DataFrame({"geocode": CODES, **columns})


WARDS = ["x", "x", "y", None, "y", "y"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_entity_table_is_read_with_its_columns_of_text(tmp_path, suffix):
    path = tmp_path / f"entities{suffix}"
    frame = table(ward=WARDS, area=[1.5] * 6)
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    found = read_entity_table(path, ["ward"])
    assert found.columns == ["geocode", "ward"]
    assert entity_families(SPINE, found, None)[0].codes == ("x", "y")
    with pytest.raises((ConfigError, StoreError, SchemaError)):
        read_entity_table(path, ["district"])
    with pytest.raises((ConfigError, StoreError)):
        read_entity_table(tmp_path / "nowhere.parquet", None)


@pytest.mark.parametrize("name", ["../ward", "ward/x", "", ".", "\x1b[31m", "-x"])
def test_columns_that_cannot_name_a_folder_are_refused(name):
    with pytest.raises(GeographyError) as caught:
        entity_families(SPINE, table(**{name: WARDS}), None)
    assert caught.value.code == "entity-table"


def test_families_of_one_name_must_be_the_same():
    own, same = (entity_families(SPINE, table(ward=WARDS), None)[0] for _ in range(2))
    (other,) = entity_families(SPINE, table(ward=list(reversed(WARDS))), None)
    (new,) = entity_families(SPINE, table(school=WARDS), None)
    released = (IntervalArea(own, is_entity=True, tabulated=True),)
    assert with_given(SPINE, released, [same]) == released
    assert [area.family.name for area in with_given(SPINE, released, [same, new])] == ["ward", "school"]
    assert not with_given(SPINE, released, [new])[1].tabulated
    with pytest.raises(GeographyError) as caught:
        with_given(SPINE, released, [other])
    assert caught.value.code == "entity-table"


def test_families_are_not_called_like_geolevels():
    """Intervals of both are in folders of the same kind."""
    (same,) = entity_families(SPINE, table(Block=WARDS), None)
    with pytest.raises(GeographyError, match="a geolevel of that name"):
        with_given(SPINE, (), [same])
    (alike,) = entity_families(SPINE, table(block=WARDS), None)
    with pytest.raises(SchemaError, match="differ only in upper and lower case"):
        with_given(SPINE, (), [alike])


@pytest.mark.parametrize("at_once", [1, 4, 1 << 20])
def test_counts_of_areas_are_sums(monkeypatch, at_once):
    monkeypatch.setattr(interval_areas, "FINEST_AT_ONCE", at_once)
    rng = np.random.default_rng(3)
    rows, cells = rng.integers(0, 6, 40), rng.integers(0, SCHEMA.size, 40)
    counts = PublicCounts("Block", *compress_rows(6, rows, cells, rng.integers(1, 9, 40)))
    groups = [SCHEMA.query(name) for name in ("total", "race_ethnicity")]
    (family,) = entity_families(SPINE, table(ward=WARDS), None)
    found = family_counts(counts, family, groups)
    dense = np.concatenate([group.apply(*counts.rows(0, 6), 6) for group in groups], axis=1)
    for entity in range(family.n_entities):
        assert np.array_equal(found[entity], dense[family.members_of(entity)].sum(axis=0))


def test_deviations_before_data_are_those_of_the_areas(small_release):
    """An entity that is a geounit is as exact as that geounit, and the whole is as exact as the invariant."""
    plan = load_plan(small_release)
    hierarchies = read_hierarchies(plan)
    spine = hierarchies.spine
    frame = pl.DataFrame(
        {
            "geocode": list(spine.geocodes[-1]),
            "town": [code[:3] for code in spine.geocodes[-1]],
            "all": ["1"] * 48,
        }
    )
    families = entity_families(spine, frame, None)
    found = {
        (one.area, one.query): one for one in expected_deviations(plan, hierarchies, families, workers=1)
    }
    for query in plan.tables:
        np.testing.assert_allclose(
            found["town", query].deviations, found["Town", query].deviations, rtol=1e-9, atol=1e-6
        )
        assert found["Block", query].largest.max() < 10
    np.testing.assert_allclose(found["all", "total"].deviations, 0, atol=1e-6)
    assert found["town", "total"].is_entity
    assert not found["Town", "total"].is_entity
    (asked,) = {one.query for one in expected_deviations(plan, hierarchies, [], queries=["grown"], workers=1)}
    assert asked == "grown"


def test_what_nothing_determines_is_told_as_nothing():
    deviations = np.array([[1.0, np.inf], [2.0, 3.0]])
    one = AreaDeviations(
        "ward", True, "home", ("house", "barracks"), ("x", "y"), np.array([2, 4]), deviations
    )
    assert one.largest.tolist() == [np.inf, 3.0]
    assert one.summary() == {
        "area": "ward", "is_entity": True, "query": "home", "n": 2, "smallest": 1.0, "median": 3.0, "largest": None,
    }  # fmt: skip
    first, second = one.entries()
    assert first["standard_deviations"] == {"house": 1.0, "barracks": None}
    assert (second["code"], second["finest_geounits"]) == ("y", 4)
