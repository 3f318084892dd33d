"""Derives again what a finished release of the main product says of its counts, its measurements and its intervals.

Everything is read from the published files. Nothing here is told what the run computed.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.estimation.intervals.answers import Answers, LevelAnswers, region_answers
from tallyveil.estimation.intervals.interval import intervals_if_any
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.files.checks import check_release
from tallyveil.files.finished import MANIFEST, require_fits
from tallyveil.files.geography import read_hierarchies
from tallyveil.files.histograms import HISTOGRAM, MICRODATA, histogram_name, read_histogram
from tallyveil.files.intervals import (
    DECIMALS,
    INTERVALS,
    README,
    made_intervals,
    read_interval_table,
    refuse_earlier_tables,
)
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import MAIN_PRODUCT
from tallyveil.files.tables import TABLES, table_folder, table_name
from tallyveil.geography.areas import Hierarchies
from tallyveil.measurements.names import ANSWER_LABELS, FOLDER, measurement_folder
from tallyveil.measurements.store import StoredMeasurements, answer_labels
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import read_kept
from tallyveil.postprocess.intervals.areas import IntervalArea
from tallyveil.postprocess.intervals.chunks import IntervalQuestion
from tallyveil.postprocess.intervals.job import readme_of
from tallyveil.postprocess.intervals.model import open_release
from tallyveil.postprocess.intervals.writing import FitTables
from tallyveil.postprocess.measured import read_constraints
from tallyveil.postprocess.passes.exact_groups import first_groups
from tallyveil.postprocess.publish import FinalChecks, measured_groups
from tallyveil.runs.observer import SilentObserver, Stopwatch
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import file_name
from tallyveil.storage.read import collect, parquet_metadata, read_published, scan_parquet
from tallyveil.storage.system import usable_cores

SAMPLED: Final = 4
"""Chunks of geounits of the finest geolevel whose intervals are computed again, unless all are. A chunk has some
hundred geounits. Sums find every change of an estimate that leaves the geounits above as they are. Twice as many take
twice the time; with half as many, fewer changes of standard errors and ends are found."""


_NEAR: Final = 1e-5
"""Relative distance of two medians of standard errors. One is of numbers of 32 bits, which have seven digits."""


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A release, as its files state it."""

    root: Path
    manifest: Manifest
    plan: StatedPlan
    hierarchies: Hierarchies
    allocation: Allocation


def _opened(root: Path, manifest: Manifest) -> _Opened:
    plan, hierarchies = stated_plan(root / MANIFEST, manifest.body["plan"]), read_hierarchies(root)
    digest = hierarchies.spine.digest().hex()
    require_fits(
        digest == manifest.body["inputs"].get("geography_sha256"),
        "the geography is another than `inputs` name",
    )
    return _Opened(
        root, manifest, plan, hierarchies, allocation_of(plan.strategy, hierarchies.spine, hierarchies.shares)
    )


def final_checks(root: Path, manifest: Manifest) -> list[str]:
    """Hold histograms, tables and microdata to every promise of the plan, and to each other.

    Returns:
        The names of the checks.
    Raises:
        SolverError: a count breaks a promise.
        StoreError: a file is missing or damaged, or there is one that no run of the plan writes.
    """
    refuse_earlier_tables(root, "Their counts cannot be compared")
    opened = _opened(root, manifest)
    plan, stated, spine = opened.plan, manifest.body["plan"], opened.hierarchies.spine
    constraints = read_constraints(root, stated, plan.schema, opened.hierarchies)
    published = read_kept(root, stated, plan.schema, spine)
    groups = first_groups(plan, constraints, published, spine).known if plan.outer else None
    checks = FinalChecks(plan, opened.hierarchies, constraints, published, groups)
    whole = frozenset(manifest.body.get("intervals", {}).get("tables", ()))
    promises = replace(checks.promises, whole=whole)
    _require_no_other(opened, [*spine.geolevels, *(area.name for area in promises.areas)])
    return check_release(root, promises, usable_cores()) + checks.limits(root)


def _require_no_other(opened: _Opened, areas: list[str]) -> None:
    """Refuse tables, histograms and microdata that are listed and that no run of the plan writes."""
    plan, spine = opened.plan, opened.hierarchies.spine
    tables = {table_name(area, query) for area in areas for query in plan.tables}
    for name in opened.manifest.digests:
        folder, _, file = name.rpartition("/")
        top = name.split("/")[0]
        if top == TABLES:
            known = folder in tables and file.startswith("part-")
        elif top == HISTOGRAM:
            known = name in {f"{HISTOGRAM}/{histogram_name(level)}" for level in spine.geolevels}
        elif top == MICRODATA:
            known = plan.microdata
        else:
            known = top not in ("evaluation", INTERVALS)
        require_fits(known, f"{name!a:.200} is a file that no run of this plan writes")


def require_measured(root: Path, manifest: Manifest) -> None:
    """Hold the noisy answers to the plan: of which queries and geounits, with which variances. Raises StoreError."""
    opened = _opened(root, manifest)
    plan, spine = opened.plan, opened.hierarchies.spine
    stored = StoredMeasurements(root, spine, opened.hierarchies.shares, manifest.digests)
    expected = {ANSWER_LABELS}
    for level, geolevel in enumerate(spine.geolevels):
        n_geounits = spine.n_geounits(level)
        for query in plan.written(geolevel, n_geounits):
            noisy = stored.measure(
                geolevel, query, 0, n_geounits, np.arange(plan.query(query).size, dtype=np.int64)
            )
            variances = opened.allocation.variances(geolevel, query, 0, n_geounits)
            same = np.array_equal(noisy.variances, variances)
            require_fits(
                same, f"the variances of {query!a:.80} at {geolevel!a:.80} are not those of the plan"
            )
            expected.add(measurement_folder(root, geolevel, query).relative_to(root).as_posix())
    if ANSWER_LABELS in manifest.digests:
        labels = read_published(root / ANSWER_LABELS)
        require_fits(
            labels.equals(answer_labels(measured_groups(plan, spine))), f"{ANSWER_LABELS} has other labels"
        )
    expected |= {f"{FOLDER}/{file_name(item.geolevel)}" for item in plan.subspace}
    for name in manifest.digests:
        if name.split("/")[0] == FOLDER:
            known = name in expected or name.rpartition("/")[0] in expected
            require_fits(known, f"{name!a:.200} holds measurements that the plan does not make")


def require_estimated(root: Path, manifest: Manifest) -> None:
    """Hold the counts to those that are estimated from the measurements now; raises TallyveilError."""
    from tallyveil.postprocess.estimate import estimate_release
    from tallyveil.postprocess.measured import open_measurements

    measured = open_measurements(root)
    schema, spine = measured.plan.schema, measured.hierarchies.spine
    with tempfile.TemporaryDirectory() as place:
        out = estimate_release(measured, Path(place) / "estimated").path
        for geolevel in spine.geolevels:
            ours, theirs = (read_histogram(folder, geolevel, schema, spine) for folder in (root, out))
            same = all(
                np.array_equal(getattr(ours, part), getattr(theirs, part))
                for part in ("offsets", "cells", "counts")
            )
            require_fits(same, f"the counts of {geolevel!a:.80} are not the estimate from the measurements")


def require_intervals(root: Path, manifest: Manifest, *, whole: bool) -> list[str]:
    """Hold estimates, standard errors and intervals to measurements and plan, and tables to intervals.

    Args:
        root: Release folder.
        manifest: Of the release.
        whole: Whether all geounits of the finest geolevel are computed. Otherwise some chunks of them are, and the
            others are held to the estimates of the geounits above.
    Returns:
        Families that were given when the intervals were made, of which the release does not know the members.
    Raises:
        StoreError: a number is another one, or cannot be computed from what is there.
    """
    content = made_intervals(root, manifest.run) or {}
    queries = list(dict.fromkeys(table["query"] for table in content["compared"]))
    release = open_release(root, kinds=MAIN_PRODUCT)
    question = IntervalQuestion(
        queries, None, None, content["level"], content["simultaneous"], not content["bounds_left_out"], True
    )
    job = question.job(release)
    derived = job.content() | {"tallyveil": content["tallyveil"], "format": content["format"]}
    for key, value in derived.items():
        require_fits(
            content.get(key) == value,
            f"{INTERVALS}/: {key} says {content.get(key)!a:.200}, not {value!a:.200}",
        )
    text = readme_of(release, job.model, job.level, job.covers(job.model), with_bounds=job.with_bounds)
    require_fits(
        (root / INTERVALS / README).read_text(encoding="utf-8") == text, f"{README} says something else"
    )
    workers = usable_cores()
    for fit in job.fits:
        tables = job.tables_of(fit, workers, Stopwatch(SilentObserver()))
        for step in tables.steps():
            if step.level is not None:
                _require_level(tables, step.level, whole=whole)
        for area in job.areas:
            _require_area(tables, area, whole=whole)
    geolevels = {*release.spine.geolevels, *(area.family.name for area in job.areas if not area.is_entity)}
    _require_compared(root, content, geolevels)
    _require_beside(root, manifest, content, sorted(job.tabulated))
    known = geolevels | {area.family.name for area in job.areas}
    return sorted({table["area"] for table in content["compared"]} - known)


def _require_level(tables: FitTables, number: int, *, whole: bool) -> None:
    """Compute the tables of a geolevel again, or a part of them."""
    job, level = tables.job, tables.level(number)
    spine, geolevel = job.release.spine, level.geolevel
    codes = spine.geocodes[number].text
    written = [
        collect(read_interval_table(job.release.root, geolevel, group.name), job.release.root, "intervals")
        for group in tables.interval_fit.groups
    ]
    for group, frame in zip(tables.interval_fit.groups, written, strict=True):
        require_fits(
            frame.height == len(codes) * group.size,
            f"a row of {group.name!a:.80} at {geolevel!a:.80} is missing",
        )
    is_part = not whole and number == spine.finest
    for start, stop, answers in _streamed(tables, level.answers, len(codes), is_part=is_part):
        place = 0
        for group, frame in zip(tables.interval_fit.groups, written, strict=True):
            columns = slice(place, place := place + group.size)
            part = Answers(answers.estimates[:, columns], answers.variances[:, columns])
            published = level.published([group], start, stop)
            _require_rows(tables, frame, group.size, (start, stop), codes, published, part)
    if is_part and number:
        _require_sums(tables, number, written)


def _streamed(
    tables: FitTables, answers: LevelAnswers, n: int, *, is_part: bool
) -> Iterator[tuple[int, int, Answers]]:
    step = answers.at_once
    if not is_part or n <= SAMPLED * step:
        yield from answers.stream(workers=tables.workers)
        return
    # Spread evenly: which geounits are looked at is no secret, and the sums below cover the others.
    for start in np.linspace(0, (n - 1) // step, SAMPLED, dtype=np.int64) * step:
        yield from answers.stream((int(start), min(int(start) + step, n)), workers=tables.workers)


def _require_rows(
    tables: FitTables,
    frame: pl.DataFrame,
    size: int,
    rows: tuple[int, int],
    codes: pl.Series,
    published: Integers | None,
    part: Answers,
) -> None:
    job, (start, stop) = tables.job, rows
    together = len(codes) * size if job.simultaneous else 1
    ends = intervals_if_any(tables.interval_fit.model, part, level=job.level, simultaneous=together)
    known = np.isfinite(part.variances)
    here = frame[start * size : stop * size]
    # Written to six decimals. A sum of floats may fall on the other side of a half on another machine.
    digits = 1.5 * 10.0**-DECIMALS
    columns = {
        "estimate": (np.where(known, part.estimates, np.nan), digits),
        "standard_error": (np.where(known, part.standard_errors, np.nan), digits),
        "lower": (np.where(np.isfinite(ends.low), ends.low, np.nan), 0.0),
        "upper": (np.where(np.isfinite(ends.high), ends.high, np.nan), 0.0),
    }
    same = here["geocode"].equals(codes[start:stop].gather(np.repeat(np.arange(stop - start), size)))
    require_fits(same, f"geocodes from {codes[start]!a:.80} on are not those of the geography")
    same = published is None or np.array_equal(here["count"].to_numpy(), published.ravel())
    require_fits(same, f"counts from {codes[start]!a:.80} on are not those of the release")
    for name, (derived, most) in columns.items():
        # A number that cannot be told is null in a table. As a float it is NaN.
        same = np.allclose(here[name].to_numpy(), derived.ravel(), rtol=0, atol=most, equal_nan=True)
        require_fits(same, f"{name} of some of the geounits from {codes[start]!a:.80} on is not what follows")


def _require_area(tables: FitTables, area: IntervalArea, *, whole: bool) -> None:
    """Compute the tables of areas off the spine again, or hold their estimates to those of their finest geounits."""
    job, family = tables.job, area.family
    root, spine = job.release.root, job.release.spine
    if whole:
        regions = [region_of(spine, family.members_of(entity)) for entity in range(family.n_entities)]
        answers = region_answers(tables.fit, regions, tables.questions, workers=tables.workers)
        published = tables.published_of(family)
    place = 0
    for group in tables.interval_fit.groups:
        columns = slice(place, place := place + group.size)
        frame = collect(read_interval_table(root, family.name, group.name), root, INTERVALS)
        require_fits(
            frame.height == family.n_entities * group.size, f"a row of {family.name!a:.80} is missing"
        )
        if whole:
            part = Answers(answers.estimates[:, columns], answers.variances[:, columns])
            rows, codes = (0, family.n_entities), pl.Series(family.codes)
            here = None if published is None else published[:, columns]
            _require_rows(tables, frame, group.size, rows, codes, here, part)
            continue
        finest = collect(read_interval_table(root, spine.geolevels[-1], group.name), root, INTERVALS)
        if frame["estimate"].null_count() or finest["estimate"].null_count():
            continue
        by_geounit = finest["estimate"].to_numpy().reshape(-1, group.size)
        members = [family.members_of(entity) for entity in range(family.n_entities)]
        sums = np.array([by_geounit[geounits].sum(axis=0) for geounits in members]).reshape(-1, group.size)
        apart = np.abs(sums - frame["estimate"].to_numpy().reshape(-1, group.size))
        most = (np.array([len(geounits) for geounits in members])[:, None] + 1) * 10.0**-DECIMALS
        require_fits(bool((apart <= most).all()), f"estimates of {family.name!a:.80} do not add up")


def _require_sums(tables: FitTables, number: int, written: list[pl.DataFrame]) -> None:
    """Estimates of the finest geolevel add up to those of the geounits above, and intervals lie around them."""
    job = tables.job
    spine = job.release.spine
    above = spine.geolevels[number - 1]
    # A geolevel that steps of the spine replaced has tables of its original geounits, which are areas of their own.
    if above in {area.family.name for area in job.areas}:
        return
    begins = spine.child_offsets[number - 1]
    for group, frame in zip(tables.interval_fit.groups, written, strict=True):
        parents = collect(
            read_interval_table(job.release.root, above, group.name), job.release.root, "intervals"
        )
        if frame["estimate"].null_count() or parents["estimate"].null_count():
            continue
        estimates = frame["estimate"].to_numpy().reshape(-1, group.size)
        sums = np.add.reduceat(estimates, begins[:-1], axis=0)
        children = np.diff(begins)[:, None] + 1
        apart = np.abs(sums - parents["estimate"].to_numpy().reshape(-1, group.size))
        # Each number is rounded to six decimals.
        require_fits(
            bool((apart <= children * 10.0**-DECIMALS).all()),
            f"estimates of {group.name!a:.80} do not add up",
        )
        _require_order(frame, group.name)


def _require_order(frame: pl.DataFrame, query: str) -> None:
    """The lower end lies at or below the upper one, and no standard error is negative."""
    wrong = frame.filter((pl.col("lower") > pl.col("upper")) | (pl.col("standard_error") < 0))
    require_fits(wrong.height == 0, f"an interval of {query!a:.80} has its ends in the wrong order")


def _require_compared(root: Path, content: JsonObject, geolevels: set[str]) -> None:
    """How the counts lie against their intervals is what the manifest of the intervals says."""
    tables = {table_name(table["area"], table["query"], INTERVALS) for table in content["compared"]}
    there = {file["path"].rpartition("/")[0] for file in content["files"]}
    require_fits(tables == there, f"{INTERVALS}/: other tables are compared than there are")
    for table in content["compared"]:
        require_fits(
            table["is_entity"] == (table["area"] not in geolevels), f"{INTERVALS}/: is_entity is wrong"
        )
        frame = collect(read_interval_table(root, table["area"], table["query"]), root, "intervals")
        errors = frame["standard_error"].drop_nulls().to_numpy()
        count = pl.col("count") if "count" in frame.columns else pl.lit(None, pl.Int64)
        errors = errors[errors > 0]
        derived = {
            "answers": frame.height,
            "undetermined": frame["estimate"].null_count(),
            "below": frame.filter(count < pl.col("lower")).height,
            "above": frame.filter(count > pl.col("upper")).height,
        }
        same = all(table[name] == number for name, number in derived.items())
        stated, middle = table["standard_error"], float(np.median(errors)) if len(errors) else None
        near = stated is None if middle is None else abs(middle - (stated or 0.0)) <= _NEAR * middle
        require_fits(
            same and near,
            f"{INTERVALS}/: what is said of {table['query']!a:.80} at {table['area']!a:.80} is wrong",
        )


def _require_beside(root: Path, manifest: Manifest, content: JsonObject, queries: list[str]) -> None:
    """The columns beside the counts of a table are those of its intervals."""
    stated = manifest.body.get("intervals", {}).get("tables", [])
    tabulated = {name.rpartition("/")[0] for name in manifest.digests}
    with_columns = {
        parquet_metadata(root / name)["tallyveil.query"]
        for name in manifest.digests
        if name.startswith(f"{TABLES}/") and "tallyveil.level" in parquet_metadata(root / name)
    }
    require_fits(
        stated == sorted(with_columns),
        f"{sorted(with_columns)} have intervals, and the manifest names {stated}",
    )
    require_fits(with_columns <= set(queries), "tables have columns of intervals that there are not")
    for area, query in ((table["area"], table["query"]) for table in content["compared"]):
        if query in stated and table_name(area, query) in tabulated:
            ours, theirs = (
                collect(
                    scan_parquet(*sorted(table_folder(root, area, query, kind).glob("part-*.parquet"))),
                    root,
                    kind,
                )
                for kind in (TABLES, INTERVALS)
            )
            require_fits(
                ours.equals(theirs), f"the table of {query!a:.80} for {area!a:.80} has other intervals"
            )
