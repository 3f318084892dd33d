"""Chosen counts of a finished release: published counts, unbiased estimates and their exact covariance matrix.

As for a district (`district`), the measurements are not needed. Covariances follow from the plan, the geography and the
public bounds. There is one sweep of the tree for each pair of areas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals import (
    TreeCovariance,
    TreeModel,
    answer_covariance,
    questions_of,
    region_of,
    tree_covariance,
)
from tallyveil.estimation.intervals.interval import refuse_level
from tallyveil.files.marks import marks_of
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.derived.area_counts import (
    NOT_DETERMINED,
    area_family,
    bounds_choice,
    published_counts,
    why_no_estimates,
    written_estimates,
)
from tallyveil.postprocess.derived.counted_cells import CountedCells
from tallyveil.postprocess.derived.quantities import Quantities
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release, release_model
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.system import usable_cores


@dataclass(frozen=True, slots=True, eq=False)
class ChosenCount:
    """One count that is asked for.

    Attributes:
        name: Its name.
        area: Finest geocodes of its area.
        query: The query.
        answer: Number of the answer.
    """

    name: str
    area: pl.Series
    query: QueryGroup
    answer: int


def quantities_of(
    root: Path,
    chosen: Sequence[ChosenCount],
    *,
    level: float = 0.95,
    with_bounds: bool = True,
    workers: int | None = None,
) -> Quantities:
    """Chosen counts of a release together, with the exact covariance matrix of their estimates.

    Args:
        root: Release folder. Nothing in `measurements/` is read.
        chosen: The counts, one or more.
        level: Coverage of every interval that is made from them.
        with_bounds: Whether zeros of public bounds are used. If `intervals/` exists, the choice made there is used.
        workers: Number of threads; None for one per core.
    Raises:
        StoreError: the folder holds no finished release, or lacks its bounds.
        GeographyError: a geocode is unknown or given twice.
        ConfigError: the level is out of range.
    """
    refuse_level(level)
    release = open_release(root)
    interval_manifest, with_bounds = bounds_choice(release, with_bounds=with_bounds)
    model = release_model(release, with_bounds=with_bounds)
    family, area = _areas(release.spine, [count.area for count in chosen])
    cells = np.array([_cells(count.query, count.answer) for count in chosen])
    # Once for all; the block of each pair of areas follows from it.
    tree = tree_covariance(model, workers=workers or usable_cores())
    covariance = _covariance(release, tree, family, area, cells)
    estimates, lacking = _estimates(
        release, family, area, chosen, has_intervals=interval_manifest is not None
    )
    # What is known exactly has a variance of rounding errors alone; it becomes zero with all its covariances.
    exact = np.diag(covariance) < model.rounding
    covariance[exact] = covariance[:, exact] = 0.0
    estimates = np.where(exact, np.rint(estimates), estimates)
    there = np.isfinite(estimates) & np.isfinite(np.diag(covariance))
    reasons = [
        None if given else reason or NOT_DETERMINED for given, reason in zip(there, lacking, strict=True)
    ]
    # Read-only: quantities that were derived share these arrays.
    covariance.flags.writeable = estimates.flags.writeable = False
    return Quantities(
        tuple(count.name for count in chosen),
        _published(release, family, area, chosen),
        estimates,
        covariance,
        level,
        tuple(reasons),
        model,
        _counted(model, family, area, cells),
        marks_of(release.manifest).warnings,
    )


def _areas(spine: Spine, given: Sequence[pl.Series]) -> tuple[EntityFamily, Integers]:
    """The different areas as a family, and the area of each count. An area may be given several times."""
    # Equal sets given in another order are one area, which saves a sweep for each pair.
    codes = {id(area): tuple(area.sort()) for area in given}
    number = {area_codes: place for place, area_codes in enumerate(dict.fromkeys(codes.values()))}
    digits = len(str(len(number)))
    named = {
        f"area {place + 1:0{digits}}": pl.Series(area_codes, dtype=pl.String)
        for area_codes, place in number.items()
    }
    return area_family(spine, named), np.array([number[codes[id(area)]] for area in given], np.int64)


def _cells(query: QueryGroup, answer: int) -> Floats:
    """Weight of each cell in an answer: 1 or 0."""
    cells, answers = query.counted_in(np.arange(query.n_cells))
    weights = np.zeros(query.n_cells)
    weights[cells[answers == answer]] = 1.0
    return weights


def _covariance(
    release: FinishedRelease, covariance: TreeCovariance, family: EntityFamily, area: Integers, cells: Floats
) -> Floats:
    """The matrix, from one block for each pair of areas."""
    rows = [np.flatnonzero(area == number) for number in range(family.n_entities)]
    regions = [region_of(release.spine, family.members_of(number)) for number in range(family.n_entities)]
    asked = [questions_of(covariance.algebra, cells[counts_of_area]) for counts_of_area in rows]
    matrix = np.empty((len(area), len(area)))
    for row in range(len(rows)):
        # Each pair once; the other half is the transpose.
        for other in range(row, len(rows)):
            block = answer_covariance(covariance, (regions[row], asked[row]), (regions[other], asked[other]))
            matrix[np.ix_(rows[row], rows[other])] = block
            matrix[np.ix_(rows[other], rows[row])] = block.T
    # Symmetric to the last bit, which quadratic forms below rely on.
    return 0.5 * (matrix + matrix.T)


def _estimates(
    release: FinishedRelease,
    family: EntityFamily,
    area: Integers,
    chosen: Sequence[ChosenCount],
    *,
    has_intervals: bool,
) -> tuple[Floats, list[str | None]]:
    """Estimate of each count, NaN where there is none; and why its query has none."""
    estimates = np.full(len(chosen), np.nan)
    reasons: list[str | None] = [None] * len(chosen)
    for query in {count.query.name: count.query for count in chosen}.values():
        rows = [place for place, count in enumerate(chosen) if count.query.name == query.name]
        answers = [chosen[place].answer for place in rows]
        written = written_estimates(release, family, query, answers) if has_intervals else None
        if written is not None:
            estimates[rows] = written[area[rows], answers]
        reason = why_no_estimates(has_intervals=has_intervals, written=written is not None, query=query.name)
        for place in rows:
            reasons[place] = reason
    return estimates, reasons


def _published(
    release: FinishedRelease, family: EntityFamily, area: Integers, chosen: Sequence[ChosenCount]
) -> Integers | None:
    groups = list({count.query.name: count.query for count in chosen}.values())
    counts = published_counts(release, family, groups)
    if counts is None:
        return None
    begins = np.cumsum([0, *(group.size for group in groups)])
    begin = {group.name: int(start) for group, start in zip(groups, begins, strict=False)}
    return counts[area, [begin[count.query.name] + count.answer for count in chosen]]


def _counted(model: TreeModel, family: EntityFamily, area: Integers, cells: Floats) -> CountedCells:
    inside = np.zeros((family.n_entities, family.n_finest), np.bool_)
    for number in range(family.n_entities):
        inside[number, family.members_of(number)] = True
    # Finest geounits that the same areas have need no row of their own: few classes instead of millions of blocks.
    _, first = np.unique(np.packbits(inside, axis=0), axis=1, return_index=True)
    possible = model.schema.possible(np.arange(model.schema.size))
    return CountedCells(inside[:, first].T[:, area], (cells > 0) & possible)
