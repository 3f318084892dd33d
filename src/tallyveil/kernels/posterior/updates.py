"""Kernels of the updates of the prior's parameters, given the counts.

All shares are means of Dirichlet laws around those of the geounit above, down from the whole area to the families of
blocks, and a block's division of a group is Dirichlet-multinomial around its family's shares: a hierarchy of Dirichlet
laws. Given the counts it is drawn by the auxiliary *tables* of Teh et al. 2006 (the Chinese restaurant): where n
persons fall into a group whose expected weight is w = concentration * share, the number of tables is the sum of
independent 0/1 variables with probabilities w / (w + i), i = 0 .. n - 1. Given the tables, shares have a Dirichlet law
(prior weight + tables). The tables of one geolevel are the persons of the next. Concentrations are moved by random
walks with the tables summed out.

Oracle: `tests.oracles.posterior` draws parameters and counts from their joint law, which updates must keep (Geweke).
"""

from math import lgamma
from typing import Any, Final

import numpy as np

from tallyveil.arrays import FloatRows, Floats, Int32Rows, Int32s, IntegerRows, Integers, NarrowArray
from tallyveil.kernels.compiled import internal, njit

LEAST_SHARE: Final = 1e-30
"""Smaller shares are raised to this, so that logarithms and ratios stay finite. It is too small to matter: twice as
much would change probabilities by 1e-30."""


@internal
def _n_tables(rng: Any, n: int, weight: float) -> int:
    """Tables at which n persons sit, where the group's expected weight is `weight`."""
    tables = 0
    for i in range(n):
        tables += rng.random() * (weight + i) < weight
    return tables


@njit(nogil=True, cache=True)
def log_divisions(
    count: NarrowArray, above: Int32s, parent: Int32s, mean: FloatRows, old: Floats, new: Floats
) -> Floats:
    """For each group, the logarithm of how much likelier its divisions are with the new concentrations than with the
    old.

    Args:
        count: Persons, or tables, of each group of each geounit; shape (geounits, columns).
        above: The geounit whose shares each geounit's divisions are around.
        parent: Column of the group that each group is part of.
        mean: Shares of the geounits above.
        old: Concentration of each group's division.
        new: The new ones; where they are equal nothing is computed.
    """
    logs = np.zeros(parent.size)
    whole = np.zeros(parent.size, np.int64)
    for u in range(count.shape[0]):
        whole[:] = 0
        for g in range(1, parent.size):
            n = count[u, g]
            p = parent[g]
            if n > 0 and old[p] != new[p]:
                whole[p] += n
                w, w_new = old[p] * mean[above[u], g], new[p] * mean[above[u], g]
                logs[p] += lgamma(n + w_new) - lgamma(w_new) - lgamma(n + w) + lgamma(w)
        for g in range(parent.size):
            n = whole[g]
            if n > 0:
                logs[g] += lgamma(new[g]) - lgamma(n + new[g]) - lgamma(old[g]) + lgamma(n + old[g])
    return logs


@njit(nogil=True, cache=True)
def tables_of(
    rng: Any,
    count: NarrowArray,
    above: Int32s,
    parent: Int32s,
    mean: FloatRows,
    concentration: FloatRows,
    row: Integers,
) -> IntegerRows:
    """Tables of every group of every geounit, summed over the geounits of each geounit above.

    Args:
        rng: Generator.
        count: Persons of each group, or tables of the geolevel below; shape (geounits, columns).
        above: The geounit above each.
        parent: Column of the group that each group is part of.
        mean: Shares of the geounits above; shape (geounits above, columns).
        concentration: Concentration of each group's division; each row holds for some of the geounits.
        row: The row for each geounit.
    """
    tables = np.zeros(mean.shape, np.int64)
    for u in range(count.shape[0]):
        for g in range(1, parent.size):
            n = count[u, g]
            if n > 0:
                weight = concentration[row[u], parent[g]] * mean[above[u], g]
                tables[above[u], g] += _n_tables(rng, n, weight)
    return tables


@njit(nogil=True, cache=True)
def draw_shares(rng: Any, weight: FloatRows, parent: Int32s) -> FloatRows:
    """Shares of every group in its parent, from Dirichlet laws with these weights; shape as `weight`. Column 0 is 1."""
    shares = np.empty(weight.shape)
    whole = np.empty(parent.size)
    for u in range(weight.shape[0]):
        whole[:] = 0.0
        for g in range(1, parent.size):
            shares[u, g] = max(rng.standard_gamma(weight[u, g]), LEAST_SHARE)
            whole[parent[g]] += shares[u, g]
        shares[u, 0] = 1.0
        for g in range(1, parent.size):
            shares[u, g] = max(shares[u, g] / whole[parent[g]], LEAST_SHARE)
    return shares


@njit(nogil=True, cache=True)
def log_classes(
    count: Int32Rows,
    family: Int32s,
    columns: tuple[int, int, int],
    mean: FloatRows,
    classes: Floats,
) -> FloatRows:
    """Logarithm of the probability of each block's classed divisions under each class, up to a constant of the block.

    Args:
        count: Persons of each group of each block.
        family: Family of each block.
        columns: First column of the groups that are divided with these concentrations; first one of their parts; one
            after the last part.
        mean: Shares of each family.
        classes: Concentration of each class.
    Returns:
        Shape (blocks, classes); 0 for blocks of one person and of none, which say nothing.
    """
    logs = np.zeros((count.shape[0], classes.size))
    for b in range(count.shape[0]):
        if count[b, 0] <= 1:
            continue
        for k in range(classes.size):
            a = classes[k]
            for g in range(columns[0], columns[1]):
                if count[b, g] > 0:
                    logs[b, k] += lgamma(a) - lgamma(count[b, g] + a)
            for g in range(columns[1], columns[2]):
                if count[b, g] > 0:
                    w = a * mean[family[b], g]
                    logs[b, k] += lgamma(count[b, g] + w) - lgamma(w)
    return logs


@njit(nogil=True, cache=True)
def walk_class_shares(rng: Any, likely: FloatRows, shares: Floats, widths: Floats) -> None:
    """Random walks of the ratio of every two shares of classes, under Jeffreys' Dirichlet law, with the classes summed
    out.

    Args:
        rng: Generator.
        likely: Probability of each block's divisions under each class, up to a factor of the block; shape (blocks,
            classes).
        shares: Shares of the classes; changed.
        widths: Width of each walk of a logarithm of a ratio.
    """
    for width in widths:
        for k in range(1, shares.size):
            for other in range(k):
                both = shares[k] + shares[other]
                ratio = shares[k] / shares[other] * np.exp(width * rng.standard_normal())
                new, rest = both * ratio / (1.0 + ratio), both / (1.0 + ratio)
                if min(new, rest) < LEAST_SHARE:
                    continue
                # The law of a share, with the walk's logarithm as the variable, is the square root of both shares.
                log = 0.5 * np.log(new * rest / (shares[k] * shares[other]))
                for b in range(likely.shape[0]):
                    before = 0.0
                    for i in range(shares.size):
                        before += shares[i] * likely[b, i]
                    after = before + (new - shares[k]) * (likely[b, k] - likely[b, other])
                    # Rounding may leave a probability just below 0.
                    log += np.log(max(after, LEAST_SHARE) / before)
                if np.log(1.0 - rng.random()) < log:
                    shares[k], shares[other] = new, rest


@internal
def _log_size(size: Integers, first: int, last: int, mean: float, shape: float) -> float:
    """Logarithm of the law of the sizes above 0 of blocks first .. last - 1: a negative binomial without 0."""
    log_stop = np.log(shape / (mean + shape))
    log_go = np.log(mean / (mean + shape))
    log_some = np.log(-np.expm1(shape * log_stop))
    log = 0.0
    for b in range(first, last):
        n = size[b]
        if n > 0:
            log += (
                lgamma(n + shape) - lgamma(shape) - lgamma(n + 1.0) + shape * log_stop + n * log_go - log_some
            )
    return log


@njit(nogil=True, cache=True)
def draw_sizes(
    rng: Any, size: Integers, begin: Integers, mean: Floats, shape: float, centre: float, spread: float
) -> float:
    """A random-walk step for the mean of the sizes of each family, and some for the shape that all share.

    Args:
        rng: Generator.
        size: Persons of each block.
        begin: First block of each family.
        mean: Mean of each family's negative binomial law, before 0 is left out of it; changed.
        shape: Shape of the law.
        centre, spread: Mean and standard deviation of the logarithm of a mean.
    Returns:
        The shape.
    """
    for f in range(begin.size - 1):
        old = np.log(mean[f])
        # About one standard deviation where a family has 5 blocks, and where it has 60.
        for width in (0.5, 0.15):
            new = old + width * rng.standard_normal()
            log = _log_size(size, begin[f], begin[f + 1], np.exp(new), shape)
            log -= _log_size(size, begin[f], begin[f + 1], np.exp(old), shape)
            log -= ((new - centre) ** 2 - (old - centre) ** 2) / (2.0 * spread**2)
            if np.log(1.0 - rng.random()) < log:
                old = new
        mean[f] = np.exp(old)
    # The same for 100, 4,000 and 100,000 blocks.
    for width in (0.3, 0.05, 0.01):
        new_shape = shape * np.exp(width * rng.standard_normal())
        # log shape ~ N(0, 1.5^2): shapes from 1/20 (a few blocks have most people) to 20 (all are alike) are likely.
        log = -(np.log(new_shape) ** 2 - np.log(shape) ** 2) / (2.0 * 1.5**2)
        for f in range(begin.size - 1):
            log += _log_size(size, begin[f], begin[f + 1], mean[f], new_shape)
            log -= _log_size(size, begin[f], begin[f + 1], mean[f], shape)
        if np.log(1.0 - rng.random()) < log:
            shape = new_shape
    return shape
