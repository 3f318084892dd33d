"""The model of how blocks resemble each other, and the updates of its parameters.

*Sizes.* Unless public limits decide it, a block is empty with a probability that all blocks of its tract share; these
probabilities are beta variables around that of the whole area, and are integrated out. Otherwise its size has a
negative binomial law without 0. The mean of this law (before 0 is left out) is the same in all blocks of a family,
which are those of one geounit of the geolevel above. The logarithms of the means are normal, and all families share the
shape. With covariates, both the means and the probabilities of being empty also depend on these (`covariates`).

*Composition.* The persons of a block are divided in steps, one attribute after the other, down to the cells. Each
division is Dirichlet-multinomial. Its shares are those of the family, which are Dirichlet around those of the geounit
above, and so on up to the whole area. At each of these geolevels the Dirichlet law has a weight of `BASE` for every
group besides. For the attribute with the most levels, each block has a concentration of its own, one of four values
called classes. At 1/2 nearly all people of a block have one level; at 256 the block is divided like its family. How
frequent each class is depends on the size of the block. The divisions of other steps have one concentration for each
group that is divided.

*Facilities.* A fifth class has the concentration 4. In the steps other than that of the attribute with the most levels,
its blocks are not divided around the shares of their family, but around shares that all blocks of this class have in
the whole area. So a prison or a dormitory, in which all people are adults, need not resemble the blocks around it.

*Open totals.* Where public bounds limit the total of some blocks and not of all, the blocks without a limit are
separated from the others: they have separate families, tracts and so on, up to a separate whole area. Both have only
the `Common` parameters together.

*An earlier census.* With public counts of an earlier census, the expected shares of the geounits of one geolevel, or of
the divisions of blocks, also depend on the shares that each had then (`earlier`).

All of this is learned from the noisy measurements alone. Every parameter has a proper law, so that the joint law of
parameters, counts and measurements exists and the sampler can be tested against it (Geweke). Parameters of single areas
are drawn in all sweeps. `Common` ones, which all areas share, are drawn while they are learned, and may then be held.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.random import Generator

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.estimation.posterior.earlier import EarlierShapes
from tallyveil.estimation.posterior.problem import PosteriorProblem
from tallyveil.kernels.posterior.moves import Earlier, Prior, State
from tallyveil.kernels.posterior.updates import (
    Entries,
    Groups,
    SizeSums,
    class_likelihoods,
    draw_classes,
    draw_shares,
    entries_of,
    entries_of_blocks,
    log_divisions,
    log_earlier,
    tables_of,
    walk_class_shares,
    walk_size_effects,
    walk_size_means,
    walk_size_shape,
)

CLASSES: Final = np.array([0.5, 4, 32, 256, 4])
"""Concentrations of the classes, a factor of 8 apart, and that of facilities. With a factor of 4, a block hardly tells
two neighbouring classes apart, and their shares wander without end."""

FACILITY: Final = len(CLASSES) - 1
"""Number of the class of facilities."""

ALIKE: Final = CLASSES.tolist().index(CLASSES[FACILITY])
"""Number of the class that has the concentration of facilities."""

SIZE_BEGINS: Final = np.array([0, 20, 100])
"""Sizes from which a size class begins. Small blocks are of one group more often than large ones; blocks of fewer than
20 persons say too little about their concentration to be told apart from each other."""

CONCENTRATION: Final = (1.0, 50.0)
"""Shape and scale of the Gamma law of every other concentration, in persons: anything between 2 and 200 is likely."""

DISCOUNT: Final = (np.log(10.0), 3.0)
"""Mean and standard deviation of the normal law of the logarithm of a discount of an earlier census, in persons.
Within two standard deviations it is from a fortieth of a person, where the census decides, to 4,000, which are many
more than a block has. Renewals have the uniform law from 0 to 1."""

WALKS: Final = (1.5, 0.5, 0.15, 0.05)
"""Widths of random walks of the logarithms of concentrations: from those of groups of few persons to those of many."""

CLASS_WALKS: Final = np.array([1.0, 0.2])
"""Widths of random walks of logarithms of ratios of two class shares: for size classes of few blocks and of many."""

TURNS: Final = 4
"""Turns of the updates of the laws of sizes and of emptiness in a sweep. Their parameters hold each other back, and a
turn costs a hundredth of a sweep."""

BASE: Final = 0.5
"""Weight of each group in the Dirichlet law of shares, as of Jeffreys' prior: for the whole area all of it, below it
besides the shares of the geounit above. Without it, the share of a rare group in most areas would be below 1e-10, from
where a chain returns once in a hundred sweeps."""

SHARPENED: Final = 3
"""A chain begins with shares of facilities that are in proportion to this power of the shares of the whole area. With
the power 1, a few blocks that differ from the others by chance would decide what the class becomes, and chains could
disagree about it."""

LEAST: Final = 1e-9
"""Probabilities are kept this far from 0 and 1, so that their ratio is finite. A country has fewer blocks than 1e9."""

SIZE_CENTRE: Final = (np.log(40.0), 2.0)
"""Mean and standard deviation of the normal law of `centre`: block sizes between 1 and 2,000 persons on average."""

SIZE_EFFECT: Final = 2.0
"""Standard deviation of the normal law of an effect of a covariate. Where numbers are in proportion to sizes, the
effect is the standard deviation of their logarithms, which is 1 to 2 for housing units of blocks."""

SIZE_SPREAD: Final = (3.0, 1.0)
"""Shape and scale of the inverse Gamma law of `spread` squared: means of families mostly within a factor of 3 of each
other."""


@dataclass(frozen=True, slots=True, eq=False)
class Common:
    """Parameters that all areas share.

    Attributes:
        near: Concentration of the divisions of each step's groups around the shares of the geounit above, for each
            geolevel but the root, finest first; shape (steps,).
        concentration: Concentration of the division of each group; shape (columns,).
        discount: Persons with the shares of the geounit above that are added to those of an earlier census, for each
            step of an attribute that it has; shape (named steps,), as in `EarlierShapes.named_steps`.
        renewal: Weight of the shares of the geounit above, from 0 to 1; the rest is that of the earlier shares with
            the discount; shape (named steps,).
        log_class_share: Logarithm of the share of each class of concentration; shape (size classes, classes).
        facility: Share of each group in its parent in the class of facilities; not used for the groups of the classed
            step; shape (columns,).
        size_shape: Shape of the negative binomial laws of sizes.
        size_centre: Mean of the logarithms of their means.
        size_spread: Standard deviation of these.
        size_effects: Effects of covariates on the logarithm of a block's mean; shape (effects,).
        empty_mean: Mean of the tracts' probabilities that a block is empty, of each kind of blocks; shape (kinds,).
        empty_near: How closely they follow it.
    """

    near: tuple[Floats, ...]
    concentration: Floats
    discount: Floats
    renewal: Floats
    log_class_share: Floats
    facility: Floats
    size_shape: float
    size_centre: float
    size_spread: float
    size_effects: Floats
    empty_mean: Floats
    empty_near: float


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Parameters of the prior at one moment of a chain.

    Attributes:
        common: Those that all areas share.
        shares: For each geolevel above the blocks, finest first, the share of each group in its parent; shape
            (geounits, columns).
        block_class: Class of concentration of each block.
        size_mean: Mean of each family's negative binomial law of sizes, before 0 is left out of it. The mean size of
            its occupied blocks is larger.
    """

    common: Common
    shares: tuple[Floats, ...]
    block_class: Integers
    size_mean: Floats


SIZE_CLASS: Final = np.searchsorted(SIZE_BEGINS, np.arange(SIZE_BEGINS[-1] + 1), side="right") - 1


def added_weights(problem: PosteriorProblem) -> Floats:
    """Weight of each group in the Dirichlet law of shares besides those of the geounit above; shape (columns,)."""
    return np.where(problem.possible, BASE, 0.0)


def first_parameters(problem: PosteriorProblem, state: State) -> Parameters:
    """Parameters from which a chain begins: everywhere the shares of the whole area."""
    parent = problem.kernel.steps.parent
    total = state.people.sum(axis=0, dtype=np.float64) + added_weights(problem)
    whole = np.bincount(parent[1:], total[1:], minlength=len(parent))
    share = np.concatenate([[1.0], total[1:] / np.maximum(whole[parent[1:]], BASE)])
    n_geounits = problem.n_geounits
    n_steps = len(problem.kernel.steps.group)
    occupied = max(1, int((state.people[:, 0] > 0).sum()))
    size = max(1.0, float(state.people[:, 0].sum()) / occupied)
    empty = float(np.clip(1.0 - occupied / max(1, int(problem.is_free.sum())), 0.01, 0.99))
    return Parameters(
        common=Common(
            near=tuple(np.full(n_steps, 20.0) for _ in problem.above),
            concentration=np.full(len(parent), 20.0),
            discount=np.full(len(problem.earlier.named_steps), 10.0),
            # Nearly as without an earlier census: a wrong one would otherwise decide which blocks become facilities.
            renewal=np.full(len(problem.earlier.named_steps), 0.99),
            log_class_share=np.full((len(SIZE_BEGINS), len(CLASSES)), -np.log(len(CLASSES))),
            facility=_sharpened(problem, share),
            size_shape=1.0,
            size_centre=float(np.log(size)),
            size_spread=1.0,
            size_effects=np.zeros(problem.sizes.design.shape[1]),
            empty_mean=np.full(int(problem.sizes.kind.max()) + 1, empty),
            empty_near=4.0,
        ),
        shares=tuple(np.tile(np.maximum(share, LEAST), (n, 1)) for n in n_geounits),
        block_class=np.full(problem.n_blocks, len(CLASSES) // 2),
        size_mean=np.full(n_geounits[0], size),
    )


def with_classes(problem: PosteriorProblem, prior: Prior, block_class: Integers) -> Prior:
    """The parameters of the compiled moves with other classes of blocks, which moves may change."""
    return prior._replace(
        row=_row(problem, block_class), block_concentration=CLASSES[block_class], block_class=block_class
    )


def kernel_prior(problem: PosteriorProblem, parameters: Parameters) -> Prior:
    """The parameters as the compiled moves take them."""
    common, shape = parameters.common, parameters.common.size_shape
    mean = parameters.size_mean[problem.sizes.family] * np.exp(problem.sizes.design @ common.size_effects)
    empty = common.empty_mean[problem.sizes.kind]
    rise = mean / (mean + shape)
    stop = shape * np.log1p(-rise)
    return Prior(
        _rows(parameters.shares[0], common.facility),
        _row(problem, parameters.block_class),
        common.concentration,
        CLASSES[parameters.block_class],
        rise,
        # f(1) of the negative binomial law without 0
        np.exp(np.log(shape) + stop + np.log(rise) - np.log(-np.expm1(stop))),
        shape,
        common.empty_near * empty,
        common.empty_near * (1.0 - empty),
        SIZE_CLASS,
        common.log_class_share,
        parameters.block_class,
        problem.earlier.at(0, common.discount, common.renewal),
    )


def _sharpened(problem: PosteriorProblem, share: Floats) -> Floats:
    """The first shares of facilities, in which the largest part of each group has nearly all of it."""
    parent = problem.kernel.steps.parent
    weight = np.maximum(share, LEAST) ** SHARPENED
    whole = np.bincount(parent[1:], weight[1:], minlength=len(parent))
    return np.concatenate([[1.0], np.maximum(weight[1:] / whole[parent[1:]], LEAST)])


def _rows(shares: Floats, facility: Floats) -> Floats:
    """Shares of all families, and of facilities."""
    return np.concatenate([shares, facility[None, :]])


def _row(problem: PosteriorProblem, block_class: Integers) -> Int32s:
    """The row of `_rows` around which each block is divided in all steps but the classed one."""
    return np.where(block_class == FACILITY, problem.n_geounits[0], problem.kernel.tree.family).astype(
        np.int32
    )


def updated(
    rng: Generator, problem: PosteriorProblem, state: State, parameters: Parameters, *, is_held: bool = False
) -> Parameters:
    """Update every parameter given the counts and the others: by a draw from its law where this is a standard one,
    else by steps of a random walk (Metropolis). Each update leaves the posterior as it is.

    Args:
        rng: Generator.
        problem: What is measured.
        state: The counts.
        parameters: The parameters before.
        is_held: Whether the common parameters stay as they are.
    """
    common = parameters.common
    people = entries_of_blocks(state.people, state.filled)
    # Classes first: with no block in the class of facilities, its shares would be drawn without regard to `_sharpened`.
    rows = _rows(parameters.shares[0], common.facility)
    likely = _class_likelihoods(problem, people, rows, common)
    log_class_share, block_class = _classes(rng, state.people[:, 0], likely, common.log_class_share, is_held)
    parameters = replace(parameters, block_class=block_class)
    shares, near, concentration, facility, discount, renewal = _compositions(
        rng, problem, people, rows, parameters, is_held
    )
    mean, of_sizes = _sizes(rng, problem, state, parameters, is_held)
    if not is_held:
        empty_mean, empty_near = _emptiness(rng, problem, state, common)
        common = Common(
            near,
            concentration,
            discount,
            renewal,
            log_class_share,
            facility,
            *of_sizes,
            empty_mean,
            empty_near,
        )
    return Parameters(common, shares, block_class, mean)


def reclassed(rng: Generator, problem: PosteriorProblem, state: State, parameters: Parameters) -> Parameters:
    """Draw the class of every block again, given the counts and all other parameters."""
    common = parameters.common
    people = entries_of_blocks(state.people, state.filled)
    likely = _class_likelihoods(problem, people, _rows(parameters.shares[0], common.facility), common)
    _, block_class = _classes(rng, state.people[:, 0], likely, common.log_class_share, True)
    return replace(parameters, block_class=block_class)


def _odds(probability: Floats) -> Floats:
    return np.asarray(probability / (1.0 - probability))


def _probability(odds: Floats) -> Floats:
    return np.asarray(np.clip(odds / (1.0 + odds), LEAST, 1.0 - LEAST))


def averaged(drawn: Sequence[Common]) -> Common:
    """The mean of some draws of the common parameters: of logarithms, but for shares, `size_centre` and effects."""

    def mean(logs: Callable[[Common], Floats]) -> Floats:
        return np.asarray(np.mean([logs(common) for common in drawn], axis=0))

    single = mean(
        lambda common: np.array(
            [
                np.log(common.size_shape),
                common.size_centre,
                np.log(common.size_spread),
                np.log(common.empty_near),
            ]
        )
    )
    shape, centre, spread, empty_near = single.tolist()
    odds = mean(lambda common: np.log(_odds(common.empty_mean)))
    return Common(
        near=tuple(
            np.exp(np.mean([np.log(near) for near in nears], axis=0))
            for nears in zip(*(common.near for common in drawn), strict=True)
        ),
        concentration=np.exp(mean(lambda common: np.log(common.concentration))),
        discount=np.exp(mean(lambda common: np.log(common.discount))),
        renewal=_probability(np.exp(mean(lambda common: np.log(_odds(common.renewal))))),
        log_class_share=np.log(mean(lambda common: np.exp(common.log_class_share))),
        facility=mean(lambda common: common.facility),
        size_shape=float(np.exp(shape)),
        size_centre=centre,
        size_spread=float(np.exp(spread)),
        size_effects=mean(lambda common: common.size_effects),
        empty_mean=1.0 / (1.0 + np.exp(-odds)),
        empty_near=float(np.exp(empty_near)),
    )


def _class_likelihoods(problem: PosteriorProblem, people: Entries, mean: Floats, common: Common) -> Floats:
    """Probability of each block's persons under each class, up to a factor of the block."""
    classed = problem.kernel.steps.classed
    first, parts, end = np.searchsorted(problem.step, [classed - 1, classed, classed + 1]).tolist()
    return class_likelihoods(
        people,
        problem.kernel.tree.family,
        (first, parts, end),
        (_of_blocks(problem, common.discount, common.renewal), _parents(problem, is_classed=False)),
        mean,
        (CLASSES[:FACILITY], ALIKE),
        common.concentration,
    )


def _of_blocks(problem: PosteriorProblem, *trust: Floats) -> Groups:
    """How the groups of blocks are divided."""
    parent = problem.kernel.steps.parent
    return Groups(parent, np.zeros(len(parent)), problem.earlier.at(0, *trust))


def _parents(problem: PosteriorProblem, *, is_classed: bool) -> Int32s:
    """The group that each group is part of, of the classed step or of all others; -1 for the rest."""
    of_step = (problem.step == problem.kernel.steps.classed) == is_classed
    return np.where(of_step, problem.kernel.steps.parent, -1).astype(np.int32)


def _classes(
    rng: Generator, size: Int32s, likely: Floats, log_class_share: Floats, is_held: bool
) -> tuple[Floats, Integers]:
    """Logarithms of the shares of the classes of concentration, and the class of every block."""
    size_class = SIZE_CLASS[np.minimum(size, len(SIZE_CLASS) - 1)]
    class_shares = np.exp(log_class_share)
    if not is_held:
        # Blocks of nobody say nothing about the shares.
        telling = size > 0
        # The classes are summed out: given the classes, shares of neighbouring ones would hardly move.
        for number, of_size in enumerate(class_shares):
            walk_class_shares(rng, likely[telling & (size_class == number)], of_size, CLASS_WALKS)
    return np.log(class_shares), draw_classes(rng, likely, size_class, class_shares)


def _gamma(begin: Floats, end: Floats) -> Floats:
    """Logarithm of how much likelier a concentration is after a step by the Gamma law, with the step's logarithm as the
    variable."""
    shape, scale = CONCENTRATION
    return np.asarray(shape * np.log(end / begin) - (end - begin) / scale)


def _normal(begin: Floats, end: Floats) -> Floats:
    """The same of a discount."""
    centre, spread = DISCOUNT
    return np.asarray(((np.log(begin) - centre) ** 2 - (np.log(end) - centre) ** 2) / (2.0 * spread**2))


def _uniform(begin: Floats, end: Floats) -> Floats:
    """The same of the odds of a renewal."""
    return np.asarray(np.log(end / begin) - 2.0 * np.log((1.0 + end) / (1.0 + begin)))


def _walked(
    rng: Generator,
    likelier: Callable[[Floats, Floats], Floats],
    old: Floats,
    tied: Integers,
    law: Callable[[Floats, Floats], Floats] = _gamma,
) -> Floats:
    """Concentrations of divisions, or discounts, after a few random walks.

    Args:
        rng: Generator.
        likelier: For each group, the logarithm of how much likelier its divisions are with new values than with old.
        old: The values; shape (columns,).
        tied: Number of the value of each column; -1 for one that does not move. Columns of one number move together.
        law: Logarithm of how much likelier their law finds new values than old.
    """
    moves = tied >= 0
    number, first = tied[moves], np.unique(tied[moves], return_index=True)[1]
    for width in WALKS:
        steps = width * rng.standard_normal(int(tied.max()) + 1)
        new = np.where(moves, old * np.exp(steps[tied]), old)
        log = np.bincount(number, likelier(old, new)[moves], len(first)) + law(
            old[moves][first], new[moves][first]
        )
        taken = np.log1p(-rng.random(len(log))) < log
        old = np.where(moves & taken[tied], new, old)
    return old


def _trust(
    rng: Generator,
    shapes: EarlierShapes,
    discount: Floats,
    renewal: Floats,
    divisions: Sequence[Callable[[tuple[Earlier, Earlier]], Floats]],
) -> tuple[Floats, Floats]:
    """Discounts and renewals of an earlier census after a few random walks.

    Args:
        rng: Generator.
        shapes: The earlier census.
        discount, renewal: The values before.
        divisions: `log_earlier` of some divisions; all of them together decide.
    """

    def likelier(earlier: Callable[[Floats], Earlier]) -> Callable[[Floats, Floats], Floats]:
        return lambda old, new: np.asarray(
            np.sum([log((earlier(old), earlier(new))) for log in divisions], axis=0)
        )

    before = shapes.at(shapes.row, discount, renewal)
    of_discounts = likelier(lambda discounts: before._replace(discount=discounts))
    discounts = _walked(rng, of_discounts, before.discount, shapes.tied, _normal)
    after = before._replace(discount=discounts)
    of_renewals = likelier(lambda odds: after._replace(renewal=_probability(odds)))
    odds = shapes.at(shapes.row, discount, _odds(renewal)).renewal
    odds = _walked(rng, of_renewals, odds, shapes.tied, _uniform)
    first = np.searchsorted(shapes.step, shapes.named_steps)
    return discounts[first], _probability(odds[first])


def _compositions(
    rng: Generator,
    problem: PosteriorProblem,
    people: Entries,
    mean: Floats,
    parameters: Parameters,
    is_held: bool,
) -> tuple[tuple[Floats, ...], tuple[Floats, ...], Floats, Floats, Floats, Floats]:
    """Shares at every geolevel; then concentrations of areas and of blocks, shares of facilities, and discounts and
    renewals of an earlier census; `mean` has the shares before, by `_rows`.
    """
    family, parent, shapes = problem.kernel.tree.family, problem.kernel.steps.parent, problem.earlier
    divided, has_class = problem.divided, problem.has_class
    common, added = parameters.common, added_weights(problem)
    trust, has_trust = (common.discount, common.renewal), len(common.discount) > 0 and not is_held
    row, block_class = _row(problem, parameters.block_class), parameters.block_class
    alone = divided & ~has_class
    own = np.where(alone, np.cumsum(alone) - 1, -1)
    concentration = common.concentration
    if own.max() >= 0 and not is_held:
        likelier = partial(log_divisions, people, row, _of_blocks(problem, *trust), mean)
        concentration = _walked(rng, likelier, concentration, own)
    of_class = np.where(has_class, CLASSES[:, None], concentration)
    # The divisions of the classed step are around the shares of the family also in facilities.
    steps = ((family, _parents(problem, is_classed=True)), (row, _parents(problem, is_classed=False)))
    if has_trust and shapes.row == 0:
        of_blocks = _of_blocks(problem, *trust)
        divisions = [
            partial(log_earlier, people, above, of_blocks._replace(parent=here), mean, of_class, block_class)
            for above, here in steps
        ]
        trust = _trust(rng, shapes, *trust, divisions)
    of_blocks = _of_blocks(problem, *trust)
    tables = np.zeros(mean.shape, np.int64)
    for above, here in steps:
        tables += tables_of(rng, people, above, of_blocks._replace(parent=here), mean, of_class, block_class)
    levels = [tables[:-1]]
    facility = common.facility if is_held else draw_shares(rng, (added + tables[-1])[None, :], parent)[0]
    near = []
    everywhere = np.where(divided, problem.step, -1)
    for place, (above, shares, old) in enumerate(
        zip(problem.above, parameters.shares[1:], common.near, strict=True), start=1
    ):
        walked = old[problem.step]
        entries, same = entries_of(levels[-1]), np.zeros(len(above), np.int64)
        groups = Groups(parent, added, shapes.at(place, *trust))
        if not is_held:
            walked = _walked(rng, partial(log_divisions, entries, above, groups, shares), walked, everywhere)
        if has_trust and shapes.row == place:
            divisions = [partial(log_earlier, entries, above, groups, shares, walked[None, :], same)]
            trust = _trust(rng, shapes, *trust, divisions)
            groups = groups._replace(earlier=shapes.at(place, *trust))
        near.append(np.array([walked[problem.step == step][0] for step in range(len(old))]))
        levels.append(tables_of(rng, entries, above, groups, shares, walked[None, :], same))
    drawn = [draw_shares(rng, added + levels[-1], parent)]
    for place in range(len(near), 0, -1):
        around = _centres(problem, shapes.at(place, *trust), drawn[-1][problem.above[place - 1]])
        weight = near[place - 1][np.maximum(problem.step - 1, 0)]
        drawn.append(draw_shares(rng, weight * around + added + levels[place - 1], parent))
    return tuple(reversed(drawn)), tuple(near), concentration, facility, *trust


def _centres(problem: PosteriorProblem, earlier: Earlier, shares: Floats) -> Floats:
    """What the shares of geounits are around (`kernels.posterior.moves.centre`), by those of the geounits above."""
    if not len(earlier.counts):
        return shares
    parent = np.maximum(problem.kernel.steps.parent, 0)
    n, discount, renewal = earlier.counts[:, parent], earlier.discount[parent], earlier.renewal[parent]
    return np.asarray(((discount + renewal * n) * shares + (1.0 - renewal) * earlier.counts) / (discount + n))


def _sizes(
    rng: Generator, problem: PosteriorProblem, state: State, parameters: Parameters, is_held: bool
) -> tuple[Floats, tuple[float, float, float, Floats]]:
    """Means of the families' laws of sizes; then shape, centre and spread of the means, and effects of covariates."""
    common, tree, laws = parameters.common, problem.kernel.tree, problem.sizes
    mean, shape = parameters.size_mean.copy(), common.size_shape
    centre, spread, effects = common.size_centre, common.size_spread, common.size_effects.copy()
    sizes = state.people[:, 0].astype(np.int64)
    occupied = np.bincount(tree.law[sizes > 0], minlength=len(laws.design))
    of_laws = SizeSums(laws.begin, np.bincount(tree.law, sizes, len(laws.design)).astype(np.int64), occupied)
    distinct, n_blocks = np.unique(sizes[sizes > 0], return_counts=True)
    (prior_centre, prior_sd), (prior_shape, prior_scale) = SIZE_CENTRE, SIZE_SPREAD
    for _ in range(1 if is_held else TURNS):
        factor = np.exp(laws.design @ effects)
        walk_size_means(rng, of_laws, factor, mean, shape, (centre, spread))
        if is_held:
            continue
        of_law = mean[laws.family] * factor
        shape = walk_size_shape(rng, of_laws, distinct, n_blocks, of_law, shape)
        walk_size_effects(rng, of_laws, laws.design, of_law, shape, effects, SIZE_EFFECT)
        logs = np.log(mean)
        precision = len(logs) / spread**2 + 1.0 / prior_sd**2
        expected = (logs.sum() / spread**2 + prior_centre / prior_sd**2) / precision
        centre = float(rng.normal(expected, precision**-0.5))
        square = prior_scale + 0.5 * ((logs - centre) ** 2).sum()
        spread = float(np.sqrt(square / rng.standard_gamma(prior_shape + len(logs) / 2.0)))
    return mean, (float(shape), centre, spread, effects)


def _emptiness(
    rng: Generator, problem: PosteriorProblem, state: State, common: Common
) -> tuple[Floats, float]:
    """Means of the tracts' probabilities of empty blocks, and how closely they follow it."""
    none, some, kind = state.vacant.astype(np.int64), state.occupied.astype(np.int64), problem.sizes.kind
    # Empty and occupied blocks are a division like that of persons, in two groups.
    entries = entries_of(np.stack([none + some, none, some], axis=1))
    parent = np.array([-1, 0, 0], np.int32)
    nothing = Earlier(np.zeros((0, 3), np.int32), np.zeros(3), np.zeros(3))
    groups, same = Groups(parent, np.zeros(3), nothing), np.zeros(len(none), np.int64)
    tied = np.array([0, -1, -1])
    expected, near = common.empty_mean, np.full(3, common.empty_near)
    for _ in range(TURNS):
        mean = np.stack([np.ones_like(expected), expected, 1.0 - expected], axis=1)
        near = _walked(rng, partial(log_divisions, entries, kind, groups, mean), near, tied)
        tables = tables_of(rng, entries, kind, groups, mean, near[None, :], same)
        expected = np.clip(rng.beta(1.0 + tables[:, 1], 1.0 + tables[:, 2]), LEAST, 1.0 - LEAST)
    return expected, float(near[0])
