"""How often counts are as near to the true ones as somebody wished at the desk: tables, estimates and households.

    python benchmarks/desk_margins.py            # 20 keys: some minutes on one core

A made-up register of 30,000 persons in 60 municipalities is released as the desk would release it: the smallest budget
with which tables are within so many persons of the truth in 95 of 100 cases. Another release, of the households that
follow from these persons, has the smallest budget for wishes about households. Each is run under 20 keys.

Printed are, for each wish, the part of the published counts, and of the estimates beside them, that are within it.
"""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tallyveil
from tallyveil.desk.budget import Wish, smallest_strategy
from tallyveil.desk.draft import Draft
from tallyveil.plans.from_toml.load import plan_from_mapping

PERSONS, MUNICIPALITIES, CANTONS = 30_000, 60, 6
LEVELS = ("Country", "Canton", "Municipality")
AGES = ("0-17", "18-64", "65+")
SIZES, CHILDREN = ("1", "2", "3", "4", "5+"), ("0", "1", "2+")


def write_inputs(folder: Path) -> pl.DataFrame:
    """Write the register and its areas; returns the persons with their areas and levels."""
    draw = np.random.default_rng(5)
    share = draw.pareto(1.1, MUNICIPALITIES) + 0.05
    sizes = draw.choice(5, PERSONS, p=[0.35, 0.33, 0.13, 0.13, 0.06]) + 1
    home = np.repeat(np.arange(PERSONS), sizes)[:PERSONS]
    place = draw.choice(MUNICIPALITIES, PERSONS, p=share / share.sum())[home]
    codes = np.array([str(7 + 17 * number) for number in range(MUNICIPALITIES)])
    persons = pl.DataFrame(
        {
            "home": home,
            "area": codes[place],
            "sex": draw.choice(["m", "w"], PERSONS),
            "age": draw.integers(0, 96, PERSONS),
        }
    )
    persons.write_csv(folder / "persons.csv")
    cantons = [f"C{number * CANTONS // MUNICIPALITIES}" for number in range(MUNICIPALITIES)]
    areas = pl.DataFrame({"code": codes, "canton": cantons})
    areas.write_csv(folder / "areas.csv")
    age = pl.col("age").cut([18, 65], labels=list(AGES), left_closed=True).cast(pl.String)
    return (
        persons.join(areas, left_on="area", right_on="code")
        .with_columns(age.alias("age"), pl.lit("0").alias("Country"))
        .rename({"area": "Municipality", "canton": "Canton"})
    )


def persons_plan(folder: Path) -> tuple[tallyveil.Plan, tuple[Wish, ...], Fraction]:
    """The release of persons that the desk writes, and what was wished for."""
    draft = Draft.opened(folder)
    above = {
        "1": {"name": "Country", "source": "everything"},
        "2": {"name": "Canton", "source": "column:canton"},
    }
    draft.take("records", {"file": "persons.csv"})
    draft.take(
        "areas",
        {"area": "area", "file": "areas.csv", "code": "code", "finest": "Municipality", "above": above},
    )
    columns = {
        "sex": {"kind": "levels", "levels": "m; w"},
        "age": {"kind": "ranges", "levels": "; ".join(AGES)},
    }
    draft.take("meaning", {"columns": columns})
    draft.take("tables", {"tables": ["total", "sex", "age", "detailed"]})
    within = {
        "total": {"Municipality": "10"},
        "age": {"Municipality": "10", "Canton": "15"},
        "detailed": {"Canton": "20"},
    }
    draft.take("exactness", {"within": within})
    draft.areas()
    return tallyveil.plan(draft.write()), draft.wishes(), draft.chosen()[0].total


def households_plan(folder: Path) -> tuple[tallyveil.Plan, tuple[Wish, ...], Fraction]:
    """The release of the households that follow from the persons, with the smallest budget for some wishes."""
    wishes = (
        Wish("total", "Municipality", Fraction(10)),
        Wish("size", "Municipality", Fraction(15)),
        Wish("children", "Canton", Fraction(12)),
    )
    queries = ("total", "size", "children", "detailed")
    equal = dict.fromkeys(LEVELS, "1/3")
    parts = {level: dict.fromkeys(queries, "1/4") for level in LEVELS}
    plan = plan_from_mapping(household_file("1", equal, parts), folder)
    strategy = smallest_strategy(plan, wishes)
    shares = {level: str(share) for level, share in strategy.geolevel_shares}
    parts = {level: {query: str(part) for query, part in strategy.shares_of(level)} for level in LEVELS}
    file = household_file(str(strategy.total), shares, parts)
    return tallyveil.plan(file, folder=folder), wishes, strategy.total


def household_file(
    rho: str, shares: Mapping[str, str], parts: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The release file of the households."""
    attributes = [{"name": "size", "levels": [*SIZES]}, {"name": "children", "levels": [*CHILDREN]}]
    children = {"column": "age", "values": [str(age) for age in range(18)]}
    return {
        "release": {"name": "households"},
        "records": {
            "path": "persons.csv",
            "geocode": "area",
            "household": {"id": "home", "number": {"size": {}, "children": children}},
        },
        "geography": {
            "path": "desk-areas.csv",
            "geocode": "area",
            "geolevels": [*LEVELS],
            "parent_columns": [*LEVELS[:2]],
        },
        "schema": {"name": "households", "unit": "household", "attributes": attributes},
        "privacy": {"neighbours": "bounded", "mechanism": "discrete_gaussian", "rho": rho},
        "strategy": {"rho": rho, "geolevels": shares, "queries": parts},
        "outputs": {"tables": ["total", "size", "children"], "intervals": "0.95"},
    }


def households(persons: pl.DataFrame) -> pl.DataFrame:
    """The households, made apart from the code of a run."""
    homes = persons.group_by("home", *LEVELS).agg(
        pl.len().alias("n"), (pl.col("age") == AGES[0]).sum().alias("minors")
    )
    return homes.with_columns(
        pl.when(pl.col("n") > 4).then(pl.lit("5+")).otherwise(pl.col("n").cast(pl.String)).alias("size"),
        pl.when(pl.col("minors") > 1)
        .then(pl.lit("2+"))
        .otherwise(pl.col("minors").cast(pl.String))
        .alias("children"),
    )


@dataclass(slots=True)
class Nearness:
    """How many counts and estimates of a wish there are, and how many are within it."""

    cells: int = 0
    counts: int = 0
    estimates: int = 0


def look(release: tallyveil.Release, wish: Wish, truth: pl.DataFrame, nearness: Nearness) -> None:
    """Add what a release has for a wish."""
    table = release.table(wish.geolevel, wish.table)
    by = [name for name in ("sex", "age", "size", "children") if name in table.columns]
    true = truth.group_by(pl.col(wish.geolevel).alias("geocode"), *by).agg(
        pl.len().cast(pl.Int64).alias("true")
    )
    joined = table.with_columns(pl.col(by).cast(pl.String)).join(true, on=["geocode", *by], how="left")
    off = joined.select(
        (pl.col(name) - pl.col("true").fill_null(0)).abs().alias(name) for name in ("count", "estimate")
    )
    within = float(wish.within)
    nearness.cells += off.height
    nearness.counts += int((off["count"] <= within).sum())
    nearness.estimates += int((off["estimate"] <= within).sum())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        persons = write_inputs(folder)
        print(f"{'':48} {'cells':>8} {'counts':>8} {'estimates':>10}")
        for what, planned, truth in (
            ("persons", persons_plan(folder), persons),
            ("households", households_plan(folder), households(persons)),
        ):
            plan, wishes, rho = planned
            nearness_by_wish = {wish: Nearness() for wish in wishes}
            for key in range(args.keys):
                name = f"{what}-{key}"
                release = tallyveil.run(plan, folder / name, insecure_test_key=name, workers=1)
                for wish, nearness in nearness_by_wish.items():
                    look(release, wish, truth, nearness)
            print(f"{what}, rho = {float(rho):.5f}, {args.keys} keys")
            for wish, near in nearness_by_wish.items():
                words = f"  {wish.table}, {wish.geolevel}, within {wish.within}"
                parts = (near.counts / near.cells, near.estimates / near.cells)
                print(f"{words:48} {near.cells:8,} {parts[0]:8.1%} {parts[1]:10.1%}")


if __name__ == "__main__":
    main()
