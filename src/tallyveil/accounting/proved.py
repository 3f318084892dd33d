"""The least epsilon that is proved of an event at a delta, and epsilon by other accountants beside it.

Plans, manifests, reports, programmes, publications and `tallyveil account total` all ask here. So they state
the same number for the same releases.

1. If every release has an exact loss law, the laws are composed, and the epsilon is that of the worst way in
   which the records of neighbours may lie on the paths of a spine.
2. Otherwise the upper bound is the least that follows from rho, from Renyi divergences, or from the composition with
   a bound on what noise on a lattice may add to normal noise. The lower bound is the epsilon of the releases that have
   a law. `not_exact` says why.

Epsilon at a delta by the accountants that papers and regulations use, side by side.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tallyveil.accounting.costs import epsilon_of, has_gaussian, require_neighbours, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Neighbours,
    PrivacyEvent,
    SequentialEvent,
)
from tallyveil.accounting.losses import TooManyLawsError, choices_of, has_loss_law
from tallyveil.accounting.numbers import Bounds
from tallyveil.accounting.renyi import Conversion, renyi_epsilon, zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.errors import BudgetError, SolverError

if TYPE_CHECKING:
    from tallyveil.accounting.guarantee import Guarantee

NO_LAW: Final = (
    "noise on a lattice has no single exact loss law if it is Gaussian, "
    "or if a sampler only comes close to its law"
)

_SAME: Final = 1e-6
"""Relative difference up to which the simpler of two bounds is stated. With Gaussian noise alone, rho and Renyi
divergences give the same number, up to the last digits of a float."""


@dataclass(frozen=True, slots=True)
class ProvedEpsilon:
    """What is proved of epsilon at a delta.

    Attributes:
        bounds: Epsilon from both sides. Claim the upper end.
        engines: Names of the methods; the last one is that of the upper end.
        width_reached: Width of the bounds, about, if it is above the usual one; None otherwise.
        not_exact: Why the least epsilon may be lower than the upper end; empty if it was composed exactly.
    """

    bounds: Bounds
    engines: tuple[str, ...]
    width_reached: float | None = None
    not_exact: str = ""


def proved_epsilon(event: PrivacyEvent, neighbours: Neighbours, delta: Fraction) -> ProvedEpsilon:
    """The least epsilon that is proved.

    Args:
        event: What is done, without non-private acts.
        neighbours: The relation that its sensitivities are stated under.
        delta: Between 0 and 1, both excluded. What a sampler adds to it, because it only comes close to its law, is
            not part of it (`total_variation_of`).
    Raises:
        BudgetError: a non-private event, a release that leaves out what one record moves, or a delta out of range.
        SolverError: no engine bounds epsilon closely enough.
    """
    return _proved(_steps(event), neighbours, delta)


def composition_of(event: PrivacyEvent, neighbours: Neighbours) -> "Guarantee":
    """The exact guarantee of an event, as `compose` makes it.

    Raises:
        BudgetError: as `compose`.
    """
    return _composed(_steps(event), neighbours)


# A plan, the manifest and the report of its run and the total of a programme ask for the same event, and many kinds of
# paths take seconds. The answer depends on the arguments alone. A guarantee holds arrays, so only a few are kept.
@lru_cache(maxsize=4)
def _composed(steps: tuple[PrivacyEvent, ...], neighbours: Neighbours) -> "Guarantee":
    from tallyveil.accounting.guarantee import compose

    return compose(*steps, neighbours=neighbours)


@lru_cache(maxsize=256)
def _proved(steps: tuple[PrivacyEvent, ...], neighbours: Neighbours, delta: Fraction) -> ProvedEpsilon:
    lawful = tuple(part for part in steps if has_loss_law(part))
    try:
        composed = _composed(lawful, neighbours)
        bounds = composed.epsilon(delta)
        exact = ProvedEpsilon(bounds, composed.engines, composed.wider(bounds))
        if lawful == steps:
            return exact
        why = NO_LAW
    except TooManyLawsError as error:
        exact, why = ProvedEpsilon(Bounds(0.0, 0.0), ()), str(error)
    event = SequentialEvent(steps)
    require_neighbours(event, neighbours)
    upper, method = upper_bound(event, neighbours, delta)
    # The composed epsilon is below the bound on the whole, up to the widths of both.
    return ProvedEpsilon(
        Bounds(min(exact.bounds.lower, upper), upper), (*exact.engines, method), not_exact=why
    )


def _on_lattices(steps: tuple[PrivacyEvent, ...], neighbours: Neighbours, delta: Fraction) -> float:
    """An upper bound of epsilon with noise on lattices among the steps; infinite if this method does not take them.

    Source: docs/proofs/integer-subspace.md, section 2.
    """
    from tallyveil.accounting.engines.shared import LatticeNoise, takes
    from tallyveil.accounting.guarantee import shared_epsilon

    lattices: list[LatticeNoise] = []
    lawful: list[PrivacyEvent] = []
    for part in steps:
        match part:
            case IntegerSubspaceGaussian():
                lattices.append(LatticeNoise(part.variance, part.squared_distance))
                # Normal noise of the same rho.
                lawful.append(Gaussian(part.variance / part.squared_distance))
            case IntegerSubspaceLaplace():
                # What its sampler adds to delta is stated apart, as for all of this module.
                lawful.append(replace(part, total_variation=Fraction(0)))
            case _:
                lawful.append(part)
    if not all(noise.is_wide for noise in lattices) or not all(map(has_loss_law, lawful)):
        return math.inf
    try:
        choices = choices_of(SequentialEvent(tuple(lawful)), neighbours)
        bounds = shared_epsilon(choices, delta, lattices=lattices) if takes(choices) else None
    except (BudgetError, SolverError):  # no engine for what stands in their place; the other methods remain
        bounds = None
    return math.inf if bounds is None else bounds.upper


@lru_cache(maxsize=64)
def upper_bound(event: PrivacyEvent, neighbours: Neighbours, delta: Fraction) -> tuple[float, str]:
    """The least epsilon at a delta that follows without a loss law of the whole, rounded up, and the method's name.

    Raises:
        BudgetError: as `proved_epsilon`.
    """
    bounds = _classical(event, delta)
    # The textbook's and Mironov's conversions are never below the others. Where each divergence is rho times its order,
    # Renyi divergences say no more than rho, and take seconds for many kinds of paths.
    names = ("pure", "zcdp") if _has_rho(event) else ("pure", "zcdp", "renyi")
    candidates = list(_known({name: bounds[name] for name in names if name in bounds}).items())
    if not candidates:
        rho_of(event, laplace_as_zcdp=True)  # says what has no bound
    if not has_loss_law(event):
        candidates.append(("shared", _on_lattices(_steps(event), neighbours, delta)))
    best = candidates[0]
    for other in candidates[1:]:
        # All of them are valid; the order of preference decides where they agree.
        if other[1] < (1 - _SAME) * best[1]:
            best = other
    return best[1], best[0]


def _has_rho(event: PrivacyEvent) -> bool:
    try:
        rho_of(event)
    except BudgetError:
        return False
    return True


def _steps(event: PrivacyEvent) -> tuple[PrivacyEvent, ...]:
    """What is done one after the other. Invariants cost nothing and are left out.

    Where all of it is integer noise, equal noise is counted together, in one order. So a geolevel and a secret with the
    same losses are composed once.
    """
    steps = tuple(_each_step(event))
    noise = [step for step in steps if isinstance(step, DiscreteGaussian | DiscreteLaplace)]
    if len(noise) < len(steps):
        return steps
    alike: dict[tuple[type, Fraction, int], list[DiscreteGaussian | DiscreteLaplace]] = {}
    for step in noise:
        parameter = step.variance if isinstance(step, DiscreteGaussian) else step.scale
        alike.setdefault((type(step), parameter, step.sensitivity), []).append(step)
    counted = (
        replace(steps[0], multiplicity=sum(step.multiplicity for step in steps)) for steps in alike.values()
    )
    return tuple(sorted(counted, key=repr))


def _each_step(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    if isinstance(event, SequentialEvent):
        for part in event.events:
            yield from _each_step(part)
    elif not isinstance(event, InvariantEvent):
        yield event


def classical_epsilons(event: PrivacyEvent, delta: Fraction) -> dict[str, float]:
    """Upper bounds of epsilon at a delta, by name. Each one holds; the exact epsilon is below all of them.

    Args:
        event: What is done.
        delta: Between 0 and 1, both excluded.

    Returns:
        "pure" (only without Gaussian noise; it holds at delta 0), "zcdp_textbook", "zcdp" (Laplace noise counts as
        epsilon^2 / 2), "renyi_mironov" and "renyi", each rounded up. A bound that knows nothing of some part of the
        event is left out: of a random sample only Renyi divergences are known, and of a stated delta nothing.

    Raises:
        BudgetError: a delta out of range, or a non-private event.
    """
    return _known(_classical(event, delta))


def _classical(event: PrivacyEvent, delta: Fraction) -> dict[str, Callable[[], float]]:
    bounds: dict[str, Callable[[], float]] = {
        "zcdp_textbook": lambda: zcdp_to_epsilon_textbook(rho_of(event, laplace_as_zcdp=True), delta),
        "zcdp": lambda: zcdp_to_epsilon(rho_of(event, laplace_as_zcdp=True), delta),
        "renyi_mironov": lambda: renyi_epsilon(event, delta, Conversion.MIRONOV).value,
        "renyi": lambda: renyi_epsilon(event, delta).value,
    }
    if has_gaussian(event):
        return bounds
    return {"pure": lambda: fraction_bounds(epsilon_of(event)).upper} | bounds


def _known(bounds: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The bounds that know every part of the event."""
    known = {}
    for name, bound in bounds.items():
        try:
            known[name] = bound()
        except BudgetError as error:
            if error.code != "no-cost":
                raise
    return known
