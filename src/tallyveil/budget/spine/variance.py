"""Variance of the answer of every geounit and entity, by generalised least squares on the tree.

Problem. Every geounit's answer is the sum of its children's answers. Each geounit may have one measurement with known
precision (1 / variance). Wanted is the variance of the best linear unbiased estimate of every geounit and entity.

Steps. A pass up the tree computes `below`, the variance from the measurements in a geounit's own subtree: precisions
add, and the variances of the children add to that of their sum. A pass down computes `variance`, which uses all
measurements. With g = v / s, where v is the child's `below` and s its sum over all children of the parent,
    variance of the child = v (1 - g) + g^2 x variance of the parent.
For an entity, `raise_parts` carries its slope and its spread from each geolevel to the next coarser one; its variance
is the sum over the roots of spread + slope^2 x variance of the root.

Stopping rule. Each pass visits every geolevel once.

Worked case. A root and its two children are each measured with variance 1. `below` is 1 for the children and
1 / (1 + 1/2) = 2/3 for the root, which is also its `variance`. For a child g = 1/2, so its variance is
1/2 + 1/4 x 2/3 = 2/3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tallyveil.arrays import Integers, Numbers
from tallyveil.errors import BudgetError
from tallyveil.geography import EntityFamily, Spine
from tallyveil.geography.entities import require_same_spine

if TYPE_CHECKING:
    from tallyveil.kernels.tree.variance import ChildVariances, EntityParts


@dataclass(frozen=True, slots=True, eq=False)
class SpineVariances:
    """Variances of one answer (such as the total) in every geounit, from all measurements together.

    The estimator is the best linear unbiased one. A geounit's answer is the sum of its children's answers, each geounit
    is measured with the given precision, and nothing else is used (no lower bound of 0, no rounding).

    Attributes:
        spine: The spine.
        precisions: For each geolevel, 1 / variance of each geounit's own measurement. It is 0 without a measurement and
            infinite if the answer is known exactly.
        below: Variance of each geounit from the measurements in its own subtree alone.
        variance: Variance of each geounit from all measurements; infinite if they do not determine the answer.
    """

    spine: Spine
    precisions: tuple[Numbers, ...]
    below: tuple[Numbers, ...]
    variance: tuple[Numbers, ...]

    def family(self, level: int) -> "ChildVariances":
        """The children of every geounit of a geolevel, as the kernels take them."""
        from tallyveil.kernels.tree.variance import ChildVariances

        offsets, below = self.spine.child_offsets[level], self.below[level + 1]
        total, unknown = _sums(below, offsets)
        return ChildVariances(self.spine.parents(level + 1), below, total, unknown, np.diff(offsets))


def spine_variances(spine: Spine, precisions: Sequence[Numbers]) -> SpineVariances:
    """Variances of every geounit, by one pass up the tree and one pass down.

    Args:
        spine: The spine.
        precisions: For each geolevel, the precision of each geounit's measurement, 0 or more. Complex numbers are
            allowed, to compute a derivative.

    Raises:
        BudgetError: the precisions belong to another spine, or one is below 0.
    Source: Cumings-Menon et al. 2023, equation 19, for one answer; docs/spine.md derives the passes.
    """
    measured = tuple(np.asarray(precision) for precision in precisions)
    sizes = tuple(spine.n_geounits(level) for level in range(spine.n_levels))
    if tuple(len(precision) for precision in measured) != sizes or any(
        bool(np.any(precision.real < 0)) for precision in measured
    ):
        raise BudgetError(
            f"precisions of {', '.join(str(len(precision)) for precision in measured) or 'no'} geounits by "
            f"geolevel do not fit; wanted a number of 0 or more for each of {', '.join(map(str, sizes))}. "
            "Use answer_precisions with this spine."
        )
    below: list[Numbers] = [_inverse(measured[-1])]
    for level in range(spine.finest - 1, -1, -1):
        total, unknown = _sums(below[0], spine.child_offsets[level])
        from_children = np.where(unknown == 0, _inverse(total), 0)
        below.insert(0, _inverse(measured[level] + from_children))
    variance = [below[0]]
    for level in range(spine.finest):
        variance.append(_down(spine, level, variance[level], below[level + 1]))
    for array in (*measured, *below, *variance):
        array.flags.writeable = False
    return SpineVariances(spine, measured, tuple(below), tuple(variance))


def entity_variances(variances: SpineVariances, family: EntityFamily) -> Numbers:
    """Variance of every entity of a family, from all measurements; shape (n_entities,).

    The time depends only on the geounits that the entities touch. The variance is infinite if the measurements do not
    determine the answer.

    Raises:
        GeographyError: the family belongs to another spine.
    """
    roots = entity_parts(variances, family)[0][0]
    above = variances.variance[0][roots.geounit]
    # A slope of 0 contributes nothing, even if the root's variance is infinite. An infinite complex number is never
    # multiplied, because its product is no number.
    unknown = ~np.isfinite(above.real)
    informed = np.where(unknown, np.inf, roots.slope**2 * np.where(unknown, 0, above))
    from_root = np.where(roots.slope == 0, 0, informed)
    values = roots.spread + from_root
    if family.n_entities == 0:
        return values
    summed: Numbers = np.add.reduceat(values, roots.begin[:-1])
    return summed


def entity_parts(
    variances: SpineVariances, family: EntityFamily
) -> "tuple[tuple[EntityParts, Integers | None], ...]":
    """The geounits that every entity touches at each geolevel, root first, in the form of `raise_parts`.

    Returns:
        For each geolevel its entries and, below the root, the position of the entry above that contains each one.

    Raises:
        GeographyError: the family belongs to another spine.
    """
    from tallyveil.kernels.tree.variance import EntityParts, raise_parts

    spine = variances.spine
    require_same_spine(spine, family)
    kind = variances.below[0].dtype
    ones, zeros = np.ones(len(family.members), dtype=kind), np.zeros(len(family.members), dtype=kind)
    parts = EntityParts(family.offsets.copy(), family.members.copy(), ones, zeros)
    levels: list[tuple[EntityParts, Integers | None]] = []
    for level in range(spine.finest, 0, -1):
        raised, above = raise_parts(parts, _writeable(variances.family(level - 1)))
        levels.append((parts, above))
        parts = raised
    return (*[(parts, None)], *levels[::-1])


def _writeable(family: "ChildVariances") -> "ChildVariances":
    # To the compiler a read-only array is another type, which would cause a second compilation.
    return family._replace(below=family.below.copy())


def _inverse(values: Numbers) -> Numbers:
    known, unknown = np.isinf(values.real), values == 0
    safe = np.where(known | unknown, 1, values)
    inverse: Numbers = np.where(known, 0, np.where(unknown, np.inf, 1 / safe))
    return inverse


def _sums(below: Numbers, offsets: Integers) -> tuple[Numbers, Integers]:
    """For each geounit, the sum of its children's finite values and the number of infinite ones."""
    infinite = ~np.isfinite(below.real)
    total: Numbers = np.add.reduceat(np.where(infinite, 0, below), offsets[:-1])
    return total, np.add.reduceat(infinite.astype(np.int64), offsets[:-1])


def _down(spine: Spine, level: int, variance: Numbers, below: Numbers) -> Numbers:
    """Variances of the children of a geolevel, from those of their parents."""
    offsets = spine.child_offsets[level]
    total, unknown = _sums(below, offsets)
    parent = spine.parents(level + 1)
    n_unknown, whole = unknown[parent], total[parent]
    above = np.where(n_unknown < 2, variance[parent], np.inf)
    infinite = ~np.isfinite(below.real)
    informed_below = np.where(infinite, 0, below)
    # If all children are known exactly, the gain has no effect.
    gain = np.where(n_unknown > 0, 0, informed_below / np.where(whole == 0, 1, whole))
    informed = informed_below * (1 - gain) + gain**2 * np.where(n_unknown > 0, 0, above)
    informed_above: Numbers = np.where(infinite, above + whole, informed)
    return informed_above
