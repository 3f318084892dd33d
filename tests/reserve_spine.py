"""Places and a reserve that cross towns, and a spine that is made from them; for the release of `small_release`."""

from pathlib import Path

import polars as pl

ENTITIES = """
[spine]
entities = "entities.parquet"
families = ["place", "reserve"]
"""
STEPS = """
[[spine.steps]]
kind = "branch"
family = "reserve"
geolevel = "Region"
name = "R"
parts = "Region_Part"
[[spine.steps]]
kind = "group_by_distance"
families = ["place", "reserve"]
geolevel = "Town_Group"
children = "Town"
"""
SHARES = """[strategy.geolevels]
Region = "1/8"
Region_Part = "1/8"
Town_Group = "1/4"
Town = "1/4"
Block = "1/4"
"""


def entities_of(folder: Path) -> pl.DataFrame:
    """A place and a reserve for some of the blocks of the geography in a folder."""
    blocks = pl.read_parquet(folder / "geography.parquet")["geocode"].to_list()
    places = ["elm" if 4 <= k < 15 else "oak" if k % 6 == 1 else None for k in range(len(blocks))]
    reserve = ["reserve" if 9 <= k < 20 else None for k in range(len(blocks))]
    columns = {"geocode": blocks, "place": places, "reserve": reserve}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def with_shares(text: str) -> str:
    """The release file with the shares of this spine in the place of those of the geography."""
    start, stop = text.index("[strategy.geolevels]"), text.index('[strategy.queries."*"]')
    return text[:start] + SHARES + text[stop:]
