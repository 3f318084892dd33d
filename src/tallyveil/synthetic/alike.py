"""Made-up records for any schema, geography and public bounds, to try a release on.

Nobody in them is real. Geounits differ in size and many are empty; in each attribute few levels hold most records, and
geounits differ more from each other the further apart they are. Records lie only where structural zeros and bounds
allow it, and every lower bound is reached.

Steps. A number of records is drawn for every finest geounit. Each record draws a level of every attribute from shares
that the geounit's parent has, until the cell is one that may hold records there. A record without luck draws among
these cells, by the shares of the root. Then records are added where a lower bound is not reached, and removed where an
upper bound is exceeded, until no bound is broken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import ConstraintError
from tallyveil.geography.spine import Spine
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

EMPTY_SHARE = 0.38
"""Part of the finest geounits without records, as among census blocks (`tallyveil.synthetic.people`)."""
SIZE_SPREAD = 1.0
"""Standard deviation of the logarithm of a finest geounit's size, as for census blocks."""
SKEW = 2.5
"""Standard deviation of the logarithms of the levels' shares. The largest of eight levels then has about two thirds of
the records, and forty people of the redistricting data are in about twelve cells. At half of it, all levels are
frequent; at twice, one level has nearly all records. Shares fall from the first level to the last, because code lists
tend to begin with what is frequent, such as people in households."""
STRAY = 0.5
"""Standard deviation by which the logarithms of a geounit's shares differ from those of its parent, as in the census
populations of this package."""
DRAWS = 20
"""How often a record draws a cell by the shares of its parent geounit."""
ROUNDS = 20
"""How often bounds are mended in turn. One round mends bounds that do not meet."""


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Public bounds on the answers of a query.

    Attributes:
        name: Name in errors.
        query: The bounded query.
        row: The row of bounds that each finest geounit belongs to; shape (finest geounits,).
        lower: Shape (rows, query.size).
        upper: The same.
    """

    name: str
    query: QueryGroup
    row: Integers
    lower: Integers
    upper: Integers

    def allows(self, geounits: Integers, cells: Integers) -> Bools:
        """Whether no bound of zero forbids a record in a cell of a finest geounit, for pairs of both."""
        allowed = np.ones(len(cells), np.bool_)
        for layer in self.query.layers:
            answer = layer.answers_of(cells)
            # An upper bound of 0 forbids; any other leaves room, and is kept by mending.
            allowed &= (answer < 0) | (self.upper[self.row[geounits], answer] > 0)
        return allowed

    def counts(self, geounits: Integers, cells: Integers) -> Integers:
        """Number of records in every answer of every row."""
        sums = np.zeros(self.lower.size, np.int64)
        for layer in self.query.layers:
            answer = layer.answers_of(cells)
            # Row and answer in one number, so that all answers of all rows are counted in one call.
            place = (self.row[geounits] * self.query.size + answer)[answer >= 0]
            sums += np.bincount(place, minlength=len(sums))
        return sums.reshape(self.lower.shape)

    def counted(self, cells: Integers, answer: int) -> Bools:
        """Which cells count in an answer."""
        in_answer: Bools = np.any([layer.answers_of(cells) == answer for layer in self.query.layers], axis=0)
        return in_answer


def records_alike(
    schema: Schema, spine: Spine, limits: Sequence[Limits], records: int, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Make up records: the finest geounit and the cell of each.

    Args:
        schema: The universe.
        spine: The hierarchy.
        limits: Public bounds.
        records: Number of records, before bounds add or remove some.
        generator: Source of the random numbers.
    Raises:
        ConstraintError: no geounit can hold a record, or no records were found that satisfy the bounds.
    """
    allowed = _Allowed(schema, spine, limits)
    geounits = np.repeat(np.arange(len(allowed.pattern)), _sizes(spine, allowed, records, generator))
    roots = [_falling(attribute.size, generator) for attribute in schema.attributes]
    shares = [_cumulative(spine, root, generator) for root in roots]
    parent = spine.parents(spine.finest) if spine.n_levels > 1 else np.zeros(len(allowed.pattern), np.int64)
    cells = np.full(len(geounits), -1)
    # Rejection: all records that are left draw a cell at once, and those that may not lie there draw again.
    left = np.arange(len(geounits))
    for _ in range(DRAWS):
        if len(left) == 0:
            break
        drawn = [_drawn(attribute_shares, parent[geounits[left]], generator) for attribute_shares in shares]
        tried = schema.encode(np.column_stack(drawn))
        fits = schema.possible(tried)
        for item in limits:
            fits &= item.allows(geounits[left], tried)
        cells[left[fits]] = tried[fits]
        left = left[~fits]
    # For these, the cells that fit are rare: they choose among them, where rejection would go on for long.
    unlucky = allowed.pattern[geounits[left]]
    for pattern in np.unique(unlucky).tolist():
        among, records_there = allowed.cells(pattern), left[unlucky == pattern]
        # The root's shares, because those of every parent would make a table of parents by cells.
        weights = np.prod(
            [root[code] for root, code in zip(roots, schema.decode(among).T, strict=True)], axis=0
        )
        cells[records_there] = generator.choice(among, len(records_there), p=weights / weights.sum())
    return _mended(geounits, cells, allowed, generator)


class _Allowed:
    """Which cells may hold records, by geounit: geounits with the same bounds of zero have one pattern.

    Attributes:
        limits: The bounds.
        pattern: Of each finest geounit.
    """

    def __init__(self, schema: Schema, spine: Spine, limits: Sequence[Limits]) -> None:
        n_geounits = spine.n_geounits(spine.finest)
        self.limits = limits
        self._possible = np.flatnonzero(schema.possible(np.arange(schema.size)))
        self._cells_of_pattern: dict[int, Integers] = {}
        self._order = [np.argsort(item.row, kind="stable") for item in limits]
        if limits:
            # Geounits with the same bounds of zero allow the same cells, so that cells are found once for each pattern.
            marks = np.concatenate([item.upper[item.row] > 0 for item in limits], axis=1)
            _, self._first, pattern = np.unique(marks, axis=0, return_index=True, return_inverse=True)
            self.pattern = pattern.reshape(-1)
        else:
            self._first, self.pattern = np.zeros(1, np.int64), np.zeros(n_geounits, np.int64)

    def cells(self, pattern: int) -> Integers:
        """The cells that may hold records in geounits of a pattern."""
        if pattern not in self._cells_of_pattern:
            geounit = np.full(len(self._possible), self._first[pattern])
            fits = np.ones(len(self._possible), np.bool_)
            for item in self.limits:
                fits &= item.allows(geounit, self._possible)
            self._cells_of_pattern[pattern] = self._possible[fits]
        return self._cells_of_pattern[pattern]

    def members(self, place: int, row: int) -> Integers:
        """The finest geounits that a row of the bounds at a place among all bounds is about."""
        order = self._order[place]
        ends = np.searchsorted(self.limits[place].row[order], [row, row + 1])
        finest: Integers = order[ends[0] : ends[1]]
        return finest

    def habitable(self) -> Bools:
        """Whether each finest geounit can hold a record."""
        return np.array([len(self.cells(pattern)) > 0 for pattern in range(len(self._first))])[self.pattern]


def _sizes(spine: Spine, allowed: _Allowed, records: int, generator: np.random.Generator) -> Integers:
    """Number of records in every finest geounit."""
    habitable = allowed.habitable()
    if not habitable.any():
        raise ConstraintError(
            "the public bounds and the structural zeros leave no geounit in which there can be a record. Correct the "
            "tables of [[bounds]].",
            code="trial-records",
        )
    size = np.exp(generator.normal(0.0, SIZE_SPREAD, len(habitable)))
    size *= habitable & (generator.random(len(habitable)) >= EMPTY_SHARE)
    # In a small geography all may be drawn empty; then all that can hold records are alike.
    size = size if size.any() else habitable.astype(np.float64)
    sizes: Integers = generator.multinomial(records, size / size.sum())
    return sizes


def _falling(n_levels: int, generator: np.random.Generator) -> Floats:
    """Shares of an attribute's levels at the root, from large to small."""
    shares = np.sort(np.exp(generator.normal(0.0, SKEW, n_levels)))[::-1]
    levels: Floats = shares / shares.sum()
    return levels


def _cumulative(spine: Spine, root: Floats, generator: np.random.Generator) -> Floats:
    """Cumulative shares of an attribute's levels in every parent of finest geounits."""
    logs = np.log(root) + np.zeros((spine.n_geounits(0), 1))
    # One random step a geolevel: geounits under one parent share all steps above it, so neighbours are alike.
    for level in range(1, spine.finest):
        logs = logs[spine.parents(level)]
        logs += generator.normal(0.0, STRAY, logs.shape)
    shares = np.exp(logs)
    cumulative: Floats = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
    return cumulative


def _drawn(shares: Floats, parent: Integers, generator: np.random.Generator) -> Integers:
    """A level for each record, by the cumulative shares of its parent geounit."""
    rows = np.arange(len(shares))[:, None]
    # One sorted list for all parents: each parent's shares end at 1, and its number shifts them behind the one before.
    place = np.searchsorted((shares + rows).reshape(-1), generator.random(len(parent)) + parent, side="right")
    # The last share can be below 1 by rounding, and a number above it would be of the next parent.
    level: Integers = np.clip(place - parent * shares.shape[1], 0, shares.shape[1] - 1)
    return level


def _mended(
    geounits: Integers, cells: Integers, allowed: _Allowed, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """The records with some added and some removed, so that all bounds hold.

    Raises:
        ConstraintError: bounds are still broken after `ROUNDS` rounds.
    """
    # Mending one bound may break another one that shares records with it; rounds end this or give up.
    for _ in range(ROUNDS):
        sound = True
        for place, item in enumerate(allowed.limits):
            counts = item.counts(geounits, cells)
            over = np.argwhere(counts > item.upper)
            leave = [
                generator.choice(
                    np.flatnonzero((item.row[geounits] == row) & item.counted(cells, answer)),
                    counts[row, answer] - item.upper[row, answer],
                    replace=False,
                )
                for row, answer in over.tolist()
            ]
            if leave:
                stay = np.setdiff1d(np.arange(len(cells)), np.concatenate(leave))
                geounits, cells = geounits[stay], cells[stay]
            # The counts are those before the removal above; what that broke is mended in the next round.
            short = np.argwhere(counts < item.lower)
            added = [
                _added(
                    allowed, place, row, answer, int(item.lower[row, answer] - counts[row, answer]), generator
                )
                for row, answer in short.tolist()
            ]
            if added:
                geounits = np.concatenate([geounits, *(geounits_added for geounits_added, _ in added)])
                cells = np.concatenate([cells, *(cells_added for _, cells_added in added)])
            sound &= not (leave or added)
        if sound:
            return geounits, cells
    raise ConstraintError(
        f"no made-up records were found that satisfy all bounds ({', '.join(item.name for item in allowed.limits)}) "
        "at once. The release itself is not affected. Try the shares without one of the [[bounds]].",
        code="trial-records",
    )


def _added(
    allowed: _Allowed, place: int, row: int, answer: int, number: int, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Further records in an answer that a lower bound, at a place among all bounds, asks for.

    Raises:
        ConstraintError: no cell of the answer may hold records there.
    """
    item = allowed.limits[place]
    # Geounits in random order, so that added records are not all in the first.
    for geounit in generator.permutation(allowed.members(place, row)).tolist():
        cells = allowed.cells(allowed.pattern[geounit])
        cells = cells[item.counted(cells, answer)]
        if len(cells):
            return np.full(number, geounit), generator.choice(cells, number)
    raise ConstraintError(
        f"the bounds '{item.name}' ask for records where bounds or structural zeros forbid all. Correct the tables of "
        "[[bounds]].",
        code="trial-records",
    )
