"""Geounits of one kind: those whose subtrees have the same shape.

All geounits of a geolevel have the same shares. So two geounits have the same covariance, given what is measured at and
below them, if their children are of the same kinds, each the same number of times. All finest geounits are of one kind.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """The kinds of the geounits of one geolevel.

    Attributes:
        of: Kind of each geounit; shape (n_geounits,).
        sizes: Number of geounits of each kind; shape (n_kinds,).
        children: Number of children by kind of a geounit of each kind; shape (n_kinds, kinds of the next finer
            geolevel). None at the finest geolevel.
    """

    of: Integers
    sizes: Floats
    children: sparse.csr_matrix | None

    @property
    def n_children(self) -> Floats:
        """Number of children of a geounit of each kind."""
        assert self.children is not None
        numbers: Floats = np.asarray(self.children.sum(axis=1), np.float64).ravel()
        return numbers


def kinds_of(spine: Spine) -> tuple[Kinds, ...]:
    """The kinds of every geolevel, root first."""
    n = spine.n_geounits(spine.finest)
    # From the finest geolevel up: a geounit's kind follows from the kinds of its children.
    kinds = [Kinds(np.zeros(n, np.int64), np.array([float(n)]), None)]
    for level in range(spine.finest - 1, -1, -1):
        below, parents = kinds[0], spine.parents(level + 1)
        ones = np.ones(len(parents))
        shape = (spine.n_geounits(level), len(below.sizes))
        counts = sparse.csr_matrix((ones, (parents, below.of)), shape=shape)
        # Sorted and added up, so that the bytes of a row are the same for equal counts.
        counts.sum_duplicates()
        keys: dict[bytes, int] = {}
        of = np.empty(shape[0], np.int64)
        first: list[int] = []
        for row in range(shape[0]):
            entries = slice(counts.indptr[row], counts.indptr[row + 1])
            # The separator keeps indices and counts of rows of different lengths apart.
            key = counts.indices[entries].tobytes() + b"|" + counts.data[entries].tobytes()
            if key not in keys:
                keys[key] = len(first)
                first.append(row)
            of[row] = keys[key]
        sizes = np.bincount(of, minlength=len(first)).astype(float)
        kinds.insert(0, Kinds(of, sizes, counts[np.array(first)]))
    return tuple(kinds)


@dataclass(frozen=True, slots=True, eq=False)
class EntityTouches:
    """The geounits that the entities of a family touch.

    P, M and T are those of `tallyveil.estimation.intervals.by_share.least_squares`. An entry is a geounit that an
    entity touches, together with this entity.

    Attributes:
        n_entities: Number of entities with at least one finest geounit.
        spread: Weight of P of each kind, at the geolevel above the finest, in the sum of variances over all entities.
        finest_spread: The same for a finest geounit.
        first: Weights of P by kind, at the geolevel above the finest, in the sums M of the next coarser geolevel's
            entries; at the root, where there is none, weights T of each entry as a multiple of the identity.
        kinds: For each geolevel with entries of its own, root first, the kind of each entry's geounit.
        gather: For each of them except the coarsest, the entries of the next coarser geolevel: the sum over the entries
            inside each one.
    """

    n_entities: int
    spread: Floats
    finest_spread: float
    first: sparse.csr_matrix
    kinds: tuple[Integers, ...]
    gather: tuple[sparse.csr_matrix, ...]


def touched_by(spine: Spine, kinds: tuple[Kinds, ...], family: EntityFamily) -> EntityTouches:
    """What the entities of a family touch. At least one of them has a finest geounit."""
    sizes = np.diff(family.offsets)
    used = int((sizes > 0).sum())
    nothing = sparse.csr_matrix((0, 0))
    if spine.finest == 0:
        return EntityTouches(used, np.zeros(0), float(sizes.sum()), nothing, (), ())
    entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), sizes)
    level = spine.finest - 1
    n = spine.n_geounits(level)
    # Entity and geounit as one number: sorted by entity, and an entry for each pair.
    keys, inside = np.unique(entity * n + spine.parents(spine.finest)[family.members], return_counts=True)
    kind = kinds[level].of[keys % n]
    # Evenly divided: all finest geounits of a geounit have the same covariance.
    share = inside / kinds[level].n_children[kind]
    spread: Floats = np.bincount(kind, share**2, len(kinds[level].sizes)).astype(np.float64)
    finest = float((inside * (1 - share)).sum())
    if level == 0:
        weights = sparse.csr_matrix((share, (np.arange(len(kind)), kind)), shape=(len(kind), len(spread)))
        return EntityTouches(used, spread, finest, weights, (), ())
    keys, above = _raised(spine, level, keys)
    first = sparse.csr_matrix((share, (above, kind)), shape=(len(keys), len(spread)))
    of: list[Integers] = []
    gather: list[sparse.csr_matrix] = []
    for upper in range(level - 1, -1, -1):
        of.insert(0, kinds[upper].of[keys % spine.n_geounits(upper)])
        if upper:
            n_here = len(keys)
            keys, above = _raised(spine, upper, keys)
            ones = np.ones(n_here)
            gather.insert(0, sparse.csr_matrix((ones, (above, np.arange(n_here))), shape=(len(keys), n_here)))
    return EntityTouches(used, spread, finest, first, tuple(of), tuple(gather))


def _raised(spine: Spine, level: int, keys: Integers) -> tuple[Integers, Integers]:
    """The entries of the next coarser geolevel, and for each entry the one that it is in."""
    n, above = spine.n_geounits(level), spine.n_geounits(level - 1)
    raised, inside = np.unique(keys // n * above + spine.parents(level)[keys % n], return_inverse=True)
    return raised, inside.reshape(-1).astype(np.int64)
