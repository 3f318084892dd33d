"""Shares of the budget by geolevel that meet stated accuracy with the least budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.decimals import at_least, at_most
from tallyveil.arrays import Floats
from tallyveil.budget.spine.precision import precision_of
from tallyveil.budget.spine.variance import SpineVariances, entity_variances, spine_variances
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError, SolverError
from tallyveil.geography import EntityFamily, Spine

DENOMINATOR = 10_000
LEAST_SHARE = 1e-4
KNOWN = 1e15
STEP = 1e-30


@dataclass(frozen=True, slots=True)
class AccuracyTarget:
    """A standard deviation that a geolevel's geounits, or a family's entities, should have at most.

    Attributes:
        name: The geolevel or the family.
        standard_deviation: In counts, above 0.
        of_each: Every single one, rather than the root of the mean variance.
    """

    name: str
    standard_deviation: Fraction
    of_each: bool = False


@dataclass(frozen=True, slots=True)
class FittedShares:
    """Shares that meet the targets with the least budget.

    Attributes:
        strategy: The given strategy with these geolevel shares and the budget they need, rounded up.
        needed: That budget.
        least: A budget proved to be too small, or just enough: no shares meet the targets with less.
        given_needed: The budget the strategy's own geolevel shares would need.
        reached: For each target, the standard deviation reached.
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
    """Choose the share of every geolevel so that the least budget meets all targets.

    With Gaussian noise the precision of a measurement is its share times the budget, and a generalised least
    squares variance is a convex function of the precisions that halves when they double. So the budget needed
    is the least, over shares, of the greatest ratio of a variance at budget 1 to its target: a convex problem in as
    many variables as geolevels. It is solved by cutting planes: each round evaluates the ratios and their exact
    derivatives, adds their tangents, which lie below, and solves a linear program: its value is a lower bound.

    Args:
        spine: The spine.
        families: Families of this spine, which targets may name.
        strategy: Gaussian strategy of the spine's geolevels, whose query shares are kept.
        summed: Answers summed, as in `precision_of`.
        targets: At least one.
        exact: Geolevels at which the answer is published exactly; they get the least share, 1/10,000.
        gap: Relative gap between the budget found and the bound at which to stop.
        most_rounds: Most rounds.

    Raises:
        BudgetError: noise that is not Gaussian, geolevels that differ, or a target that names nothing, is not
            above 0, or cannot be told from measurements.
        SolverError: the gap was not closed.

    Privacy: uses public geography only; the strategy that comes out costs exactly what it says.
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

    given = np.array([float(share) for _, share in strategy.geolevel_shares])
    best, bound = _cutting_planes(ratios, given, gap, most_rounds)
    shares = _rounded(best)
    reached = ratios(np.array([float(share) for share in shares])).real
    needed = _rounded_up(float(reached.max()))
    made = replace(strategy, total=needed, geolevel_shares=tuple(zip(spine.geolevels, shares, strict=True)))
    deviations = np.sqrt(reached / float(needed))
    return FittedShares(
        made,
        needed,
        bound,
        float(ratios(given).real.max()),
        tuple(
            (target, float(target.standard_deviation) * float(one))
            for target, one in zip(targets, deviations, strict=True)
        ),
    )


def check_targets(
    spine: Spine, families: Sequence[EntityFamily], strategy: Strategy, targets: Sequence[AccuracyTarget]
) -> None:
    """Refuse what cannot be fitted.

    Raises:
        BudgetError: as `fit_shares`.
    """
    if strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise BudgetError("shares can be fitted for Gaussian noise only. Use a strategy whose budget is rho.")
    if strategy.geolevels != spine.geolevels:
        raise BudgetError(
            f"the strategy has geolevels {', '.join(strategy.geolevels)}, the spine {', '.join(spine.geolevels)}. "
            "Give a strategy of the spine's geolevels."
        )
    known = {*spine.geolevels, *(family.name for family in families if family.n_entities)}
    wrong = [target.name for target in targets if target.name not in known]
    if wrong or not targets:
        raise BudgetError(
            f"accuracy targets name {', '.join(wrong) or 'nothing'}; wanted some of {', '.join(sorted(known))}."
        )
    if any(target.standard_deviation <= 0 for target in targets):
        raise BudgetError("an accuracy target is not above 0. Publish exactly what must have no error.")


def _ratios(
    spine: Spine,
    families: Sequence[EntityFamily],
    targets: Sequence[AccuracyTarget],
    exact: Sequence[str],
    precisions: NDArray[np.complex128] | Floats,
) -> NDArray[np.complex128] | Floats:
    """Variance over its target, squared, for every target."""
    # What is known exactly gets a precision far above any other: derivatives need finite numbers.
    largest = KNOWN * float(np.abs(precisions).max())
    found = spine_variances(
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
    return np.array([_one(_values(found, by_name, target.name), target) for target in targets])


def _values(found: SpineVariances, families: Mapping[str, EntityFamily], name: str) -> NDArray[np.complex128]:
    if name in families:
        return entity_variances(found, families[name])
    return found.variance[found.spine.level_index(name)]


def _one(values: NDArray[np.complex128], target: AccuracyTarget) -> complex:
    if not bool(np.all(np.isfinite(values.real))):
        raise BudgetError(
            f"some variance of {target.name} cannot be told from what is measured. Give every geolevel a query "
            "group that tells the answer."
        )
    value: complex = values[int(np.argmax(values.real))] if target.of_each else values.mean()
    return value / float(target.standard_deviation) ** 2


def _cutting_planes(
    ratios: Callable[[NDArray[np.complex128]], NDArray[np.complex128] | Floats],
    start: Floats,
    gap: float,
    most_rounds: int,
) -> tuple[Floats, float]:
    """Shares with the least greatest ratio, and a lower bound for it."""
    from scipy.optimize import linprog

    n = len(start)
    cuts: list[Floats] = []  # slope, then value - slope point, of every tangent
    point, best, best_value, bound = np.maximum(start, LEAST_SHARE), start, np.inf, 0.0
    for _ in range(most_rounds):
        point = point / point.sum()
        values, slopes = _tangents(ratios, point)
        if values.max() < best_value:
            best, best_value = point, float(values.max())
        cuts += [np.append(slope, value - slope @ point) for value, slope in zip(values, slopes, strict=True)]
        # Tangents lie below the greatest ratio t; t is counted in units of the best value.
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
            raise SolverError(f"the linear program of the shares ended with: {solved.message}.")
        bound = max(bound, float(solved.x[-1]) * best_value)
        if bound >= best_value * (1 - gap):
            return best, bound
        # Halfway to the best point so far: plain cutting planes leap about.
        point = (solved.x[:-1] + best) / 2
    raise SolverError(
        f"shares were not found to within {gap:g}: the budget lies between {at_least(bound)} and "
        f"{at_most(best_value)}. Allow more rounds, or a wider gap."
    )


def _tangents(
    ratios: Callable[[NDArray[np.complex128]], NDArray[np.complex128] | Floats], point: Floats
) -> tuple[Floats, Floats]:
    """Values of shape (n_targets,) and exact slopes of shape (n_targets, n_geolevels) at a point."""
    columns = []
    for place in range(len(point)):
        moved = point.astype(np.complex128)
        moved[place] += STEP * 1j
        columns.append(ratios(moved))
    return columns[0].real, np.stack([one.imag / STEP for one in columns], axis=1)


def _rounded(shares: Floats) -> tuple[Fraction, ...]:
    """Fractions over 10,000 that sum to exactly 1, none of them 0."""
    parts = np.maximum(np.floor(shares * DENOMINATOR).astype(np.int64), 1)
    missing = DENOMINATOR - int(parts.sum())
    order = np.argsort(-(shares * DENOMINATOR - parts), kind="stable")
    if missing >= 0:
        parts[order[:missing]] += 1
    else:
        parts[int(np.argmax(parts))] += missing
    return tuple(Fraction(int(part), DENOMINATOR) for part in parts)


def _rounded_up(value: float) -> Fraction:
    """Six significant digits, never below."""
    unit = Fraction(10) ** (int(np.floor(np.log10(value))) - 5)
    return -(-Fraction(value) // unit) * unit
