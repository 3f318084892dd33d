"""Questions about estimates: answers of query groups or any weighted sums of cells, and how answers reach the cells.

*Cascade.* The adjoint of several queries adds every answer to all of its cells. Done directly, each cell gets
one addition for each query. If a finer query refines a coarse one, each answer of the coarse query is first
added to the finer query's answers. Every query passes its answers on to the smallest query that refines it.
If there is none, it passes them on to the cells. Worked case: the total (1 answer) is passed on to sex (2
answers), and sex to sex by age (200 answers), which reaches the cells. A cell gets one addition instead of
three.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SchemaError
from tallyveil.estimation.intervals.algebra import BlockAlgebra, coefficients, gram
from tallyveil.kernels.tree.sweep import Cascade, answer_rows, straight_answers
from tallyveil.schema.query_group import QueryGroup


def cascade_of(groups: Sequence[QueryGroup], n_cells: int, *, averaged: bool = False) -> Cascade:
    """The cascade in which every query passes its answers on to the smallest one that refines it, or to the cells.

    Args:
        groups: Queries, in the order of their answers in a row.
        n_cells: Number of cells of the schema.
        averaged: Whether answers are divided by their number of cells.
    """
    cells = np.arange(n_cells, dtype=np.int64)
    answers = [group.answers_of(cells) for group in groups]
    begin = np.concatenate([[0], np.cumsum([group.size for group in groups])]).astype(np.int64)
    n_answers = int(begin[-1])
    # A finer query has at least as many answers, so that only later ones can be its target.
    by_size = sorted(range(len(groups)), key=lambda q: (groups[q].size, q))
    targets, maps = [], []
    for place, q in enumerate(by_size):
        target, answer_map = -1, answers[q]
        # Smallest first: the next refinement costs the fewest additions.
        for finer in by_size[place + 1 :]:
            containing = _refined(answers[q], answers[finer], groups[finer].size)
            if containing is not None:
                target, answer_map = finer, containing
                break
        targets.append(target)
        # The place after all answers stands for "none": kernels add to it without asking.
        maps.append(np.where(answer_map >= 0, answer_map + begin[q], n_answers).astype(np.int32))
    return Cascade(
        begin=begin,
        scale=_scale(answers, groups) if averaged else np.ones(n_answers),
        source=np.array(by_size, np.int64),
        target=np.array(targets, np.int64),
        map_begin=np.concatenate([[0], np.cumsum([len(answer_map) for answer_map in maps])]).astype(np.int64),
        maps=np.concatenate([np.zeros(0, np.int32), *maps]),
    )


def _scale(answers: Sequence[Integers], groups: Sequence[QueryGroup]) -> Floats:
    sizes = [
        np.bincount(numbers[numbers >= 0], minlength=group.size)
        for numbers, group in zip(answers, groups, strict=True)
    ]
    scale: Floats = 1.0 / np.maximum(np.concatenate([np.zeros(0, np.int64), *sizes]), 1)
    return scale


def _refined(coarse: Integers, fine: Integers, n_fine: int) -> Integers | None:
    """For each answer of the fine query, the answer of the coarse query that contains it; None if they do not nest."""
    # A cell that the fine query leaves out would be lost on the way.
    if bool((coarse[fine < 0] >= 0).any()):
        return None
    containing = np.full(n_fine, -1, np.int64)
    counted = fine >= 0
    # Of the cells of one fine answer the last one wins; if they disagree, the comparison below shows it.
    containing[fine[counted]] = coarse[counted]
    return containing if bool((containing[fine[counted]] == coarse[counted]).all()) else None


ROWS_AT_ONCE = 256
"""Questions or geounits whose coefficients are computed together. With 2,016 cells, 256 rows take 4 MiB, which a core's
cache nearly holds. Twice or half of it changes no answer."""
NUMBERS_AT_ONCE = 1 << 24
"""Most numbers of Gram blocks, or of cells, that are in memory besides those that are kept."""
UNKNOWN_SHARE = 1e-7
"""A question with more than this fraction of its weight in unknown directions has no estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Linear questions about the cells of a geounit or region.

    Attributes:
        algebra: The algebra of the release.
        sums: Coefficients of weighted sums of cells, one question in each row; None if `cascade` defines the questions.
        cascade: The cascade of the query groups, or None. Of a query group whose groups overlap, it has every layer.
        places: For each question, its answer of the cascade. Each layer has places for all answers of its query group;
            the place of an answer in its own layer is the one that is kept.
        grams: Distinct packed blocks g. A variance is the sum of g times the covariance's blocks; shape (k,
            n_block_entries).
        gram_of: For each question, its row of `grams`.
    """

    algebra: BlockAlgebra
    sums: Floats | None
    cascade: Cascade | None
    places: Integers
    grams: Floats
    gram_of: Integers

    @property
    def n(self) -> int:
        """Number of questions."""
        return len(self.places)

    def answers(self, rows: Floats, pool: Executor | None = None) -> Floats:
        """Answers from coefficients (n, n_cells), computed on the threads of a pool; shape (n, questions)."""
        if self.sums is not None:
            return rows @ self.sums.T
        basis, cascade = self.algebra.basis, self.cascade
        assert cascade is not None
        out = np.zeros((len(rows), len(cascade.scale) + 1))

        def work(first: int) -> None:
            answer_rows(basis, cascade, rows, first, min(first + ROWS_AT_ONCE, len(rows)), out)

        # Each run writes its own rows of `out`; the list waits for all, and raises what a thread raised.
        list((pool.map if pool else map)(work, range(0, len(rows), ROWS_AT_ONCE)))
        return out[:, :-1] if len(self.places) == len(cascade.scale) else out[:, self.places]

    def variances(self, blocks: Floats) -> Floats:
        """Variances from packed symmetric covariances (n, n_block_entries); shape (n, questions)."""
        # A variance of zero may come out a rounding error below it.
        variances: Floats = np.maximum(blocks @ self.grams.T, 0.0)[:, self.gram_of]
        return variances

    def unknown(self, blocks: Floats) -> NDArray[np.bool_]:
        """Whether each question involves directions that packed blocks mark as unknown; bool, (n, questions)."""
        # A question's whole weight is its product with the identity, as if everything were unknown.
        whole = self.grams @ self.algebra.identity(1)[0]
        involved: NDArray[np.bool_] = (blocks @ self.grams.T > UNKNOWN_SHARE * whole)[:, self.gram_of]
        return involved

    def rows(self) -> Floats:
        """Coefficients of every question; shape (questions, n_cells)."""
        if self.sums is not None:
            return self.sums
        assert self.cascade is not None
        units = _unit_rows(self.cascade, self.algebra.n_cells, 0, len(self.cascade.scale))
        return coefficients(self.algebra, units[self.places])


def questions_of(algebra: BlockAlgebra, asked: Sequence[QueryGroup] | QueryGroup) -> Questions:
    """Questions from query groups, whose answers follow one another.

    Args:
        algebra: The algebra of the release. Any query of its schema is allowed, whether measured or not.
        asked: One query group or several. Groups of a query may overlap.
    Raises:
        SchemaError: groups belong to another schema.
    """
    groups = [asked] if isinstance(asked, QueryGroup) else asked
    for group in groups:
        if group.n_cells != algebra.n_cells:
            raise SchemaError(
                f"a question has {group.n_cells} cells, but schema '{algebra.schema.name}' has {algebra.n_cells}. Ask "
                "a query of that schema."
            )
    cascade = cascade_of([layer for group in groups for layer in group.layers], algebra.n_cells)
    places = _places_of_answers(groups)
    grams, gram_of = _distinct(algebra, None, cascade)
    return Questions(algebra, None, cascade, places, grams, gram_of[places])


def sums_of(algebra: BlockAlgebra, rows: Floats) -> Questions:
    """Questions about weighted sums of cells, given by their coefficients; shape (questions, n_cells)."""
    return Questions(algebra, rows, None, np.arange(len(rows)), *_distinct(algebra, rows, None))


def _places_of_answers(groups: Sequence[QueryGroup]) -> Integers:
    """Place of each answer among the answers of all layers, one layer after the other."""
    places, begin = [np.zeros(0, np.int64)], 0
    for group in groups:
        layer = np.zeros(group.shape, np.int64)
        for axis, factor in enumerate(group.factors):
            home = np.zeros(factor.size, np.int64)
            for number, codes in enumerate(factor.layers):
                # Every answer of a factor lies in exactly one layer.
                home[codes[codes >= 0]] = number
            shape = [factor.size if other == axis else 1 for other in range(len(group.factors))]
            # Layers of a query are numbered as its answers are, the last attribute fastest.
            layer = layer * len(factor.layers) + home.reshape(shape)
        places.append(begin + layer.ravel() * group.size + np.arange(group.size))
        begin += group.n_layers * group.size
    return np.concatenate(places)


def n_distinct_blocks(algebra: BlockAlgebra, groups: Sequence[QueryGroup]) -> int:
    """Number of distinct Gram blocks of the answers of some queries: the rows of `Questions.grams`, without them."""
    cascade = cascade_of([layer for group in groups for layer in group.layers], algebra.n_cells)
    return len(_alike(algebra, None, cascade)[0])


def _distinct(algebra: BlockAlgebra, sums: Floats | None, cascade: Cascade | None) -> tuple[Floats, Integers]:
    """The distinct Gram blocks, and the row of each question. Many answers of a query share the same blocks."""
    first, number = _alike(algebra, sums, cascade)
    grams = np.empty((len(first), algebra.n_block_entries))
    at_once = max(1, NUMBERS_AT_ONCE // max(algebra.n_block_entries, algebra.n_cells))
    for start in range(0, len(first), at_once):
        # Only one question of each kind needs its blocks: the answers of a query are mostly alike.
        run = first[start : start + at_once]
        rows = np.concatenate([_rows(algebra, sums, cascade, k, k + 1) for k in run])
        grams[start : start + at_once] = gram(algebra, rows)
    return grams, number


def _alike(algebra: BlockAlgebra, sums: Floats | None, cascade: Cascade | None) -> tuple[Integers, Integers]:
    """The first question with each distinct Gram blocks, and the number of these blocks for each question.

    The blocks of a question may be as many numbers as it has pairs of cells. So they are told apart by their products
    with a vector. Entries of the blocks are algebraic numbers, and the cosines of different whole numbers are linearly
    independent over these (Lindemann and Weierstrass). So products with a vector of cosines are equal only if the
    blocks are.
    """
    known: dict[bytes, int] = {}
    first: list[int] = []
    number: list[int] = []
    n = len(sums) if sums is not None else len(cascade.scale) if cascade is not None else 0
    for start in range(0, n, ROWS_AT_ONCE):
        rows = _rows(algebra, sums, cascade, start, min(start + ROWS_AT_ONCE, n))
        for place, row in enumerate(_products(algebra, rows), start=start):
            # Rounded, because equal blocks may differ in their last bits by the order of additions.
            key = (np.round(row, 10) + 0.0).tobytes()  # no zero is negative
            if key not in known:
                known[key] = len(first)
                first.append(place)
            number.append(known[key])
    return np.array(first, np.int64), np.array(number, np.int64)


def _products(algebra: BlockAlgebra, rows: Floats) -> Floats:
    """Products of the Gram blocks of questions, whose coefficients are given, with a vector for each class."""
    basis, packed = algebra.basis, []
    for k, dim in enumerate(basis.dims.tolist()):
        part = rows[:, int(basis.coefficients[k]) : int(basis.coefficients[k + 1])].reshape(
            len(rows), dim, -1
        )
        vector = np.cos(np.arange(1, dim + 1))
        packed.append(np.einsum("nim,nm->ni", part, np.einsum("njm,j->nm", part, vector)))
    return np.concatenate(packed, axis=1)


def _rows(
    algebra: BlockAlgebra, sums: Floats | None, cascade: Cascade | None, start: int, stop: int
) -> Floats:
    """Coefficients of questions start to stop - 1."""
    if sums is not None:
        return sums[start:stop]
    assert cascade is not None
    return coefficients(algebra, _unit_rows(cascade, algebra.n_cells, start, stop))


def _unit_rows(cascade: Cascade, n_cells: int, start: int, stop: int) -> Floats:
    """Weights of the cells in answers start to stop - 1."""
    out = np.zeros((stop - start, n_cells))
    cells = np.arange(n_cells)
    for query in range(len(cascade.begin) - 1):
        if cascade.begin[query] < stop and cascade.begin[query + 1] > start:
            places = straight_answers(cascade, query)
            inside = (places >= start) & (places < stop)
            out[places[inside] - start, cells[inside]] = 1.0
    return out
