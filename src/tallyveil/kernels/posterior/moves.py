"""Kernels of the sampler's moves: persons are shifted between two cells of finest geounits.

The state is a table of whole counts x[block, cell]; a *block* is a geounit of the finest geolevel. Its law is

    prior(x) * product over noisy answers of  P(noise = measurement - answer of x),    where x is within its limits.

**A move** takes two places, (b, c) and (b2, c2), and shifts k persons from the second to the first, where k is one of
WINDOW + 1 neighbouring values. The window is placed at random: the present value is equally likely to be any of its
values. So every state of a window proposes this window with the same probability. A step that keeps the conditional law
of the states in the window therefore keeps the law of the state, too. Limits and zeros shorten the window in the same
way, whichever of its states is the present one.

This step is over-relaxed (Neal 1995). A circle is divided into one arc for each value of the window, in proportion to
their probabilities. A point is drawn uniformly from the arc of the present value, and the arc that contains the
opposite point gives the next value. If the present value has the conditional law, then its point is uniform on the
circle, and so is the opposite point. An independent draw (a Gibbs step) would stay near the present value more often.

**The likelihood** needs only the residuals (answer - measurement) of the answers that the move changes. With Gaussian
noise and w = 1 / sigma^2 the logarithm changes by -w ((r + k)^2 - r^2) / 2; with Laplace noise of scale s by -(|r + k|
- |r|) / s. The normalising constants of discrete noise do not depend on the state. Both places count in the same
answers from their common ancestor upwards if c = c2, and the loop over answers, which come from the finest geolevel
upwards, ends there.

**The prior** is that of `tallyveil.estimation.posterior.prior`: a size N of the block, and nested Dirichlet-multinomial
steps that divide a group's persons among its groups of the next step. The ratio of the prior with one person more in
cell c is

    size(N) / (x + 1) * product over steps of (n_child + a p_child) / (n_parent + a),

where p_child is a share of the family or, with an earlier census of blocks, the expected share that `centre` gives, and
size(N) = (N + 1) f(N + 1) / f(N) = (N + shape) rise for N > 0, with f the law of the sizes of occupied blocks.
The factorials of the multinomial coefficients cancel but for x + 1. A move whose window reaches N = 0, or two size
classes, has factors besides: the first person of a block makes a block of its tract occupied that was empty, of which
the tract says how likely it is; and the block's class is more or less frequent in the other size class.

The probability that a block of a tract is empty is integrated out: with v empty and o occupied ones, the next block is
empty with a probability in proportion to `none + v`, and occupied in proportion to `some + o` (Polya's urn). Were it
drawn instead, it would hold the number of empty blocks near where it is.

**Which pairs.** A reflection i -> (s - i) mod n with a random s pairs all n blocks (or levels of an attribute) at once,
each two of them with probability 1 / n. It does not depend on the state. Of levels, only such s are drawn that pair two
of which public limits allow both (`Turns`). A move between two empty places would leave them as they are. So only the
places with people are looked for, as the bits of `State.filled`, in the order of the cells: this gives the same states
as a look at every pair, and costs the less the fewer cells of a block have people.

Where the number of people is not fixed, a move of one place adds or removes k persons; its second place is NOWHERE.

Specification: `tests.oracles.posterior` has the law by enumeration.
"""

from math import lgamma
from typing import Any, Final, NamedTuple

import numpy as np

from tallyveil.arrays import (
    Bools,
    FloatBlocks,
    FloatRows,
    Floats,
    Int32Rows,
    Int32s,
    IntegerRows,
    Integers,
    WordRows,
    Words,
)
from tallyveil.kernels.compiled import hot, njit, uncounted
from tallyveil.kernels.vectors import set_to

WINDOW: Final = 8
"""Values of a window but one. The noise of a block's cell has a standard deviation of about 3 in production: with half
as many values a chain needs twice as many sweeps; with twice as many, most values have no weight and are computed in
vain."""

MOST_SLOPE: Final = 300.0
"""Larger differences of the logarithm of the likelihood between neighbouring shifts count as this. The less likely of
two shifts would else have a weight below e^-300 of the other, which is never drawn either; and with the factors of the
prior, products stay far from the largest float, e^709."""

LARGE: Final = 1e50
"""Weights above this are scaled. In between, products of a prior's ratio (at most 1e120) and of e^300 stay finite."""

WORD: Final = 64
"""Bits of a word."""

DE_BRUIJN: Final = np.uint64(0x03F79D71B4CB0A89)
"""Its highest six bits differ for all shifts by 0 to 63 bits (de Bruijn)."""

NUMBER_OF_BIT: Final = np.argsort([(int(DE_BRUIJN) << i & (1 << 64) - 1) >> 58 for i in range(WORD)])
"""By how many bits `DE_BRUIJN` is shifted, for each value of its highest six bits."""

NOWHERE: Final = -1
"""As the second block of a move: persons come from nowhere, or go there."""


class Answers(NamedTuple):
    """The noisy answers, one table for each geolevel and query that was measured there, finest geolevel first. All
    answers of a geounit lie side by side in one row, since moves look at them together.

    Attributes:
        place_of: Place in a row of the answer of each table in which each cell counts, -1 if it counts in none; shape
            (cells, tables).
        begin: First table of each geolevel, and one entry more at the end.
        geolevel: Row of `Tree.ancestor` of each table.
        offset: Place of each table's first answer in a row.
        size: Answers of a geounit in each table.
        measured: The noisy answers, in the order of `State.residual`.
        row_begin: Where the rows of each geolevel begin in `measured`.
        width: Answers in a row of each geolevel.
        precision: 1 / sigma^2, the parameter of discrete Gaussian noise (1 / variance differs for small noise), or
            1 / scale of Laplace noise; 0 for an unmeasured geounit.
        precision_begin: Where each table's precisions begin.
        precision_step: 1 if each geounit has a precision, 0 if all have the same.
        gaussian: Whether the noise is Gaussian.
    """

    place_of: Int32Rows
    begin: Integers
    geolevel: Integers
    offset: Integers
    size: Integers
    measured: Int32s
    row_begin: Integers
    width: Integers
    precision: Floats
    precision_begin: Integers
    precision_step: Integers
    gaussian: bool


class Limits(NamedTuple):
    """Public limits on sums of cells, one table for each geolevel and bounded query. An invariant has equal limits.

    Attributes:
        geolevel: Row of `Tree.ancestor` of each table.
        answer_of: Answer of each cell in each table, -1 for a cell that counts in none; shape (tables, cells).
        begin: Where each table begins in `State.limited`, `lower` and `upper`.
        size: Answers of a geounit in each table.
        lower: Least value of each answer.
        upper: Largest value of each answer.
    """

    geolevel: Integers
    answer_of: Int32Rows
    begin: Integers
    size: Integers
    lower: Int32s
    upper: Int32s


class Tree(NamedTuple):
    """The spine, finest geolevel first.

    Attributes:
        ancestor: Geounit of each block at each geolevel; shape (geolevels, blocks). Row 0 counts the blocks.
        begin: First block of each geounit, of one geolevel after the other, each with one entry more at its end.
        level_begin: Where each geolevel begins in `begin`; one entry more at the end.
        family: Family of each block, whose blocks share the shares of `Prior`.
        tract: Tract of each block, whose blocks share a probability of being empty. Where covariates tell kinds of
            blocks apart, the blocks of each kind in a tract count as a tract.
        law: Number of each block's law of sizes. Each family has one law; with covariates, the blocks of a family that
            have the same numbers have one.
    """

    ancestor: Int32Rows
    begin: Integers
    level_begin: Integers
    family: Int32s
    tract: Int32s
    law: Int32s


class Steps(NamedTuple):
    """The columns of `State.people`: all persons, then the groups of each step, and at last the cells.

    Attributes:
        group: Column of each cell's group at each step; shape (steps, cells). Row 0 is 0, the last row the cell's
            column.
        parent: Column of the group that each group is part of; -1 for column 0.
        step: Step of each column.
        classed: The step whose divisions have a concentration of each block; all others have one of each group.
    """

    group: Int32Rows
    parent: Int32s
    step: Int32s
    classed: int


class Earlier(NamedTuple):
    """Public counts of an earlier census, from which geounits get different expected shares.

    Attributes:
        counts: Persons of each group in each geounit; shape (geounits, columns), with 0 geounits if there is no census.
        discount: For the division of each group, persons with the shares of the geounit above that are added to those
            of the earlier census; shape (columns,).
        renewal: For the division of each group, the weight of the shares of the geounit above, from 0 to 1; the rest
            is that of the earlier shares with the discount; shape (columns,).
    """

    counts: Int32Rows
    discount: Floats
    renewal: Floats


class Prior(NamedTuple):
    """The values of the prior's parameters between two updates.

    Attributes:
        mean: Share of each group in its parent: one row for each family of blocks, and a last row for the class of
            facilities; shape (families + 1, columns).
        row: The row of `mean` around which each block is divided in all steps but the classed one; in this one, the
            row of its family counts.
        concentration: Concentration of each group's division.
        block_concentration: That of the classed step's divisions, of each block.
        rise: mean / (mean + shape) of each law of sizes.
        first: Probability of one person in an occupied block, of each law of sizes.
        shape: Shape of the negative binomial law of sizes.
        none: Weight of empty blocks in each tract, before any is counted.
        some: The same of occupied ones.
        size_class: Class of each size; sizes beyond the end have the last one.
        log_share: Logarithm of the share of each class of concentration among the blocks of each size class.
        block_class: Class of concentration of each block. Exchanges of blocks change it, and with it `row` and
            `block_concentration`.
        earlier: The counts of an earlier census of blocks.
    """

    mean: FloatRows
    row: Int32s
    concentration: Floats
    block_concentration: Floats
    rise: Floats
    first: Floats
    shape: float
    none: Floats
    some: Floats
    size_class: Integers
    log_share: FloatRows
    block_class: Integers
    earlier: Earlier


class State(NamedTuple):
    """What moves change.

    Attributes:
        people: Persons of each group of each block; shape (blocks, columns).
        filled: The columns of each block with people, as bits; shape (blocks, words).
        residual: Answer - measurement, in the rows of `Answers`.
        limited: Values of the answers of `Limits`.
        vacant: Empty blocks of each tract, without those that limits hold empty.
        occupied: Occupied ones, without those that limits hold occupied.
        weights: Room for the weights of a window.
        slopes: Room for what Laplace noise adds to the logarithms of neighbouring ones.
        factors: Room for the factors of the prior's ratios at both places; shape (2, 3, steps).
        chosen: Room for the bits of the cells that a pair of blocks, or of levels, moves people of; shape (words,).
        row: Working array: where the rows of answers of both places begin; shape (2, geolevels).
    """

    people: Int32Rows
    filled: WordRows
    residual: Int32s
    limited: Int32s
    vacant: Int32s
    occupied: Int32s
    weights: Floats
    slopes: Floats
    factors: FloatBlocks
    chosen: Words
    row: IntegerRows


class Places(NamedTuple):
    """The two places of a move: persons are shifted from (b2, c2) to (b, c).

    Attributes:
        b, c: Block and cell.
        b2, c2: Block and cell; b2 may be NOWHERE.
    """

    b: int
    c: int
    b2: int
    c2: int


class Moved(NamedTuple):
    """Of which cells `shift_between_blocks` moves persons.

    Attributes:
        cells: Bits of the columns of the cells of the first place.
        of_sparse: The same of pairs of which a block is in a sparse geounit.
        is_sparse: Whether each geounit of the geolevel above the blocks is sparse.
    """

    cells: Words
    of_sparse: Words
    is_sparse: Bools


class Turns(NamedTuple):
    """How moves can pair the levels of an attribute in each geounit of a geolevel. A pair of levels has a sum, modulo
    the number of levels, and all pairs with one sum are made at once. Left out are sums with which nobody could move,
    since public limits allow no two levels of a pair in the geounit: often a block group may have one type of facility
    besides households, and only one sum of eight pairs them.

    Attributes:
        stride: Step from a level of the attribute to the next, in cells.
        size: Levels of the attribute. With one level, persons keep their cell.
        kind: Kind of each geounit, by the levels that are allowed there.
        begin: First entry of each kind in `turn`, and one entry more at the end.
        turn: The sums.
    """

    stride: int
    size: int
    kind: Int32s
    begin: Integers
    turn: Integers


class Problem(NamedTuple):
    """What stays."""

    tree: Tree
    answers: Answers
    limits: Limits
    steps: Steps


@hot
def _views(problem: Problem, prior: Prior, state: State) -> tuple[Problem, Prior, State]:
    """Law and state whose arrays do not count their references; the caller's are to live as long."""
    tree, answers, limits, steps = problem
    return (
        Problem(
            Tree(
                uncounted(tree.ancestor),
                uncounted(tree.begin),
                uncounted(tree.level_begin),
                uncounted(tree.family),
                uncounted(tree.tract),
                uncounted(tree.law),
            ),
            Answers(
                uncounted(answers.place_of),
                uncounted(answers.begin),
                uncounted(answers.geolevel),
                uncounted(answers.offset),
                uncounted(answers.size),
                uncounted(answers.measured),
                uncounted(answers.row_begin),
                uncounted(answers.width),
                uncounted(answers.precision),
                uncounted(answers.precision_begin),
                uncounted(answers.precision_step),
                answers.gaussian,
            ),
            Limits(
                uncounted(limits.geolevel),
                uncounted(limits.answer_of),
                uncounted(limits.begin),
                uncounted(limits.size),
                uncounted(limits.lower),
                uncounted(limits.upper),
            ),
            Steps(uncounted(steps.group), uncounted(steps.parent), uncounted(steps.step), steps.classed),
        ),
        Prior(
            uncounted(prior.mean),
            uncounted(prior.row),
            uncounted(prior.concentration),
            uncounted(prior.block_concentration),
            uncounted(prior.rise),
            uncounted(prior.first),
            prior.shape,
            uncounted(prior.none),
            uncounted(prior.some),
            uncounted(prior.size_class),
            uncounted(prior.log_share),
            uncounted(prior.block_class),
            Earlier(
                uncounted(prior.earlier.counts),
                uncounted(prior.earlier.discount),
                uncounted(prior.earlier.renewal),
            ),
        ),
        State(
            uncounted(state.people),
            uncounted(state.filled),
            uncounted(state.residual),
            uncounted(state.limited),
            uncounted(state.vacant),
            uncounted(state.occupied),
            uncounted(state.weights),
            uncounted(state.slopes),
            uncounted(state.factors),
            uncounted(state.chosen),
            uncounted(state.row),
        ),
    )


@hot
def weights_of(earlier: Earlier, geounit: int, parent: int) -> tuple[float, float]:
    """Two weights in the expected shares of a group's parts in a geounit: that of the shares of the geounit above, and
    that of each person of the earlier census.
    """
    if earlier.counts.shape[0] == 0:
        return 1.0, 0.0
    n, renewal = earlier.counts[geounit, parent], earlier.renewal[parent]
    persons = earlier.discount[parent] + n
    return (earlier.discount[parent] + renewal * n) / persons, (1.0 - renewal) / persons


@hot
def centre(share: float, earlier: Earlier, geounit: int, parent: int, group: int) -> float:
    """Expected share of a group in its parent, in a geounit. Without an earlier census it is the share of the geounit
    above. With one it is a weighted mean. This share has the weight `renewal`; the rest is the weight of the share in
    the earlier census, after `discount` persons with the shares of the geounit above are added to its persons.
    """
    if earlier.counts.shape[0] == 0:
        return share
    of_above, of_person = weights_of(earlier, geounit, parent)
    return float(of_above * share + of_person * earlier.counts[geounit, group])


@hot
def _factors(
    problem: Problem,
    state: State,
    prior: Prior,
    place: tuple[int, int],
    step: int,
    factors: FloatRows,
) -> int:
    """Numbers from which the prior's ratio with one person more in a place (block and cell) follows. With k persons
    more than now it is the product of persons + k + weight over the product of bottom + k, for sizes above 0 and but
    for `rise`. Persons, weights and bottoms are the rows of `factors`. Persons and weights are apart, since a sum of
    both would lose weights below 1e-16, and the ratio be 0 or infinite. Returns how many there are of each.

    Factors of steps before `step` are left out: there, the other place of the move is in the same group.
    """
    b, c = place
    steps, family, row = problem.steps, problem.tree.family[b], prior.row[b]
    last = steps.group.shape[0]
    persons, weight, bottom = factors
    j = 0
    if step == 0:
        persons[0], weight[0] = state.people[b, 0], prior.shape
        j = 1
    for i in range(max(step, 1), last):
        parent, group = steps.group[i - 1, c], steps.group[i, c]
        a, share = prior.concentration[parent], prior.mean[row, group]
        if i == steps.classed:
            a, share = prior.block_concentration[b], prior.mean[family, group]
        share = centre(share, prior.earlier, b, parent, group)
        persons[j], weight[j] = state.people[b, group], a * share
        # The first group that differs has the same parent in both places, where nothing changes.
        if j > 0:
            bottom[j - 1] = state.people[b, parent] + a
        j += 1
    bottom[j - 1] = state.people[b, steps.group[last - 1, c]] + 1.0
    return j


@hot
def _size_factor(problem: Problem, prior: Prior, b: int, n: int, vacant: int, occupied: int) -> float:
    """What multiplies the prior's ratio with one person more in block b where it has n, besides the factors that hold
    for all sizes.

    Args:
        problem, prior: The law.
        b, n: The block, and its persons.
        vacant: Empty blocks of the tract.
        occupied: Occupied ones.
    """
    factor = 1.0
    if n == 0:
        tract, law = problem.tree.tract[b], problem.tree.law[b]
        # The block is among the empty ones.
        factor = (prior.some[tract] + occupied) / (prior.none[tract] + vacant - 1)
        factor *= prior.first[law] / (prior.shape * prior.rise[law])
    last = prior.size_class.size - 1
    at, following = prior.size_class[min(n, last)], prior.size_class[min(n + 1, last)]
    if at != following:
        of_block = prior.block_class[b]
        factor *= np.exp(prior.log_share[following, of_block] - prior.log_share[at, of_block])
    return float(factor)


@hot
def _has_one_factor(prior: Prior, least: int, most: int) -> bool:
    """Whether all sizes from `least` to `most` are above 0 and in one size class."""
    last = prior.size_class.size - 1
    return least > 0 and prior.size_class[min(least, last)] == prior.size_class[min(most, last)]


@hot
def _limited_of(
    geolevel: int, answer_of: Int32s, ancestor: Int32Rows, places: Places
) -> tuple[Any, Any, Any, Any]:
    """Geounits and limited answers of the two places in a table; no answer for a place that is nowhere."""
    if places.b2 == NOWHERE:
        return ancestor[geolevel, places.b], np.int32(NOWHERE), answer_of[places.c], np.int32(-1)
    return (
        ancestor[geolevel, places.b],
        ancestor[geolevel, places.b2],
        answer_of[places.c],
        answer_of[places.c2],
    )


@hot
def _find_rows(problem: Problem, row: IntegerRows, b: int, b2: int) -> None:
    """Where the rows of answers of two blocks begin, at each geolevel; -1 for a block that is nowhere."""
    answers, ancestor = problem.answers, problem.tree.ancestor
    for geolevel in range(answers.width.size):
        begin, width = answers.row_begin[geolevel], answers.width[geolevel]
        row[0, geolevel] = begin + ancestor[geolevel, b] * width
        row[1, geolevel] = -1 if b2 == NOWHERE else begin + ancestor[geolevel, b2] * width


@hot
def _window(problem: Problem, state: State, low: int, high: int, places: Places) -> tuple[int, int]:
    """The window, cut to counts and limits."""
    steps, limits = problem.steps, problem.limits
    last = steps.group.shape[0] - 1
    low = max(low, -state.people[places.b, steps.group[last, places.c]])
    if places.b2 != NOWHERE:
        high = min(high, state.people[places.b2, steps.group[last, places.c2]])
    for t in range(limits.geolevel.size):
        u, v, i, j = _limited_of(limits.geolevel[t], limits.answer_of[t], problem.tree.ancestor, places)
        if u == v and i == j:
            continue
        if i >= 0:
            at = limits.begin[t] + u * limits.size[t] + i
            low = max(low, limits.lower[at] - state.limited[at])
            high = min(high, limits.upper[at] - state.limited[at])
        if j >= 0:
            at = limits.begin[t] + v * limits.size[t] + j
            low = max(low, state.limited[at] - limits.upper[at])
            high = min(high, state.limited[at] - limits.lower[at])
        if low >= 0 and high <= 0:
            break
    return low, high


@hot
def _precision(answers: Answers, ancestor: Int32Rows, table: int, block: int) -> float:
    """Precision of the answers of a block's geounit in a table."""
    at = answers.precision_begin[table]
    if answers.precision_step[table] != 0:
        at += ancestor[answers.geolevel[table], block]
    return float(answers.precision[at])


@hot
def _slopes(problem: Problem, state: State, low: int, high: int, places: Places) -> tuple[float, float]:
    """How the logarithm of the likelihood rises from each shift of the window to the next; `State.row` is that of the
    places.

    Returns:
        With Gaussian noise the first of these slopes, and by how much each is smaller than the one before. With Laplace
        noise both mean nothing, and the slopes are in `State.slopes`.
    """
    answers, ancestor, slopes = problem.answers, problem.tree.ancestor, state.slopes
    linear = 0.0
    square = 0.0
    if not answers.gaussian:
        slopes[: high - low] = 0.0
    places_of, places_of2 = answers.place_of[places.c], answers.place_of[places.c2]
    for geolevel in range(answers.width.size):
        at, at2 = state.row[0, geolevel], state.row[1, geolevel]
        # Two places of one cell that are in one geounit count in the same answers, also at all higher geolevels.
        if at == at2 and places.c == places.c2:
            break
        for t in range(answers.begin[geolevel], answers.begin[geolevel + 1]):
            i, j = places_of[t], places_of2[t]
            if at == at2 and i == j:
                continue
            if i >= 0:
                w, r = _precision(answers, ancestor, t, places.b), state.residual[at + i]
                linear -= w * r
                square += w
                if not answers.gaussian:
                    for k in range(low, high):
                        slopes[k - low] += w * (abs(r + k) - abs(r + (k + 1)))
            if j >= 0 and at2 >= 0:
                w, r = _precision(answers, ancestor, t, places.b2), state.residual[at2 + j]
                linear += w * r
                square += w
                if not answers.gaussian:
                    for k in range(low, high):
                        slopes[k - low] += w * (abs(r - k) - abs(r - (k + 1)))
    return linear - (low + 0.5) * square, square


@hot
def _count_occupied(state: State, tract: int, b: int, k: int) -> None:
    """Count block b of a tract as empty or occupied before it gets k persons."""
    n = state.people[b, 0]
    if n == 0 and k > 0:
        state.vacant[tract] -= 1
        state.occupied[tract] += 1
    elif n > 0 and n + k == 0:
        state.vacant[tract] += 1
        state.occupied[tract] -= 1


@hot
def _add(state: State, b: int, column: int, k: int) -> None:
    """Add k persons to a column of block b."""
    state.people[b, column] += k
    bit = np.uint64(1) << np.uint64(column % WORD)
    if state.people[b, column] > 0:
        state.filled[b, column // WORD] |= bit
    else:
        state.filled[b, column // WORD] &= ~bit


@hot
def _apply(problem: Problem, state: State, k: int, places: Places) -> None:
    """Shift k persons from the second place to the first; `State.row` is that of the places."""
    steps, ancestor, tract = problem.steps, problem.tree.ancestor, problem.tree.tract
    if places.b != places.b2:
        _count_occupied(state, tract[places.b], places.b, k)
        if places.b2 != NOWHERE:
            _count_occupied(state, tract[places.b2], places.b2, -k)
    for i in range(steps.group.shape[0]):
        _add(state, places.b, steps.group[i, places.c], k)
        if places.b2 != NOWHERE:
            _add(state, places.b2, steps.group[i, places.c2], -k)
    answers, limits = problem.answers, problem.limits
    places_of, places_of2 = answers.place_of[places.c], answers.place_of[places.c2]
    for geolevel in range(answers.width.size):
        at, at2 = state.row[0, geolevel], state.row[1, geolevel]
        if at == at2 and places.c == places.c2:
            break
        for t in range(answers.begin[geolevel], answers.begin[geolevel + 1]):
            i, j = places_of[t], places_of2[t]
            if i >= 0:
                state.residual[at + i] += k
            if j >= 0 and at2 >= 0:
                state.residual[at2 + j] -= k
    for t in range(limits.geolevel.size):
        u, v, i, j = _limited_of(limits.geolevel[t], limits.answer_of[t], ancestor, places)
        if u == v and i == j:
            continue
        if i >= 0:
            state.limited[limits.begin[t] + u * limits.size[t] + i] += k
        if j >= 0:
            state.limited[limits.begin[t] + v * limits.size[t] + j] -= k


@hot
def shift(rng: Any, problem: Problem, prior: Prior, state: State, places: Places) -> None:
    """One move between two different places, or of one place.

    Args:
        rng: Generator.
        problem, prior, state: The law and the state.
        places: The places.
    """
    _find_rows(problem, state.row, places.b, places.b2)
    _shift(rng, problem, prior, state, places)


@hot
def _shift(rng: Any, problem: Problem, prior: Prior, state: State, places: Places) -> None:
    """One move; `State.row` is that of the places."""
    b, c, b2, c2 = places
    group = problem.steps.group
    weights, slopes = state.weights, state.slopes
    # A random number between 0 and WINDOW + 1: its whole part lays the window, the rest draws the point.
    level = rng.random() * (WINDOW + 1)
    low = -int(level)
    level += low
    low, high = _window(problem, state, low, low + WINDOW, places)
    if low >= 0 and high <= 0:
        return
    # Before the first step in which the places differ, a move within a block changes nothing.
    step = 0
    if b == b2:
        while group[step, c] == group[step, c2]:
            step += 1
    slope, fall = _slopes(problem, state, low, high, places)
    gaussian = problem.answers.gaussian
    # Cut slopes no longer fall by the same from one shift to the next: each is then computed by itself.
    is_steep = gaussian and abs(slope) > MOST_SLOPE
    n = high - low
    likelier = np.exp(min(max(slope, -MOST_SLOPE), MOST_SLOPE))
    falls = np.exp(-fall) if n > 1 else 1.0
    factors, factors2 = state.factors
    (persons, added, bottoms), (persons2, added2, bottoms2) = factors, factors2
    m = _factors(problem, state, prior, (b, c), step, factors)
    m2 = 0
    scale = 1.0
    is_edge = False
    if b != b2:
        # Persons of each block with the least shift. Where these change, more than the factors may.
        size, size2 = state.people[b, 0] + low, 0
        tract, tract2 = problem.tree.tract[b], -1
        vacant, occupied = state.vacant[tract], state.occupied[tract]
        vacant2, occupied2 = 0, 0
        scale = prior.rise[problem.tree.law[b]]
        is_edge = not _has_one_factor(prior, size, size + n)
        if size == 0 and low < 0:
            vacant += 1
            occupied -= 1
        if b2 != NOWHERE:
            size2, tract2 = state.people[b2, 0] - low, problem.tree.tract[b2]
            scale /= prior.rise[problem.tree.law[b2]]
            is_edge = is_edge or not _has_one_factor(prior, size2 - n, size2)
            was_empty = int(size2 + low == 0 and low < 0)
            if tract2 == tract:
                vacant -= was_empty
                occupied += was_empty
            else:
                vacant2, occupied2 = state.vacant[tract2] - was_empty, state.occupied[tract2] + was_empty
    if b2 != NOWHERE:
        m2 = _factors(problem, state, prior, (b2, c2), step, factors2)
    weight = total = weights[0] = 1.0
    for i in range(n):
        k = float(low + i)
        top, bottom = scale, 1.0
        for j in range(m):
            top *= persons[j] + k + added[j]
            bottom *= bottoms[j] + k
        for j in range(m2):
            top *= bottoms2[j] - 1.0 - k
            bottom *= persons2[j] - 1.0 - k + added2[j]
        if is_edge:
            top *= _size_factor(problem, prior, b, size + i, vacant, occupied)
            if size + i == 0:
                vacant -= 1
                occupied += 1
            if b2 != NOWHERE:
                is_last = int(size2 - i == 1)
                if tract2 == tract:
                    vacant += is_last
                    occupied -= is_last
                    bottom *= _size_factor(problem, prior, b2, size2 - i - 1, vacant, occupied)
                else:
                    vacant2 += is_last
                    occupied2 -= is_last
                    bottom *= _size_factor(problem, prior, b2, size2 - i - 1, vacant2, occupied2)
        if is_steep:
            likelier = np.exp(min(max(slope - i * fall, -MOST_SLOPE), MOST_SLOPE))
        elif not gaussian:
            likelier = np.exp(min(max(slopes[i], -MOST_SLOPE), MOST_SLOPE))
        weight *= top / bottom * likelier
        if gaussian and not is_steep:
            likelier *= falls
        if weight > LARGE:
            # Weights are known up to a factor only: that of the present shift becomes 1.
            total /= weight
            for place in range(i + 1):
                weights[place] /= weight
            weight = 1.0
        weights[i + 1] = weight
        total += weight
    # A point in the arc of the present shift, and then the opposite one.
    level *= weights[-low]
    for i in range(-low):
        level += weights[i]
    level += 0.5 * total if level < 0.5 * total else -0.5 * total
    level -= weights[0]
    i = 0
    while level >= 0.0 and i < n:
        i += 1
        level -= weights[i]
    if low + i != 0:
        _apply(problem, state, low + i, places)


@hot
def _log_exchange(problem: Problem, state: State, b: int, b2: int) -> float:
    """Logarithm of how much likelier the measurements are once two blocks of one family exchange all their persons;
    minus infinity where limits do not allow it.
    """
    answers, limits = problem.answers, problem.limits
    for t in range(limits.geolevel.size):
        if limits.geolevel[t] == 0:
            at, at2 = limits.begin[t] + b * limits.size[t], limits.begin[t] + b2 * limits.size[t]
            for i in range(limits.size[t]):
                n, n2 = state.limited[at + i], state.limited[at2 + i]
                if min(n2 - limits.lower[at + i], limits.upper[at + i] - n2) < 0:
                    return -np.inf
                if min(n - limits.lower[at2 + i], limits.upper[at2 + i] - n) < 0:
                    return -np.inf
    log = 0.0
    row, row2 = answers.row_begin[0] + b * answers.width[0], answers.row_begin[0] + b2 * answers.width[0]
    # Sums of both blocks stay as they are.
    for t in range(answers.begin[1]):
        w = _precision(answers, problem.tree.ancestor, t, b)
        w2 = _precision(answers, problem.tree.ancestor, t, b2)
        for i in range(answers.offset[t], answers.offset[t] + answers.size[t]):
            # An answer is its residual and its measurement.
            r, r2 = state.residual[row + i], state.residual[row2 + i]
            measured, measured2 = answers.measured[row + i], answers.measured[row2 + i]
            s, s2 = r2 + measured2 - measured, r + measured - measured2
            if answers.gaussian:
                log -= 0.5 * (w * float(s - r) * float(s + r) + w2 * float(s2 - r2) * float(s2 + r2))
            else:
                log -= w * (abs(s) - abs(r)) + w2 * (abs(s2) - abs(r2))
    return log


@hot
def _log_sizes_exchanged(problem: Problem, prior: Prior, state: State, b: int, b2: int) -> float:
    """Logarithm of how much likelier the prior finds the sizes of two blocks of one family once they exchange all their
    persons and their classes. It is 0 unless covariates tell the blocks apart.
    """
    tree = problem.tree
    law, law2, tract, tract2 = tree.law[b], tree.law[b2], tree.tract[b], tree.tract[b2]
    if law == law2 and tract == tract2:
        return 0.0
    if state.people[b2, 0] == 0:
        law, law2, tract, tract2, b, b2 = law2, law, tract2, tract, b2, b
    n, n2 = state.people[b, 0], state.people[b2, 0]
    rise = np.log(prior.rise[law] / prior.rise[law2])
    if n > 0:
        return float((n2 - n) * rise)
    log = np.log(prior.first[law] / prior.first[law2]) + (n2 - 1) * rise
    if tract != tract2:
        log += np.log(
            (prior.some[tract] + state.occupied[tract]) / (prior.none[tract] + state.vacant[tract] - 1)
        )
        log += np.log(
            (prior.none[tract2] + state.vacant[tract2]) / (prior.some[tract2] + state.occupied[tract2] - 1)
        )
    return float(log)


@hot
def _log_divisions_exchanged(problem: Problem, prior: Prior, state: State, b: int, b2: int) -> float:
    """The same of their divisions. It is 0 without an earlier census of blocks: a family then has one law."""
    steps, family, log = problem.steps, problem.tree.family[b], 0.0
    if prior.earlier.counts.shape[0] > 0:
        for source, other in ((b, b2), (b2, b)):
            for at in range(state.filled.shape[1]):
                word = state.filled[source, at]
                while word != 0:
                    group = at * WORD + lowest(word)
                    word &= word - np.uint64(1)
                    parent = steps.parent[group]
                    if parent >= 0:
                        n = state.people[source, group]
                        a, share = prior.concentration[parent], prior.mean[prior.row[source], group]
                        if steps.step[group] == steps.classed:
                            a, share = prior.block_concentration[source], prior.mean[family, group]
                        w = a * centre(share, prior.earlier, source, parent, group)
                        w2 = a * centre(share, prior.earlier, other, parent, group)
                        log += lgamma(n + w2) - lgamma(w2) - lgamma(n + w) + lgamma(w)
    return log


@hot
def _exchange(problem: Problem, prior: Prior, state: State, b: int, b2: int) -> None:
    """Let two blocks of one family exchange all their persons, and their classes."""
    of_block, row, concentration = prior.block_class, prior.row, prior.block_concentration
    of_block[b], of_block[b2] = of_block[b2], of_block[b]
    row[b], row[b2] = row[b2], row[b]
    concentration[b], concentration[b2] = concentration[b2], concentration[b]
    answers, limits, people = problem.answers, problem.limits, state.people
    tract, tract2 = problem.tree.tract[b], problem.tree.tract[b2]
    if tract != tract2:
        more = int(people[b2, 0] > 0) - int(people[b, 0] > 0)
        state.occupied[tract] += more
        state.vacant[tract] -= more
        state.occupied[tract2] -= more
        state.vacant[tract2] += more
    for column in range(people.shape[1]):
        people[b, column], people[b2, column] = people[b2, column], people[b, column]
    for at in range(state.filled.shape[1]):
        state.filled[b, at], state.filled[b2, at] = state.filled[b2, at], state.filled[b, at]
    row, row2 = answers.row_begin[0] + b * answers.width[0], answers.row_begin[0] + b2 * answers.width[0]
    for i in range(answers.width[0]):
        r, r2 = state.residual[row + i], state.residual[row2 + i]
        more = answers.measured[row2 + i] - answers.measured[row + i]
        state.residual[row + i], state.residual[row2 + i] = r2 + more, r - more
    for t in range(limits.geolevel.size):
        if limits.geolevel[t] == 0:
            at, at2 = limits.begin[t] + b * limits.size[t], limits.begin[t] + b2 * limits.size[t]
            for i in range(limits.size[t]):
                n, n2 = state.limited[at + i], state.limited[at2 + i]
                state.limited[at + i], state.limited[at2 + i] = n2, n


@njit(nogil=True, cache=True)
def exchange_blocks(rng: Any, problem: Problem, prior: Prior, state: State) -> None:
    """Pair the blocks of each family, and let the two of a pair exchange all their persons as often as the measurements
    and the public numbers of the two say (Metropolis).

    They exchange their classes too: the prior then says the same of both, but for their sizes if they have other
    covariates, and for their divisions if they have counts of an earlier census. A block that has a few persons and an
    empty one change places at once, which takes single shifts many sweeps.

    Args:
        rng: Generator.
        problem, prior, state: The law and the state.
    """
    problem, prior, state = _views(problem, prior, state)
    tree, people = problem.tree, state.people
    begin = tree.begin[tree.level_begin[1] : tree.level_begin[2]]
    for u in range(begin.size - 1):
        first, n = begin[u], begin[u + 1] - begin[u]
        turn = int(rng.random() * n)
        for i in range(n):
            j = (turn - i) % n
            b, b2 = first + i, first + j
            if i >= j or people[b, 0] + people[b2, 0] == 0:
                continue
            # Blocks with open totals have a family of their own.
            if tree.family[b] != tree.family[b2]:
                continue
            log = _log_exchange(problem, state, b, b2)
            log += _log_sizes_exchanged(problem, prior, state, b, b2)
            log += _log_divisions_exchanged(problem, prior, state, b, b2)
            if log >= 0.0 or rng.random() < np.exp(log):
                _exchange(problem, prior, state, b, b2)


@hot
def _turn(rng: Any, turns: Turns, geounit: int) -> int:
    """One of the sums of two levels with which somebody in a geounit could move; -1 if there is none."""
    first = turns.begin[turns.kind[geounit]]
    n = turns.begin[turns.kind[geounit] + 1] - first
    if n == 0:
        return -1
    return int(turns.turn[first + int(rng.random() * n) if n > 1 else first])


@hot
def _reflected(c: int, stride: int, size: int, turn: int) -> int:
    """The cell that is paired with cell c: the level of one attribute is reflected."""
    level = c // stride % size
    return c + ((turn - level) % size - level) * stride


@hot
def lowest(word: Any) -> int:
    """Number of the lowest bit of a word that is not 0."""
    bit = word & (~word + np.uint64(1))
    return int(NUMBER_OF_BIT[(bit * DE_BRUIJN) >> np.uint64(58)])


@hot
def _choose(state: State, column: int) -> None:
    state.chosen[column // WORD] |= np.uint64(1) << np.uint64(column % WORD)


@njit(nogil=True, cache=True)
def shift_between_blocks(
    rng: Any,
    problem: Problem,
    prior: Prior,
    state: State,
    geolevel: int,
    moved: Moved,
    turns: Turns,
) -> None:
    """Pair the blocks of each geounit of a geolevel, and shift persons between the two of a pair.

    Args:
        rng: Generator.
        problem, prior, state: The law and the state.
        geolevel: Row of `Tree.ancestor`.
        moved: The cells.
        turns: Of this geolevel: a person changes the level of the attribute and the block at once.
    """
    problem, prior, state = _views(problem, prior, state)
    tree, steps = problem.tree, problem.steps
    parent = tree.ancestor[1]
    stride, size = turns.stride, turns.size
    begin = tree.begin[tree.level_begin[geolevel] : tree.level_begin[geolevel + 1]]
    first_cell = steps.group[steps.group.shape[0] - 1, 0]
    for u in range(begin.size - 1):
        first, n = begin[u], begin[u + 1] - begin[u]
        turn, turn_of_level = int(rng.random() * n), _turn(rng, turns, u)
        if turn_of_level < 0:
            continue
        for i in range(n):
            j = (turn - i) % n
            if i >= j or (state.people[first + i, 0] == 0 and state.people[first + j, 0] == 0):
                continue
            b, b2 = first + i, first + j
            is_sparse = moved.is_sparse[parent[b]] or moved.is_sparse[parent[b2]]
            cells = moved.of_sparse if is_sparse else moved.cells
            if size > 1:
                set_to(state.chosen, state.filled[b])
            for at in range(first_cell // WORD, cells.size if size > 1 else 0):
                word = state.filled[b2, at]
                while word != 0:
                    c2 = at * WORD + lowest(word) - first_cell
                    word &= word - np.uint64(1)
                    if c2 >= 0:
                        _choose(state, first_cell + _reflected(c2, stride, size, turn_of_level))
            for at in range(first_cell // WORD, cells.size):
                word = state.chosen[at] if size > 1 else state.filled[b, at] | state.filled[b2, at]
                word &= cells[at]
                if word != 0:
                    _find_rows(problem, state.row, b, b2)
                while word != 0:
                    c = at * WORD + lowest(word) - first_cell
                    word &= word - np.uint64(1)
                    c2 = _reflected(c, stride, size, turn_of_level)
                    if size == 1 or c2 != c:
                        _shift(rng, problem, prior, state, Places(b, c, b2, c2))


@njit(nogil=True, cache=True)
def shift_between_cells(rng: Any, problem: Problem, prior: Prior, state: State, turns: Turns) -> None:
    """In each block, pair the cells that differ in one attribute, and shift persons between the two of a pair.

    Args:
        rng: Generator.
        problem, prior, state: The law and the state.
        turns: Of the blocks.
    """
    problem, prior, state = _views(problem, prior, state)
    steps = problem.steps
    first_cell = steps.group[steps.group.shape[0] - 1, 0]
    stride, size = turns.stride, turns.size
    for b in range(state.people.shape[0]):
        turn = _turn(rng, turns, b) if state.people[b, 0] > 0 else -1
        if turn < 0:
            continue
        _find_rows(problem, state.row, b, b)
        state.chosen[:] = 0
        for at in range(first_cell // WORD, state.chosen.size):
            word = state.filled[b, at]
            while word != 0:
                c = at * WORD + lowest(word) - first_cell
                word &= word - np.uint64(1)
                if c >= 0:
                    _choose(state, first_cell + min(c, _reflected(c, stride, size, turn)))
        for at in range(first_cell // WORD, state.chosen.size):
            word = state.chosen[at]
            while word != 0:
                c = at * WORD + lowest(word) - first_cell
                word &= word - np.uint64(1)
                c2 = _reflected(c, stride, size, turn)
                if c2 != c:
                    _shift(rng, problem, prior, state, Places(b, c, b, c2))


@njit(nogil=True, cache=True)
def add_or_remove(rng: Any, problem: Problem, prior: Prior, state: State) -> None:
    """In each block, add or remove persons of one cell drawn at random. Where people are counted exactly, nothing
    happens.
    """
    problem, prior, state = _views(problem, prior, state)
    for b in range(state.people.shape[0]):
        c = int(rng.random() * problem.steps.group.shape[1])
        shift(rng, problem, prior, state, Places(b, c, NOWHERE, c))
