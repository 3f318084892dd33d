"""What the sampler is given: the spine, the noisy answers, the limits, and the steps in which a block's persons are
divided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Int32s, Integers, Words
from tallyveil.errors import ConfigError, SolverError
from tallyveil.estimation.intervals.fit import AnswerRows
from tallyveil.estimation.intervals.model import LevelModel
from tallyveil.estimation.posterior.covariates import Covariates
from tallyveil.estimation.posterior.earlier import EarlierCensus, EarlierShapes
from tallyveil.geography.spine import Spine
from tallyveil.kernels.posterior.moves import (
    WINDOW,
    WORD,
    Answers,
    Limits,
    Problem,
    State,
    Steps,
    Tree,
    Turns,
)
from tallyveil.measurements.answers import answer_tables
from tallyveil.schema.counts import LARGEST_INT32
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

LARGEST: Final = 1 << 30
"""Largest count and noisy answer, in size: the difference of two is less than 2^31, as 32 bits hold."""


SPARSE: Final = 20
"""Measured people below which a geounit of the geolevel above the blocks is sparse. Its few people seldom meet a block
where they could as well live; pairs of its blocks with others cost little."""


@dataclass(frozen=True, slots=True, eq=False)
class LimitRows:
    """Limits on a query's answers at one geolevel.

    Attributes:
        level: Number of the geolevel, root first.
        query: The query.
        lower: Least values; shape (n_geounits, query.size), int32.
        upper: Largest values; equal to `lower` for an invariant.
    """

    level: int
    query: QueryGroup
    lower: Int32s
    upper: Int32s


@dataclass(frozen=True, slots=True, eq=False)
class SizeLaws:
    """The laws of sizes: one of each family or, with covariates, of the blocks of a family that have the same numbers.

    Attributes:
        begin: First law of each family, and one entry more at the end.
        design: Regressors of the logarithm of each law's mean, from the covariates; shape (laws, effects).
        kind: Kind of blocks, by their covariates, of each tract in the sense of `Tree.tract`; from 0.
    """

    begin: Integers
    design: Floats
    kind: Int32s

    @property
    def family(self) -> Integers:
        """Family of each law."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorProblem:
    """Everything that the law of the counts depends on, besides the prior.

    Attributes:
        schema: The universe.
        spine: The hierarchy.
        kernel: The same for the compiled moves.
        queries: The query of each table of noisy answers.
        precisions: 1 / variance of the noise, in the order of the kernel's `precision`.
        is_free: Blocks that limits allow to be empty and to have people; shape (blocks,).
        turns: How levels of each attribute, from the last to the first, can be paired in the geounits of each geolevel,
            from the blocks to the root.
        same_cells: The same where persons keep their cell.
        limited: Attributes, in the order of `turns`, of which limits allow other levels in one block than in another.
        possible: Whether a group of a step has a possible cell; shape (columns,).
        is_sparse: Whether each geounit of the geolevel above the blocks has few people by its measurements; shape
            (geounits,).
        above: For each geolevel of the prior from the families to the one below the whole area, the geounit above each.
        sizes: The laws of sizes.
        earlier: What an earlier census says of the shares of some geounits.
    """

    schema: Schema
    spine: Spine
    kernel: Problem
    queries: tuple[str, ...]
    precisions: Floats
    is_free: NDArray[np.bool_]
    turns: tuple[tuple[Turns, ...], ...]
    same_cells: tuple[Turns, ...]
    limited: tuple[int, ...]
    possible: NDArray[np.bool_]
    is_sparse: Bools
    above: tuple[Int32s, ...]
    sizes: SizeLaws
    earlier: EarlierShapes

    @property
    def step(self) -> Int32s:
        """Step of each column of the state's counts."""
        return self.kernel.steps.step

    @property
    def n_geounits(self) -> list[int]:
        """Geounits of each geolevel of the prior, from the families to the whole area."""
        return [*(len(of_level) for of_level in self.above), int(self.above[-1].max()) + 1]

    @property
    def n_blocks(self) -> int:
        """Number of blocks, which are the geounits of the finest geolevel."""
        return int(self.kernel.tree.ancestor.shape[1])

    @property
    def cells(self) -> slice:
        """Columns of the cells in the state's counts."""
        return slice(int(self.kernel.steps.group[-1, 0]), len(self.step))

    @property
    def is_limited(self) -> bool:
        """Whether public limits hold below the root."""
        return bool((self.kernel.limits.geolevel < len(self.kernel.tree.ancestor) - 1).any())

    @property
    def has_class(self) -> NDArray[np.bool_]:
        """Columns of the groups whose divisions have a concentration of each block."""
        return np.asarray(self.step == self.kernel.steps.classed - 1, bool)

    @property
    def divided(self) -> NDArray[np.bool_]:
        """Columns of the groups that are divided: those of all steps but the last."""
        return np.asarray(self.step < self.step[-1], bool)

    def precisions_of(self, table: int) -> Floats:
        """1 / variance of the noise of a table's geounits: one for all, or one for each, 0 for an unmeasured one."""
        begin = self.kernel.answers.precision_begin
        end = begin[table + 1] if table + 1 < len(begin) else len(self.precisions)
        return self.precisions[begin[table] : end]

    def state(self, counts: Int32s) -> State:
        """The state of a table of counts.

        Args:
            counts: Whole counts within the limits; shape (blocks, cells).
        Raises:
            SolverError: counts are negative or break a limit.
        """
        kernel = self.kernel
        steps, tree = kernel.steps, kernel.tree
        count = np.zeros((self.n_blocks, len(self.step)), np.int32)
        for group in steps.group:
            np.add.at(count.T, group, counts.T)
        residual = np.zeros_like(kernel.answers.measured)
        for t, geolevel in enumerate(kernel.answers.geolevel.tolist()):
            of_table = self.of_table(residual, t)
            places = kernel.answers.place_of[:, t]
            answer_of = np.where(places >= 0, places - kernel.answers.offset[t], -1)
            of_table[:] = _sums(tree, geolevel, answer_of, of_table.shape[1], counts)
        residual -= kernel.answers.measured
        limited = _limited(tree, kernel.limits, counts)
        if counts.min(initial=0) < 0 or bool(
            ((limited < kernel.limits.lower) | (limited > kernel.limits.upper)).any()
        ):
            raise SolverError(
                "the counts from which a chain begins are negative or break a public limit. Please report this.",
                code="check-failed",
            )
        tract, is_vacant = tree.tract, count[:, 0] == 0
        n = int(tract.max()) + 1
        filled = bits_of(count > 0)
        return State(
            count,
            filled,
            residual,
            limited,
            np.bincount(tract[self.is_free & is_vacant], minlength=n).astype(np.int32),
            np.bincount(tract[self.is_free & ~is_vacant], minlength=n).astype(np.int32),
            np.empty(WINDOW + 1),
            np.empty(WINDOW),
            np.empty((2, 3, len(steps.group))),
            np.empty_like(filled[0]),
            np.empty((2, len(tree.ancestor)), np.int64),
        )

    def of_table(self, values: Int32s, table: int) -> Int32s:
        """The part of values, in the order of `State.residual`, that belongs to a table of noisy answers; a view of
        shape (geounits, answers).
        """
        return _of_table(self.kernel.answers, values, table)


def bits_of(flags: Bools) -> Words:
    """Flags as bits of words, along the last axis; the lowest bit of the first word is the first flag."""
    padding = [(0, 0)] * (flags.ndim - 1) + [(0, -flags.shape[-1] % WORD)]
    return np.packbits(np.pad(flags, padding), axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def posterior_problem(
    schema: Schema,
    spine: Spine,
    levels: Sequence[LevelModel],
    rows: AnswerRows,
    limits: Sequence[LimitRows],
    first: Sequence[str] = (),
    covariates: Covariates | None = None,
    *,
    earlier: EarlierCensus | None = None,
    gaussian: bool,
) -> PosteriorProblem:
    """Lay out measurements and limits for the compiled moves.

    Args:
        schema: The universe.
        spine: The hierarchy.
        levels: What is measured at each geolevel, root first.
        rows: The noisy answers.
        limits: Public limits and invariants.
        first: Attributes that divide the persons of a block first, such as those with public bounds. The others follow,
            those with the most levels first.
        covariates: What public numbers say of the blocks; None for no such numbers.
        earlier: Public counts of an earlier census; None for none.
        gaussian: Whether the noise is Gaussian; otherwise it is Laplace noise.
    Raises:
        ConfigError: a noisy answer is too large.
        StoreError: measurements are missing.
    """
    known = covariates or Covariates.none(spine.n_geounits(spine.finest))
    tree, above, sizes = _tree(spine, limits, np.flatnonzero(schema.possible(np.arange(schema.size))), known)
    queries, precisions, answers = _answers(spine, levels, rows, schema.size, gaussian)
    cells = np.arange(schema.size)
    ordered = _ordered(schema, first)
    steps = _steps(schema, ordered)
    kernel_limits = _limits(spine, schema, limits)
    possible = np.zeros(len(steps.step), bool)
    for columns in steps.group:
        possible[columns[schema.possible(cells)]] = True
    allowed, is_free = _allowed(tree, kernel_limits)
    by_attribute = list(_levels(schema, allowed))
    return PosteriorProblem(
        schema,
        spine,
        Problem(tree, answers, kernel_limits, steps),
        queries,
        precisions,
        is_free,
        tuple(_turns(tree, stride, of_blocks) for stride, of_blocks in by_attribute),
        _turns(tree, 1, np.ones((len(allowed), 1), bool)),
        tuple(number for number, (_, of_blocks) in enumerate(by_attribute) if _differ(of_blocks)),
        possible,
        _sparse(spine, answers),
        above,
        sizes,
        EarlierShapes.none(steps.step)
        if earlier is None
        else _earlier(schema, tree, above, steps, ordered, earlier),
    )


def _earlier(
    schema: Schema,
    tree: Tree,
    above: tuple[Int32s, ...],
    steps: Steps,
    ordered: Sequence[str],
    census: EarlierCensus,
) -> EarlierShapes:
    """The earlier census by the geounits of the prior."""
    row = len(tree.ancestor) - 1 - census.level
    geounit = np.arange(tree.ancestor.shape[1], dtype=np.int32)
    for place in [tree.family, *above][:row]:
        geounit = place[geounit]
    of_spine = np.empty(int(geounit.max()) + 1, np.int64)
    of_spine[geounit] = tree.ancestor[row]
    return EarlierShapes.of(census, schema, steps, ordered, row, of_spine)


def _tree(
    spine: Spine, limits: Sequence[LimitRows], possible: Integers, covariates: Covariates
) -> tuple[Tree, tuple[Int32s, ...], SizeLaws]:
    """The spine, for each geolevel of the prior the geounit above each, and the laws of sizes.

    The geounits of the prior are those of the spine. Where public bounds limit the total of some blocks and not of all,
    those without a limit have geounits of their own up to the whole area: an office leaves the bound open where there
    are group quarters, which are not like the blocks around them.
    """
    finest_first = range(spine.finest, -1, -1)
    ancestor = np.array([spine.ancestors(level) for level in finest_first], np.int32)
    offsets = [spine.finest_offsets(level) for level in finest_first]
    level_begin = np.concatenate([[0], np.cumsum([len(begin) for begin in offsets])])
    is_open = np.ones(ancestor.shape[1], np.int32)
    for item in limits:
        # A query of one answer may leave people out, and then says nothing of the total.
        if item.level == spine.finest and item.query.size == 1 and not item.query.answers_of(possible).any():
            is_open[item.upper[:, 0] < LARGEST_INT32] = 0
    areas = [np.unique(2 * row + is_open, return_inverse=True)[1].astype(np.int32) for row in ancestor[1:]]
    above = []
    for lower, upper in pairwise(areas):
        of_lower = np.empty(int(lower.max()) + 1, np.int32)
        of_lower[lower] = upper
        above.append(of_lower)
    # In the order of the families.
    rows, law = np.unique(np.column_stack([areas[0], covariates.design]), axis=0, return_inverse=True)
    tracts, tract = np.unique(np.column_stack([areas[1], covariates.kind]), axis=0, return_inverse=True)
    begin = np.searchsorted(rows[:, 0], np.arange(int(areas[0].max()) + 2))
    tree = Tree(
        ancestor,
        np.concatenate(offsets),
        level_begin,
        areas[0],
        tract.reshape(-1).astype(np.int32),
        law.reshape(-1).astype(np.int32),
    )
    return (
        tree,
        tuple(above),
        SizeLaws(begin, np.ascontiguousarray(rows[:, 1:]), tracts[:, 1].astype(np.int32)),
    )


def _answers(
    spine: Spine, levels: Sequence[LevelModel], rows: AnswerRows, n_cells: int, gaussian: bool
) -> tuple[tuple[str, ...], Floats, Answers]:
    tables = [
        (query, spine.finest - number, levels[number].precisions[:, q])
        for number in range(spine.finest, -1, -1)
        for q, query in enumerate(levels[number].measured)
        if levels[number].precisions[:, q].any()
    ]
    geolevels = [geolevel for _, geolevel, _ in tables]
    width, offset = np.zeros(spine.n_levels, np.int64), []
    for query, geolevel, _ in tables:
        offset.append(int(width[geolevel]))
        width[geolevel] += query.size
    # Rows of different geounits begin at different places, also where nothing is measured.
    width = np.maximum(width, 1)
    answer_of = answer_tables([query for query, _, _ in tables], n_cells).T
    n_values = [spine.n_geounits(spine.finest - geolevel) * int(n) for geolevel, n in enumerate(width)]
    precision = [of_table for _, _, of_table in tables]
    precisions = np.concatenate([*precision, np.zeros(0)])
    kernel = Answers(
        np.ascontiguousarray(np.where(answer_of >= 0, answer_of + np.array(offset, np.int32), np.int32(-1))),
        np.searchsorted(geolevels, np.arange(spine.n_levels + 1)),
        np.array(geolevels, np.int64),
        np.array(offset, np.int64),
        np.array([query.size for query, _, _ in tables], np.int64),
        np.zeros(sum(n_values), np.int32),
        _begins(n_values),
        width,
        inverse_parameters(precisions, gaussian=gaussian),
        _begins([len(part) for part in precision]),
        np.array([int(len(part) > 1) for part in precision], np.int64),
        gaussian,
    )
    for t, (query, geolevel, _) in enumerate(tables):
        number = spine.finest - geolevel
        values = rows.rows(number, [query], 0, spine.n_geounits(number))
        if int(np.abs(values.astype(np.int64)).max(initial=0)) > LARGEST:
            raise ConfigError(
                f"draws cannot be made: a noisy answer of '{query.name}' at {levels[number].geolevel} is beyond "
                f"{LARGEST:,}. Use the published counts and intervals.",
                code="draws-unsuited",
            )
        _of_table(kernel, kernel.measured, t)[:] = values
    return tuple(query.name for query, _, _ in tables), precisions, kernel


def _of_table(answers: Answers, values: Int32s, table: int) -> Int32s:
    geolevel, begin = answers.geolevel[table], answers.offset[table]
    ends = [*answers.row_begin[1:], len(values)]
    rows = values[answers.row_begin[geolevel] : ends[geolevel]].reshape(-1, answers.width[geolevel])
    return rows[:, begin : begin + answers.size[table]]


def inverse_parameters(precisions: Floats, *, gaussian: bool) -> Floats:
    """1 / parameter of the laws of noise with these precisions, which are 1 / variance: sigma^2, or the scale of
    Laplace noise.
    """
    if not gaussian:
        # The variance of discrete Laplace noise is 1 / (cosh(1 / scale) - 1).
        return 2.0 * np.arcsinh(np.sqrt(0.5 * precisions))
    distinct, place = np.unique(precisions, return_inverse=True)
    return np.array([_inverse_sigma_squared(float(precision)) for precision in distinct])[place]


def _inverse_sigma_squared(precision: float) -> float:
    """1 / sigma^2 of the discrete Gaussian law with a given 1 / variance."""
    # From a variance of 2 on, the two differ by less than 1e-13.
    if precision <= 0.5:
        return precision
    # Here, since importing it takes a tenth of a second, and most runs have no use for it.
    from scipy.optimize import brentq

    values = np.arange(1, 40)  # beyond 40 the law with a variance below 2 has less than 1e-170

    def variance(inverse: float) -> float:
        weights = 2.0 * np.exp(-0.5 * inverse * values**2)
        return float((weights * values**2).sum() / (1.0 + weights.sum()))

    # The variance falls with `inverse`; noise of a smaller variance than 1e-9 would not change any count.
    return float(
        brentq(lambda inverse: variance(inverse) - max(1.0 / precision, 1e-9), 0.4, 60.0, xtol=1e-13)
    )


def _limits(spine: Spine, schema: Schema, limits: Sequence[LimitRows]) -> Limits:
    # Impossible cells are one sum for the whole area that is zero: no move puts a person there.
    barred = np.where(schema.possible(np.arange(schema.size)), -1, 0).astype(np.int32)
    zero = np.zeros(spine.n_geounits(0), np.int32)
    ordered = sorted(limits, key=lambda item: -item.level)
    return Limits(
        np.array([*(spine.finest - item.level for item in ordered), spine.finest], np.int64),
        np.concatenate([answer_tables([item.query for item in ordered], schema.size), barred[None, :]]),
        _begins([item.lower.size for item in ordered] + [len(zero)]),
        np.array([*(item.query.size for item in ordered), 1], np.int64),
        np.concatenate([*(item.lower.ravel() for item in ordered), zero]).astype(np.int32),
        np.concatenate([*(item.upper.ravel() for item in ordered), zero]).astype(np.int32),
    )


def _ordered(schema: Schema, first: Sequence[str]) -> list[str]:
    """The attributes in the order of the steps."""
    others = [attribute for attribute in schema.attributes if attribute.name not in first]
    return [*first, *(attribute.name for attribute in sorted(others, key=lambda attribute: -attribute.size))]


def _steps(schema: Schema, ordered: Sequence[str]) -> Steps:
    """The steps, one attribute after the other."""
    attributes = [schema.attribute(name) for name in ordered]
    cells = np.arange(schema.size)
    levels = dict(zip(schema.attribute_names, schema.decode(cells).T, strict=True))
    group, parent, step, number = (
        [np.zeros(schema.size, np.int64)],
        [-1],
        [0],
        np.zeros(schema.size, np.int64),
    )
    for depth, attribute in enumerate(attributes, start=1):
        # Numbered by parent, then level: groups of one parent lie side by side.
        number = number * attribute.size + levels[attribute.name]
        n_groups = int(number.max()) + 1
        above = np.zeros(n_groups, np.int64)
        above[number] = group[-1]
        group.append(number + len(parent))
        parent.extend(above.tolist())
        step.extend([depth] * n_groups)
    # In the last step a group is a cell; its column is the cell's number, so that rows of counts are the schema's.
    begin = len(parent) - schema.size
    parent[begin:] = group[-2].tolist()
    group[-1] = begin + cells
    classed = 1 + int(np.argmax([attribute.size for attribute in attributes]))
    return Steps(np.array(group, np.int32), np.array(parent, np.int32), np.array(step, np.int32), classed)


def _sparse(spine: Spine, answers: Answers) -> Bools:
    """Geounits of the geolevel above the blocks that have few people, by the most precise query that counts everybody;
    none where there is no such query.
    """
    n_geounits = spine.n_geounits(spine.finest - 1)
    least = np.full(n_geounits, np.inf)
    is_sparse = np.zeros(n_geounits, bool)
    for t in np.flatnonzero((answers.geolevel == 1) & (answers.place_of >= 0).all(axis=0)).tolist():
        size, begin = answers.size[t], answers.precision_begin[t]
        precision = answers.precision[begin : begin + 1 + answers.precision_step[t] * (n_geounits - 1)]
        people = _of_table(answers, answers.measured, t).sum(axis=1)
        with np.errstate(divide="ignore"):
            variance = np.broadcast_to(size / precision, n_geounits)
        is_sparse = np.where(variance < least, people < SPARSE, is_sparse)
        least = np.minimum(variance, least)
    return is_sparse


def _begins(sizes: Sequence[int]) -> Integers:
    return np.cumsum([0, *sizes], dtype=np.int64)[:-1]


def _sums(tree: Tree, geolevel: int, answer_of: Int32s, size: int, counts: Int32s) -> Integers:
    """Answers of the geounits of a geolevel; shape (geounits, size)."""
    of_blocks = np.zeros((counts.shape[0], size), np.int64)
    counted = answer_of >= 0
    np.add.at(of_blocks.T, answer_of[counted], counts.T[counted])
    begin = tree.begin[tree.level_begin[geolevel] : tree.level_begin[geolevel + 1]]
    return np.asarray(np.add.reduceat(of_blocks, begin[:-1], axis=0))


def _limited(tree: Tree, limits: Limits, counts: Int32s) -> Int32s:
    """Values of all limited answers, in their order."""
    values = [
        _sums(tree, int(geolevel), answer_of, int(size), counts).ravel()
        for geolevel, answer_of, size in zip(limits.geolevel, limits.answer_of, limits.size, strict=True)
    ]
    return np.concatenate(values).astype(np.int32)


def _allowed(tree: Tree, limits: Limits) -> tuple[Bools, Bools]:
    """Which cells of each block limits allow to have people, and which blocks may be empty and may have people; shapes
    (blocks, cells) and (blocks,).
    """
    n_blocks, n_cells = tree.ancestor.shape[1], limits.answer_of.shape[1]
    allowed, forced = np.ones((n_blocks, n_cells), bool), np.zeros(n_blocks, bool)
    for geolevel, answer_of, begin, size in zip(
        limits.geolevel, limits.answer_of, limits.begin, limits.size, strict=True
    ):
        at = begin + tree.ancestor[geolevel].astype(np.int64)[:, None] * size + np.maximum(answer_of, 0)
        allowed &= (answer_of < 0) | (limits.upper[at] > 0)
        if geolevel == 0:
            forced |= ((answer_of >= 0) & (limits.lower[at] > 0)).any(axis=1)
    return allowed, np.asarray(allowed.any(axis=1) & ~forced, bool)


def _levels(schema: Schema, allowed: Bools) -> Iterator[tuple[int, Bools]]:
    """The step between levels of each attribute, in cells, and which levels limits allow in each block, from the last
    attribute to the first; `allowed` are the cells, of shape (blocks, cells).
    """
    stride = 1
    for attribute in reversed(schema.attributes):
        of_cells = allowed.reshape(len(allowed), -1, attribute.size, stride)
        yield stride, np.asarray(of_cells.any(axis=(1, 3)), bool)
        stride *= attribute.size


def _differ(of_blocks: Bools) -> bool:
    """Whether blocks that may have people have different levels."""
    return len(np.unique(of_blocks[of_blocks.any(axis=1)], axis=0)) > 1


def _turns(tree: Tree, stride: int, of_blocks: Bools) -> tuple[Turns, ...]:
    """How levels can be paired in the geounits of each geolevel; `of_blocks` are those of each block."""
    begins = (tree.begin[i : j - 1] for i, j in pairwise(tree.level_begin.tolist()))
    return tuple(_paired(stride, np.logical_or.reduceat(of_blocks, begin, axis=0)) for begin in begins)


def _paired(stride: int, has_level: Bools) -> Turns:
    """How levels can be paired in geounits that have some of the levels of an attribute; shape (geounits, levels)."""
    size = has_level.shape[1]
    kinds, kind = np.unique(has_level, axis=0, return_inverse=True)
    level, turn = np.arange(size), np.arange(size)[:, None]
    partner = (turn - level) % size
    # A single level is paired with itself.
    pairs = (kinds[:, None, :] & kinds[:, partner] & ((partner != level) | (size == 1))).any(axis=2)
    begin = np.concatenate([[0], np.cumsum(pairs.sum(axis=1))])
    return Turns(stride, size, kind.reshape(-1).astype(np.int32), begin, np.nonzero(pairs)[1])
