"""Optional consistency of published totals. It is post-processing: it reads only the tables and costs no privacy.

Production does not enforce consistency, and a run does not either. Two rules that hold for true counts can be imposed
on the estimates of T1, one at a time. First, the nation is the sum of its states. Second, a race alone is not larger
than the same race alone or in combination.
"""

from typing import Final

import polars as pl

from tallyveil.products.safetab.public.iterations import IterationFiles, Membership

CONSISTENT: Final = "CONSISTENT"
CONSISTENT_VARIANCE: Final = "CONSISTENT_VARIANCE"


def consistent_states(t1: pl.DataFrame) -> pl.DataFrame:
    """Totals of the nation and the states that add up, by least squares.

    The difference between the nation and the sum of its states is divided among them in proportion to their variances.
    Iterations that are not published for all states of the table remain unchanged, and so do other geographies. A
    nation with one state remains unchanged too if both are one measurement that is published twice.

    Args:
        t1: T1 of the US run with quality columns.
    Returns:
        The same rows with `CONSISTENT` and `CONSISTENT_VARIANCE`. No variance is larger than before.
    """
    is_state, is_nation = pl.col("REGION_TYPE") == "STATE", pl.col("REGION_TYPE") == "USA"
    # An iteration that suppression or a list leaves out in some state has no sum of states to agree with.
    n_states = t1.filter(is_state)["REGION_ID"].n_unique()
    value, variance = pl.col("ESTIMATE"), pl.col("ESTIMATE_VARIANCE")
    # One noisy count under two names: their errors are equal, and the variances below suppose independence.
    shared = (is_state & (pl.col("SAME_AS") == "USA")) | (is_nation & (pl.col("SAME_AS") == "STATE"))
    sums = (
        t1.filter(is_state | is_nation)
        .group_by("ITERATION_CODE")
        .agg(
            is_state.sum().alias("states"),
            is_nation.sum().alias("nations"),
            # The nation minus its states: 0 for consistent totals.
            (pl.when(is_nation).then(value).otherwise(-value)).sum().alias("gap"),
            variance.sum().alias("spread"),
            shared.any().alias("shared"),
        )
        .filter(~pl.col("shared") & (pl.col("states") == n_states) & (pl.col("nations") == 1))
    )
    # Least squares under one linear constraint: each total moves by its variance times the gap over the sum
    # of all variances. The nation moves down where it is too large, the states up.
    sign = pl.when(is_nation).then(-1.0).when(is_state).then(1.0).otherwise(0.0)
    share = pl.col("gap").fill_null(0.0) / pl.col("spread").fill_null(1.0)
    # The projection lowers a variance v to v (1 - v / spread).
    part = (variance / pl.col("spread")).fill_null(0.0) * sign.abs()
    return (
        t1.join(sums, on="ITERATION_CODE", how="left", maintain_order="left")
        .with_columns(
            (value + sign * share * variance).alias(CONSISTENT),
            (variance * (1 - part)).alias(CONSISTENT_VARIANCE),
        )
        .drop("states", "nations", "gap", "spread", "shared")
    )


def consistent_alone(t1: pl.DataFrame, files: IterationFiles) -> pl.DataFrame:
    """Totals in which no Alone iteration is larger than the same iteration in combination.

    If one is larger, both get their mean weighted by inverse variances, which is the least-squares projection.

    Args:
        t1: T1 with quality columns.
        files: Codes and iterations. The iterations of a pair have the same level and the same codes.
    Returns:
        The same rows with `CONSISTENT`. Variances are unchanged, because an inequality adds no measured information.
    """
    keys = ["REGION_ID", "REGION_TYPE", "PAIR"]
    # Iterations without a partner have a null pair and stay as they are.
    paired = t1.join(_pairs(files), on="ITERATION_CODE", how="left", maintain_order="left")
    value, variance = pl.col("ESTIMATE"), pl.col("ESTIMATE_VARIANCE")
    weighted = (
        paired.drop_nulls("PAIR")
        .group_by(keys)
        .agg(
            pl.len(),
            value.filter(pl.col("ALONE")).sum().alias("alone"),
            value.filter(~pl.col("ALONE")).sum().alias("combined"),
            # The projection onto alone <= combined is the point where they are equal: the mean by inverse
            # variances.
            ((value / variance).sum() / (1 / variance).sum()).alias("mean"),
        )
        .filter((pl.col("len") == 2) & (pl.col("alone") > pl.col("combined")))
        .select(*keys, "mean")
    )
    return (
        paired.join(weighted, on=keys, how="left", maintain_order="left")
        .with_columns(pl.coalesce("mean", "ESTIMATE").alias(CONSISTENT))
        .drop("PAIR", "ALONE", "mean")
    )


def _pairs(files: IterationFiles) -> pl.DataFrame:
    """Iteration code, number of its pair, and whether it is the Alone iteration of the pair."""
    codes: dict[str, set[str]] = {}
    for code, iteration in files.mapping:
        codes.setdefault(iteration, set()).add(code)
    pairs: dict[tuple[int, frozenset[str]], dict[Membership, str]] = {}
    # A pair is an Alone and a combination iteration of one level with the same codes; names are not looked
    # at.
    for member in files.iterations:
        if member.membership is not Membership.ETHNICITY and member.code in codes:
            pair = member.level, frozenset(codes[member.code])
            pairs.setdefault(pair, {})[member.membership] = member.code
    rows = [
        (code, number, membership is Membership.ALONE)
        for number, both in enumerate(pairs.values())
        if len(both) == 2
        for membership, code in both.items()
    ]
    kinds = {"ITERATION_CODE": pl.String, "PAIR": pl.Int64, "ALONE": pl.Boolean}
    return pl.DataFrame(rows, schema=kinds, orient="row")
