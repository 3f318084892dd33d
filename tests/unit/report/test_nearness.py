import polars as pl

from tallyveil.products.topdown.page.uncertainty import Nearness, nearness_of

SCHEMA = {"count": pl.Int64, "lower": pl.Int64, "upper": pl.Int64}


def frame(*rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def test_the_middle_holds_for_at_least_half() -> None:
    # The farthest the count before noise can be from the published one: 3, 9, 1, 20.
    found = nearness_of("Block", frame((10, 7, 12), (5, 0, 14), (0, 0, 1), (7, 0, 27)))
    assert found == Nearness("Block", 4, typical=5, distance=3, above_zero=3, perhaps_zero=2)


def test_counts_outside_their_intervals_are_farther_than_the_interval_is_wide() -> None:
    assert nearness_of("Block", frame((10, 12, 15))).distance == 5
    assert nearness_of("Block", frame((10, 2, 4))).distance == 8


def test_intervals_without_two_ends_are_left_out() -> None:
    assert nearness_of("Block", frame((3, 0, None))) is None
    assert nearness_of("Block", frame((3, 0, None), (4, 2, 5))).counts == 1
    assert nearness_of("Block", frame()) is None
