"""Covariance of sums over two sets of geounits, compiled: the step from one geolevel to the next coarser one.

Key, for one geounit: when the geounit's counts change by x, a set's sum below it changes by A x. Given the geounit's
counts, the sums of the two sets have covariance C. P, G, U, X, Y as in `tallyveil.estimation.intervals.covariance`.
All are block-diagonal matrices in the basis of `tallyveil.kernels.tree.transform`.

Specification: `tests.oracles.regions`, with numpy's matrices, class by class.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.compiled import njit


class SetEntries(NamedTuple):
    """Children that a set touches, parent after parent.

    Attributes:
        begin: Entries of parent i are `begin[i]:begin[i + 1]`.
        blocks: Row of the child's P.
        place: Row among the children with slopes of their own, or -1 where the sets hold all of the child alike.
        first: Weight of the first set in such a child (summed over children with the same blocks).
        second: Of the second set.
        product: Of their product.
    """

    begin: Integers
    blocks: Integers
    place: Integers
    first: Floats
    second: Floats
    product: Floats


class Slopes(NamedTuple):
    """Slopes of two sets and their conditional covariance; packed blocks, one row a geounit."""

    first: Floats
    second: Floats
    covariance: Floats


class Packing(NamedTuple):
    """How a block-diagonal matrix is packed into one row.

    Attributes:
        dims: Size of the blocks of each class.
        begin: Where each class begins among the packed blocks.
    """

    dims: Integers
    begin: Integers


class Children(NamedTuple):
    """What the step needs of the children.

    Attributes:
        entries: Children that the sets touch.
        filtered: P of the children.
        unknown: U of the children, or an empty array.
        slopes: Of the children with slopes of their own.
    """

    entries: SetEntries
    filtered: Floats
    unknown: Floats
    slopes: Slopes


class Parents(NamedTuple):
    """What the step needs of the parents: rows in the level's arrays, G, and X and Y or empty arrays."""

    rows: Integers
    gain: Floats
    slope: Floats
    excess: Floats


@njit(nogil=True, cache=True)
def _multiply(dims: Integers, begin: Integers, a: Floats, b: Floats, sign: float, out: Floats) -> None:
    """out += sign a b."""
    # Class by class, with plain loops: blocks have a few rows, for which a call of a library would cost more than
    # the work.
    for k in range(len(dims)):
        d, at = dims[k], begin[k]
        for i in range(d):
            for j in range(d):
                left = sign * a[at + i * d + j]
                # A zero is skipped: its products are exactly 0, so that no bit changes.
                if left != 0.0:
                    for m in range(d):
                        out[at + i * d + m] += left * b[at + j * d + m]


@njit(nogil=True, cache=True)
def _transpose(dims: Integers, begin: Integers, a: Floats, out: Floats) -> None:
    for k in range(len(dims)):
        d, at = dims[k], begin[k]
        for i in range(d):
            for j in range(d):
                out[at + j * d + i] = a[at + i * d + j]


@njit(nogil=True, cache=True)
def step_up(
    packing: Packing,
    children: Children,
    parents: Parents,
    same: bool,
    first: int,
    last: int,
    above: Slopes,
) -> None:
    """Slopes and conditional covariance of parents first..last from those of their children.

    Args:
        packing: How the blocks are packed.
        children: The children.
        parents: The parents.
        same: Whether the two sets are one, whose slopes are then written once, as `first`.
        first: First parent to treat.
        last: One past the last.
        above: Output, one row a parent.
    """
    # Slopes are not symmetric, so the order of factors matters throughout.
    dims, begin = packing
    entries, filtered, unknown, below = children
    # Room for one parent at a time, made once: a1 and b1 gather A P of the two sets, a2 and b2 A U, and `both` the
    # covariance given the children, A P B' included.
    n = filtered.shape[1]
    with_unknown = len(unknown) > 0
    a1, b1, both = np.empty(n), np.empty(n), np.empty(n)
    a2, b2 = np.empty(n), np.empty(n)
    work, turned = np.empty(n), np.empty(n)
    # Parents are independent and each is written by one call, so that threads may take any ranges of them. The
    # entries of a parent are added in their order, which makes the bits those of one thread.
    for i in range(first, last):
        a1[:] = 0.0
        b1[:] = 0.0
        a2[:] = 0.0
        b2[:] = 0.0
        both[:] = 0.0
        for e in range(entries.begin[i], entries.begin[i + 1]):
            child = filtered[entries.blocks[e]]
            t = entries.place[e]
            # The slope is a multiple of the identity: weights in the place of matrix products.
            if t < 0:
                # The product of weights is given by itself, because an entry may stand for several children whose
                # products differ from the product of their sums.
                wa, wb, wab = entries.first[e], entries.second[e], entries.product[e]
                for j in range(n):
                    a1[j] += wa * child[j]
                    both[j] += wab * child[j]
                if not same:
                    for j in range(n):
                        b1[j] += wb * child[j]
                if with_unknown:
                    free = unknown[entries.blocks[e]]
                    for j in range(n):
                        a2[j] += wa * free[j]
                        b2[j] += wb * free[j]
                continue
            # A P, used twice: as it is for the slope, and times B' for the covariance.
            work[:] = 0.0
            _multiply(dims, begin, below.first[t], child, 1.0, work)
            for j in range(n):
                a1[j] += work[j]
                both[j] += below.covariance[t, j]
            # For one set the second slope is the first; all that depends on it alone is skipped.
            second = below.first[t] if same else below.second[t]
            _transpose(dims, begin, second, turned)
            _multiply(dims, begin, work, turned, 1.0, both)
            if not same:
                _multiply(dims, begin, second, child, 1.0, b1)
            if with_unknown:
                # Where no direction is unknown, the arrays U, X and Y are empty, and this costs nothing.
                free = unknown[entries.blocks[e]]
                _multiply(dims, begin, below.first[t], free, 1.0, a2)
                _multiply(dims, begin, second, free, 1.0, b2)
        if same:
            b1[:] = a1
        row = parents.rows[i]
        # The slope of the set on its parent is (sum of A P) G, and the covariance falls by what the parent's counts
        # explain, A P G (B P)'.
        above.first[i] = 0.0
        above.covariance[i] = both
        _multiply(dims, begin, a1, parents.gain[row], 1.0, above.first[i])
        if not same:
            above.second[i] = 0.0
            _multiply(dims, begin, b1, parents.gain[row], 1.0, above.second[i])
        _transpose(dims, begin, b1, turned)
        _multiply(dims, begin, above.first[i], turned, -1.0, above.covariance[i])
        if with_unknown:
            # What is unknown adds slopes A U X, and takes the two cross products of the known and the unknown part
            # away. The order of these three terms is fixed: another one would change bits.
            work[:] = 0.0
            _multiply(dims, begin, a2, parents.slope[row], 1.0, work)
            above.first[i] += work
            _multiply(dims, begin, work, turned, -1.0, above.covariance[i])
            # The same of the second set, whose product is turned: (B U X)' stands to the right of A P.
            work[:] = 0.0
            _multiply(dims, begin, b2, parents.slope[row], 1.0, work)
            if not same:
                above.second[i] += work
            _transpose(dims, begin, work, turned)
            _multiply(dims, begin, a1, turned, -1.0, above.covariance[i])
            # Last the term A U Y (B U)': what the unknown directions of both sets share.
            work[:] = 0.0
            _multiply(dims, begin, a2, parents.excess[row], 1.0, work)
            _transpose(dims, begin, b2, turned)
            _multiply(dims, begin, work, turned, 1.0, above.covariance[i])
