"""Made-up entities cross the spine, are the same for the same seed, and leave people alone."""

import numpy as np
import polars as pl
import pytest

from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.entities import off_spine_distances
from tallyveil.geography.tables import entities_from_columns
from tallyveil.synthetic.country import (
    ENTITY_COLUMNS,
    SPREAD,
    STRETCH,
    _nearest,
    hilbert_points,
    make_entities,
    make_geography,
)


@pytest.fixture(scope="module")
def country():
    geography = make_geography(12_000, np.random.default_rng(1), 2)
    return geography, pl.concat(make_entities(geography, 7))


def test_every_block_has_a_row_and_a_point(country):
    geography, table = country
    assert table["geocode"].equals(geography["geocode"])
    assert table.columns == ["geocode", *ENTITY_COLUMNS, "latitude", "longitude"]
    assert table["latitude"].is_finite().all()
    assert all(table.schema[name] == pl.String for name in ENTITY_COLUMNS)


def test_same_seed_same_entities(country):
    geography, table = country
    assert pl.concat(make_entities(geography, 7)).equals(table)
    assert not pl.concat(make_entities(geography, 8)).equals(table)


def test_entities_stay_within_their_state_and_county(country):
    geography, table = country
    both = geography.join(table, on="geocode")
    for name in ENTITY_COLUMNS:
        states = both.drop_nulls(name).group_by(name).agg(pl.col("state").n_unique())
        assert states["state"].max() == 1
    assert both["county_subdivision"].null_count() == 0
    assert both.group_by("county_subdivision").agg(pl.col("county").n_unique())["county"].max() == 1
    assert 0.05 < both["place"].is_not_null().mean() < 0.45


def test_they_cross_tracts_and_block_groups(country):
    geography, table = country
    spine = spine_from_prefixes(
        geography["geocode"], ("State", "County", "Tract", "Group", "Block"), (2, 5, 11, 12, 15)
    )
    for family in entities_from_columns(spine, table.to_dict(), ENTITY_COLUMNS[:3]):
        assert off_spine_distances(spine, family).mean > 5


def test_tribal_areas_are_small_large_and_absent_in_turn():
    geography = make_geography(9_000, np.random.default_rng(5), 3)
    both = geography.join(pl.concat(make_entities(geography, 5)), on="geocode")
    shares = both.group_by("state").agg(pl.col("tribal_area").is_not_null().mean()).sort("state")
    small, large, none = shares["tribal_area"]
    assert 0 < small < 0.02
    assert 0.05 < large < 0.2
    assert none == 0
    crossed = both.drop_nulls("tribal_area").group_by("tribal_area").agg(pl.col("county").n_unique())
    assert crossed["county"].max() > 1


def test_places_cross_counties():
    geography = make_geography(9_000, np.random.default_rng(5), 3)
    both = geography.join(pl.concat(make_entities(geography, 5)), on="geocode")
    crossed = both.drop_nulls("place").group_by("place").agg(pl.col("county").n_unique())
    assert 0 < (crossed["county"] > 1).mean() < 1


def test_the_curve_is_compact():
    points = hilbert_points(4_096)
    assert len(np.unique(points, axis=0)) == 4_096
    steps = np.abs(np.diff(points, axis=0)).sum(axis=1)
    assert steps.max() < 3 / 64


def test_a_single_block():
    blocks = make_geography(1, np.random.default_rng(1))
    assert next(make_entities(blocks, 1)).height == 1


@pytest.mark.parametrize("n_centres", [1, 2, 40])
@pytest.mark.parametrize("spread", [0.0, SPREAD, 1e6], ids=["on the curve", "near it", "anywhere"])
def test_the_nearest_of_all_centres_is_found(spread: float, n_centres: int) -> None:
    generator = np.random.default_rng(n_centres)
    points = hilbert_points(3 * STRETCH + 1)
    points = points + generator.normal(scale=spread / np.sqrt(len(points)), size=points.shape)
    centres = generator.random((n_centres, 2))
    distance, nearest = _nearest(points, centres)
    every = np.sum((points[:, None] - centres) ** 2, axis=2)
    assert np.array_equal(nearest, every.argmin(axis=1))
    assert np.array_equal(distance, np.sqrt(every.min(axis=1)))
