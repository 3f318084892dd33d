"""Optional consistency of published totals: post-processing that reads only the tables and costs nothing.

Production does not enforce consistency, and a run does not either. Two rules that hold for true counts can be
imposed on the estimates of T1, one at a time. First, the nation is the sum of its states. Second, a race
alone is not larger than the same race alone or in combination. The consistent tables of a finished run are
written to another folder.
"""

from pathlib import Path
from typing import Final, Literal

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_listed_table, read_manifest
from tallyveil.products.safetab.public.iterations import IterationFiles, Membership, read_iterations
from tallyveil.storage.outputs import own_folder
from tallyveil.storage.paths import real
from tallyveil.storage.read import published_tags
from tallyveil.storage.write import write_parquet

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


_PREFIX = "tallyveil."


def write_consistent(params: Path, run: Path, out: Path, rule: Literal["states", "alone"]) -> list[Path]:
    """Write T1 with consistent estimates next to the published ones.

    Args:
        params: Parameter folder of the run. Only its iteration files are read.
        run: Folder of the finished run.
        out: Folder to write to.
        rule: "states": the count of the nation is the sum of its states (US only). "alone": the count of an iteration
            alone is at most its count in combination.
    Returns:
        The written files, which have the names of the run's files.
    Raises:
        ConfigError: `out` is the folder of the run.
        StoreError: the run is not finished, or a file cannot be read or written.
    """
    manifest = read_manifest(run, ReleaseKind.SAFETAB)
    # Compared as real paths, because a link to the run's folder would also let its tables be replaced.
    if real(out) == real(run):
        raise ConfigError(
            f"--out is {out}, which is the folder of the run: the tables of the run would be replaced. Choose "
            "another folder.",
            code="bad-flag",
        )
    files = read_iterations(params)
    # The manifest says which runs there are. "states" needs a nation, which Puerto Rico's run does not have.
    stems = [name.lower() for name in manifest.body["sizes"]]
    written = []
    with own_folder(out, "safetab consistent"):
        for stem in stems if rule == "alone" else [stem for stem in stems if stem == "us"]:
            path, target = run / f"t1-{stem}.parquet", out / f"t1-{stem}.parquet"
            # Checked against the manifest's SHA-256: consistency of a changed table would mean nothing.
            frame, metadata = read_listed_table(run, manifest, path.name), published_tags(path)
            # The guarantee of the run stays with its numbers: this is post-processing and costs nothing.
            tags = {k.removeprefix(_PREFIX): v for k, v in metadata.items() if k.startswith(_PREFIX)}
            estimates = consistent_states(frame) if rule == "states" else consistent_alone(frame, files)
            write_parquet(target, estimates, {**tags, "consistent": rule})
            written.append(target)
    return written
