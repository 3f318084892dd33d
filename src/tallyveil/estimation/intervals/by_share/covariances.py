"""Covariances of the estimates of a spine for any shares: from the root downwards, and by least squares.

Wanted are mean covariances over the geounits of a geolevel, or over the entities of a family. Every matrix carries its
derivatives (`Dual`).

*From the root downwards*, before counts are made non-negative integers, a geounit is estimated from its own
measurements, with covariance P_l at geolevel l, and from its parent's estimate; a family of n children by own +
(parent - sum of own) / n. A region is a weighted sum of geounits, with coefficients c on the children of a parent. Its
error is the parent's error times the mean of c, plus the children's own errors, each times its coefficient less this
mean. So its covariance is the sum over geolevels of s_l P_l, where s_l is the sum over parents of (sum of c^2 - (sum
of c)^2 / n), and s_0 the sum of c^2 over the roots. One pass up the tree for each area finds these weights before any
share is known. Worked case: a root has two children, and one is asked about: s = 1/2 at the children and 1/4 at the
root. With variance 1 everywhere, the variance is 3/4; by least squares from all measurements it is 2/3.

*Exact sums* of siblings, such as for a State in two parts, are a geolevel of sums (`with_sums`) that divides the
family's step in two. The errors of the parts differ from the error of their sum as before, with n for the parts of one
sum. The sum of k parts has the error of k times its mean part, whose covariance is the part's P given the exact
answers. So s of the geolevel of sums goes with that P, and counts every sum as often as it has parts.

*By least squares* from all measurements, where every geounit of a geolevel has the same precision matrix L. Geounits
whose children are of the same kinds, each the same number of times, have the same covariance (`kinds_of`). Up the
tree: S is the sum of the children's covariances P, G is the inverse of S, and P = (G + L)^-1. Down: with D = G - G V G
for a parent's V, a child has V = P - P D P, which is linear in D and in V, so that sums of V over a kind are enough.
For an entity, T holds the weights of a geounit's estimate in that of the entity's part inside it, and M, the sum of T
P over a parent's children, gives the parent T = M G. The variance is the sum of T P T', less M G M' of the entries
above, plus T V T' at the root. Each pass visits every geolevel once. Worked case: a root and its two children have one
cell, each measured with variance 1. A child has P = 1, so S = 2 and G = 1/2; the root has V = 2/3. Then D = 1/3, and
each child has V = 2/3.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.by_share.measured import Dual
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

    P, M and T are those of `tallyveil.estimation.intervals.by_share.covariances`. An entry is a geounit that an
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


@dataclass(frozen=True, eq=False)
class TopDownEstimator:
    """Estimates from the root downwards.

    Attributes:
        weights: For each area, s_l of every geolevel, as a mean over the geounits or entities.
    """

    weights: Mapping[int | str, Floats]

    @property
    def n_matrices(self) -> int:
        """One for each geolevel."""
        return 1

    def means(self, information: list[Dual], areas: Iterable[int | str]) -> dict[int | str, Dual]:
        """The mean covariance of every area that is asked about.

        Args:
            information: Precision of one geounit of each geolevel, root first.
            areas: Positions of geolevels, and names of families.
        """
        covariances = [precision.inverse() for precision in information]
        # One matrix a geolevel, root first: the weights of an area are in the same order.
        stacked = Dual(
            np.concatenate([covariance.value for covariance in covariances]),
            np.concatenate([covariance.slope for covariance in covariances]),
        )
        return {area: stacked.scaled(self.weights[area]).total() for area in areas}


def top_down_of(
    spine: Spine, levels: Iterable[int], families: Iterable[EntityFamily], sums: Collection[int] = ()
) -> TopDownEstimator:
    """The estimates from the root downwards on a spine.

    Args:
        spine: The hierarchy.
        levels: Geolevels that are asked about.
        families: Families that are asked about, each with at least one finest geounit.
        sums: Geolevels of sums of siblings, where nothing is measured.
    """
    parts: list[Floats] = []  # how many measured parts each geounit counts for
    for level in range(spine.finest, -1, -1):
        whole = np.ones(spine.n_geounits(level))
        parts.insert(
            # A sum of siblings counts for its parts, as nothing is measured for itself.
            0,
            np.add.reduceat(parts[0], spine.child_offsets[level][:-1]) if level in sums else whole,
        )
    weights: dict[int | str, Floats] = {}
    for level in levels:
        n = spine.n_geounits(level)
        geounits = np.arange(n, dtype=np.int64)
        weights[level] = _weights(spine, parts, level, geounits, geounits) / n
    for family in families:
        sizes = np.diff(family.offsets)
        area = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        summed = _weights(spine, parts, spine.finest, area, family.members)
        weights[family.name] = summed / int((sizes > 0).sum())
    return TopDownEstimator(weights)


def _weights(spine: Spine, parts: Sequence[Floats], level: int, area: Integers, geounit: Integers) -> Floats:
    """The sum of s_l over areas. Each is given by the geounits of one geolevel that it consists of."""
    weights = np.zeros(spine.n_levels)
    coefficient = np.ones(len(geounit))
    # Up the tree: coefficients of children become those of their parents, by the mean over siblings.
    for here in range(level, 0, -1):
        above, n_parts = spine.n_geounits(here - 1), parts[here][geounit]
        # Area and parent as one number, so that one pass treats all areas.
        keys, entry = np.unique(area * above + spine.parents(here)[geounit], return_inverse=True)
        children = np.add.reduceat(parts[here], spine.child_offsets[here - 1][:-1])[keys % above]
        summed = np.bincount(entry.reshape(-1), coefficient * n_parts, len(keys))
        # s_l of the module's docstring: squared coefficients less what the parent's sum takes over.
        weights[here] = float((coefficient**2 * n_parts).sum() - (summed**2 / children).sum())
        area, geounit, coefficient = keys // above, keys % above, summed / children
    weights[0] = float((coefficient**2 * parts[0][geounit]).sum())
    return weights


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The estimates from all measurements, as `tallyveil intervals` makes them.

    Attributes:
        kinds: The kinds of geounits of every geolevel.
        touched: The families of entities that may be asked about.
    """

    kinds: tuple[Kinds, ...]
    touched: Mapping[str, EntityTouches]

    @property
    def n_matrices(self) -> int:
        """The largest number of kinds of a geolevel, or of the entries of a family."""
        entries = (len(kinds) for touched in self.touched.values() for kinds in touched.kinds)
        return max(*(len(kinds.sizes) for kinds in self.kinds), *entries, 1)

    def means(self, information: list[Dual], areas: Iterable[int | str]) -> dict[int | str, Dual]:
        """The mean covariance of every area that is asked about.

        Args:
            information: Precision of one geounit of each geolevel, root first.
            areas: Positions of geolevels, and names of families.
        """
        filtered, gains = self._up(information)
        summed = self._down(filtered, gains)
        means: dict[int | str, Dual] = {}
        for area in areas:
            if isinstance(area, str):
                means[area] = self._of_entities(self.touched[area], filtered, gains, summed[0])
            else:
                # Geounits of a geolevel are all counted alike in its mean.
                n = float(self.kinds[area].sizes.sum())
                means[area] = summed[area].total().scaled(np.array([1.0 / n]))
        return means

    def _up(self, information: list[Dual]) -> tuple[list[Dual], list[Dual]]:
        """P of each kind at each geolevel, and G of each kind at each geolevel that has children."""
        # A finest geounit has nothing below it: P is the inverse of its own information.
        filtered = [information[-1].inverse()]
        gains: list[Dual] = []
        for level in range(len(self.kinds) - 2, -1, -1):
            children = self.kinds[level].children
            assert children is not None
            gains.insert(0, filtered[0].combined(children).inverse())
            filtered.insert(0, (gains[0] + information[level]).inverse())
        return filtered, gains

    def _down(self, filtered: list[Dual], gains: list[Dual]) -> list[Dual]:
        """The sum of V over all geounits of each kind, at each geolevel."""
        summed = [filtered[0].scaled(self.kinds[0].sizes)]
        for level, gain in enumerate(gains):
            kinds, below = self.kinds[level], self.kinds[level + 1]
            assert kinds.children is not None
            # D summed over the geounits of each kind; it is linear in V, so sums suffice.
            drops = gain.scaled(kinds.sizes) - gain.around(summed[level])
            children = filtered[level + 1]
            passed = drops.combined(sparse.csr_matrix(kinds.children.T))
            summed.append(children.scaled(below.sizes) - children.around(passed))
        return summed

    def _of_entities(
        self, touched: EntityTouches, filtered: list[Dual], gains: list[Dual], roots: Dual
    ) -> Dual:
        """The mean covariance of the entities of a family."""
        spread = filtered[-1].scaled(np.array([touched.finest_spread]))
        if gains:
            spread = spread + self._above_finest(touched, filtered, gains, roots)
        return spread.scaled(np.array([1.0 / touched.n_entities]))

    def _above_finest(
        self, touched: EntityTouches, filtered: list[Dual], gains: list[Dual], roots: Dual
    ) -> Dual:
        """The sum over all entities of what the geolevels above the finest contribute."""
        # Back from the sum over the roots of a kind to one of them.
        by_root = roots.scaled(1.0 / self.kinds[0].sizes)
        if not touched.kinds:
            return by_root.scaled(touched.spread).total()
        spread = filtered[-2].scaled(touched.spread).total()
        combined = filtered[-2].combined(touched.first)
        # Up the tree, entry by entry: first what a parent's total takes away, then what the parent adds itself.
        for level in range(len(touched.kinds) - 1, -1, -1):
            kind = touched.kinds[level]
            weights = combined @ gains[level].rows(kind)
            spread = spread - (weights @ combined.transposed).total()
            if level == 0:
                return spread + weights.around(by_root.rows(kind)).total()
            moved = weights @ filtered[level].rows(kind)
            spread = spread + (moved @ weights.transposed).total()
            combined = moved.combined(touched.gather[level - 1])
        raise AssertionError("the root ends the loop")
