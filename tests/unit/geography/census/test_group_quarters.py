import polars as pl

from tallyveil.geography.census.block_files import KINDS, kinds_of_group_quarters
from tallyveil.schema.presets import load_preset


def test_kinds_of_group_quarters_are_named_together() -> None:
    facilities = pl.DataFrame(
        {
            "geocode": ["b", "a", "a", "b", "c"],
            "hhgq": ["college", "prison", "college", "household", "household"],
            "lower": [2, 1, 1, 0, 0],
            "upper": [None, None, None, None, None],
        }
    )
    found = kinds_of_group_quarters(facilities)
    assert found.rows() == [("a", "college+prison"), ("b", "college")]


def test_kinds_are_the_levels_of_the_schema() -> None:
    levels = load_preset("pl94-persons").attribute("hhgq").levels
    assert list(dict.fromkeys(KINDS.values())) == list(levels[1:])
