"""SafeTab's errors over many runs on a made-up state: coverage, bias, mean squared error and suppression, by detail.

    python benchmarks/safetab_accuracy.py PARAMS [--runs 200] [--persons 1000000] [--blocks 4000] [--json FILE]

PARAMS is a folder of config.json and the four code files; one of its states is made up, everything else is taken as
it is. Every run has a test key of its own. Errors are of the numbers that no bound selected (totals of nation and
state, and groups with tables); of the others it counts how many were published, and compares with what their laws say.
"exact" is the coverage of the margin by the law of the noise (of the estimate that combines both stages, far from
thresholds).
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import headline
import polars as pl
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are, with their oracles

from tests.oracles.safetab_margins import combined_coverage, coverage_of_sum

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.confidential.declassify import declassify_groups
from tallyveil.products.safetab.made_up import write_safetab_country
from tallyveil.products.safetab.public.config import NATIONWIDE
from tallyveil.products.safetab.public.estimates import noise_sum, quality_of
from tallyveil.products.safetab.public.evaluation import (
    CELL_KEYS,
    T1_KEYS,
    TRUE,
    TrueGroups,
    true_tables,
    true_totals,
    with_truth,
)
from tallyveil.products.safetab.public.expected import detail_estimator, publication_chance
from tallyveil.products.safetab.public.plan import LevelSet, read_plan
from tallyveil.products.safetab.public.regions import tabulate_all
from tallyveil.products.safetab.public.tables import DETAIL_NAMES, TOTAL_ONLY_DETAIL
from tallyveil.products.safetab.run.run import (
    SafetabInputs,
    declaration_of,
    measurer_of,
    read_safetab_inputs,
    tables_of,
)

CLASS = ["where", "LEVEL", "number", "DETAIL"]


def main() -> None:
    """Make a state, run many times, print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("params", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--blocks", type=int, default=4_000)
    parser.add_argument("--json", type=Path)
    headline.add_option(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        states = json.loads((given.params / "config.json").read_text())["state_filter_us"][:1]
        inputs = made_up_states(given.params, Path(folder), states, given.persons, given.blocks)
        truth = true_groups(inputs, Path(folder))
        errors, published = measured(inputs, truth, given.runs)
    errors = with_exact(errors, inputs)
    suppression = with_chances(published, inputs, truth, given.runs)
    show(errors, suppression, given.runs)
    weights = errors["n"].to_numpy()
    lines = []
    for value in ("COUNT", "ESTIMATE"):
        covered, exact = (
            float((errors[f"{value}: {what}"].to_numpy() * weights).sum() / weights.sum())
            for what in ("coverage", "exact")
        )
        lines.append(
            headline.Headline(
                f"margins of {value}", f"{covered:.2%} covered", "of what their laws say", covered / exact
            )
        )
    headline.write(given.headline, lines)
    if given.json:
        results = {"runs": given.runs, "errors": errors.to_dicts(), "suppression": suppression.to_dicts()}
        given.json.write_text(json.dumps(results, indent=2) + "\n")


def made_up_states(
    params: Path, folder: Path, states: Sequence[str], persons: int, blocks: int
) -> SafetabInputs:
    """The lists and budgets of a parameter folder, for some states; their folder is "params"."""
    changed = folder / "params"
    # Without the modes of the files, which may be read-only.
    shutil.copytree(params, changed, copy_function=shutil.copyfile)
    values = json.loads((changed / "config.json").read_text())
    values |= {"run_pr": False, "run_us": True, "state_filter_us": list(states)}
    (changed / "config.json").write_text(json.dumps(values))
    plan = read_plan(changed)
    write_safetab_country(folder / "data", plan.config, plan.files, people=persons, blocks=blocks, seed=1)
    return read_safetab_inputs(changed, folder / "data")


def true_groups(inputs: SafetabInputs, folder: Path) -> list[tuple[LevelSet, pl.DataFrame, TrueGroups]]:
    """Every level set with its true totals."""
    (run,), regions = inputs.plan.runs, inputs.regions["US"]
    with Ledger(folder / "ledger.jsonl", declaration_of(inputs.plan), "benchmark") as ledger:
        declassified = declassify_groups(
            inputs.persons["US"], regions, run.sets, ledger=ledger, reason="made-up people, for a benchmark"
        )
        return [
            (level_set, true_totals(level_set, regions, frame), frame) for level_set, frame in declassified
        ]


def measured(
    inputs: SafetabInputs, truth: list[tuple[LevelSet, pl.DataFrame, TrueGroups]], runs: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Sums of errors by class over all runs, and how many totals of each level set were published."""
    (run,), regions = inputs.plan.runs, inputs.regions["US"]
    tabulation = tabulate_all(run.sets, regions)
    levels = {iteration.code: iteration.level for iteration in inputs.plan.files.iterations}
    level = pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias("LEVEL")
    totals = pl.concat(frame for _, frame, _ in truth)
    sums, counted = [], []
    for number in range(runs):
        measurer = measurer_of(inputs, "US", NoiseSource(insecure_key(f"accuracy {number}")))
        t1, t2, _ = tables_of(run, inputs.plan, regions, measurer, tabulation)
        t1 = with_truth(t1, [totals], T1_KEYS).with_columns(level)
        counted.append(
            t1.with_columns((pl.col(TRUE) == 0).alias("empty"))
            .group_by("REGION_TYPE", "LEVEL", "empty")
            .agg(pl.len().cast(pl.Int64).alias("published"))
        )
        t1 = t1.filter(
            pl.col("REGION_TYPE").is_in(list(NATIONWIDE)) | pl.col("DETAIL").str.starts_with("sex")
        )
        cells = [true_tables(frame, groups, t1) for _, frame, groups in truth]
        t2 = with_truth(t2, cells, CELL_KEYS).with_columns(level)
        t2 = t2.join(t1.select(*T1_KEYS, "DETAIL"), on=T1_KEYS, how="left").filter(pl.col("AGESTART") != "*")
        sums += [summed(t1, "total"), summed(t2, "cell")]
    errors = pl.concat(sums).group_by(CLASS).agg(pl.all().sum())
    return errors, pl.concat(counted).group_by("REGION_TYPE", "LEVEL", "empty").agg(pl.col("published").sum())


def summed(rows: pl.DataFrame, number: str) -> pl.DataFrame:
    """Numbers, and sums of errors, squares and hits, of one run."""
    where = pl.when(pl.col("REGION_TYPE").is_in(list(NATIONWIDE))).then(pl.lit("nation, state"))
    named = rows.with_columns(where.otherwise(pl.lit("below")).alias("where"), pl.lit(number).alias("number"))
    sums = [pl.len().cast(pl.Int64).alias("n"), pl.col("VARIANCE").sum().alias("variance")]
    for value, margin in (("COUNT", "MARGIN"), ("ESTIMATE", "ESTIMATE_MARGIN")):
        error = pl.col(value).cast(pl.Float64) - pl.col(TRUE)
        sums += [
            error.sum().alias(f"{value}: error"),
            (error**2).sum().alias(f"{value}: square"),
            (error.abs() <= pl.col(margin)).sum().cast(pl.Int64).alias(f"{value}: within"),
        ]
    return named.group_by(CLASS).agg(sums)


def with_exact(errors: pl.DataFrame, inputs: SafetabInputs) -> pl.DataFrame:
    """Means, their distance from 0 in standard errors, and the coverage that the laws give."""
    n = pl.col("n")
    values = [
        expression
        for value in ("COUNT", "ESTIMATE")
        for expression in (
            (pl.col(f"{value}: within") / n).alias(f"{value}: coverage"),
            (pl.col(f"{value}: error") / n).alias(f"{value}: mean error"),
            (pl.col(f"{value}: error") / pl.col(f"{value}: square").sqrt()).alias(
                f"{value}: mean error in standard errors"
            ),
            (pl.col(f"{value}: square") / n).alias(f"{value}: mean square"),
        )
    ]
    ratio = (pl.col("COUNT: square") / pl.col("ESTIMATE: square")).alias("mean squares: ratio")
    exact = pl.DataFrame(list(exact_coverages(inputs)))
    coverages = errors.select(*CLASS, "n", *values, ratio, (pl.col("variance") / n).alias("COUNT: variance"))
    return coverages.join(exact, on=CLASS, how="left").sort("number", "where", "LEVEL", "DETAIL")


def exact_coverages(inputs: SafetabInputs) -> Iterator[dict[str, Any]]:
    """Coverage of the margins of every class by the laws of their noise."""
    seen = set()
    for level_set in inputs.plan.runs[0].sets:
        where = "nation, state" if level_set.geography in NATIONWIDE else "below"
        if (where, level_set.level) in seen:
            continue
        seen.add((where, level_set.level))
        row = {"where": where, "LEVEL": level_set.level}
        for detail in range(4):
            estimator = detail_estimator(level_set, detail)
            for number, parts in (("total", estimator.n), ("cell", 1)):
                margin = int(estimator.measured(parts).margin)
                yield {
                    **row,
                    "number": number,
                    "DETAIL": DETAIL_NAMES[detail],
                    "COUNT: exact": coverage_of_sum(noise_sum(level_set.stage_2, parts), margin),
                    "ESTIMATE: exact": combined_coverage(estimator, parts),
                }
        only = coverage_of_sum(
            noise_sum(level_set.total_only, 1), int(quality_of(level_set.total_only).margin)
        )
        both = {"COUNT: exact": only, "ESTIMATE: exact": only}
        yield {**row, "number": "total", "DETAIL": DETAIL_NAMES[TOTAL_ONLY_DETAIL], **both}


def with_chances(
    published: pl.DataFrame,
    inputs: SafetabInputs,
    truth: list[tuple[LevelSet, pl.DataFrame, TrueGroups]],
    runs: int,
) -> pl.DataFrame:
    """How many totals each level set below the state published, and how many its laws expect."""
    rows = []
    for level_set, frame, _ in truth:
        if level_set.keep_above is None:
            continue
        groups = len(inputs.regions["US"].ids[level_set.geography]) * len(level_set.view.iterations)
        sizes = frame.group_by(TRUE).len().rows()
        for empty in (True, False):
            classes = [(0, groups - frame.height)] if empty else sizes
            chances = [(n, publication_chance(level_set, size)) for size, n in classes]
            of_class = published.filter(
                pl.col("REGION_TYPE") == level_set.geography,
                pl.col("LEVEL") == level_set.level,
                pl.col("empty") == empty,
            )
            expected = runs * sum(n * chance for n, chance in chances)
            spread = (runs * sum(n * chance * (1 - chance) for n, chance in chances)) ** 0.5
            total = of_class["published"].sum()
            rows.append(
                {
                    "level set": level_set.name,
                    "groups": "empty" if empty else "others",
                    "number": sum(n for n, _ in chances),
                    "bound": level_set.keep_above,
                    "published": total,
                    "expected": expected,
                    "standard deviations": (total - expected) / spread if spread else 0.0,
                }
            )
    return pl.DataFrame(rows)


def show(errors: pl.DataFrame, suppression: pl.DataFrame, runs: int) -> None:
    """Print both tables."""
    console = Console(width=150)
    table = Table(title=f"Errors over {runs} runs")
    headings = (
        "number",
        "where",
        "level",
        "detail",
        "numbers",
        "COUNT: covered",
        "exact",
        "bias (s.e.)",
        "mean square",
    )
    for heading in (*headings, "ESTIMATE: covered", "exact", "bias (s.e.)", "mean square", "ratio"):
        table.add_column(heading, justify="left" if heading in headings[:4] else "right")
    for row in errors.iter_rows(named=True):
        cells = [row["number"], row["where"], str(row["LEVEL"]), row["DETAIL"], f"{row['n']:,}"]
        for value in ("COUNT", "ESTIMATE"):
            bias, errors_away = row[f"{value}: mean error"], row[f"{value}: mean error in standard errors"]
            cells += [
                f"{row[f'{value}: coverage']:.2%}",
                f"{row[f'{value}: exact']:.2%}",
                f"{bias:+.3f} ({errors_away:+.1f})",
                f"{row[f'{value}: mean square']:.4g}",
            ]
        table.add_row(*cells, f"{row['mean squares: ratio']:.2f}")
    console.print(table)
    table = Table(title=f"Totals published below the state over {runs} runs")
    for heading in suppression.columns:
        table.add_column(heading, justify="left" if heading in suppression.columns[:2] else "right")
    for values in suppression.iter_rows():
        table.add_row(
            *(x if isinstance(x, str) else f"{x:,.1f}" if isinstance(x, float) else f"{x:,}" for x in values)
        )
    console.print(table)


if __name__ == "__main__":
    main()
