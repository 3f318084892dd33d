"""Counts of any sets of finest geounits of a finished release: published ones, and estimates from `intervals/`.

The measurements are not needed. The estimate of a set is the sum of the estimates of its finest geounits.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import GeographyError
from tallyveil.files.geography import GEOGRAPHY
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.intervals import DECIMALS, made_intervals, read_interval_answers
from tallyveil.files.manifest_files import require_unchanged, require_unchanged_files
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import entities_from_pairs
from tallyveil.postprocess.constraints.constraint_files import BOUNDS
from tallyveil.postprocess.intervals.areas import family_counts
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.schema.query_group import QueryGroup

NOT_DETERMINED = "the measurements do not determine it, or not in every finest geounit"
"""Why a count has no estimate although its query has intervals."""


def area_family(spine: Spine, areas: Mapping[str, pl.Series]) -> EntityFamily:
    """Sets of finest geounits as the entities of one family.

    Args:
        spine: The spine of the release.
        areas: Finest geocodes of each set, by its name for messages. The entities are numbered in this order.
    Raises:
        GeographyError: a set is empty, or a geocode is unknown or twice in one set.
    """
    members = []
    for name, geocodes in areas.items():
        if not len(geocodes):
            raise GeographyError(f"{name} has no geocodes, wanted one or more of finest geounits.")
        named = pl.Series([name]).new_from_index(0, len(geocodes))
        members.append(entities_from_pairs(spine, name, geocodes, named).members)
    offsets = np.cumsum([0, *(len(rows) for rows in members)]).astype(np.int64)
    # Padded, so that texts sort as the numbers do.
    numbers = tuple(f"{number:010d}" for number in range(len(areas)))  # the codes of a family rise
    return EntityFamily("areas", numbers, offsets, np.concatenate(members), spine.n_geounits(spine.finest))


def bounds_choice(release: FinishedRelease, *, with_bounds: bool) -> tuple[dict[str, Any] | None, bool]:
    """The manifest of `intervals/`, if the release has any, and whether zeros of public bounds are used.

    Args:
        release: The release.
        with_bounds: Whether they are used if there is no `intervals/`. Otherwise, the choice made there is used.
    Raises:
        StoreError: the release lacks its bounds, or a file was changed.
    """
    interval_manifest = made_intervals(release.root, release.manifest.run)
    # The choice made for `intervals/` is kept, or standard errors would not belong to the estimates.
    if interval_manifest is not None:
        with_bounds = not interval_manifest["bounds_left_out"]
    places = {GEOGRAPHY, BOUNDS} if with_bounds else {GEOGRAPHY}
    require_unchanged_files(release.root, release.manifest, places)
    return interval_manifest, with_bounds


def published_counts(
    release: FinishedRelease, family: EntityFamily, groups: Sequence[QueryGroup]
) -> Integers | None:
    """Published answers, one query after the other; shape (n_entities, answers); None without counts in the folder.

    Raises:
        StoreError: the file of the counts was changed.
    """
    if not counts_path(release).is_file():
        return None
    require_unchanged(release.root, release.manifest, counts_path(release))
    counts = read_histogram(release.root, release.spine.geolevels[-1], release.schema, release.spine)
    return family_counts(counts, family, groups)


def counts_path(release: FinishedRelease) -> Path:
    """The file of the published counts of finest geounits."""
    return histogram_path(release.root, release.spine.geolevels[-1])


def written_estimates(
    release: FinishedRelease, family: EntityFamily, group: QueryGroup, answers: Sequence[int] | None = None
) -> Floats | None:
    """Sums of the estimates of finest geounits.

    Args:
        release: The release.
        family: The sets.
        group: The query.
        answers: Answers that are wanted; the others stay NaN. None for all.
    Returns:
        Shape (n_entities, group.size), NaN where one of the estimates is not determined; None if no estimates of the
        query are written.
    """
    finest = release.spine.geolevels[-1]
    rows = read_interval_answers(release.root, finest, group)
    if rows is None:
        return None
    if answers is not None:
        rows = rows.filter(pl.col("answer").is_in(list(answers)))
    entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    codes = release.spine.geocodes[-1].text.gather(family.members).cast(pl.String)
    # One row for each pair of area and finest geounit: a block in two areas counts in both.
    members = pl.LazyFrame({"geocode": codes.alias("geocode"), "entity": entity})
    sums = (
        rows.with_columns(pl.col("geocode").cast(pl.String))
        .join(members, on="geocode")
        .group_by("entity", "answer")
        .agg(pl.col("estimate").sum(), pl.col("estimate").null_count().alias("lacking"))
        # An area has an estimate only if each of its terms has one.
        .filter(pl.col("lacking") == 0)
        .collect()
    )
    estimates = np.full((family.n_entities, group.size), np.nan)
    estimates[sums["entity"].to_numpy(), sums["answer"].to_numpy()] = sums["estimate"].to_numpy()
    return np.round(estimates, DECIMALS)  # as exact as its terms, and the same whatever their order


def why_no_estimates(*, has_intervals: bool, written: bool, query: str) -> str | None:
    """Why a query has no estimates; None if it has estimates.

    Args:
        has_intervals: Whether the release has intervals.
        written: Whether the query has intervals.
        query: Name of the query.
    """
    if written:
        return None
    if not has_intervals:
        return (
            "they are sums of those in RUN/intervals, which `tallyveil intervals RUN` makes from full measurements; "
            "standard errors need neither"
        )
    return (
        f"RUN/intervals has no table of '{query}'; `tallyveil intervals RUN --tables` makes it from full measurements "
        "(name every query wanted: the new tables take the place of those there)"
    )
