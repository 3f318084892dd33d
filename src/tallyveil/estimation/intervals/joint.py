"""Joint covariances of many linear questions, from one pass up the tree.

Problem. A question is a weighted sum over the cells of a region. Wanted is the covariance matrix C of the
estimates of many questions, or products of it with weights.

Variables. The pass (`tallyveil.estimation.intervals.regions`) gives blocks for pairs of a region and a geounit.
A question with the coefficients q, about a region with the blocks S, has the row q S. So C is a sum over
geounits of products of few columns: of (q S) (q L)' + (q M) (q Z)' for the questions whose regions the geounit is
partly in, and likewise with w P where it is whole. No pair of regions is visited by itself, except those that
have whole finest geounits in common, of which there may be too many for one product each.

*Fewer columns.* Each class of the basis has several copies with one and the same block. So coefficients may be
rotated among the copies without changing any covariance. The rotation is chosen so that the coefficients of all
questions are zero in most copies: ten questions need at most ten copies, whatever the number of cells. Worked
case: the totals of 564 areas have one copy of one class, and their rows have a handful of numbers instead of
2,016.

*Exact and unknown.* A question that is known exactly has variance zero, with all its covariances. One that the
measurements do not determine has no covariance: its entries are NaN.

Worked case. A parent and its two children are each measured with variance 1. The questions are both children.
Each has S = 1/2 and L = -2/3 at the parent (see `regions`), and w P = 1 at itself. So C has 1 - 1/3 = 2/3 on
the diagonal and -1/3 beside it, and the variance of the sum is 2/3, that of the parent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.algebra import SPECK, BlockAlgebra
from tallyveil.estimation.intervals.covariance import TreeCovariance
from tallyveil.estimation.intervals.regions import LevelPairs, Partial, Region, Whole, pass_up

NUMBERS_AT_ONCE = 1 << 23
"""Numbers of a strip of the matrix, and of blocks of pairs of regions, that are in memory at once besides what is kept:
64 MiB each. Twice or half of it changes time and memory alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Linear questions, each about the cells of one region.

    Attributes:
        regions: The regions.
        region: Number of each question's region; shape (n,).
        rows: Coefficients of weighted sums of cells; shape (rows, n_cells). Many questions may share one.
        row: Row of each question; shape (n,).
    """

    regions: Sequence[Region]
    region: Integers
    rows: Floats
    row: Integers

    @property
    def n(self) -> int:
        """Number of questions."""
        return len(self.region)

    def of_region(self) -> list[Integers]:
        """The questions about each region, rising."""
        order = np.argsort(self.region, kind="stable")
        begin = np.searchsorted(self.region[order], np.arange(len(self.regions) + 1))
        return [order[start:stop] for start, stop in pairwise(begin.tolist())]


def joint_covariance(tree: TreeCovariance, asked: Asked, variances: Floats) -> "JointCovariance":
    """Prepare the covariances of questions; no measurement is read.

    Args:
        tree: Covariances of the tree.
        asked: The questions.
        variances: The variance of each, as `region_variances` gives it; shape (n,).
    """
    finest, *inner = pass_up(tree, asked.regions)
    of_region = asked.of_region()
    return JointCovariance(
        _columns(tree.algebra, asked.rows),
        asked.row,
        variances,
        _finest(finest, len(asked.regions), tree.finest.signature),
        tuple(_level(pairs, of_region) for pairs in inner),
        bool(tree.inner[0].offsets[1] == 1),
        of_region,
    )


@dataclass(frozen=True, slots=True, eq=False)
class JointCovariance:
    """Covariances of the estimates of questions, of which as much is computed as is asked for.

    Attributes:
        columns: The coefficients, turned.
        row: Row of each question; shape (n,).
        variances: In squared counts: 0 for what is known exactly, infinite for what the measurements do not determine;
            shape (n,).
        finest: The finest geounits that are whole.
        inner: The levels with children, from the one above the finest up.
        has_one_root: Whether the spine has one root.
        of_region: The questions about each region, rising.
    """

    columns: "_Columns"
    row: Integers
    variances: Floats
    finest: "_Finest"
    inner: "tuple[_Level, ...]"
    has_one_root: bool
    of_region: Sequence[Integers]

    @property
    def n(self) -> int:
        """Number of questions."""
        return len(self.row)

    def matrix(self) -> Floats:
        """All covariances; shape (n, n), symmetric to the last bit. It takes 8 n^2 bytes, and little besides."""
        out = np.empty((self.n, self.n))
        for run in _spans(self.n, NUMBERS_AT_ONCE // max(self.n, 1)):
            # What is on the diagonal and right of it; the other half is its mirror image.
            strip = self._strip(run)
            square = strip[:, : run.stop - run.start]
            square[:] = 0.5 * (square + square.T)
            out[run, run.start :] = strip
            out[run.start :, run] = strip.T
        np.fill_diagonal(out, np.where(np.isinf(self.variances), np.nan, self.variances))
        return out

    def times(self, weights: Floats) -> Floats:
        """The matrix times weights, without making the matrix; shape (n, k), as the weights have it.

        The covariances of k contrasts with the weights W are W' times(W). Rows of questions that are not determined are
        NaN, and so is a column in which such a question has a weight.
        """
        exact, unknown = self.variances == 0, np.isinf(self.variances)
        used = np.where((exact | unknown)[:, None], 0.0, weights)
        out = np.zeros(weights.shape)
        for term in self._terms(0, self.n, 0):
            out[term.left] += term.first @ (term.second.T @ used[term.right])
        out[exact] = 0.0
        out[:, (weights[unknown] != 0).any(axis=0)] = np.nan
        out[unknown] = np.nan
        return out

    def _strip(self, run: slice) -> Floats:
        """Covariances of a run of questions with those from its first on."""
        start, stop = run.start, run.stop
        out = np.zeros((stop - start, self.n - start))
        for term in self._terms(start, stop, start):
            left, right = term.left - start, term.right - start
            product = term.first @ term.second.T
            if _is_run(left) and _is_run(right):
                # Views are added to in place; with lists of places numpy copies the sum twice.
                out[left[0] : left[-1] + 1, right[0] : right[-1] + 1] += product
            else:
                out[np.ix_(left, right)] += product
        # What is exact has rounding errors of zero. What is unknown has no numbers, not even with what is exact.
        for value, these in ((0.0, self.variances == 0), (np.nan, np.isinf(self.variances))):
            out[these[start:stop]] = value
            out[:, these[start:]] = value
        return out

    def _terms(self, start: int, stop: int, least: int) -> "Iterator[_Term]":
        """Products whose sum is the matrix: rows start to stop - 1, and columns from `least` on."""
        inner = (self._inner_terms(level, start, stop, least) for level in self.inner)
        for term in chain(self._finest_terms(start, stop, least), *inner):
            if len(term.left) and len(term.right):
                yield term

    def _finest_terms(self, start: int, stop: int, least: int) -> "Iterator[_Term]":
        """For every pair of regions that have whole finest geounits in common."""
        first, second = self.finest.overlaps
        rows, columns = (
            [questions[_within(questions, *span)] for questions in self.of_region]
            for span in ((start, stop), (least, self.n))
        )
        asks = [np.array([bool(len(questions)) for questions in lists]) for lists in (rows, columns)]
        wanted = np.flatnonzero(asks[0][first] & asks[1][second])
        for run in _spans(len(wanted), self.finest.at_once(self.columns.algebra)):
            pair = wanted[run]
            blocks = self.finest.blocks(first[pair], second[pair])
            for number, (one, other) in enumerate(
                zip(first[pair].tolist(), second[pair].tolist(), strict=True)
            ):
                left, right = rows[one], columns[other]
                moved = self.columns.times(blocks[np.full(len(left), number)], self.row[left])
                yield _Term(left, moved, right, self.columns.plain(self.row[right]))

    def _inner_terms(self, level: "_Level", start: int, stop: int, least: int) -> "Iterator[_Term]":
        """For every geounit of a level with children."""
        for partial, whole in level.touched(start, stop):
            (p_left, p_right), (w_left, w_right) = (
                (these.within(start, stop), these.within(least, self.n)) for these in (partial, whole)
            )
            slopes, free, more = level.partial.slope, level.partial.free, level.partial.more
            first = self._times(slopes, p_left)
            # Above a single root nothing is added, since nothing is measured there: L is zero but for rounding.
            if not (self.has_one_root and level is self.inner[-1]):
                yield _Term(
                    p_left.questions, first, p_right.questions, self._times(level.partial.rest, p_right)
                )
                if free is not None and more is not None:
                    second = self._times(free, p_right)
                    yield _Term(p_left.questions, self._times(more, p_left), p_right.questions, second)
            if len(whole.questions):
                moved = self._whole(level, w_left, moved=True)
                yield _Term(
                    w_left.questions, moved, w_right.questions, self._whole(level, w_right, moved=False)
                )
                yield _Term(w_left.questions, moved, p_right.questions, self._times(slopes, p_right))
                moved = self._whole(level, w_right, moved=True)
                yield _Term(p_left.questions, first, w_right.questions, moved)

    def _times(self, blocks: Floats, about: "_About") -> Floats:
        return self.columns.times(blocks[about.rows], self.row[about.questions])

    def _whole(self, level: "_Level", about: "_About", *, moved: bool) -> Floats:
        """The rows of questions about whole geounits, times P or as they are."""
        weight, geounit = level.whole.weight[about.rows, None], level.whole.geounit[about.rows]
        if not moved:
            return weight * self.columns.plain(self.row[about.questions])
        return weight * self.columns.times(level.covariances[geounit], self.row[about.questions])


class _Term(NamedTuple):
    """A part of the matrix: `first` times the transpose of `second`, at the places of two lists of questions."""

    left: Integers
    first: Floats
    right: Integers
    second: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Finest:
    """The finest geounits that are whole.

    Attributes:
        covariances: Packed blocks P of each signature.
        members: Weight of each region on each geounit; sparse, shape (regions, geounits).
        signatures: Which signature each geounit has; sparse, shape (geounits, signatures).
        overlaps: The pairs of regions that have a geounit in common, each region with itself and both orders included.
    """

    covariances: Floats
    members: sparse.csr_matrix
    signatures: sparse.csr_matrix
    overlaps: tuple[Integers, Integers]

    def at_once(self, algebra: BlockAlgebra) -> int:
        """Number of pairs whose blocks are made together."""
        longest = int(np.diff(self.members.indptr).max(initial=1))
        return NUMBERS_AT_ONCE // max(algebra.n_block_entries, longest)

    def blocks(self, first: Integers, second: Integers) -> Floats:
        """For each pair of regions, the sum of P over their common geounits, by the product of weights."""
        both = sparse.csr_matrix(self.members[first].multiply(self.members[second]))
        # By signature first: geounits of one signature have the same P.
        sums: Floats = (both @ self.signatures) @ self.covariances
        return sums


class _About(NamedTuple):
    """Questions, rising for each geounit, and the row of each among the pairs of its region and geounits."""

    questions: Integers
    rows: Integers

    def cut(self, run: slice) -> "_About":
        """Some of them."""
        return _About(self.questions[run], self.rows[run])

    def within(self, start: int, stop: int) -> "_About":
        """Questions start to stop - 1 of one geounit."""
        return self.cut(_within(self.questions, start, stop))


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Questions by the geounits of a level with children.

    Attributes:
        covariances: Packed blocks P of each geounit.
        partial, whole: As in `LevelPairs`.
        begins: Where the questions about each touched geounit begin: of pairs that are partial, and whole.
        about: These questions, by geounit and then rising: of pairs that are partial, and whole.
    """

    covariances: Floats
    partial: Partial
    whole: Whole
    begins: tuple[Integers, Integers]
    about: tuple[_About, _About]

    def touched(self, start: int, stop: int) -> Iterator[tuple[_About, _About]]:
        """The questions about each geounit that one of the questions start to stop - 1 is about: partial, whole."""
        hit = np.zeros(len(self.begins[0]) - 1, np.bool_)
        for begin, about in zip(self.begins, self.about, strict=True):
            inside = (about.questions >= start) & (about.questions < stop)
            counts = np.concatenate([[0], np.cumsum(inside)])
            hit |= counts[begin[1:]] > counts[begin[:-1]]
        for number in np.flatnonzero(hit).tolist():
            partial, whole = (
                about.cut(slice(int(begin[number]), int(begin[number + 1])))
                for begin, about in zip(self.begins, self.about, strict=True)
            )
            yield partial, whole


def _level(pairs: LevelPairs, of_region: Sequence[Integers]) -> _Level:
    assert pairs.partial is not None
    sizes = np.array([len(questions) for questions in of_region], np.int64)
    listed = []
    for these in (pairs.partial, pairs.whole):
        rows = np.repeat(np.arange(len(these.region)), sizes[these.region])
        questions = np.concatenate(
            [np.zeros(0, np.int64), *(of_region[number] for number in these.region.tolist())]
        )
        order = np.lexsort((questions, these.geounit[rows]))
        listed.append((these.geounit[rows][order], _About(questions[order], rows[order])))
    met = np.unique(np.concatenate([geounits for geounits, _ in listed]))
    (before, partial), (beside, whole) = (
        (np.append(np.searchsorted(geounits, met), len(geounits)).astype(np.int64), about)
        for geounits, about in listed
    )
    return _Level(pairs.covariances, pairs.partial, pairs.whole, (before, beside), (partial, whole))


def _finest(pairs: LevelPairs, n_regions: int, signature: Integers) -> _Finest:
    n, whole = len(signature), pairs.whole
    members = sparse.csr_matrix((whole.weight, (whole.region, whole.geounit)), shape=(n_regions, n))
    signatures = sparse.csr_matrix((np.ones(n), (np.arange(n), signature)), shape=(n, len(pairs.covariances)))
    pattern = (members != 0).astype(np.int32)
    first, second = (pattern @ pattern.T).nonzero()
    return _Finest(pairs.covariances, members, signatures, (first.astype(np.int64), second.astype(np.int64)))


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Coefficients of weighted sums of cells, turned among the copies of each class's blocks.

    Attributes:
        algebra: The algebra.
        classes: The classes in which a coefficient is not zero.
        rows: For each of these, the coefficients; shape (rows, dim, copies).
    """

    algebra: BlockAlgebra
    classes: tuple[int, ...]
    rows: tuple[Floats, ...]

    def plain(self, row: Integers) -> Floats:
        """The coefficients of some rows; shape (len(row), width)."""
        return self._joined([rows[row] for rows in self.rows], len(row))

    def times(self, blocks: Floats, row: Integers) -> Floats:
        """The coefficients q of some rows times packed blocks, one row of blocks for each; shape (len(row), width)."""
        return self._joined(list(self._times(blocks, row)), len(row))

    def _times(self, blocks: Floats, row: Integers) -> Iterator[Floats]:
        basis = self.algebra.basis
        for number, rows in zip(self.classes, self.rows, strict=True):
            dim, begin = int(basis.dims[number]), int(basis.blocks[number])
            block = blocks[:, begin : begin + dim * dim].reshape(-1, dim, dim)
            yield np.swapaxes(block, 1, 2) @ rows[row]

    @staticmethod
    def _joined(parts: Sequence[Floats], n: int) -> Floats:
        return np.concatenate(
            [np.zeros((n, 0)), *(part.reshape(n, part.shape[1] * part.shape[2]) for part in parts)], axis=1
        )


def _columns(algebra: BlockAlgebra, rows: Floats) -> _Columns:
    """Turn coefficients (rows, n_cells) so that few copies of each class hold them all."""
    basis, classes, turned = algebra.basis, [], []
    for number, dim in enumerate(basis.dims.tolist()):
        part = rows[:, int(basis.coefficients[number]) : int(basis.coefficients[number + 1])]
        part = part.reshape(len(rows), dim, -1)
        # Coefficients that a query cannot have are rounding errors of zero.
        if not (np.abs(part) > SPECK * np.abs(rows).max(initial=0.0)).any():
            continue
        classes.append(number)
        turned.append(_turned(part))
    return _Columns(algebra, tuple(classes), tuple(turned))


def _turned(part: Floats) -> Floats:
    """Coefficients (rows, dim, copies) with the fewest copies that hold them, by a turn of the copies."""
    flat = part.reshape(-1, part.shape[2])
    distinct = np.unique(flat, axis=0)
    distinct = distinct[distinct.any(axis=1)]
    if len(distinct) >= part.shape[2]:
        return part
    # The columns of `turn` span all rows, so that no length and no product of two rows changes.
    turn = np.linalg.qr(distinct.T)[0]
    turned: Floats = (flat @ turn).reshape(*part.shape[:2], -1)
    return turned


def _spans(n: int, size: int) -> list[slice]:
    """Runs of at most `size` out of n numbers, and at least one number."""
    step = max(1, size)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _within(questions: Integers, start: int, stop: int) -> slice:
    """Where rising numbers lie from start to stop - 1."""
    return slice(*np.searchsorted(questions, [start, stop]).tolist())


def _is_run(numbers: Integers) -> bool:
    """Whether rising numbers leave none out."""
    return int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers)
