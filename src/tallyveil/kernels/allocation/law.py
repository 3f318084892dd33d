"""Kernels of the law of a block's counts, given its noisy answers and a prior.

A block has a size s, a class h, and a factor g for each group of cells, all from finite lists. Given these, the count
of cell c of group r is negative binomial with mean s * g_r * f_hc * p_c, where p_c is the share of the cell in the
block's family, and the noisy answer is this count plus noise. All that it says of the mean is in its *likelihoods*,
one for each mean of a lattice with equal ratios. Sizes and factors are powers of one number, so that their products are
few: the sum over g is a convolution.

The laws of a cell's count and of the block's total are computed without draws: each is a mixture, over what is left of
sizes, classes and factors, of laws on short ranges of counts, and the total's are convolutions of the cells'.

Source: the negative binomial law as c(x) a q^x, so that a mixture of them over a range of x is a sum of powers.
Oracle: the tests sum over every size, class, factor and table of counts of a tiny block.
"""

from math import exp, lgamma, log
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import FloatBlocks, FloatRows, Floats, IntegerRows, Integers
from tallyveil.kernels.compiled import hot, internal, njit
from tallyveil.kernels.vectors import set_to

PER_SIZE = 3
"""Steps of the lattice of means between one size, or factor, and the next. With 1, means are rounded to 9 % of
themselves, which is more than the sizes' own spacing hides; with 6, tables are twice as large for nothing seen."""

TRIMMED = 1e-6
"""Part of a law that is left out at each end of a range."""

LEAST_WEIGHT = 1e-4
"""Posterior probability below which a size and class, or a factor, is left out of the laws of counts."""


class Grid(NamedTuple):
    """The lattice of means, and the lists of sizes, classes and factors.

    Attributes:
        log_mean: Logarithm of each mean after the first, which is zero and stands at place 0.
        concentration: Concentration of the negative binomial law.
        n_sizes: Number of sizes: no people, then the lattice's means in steps of `PER_SIZE`, from 1 on.
        factor: Steps of each factor in sizes; the first factor is zero, and its entry means nothing.
        shift: Steps of each class and cell on the lattice of means; shape (classes, cells).
        cells: The cells of each group; shape (groups, cells of a group).
    """

    log_mean: Floats
    concentration: float
    n_sizes: int
    factor: Integers
    shift: IntegerRows
    cells: IntegerRows


class Prior(NamedTuple):
    """Logarithms and shares of the prior.

    Attributes:
        log_size: Of each size and class, by class of the family; shape (family classes, sizes, classes).
        factor: Share of each factor, by class of a group's share in the family; shape (share classes, factors).
    """

    log_size: FloatBlocks
    factor: FloatRows


class Families(NamedTuple):
    """What the prior knows of the families of some blocks.

    Attributes:
        place: Place on the lattice of the mean of each cell where size and factor are 1; shape (families, cells).
        size_class: Class of each family.
        share_class: Class of the share of each group; shape (families, groups).
    """

    place: IntegerRows
    size_class: Integers
    share_class: IntegerRows


class Noise(NamedTuple):
    """A law of noise: the logarithm of its probabilities, up to a constant, is -rate * |z|^power / power.

    Attributes:
        rate: 1 / variance of normal noise, or 1 / scale of Laplace noise.
        power: 2 or 1.
        reach: Larger noise than this is left out.
    """

    rate: float
    power: int
    reach: int


class Answers(NamedTuple):
    """Noisy answers of some blocks.

    Attributes:
        values: Of each block and cell.
        column: The row of each in `table`.
        table: Likelihoods of distinct values, as `likelihoods` returns them.
        noise: The law of the noise.
    """

    values: IntegerRows
    column: IntegerRows
    table: FloatRows
    noise: Noise


class Block(NamedTuple):
    """One block.

    Attributes:
        value: Noisy value of each cell.
        place: As `Families.place`, of the block's family.
        noise: The law of the noise.
    """

    value: Integers
    place: Integers
    noise: Noise


LEAST = 1e-140
"""Smallest likelihood, beside the largest of a value: the product of two is still a normal number."""


@hot
def first_count(value: int, noise: Noise) -> int:
    """The least count that a noisy answer leaves likely."""
    return max(value - noise.reach, 0)


@hot
def count_range(value: int, noise: Noise) -> int:
    """How many counts a noisy answer leaves likely, from `first_count` on."""
    return max(value, 0) + noise.reach - first_count(value, noise) + 1


@internal
def _weights(value: int, noise: Noise, concentration: float, out: Floats) -> tuple[int, float]:
    """The factors c(x) P(value - x) of the posterior of the counts from `first_count` on, divided by the largest.

    Returns:
        The number of counts, and the logarithm of what the factors were divided by.
    """
    first = first_count(value, noise)
    n = count_range(value, noise)
    largest = -np.inf
    for i in range(n):
        x = first + i
        z = abs(value - x)
        exponent = noise.rate * (0.5 * z * z if noise.power == 2 else z)
        out[i] = lgamma(x + concentration) - lgamma(x + 1.0) - exponent
        largest = max(largest, out[i])
    for i in range(n):
        out[i] = exp(out[i] - largest)
    return n, largest


@hot
def _powers(log_mean: float, concentration: float) -> tuple[float, float]:
    """Logarithms of q and a of the law c(x) a q^x with a mean."""
    mean = exp(log_mean)
    return log(mean / (mean + concentration)), -concentration * log(1.0 + mean / concentration)


@njit(nogil=True, cache=True)
def likelihoods(values: Integers, noise: Noise, grid: Grid) -> tuple[FloatRows, Floats]:
    """Likelihood of noisy values under every mean of the lattice, up to a factor for each value.

    Args:
        values: Noisy values.
        noise: Their law.
        grid: The lattice of means.
    Returns:
        Shape (values, means); the largest of each row is 1, and none is below `LEAST`. And the logarithm of the factor
        that each row was divided by.
    """
    kappa = grid.concentration
    n_means = grid.log_mean.size + 1
    out = np.empty((values.size, n_means))
    weight, logarithm = np.empty(2 * noise.reach + 1), np.empty(values.size)
    for v in range(values.size):
        n, scale = _weights(values[v], noise, kappa, weight)
        first = first_count(values[v], noise)
        # A mean of zero leaves only the count 0.
        out[v, 0] = log(weight[0]) if first == 0 else -np.inf
        largest = out[v, 0]
        for k in range(1, n_means):
            log_q, log_a = _powers(grid.log_mean[k - 1], kappa)
            q, power, total = exp(log_q), 1.0, 0.0
            for i in range(n):
                total += weight[i] * power
                power *= q
            out[v, k] = log(total) + log_q * first + log_a
            largest = max(largest, out[v, k])
        for k in range(n_means):
            out[v, k] = max(exp(out[v, k] - largest), LEAST)
        logarithm[v] = largest + scale - lgamma(kappa)
    return out, logarithm


class Scratch(NamedTuple):
    """Room for what is computed of one block.

    Attributes:
        joint: Product of the likelihoods of a group's cells; shape (classes, groups, steps of size and factor).
        absent: The same where the factor is zero; shape (groups,).
        group: Sum of it over factors; shape (classes, groups, sizes).
        size: Posterior probability of each size and class; shape (sizes, classes).
    """

    joint: FloatBlocks
    absent: Floats
    group: FloatBlocks
    size: FloatRows


@internal
def scratch_of(grid: Grid, n_groups: int) -> Scratch:
    """Room for the blocks of a grid."""
    n_classes = grid.shift.shape[0]
    n_steps = grid.n_sizes - 1 + int(grid.factor[1:].max()) - int(grid.factor[1:].min())
    return Scratch(
        np.empty((n_classes, n_groups, n_steps)),
        np.empty(n_groups),
        np.empty((n_classes, n_groups, grid.n_sizes)),
        np.empty((grid.n_sizes, n_classes)),
    )


@hot
def mean_at(place: int, step: int, shift: int, n_means: int) -> int:
    """Place on the lattice of the mean of a cell, from that of its share, and steps of size, factor and class."""
    return min(max(place + PER_SIZE * step + shift, 0), n_means - 1)


@internal
def weigh_sizes(
    column: Integers,
    table: FloatRows,
    family: int,
    families: Families,
    prior: Prior,
    grid: Grid,
    scratch: Scratch,
) -> float:
    """The posterior of a block's size and class, and what it was computed from, in `scratch`.

    Args:
        column: The row of each cell in `table`.
        table: Likelihoods, as `likelihoods` returns them.
        family: Number of the block's family.
        families: What the prior knows of families.
        prior: The prior.
        grid: The lattice.
        scratch: Room.
    Returns:
        Logarithm of the likelihood of all answers of the block.
    """
    place, share_class = families.place[family], families.share_class[family]
    log_size = prior.log_size[families.size_class[family]]
    n_classes, n_groups, n_steps = scratch.joint.shape
    n_factors, n_means = grid.factor.size, table.shape[1]
    least = grid.factor[1:].min()
    scratch.joint[:] = 1.0
    scratch.absent[:] = 1.0
    for r in range(n_groups):
        for c in grid.cells[r]:
            row = table[column[c]]
            scratch.absent[r] *= row[0]
            for h in range(n_classes):
                for t in range(n_steps):
                    scratch.joint[h, r, t] *= row[mean_at(place[c], t + least, grid.shift[h, c], n_means)]
    largest = -np.inf
    for h in range(n_classes):
        for s in range(grid.n_sizes):
            scratch.size[s, h] = log_size[s, h]
        for r in range(n_groups):
            shares = prior.factor[share_class[r]]
            scratch.group[h, r, 0] = scratch.absent[r]
            scratch.size[0, h] += log(scratch.absent[r])
            for s in range(1, grid.n_sizes):
                total = shares[0] * scratch.absent[r]
                for g in range(1, n_factors):
                    total += shares[g] * scratch.joint[h, r, s - 1 + grid.factor[g] - least]
                scratch.group[h, r, s] = total
                scratch.size[s, h] += log(total)
        for s in range(grid.n_sizes):
            largest = max(largest, scratch.size[s, h])
    total = 0.0
    for s in range(grid.n_sizes):
        for h in range(n_classes):
            scratch.size[s, h] = exp(scratch.size[s, h] - largest)
            total += scratch.size[s, h]
    for s in range(grid.n_sizes):
        for h in range(n_classes):
            scratch.size[s, h] /= total
    return largest + log(total)


@hot
def factor_weight(g: int, step: int, s: int, h: int, r: int, share: float, scratch: Scratch) -> float:
    """The posterior probability of a factor of a group, given size and class of its block; the size is not empty."""
    joint = scratch.absent[r] if g == 0 else scratch.joint[h, r, step]
    return float(share * joint / scratch.group[h, r, s])


@njit(nogil=True, cache=True)
def expectations(
    column: IntegerRows,
    table: FloatRows,
    family: Integers,
    families: Families,
    prior: Prior,
    grid: Grid,
) -> tuple[float, FloatBlocks, FloatRows]:
    """Expected numbers of blocks and of groups of blocks, given all answers: one step of expectation.

    Args:
        column: The row in `table` of each block and cell.
        table: Likelihoods, as `likelihoods` returns them.
        family: Family of each block.
        families: What the prior knows of them.
        prior: The prior before this step.
        grid: The lattice.
    Returns:
        The logarithm of the likelihood; the expected number of blocks of each size and class, as
        `Prior.log_size`; the expected number of groups of blocks with each factor, as `Prior.factor`.
    """
    n_groups = families.share_class.shape[1]
    scratch = scratch_of(grid, n_groups)
    sizes, factors = np.zeros(prior.log_size.shape), np.zeros(prior.factor.shape)
    least, likelihood = grid.factor[1:].min(), 0.0
    for b in range(family.size):
        f = family[b]
        k, shares = families.size_class[f], families.share_class[f]
        likelihood += weigh_sizes(column[b], table, f, families, prior, grid, scratch)
        for s in range(grid.n_sizes):
            for h in range(scratch.size.shape[1]):
                weight = scratch.size[s, h]
                sizes[k, s, h] += weight
                if s == 0 or weight < LEAST_WEIGHT:
                    continue
                for r in range(n_groups):
                    of_factor = prior.factor[shares[r]]
                    for g in range(grid.factor.size):
                        step = s - 1 + grid.factor[g] - least
                        factors[shares[r], g] += weight * factor_weight(
                            g, step, s, h, r, of_factor[g], scratch
                        )
    return likelihood, sizes, factors


class Pieces(NamedTuple):
    """Laws of counts on short ranges, by two numbers.

    Attributes:
        number: Number of each law; -1 where there is none yet; shape (first numbers, second numbers).
        first: First count of each law.
        width: Number of its counts.
        law: Probabilities; shape (laws, widest range).
    """

    number: IntegerRows
    first: Integers
    width: Integers
    law: FloatRows


class Room(NamedTuple):
    """Room for the laws of one block.

    Attributes:
        scratch: For the posterior of size and class.
        cells: Laws of the count of each cell, given its mean.
        sums: Laws of the sum of each group, given the class (first number: group and class) and the step of size and
            factor, from 1 on; 0 stands for a factor of zero.
        probability: Posterior probability of the same; 0 where there is no law.
        weight: Of each cell, what all its laws have in common (`_weights`).
        part, more, whole: One law each.
    """

    scratch: Scratch
    cells: Pieces
    sums: Pieces
    probability: FloatRows
    weight: FloatRows
    part: Floats
    more: Floats
    whole: Floats


class Laws(NamedTuple):
    """Posterior distribution functions of the counts of some blocks, one row after the other.

    Attributes:
        first: First count of each row.
        begin: Where each row begins in `below`; one more at the end.
        below: Probability of a count up to first, up to first + 1, and so on.
    """

    first: Integers
    begin: Integers
    below: Floats


@internal
def _trimmed(law: Floats, n: int) -> tuple[int, int]:
    """First and last place of a law of n probabilities that are left when its ends are trimmed."""
    first, last, mass = 0, n - 1, law[0]
    while first < last and mass < TRIMMED:
        first += 1
        mass += law[first]
    mass = law[last]
    while last > first and mass < TRIMMED:
        last -= 1
        mass += law[last]
    return first, last


@internal
def _pieces(n_first: int, n_second: int, width: int) -> Pieces:
    """Room for laws."""
    n = n_first * n_second
    return Pieces(
        np.full((n_first, n_second), -1), np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, width))
    )


@internal
def _cell_law(c: int, k: int, block: Block, grid: Grid, room: Room, n_cells: int) -> int:
    """The law of a cell's count given its mean, computed unless it is there; how many laws are there now."""
    cells, weight, value, noise = room.cells, room.weight[c], block.value[c], block.noise
    if cells.number[c, k] >= 0:
        return n_cells
    law = cells.law[n_cells]
    cells.number[c, k] = n_cells
    if k == 0:  # no mean: nobody
        cells.first[n_cells], cells.width[n_cells], law[0] = 0, 1, 1.0
        return n_cells + 1
    n = count_range(value, noise)
    q, power, total = exp(_powers(grid.log_mean[k - 1], grid.concentration)[0]), 1.0, 0.0
    for i in range(n):
        law[i] = weight[i] * power
        total += law[i]
        power *= q
    for i in range(n):
        law[i] /= total
    first, last = _trimmed(law, n)
    for i in range(first, last + 1):
        law[i - first] = law[i]
    cells.first[n_cells] = first_count(value, noise) + first
    cells.width[n_cells] = last - first + 1
    return n_cells + 1


@internal
def _add_convolution(left: Floats, n_left: int, right: Floats, n_right: int, out: Floats) -> None:
    """Add to `out` the law of a sum of two counts."""
    for i in range(n_left):
        for j in range(n_right):
            out[i + j] += left[i] * right[j]


@internal
def _add_shifted(
    law: Floats, n: int, first: int, weight: float, sums: Floats, n_sums: int, low: int
) -> tuple[int, int]:
    """Add a law that begins at a count to sums that begin at another; the sums' new length and first count."""
    if n_sums == 0:
        for i in range(n):
            sums[i] = weight * law[i]
        return n, first
    if first < low:
        moved = low - first
        for i in range(n_sums - 1, -1, -1):
            sums[i + moved] = sums[i]
        sums[:moved] = 0.0
        n_sums, low = n_sums + moved, first
    if first + n > low + n_sums:
        sums[n_sums : first + n - low] = 0.0
        n_sums = first + n - low
    for i in range(n):
        sums[first - low + i] += weight * law[i]
    return n_sums, low


@internal
def _grown(values: Floats, size: int) -> Floats:
    """The same values with room for at least `size`."""
    if size <= values.size:
        return values
    grown = np.empty(2 * size)
    set_to(grown, values)
    return grown


@internal
def _kept_law(law: Floats, n: int, first: int, row: int, laws: Laws) -> Laws:
    """The laws with one more row: the distribution function of a law that begins at a count."""
    total = 0.0
    for i in range(n):
        total += law[i]
    # All weights vanish only where a value is impossible under every mean: then the least count is as good as any.
    if total == 0.0:
        law[0] = total = 1.0
    for i in range(n):
        law[i] /= total
    low, high = _trimmed(law, n)
    begin = laws.begin[row]
    below = _grown(laws.below, begin + high - low + 1)
    total = 0.0
    for i in range(low):
        total += law[i]
    for i in range(low, high + 1):
        total += law[i]
        below[begin + i - low] = min(total, 1.0)
    laws.first[row] = first + low
    laws.begin[row + 1] = begin + high - low + 1
    return Laws(laws.first, laws.begin, below)


@internal
def _room(grid: Grid, noise: Noise, n_groups: int, n_cells: int) -> Room:
    """Room for the blocks of a family."""
    scratch, width = scratch_of(grid, n_groups), 2 * noise.reach + 1
    n_classes, _, n_steps = scratch.joint.shape
    widest = n_cells * width
    return Room(
        scratch,
        _pieces(n_cells, grid.log_mean.size + 1, width),
        _pieces(n_groups * n_classes, n_steps + 1, grid.cells.shape[1] * width),
        np.zeros((n_groups * n_classes, n_steps + 1)),
        np.empty((n_cells, width)),
        np.empty(widest),
        np.empty(widest),
        np.empty(widest),
    )


@internal
def _sum_law(
    r: int,
    h: int,
    t: int,
    block: Block,
    grid: Grid,
    room: Room,
    n_laws: tuple[int, int],
) -> tuple[int, int]:
    """The law of a group's sum given class and step, computed unless it is there; how many laws there are now."""
    n_cells, n_sums = n_laws
    sums = room.sums
    row = r * grid.shift.shape[0] + h
    if sums.number[row, t] >= 0:
        return n_laws
    sums.number[row, t] = n_sums
    law, n, first = sums.law[n_sums], 1, 0
    law[0] = 1.0
    least = grid.factor[1:].min()
    for c in grid.cells[r]:
        k = 0
        if t > 0:
            k = mean_at(block.place[c], t - 1 + least, grid.shift[h, c], grid.log_mean.size + 1)
        n_cells = _cell_law(c, k, block, grid, room, n_cells)
        number = room.cells.number[c, k]
        width = room.cells.width[number]
        room.more[: n + width - 1] = 0.0
        _add_convolution(law, n, room.cells.law[number], width, room.more)
        n += width - 1
        first += room.cells.first[number]
        low, high = _trimmed(room.more, n)
        n = high - low + 1
        set_to(law, room.more[low : high + 1])
        first += low
    sums.first[n_sums], sums.width[n_sums] = first, n
    return n_cells, n_sums + 1


@njit(nogil=True, cache=True)
def block_laws(
    answers: Answers,
    family: int,
    families: Families,
    prior: Prior,
    grid: Grid,
) -> Laws:
    """The posterior laws of the counts of a family's blocks.

    Args:
        answers: The noisy answers of the blocks.
        family: Number of the family.
        families: What the prior knows of families.
        prior: The prior.
        grid: The lattice.
    Returns:
        For each block a row for each cell, and one for the total.
    """
    values, noise = answers.values, answers.noise
    n, n_cells = values.shape
    laws = Laws(
        np.zeros(n * (n_cells + 1), np.int64), np.zeros(n * (n_cells + 1) + 1, np.int64), np.empty(1024)
    )
    room = _room(grid, noise, families.share_class.shape[1], n_cells)
    place, shares = families.place[family], families.share_class[family]
    group = np.empty(n_cells, np.int64)
    for r in range(grid.cells.shape[0]):
        group[grid.cells[r]] = r
    for b in range(n):
        weigh_sizes(answers.column[b], answers.table, family, families, prior, grid, room.scratch)
        total = _total_law(Block(values[b], place, noise), prior, shares, grid, room)
        # Rows come in order, so that cells are gone through in theirs.
        for c in range(n_cells):
            n_counts = _mixed_cell(group[c], c, values[b, c], place[c], noise, grid, room)
            first = first_count(values[b, c], noise)
            laws = _kept_law(room.part, n_counts, first, b * (n_cells + 1) + c, laws)
        laws = _kept_law(total, total.size, 0, b * (n_cells + 1) + n_cells, laws)
    return laws


@internal
def _total_law(block: Block, prior: Prior, shares: Integers, grid: Grid, room: Room) -> Floats:
    """The law of a block's total, from 0 on, and what cells' laws are mixed from, in `room`."""
    scratch, sums, value, noise = room.scratch, room.sums, block.value, block.noise
    n_classes, n_groups, _ = scratch.joint.shape
    least, largest = grid.factor[1:].min(), 1
    for c in range(value.size):
        largest += max(value[c], 0) + noise.reach
        _weights(value[c], noise, grid.concentration, room.weight[c])
    total, n_laws = np.zeros(largest), (0, 0)
    room.cells.number[:], sums.number[:], room.probability[:] = -1, -1, 0.0
    for s in range(grid.n_sizes):
        for h in range(n_classes):
            of_size = scratch.size[s, h]
            if of_size < LEAST_WEIGHT:
                continue
            room.whole[0], n_whole, first = 1.0, 1, 0
            for r in range(n_groups):
                # The law of the group's sum is a mixture over factors.
                n_group, low = 0, 0
                for g in range(grid.factor.size):
                    t, of_factor = 0, 1.0
                    if s > 0:
                        share = prior.factor[shares[r], g]
                        step = s - 1 + grid.factor[g] - least
                        of_factor = factor_weight(g, step, s, h, r, share, scratch)
                        t = step + 1 if g > 0 else 0
                    if of_factor < LEAST_WEIGHT or (s == 0 and g > 0):
                        continue
                    n_laws = _sum_law(r, h, t, block, grid, room, n_laws)
                    room.probability[r * n_classes + h, t] += of_size * of_factor
                    number = sums.number[r * n_classes + h, t]
                    n_group, low = _add_shifted(
                        sums.law[number],
                        sums.width[number],
                        sums.first[number],
                        of_factor,
                        room.part,
                        n_group,
                        low,
                    )
                room.more[: n_whole + n_group - 1] = 0.0
                _add_convolution(room.whole, n_whole, room.part, n_group, room.more)
                begin, last = _trimmed(room.more, n_whole + n_group - 1)
                n_whole = last - begin + 1
                set_to(room.whole, room.more[begin : last + 1])
                first += low + begin
            for i in range(n_whole):
                total[first + i] += of_size * room.whole[i]
    return total


@internal
def _mixed_cell(r: int, c: int, value: int, place: int, noise: Noise, grid: Grid, room: Room) -> int:
    """The law of a cell's count from `first_count` on, not scaled, in `room.part`; the number of counts."""
    n_classes = grid.shift.shape[0]
    first = first_count(value, noise)
    n = count_range(value, noise)
    room.part[:n] = 0.0
    least = grid.factor[1:].min()
    for h in range(n_classes):
        for t in range(room.probability.shape[1]):
            weight = room.probability[r * n_classes + h, t]
            if weight == 0.0:
                continue
            k = 0
            if t > 0:
                k = mean_at(place, t - 1 + least, grid.shift[h, c], grid.log_mean.size + 1)
            number = room.cells.number[c, k]
            begin = room.cells.first[number] - first
            # With no mean, a noisy value far above zero is all but impossible, and its weight vanishes.
            if begin >= 0:
                for i in range(room.cells.width[number]):
                    room.part[begin + i] += weight * room.cells.law[number, i]
    return n
