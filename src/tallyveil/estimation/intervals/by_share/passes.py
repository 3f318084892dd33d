"""Variances of estimates from the root downwards that are made in outer passes, for any shares.

Problem. A pass estimates the counts of its cells. Each count of the pass before is divided among the cells that it
consists of. Wanted are mean variances of answers over geolevels or families, for any shares of the budget. A schema may
have many millions of cells.

Steps. An answer belongs to the first pass whose cells determine it. Its error has two parts. The first is the error of
the pass's own measurements, in directions that the pass before leaves open. The second is the error of the counts of
the pass before. It is found in the same way in that pass, where the model spreads every count evenly over its cells.
Before the first pass, invariants and agreements are taken as known without error. In a pass, the precision of one
geounit is L, the sum over measured queries of w_q F_q'F_q, in blocks. Let N be a basis of what is not
known. The variance of answers W is the trace of W'N (N'LN)^-1 N'W. Its derivative by w_q is
-|F_q N (N'LN)^-1 N'W|^2. The mean variance is the sum over geolevels of s_l (see `covariances`) times this.

Stopping rule. One factorisation of every different block at every geolevel.

Worked case. Pass 1 counts two groups, one of them with two cells, and measures them with variance 1. Pass 2 measures
the cells with variance 1. The variance of a cell is 1/2 from pass 2, whose two cells have a known sum, and 1/4 from
pass 1.

The cells of an outer pass, and what queries do to them, attribute by attribute.

A pass counts the answers of one query, its cells. Every query that the pass determines is a product of factors on these
cells. So nothing here has a number for each cell: a schema may have many millions of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.linalg import cho_factor, cho_solve, null_space

from tallyveil.arrays import Floats
from tallyveil.budget.optimal.solve import Evaluated
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError, SchemaError
from tallyveil.estimation.intervals.algebra import DENSE, Axis, derive_axis, factor_rows
from tallyveil.estimation.intervals.by_share.covariances import TopDownEstimator
from tallyveil.estimation.intervals.by_share.measured import KNOWN, UNKNOWN, AskedVariance
from tallyveil.schema.nested_queries import common_groups, determines, first_levels
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

FLAT = 1e-12
"""An eigenvalue that is smaller than this, relative to the largest one, is a rounding error."""

Gram = tuple[Floats, ...]
"""For each attribute, F'F of some answers F on the groups of a pass's cells."""


def on_cells(group: QueryGroup, cells: QueryGroup) -> tuple[Factor, ...]:
    """A query that a pass determines as factors on the pass's cells, one for each attribute.

    Args:
        group: The query. Its groups do not overlap.
        cells: Query of the pass.
    """
    return tuple(
        Factor(factor.attribute, factor.name, (factor.codes[first_levels(cell_factor)],), factor.labels)
        for factor, cell_factor in zip(group.factors, cells.factors, strict=True)
    )


def axes_of(cells: QueryGroup, queries: list[tuple[Factor, ...]]) -> tuple[Axis, ...]:
    """The atoms of every attribute, which the given factors on a pass's cells treat alike."""
    return tuple(
        derive_axis(
            cell_factor.size, [query[place] for query in queries], np.zeros(cell_factor.size, np.int64)
        )
        for place, cell_factor in enumerate(cells.factors)
    )


def gram_of(group: QueryGroup, cells: QueryGroup) -> Gram:
    """F'F of a query that a pass determines."""
    rows = (_incidence(factor) for factor in on_cells(group, cells))
    return tuple(row.T @ row for row in rows)


def spread_from(gram: Gram, groups: QueryGroup, cells: QueryGroup, above: QueryGroup) -> Gram:
    """F'F in the pass before: how answers move with its counts, if every count is spread evenly over its cells.

    Args:
        gram: F'F on the cells of a pass.
        groups: The groups of cells whose counts the pass before has fixed.
        cells: Query of the pass.
        above: Query of the pass before.
    """
    grams = []
    for factor_gram, here, there in zip(gram, on_cells(groups, cells), on_cells(groups, above), strict=True):
        inside = _incidence(here)
        # Each cell gets the same share of its group's count; groups are never empty.
        evenly = inside / inside.sum(axis=1)[:, None]
        outside = _incidence(there)
        grams.append(outside.T @ (evenly @ factor_gram @ evenly.T) @ outside)
    return tuple(grams)


@dataclass(frozen=True, slots=True, eq=False)
class BlockClass:
    """Blocks that are alike: for every attribute, the atoms or one kind of contrasts within them."""

    axes: tuple[Axis, ...]
    kinds: tuple[int, ...]

    @property
    def dim(self) -> int:
        """Size of the block."""
        sizes = (len(axis.atoms) for axis, kind in zip(self.axes, self.kinds, strict=True) if kind == DENSE)
        return int(np.prod([1, *sizes]))

    def rows(self, factors: tuple[Factor, ...]) -> Floats:
        """The rows F of a query in the block; shape (rows, dim). There are none where the query is blind."""
        rows: Floats = np.ones((1, 1))
        for axis, kind, factor in zip(self.axes, self.kinds, factors, strict=True):
            rows = np.kron(rows, factor_rows(axis, factor)[kind]).astype(np.float64, copy=False)
        return rows

    def roots(self, gram: Gram) -> Floats | None:
        """A matrix W, shape (dim, columns), so that W W' sums F'F over all blocks of the class; None if it is zero."""
        roots: Floats = np.ones((1, 1))
        for axis, kind, factor_gram in zip(self.axes, self.kinds, gram, strict=True):
            part = _root(_on_atoms(axis, factor_gram)) if kind == DENSE else _within(axis, kind, factor_gram)
            # One factor without columns makes the whole product zero.
            if part.shape[1] == 0:
                return None
            roots = np.kron(roots, part).astype(np.float64, copy=False)
        return roots


def _incidence(factor: Factor) -> Floats:
    """F: 1 where a level belongs to a group; shape (groups, levels)."""
    incidence: Floats = (np.arange(factor.size)[:, None] == factor.codes[None, :]).astype(np.float64)
    return incidence


def _on_atoms(axis: Axis, gram: Floats) -> Floats:
    """F'F in the normalised sums over atoms."""
    # First over columns, then over rows: the sums over pairs of atoms.
    sums = np.array([gram[:, levels].sum(axis=1) for levels in axis.atoms])
    both = np.array([sums[:, levels].sum(axis=1) for levels in axis.atoms])
    roots = np.sqrt([len(levels) for levels in axis.atoms])
    normalised: Floats = both / np.outer(roots, roots)
    return normalised


def _within(axis: Axis, kind: int, gram: Floats) -> Floats:
    """The root of F'F, summed over all contrasts of a kind; shape (1, 1), or (1, 0) for none."""
    summed = 0.0
    for atom in axis.contrasts[kind - 1]:
        levels = np.array(axis.atoms[atom])
        block = gram[np.ix_(levels, levels)]
        # The trace over all directions of the atom, less that along its sum: what is left are the contrasts.
        summed += float(np.trace(block)) - float(block.sum()) / len(levels)
    return np.full(
        (1, 1 if summed > FLAT * max(float(np.trace(gram)), 1e-300) else 0), np.sqrt(max(summed, 0.0))
    )


def _root(gram: Floats) -> Floats:
    """A matrix W with W W' equal to a positive semidefinite matrix, and as few columns as its rank."""
    sizes, vectors = np.linalg.eigh(gram)
    # eigh sorts: the last eigenvalue is the largest. 1e-300 stands for a matrix of zeros.
    nonzero = sizes > FLAT * max(float(sizes[-1]), 1e-300)
    root: Floats = vectors[:, nonzero] * np.sqrt(sizes[nonzero])
    return root


LARGEST = 2048
"""Largest size of a block. A block of this size takes 32 MiB, and a second for each geolevel and evaluation."""


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """One outer pass.

    Attributes:
        cells: The query whose answers the pass counts.
        measured: Names of the measured queries that belong to the pass.
        source: Number of the earlier pass whose counts are fixed in it; 0 for the first pass.
    """

    cells: QueryGroup
    measured: frozenset[str]
    source: int


@dataclass(slots=True, eq=False)
class _Block:
    """Blocks in which all measured queries are the same.

    Attributes:
        rows: F_q N of every query that sees the block.
        roots: For each answer asked, the columns N'W, side by side for all these blocks.
    """

    rows: Mapping[str, Floats]
    roots: list[list[Floats]]


@dataclass(frozen=True, slots=True, eq=False)
class _PassLevel:
    """One geolevel.

    Attributes:
        blocks: The blocks of all passes.
        exact: For each answer asked, the trace of F'F over what invariants and agreements say; shape (asked,).
    """

    blocks: list[_Block]
    exact: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PassVariances:
    """Mean variances of what is asked, for any shares.

    Attributes:
        names: Geolevel and query of each share.
        unit: Precision that the whole budget would buy for each query; shape (shares,).
        factors: For each answer asked and each geolevel, s_l divided by the number of answers; shape (asked, levels).
    """

    names: tuple[tuple[str, str], ...]
    unit: Floats
    factors: Floats
    _levels: Mapping[str, _PassLevel] = field(repr=False)

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares.

        Args:
            shares: Above 0; shape (shares,).
            known: Factor on the precision of exact answers.
            unknown: Factor on the least precision of directions that nothing may inform about.
        """
        values, slopes = np.zeros(len(self.factors)), np.zeros((len(self.factors), len(shares)))
        scale = float(self.unit.max())
        for place, (geolevel, level) in enumerate(self._levels.items()):
            here = {query: i for i, (name, query) in enumerate(self.names) if name == geolevel}
            factor = self.factors[:, place]
            # What is exact has the error of a measurement with KNOWN times the whole budget's precision.
            values += factor * level.exact / (known * KNOWN * scale)
            for block in level.blocks:
                self._add(block, here, shares, unknown * UNKNOWN * scale, factor, values, slopes)
        return Evaluated(values, slopes)

    def _add(
        self,
        block: _Block,
        here: Mapping[str, int],
        shares: Floats,
        faint: float,
        factor: Floats,
        values: Floats,
        slopes: Floats,
    ) -> None:
        """Add what the blocks contribute to values and slopes."""
        seen = [(here[query], rows) for query, rows in block.rows.items() if query in here]
        dim = next(len(root) for roots in block.roots for root in roots)
        # (N'LN) as a product with its own transpose, which keeps it symmetric.
        stacked = [np.sqrt(self.unit[i] * shares[i]) * rows for i, rows in seen]
        together = np.concatenate(stacked) if stacked else np.zeros((0, dim))
        # The faint precision makes it positive definite where nothing measures a direction.
        solver = cho_factor(together.T @ together + faint * np.eye(dim), overwrite_a=True)
        for asked, roots in enumerate(block.roots):
            for root in roots:
                solved = cho_solve(solver, root)
                values[asked] += factor[asked] * float(np.sum(root * solved))
                # Every query's derivative reuses the one solution: this is why shares cost so little.
                for i, rows in seen:
                    slopes[asked, i] -= factor[asked] * self.unit[i] * float(np.sum((rows @ solved) ** 2))


def pass_variances(
    schema: Schema,
    strategy: Strategy,
    geolevels: Sequence[str],
    *,
    passes: Sequence[Fitted],
    exact: Mapping[str, Sequence[str]],
    asked: Sequence[AskedVariance],
    estimator: TopDownEstimator,
) -> PassVariances:
    """The variances of a strategy whose estimates are made in outer passes.

    Args:
        schema: The universe. Of its structural zeros, only those are used that say what a pass determines.
        strategy: Gaussian. Its total is kept and its shares are to be varied.
        geolevels: Geolevels of the spine, root first.
        passes: First to last.
        exact: For each geolevel, queries that invariants and agreements fix there.
        asked: What is asked.
        estimator: Weights of the geolevels in every area that is asked about.
    Raises:
        BudgetError: no pass determines what is asked, or groups overlap.
        SchemaError: blocks would be too large.
    """
    names = tuple((level, query) for level in strategy.geolevels for query in strategy.queries(level))
    grams = [_grams(schema, passes, query) for _, query in asked]
    by_exact: dict[tuple[str, ...], _PassLevel] = {}
    levels = {}
    for geolevel in geolevels:
        fixed = tuple(exact.get(geolevel, ()))
        # Most geolevels have the same invariants, and thus the same blocks.
        if fixed not in by_exact:
            by_exact[fixed] = _level(schema, passes, fixed, grams)
        levels[geolevel] = by_exact[fixed]
    sizes = [schema.query(query).size for _, query in asked]
    return PassVariances(
        names,
        np.array([2.0 * float(strategy.total) / strategy.squared_distance(query) for _, query in names]),
        np.array([estimator.weights[area] / size for (area, _), size in zip(asked, sizes, strict=True)]),
        levels,
    )


def _grams(schema: Schema, passes: Sequence[Fitted], query: str) -> dict[int, Gram]:
    """F'F of an answer in the pass that determines it and, by even spreading, in the passes whose counts it divides."""
    group, zeros = _plain(schema.query(query)), schema.barred_levels()
    number = next((k for k, fitted in enumerate(passes) if determines(fitted.cells, group, zeros)), None)
    if number is None:
        raise BudgetError(
            f"no outer pass determines '{query:.80}', so that its variances are not modelled. The passes count: "
            f"{'; '.join(fitted.cells.name for fitted in passes)}. Ask for sums of these.",
            code="bad-aim",
        )
    grams = {number: gram_of(group, passes[number].cells)}
    # Back to the first pass, whose counts divide no others.
    while number > 0:
        cells, source = passes[number].cells, passes[number].source
        above = passes[source].cells
        grams[source] = spread_from(grams[number], common_groups(cells, above), cells, above)
        number = source
    return grams


def _level(
    schema: Schema, passes: Sequence[Fitted], exact: Sequence[str], grams: Sequence[Mapping[int, Gram]]
) -> _PassLevel:
    """The blocks of all passes, where some queries are exact."""
    blocks: list[_Block] = []
    sure = np.zeros(len(grams))
    for number, fitted in enumerate(passes):
        if number == 0:
            fixed = [schema.query(name) for name in exact]
            fixed = [group for group in fixed if determines(fitted.cells, group)]
        else:
            fixed = [common_groups(fitted.cells, passes[fitted.source].cells)]
        added, certain = _blocks(schema, fitted, fixed, [by_pass.get(number) for by_pass in grams])
        blocks += added
        if number == 0:
            sure = certain
    return _PassLevel(blocks, sure)


def _blocks(
    schema: Schema, fitted: Fitted, fixed: Sequence[QueryGroup], grams: Sequence[Gram | None]
) -> tuple[list[_Block], Floats]:
    """The different blocks of a pass, and what is known in them; see `_PassLevel`."""
    queries = {name: on_cells(_plain(schema.query(name)), fitted.cells) for name in sorted(fitted.measured)}
    known = [on_cells(_plain(group), fitted.cells) for group in fixed]
    axes = axes_of(fitted.cells, [*queries.values(), *known])
    blocks: dict[bytes, _Block] = {}
    sure = np.zeros(len(grams))
    for kinds in product(*(range(len(axis.sizes)) for axis in axes)):
        here = BlockClass(axes, kinds)
        roots = [None if gram is None else here.roots(gram) for gram in grams]
        # Nothing asked sees these blocks; their number may be large.
        if all(root is None for root in roots):
            continue
        if here.dim > LARGEST:
            _refuse(fitted, here.dim)
        # Directions that nothing fixes. The row of zeros makes the matrix non-empty.
        free = null_space(np.concatenate([np.zeros((1, here.dim)), *(here.rows(group) for group in known)]))
        seen = {name: here.rows(factors) @ free for name, factors in queries.items()}
        seen = {name: rows for name, rows in seen.items() if rows.any()}
        # Blocks in which all queries are alike differ only in what is asked, and share one factorisation.
        block = blocks.setdefault(_key(seen), _Block(seen, [[] for _ in grams]))
        for place, root in enumerate(roots):
            if root is not None:
                left = free.T @ root
                # The part of F'F that lies in fixed directions; a difference of squares may be a rounding error below
                # 0.
                sure[place] += max(float(np.sum(root**2)) - float(np.sum(left**2)), 0.0)
                if left.any():
                    block.roots[place].append(left)
    return [block for block in blocks.values() if any(block.roots)], sure


def _key(rows: Mapping[str, Floats]) -> bytes:
    # Exact bytes: blocks with the same atoms come from the same operations, and are equal to the bit.
    return b"".join(
        name.encode() + str(matrix.shape).encode() + matrix.tobytes() for name, matrix in rows.items()
    )


def _plain(group: QueryGroup) -> QueryGroup:
    if group.overlaps:
        raise BudgetError(
            f"groups of '{group.name:.80}' overlap. Variances of estimates in outer passes are modelled for queries "
            "whose groups do not. Ask for another query, or measure one.",
            code="bad-aim",
        )
    return group


def _refuse(fitted: Fitted, dim: int) -> None:
    raise SchemaError(
        f"the measured queries of the outer pass '{fitted.cells.name:.80}' divide its cells so finely that covariances "
        f"have blocks of size {dim:,}; the limit is {LARGEST:,}. Ask for answers of other passes.",
        code="blocks-too-large",
    )
