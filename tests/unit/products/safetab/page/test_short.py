from fractions import Fraction

import polars as pl

from tallyveil.products.safetab.page.persons import group_points, group_tiles
from tallyveil.schema.schema import PERSON, unit_of

RIGHT = Fraction(3, 4)


def published(*rows: tuple[int, float, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["COUNT", "MARGIN", "SIZE"], orient="row")


SOME = published((-2, 4.0, "0"), (3, 6.0, "1-9"), (5, 4.0, "1-9"), (1_500, 24.5, "1,000-9,999"))


def told(frame: pl.DataFrame, **changes: bool) -> dict[str, str]:
    settings = {"is_protected": True, **changes}
    points = group_points(frame, PERSON, RIGHT, chosen_by="A noisy total", **settings)
    return {point.heading: point.text for point in points}


def test_typical_margins_are_those_of_the_smallest_and_the_largest_class() -> None:
    assert (
        "at most 4 people for a typical published total of 0 or less, and at most 24.5 people for a typical"
        in (told(SOME)["How sure a count is"])
    )
    tiles = group_tiles(SOME, unit_of("stay"), RIGHT, is_protected=True)
    assert [tile.value for tile in tiles] == ["4", "± 4", "± 24.5", "75.0 %"]
    assert len(group_tiles(SOME.head(1), PERSON, RIGHT, is_protected=True)) == 3


def test_totals_that_may_be_of_nobody_are_counted() -> None:
    text = told(SOME)["What not to conclude"]
    assert "2 of the 4 published totals (50 %) are no larger than their margins" in text
    assert "A count below zero is noise" in text
    above = told(SOME.filter(pl.col("COUNT") > 4))["What not to conclude"]
    assert "may be equal before noise" in above
    assert "below zero" not in above
    assert (
        "a group without a count may have members there"
        in told(SOME, some_left_out=True)["What not to conclude"]
    )


def test_no_groups_and_no_secret_key() -> None:
    empty = told(SOME.clear())
    assert empty["How sure a count is"] == "No group has a published count."
    assert told(SOME, is_protected=False)["What it means for one person"].startswith("This would hold if")
