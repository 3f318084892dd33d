"""Kernels of the updates of the prior's parameters, given the counts.

All shares are means of Dirichlet laws around those of the geounit above, down from the whole area to the families of
blocks, and a block's division of a group is Dirichlet-multinomial around its family's shares: a hierarchy of Dirichlet
laws. Given the counts it is drawn by the auxiliary *tables* of Teh et al. 2006 (the Chinese restaurant): where n
persons fall into a group whose expected weight is w = concentration * share, the number of tables is the sum of
independent 0/1 variables with probabilities w / (w + i), i = 0 .. n - 1. Given the tables, shares have a Dirichlet law
(prior weight + tables). Where a part of the weight is not due to the shares above but the same everywhere, each table
belongs to this part as often as its share of the weight says. The other tables of one geolevel are the persons of the
next. Concentrations are moved by random walks with the tables summed out.

With an earlier census, only a part of the expected shares of a geounit is due to the shares above (`centre`). Tables
belong to this part as often as its share of the weight says; the others are not persons of the next geolevel.

Oracle: `tests.oracles.posterior` draws parameters and counts from their joint law, which updates must keep (Geweke).
"""

from math import lgamma
from typing import Any, Final, NamedTuple

import numpy as np

from tallyveil.arrays import FloatRows, Floats, Int32Rows, Int32s, IntegerRows, Integers, WordRows
from tallyveil.kernels.compiled import hot, internal, njit
from tallyveil.kernels.posterior.moves import WORD, Earlier, centre, lowest, weights_of

LEAST_SHARE: Final = 1e-30
"""Smaller shares are raised to this, so that logarithms and ratios stay finite. It is too small to matter: twice as
much would change probabilities by 1e-30."""


SHORT: Final = 24
"""Largest number of factors for which a product is computed. It takes less time than two logarithms of the Gamma
function, and does not overflow for weights up to 1e12."""

FAR: Final = 1e200
"""Where a product is above this, or below its reciprocal, its logarithm is added and it begins anew at 1. One more
factor between LEAST_SHARE and its reciprocal, or for SHORT persons, cannot make it overflow before."""


class Groups(NamedTuple):
    """How groups are divided.

    Attributes:
        parent: Column of the group that each group is part of; -1 for column 0.
        added: Weight of each group in the Dirichlet law of its geounit's shares, besides what the geounit above says.
        earlier: What an earlier census says of these geounits.
    """

    parent: Int32s
    added: Floats
    earlier: Earlier


class Entries(NamedTuple):
    """Persons of each group of some geounits, or tables of the geolevel below, without those that are 0.

    Attributes:
        begin: First entry of each geounit, and one entry more at the end.
        column: Group of each entry; in order within a geounit.
        number: Its persons, or tables.
    """

    begin: Integers
    column: Integers
    number: Integers


@njit(nogil=True, cache=True)
def entries_of_blocks(people: Int32Rows, filled: WordRows) -> Entries:
    """The persons of the blocks of a state (`State`)."""
    begin = np.zeros(people.shape[0] + 1, np.int64)
    for b in range(people.shape[0]):
        begin[b + 1] = begin[b]
        for at in range(filled.shape[1]):
            word = filled[b, at]
            while word != 0:
                word &= word - np.uint64(1)
                begin[b + 1] += 1
    column = np.empty(begin[-1], np.int64)
    number = np.empty(begin[-1], np.int64)
    entry = 0
    for b in range(people.shape[0]):
        for at in range(filled.shape[1]):
            word = filled[b, at]
            while word != 0:
                column[entry] = at * WORD + lowest(word)
                number[entry] = people[b, column[entry]]
                word &= word - np.uint64(1)
                entry += 1
    return Entries(begin, column, number)


def entries_of(counts: IntegerRows) -> Entries:
    """The entries of a table; shape (geounits, columns)."""
    row, column = np.nonzero(counts)
    # A copy side by side: numpy gives a column of a matrix, for which the kernels would be compiled once more.
    return Entries(
        np.searchsorted(row, np.arange(len(counts) + 1)), np.ascontiguousarray(column), counts[row, column]
    )


@hot
def _rising(w: float, n: int) -> float:
    """w (w + 1) ... (w + n - 1)."""
    product = w
    for i in range(1, n):
        product *= w + i
    return product


@hot
def _log_rising_ratio(w_new: float, w: float, n: int) -> float:
    """Logarithm of w_new (w_new + 1) ... (w_new + n - 1) over the same product of w."""
    if n > SHORT:
        return float(lgamma(n + w_new) - lgamma(w_new) - lgamma(n + w) + lgamma(w))
    return float(np.log(_rising(w_new, n) / _rising(w, n)))


@internal
def _n_tables(rng: Any, n: int, weight: float) -> int:
    """Tables at which n persons sit, where the group's expected weight is `weight`."""
    # The first person always sits at a table of their own.
    tables = min(n, 1)
    for i in range(1, n):
        tables += rng.random() * (weight + i) < weight
    return tables


@njit(nogil=True, cache=True)
def log_divisions(
    entries: Entries,
    above: Int32s,
    groups: Groups,
    mean: FloatRows,
    old: Floats,
    new: Floats,
) -> Floats:
    """For each group, the logarithm of how much likelier its divisions are with the new concentrations than with the
    old.

    Args:
        entries: Persons, or tables, of each group of each geounit.
        above: The geounit whose shares each geounit's divisions are around.
        groups: How groups are divided.
        mean: Shares of the geounits above.
        old: Concentration of each group's division.
        new: The new ones; where they are equal nothing is computed.
    """
    parent, added = groups.parent, groups.added
    logs = np.zeros(parent.size)
    whole = np.zeros(parent.size, np.int64)
    besides = np.zeros(parent.size)
    for g in range(1, parent.size):
        besides[parent[g]] += added[g]
    for u in range(entries.begin.size - 1):
        for entry in range(entries.begin[u], entries.begin[u + 1]):
            g, n = entries.column[entry], entries.number[entry]
            p = parent[g]
            if p >= 0 and old[p] != new[p]:
                whole[p] += n
                share = centre(mean[above[u], g], groups.earlier, u, p, g)
                w, w_new = old[p] * share + added[g], new[p] * share + added[g]
                logs[p] += _log_rising_ratio(w_new, w, n)
        for entry in range(entries.begin[u], entries.begin[u + 1]):
            p = parent[entries.column[entry]]
            n = whole[p] if p >= 0 else np.int64(0)
            if n > 0:
                whole[p] = 0
                before, after = old[p] + besides[p], new[p] + besides[p]
                logs[p] += _log_rising_ratio(before, after, int(n))
    return logs


@njit(nogil=True, cache=True)
def tables_of(
    rng: Any,
    entries: Entries,
    above: Int32s,
    groups: Groups,
    mean: FloatRows,
    concentration: FloatRows,
    row: Integers,
) -> IntegerRows:
    """Tables of every group of every geounit that are due to the shares above, summed over the geounits of each geounit
    above.

    Args:
        rng: Generator.
        entries: Persons of each group, or tables of the geolevel below.
        above: The geounit above each.
        groups: How groups are divided.
        mean: Shares of the geounits above; shape (geounits above, columns).
        concentration: Concentration of each group's division; each row holds for some of the geounits.
        row: The row for each geounit.
    """
    parent, added, earlier = groups
    tables = np.zeros(mean.shape, np.int64)
    for u in range(entries.begin.size - 1):
        for entry in range(entries.begin[u], entries.begin[u + 1]):
            g, n = entries.column[entry], entries.number[entry]
            if parent[g] >= 0:
                weight = concentration[row[u], parent[g]]
                share_of_above, share_of_person = weights_of(earlier, u, parent[g])
                of_above = weight * share_of_above * mean[above[u], g]
                besides = added[g]
                if earlier.counts.shape[0] > 0:
                    besides += weight * share_of_person * earlier.counts[u, g]
                n_tables = _n_tables(rng, n, of_above + besides)
                if besides > 0:
                    n_tables = rng.binomial(n_tables, of_above / (of_above + besides))
                tables[above[u], g] += n_tables
    return tables


@njit(nogil=True, cache=True)
def log_earlier(
    entries: Entries,
    above: Int32s,
    groups: Groups,
    mean: FloatRows,
    concentration: FloatRows,
    row: Integers,
    earlier: tuple[Earlier, Earlier],
) -> Floats:
    """For each group, the logarithm of the likelihood of its divisions with new discounts and renewals of an earlier
    census, less that with the old ones.

    Args:
        entries, above, groups, mean, concentration, row: As for `tables_of`. `groups.earlier` is not used.
        earlier: The earlier census with the old discounts and renewals, and with the new ones. Groups with the same
            ones are skipped.
    """
    parent, added = groups.parent, groups.added
    old, new = earlier
    logs = np.zeros(parent.size)
    for u in range(entries.begin.size - 1):
        for entry in range(entries.begin[u], entries.begin[u + 1]):
            g, n = entries.column[entry], entries.number[entry]
            p = parent[g]
            if p >= 0 and (old.discount[p] != new.discount[p] or old.renewal[p] != new.renewal[p]):
                a, share = concentration[row[u], p], mean[above[u], g]
                w = a * centre(share, old, u, p, g) + added[g]
                w_new = a * centre(share, new, u, p, g) + added[g]
                logs[p] += _log_rising_ratio(w_new, w, n)
    return logs


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
def class_likelihoods(
    entries: Entries,
    family: Int32s,
    columns: tuple[int, int, int],
    parents: tuple[Groups, Int32s],
    mean: FloatRows,
    classes: tuple[Floats, int],
    concentration: Floats,
) -> FloatRows:
    """Probability of each block's persons under each class, in proportion to that under the likeliest class.

    Args:
        entries: Persons of each group of each block.
        family: Family of each block.
        columns: First column of the groups that are divided with the concentrations of classes; first one of their
            parts; one after the last part.
        parents: How groups are divided; and the group that each group of the other steps is part of, -1 for the rest.
        mean: Shares of each family, and in the last row those of facilities.
        classes: Concentration of each class but that of facilities, which is the last one; and which of these classes
            has the same concentration as facilities.
        concentration: Concentration of the divisions of each group of the other steps, which are around the last row of
            shares in facilities.
    Returns:
        Shape (blocks, classes); 1 for blocks of nobody.
    """
    groups, other_parent = parents
    of_class, alike = classes
    earlier, last, n_classes = groups.earlier, mean.shape[0] - 1, of_class.size
    likely = np.ones((family.size, n_classes + 1))
    logs, product, constant = np.empty(n_classes + 1), np.empty(n_classes), np.empty(n_classes)
    for k in range(n_classes):
        constant[k] = lgamma(of_class[k])
    for b in range(family.size):
        begin, end = entries.begin[b], entries.begin[b + 1]
        if begin == end:
            continue
        logs[:] = 0.0
        product[:] = 1.0
        for entry in range(begin, end):
            g, n = entries.column[entry], entries.number[entry]
            if columns[0] <= g < columns[1]:
                for k in range(n_classes):
                    if n > SHORT:
                        logs[k] -= lgamma(n + of_class[k]) - constant[k]
                    else:
                        product[k] /= _rising(of_class[k], n)
            elif columns[1] <= g < columns[2]:
                share = centre(mean[family[b], g], earlier, b, groups.parent[g], g)
                for k in range(n_classes):
                    w = of_class[k] * share
                    if n > SHORT:
                        logs[k] += lgamma(n + w) - lgamma(w)
                    else:
                        product[k] *= _rising(w, n)
            for k in range(n_classes):
                if product[k] > FAR or product[k] < 1.0 / FAR:
                    logs[k] += np.log(product[k])
                    product[k] = 1.0
            p = other_parent[g]
            if p >= 0:
                w = concentration[p] * centre(mean[family[b], g], earlier, b, p, g)
                w_new = concentration[p] * centre(mean[last, g], earlier, b, p, g)
                logs[n_classes] += _log_rising_ratio(w_new, w, n)
        for k in range(n_classes):
            logs[k] += np.log(product[k])
        logs[n_classes] += logs[alike]
        most = logs.max()
        for k in range(n_classes + 1):
            likely[b, k] = np.exp(logs[k] - most)
    return likely


@njit(nogil=True, cache=True)
def draw_classes(rng: Any, likely: FloatRows, size_class: Integers, shares: FloatRows) -> Integers:
    """The class of each block, drawn from its law.

    Args:
        rng: Generator.
        likely: Probability of each block's persons under each class, up to a factor of the block; shape (blocks,
            classes).
        size_class: Class of the size of each block.
        shares: Shares of the classes; shape (size classes, classes).
    """
    drawn = np.empty(size_class.size, np.int64)
    for b in range(size_class.size):
        of_size, total = shares[size_class[b]], 0.0
        for k in range(of_size.size):
            total += of_size[k] * likely[b, k]
        level, k = rng.random() * total, 0
        level -= of_size[0] * likely[b, 0]
        while level >= 0.0 and k < of_size.size - 1:
            k += 1
            level -= of_size[k] * likely[b, k]
        drawn[b] = k
    return drawn


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
                product = 1.0
                for b in range(likely.shape[0]):
                    before = 0.0
                    for i in range(shares.size):
                        before += shares[i] * likely[b, i]
                    after = before + (new - shares[k]) * (likely[b, k] - likely[b, other])
                    # Rounding may leave a probability just below 0.
                    product *= max(after, LEAST_SHARE) / before
                    if product > FAR or product < 1.0 / FAR:
                        log += np.log(product)
                        product = 1.0
                log += np.log(product)
                if np.log(1.0 - rng.random()) < log:
                    shares[k], shares[other] = new, rest


class SizeSums(NamedTuple):
    """Sufficient statistics of the sizes of the blocks of each law of sizes, for its mean.

    Attributes:
        begin: First law of each family, and one entry more at the end.
        persons: Persons of each law's blocks.
        occupied: Their number, without the empty ones.
    """

    begin: Integers
    persons: Integers
    occupied: Integers


@internal
def _log_mean(persons: int, occupied: int, mean: float, shape: float) -> float:
    """Logarithm of the law of the sizes of some occupied blocks, a negative binomial without 0, as far as the mean
    decides it: their number and their persons suffice.
    """
    log_stop = np.log(shape / (mean + shape))
    log_some = np.log(-np.expm1(shape * log_stop))
    return float(occupied * (shape * log_stop - log_some) + persons * np.log(mean / (mean + shape)))


@internal
def _log_means(laws: SizeSums, first: int, end: int, mean: float, factor: Floats, shape: float) -> float:
    """The same of all laws from `first` to `end`, whose means are `mean` times their factors."""
    log = 0.0
    for law in range(first, end):
        if laws.occupied[law] > 0:
            log += _log_mean(laws.persons[law], laws.occupied[law], mean * factor[law], shape)
    return log


@njit(nogil=True, cache=True)
def walk_size_means(
    rng: Any,
    laws: SizeSums,
    factor: Floats,
    mean: Floats,
    shape: float,
    normal: tuple[float, float],
) -> None:
    """Random walks of the mean of the sizes of each family.

    Args:
        rng: Generator.
        laws: What is known of each law.
        factor: Mean of each law, divided by that of its family.
        mean: Mean of each family's negative binomial law, before 0 is left out of it; changed.
        shape: Shape of the law.
        normal: Mean and standard deviation of the logarithm of a mean.
    """
    centre, spread = normal
    for f in range(mean.size):
        first, end = laws.begin[f], laws.begin[f + 1]
        old = np.log(mean[f])
        before = _log_means(laws, first, end, np.exp(old), factor, shape)
        # About one standard deviation where a family has 5 blocks, and where it has 60.
        for width in (0.5, 0.15, 0.5, 0.15):
            new = old + width * rng.standard_normal()
            after = _log_means(laws, first, end, np.exp(new), factor, shape)
            log = after - before - ((new - centre) ** 2 - (old - centre) ** 2) / (2.0 * spread**2)
            if np.log(1.0 - rng.random()) < log:
                old, before = new, after
        mean[f] = np.exp(old)


@njit(nogil=True, cache=True)
def walk_size_effects(
    rng: Any,
    laws: SizeSums,
    design: FloatRows,
    mean: Floats,
    shape: float,
    effects: Floats,
    deviation: float,
) -> None:
    """Random walks of the effects of covariates, which all families share.

    Args:
        rng: Generator.
        laws: As for `walk_size_means`.
        design: Regressors of the logarithm of each law's mean; shape (laws, effects).
        mean: Mean of each law.
        shape: Shape of the laws.
        effects: The effects; changed.
        deviation: Standard deviation of the normal law of an effect around 0.
    """
    end = mean.size
    before = _log_means(laws, 0, end, 1.0, mean, shape) if effects.size > 0 else 0.0
    for j in range(effects.size):
        # About one standard deviation of an effect with 100, 4,000 and 100,000 blocks.
        for width in (0.3, 0.05, 0.01):
            step, old = width * rng.standard_normal(), effects[j]
            moved = mean * np.exp(step * design[:, j])
            after = _log_means(laws, 0, end, 1.0, moved, shape)
            log = after - before - ((old + step) ** 2 - old**2) / (2.0 * deviation**2)
            if np.log(1.0 - rng.random()) < log:
                effects[j] = old + step
                mean, before = moved, after


@njit(nogil=True, cache=True)
def walk_size_shape(
    rng: Any, laws: SizeSums, sizes: Integers, n_blocks: Integers, mean: Floats, shape: float
) -> float:
    """Random walks of the shape of the laws of sizes, which all share.

    Args:
        rng: Generator.
        laws: As for `walk_size_means`.
        sizes: The sizes above 0 that blocks have.
        n_blocks: Number of blocks of each of these sizes.
        mean: Mean of each law.
        shape: The shape before.
    Returns:
        The shape.
    """
    persons, occupied = laws.persons, laws.occupied
    # The same for 100, 4,000 and 100,000 blocks.
    for width in (0.3, 0.05, 0.01):
        new = shape * np.exp(width * rng.standard_normal())
        # log shape ~ N(0, 1.5^2): shapes from 1/20 (a few blocks have most people) to 20 (all are alike) are likely.
        log = -(np.log(new) ** 2 - np.log(shape) ** 2) / (2.0 * 1.5**2)
        for law in range(mean.size):
            if occupied[law] > 0:
                log += _log_mean(persons[law], occupied[law], mean[law], new)
                log -= _log_mean(persons[law], occupied[law], mean[law], shape)
        for i in range(sizes.size):
            n = sizes[i]
            log += n_blocks[i] * (lgamma(n + new) - lgamma(new) - lgamma(n + shape) + lgamma(shape))
        if np.log(1.0 - rng.random()) < log:
            shape = new
    return shape
