"""Query groups of a budget: their sensitivities, and those whose answers the invariants publish already.

A sensitivity is the largest number of answers in which one record counts. A query group of sensitivity s gets s times
the variance (Gaussian) or s times the scale (Laplace) at the same budget.

An invariant publishes the true answers of its query at a geolevel, and sums over children publish them at every
coarser geolevel. A query is *fixed* if each of its answers is a linear combination of these known sums, over the cells
that the structural zeros leave possible. Measuring it adds no information, so its share would gain elsewhere. The test
is exact, on kinds of cells that no invariant and no structural zero tells apart. It does not find answers that are
fixed by the data or the geography: those of an only child, below a published count of zero, or determined by public
bounds.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


def sensitivities_of(schema: Schema, queries: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The sensitivity of each query group whose groups overlap, for `Strategy.sensitivities`; sorted by name.

    Args:
        schema: The universe.
        queries: Specifications of query groups, which may repeat.
    Raises:
        SchemaError: the schema has overlapping recodes, and lacks one of the queries.
    """
    if not any(recode.overlapping for recode in schema.recodes):
        return ()
    groups = (schema.query(name) for name in sorted(set(queries)))
    return tuple((group.name, group.sensitivity) for group in groups if group.overlaps)


def require_sensitivities(strategy: Strategy, schema: Schema) -> None:
    """Refuse a strategy that assumes that a record counts in fewer or more answers than it does.

    Raises:
        BudgetError: a measured query group has another sensitivity than the strategy states.
        SchemaError: the schema lacks a measured query.

    Privacy: without this condition, the stated cost of the strategy could be too low.
    """
    for geolevel in strategy.geolevels:
        for query in strategy.queries(geolevel):
            moved = schema.query(query).sensitivity * strategy.neighbours.answers_moved
            if strategy.answers_moved(query) != moved:
                raise BudgetError(
                    f"query '{query}' at {geolevel} moves {moved} answers between {strategy.neighbours.value} "
                    f"neighbours, and the strategy pays for {strategy.answers_moved(query)}. Give the strategy the "
                    "sensitivities that `sensitivities_of` finds in the schema."
                )


MOST_KINDS = 1 << 20
"""Largest number of kinds of cells, or of entries of the matrix of known sums. Above it, no query is called fixed."""

Exact = Sequence[tuple[str, Sequence[str]]]
"""Invariants: a query and the geolevels at which it is published exactly."""


@dataclass(frozen=True, slots=True)
class FixedQuery:
    """A measured query whose true answers are published anyway.

    Attributes:
        geolevel: Geolevel at which it is measured.
        query: The measured query.
        share: Its share of the strategy's total.
        known_from: What determines its answers, in words.
    """

    geolevel: str
    query: str
    share: Fraction
    known_from: str


@dataclass(frozen=True, slots=True)
class Saving:
    """A strategy without the shares that gain nothing.

    Attributes:
        fixed: The fixed queries, root first.
        stuck: Geolevels where every query is fixed. They keep their shares, because each must measure something.
        share: Share of the total that becomes free.
        strategy: The same total divided over the other queries, in their present proportions; None if nothing is freed.
        deviation: Factor on the standard deviation of every query that gains.
    """

    fixed: tuple[FixedQuery, ...]
    stuck: tuple[str, ...]
    share: Fraction
    strategy: Strategy | None
    deviation: float


def find_saving(strategy: Strategy, schema: Schema, invariants: Exact) -> Saving | None:
    """What a strategy spends on answers that are published exactly; None if it spends nothing on them.

    Args:
        strategy: The division of the budget. Its geolevels are those of the spine, root first.
        schema: The universe.
        invariants: What is published exactly.
    Raises:
        SchemaError: a query does not fit the schema.
    """
    fixed = fixed_queries(strategy, schema, invariants)
    if not fixed:
        return None
    dropped = {(item.geolevel, item.query) for item in fixed}
    stuck = tuple(
        level
        for level in strategy.geolevels
        if all((level, query) in dropped for query in strategy.queries(level))
    )
    shares = dict(strategy.geolevel_shares)
    freed = sum((item.share for item in fixed if item.geolevel not in stuck), Fraction(0))
    held_back = sum((shares[level] for level in stuck), Fraction(0))
    if freed == 0:
        return Saving(fixed, stuck, freed, None, 1.0)
    gain = (1 - held_back) / (1 - held_back - freed)
    deviation = 1 / math.sqrt(gain) if strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN else float(1 / gain)
    return Saving(fixed, stuck, freed, _without(strategy, dropped, stuck, gain), deviation)


def fixed_queries(strategy: Strategy, schema: Schema, invariants: Exact) -> tuple[FixedQuery, ...]:
    """Every measured query whose true answers the invariants publish, root first."""
    if not invariants and not schema.structural_zeros:
        return ()
    levels, shares = strategy.geolevels, dict(strategy.geolevel_shares)
    finest = [(query, max(named, key=levels.index)) for query, named in invariants]
    fixed, seen = [], dict[tuple[str, tuple[str, ...]], str | None]()
    for number, geolevel in enumerate(levels):
        in_force = [
            (f"{query} at {level}", schema.query(query))
            for query, level in finest
            if level in levels[number:]
        ]
        for query, share in strategy.shares_of(geolevel):
            asked = query, tuple(words for words, _ in in_force)
            if asked not in seen:
                seen[asked] = _known_from(schema.query(query), in_force, schema)
            known_from = seen[asked]
            if known_from is not None:
                fixed.append(FixedQuery(geolevel, query, shares[geolevel] * share, known_from))
    return tuple(fixed)


def is_fixed(query: QueryGroup, known: Sequence[QueryGroup], schema: Schema) -> bool:
    """Whether the exact answers of some queries determine every answer of another query, whatever the data are.

    The groups of the known queries do not overlap.
    """
    if query.overlaps:
        return all(is_fixed(layer, known, schema) for layer in query.layers)
    if any(group.is_detailed for group in known):
        return True
    kinds = [_kinds_of_levels(axis, known, schema) for axis in range(len(schema.shape))]
    if math.prod(len(first) for first, _ in kinds) > MOST_KINDS:
        return False
    cells = _one_cell_of_each(kinds, schema)
    possible = schema.possible(cells)
    if _tells_apart_more(query, kinds, possible):
        return False
    wanted = query.answers_of(cells)[possible]
    sums = [group.answers_of(cells)[possible] for group in known]
    if not (wanted >= 0).any() or any(_adds_up(wanted, totals) for totals in sums):
        return True
    return len(sums) > 1 and _combines(wanted, sums)


def _known_from(query: QueryGroup, in_force: Sequence[tuple[str, QueryGroup]], schema: Schema) -> str | None:
    """What determines a query, in words: the structural zeros, one invariant, or several together; None if nothing."""
    if is_fixed(query, [], schema):
        return "the structural zeros"
    for words, group in in_force:
        if is_fixed(query, [group], schema):
            return f"the exact {words}"
    if len(in_force) > 1 and is_fixed(query, [group for _, group in in_force], schema):
        return f"the exact {', '.join(words for words, _ in in_force)} together"
    return None


Kinds = tuple[NDArray[np.int64], NDArray[np.int64]]
"""For one attribute: the first level of each kind, and the kind of each level."""


def _kinds_of_levels(axis: int, known: Sequence[QueryGroup], schema: Schema) -> Kinds:
    """Kinds of an attribute's levels. Levels that no known query and no structural zero distinguishes are one kind."""
    attribute = schema.attributes[axis]
    marks = [group.factors[axis].codes for group in known]
    for zero in schema.structural_zeros:
        for name, levels in zero.levels:
            if name == attribute.name:
                barred = np.zeros(attribute.size, dtype=np.int32)
                barred[[attribute.code(level) for level in levels]] = 1
                marks.append(barred)
    table = np.stack([np.zeros(attribute.size, dtype=np.int32), *marks], axis=1)
    _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), kind.reshape(-1).astype(np.int64)


def _one_cell_of_each(kinds: Sequence[Kinds], schema: Schema) -> NDArray[np.int64]:
    """One cell of every combination of kinds; the kind of the last attribute varies fastest."""
    cells = np.zeros(1, dtype=np.int64)
    for (first, _), size in zip(kinds, schema.shape, strict=True):
        cells = (cells[:, None] * size + first[None, :]).reshape(-1)
    return cells


def _tells_apart_more(query: QueryGroup, kinds: Sequence[Kinds], possible: NDArray[np.bool_]) -> bool:
    """Whether two possible cells of one kind count in different answers of the query."""
    reached, mixed = [], []
    for factor, (first, kind) in zip(query.factors, kinds, strict=True):
        low, high = np.full(len(first), factor.size), np.full(len(first), -1)
        np.minimum.at(low, kind, factor.codes)
        np.maximum.at(high, kind, factor.codes)
        reached.append(high >= 0)
        mixed.append(low < high)
    shape = tuple(len(first) for first, _ in kinds)
    open_cells = possible.reshape(shape)
    for axis, apart in enumerate(mixed):
        if not apart.any():
            continue
            # On this axis: kinds whose levels count in different answers. On the others: kinds that count at all.
        chosen = [apart if other == axis else hit for other, hit in enumerate(reached)]
        if open_cells[np.ix_(*chosen)].any():
            return True
    return False


def _adds_up(wanted: NDArray[np.int64], known: NDArray[np.int64]) -> bool:
    """Whether every wanted answer is a sum of answers of one known query, checked kind by kind."""
    if (known[wanted >= 0] < 0).any():
        return False
    inside = known >= 0
    _, first, answer = np.unique(known[inside], return_index=True, return_inverse=True)
    counted = wanted[inside]
    return bool((counted == counted[first][answer]).all())


def _combines(wanted: NDArray[np.int64], known: Sequence[NDArray[np.int64]]) -> bool:
    """Whether every wanted answer is a linear combination of the answers of several known queries."""
    kinds = np.unique(np.stack([wanted, *known], axis=1), axis=0)
    if len(kinds) > len(np.unique(kinds[:, 1:], axis=0)):
        return False  # a kind counts in two answers
    parts = [np.unique(column[column >= 0]) for column in kinds.T]
    if len(kinds) * sum(map(len, parts)) > MOST_KINDS:
        return False
    rows = [
        (kinds[:, number] == answer).tolist() for number in range(1, len(parts)) for answer in parts[number]
    ]
    asked = [(kinds[:, 0] == answer).tolist() for answer in parts[0]]
    return _rank(rows) == _rank(rows + asked)


def _rank(rows: list[list[bool]]) -> int:
    from flint import fmpz_mat

    return int(fmpz_mat([[int(entry) for entry in row] for row in rows]).rank()) if rows else 0


def _without(
    strategy: Strategy, dropped: set[tuple[str, str]], stuck: Sequence[str], gain: Fraction
) -> Strategy:
    """The strategy without the dropped queries. Every other query's share is multiplied by `gain`."""
    divided = []
    for geolevel, share in strategy.geolevel_shares:
        pairs = strategy.shares_of(geolevel)
        left = [pair for pair in pairs if geolevel in stuck or (geolevel, pair[0]) not in dropped]
        rest = sum((part for _, part in left), Fraction(0))
        whole = share if geolevel in stuck else share * rest * gain
        divided.append((geolevel, whole, [(query, part / rest) for query, part in left]))
    return strategy.with_shares(divided)
