"""How often intervals from draws hold the true count, beside those that need no model.

    python benchmarks/draws_coverage.py RELEASE DRAWS TRUTH.parquet [LEVEL]

TRUTH has the columns geocode (of finest geounits), those of the attributes, and count. Geocodes of coarser geounits are
prefixes of it, as in the example of Rhode Island.
"""

import sys

import numpy as np
import polars as pl

import tallyveil
from tallyveil.estimation.intervals.indices import plain_index

CLASSES = ([0, 9, 99], ["0", "1 to 9", "10 to 99", "100 and more"])


def holds(frame: pl.DataFrame) -> pl.Series:
    return frame.select((pl.col("true") >= pl.col("lower")) & (pl.col("true") <= pl.col("upper"))).to_series()


def main() -> None:
    root, out, truth = sys.argv[1:4]
    level = float(sys.argv[4]) if len(sys.argv) > 4 else 0.95
    release, draws = tallyveil.open(root), tallyveil.open_draws(out, root)
    assert isinstance(release, tallyveil.Release)
    print(draws.description["convergence"], draws.description["misfit"], sep="\n")
    true = pl.read_parquet(truth).with_columns(pl.col("geocode").cast(pl.String))
    plan = release.manifest.body["plan"]
    geolevels = plan["geolevels"]
    for geolevel in geolevels[1 : geolevels.index(draws.description["geolevel"]) + 1]:
        # Draws say nothing but the number of people of a finest geounit.
        for query in plan["tables"] if geolevel != geolevels[-1] else ["total"]:
            drawn, published = draws.table(geolevel, query, level=level), release.table(geolevel, query)
            digits = drawn.select(pl.col("geocode").str.len_chars().max()).item()
            keys = [name for name in drawn.columns if name in true.columns]
            sums = (
                true.with_columns(pl.col("geocode").str.slice(0, digits))
                .group_by(keys)
                .agg(pl.col("count").sum().alias("true"))
            )
            drawn, published = (
                frame.join(sums, on=keys, how="left").with_columns(pl.col("true").fill_null(0))
                for frame in (drawn, published)
            )
            classes = (
                drawn.with_columns(
                    holds(drawn).alias("holds"), pl.col("true").cut(CLASSES[0], labels=CLASSES[1])
                )
                .group_by("true")
                .agg(pl.col("holds").mean().round(3), pl.len())
                .sort("true")
            )
            errors = {
                "draws": mean_of((drawn["mean"] - drawn["true"]).abs()),
                "published": mean_of((published["count"] - published["true"]).abs()),
                "estimate": mean_of((published["estimate"] - published["true"]).abs()),
            }
            widths = [mean_of(frame["upper"] - frame["lower"]) for frame in (drawn, published)]
            print(
                f"{geolevel} {query}: {drawn.height:,} counts; draws hold {mean_of(holds(drawn)):.3f}, unbiased "
                f"{mean_of(holds(published)):.3f}; widths {widths[0]:.1f} and {widths[1]:.1f}; errors "
                + ", ".join(f"{name} {error:.2f}" for name, error in errors.items())
                + f"; by true count {classes.rows()}"
            )
    indices(draws, true, geolevels, level)


def mean_of(numbers: pl.Series) -> float:
    """The mean of all numbers that are there."""
    return float(numbers.to_frame().mean().item())


def indices(draws: tallyveil.Draws, true: pl.DataFrame, geolevels: list[str], level: float) -> None:
    """Indices of the last attribute, of each area two geolevels above the parts that are compared, and one above."""
    attribute, held, all_of_them = true.columns[-2], 0, 0
    area = geolevels[1]
    for part in geolevels[2:-1]:
        values = draws.values(part, attribute)
        digits = len(draws.values(area, "total")["geocode"][0])
        for kind in ("dissimilarity", "gini", "theil"):
            for (code,), rows in values.group_by(pl.col("geocode").str.slice(0, digits), maintain_order=True):
                n_groups = rows[attribute].n_unique()
                counts = rows["draws"].to_numpy().reshape(-1, n_groups, draws.description["number"])
                each = [plain_index(kind, counts[:, :, draw]) for draw in range(counts.shape[2])]
                low, high = (
                    np.quantile(each, (1 - level) / 2, method="lower"),
                    np.quantile(each, (1 + level) / 2, method="higher"),
                )
                sums = (
                    true.with_columns(pl.col("geocode").str.slice(0, len(rows["geocode"][0])))
                    .group_by("geocode", attribute)
                    .agg(pl.col("count").sum())
                )
                exact = rows.join(sums, on=["geocode", attribute], how="left", maintain_order="left")
                value = plain_index(kind, exact["count"].fill_null(0).to_numpy().reshape(-1, n_groups))
                held, all_of_them = held + bool(low <= value <= high), all_of_them + 1
                print(
                    f"{kind} of {attribute}, {code} across {part}: true {value:.4f}, draws {np.mean(each):.4f}"
                )
    print(f"{held} of {all_of_them} intervals of indices held")


if __name__ == "__main__":
    main()
