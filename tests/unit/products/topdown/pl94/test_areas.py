"""Areas of one release or two: what they have in common, and what holds each of them."""

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from tallyveil.errors import GeographyError
from tallyveil.products.topdown.pl94.publication import PublishedAreas, published_areas

BLOCKS = pl.DataFrame(
    {
        "Block": ["a1", "a2", "b1", "b2"],
        "County": ["a", "a", "b", "b"],
        "State": ["S", "S", "S", "S"],
        "place": ["Elm", "Oak", "Oak", None],
        "service": [["x"], ["x", "y"], None, ["y"]],
    }
)


def source(blocks: pl.DataFrame = BLOCKS, *, finest: str = "Block") -> Any:
    """What areas depend on in an opened release."""
    entities = tuple(name for name in ("place", "service") if name in blocks.columns)
    geolevels = tuple(name for name in ("State", "Part", "County", "Block") if name in blocks.columns)
    return SimpleNamespace(
        root=f"release of {finest}", finest=finest, geolevels=geolevels, entities=entities, blocks=blocks
    )


def test_rows_name_what_holds_the_whole_area():
    areas = published_areas([source()])
    assert areas.names == ("State", "County", "Block", "place", "service")
    assert areas.rows("place").rows() == [("Elm", 1, "S", "a"), ("Oak", 2, "S", None)]
    assert areas.rows("service").rows() == [("x", 2, "S", "a"), ("y", 2, "S", None)]
    assert areas.rows("County").rows() == [("a", 2, "S"), ("b", 2, "S")]
    blocks = areas.rows("Block")
    assert blocks.columns == ["geocode", "finest_geounits", "State", "County", "place"]
    assert blocks["place"].to_list() == ["Elm", "Oak", "Oak", None]
    for name in areas.names:
        assert areas.rows(name)["geocode"].equals(areas.codes(name), check_names=False)


def test_two_releases_have_the_areas_of_both():
    other = BLOCKS.select("Block", "County", "State", Part=pl.Series(["S+", "S-", "S-", "S-"]))
    found = published_areas([source(), source(other)])
    assert isinstance(found, PublishedAreas)
    assert found.geolevels == ("State", "County", "Part", "Block")
    assert found.entities == ("place", "service")
    assert found.codes("Part").to_list() == ["S+", "S-"]


MOVED = pl.col("County").replace({"b": "a"})
REFUSED = {
    "other blocks": (
        BLOCKS.with_columns(Block=pl.Series(["a1", "a2", "b1", "b3"])),
        r"2 Block geounits .* 'b2'",
    ),
    "other members": (BLOCKS.with_columns(MOVED), "County does not have the same areas"),
    "other lists": (
        BLOCKS.with_columns(service=pl.col("service").reverse()),
        "service does not have the same",
    ),
    "a list beside a text": (
        BLOCKS.with_columns(place=pl.col("service")),
        "place does not have the same areas",
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_other_geographies_are_refused(change):
    blocks, words = REFUSED[change]
    with pytest.raises(GeographyError, match=words) as raised:
        published_areas([source(), source(blocks)])
    assert raised.value.code == "publish-geography"


def test_another_finest_geolevel_is_refused():
    with pytest.raises(GeographyError, match=r"finest geolevel of .* is Block, that of .* is Tract"):
        published_areas([source(), source(BLOCKS.rename({"Block": "Tract"}), finest="Tract")])


def test_names_of_other_columns_are_refused():
    with pytest.raises(GeographyError, match="POP100 is the name of a geolevel or family"):
        published_areas([source(BLOCKS.rename({"place": "POP100"}))])
