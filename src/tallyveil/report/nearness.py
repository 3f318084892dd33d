"""How near published counts lie to the counts before noise, by the intervals of a release."""

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Nearness:
    """The published counts of one query at one geolevel, without those that are known exactly.

    Attributes:
        geolevel: Name.
        counts: How many there are.
        typical: Their median, a published count.
        distance: The least number that at least half of them have as their distance: the farthest that the count before
            noise can lie from the published one and be in the interval.
        above_zero: How many of them are above zero.
        perhaps_zero: How many of those have an interval that holds zero.
    """

    geolevel: str
    counts: int
    typical: int
    distance: int
    above_zero: int
    perhaps_zero: int


def nearness_of(geolevel: str, frame: pl.DataFrame) -> Nearness | None:
    """Summarise intervals; None if no count has an interval with two ends.

    Args:
        geolevel: Name of the geolevel.
        frame: Whole numbers `count`, `lower` and `upper`, null where there is no end.
    """
    # A count whose interval has an open end has no distance.
    known = frame.drop_nulls(["lower", "upper"])
    if known.is_empty():
        return None
    distances = known.select(
        # The farther end: where the count before noise may be in the worst case.
        pl.max_horizontal(pl.col("upper") - pl.col("count"), pl.col("count") - pl.col("lower"))
    ).to_series()
    positive = known.filter(pl.col("count") > 0)
    return Nearness(
        geolevel,
        known.height,
        _middle(known["count"]),
        _middle(distances),
        positive.height,
        positive.filter(pl.col("lower") <= 0).height,
    )


def _middle(values: pl.Series) -> int:
    """The least of the values that at least half of them do not exceed."""
    return int(values.sort()[(len(values) - 1) // 2])
