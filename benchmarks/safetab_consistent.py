"""What consistent numbers of SafeTab do to errors and intervals, over many runs on a made-up country.

    python benchmarks/safetab_consistent.py PARAMS [--runs 10] [--states 4] [--persons 60000] [--blocks 1200]

PARAMS is a folder of config.json and the four code files; the states are the first ones of the country, of 51 with the
District of Columbia. Every run has a test key of its own. Errors are of the numbers that no bound selected (totals of
nation and state, and groups with tables). "covered" is the share of true counts in the interval: the margin of
ESTIMATE, and CONSISTENT_LOWEST to CONSISTENT_HIGHEST. Rules are those of `safetab consistent`, counted in the estimates
and in the consistent numbers.
"""

import argparse
import tempfile
import time
from pathlib import Path

import headline
import polars as pl
from safetab_accuracy import made_up_states, true_groups

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.public.config import NATIONWIDE, STATES
from tallyveil.products.safetab.public.consistent import NOTHING_PUBLISHED, consistent_tables
from tallyveil.products.safetab.public.consistent_groups import (
    contained_groups,
    contained_pairs,
    groups_of,
    iteration_codes,
    nation_sums,
    rules_of,
)
from tallyveil.products.safetab.public.consistent_numbers import broken_rules
from tallyveil.products.safetab.public.evaluation import CELL_KEYS, T1_KEYS, TRUE, true_tables, with_truth
from tallyveil.products.safetab.public.regions import tabulate_once
from tallyveil.products.safetab.run.run import SafetabInputs, measurer_of, tables_of

CLASS = ["numbers", "where", "number"]


def main() -> None:
    """Make a country, run many times, print what it measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("params", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--states", type=int, default=4)
    parser.add_argument("--persons", type=int, default=60_000)
    parser.add_argument("--blocks", type=int, default=1_200)
    headline.add_option(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        states = STATES[: given.states]
        inputs = made_up_states(given.params, Path(folder), states, given.persons, given.blocks)
        errors, rules = measured(inputs, Path(folder), given.runs)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=4):
        print(rules)
        print(errors)
    after = float(errors.select(pl.col("covered after").min()).item())
    lines = [headline.Headline("consistent intervals", f"at least {after:.2%} covered", "95 %", after / 0.95)]
    headline.write(given.headline, lines)


def measured(inputs: SafetabInputs, folder: Path, runs: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Errors before and after by class, and how many rules were broken."""
    (run,), regions = inputs.plan.runs, inputs.regions["US"]
    truth, iterations = true_groups(inputs, folder), iteration_codes(folder / "params")
    totals = pl.concat(frame for _, frame, _ in truth)
    tabulation = tabulate_once(run.sets, regions)
    rows, rules = [], []
    for number in range(runs):
        measurer = measurer_of(inputs, "US", NoiseSource(insecure_key(f"consistent {number}")))
        t1, t2, _ = tables_of(run, inputs.plan, regions, measurer, tabulation)
        for whole in (False, True):
            began = time.process_time()
            c1, c2, counts = consistent_tables((t1, t2), regions, iterations, whole=whole)
            seconds = time.process_time() - began
            name = "whole" if whole else "real"
            after = broken(c1, c2, inputs, iterations)
            rules.append({"numbers": name, **counts, "broken after": after, "processor seconds": seconds})
            unselected = pl.col("REGION_TYPE").is_in(list(NATIONWIDE)) | pl.col("DETAIL").str.starts_with(
                "sex"
            )
            c1 = with_truth(c1.filter(unselected), [totals], T1_KEYS)
            cells = [true_tables(frame, groups, c1) for _, frame, groups in truth]
            c2 = with_truth(c2, cells, CELL_KEYS)
            kind = pl.when(pl.col("AGESTART") == "*").then(pl.lit("sex")).otherwise(pl.lit("cell"))
            rows += [summed(c1, name, pl.lit("total")), summed(c2, name, kind)]
    n = pl.col("n")
    sums = pl.concat(rows).group_by(CLASS).agg(pl.all().sum()).sort(CLASS)
    errors = sums.select(
        *CLASS,
        "n",
        *((pl.col(name) / n).sqrt().alias(f"rms {name}") for name in ("before", "after")),
        *((pl.col(f"stated {name}") / n).sqrt().alias(f"stated {name}") for name in ("before", "after")),
        *((pl.col(f"covered {name}") / n).alias(f"covered {name}") for name in ("before", "after")),
    )
    return errors, pl.DataFrame(rules).group_by("numbers").agg(pl.all().sum()).sort("numbers")


def broken(t1: pl.DataFrame, t2: pl.DataFrame, inputs: SafetabInputs, iterations: dict) -> int:
    """How many rules the consistent numbers break by more than a millionth of a person."""
    regions = inputs.regions["US"]
    t1, t2 = (table.with_columns(ESTIMATE=pl.col("CONSISTENT").cast(pl.Float64)) for table in (t1, t2))
    groups = groups_of(t1, t2, regions, NOTHING_PUBLISHED)
    pairs = contained_groups(groups, contained_pairs(iterations))
    return broken_rules(groups, rules_of(groups, nation_sums(groups, regions), pairs), groups.cells)


def summed(rows: pl.DataFrame, name: str, number: pl.Expr) -> pl.DataFrame:
    """Numbers, squared errors, stated variances and hits of one run."""
    where = pl.when(pl.col("REGION_TYPE").is_in(list(NATIONWIDE))).then(pl.col("REGION_TYPE"))
    named = rows.with_columns(
        pl.lit(name).alias("numbers"), where.otherwise(pl.lit("below")).alias("where"), number.alias("number")
    )
    before, true = pl.col("ESTIMATE") - pl.col(TRUE), pl.col(TRUE)
    after = pl.col("CONSISTENT") - true
    return named.group_by(CLASS).agg(
        pl.len().cast(pl.Int64).alias("n"),
        (before**2).sum().alias("before"),
        (after.cast(pl.Float64) ** 2).sum().alias("after"),
        pl.col("ESTIMATE_VARIANCE").sum().alias("stated before"),
        pl.col("CONSISTENT_VARIANCE").sum().alias("stated after"),
        (before.abs() <= pl.col("ESTIMATE_MARGIN")).sum().cast(pl.Int64).alias("covered before"),
        true.is_between("CONSISTENT_LOWEST", "CONSISTENT_HIGHEST")
        .sum()
        .cast(pl.Int64)
        .alias("covered after"),
    )


if __name__ == "__main__":
    main()
