"""The engine for any law: it takes apart what has a closed form, and encloses the rest between two lists of atoms.

1. Losses of integer noise alone: `choose_engine`.
2. Failures are taken out: with probability D everything is revealed, otherwise the rest counts.
3. One normal loss alone has a closed form.
4. Losses of which only rho is known: Renyi divergences from above, and a normal loss of the same rho from below.
5. All others are listed and moved to a grid. Real-valued noise has no list. Integer noise that covers it stands for it
   in the upper bounds, and integer noise that it covers in the lower bounds (docs/proofs/real-noise.md, section 2).
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tallyveil.accounting.engines.atom_lists import Listable
from tallyveil.accounting.engines.choose import ENGINES, NoLoss, choose_engine
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.gridded import Gridded
from tallyveil.accounting.engines.normal import Normal
from tallyveil.accounting.engines.renyi_bound import RenyiUpper
from tallyveil.accounting.engines.tails import LossEngine, lower_fraction, upper_fraction
from tallyveil.accounting.losses.divergences import no_divergence
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.accounting.losses.further import (
    AnyLoss,
    Base,
    ConcentratedLoss,
    ExponentialLoss,
    FailureLoss,
    Law,
    NormalLoss,
    SampledLoss,
    cost_hint,
    further,
    merged_law,
    of_integers,
)
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational

STEPS: Final = 10_000
"""Standard deviation of the integer noise that stands for normal noise, about."""

SLACK: Final = 4
"""By how much its variance differs from that of the normal noise."""

PIECES: Final = 1 << 14
"""Steps that an answer moves whose integer noise stands for Laplace noise."""

_LEAST_REST: Final = 10**300
_LARGEST_SPREAD: Final = 1 << 17
_FEW_ANSWERS: Final = 1 << 14  # failures of which the probability is computed as an exact fraction


def engine_for(law: Law, wanted: str, width: float) -> LossEngine:
    """The engine for a law: one of `choose_engine`, or one built from closed forms and lists.

    Args:
        law: Merged losses.
        wanted: Name of an engine, or "auto".
        width: Width of epsilon's bounds that is aimed at, where an engine takes one.

    Raises:
        BudgetError: no such engine; an engine asked for that takes integer noise only; or losses of which only rho is
            known, together with random samples.
        SolverError: the losses are out of the range of every engine.
    """
    rest = further(law)
    if not rest:
        return choose_engine(of_integers(law), wanted, width)
    if wanted in ENGINES and wanted != "auto":
        raise BudgetError(
            f"the engine {wanted} takes integer noise only, and there is other noise. Ask for 'auto', which chooses an "
            "engine that can."
        )
    least, most = _failures(law)
    if (1 - most) * _LEAST_REST < 1:
        raise BudgetError(
            "the composition reveals everything with a probability that floats cannot tell from 1."
        )
    kept = tuple(loss for loss in law if not isinstance(loss, FailureLoss))
    engine = _without_failures(kept, wanted, width)
    return WithFailure(least, most, engine, kept) if most else engine


def _without_failures(law: Law, wanted: str, width: float) -> LossEngine:
    if not further(law):
        return choose_engine(of_integers(law), wanted, width)
    if any(isinstance(loss, ConcentratedLoss) for loss in law):
        for loss in law:
            if isinstance(loss, SampledLoss):
                raise no_divergence(loss)
        lower = merged_law(tuple(map(_attained, law)))
        return Between(RenyiUpper(law), engine_for(lower, wanted, width), law, lower, _chord(law))
    if len(law) == 1 and isinstance(law[0], NormalLoss):
        return Normal(law[0].mu_squared)
    upper, lower = (standing(law, covering=covering) for covering in (True, False))
    if upper == lower:
        return Gridded(upper)
    return Between(Gridded(upper), Gridded(lower) if lower else NoLoss(), upper, lower, _chord(law))


def _failures(law: Law) -> tuple[Fraction, Fraction]:
    """The probability that everything is revealed, from both sides; equal if it is exact.

    A sample reveals everything with q times the probability of its mechanism, if the record was removed.
    """
    chances = [(loss.probability, loss.multiplicity) for loss in law if isinstance(loss, FailureLoss)]
    chances += [
        (loss.probability * loss.failure, loss.multiplicity)
        for loss in law
        if isinstance(loss, SampledLoss) and not loss.added and loss.failure
    ]
    if sum(n * p.denominator.bit_length() for p, n in chances) <= _FEW_ANSWERS:
        none = math.prod(((1 - p) ** n for p, n in chances), start=Fraction(1))
        return 1 - none, 1 - none
    with precision(2048):
        ball = sum((n * (-rational(p)).log1p() for p, n in chances), rational(Fraction(0)))
        found = -ball.expm1()
        return max(lower_fraction(found), Fraction(0)), min(upper_fraction(found), Fraction(1))


def standing(law: Law, *, covering: bool) -> tuple[Listable, ...]:
    """The law with integer noise in the place of real-valued noise.

    Args:
        law: Without failures, and without losses of which only rho is known.
        covering: Whether the noise that stands for another costs no less than that; otherwise it costs no more.
    """
    found: list[Listable] = []
    for loss in law:
        if isinstance(loss, SampledLoss):
            base = loss.base and _stand(loss.base, covering)
            if base is not None or loss.base is None or loss.failure:
                assert not isinstance(base, NormalLoss | ExponentialLoss)
                found.append(replace(loss, base=base))
        else:
            assert not isinstance(loss, FailureLoss | ConcentratedLoss)
            stand = _stand(loss, covering)
            if stand is not None:
                assert not isinstance(stand, NormalLoss | ExponentialLoss)
                found.append(stand)
    return tuple(found)


def _stand(loss: Base, covering: bool) -> Base | None:
    """Integer noise for one loss; None if it costs so little that a lower bound leaves it out."""
    match loss:
        case NormalLoss(mu_squared, n):
            if mu_squared * _LARGEST_SPREAD**2 < 1:
                return _stand(NormalLoss(Fraction(1, _LARGEST_SPREAD**2), n), covering) if covering else None
            moved = max(1, math.isqrt(math.floor(mu_squared * STEPS**2)))
            variance = moved**2 / mu_squared
            return GaussianLoss(variance - SLACK if covering else variance + SLACK, moved, n)
        case ExponentialLoss(epsilon, n):
            scale = PIECES / epsilon
            if not covering:
                scale *= 4 * PIECES * scale / (4 * PIECES * scale - 1)
            return LaplaceLoss(scale, PIECES, n)
        case _:
            return loss


def _attained(loss: AnyLoss) -> AnyLoss:
    """A loss that a mechanism with these divergences has."""
    return NormalLoss(2 * loss.rho, loss.multiplicity) if isinstance(loss, ConcentratedLoss) else loss


def _chord(law: Law) -> float:
    return 0.02 * math.sqrt(2 * sum(cost_hint(loss) for loss in law))
