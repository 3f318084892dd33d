"""Geolevel shares of the budget that meet accuracy targets with the smallest budget.

Problem. Let p_g be the share of geolevel g, with all shares positive and summing to 1. Let V_i(p) be the variance of
target i at budget 1, and s_i the standard deviation that target i allows. With Gaussian noise, a budget B divides
every variance by B. So B meets target i exactly if B >= V_i(p) / s_i^2. The smallest sufficient budget of the
shares p is f(p) = max over i of V_i(p) / s_i^2, and f is to be minimised.

Convexity. The precision (1 / variance) of a measurement is linear in p, and a generalised least squares variance is a
convex function of the precisions. So f is convex, and every tangent plane of a V_i / s_i^2 lies below f.

Steps (cutting planes). Each round evaluates all ratios and their derivatives at the current shares and adds their
tangents. A linear program then minimises the maximum of all tangents; its value is a lower bound on f. The next shares
lie halfway between the program's solution and the best shares so far.

Stopping rule. The method stops when the lower bound is within a relative gap of the best f found, and raises an error
after a maximal number of rounds.

Worked case. One geolevel has the whole budget, and each geounit's measurement has precision 2 at budget 1. The target
is a standard deviation of 5. Then V = 1/2, and the budget needed is (1/2) / 25 = 0.02.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.arrays import Floats
from tallyveil.budget.spine.variance import SpineVariances, entity_variances, precision_of, spine_variances
from tallyveil.budget.strategy import Mechanism, Strategy, can_be_wanted
from tallyveil.errors import BudgetError, SolverError
from tallyveil.exact import in_short
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine

DENOMINATOR = 10_000
"""Denominator of the fitted shares."""
LEAST_SHARE = 1e-4
"""Smallest share that a geolevel may have."""
KNOWN = 1e15
"""An exactly published answer gets this many times the largest precision of a measurement."""
STEP = 1e-30
"""Imaginary step of the complex-step derivative; its error is of the order of the step's square."""


@dataclass(frozen=True, slots=True)
class AccuracyTarget:
    """The largest standard deviation that a geolevel's geounits, or a family's entities, should have.

    Attributes:
        name: The geolevel or the family.
        standard_deviation: In counts, above 0.
        of_each: If true, every single area must meet it; otherwise the root of the mean variance must.
    """

    name: str
    standard_deviation: Fraction
    of_each: bool = False


@dataclass(frozen=True, slots=True)
class FittedShares:
    """Shares that meet the targets with the smallest budget found.

    Attributes:
        strategy: The given strategy with these geolevel shares and the budget they need, rounded up.
        needed: That budget.
        least: Lower bound, from the linear programs, on the budget that any shares of at least 1/10,000 need.
        given_needed: The budget that the strategy's own geolevel shares would need.
        reached: Each target with the standard deviation that is reached.
    """

    strategy: Strategy
    needed: Fraction
    least: float
    given_needed: float
    reached: tuple[tuple[AccuracyTarget, float], ...]


def fit_shares(
    spine: Spine,
    families: Sequence[EntityFamily],
    strategy: Strategy,
    summed: Mapping[str, int],
    targets: Sequence[AccuracyTarget],
    *,
    exact: Sequence[str] = (),
    gap: float = 1e-4,
    most_rounds: int = 200,
) -> FittedShares:
    """Choose the share of every geolevel so that the smallest budget meets all targets.

    The head of this module states the problem and the method.

    Args:
        spine: The spine.
        families: Families of this spine, which targets may name.
        strategy: Gaussian strategy of the spine's geolevels, whose query shares are kept.
        summed: Answers summed, as in `precision_of`.
        targets: At least one.
        exact: Geolevels at which the answer is published exactly. Their shares buy nothing, and shrink towards the
            smallest share, 1/10,000.
        gap: Relative gap between the budget found and its lower bound at which the search stops.
        most_rounds: Largest number of rounds.

    Raises:
        BudgetError: the noise is not Gaussian, the geolevels differ from the spine's, or a target has an unknown
            name, is not above 0, or cannot be estimated from the measurements.
        SolverError: the gap was not reached within the rounds, or a linear program failed.

    Privacy: only public geography is used. The resulting strategy costs exactly its stated total.
    """
    check_targets(spine, families, strategy, targets)
    rates = np.array(
        [
            float(precision_of(replace(strategy, total=Fraction(1)), name, Fraction(1), summed))
            for name in spine.geolevels
        ]
    )

    def ratios(shares: NDArray[np.complex128] | Floats) -> NDArray[np.complex128] | Floats:
        return _ratios(spine, families, targets, exact, shares * rates)

    stated = np.array([float(share) for _, share in strategy.geolevel_shares])
    best, bound = _cutting_planes(ratios, stated, gap, most_rounds)
    shares = _rounded(best)
    reached = ratios(np.array([float(share) for share in shares])).real
    needed = _rounded_up(float(reached.max()))
    fitted = replace(strategy, total=needed, geolevel_shares=tuple(zip(spine.geolevels, shares, strict=True)))
    deviations = np.sqrt(reached / float(needed))
    return FittedShares(
        fitted,
        needed,
        bound,
        float(ratios(stated).real.max()),
        tuple(
            (target, float(target.standard_deviation) * float(deviation))
            for target, deviation in zip(targets, deviations, strict=True)
        ),
    )


def check_targets(
    spine: Spine, families: Sequence[EntityFamily], strategy: Strategy, targets: Sequence[AccuracyTarget]
) -> None:
    """Refuse targets and strategies that cannot be fitted.

    Raises:
        BudgetError: see `fit_shares`.
    """
    if strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise BudgetError(
            "shares can be fitted for Gaussian noise only. Under Laplace noise a precision grows with the square of a "
            "share, so that the least budget is no convex problem and might be missed. Use a strategy whose budget is "
            "given in rho."
        )
    if strategy.geolevels != spine.geolevels:
        raise BudgetError(
            f"the strategy has geolevels {', '.join(strategy.geolevels)}, the spine {', '.join(spine.geolevels)}. "
            "Give a strategy that names the geolevels of the spine."
        )
    known = {*spine.geolevels, *(family.name for family in families if family.n_entities)}
    wrong = [target.name for target in targets if target.name not in known]
    if wrong or not targets:
        raise BudgetError(
            f"accuracy targets name {', '.join(wrong) or 'nothing'}; wanted one or more of "
            f"{', '.join(sorted(known))}."
        )
    for target in targets:
        if not can_be_wanted(target.standard_deviation):
            raise BudgetError(
                f"the accuracy target of {target.name} is {in_short(target.standard_deviation)}; wanted a standard "
                "deviation above 0, from 1e-9 to 1e9. A count that must have no error is an invariant, not a target."
            )


def _ratios(
    spine: Spine,
    families: Sequence[EntityFamily],
    targets: Sequence[AccuracyTarget],
    exact: Sequence[str],
    precisions: NDArray[np.complex128] | Floats,
) -> NDArray[np.complex128] | Floats:
    """For every target, its variance divided by the square of its standard deviation."""
    # An exactly known answer gets a precision far above all others, because derivatives need finite numbers.
    largest = KNOWN * float(np.abs(precisions).max())
    variances = spine_variances(
        spine,
        [
            np.full(
                spine.n_geounits(level),
                largest + 0 * precisions[level] if name in exact else precisions[level],
            )
            for level, name in enumerate(spine.geolevels)
        ],
    )
    by_name = {family.name: family for family in families}
    return np.array([_one(_values(variances, by_name, target.name), target) for target in targets])


def _values(
    variances: SpineVariances, families: Mapping[str, EntityFamily], name: str
) -> NDArray[np.complex128]:
    if name in families:
        return entity_variances(variances, families[name])
    return variances.variance[variances.spine.level_index(name)]


def _one(values: NDArray[np.complex128], target: AccuracyTarget) -> complex:
    if not bool(np.all(np.isfinite(values.real))):
        raise BudgetError(
            f"some variance of {target.name} is infinite, because the measured queries do not determine the answer. "
            "Give every geolevel a query group that determines it."
        )
    value: complex = values[int(np.argmax(values.real))] if target.of_each else values.mean()
    return value / float(target.standard_deviation) ** 2


def _cutting_planes(
    ratios: Callable[[NDArray[np.complex128]], NDArray[np.complex128] | Floats],
    start: Floats,
    gap: float,
    most_rounds: int,
) -> tuple[Floats, float]:
    """The shares found with the smallest maximal ratio, and a lower bound on that maximum."""
    from scipy.optimize import linprog

    n = len(start)
    cuts: list[Floats] = []  # for every tangent: its slope, then value - slope @ point
    point, best, best_value, bound = np.maximum(start, LEAST_SHARE), start, np.inf, 0.0
    for _ in range(most_rounds):
        point = point / point.sum()
        values, slopes = _tangents(ratios, point)
        if values.max() < best_value:
            best, best_value = point, float(values.max())
        cuts += [np.append(slope, value - slope @ point) for value, slope in zip(values, slopes, strict=True)]
        # The linear program minimises t, the maximum of all tangents, in units of the best value.
        planes = np.array(cuts) / best_value
        solved = linprog(
            np.append(np.zeros(n), 1.0),
            A_ub=np.column_stack([planes[:, :-1], -np.ones(len(planes))]),
            b_ub=-planes[:, -1],
            A_eq=np.append(np.ones(n), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(LEAST_SHARE, 1.0)] * n + [(0.0, None)],
            method="highs",
        )
        if solved.status != 0:
            raise SolverError(
                f"the linear program that chooses the shares was not solved: {solved.message}. Loosen the targets, "
                "and report this if it persists."
            )
        bound = max(bound, float(solved.x[-1]) * best_value)
        if bound >= best_value * (1 - gap):
            return best, bound
        # The solution of the program jumps from round to round, so move only halfway towards it.
        point = (solved.x[:-1] + best) / 2
    raise SolverError(
        f"the least budget was not found to within a relative gap of {gap:g}: it lies between {at_least(bound)} and "
        f"{at_most(best_value)}. Allow more rounds, or a wider gap."
    )


def _tangents(
    ratios: Callable[[NDArray[np.complex128]], NDArray[np.complex128] | Floats], point: Floats
) -> tuple[Floats, Floats]:
    """Values of shape (n_targets,) and their derivatives, of shape (n_targets, n_geolevels), at a point."""
    columns = []
    for place in range(len(point)):
        moved = point.astype(np.complex128)
        moved[place] += STEP * 1j
        columns.append(ratios(moved))
    return columns[0].real, np.stack([column.imag / STEP for column in columns], axis=1)


def _rounded(shares: Floats) -> tuple[Fraction, ...]:
    """Fractions with denominator 10,000 that sum to exactly 1; none is 0."""
    parts = np.maximum(np.floor(shares * DENOMINATOR).astype(np.int64), 1)
    missing = DENOMINATOR - int(parts.sum())
    order = np.argsort(-(shares * DENOMINATOR - parts), kind="stable")
    if missing >= 0:
        parts[order[:missing]] += 1
    else:
        parts[int(np.argmax(parts))] += missing
    return tuple(Fraction(int(part), DENOMINATOR) for part in parts)


def _rounded_up(value: float) -> Fraction:
    """The value rounded up to six significant digits."""
    unit = Fraction(10) ** (int(np.floor(np.log10(value))) - 5)
    return -(-Fraction(value) // unit) * unit
