"""What is known about a release before its data is opened: spine, measurements, zeros and invariants."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import GeographyError
from tallyveil.estimation.intervals.algebra import LARGEST_BLOCK, BlockAlgebra, derive_algebra
from tallyveil.geography.spine import GeounitShares, Spine
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

LEAST_VARIANCE: Final = 2.0**-30
"""The least variance that a model takes noise to have, in counts squared. Noise of less variance is taken to have this
one, so that variances are upper bounds. Precisions that are farther apart would exceed what floats can add up."""

ROUNDING: Final = 1e-7
"""A variance below this fraction of the smallest variance of a measurement is taken for zero with a rounding error. It
would need millions of measurements of one number to be more than that."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelModel:
    """What is known about the geounits of one geolevel.

    Attributes:
        geolevel: Name of the geolevel.
        measured: Query groups measured there, in the order of a row of answers. Of a query group whose groups overlap,
            each layer; the row repeats its answers for every layer, and each layer uses its own answers alone.
        precisions: 1 / variance of each query's answers, in 1 / squared counts, at most 1 / LEAST_VARIANCE, and 0 for
            unmeasured geounits; shape (n_geounits, n_queries), or (1, n_queries) if all geounits have the same.
        invariants: Query groups published exactly there.
    """

    geolevel: str
    measured: tuple[QueryGroup, ...]
    precisions: Floats
    invariants: tuple[QueryGroup, ...]

    def precisions_of(self, geounits: Integers) -> Floats:
        """Precisions of some geounits, one row for each."""
        # One row stands for all geounits: a nation would otherwise hold millions of equal rows.
        if len(self.precisions) == 1:
            return np.repeat(self.precisions, len(geounits), axis=0)
        return self.precisions[geounits]


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """Everything that variances depend on.

    Attributes:
        schema: The universe.
        spine: The hierarchy.
        levels: One for each geolevel, root first.
        zero_patterns: Cells that are zero, one pattern in each row; shape (n_patterns, n_cells).
        zero_pattern: Pattern of each finest geounit; shape (n_finest,).
        algebra: The algebra for all queries and zeros.
        gaussian: Whether the noise is Gaussian, so that normal quantiles are valid.
    """

    schema: Schema
    spine: Spine
    levels: tuple[LevelModel, ...]
    zero_patterns: NDArray[np.bool_]
    zero_pattern: Integers
    algebra: BlockAlgebra
    gaussian: bool

    @property
    def rounding(self) -> float:
        """What is known exactly has a variance below this, in squared counts, and nothing else has."""
        highest = max(float(level.precisions.max(initial=0.0)) for level in self.levels)
        return ROUNDING / highest if highest else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Zeros:
    """Answers that are publicly known to be zero, such as the residents of facilities that do not exist.

    Attributes:
        query: The query. If an answer is zero, all of its cells are zero.
        geolevel: Geolevel of the statement. It holds for all geounits below too.
        answers: Which answers are zero; shape (n_geounits, query.size).
    """

    query: QueryGroup
    geolevel: str
    answers: NDArray[np.bool_]


def model_of_strategy(
    schema: Schema,
    spine: Spine,
    strategy: Strategy,
    *,
    shares: GeounitShares | None = None,
    invariants: Mapping[str, Sequence[str]] | None = None,
    zeros: Sequence[Zeros] = (),
    besides: Mapping[str, Sequence[tuple[QueryGroup, float]]] | None = None,
    largest_block: int = LARGEST_BLOCK,
) -> TreeModel:
    """The model of a strategy on a spine.

    Args:
        schema: The universe. Its structural zeros hold everywhere.
        spine: The hierarchy. Geolevels that the strategy does not name are not measured.
        strategy: What is measured where.
        shares: Share of every geounit, if shares within a geolevel differ. None gives the shares of the geolevels.
        invariants: For each geolevel, queries published exactly.
        zeros: Public zeros in addition to the schema's.
        besides: For each geolevel, further measured queries, with their variance in squared counts.
        largest_block: See `derive_algebra`.
    Raises:
        GeographyError: a geolevel is unknown.
        BudgetError: the shares do not fit the spine.
        SchemaError, ConstraintError: see `derive_algebra`.
    """
    return model_of_levels(
        schema,
        spine,
        levels_of_strategy(schema, spine, strategy, shares=shares, invariants=invariants, besides=besides),
        zeros=zeros,
        gaussian=strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN,
        largest_block=largest_block,
    )


def levels_of_strategy(
    schema: Schema,
    spine: Spine,
    strategy: Strategy,
    *,
    shares: GeounitShares | None = None,
    invariants: Mapping[str, Sequence[str]] | None = None,
    besides: Mapping[str, Sequence[tuple[QueryGroup, float]]] | None = None,
) -> list[LevelModel]:
    """What is measured and published exactly at each geolevel, root first; arguments as for `model_of_strategy`.

    Raises:
        GeographyError: a geolevel is unknown.
        BudgetError: the shares do not fit the spine.
    """
    levels = []
    for name in strategy.geolevels:
        # Only to refuse an unknown geolevel before anything is computed.
        spine.level_index(name)
    allocation = None if shares is None else Allocation(strategy, spine, shares)
    for name in spine.geolevels:
        queries = strategy.queries(name) if name in strategy.geolevels else ()
        exact = tuple(schema.query(query) for query in (invariants or {}).get(name, ()))
        more = (besides or {}).get(name, ())
        layers = [schema.query(query).layers for query in queries]
        # Layers count as queries of their own here, with the variance of the query group.
        measured = (*chain(*layers), *(group for group, _ in more))
        precisions = np.repeat(
            _precisions(strategy, name, allocation), [len(layer) for layer in layers], axis=1
        )
        drawn = np.tile([1.0 / variance for _, variance in more], (len(precisions), 1))
        # Smaller precisions mean larger variances: the cap errs on the safe side.
        limited = np.minimum(np.concatenate([precisions, drawn], axis=1), 1.0 / LEAST_VARIANCE)
        levels.append(LevelModel(name, measured, limited, exact))
    return levels


def with_queries(level: LevelModel, names: Collection[str]) -> LevelModel:
    """A level with some of its measured queries."""
    numbers = [number for number, group in enumerate(level.measured) if group.name in names]
    measured = tuple(level.measured[number] for number in numbers)
    return replace(level, measured=measured, precisions=np.ascontiguousarray(level.precisions[:, numbers]))


def _precisions(strategy: Strategy, geolevel: str, allocation: Allocation | None) -> Floats:
    """Precisions of a geolevel, with one row if all geounits have the same."""
    queries = strategy.queries(geolevel) if geolevel in strategy.geolevels else ()
    if allocation is None:
        return np.array([[1.0 / strategy.law(geolevel, query).variance_float() for query in queries]])
    n = len(allocation.positions(geolevel))
    # Unmeasured geounits have infinite variance, and so precision 0.
    columns = [1.0 / allocation.variances(geolevel, query, 0, n) for query in queries]
    precisions = np.array(columns, dtype=np.float64).reshape(len(queries), n).T
    return precisions[:1] if bool((precisions == precisions[:1]).all()) else np.ascontiguousarray(precisions)


def model_of_levels(
    schema: Schema,
    spine: Spine,
    levels: Sequence[LevelModel],
    *,
    zeros: Sequence[Zeros] = (),
    gaussian: bool = True,
    largest_block: int = LARGEST_BLOCK,
) -> TreeModel:
    """The model for any precisions, given geounit by geounit.

    Args:
        schema: The universe. Its structural zeros hold everywhere.
        spine: The hierarchy.
        levels: One for each geolevel, root first.
        zeros: Public zeros in addition to the schema's.
        gaussian: Whether the noise is Gaussian.
        largest_block: See `derive_algebra`.
    Raises:
        GeographyError: levels or zeros do not fit the spine.
        SchemaError, ConstraintError: see `derive_algebra`.
    """
    _check_levels(spine, levels)
    patterns, pattern = _zero_patterns(schema, spine, zeros)
    asked = (group for level in levels for group in (*level.measured, *level.invariants))
    # By what they count, not by name: the same query under two names needs one block.
    groups = {group.factors: group for group in asked}
    algebra = derive_algebra(
        schema,
        list(groups.values()),
        patterns if patterns.any() else None,
        largest_block=largest_block,
    )
    return TreeModel(schema, spine, tuple(levels), patterns, pattern, algebra, gaussian)


def _check_levels(spine: Spine, levels: Sequence[LevelModel]) -> None:
    if tuple(level.geolevel for level in levels) != spine.geolevels:
        raise GeographyError(
            f"levels are given for {', '.join(level.geolevel for level in levels)}; wanted "
            f"{', '.join(spine.geolevels)}, each once, root first."
        )
    for number, level in enumerate(levels):
        n, wanted = spine.n_geounits(number), len(level.measured)
        sound = level.precisions.ndim == 2 and level.precisions.shape in ((1, wanted), (n, wanted))
        if not sound or not np.isfinite(level.precisions).all() or (level.precisions < 0).any():
            raise GeographyError(
                f"the precisions of geolevel {level.geolevel} have shape {level.precisions.shape}; wanted finite "
                f"numbers of at least 0 in shape ({n}, {wanted}), or (1, {wanted}) if all geounits have the same "
                "precisions."
            )


def n_zero_patterns(spine: Spine, zeros: Sequence[Zeros]) -> int:
    """Number of distinct patterns of public zeros of finest geounits, before any array with their cells is made."""
    number = np.zeros(spine.n_geounits(spine.finest), np.int64)
    for zero in zeros:
        rows, row = distinct_rows(zero.answers)
        # Renumbered after every statement, so that the product of pattern numbers stays far below 2^63.
        pairs = number * len(rows) + row[spine.ancestors(spine.level_index(zero.geolevel))]
        number = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return int(number.max(initial=0)) + 1


def _zero_patterns(
    schema: Schema, spine: Spine, zeros: Sequence[Zeros]
) -> tuple[NDArray[np.bool_], Integers]:
    """The distinct patterns of zero cells, and the pattern of every finest geounit."""
    n_finest = spine.n_geounits(spine.finest)
    number = np.zeros(n_finest, np.int64)
    cells = np.arange(schema.size, dtype=np.int64)
    # Structural zeros hold everywhere, so there is one pattern to begin with.
    patterns = ~schema.possible(cells)[None, :]
    for zero in zeros:
        level = spine.level_index(zero.geolevel)
        if zero.answers.shape != (spine.n_geounits(level), zero.query.size):
            raise GeographyError(
                f"zeros of query '{zero.query.name}' at {zero.geolevel} have shape {zero.answers.shape}, wanted "
                f"({spine.n_geounits(level)}, {zero.query.size})."
            )
        rows, row = distinct_rows(zero.answers)
        row = row[spine.ancestors(level)]
        answers = zero.query.answers_of(cells)
        zero_cells = np.where(answers >= 0, rows[:, np.maximum(answers, 0)], False)
        pairs, number = np.unique(number * len(rows) + row, return_inverse=True)
        patterns = patterns[pairs // len(rows)] | zero_cells[pairs % len(rows)]
    return patterns, number.reshape(-1).astype(np.int64)


def distinct_rows(answers: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Integers]:
    """The distinct rows, and for each row the number of its distinct row."""
    # Eight answers in a byte: sorting rows is what takes the time.
    packed = np.packbits(answers, axis=1)
    _, first, row = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return answers[first], row.reshape(-1).astype(np.int64)
