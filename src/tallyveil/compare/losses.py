"""What users lose: how far published tables are from the true ones, in the measures that users ask about.

Every number is one row of a tidy table: `areas` (a geolevel or a family of entities), `query`, `part` (a class of size,
a pair of groups, or "all"), `measure`, `value`, and `truth`, the same measure of the true tables where it is not 0 by
definition. A measure that a method does not allow, such as the error of a table that it does not show, is null.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl
from scipy import sparse
from scipy.stats import rankdata

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.inputs import SharedInput, answer_matrix
from tallyveil.compare.published import Published, PublishedTable
from tallyveil.files.evaluation import ALL_SIZES, SizeClass, size_classes
from tallyveil.schema.query_group import QueryGroup

FEWEST: Final = 20
"""Areas from which ranks, slopes and indices over the areas are computed. With half as many they say little about a
method; with twice as many most States would have none at counties."""

ERROR_OF_ALL: Final = "mean absolute error, stand-ins included"
"""The error of all counts, hidden ones too. The error of shown counts alone would be 0 for every method that hides."""

COLUMNS: Final = {
    "areas": pl.String,
    "query": pl.String,
    "part": pl.String,
    "measure": pl.String,
    "value": pl.Float64,
    "truth": pl.Float64,
}


@dataclass(frozen=True, slots=True)
class Loss:
    """One number of the tidy table; the attributes are its columns."""

    areas: str
    query: str
    part: str
    measure: str
    value: float | None
    truth: float | None = None


def losses_of(shared: SharedInput, published: Published, sensitive: str) -> pl.DataFrame:
    """Every measure of one method.

    Args:
        shared: The input.
        published: What the method publishes of it.
        sensitive: Attribute whose levels are the groups of indices, ranks and slopes.
    Privacy: none.
    """
    rows = [
        *_errors(shared, published),
        *_additivity(shared, published),
        *_of_groups(shared, published, sensitive),
    ]
    fields = [(row.areas, row.query, row.part, row.measure, row.value, row.truth) for row in rows]
    return pl.DataFrame(fields, schema=COLUMNS, orient="row")


GAP: Final = "mean absolute difference of sums"

ERROR_OF_CHANGE: Final = "mean absolute error of the change to the later year"

SMALL_CHANGE: Final = 5
"""Largest change that is called small. Changes of a block from one year to the next are mostly smaller; at twice this
the share says less about them."""


def change_losses(
    shared: SharedInput, published: Published, later: SharedInput, published_later: Published
) -> pl.DataFrame:
    """How far published changes from one year to a later one are from the true ones, in the columns of `losses_of`.

    Privacy: none.
    """
    rows = []
    for areas in shared.areas:
        for query in shared.queries:
            name = areas.name, query.name
            first, second = published.tables[name], published_later.tables[name]
            shown = first.shown & second.shown
            true = later.truth[name] - shared.truth[name]
            change = second.counts - first.counts
            error = np.abs(change - true)[shown]
            small = shown & (true != 0) & (np.abs(true) <= SMALL_CHANGE)
            rows += [
                (*name, ALL_SIZES, ERROR_OF_CHANGE, float(error.mean()) if error.size else None, None),
                (
                    *name,
                    ALL_SIZES,
                    "share of unchanged counts published as changed",
                    _share(change != 0, shown & (true == 0)),
                    None,
                ),
                (
                    *name,
                    ALL_SIZES,
                    f"share of changes up to {SMALL_CHANGE} published in the other direction or as none",
                    _share(np.sign(change) != np.sign(true), small),
                    None,
                ),
            ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _errors(shared: SharedInput, published: Published) -> Iterator[Loss]:
    for areas in shared.areas:
        totals = areas.sums(shared.counts).sum(axis=1)
        classes = size_classes(totals)
        for query in shared.queries:
            name = areas.name, query.name
            true, table = shared.truth[name], published.tables[name]
            for measure, value in _measures(true, table):
                yield Loss(*name, ALL_SIZES, measure, value)
            for number, size in enumerate(SizeClass):
                rows = np.flatnonzero(classes == number)
                if rows.size:
                    part = PublishedTable(
                        table.counts[rows],
                        None if table.hidden is None else table.hidden[rows],
                        table.stand_in,
                    )
                    yield from (
                        Loss(*name, size.value, measure, value)
                        for measure, value in _measures(true[rows], part)
                    )


def _measures(true: Integers, table: PublishedTable) -> Iterator[tuple[str, float | None]]:
    """Measures of the counts of one table, or of some of its areas."""
    shown = table.shown
    error = (table.counts - true)[shown].astype(np.float64)
    some = error.size > 0
    size = np.abs(error)
    yield "mean absolute error", float(size.mean()) if some else None
    # Of all counts: who needs a number puts the stand-in where none is shown.
    yield ERROR_OF_ALL, float(np.abs(table.filled() - true).mean())
    yield "root mean square error", float(np.sqrt((error**2).mean())) if some else None
    yield (
        "95th percentile of the absolute error",
        float(np.quantile(size, 0.95, method="higher")) if some else None,
    )
    yield "bias", float(error.mean()) if some else None
    nonzero = true > 0
    yield "share of counts above zero hidden", _share(~shown, nonzero)
    yield "share of zeros published above zero", _share((table.counts > 0) & shown, ~nonzero)
    yield "share of counts above zero published as zero", _share((table.counts == 0) & shown, nonzero)


def _share(what: Bools, of: Bools) -> float | None:
    number = int(of.sum())
    return int((what & of).sum()) / number if number else None


def _additivity(shared: SharedInput, published: Published) -> Iterator[Loss]:
    """Shares of sums that disagree with their parts, where the sum and all parts are shown."""
    for level in range(1, shared.n_geolevels):
        above, here = shared.areas[level - 1], shared.areas[level]
        parents = shared.parents(level)
        ones = np.ones(parents.size, dtype=np.int64)
        matrix = sparse.csr_matrix(
            (ones, (parents, np.arange(parents.size))), shape=(above.n_areas, here.n_areas)
        )
        for query in shared.queries:
            whole, parts = published.tables[above.name, query.name], published.tables[here.name, query.name]
            sums = np.asarray(matrix @ parts.counts)
            complete = whole.shown & (np.asarray(matrix @ (~parts.shown).astype(np.int64)) == 0)
            value = _share(sums != whole.counts, complete)
            part = f"sums of {here.name}"
            yield Loss(above.name, query.name, part, "share of sums that disagree", value)
            yield Loss(above.name, query.name, part, GAP, _gap(sums - whole.counts, complete))
    detailed = shared.detailed
    for areas in shared.areas if detailed is not None else ():
        parts = published.tables[areas.name, detailed.name]  # type: ignore[union-attr]
        for query in shared.queries:
            if query is detailed:
                continue
            matrix = answer_matrix(query)
            whole = published.tables[areas.name, query.name]
            sums = np.asarray(parts.counts @ matrix)
            complete = whole.shown & (np.asarray((~parts.shown).astype(np.int64) @ matrix) == 0)
            value = _share(sums != whole.counts, complete)
            yield Loss(areas.name, query.name, "sums of the cells", "share of sums that disagree", value)
            yield Loss(areas.name, query.name, "sums of the cells", GAP, _gap(sums - whole.counts, complete))


def _gap(difference: Integers, of: Bools) -> float | None:
    """Mean absolute difference between published sums and the sums of their parts."""
    return float(np.abs(difference[of]).mean()) if of.any() else None


def group_query(shared: SharedInput, sensitive: str) -> QueryGroup | None:
    """A published table of the attribute alone; None if there is none."""
    wanted = shared.schema.attribute(sensitive)
    for query in shared.queries:
        named = query.named_factors
        if len(named) == 1 and named[0].attribute == wanted.name and named[0].is_identity:
            return query
    return None


def _of_groups(shared: SharedInput, published: Published, sensitive: str) -> Iterator[Loss]:
    """Indices over areas: dissimilarity, isolation, majorities, ranks and slopes of the groups of one attribute."""
    query = group_query(shared, sensitive)
    if query is None:
        return
    labels = shared.schema.attribute(sensitive).levels
    totals = shared.truth[shared.areas[0].name, query.name].sum(axis=0)
    largest = int(totals.argmax())
    for areas in shared.areas:
        if areas.n_areas < FEWEST:
            continue
        table = published.tables[areas.name, query.name]
        true = shared.truth[areas.name, query.name]
        visible = bool(table.shown.any())
        counts = table.filled()

        loss = partial(_loss, areas.name, query.name, visible)
        for group in range(len(labels)):
            if group == largest or totals[group] < FEWEST:
                continue
            part = f"{labels[group]} and {labels[largest]}"
            pair = group, largest
            yield loss(part, "dissimilarity", _dissimilarity(counts, pair), _dissimilarity(true, pair))
            yield loss(labels[group], "isolation", _isolation(counts, group), _isolation(true, group))
        yield loss(
            labels[largest],
            "areas whose majority is another",
            float((_majority(counts, largest) != _majority(true, largest)).sum()),
            0.0,
        )
        yield loss(labels[largest], "mean displacement of ranks", _displacement(counts, true, largest), 0.0)
        yield loss(
            labels[largest], "slope of shares on sizes", _slope(counts, largest), _slope(true, largest)
        )


def _loss(areas: str, query: str, visible: bool, part: str, measure: str, value: float, truth: float) -> Loss:
    return Loss(areas, query, part, measure, value if visible else None, truth)


def _dissimilarity(counts: Integers, pair: tuple[int, int]) -> float:
    """Half the sum of the differences between the two groups' shares of areas; 0 is even, 1 is apart.

    Source: Duncan and Duncan 1955.
    """
    first, second = (np.maximum(counts[:, group], 0).astype(np.float64) for group in pair)
    if first.sum() == 0 or second.sum() == 0:
        return 0.0
    return float(0.5 * np.abs(first / first.sum() - second / second.sum()).sum())


def _isolation(counts: Integers, group: int) -> float:
    """Mean over the group of its share of the area where each lives: 1 if they live among themselves.

    Source: Bell 1954; Massey and Denton 1988.
    """
    members = np.maximum(counts[:, group], 0).astype(np.float64)
    return float(members @ _shares(np.maximum(counts, 0), group) / max(members.sum(), 1))


def _majority(counts: Integers, group: int) -> Bools:
    """Areas in which the group has more than half of the people, as a redistricting threshold asks."""
    return np.asarray(2 * counts[:, group] > counts.sum(axis=1))


def _shares(counts: Integers, group: int) -> Floats:
    return np.asarray(counts[:, group] / np.maximum(counts.sum(axis=1), 1))


def _displacement(counts: Integers, true: Integers, group: int) -> float:
    """Mean change of an area's rank by the share of the group, as a share of the number of areas with people."""
    inhabited = true.sum(axis=1) > 0
    ranks = [rankdata(_shares(side[inhabited], group)) for side in (counts, true)]
    return float(np.abs(ranks[0] - ranks[1]).mean() / max(inhabited.sum(), 1))


def _slope(counts: Integers, group: int) -> float:
    """Slope of the group's share on the logarithm of 1 plus the size, by least squares over inhabited areas."""
    size = counts.sum(axis=1)
    inhabited = size > 0
    if inhabited.sum() < FEWEST:
        return 0.0
    x = np.log1p(size[inhabited])
    x = x - x.mean()
    return float((x @ _shares(counts[inhabited], group)) / max(x @ x, 1e-12))


def value_of(
    losses: pl.DataFrame, areas: str, query: str, measure: str, part: str = ALL_SIZES
) -> float | None:
    """One number of a method's table; None where it is null or not there."""
    row = losses.filter(
        (pl.col("areas") == areas)
        & (pl.col("query") == query)
        & (pl.col("measure") == measure)
        & (pl.col("part") == part)
    )
    return None if row.is_empty() else row["value"][0]
