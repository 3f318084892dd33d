"""Covariances of the least-squares estimates from all measurements of a spine.

Problem. Every geounit of a geolevel is measured with the same precision matrix L. Wanted are the mean covariances over
the geounits of a geolevel, or over the entities of a family.

Steps (those of `intervals.covariance`, by kinds of geounits). Up the tree: S is the sum of the children's covariances
P, G is the inverse of S, and P = (G + L)^-1. These depend on the geounit's kind only. Down: with D = G - G V G for a
parent's V, a child has V = P - P D P. This is linear in D and in V, so that sums of V over all geounits of a kind are
enough. For an entity, T holds the weights of a geounit's estimate in that of the entity's part inside it; the parts of
a parent's children combine to M, the sum of T P, so that the parent has T = M G. The variance is the sum over all
entries of T P T', less M G M' of the entries above, plus T V T' at the root.
Every matrix carries its derivatives (`Dual`).

Stopping rule. Each pass visits every geolevel once.

Worked case. A root and its two children have one cell, and each is measured with variance 1. A child has P = 1, so that
S = 2 and G = 1/2; the root has V = 2/3. Then D = 1/2 - 1/6 = 1/3, and each child has V = 1 - 1/3 = 2/3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.estimation.intervals.by_share.dual import Dual
from tallyveil.estimation.intervals.by_share.kinds import EntityTouches, Kinds


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
