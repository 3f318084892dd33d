"""Compare a SafeTab release, and simulated runs like it, with the true counts. This job declassifies records."""

from pathlib import Path

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.errors import StoreError
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.evaluation import PARAMETERS, write_errors
from tallyveil.files.finished import LEDGER
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed_table, read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential.declassify import declassify_groups
from tallyveil.products.safetab.public.coterminous import tabulate_all, tabulate_once
from tallyveil.products.safetab.public.declassified import (
    CELL_KEYS,
    KEYS,
    TRUE,
    TrueGroups,
    true_tables,
    true_totals,
    with_truth,
)
from tallyveil.products.safetab.public.evaluation import LEVEL, cell_errors, size_of, total_errors
from tallyveil.products.safetab.public.plan import RunPlan
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.products.safetab.run.job import run_parameters
from tallyveil.products.safetab.run.run import (
    SafetabInputs,
    declaration_of,
    measurer_of,
    read_safetab_inputs,
    tables_of,
)
from tallyveil.runs.key_file import binding_of

Truth = list[tuple[pl.DataFrame, TrueGroups]]


def evaluate_safetab(params: Path, data: Path, out: Path, *, repeats: int = 0) -> dict[str, pl.DataFrame]:
    """Errors of a SafeTab release against the true counts, together with those of repeated runs with test keys.

    Args:
        params, data: The folders that the release was made from.
        out: Its folder.
        repeats: Number of further runs. Their keys are public, and their errors are pooled with those of the release.
    Returns:
        Tables "errors-t1" and "errors-t2", and the privacy parameters of the noise. They and the true tables are also
        written to the folder `evaluation`.
    Raises:
        StoreError: the folder holds no finished SafeTab release that was made with these parameters.
    Privacy: none. Before records are compared, the ledger of the release gets a non-private event for every run.
    """
    inputs = read_safetab_inputs(params, data)
    manifest = read_manifest(out, ReleaseKind.SAFETAB)
    once = _coterminous_once(inputs, manifest.plan_digest, out)
    # The whole release is read before the ledger says that records were compared with it.
    released = {run.run: _released(out, manifest, run) for run in inputs.plan.runs}
    t1_rows, t2_rows, groups, tables = [], [], [], {}
    with Ledger(out / LEDGER, declaration_of(inputs.plan), manifest.run) as ledger:
        for run in inputs.plan.runs:
            regions = inputs.regions[run.run]
            reason = f"true counts of the {run.run} run compared with the release; the results reveal them"
            declassified = declassify_groups(
                inputs.persons[run.run], regions, run.sets, ledger=ledger, reason=reason
            )
            # The folder says so, too, before anything is computed; whoever finds it later sees that records
            # were compared.
            mark_declassified(out, ledger.entries)
            # Generated now, after the entry and the mark are on disk: a process killed in between has shown
            # no true count.
            truth: Truth = [(true_totals(level_set, regions, true), true) for level_set, true in declassified]
            groups.append(_group_numbers(run, regions, truth))
            stem = run.run.lower()
            totals = pl.concat(frame for frame, _ in truth)
            tables[f"truth-t1-{stem}"] = totals
            # The release itself is the first of the runs whose errors are pooled.
            for published in [released[run.run], *_repeated(inputs, run, repeats, once=once)]:
                t1, t2 = _with_truth(published, truth, totals)
                t1_rows.append(t1)
                t2_rows.append(t2)
    levels = _levels(inputs)
    errors = {
        "errors-t1": total_errors(pl.concat(t1_rows).with_columns(levels), pl.concat(groups), 1 + repeats),
        "errors-t2": cell_errors(pl.concat(t2_rows).with_columns(levels)),
        PARAMETERS: run_parameters(inputs.plan.config.mechanism, inputs.plan.runs),
    }
    write_errors(out, errors | tables, {"run": manifest.run, "runs": 1 + repeats})
    return errors


def _coterminous_once(inputs: SafetabInputs, digest: str, out: Path) -> bool:
    """Whether the release measured coterminous regions once, by its plan digest; refuses a release of another plan."""
    # The manifest holds the digest alone, so both ways of tabulating are tried; only one of them can match.
    for once in (True, False):
        if binding_of(inputs.plan.digest(), bytes([once])).hex() == digest:
            return once
    raise StoreError(
        f"{out} holds a SafeTab release that was made with other parameters. Name the parameter folder that it was "
        "made with.",
        code="no-release",
    )


def _released(out: Path, manifest: Manifest, run: RunPlan) -> tuple[pl.DataFrame, pl.DataFrame]:
    """T1 and T2 of the release."""
    t1, t2 = (
        read_listed_table(out, manifest, f"{table}-{run.run.lower()}.parquet") for table in ("t1", "t2")
    )
    return t1, t2


def _repeated(
    inputs: SafetabInputs, run: RunPlan, repeats: int, *, once: bool
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """T1 and T2 of the repeated runs."""
    tables = []
    regions = inputs.regions[run.run]
    tabulation = (tabulate_once if once else tabulate_all)(run.sets, regions)
    for number in range(repeats):
        # A public key for each number: these runs can be repeated by anybody, protect nobody and are never
        # published.
        noise = NoiseSource(insecure_key(f"SafeTab evaluation {number}"))
        measurer = measurer_of(inputs, run.run, noise)
        t1, t2, _ = tables_of(run, inputs.plan, regions, measurer, tabulation)
        tables.append((t1, t2))
    return tables


def _with_truth(
    published: tuple[pl.DataFrame, pl.DataFrame], truth: Truth, totals: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    t1, t2 = published
    # The detail of each group is that of this run, since each run chooses its own.
    cells = [true_tables(frame, groups, t1) for frame, groups in truth]
    of_group = totals.rename({TRUE: "TOTAL"})
    compared = with_truth(t2, cells, CELL_KEYS).join(of_group, on=KEYS, how="left", maintain_order="left")
    # A group that is published and has no true row is empty, so its true total is 0.
    return with_truth(t1, [totals], KEYS), compared.with_columns(pl.col("TOTAL").fill_null(0))


def _levels(inputs: SafetabInputs) -> pl.Expr:
    levels = {iteration.code: iteration.level for iteration in inputs.plan.files.iterations}
    return pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias(LEVEL)


def _group_numbers(run: RunPlan, regions: Regions, truth: Truth) -> pl.DataFrame:
    """How many groups of the public product there are in every class of true size."""
    frames = []
    for level_set, (_, groups) in zip(run.sets, truth, strict=True):
        only = groups.iterations >= level_set.view.n_adaptive
        for total_only in (False, True):
            n = (
                len(level_set.view.iterations) - level_set.view.n_adaptive
                if total_only
                else level_set.view.n_adaptive
            )
            # A level below the state has no total-only groups.
            if not n:
                continue
            totals = pl.Series("TRUE", groups.totals[only == total_only])
            # Empty groups are most of the product and are counted, never listed.
            empty = n * len(regions.ids[level_set.geography]) - len(totals)
            sizes = pl.DataFrame([totals]).select(size_of(pl.col("TRUE")).alias("SIZE"))
            sizes = sizes.group_by("SIZE").agg(pl.len().cast(pl.Int64).alias("groups"))
            sizes = pl.concat([sizes, pl.DataFrame({"SIZE": ["0"], "groups": [empty]})])
            frames.append(
                sizes.select(
                    pl.lit(level_set.geography).alias("REGION_TYPE"),
                    pl.lit(level_set.level).cast(pl.Int64).alias(LEVEL),
                    pl.lit(value=total_only).alias("TOTAL_ONLY"),
                    "SIZE",
                    "groups",
                )
            )
    return pl.concat(frames)
