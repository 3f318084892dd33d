"""The law of a posterior sampler, written out: every table enumerated, the prior by its formulas, and draws from the
prior."""

from math import exp, lgamma, log
from typing import Any

import numpy as np

from tallyveil.estimation.posterior.prior import (
    CLASSES,
    CONCENTRATION,
    DISCOUNT,
    FACILITY,
    SIZE_CENTRE,
    SIZE_CLASS,
    SIZE_EFFECT,
    SIZE_SPREAD,
    Common,
    Parameters,
    added_weights,
)
from tallyveil.estimation.posterior.problem import PosteriorProblem


def tables(total: int, places: int) -> Any:
    """All ways to put `total` persons into places, as rows."""
    if places == 1:
        yield (total,)
        return
    for n in range(total + 1):
        for rest in tables(total - n, places - 1):
            yield (n, *rest)


def log_division(counts: Any, weights: Any) -> float:
    """Logarithm of the Dirichlet-multinomial probability of counts."""
    n, a = sum(counts), sum(weights)
    log_p = lgamma(n + 1) + lgamma(a) - lgamma(n + a)
    return log_p + sum(
        lgamma(x + w) - lgamma(w) - lgamma(x + 1) for x, w in zip(counts, weights, strict=True) if x > 0
    )


def log_size(n: int, mean: float, shape: float) -> float:
    """Logarithm of the probability of an occupied block's size."""
    stop = shape / (mean + shape)
    log_p = lgamma(n + shape) - lgamma(shape) - lgamma(n + 1) + shape * log(stop) + n * log(1 - stop)
    return log_p - log(1 - stop**shape)


def log_empty(problem: PosteriorProblem, common: Common, sizes: Any) -> float:
    """Logarithm of the probability of which blocks are empty; the tracts' probabilities have beta laws."""
    tract = problem.kernel.tree.tract
    log_p = 0.0
    for t in np.unique(tract):
        empty_mean = common.empty_mean[problem.sizes.kind[t]]
        none, some = common.empty_near * empty_mean, common.empty_near * (1 - empty_mean)
        free = sizes[(tract == t) & problem.is_free]
        empty, occupied = int((free == 0).sum()), int((free > 0).sum())
        log_p += lgamma(none + empty) - lgamma(none) + lgamma(some + occupied) - lgamma(some)
        log_p += lgamma(none + some) - lgamma(none + some + len(free))
    return log_p


def mean_size(problem: PosteriorProblem, parameters: Parameters, block: int) -> float:
    """Mean of the negative binomial law of a block's size, before 0 is left out."""
    tree, design = problem.kernel.tree, problem.sizes.design
    of_covariates = design[tree.law[block]] @ parameters.common.size_effects
    return float(parameters.size_mean[tree.family[block]] * exp(of_covariates))


def with_earlier(
    problem: PosteriorProblem, common: Common, row: int, geounit: int, g: int, shares: Any
) -> Any:
    """What the shares of the parts of group g of a geounit are around: those of the geounit above, and of the earlier
    census there.
    """
    earlier, step = problem.earlier, problem.step[g]
    if row != earlier.row or step not in earlier.named_steps:
        return shares
    number = list(earlier.named_steps).index(step)
    discount, renewal = common.discount[number], common.renewal[number]
    persons = earlier.counts[geounit][problem.kernel.steps.parent == g]
    return renewal * shares + (1 - renewal) * (discount * shares + persons) / (discount + persons.sum())


def shares_of(problem: PosteriorProblem, parameters: Parameters, block: int, of_block: int, g: int) -> Any:
    """The shares around which group g of a block is divided, if the block has this class."""
    classed = problem.step[g] == problem.kernel.steps.classed - 1
    family = problem.kernel.tree.family[block]
    shares = (
        parameters.common.facility if of_block == FACILITY and not classed else parameters.shares[0][family]
    )
    parts = shares[problem.kernel.steps.parent == g]
    return with_earlier(problem, parameters.common, 0, block, g, parts)


def log_block(problem: PosteriorProblem, parameters: Parameters, b: int, row: Any, of_block: int) -> float:
    """Logarithm of the probability of a block's class and of its counts, if it is empty or not as it is."""
    group, parent = problem.kernel.steps.group, problem.kernel.steps.parent
    common, n = parameters.common, int(row.sum())
    log_p = float(common.log_class_share[SIZE_CLASS[min(n, len(SIZE_CLASS) - 1)], of_block])
    if n > 0:
        log_p += log_size(n, mean_size(problem, parameters, b), common.size_shape)
    columns = np.zeros(len(parent), int)
    for step in group:
        np.add.at(columns, step, row)
    for g in range(len(parent)):
        children = np.flatnonzero(parent == g)
        if len(children):
            classed = problem.step[g] == problem.kernel.steps.classed - 1
            a = CLASSES[of_block] if classed else common.concentration[g]
            shares = shares_of(problem, parameters, b, of_block, g)
            log_p += log_division(columns[children].tolist(), (a * shares).tolist())
    return log_p


def log_prior(problem: PosteriorProblem, parameters: Parameters, counts: Any) -> float:
    """Logarithm of the probability of a table of counts and of the blocks' classes, given the other parameters."""
    log_p = log_empty(problem, parameters.common, np.asarray(counts).sum(axis=1))
    return log_p + sum(
        log_block(problem, parameters, b, row, parameters.block_class[b]) for b, row in enumerate(counts)
    )


def log_priors(problem: PosteriorProblem, parameters: Parameters, states: Any) -> Any:
    """Logarithm of the probability of each of some tables of counts, whatever the blocks' classes are."""
    of_block: dict[tuple[int, bytes], float] = {}
    for counts in states:
        for b, row in enumerate(counts):
            if (b, row.tobytes()) not in of_block:
                logs = [log_block(problem, parameters, b, row, k) for k in range(len(CLASSES))]
                of_block[b, row.tobytes()] = float(np.logaddexp.reduce(logs))
    return np.array(
        [
            log_empty(problem, parameters.common, counts.sum(axis=1))
            + sum(of_block[b, row.tobytes()] for b, row in enumerate(counts))
            for counts in states
        ]
    )


def log_likelihood(problem: PosteriorProblem, counts: Any) -> float:
    """Logarithm of the likelihood, up to a constant."""
    answers = problem.kernel.answers
    residual = problem.state(np.asarray(counts, np.int32)).residual
    log_p = 0.0
    for t in range(len(answers.size)):
        for i, r in enumerate(problem.of_table(residual, t).ravel()):
            at = answers.precision_begin[t] + answers.precision_step[t] * (i // answers.size[t])
            w = answers.precision[at]
            log_p -= w * r * r / 2 if answers.gaussian else w * abs(int(r))
    return log_p


def drawn_common(rng: np.random.Generator, problem: PosteriorProblem) -> Common:
    """Parameters that all areas share, drawn from their prior."""
    gamma_shape, gamma_scale = CONCENTRATION
    n_steps, n_rows = len(problem.kernel.steps.group), len(problem.kernel.tree.ancestor)
    parent, weights = problem.kernel.steps.parent, added_weights(problem)
    facility = np.ones(len(parent))
    for g in np.unique(parent[1:]):
        facility[parent == g] = rng.dirichlet(weights[parent == g])
    return Common(
        near=tuple(rng.gamma(gamma_shape, gamma_scale, n_steps) for _ in range(n_rows - 2)),
        concentration=rng.gamma(gamma_shape, gamma_scale, len(problem.step)),
        discount=np.exp(rng.normal(*DISCOUNT, len(problem.earlier.named_steps))),
        renewal=rng.random(len(problem.earlier.named_steps)),
        log_class_share=np.log(rng.dirichlet(np.full(len(CLASSES), 0.5), int(SIZE_CLASS.max()) + 1)),
        facility=facility,
        size_shape=float(np.exp(rng.normal(0, 1.5))),
        size_centre=rng.normal(*SIZE_CENTRE),
        size_spread=(SIZE_SPREAD[1] / rng.standard_gamma(SIZE_SPREAD[0])) ** 0.5,
        size_effects=rng.normal(0, SIZE_EFFECT, problem.sizes.design.shape[1]),
        empty_mean=rng.beta(1, 1, int(problem.sizes.kind.max()) + 1),
        empty_near=rng.gamma(gamma_shape, gamma_scale),
    )


def drawn_parameters(
    rng: np.random.Generator, problem: PosteriorProblem, held: Common | None = None
) -> Parameters:
    """Parameters drawn from their prior; those of areas given the common ones if these are held."""
    common = held or drawn_common(rng, problem)
    parent, step = problem.kernel.steps.parent, problem.step
    added, divided = added_weights(problem), np.unique(parent[1:])

    def divide(weights: Any) -> Any:
        row = np.ones(len(parent))
        for g in divided:
            row[parent == g] = rng.dirichlet(weights[parent == g])
        return row

    shares = [np.array([divide(added) for _ in range(problem.n_geounits[-1])])]
    for row in range(len(problem.above), 0, -1):
        weights = common.near[row - 1][np.maximum(step - 1, 0)]
        of_row = []
        for geounit, above in enumerate(problem.above[row - 1]):
            around = shares[-1][above].copy()
            for g in divided:
                around[parent == g] = with_earlier(problem, common, row, geounit, g, around[parent == g])
            of_row.append(divide(weights * around + added))
        shares.append(np.array(of_row))
    return Parameters(
        common=common,
        shares=tuple(reversed(shares)),
        block_class=np.zeros(problem.n_blocks, int),
        size_mean=np.exp(rng.normal(common.size_centre, common.size_spread, problem.n_geounits[0])),
    )


def drawn_counts(
    rng: np.random.Generator, problem: PosteriorProblem, parameters: Parameters
) -> tuple[Any, Any]:
    """Counts and classes of the blocks drawn from the prior given the other parameters."""
    group, parent = problem.kernel.steps.group, problem.kernel.steps.parent
    counts = np.zeros((problem.n_blocks, group.shape[1]), np.int32)
    classes = np.zeros(problem.n_blocks, int)
    parts = [(g, np.flatnonzero(parent == g)) for g in np.unique(parent[1:])]
    common, tract = parameters.common, problem.kernel.tree.tract
    expected = common.empty_mean[problem.sizes.kind]
    empty = rng.beta(common.empty_near * expected, common.empty_near * (1 - expected))
    for b in range(problem.n_blocks):
        r = common.size_shape
        mean = mean_size(problem, parameters, b)
        columns = np.zeros(len(parent), int)
        if rng.random() >= empty[tract[b]]:
            columns[0] = _size(rng, mean, r)
        class_shares = np.exp(common.log_class_share[SIZE_CLASS[min(columns[0], len(SIZE_CLASS) - 1)]])
        classes[b] = rng.choice(len(CLASSES), p=class_shares / class_shares.sum())
        for g, children in parts:
            if columns[g]:
                classed = problem.step[g] == problem.kernel.steps.classed - 1
                a = CLASSES[classes[b]] if classed else common.concentration[g]
                around = shares_of(problem, parameters, b, classes[b], g)
                shares = rng.dirichlet(a * around + 1e-12)
                columns[children] = rng.multinomial(columns[g], shares)
        counts[b] = columns[group[-1]]
    return counts, classes


def _size(rng: np.random.Generator, mean: float, shape: float) -> int:
    """A negative binomial number above 0."""
    stop = shape / (mean + shape)
    while True:
        n = int(rng.negative_binomial(shape, stop))
        if n > 0:
            return n
        if stop**shape > 0.99:  # nearly always 0: by its inverse, given n > 0
            level, n = rng.random() * (1 - stop**shape), 1
            p = exp(log(shape) + shape * log(stop) + log(1 - stop))
            while level > p:
                level -= p
                p *= (n + shape) / (n + 1) * (1 - stop)
                n += 1
            return n
