"""What a person writes who has read docs/python.md and the pages that it leads to. Type checkers read it strictly."""

from fractions import Fraction
from pathlib import Path

import polars as pl

import tallyveil
from tallyveil.accounting import DiscreteGaussian, Filter, Neighbours, calibrate, compose
from tallyveil.noise import discrete_gaussian


def planned(file: str) -> tallyveil.Plan:
    """A plan, and what it costs."""
    plan = tallyveil.plan(file)
    epsilon: float = plan.guarantee.epsilon.upper
    print(plan.name, epsilon, plan.guarantee.delta, plan.expected().height)
    return plan


def uncertain(release: tallyveil.Release, geolevel: str) -> pl.DataFrame:
    """The rows of a table whose interval is wide."""
    table = release.table(geolevel, "home")
    return table.filter(pl.col("upper") - pl.col("lower") > 20).sort("geocode")


def noise(rho: Fraction) -> int:
    """One draw of noise that meets a target, and what the budget has left after it."""
    moved = Neighbours.BOUNDED.answers_moved
    found = calibrate(
        DiscreteGaussian(1, multiplicity=moved), epsilon=1, delta="1e-10", neighbours=Neighbours.BOUNDED
    )
    variance: Fraction = found.event.variance
    budget = Filter(rho=rho, neighbours="bounded")
    budget.spend(found.event)
    print(budget.left, compose(found.event, neighbours=budget.neighbours).epsilon("1e-10"), float(variance))
    return int(discrete_gaussian(variance, 1)[0])


def main() -> None:
    """From a plan to a site, by every door of the documentation."""
    tallyveil.run(planned("release.toml"), "made").add_intervals()
    release = tallyveil.open("made")
    codes = release.table("Town", "total")["geocode"].to_list()
    print(uncertain(release, "Town"), release.interval("total", codes[0]), release.guarantee.epsilon.upper)
    town, other = release.area(codes[0]), release.area(codes[1])
    counts = release.quantities(
        {"town": town.count("total"), "old": town.count("age", {"age": "old"}), "other": other.count("total")}
    )
    share = counts.share("old", "town")
    print(share.estimate, share.standard_error, counts.test_equal("town", "other").p_value)
    print(release.difference(town, other, queries=["home"]).to_frame())
    tallyveil.reliability(release.table("Town", "age"), classes=["high", "medium", "low"])
    measured = tallyveil.measure("release.toml", "measured")
    again = tallyveil.estimate(measured, "again", estimation={"rounding": {"*": [["total"], ["age*home"]]}})
    print(again.table("Region", "total"), tallyveil.open("measured").measurements("Block", "age*home"))
    print(tallyveil.open("measured", kind="topdown-measurements").guarantee.statement)
    page: Path = tallyveil.open("again", kind="topdown").report()
    print(page, noise(Fraction(1, 2)))


if __name__ == "__main__":
    main()
