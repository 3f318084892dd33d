"""The guarantee of noise on a lattice, between tables with the same invariants.

The guarantee depends on the distance between the two tables: it is smooth differential privacy on the classes of tables
with the same invariants. A mechanism M is (epsilon, delta)-private on these classes if, for tables x and x' at distance
r >= 1,

    Pr[M(x) in E] <= exp(epsilon r) Pr[M(x') in E] + (exp(epsilon r) - 1) / (exp(epsilon) - 1) delta.

Source: Dharangutte, Gao, Gong, Yu 2022, Definition 2, Propositions 6 and 7, Theorem 10.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tallyveil.accounting.costs import delta_with_total_variation
from tallyveil.accounting.decimals import at_least, at_most
from tallyveil.accounting.proved import upper_bound
from tallyveil.accounting.rounding import round_up
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.balls import precision, rational
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm
from tallyveil.subspace.nearest import least_distance

if TYPE_CHECKING:
    from tallyveil.subspace.diagnostics import TotalVariationBound

_BITS = 128
"""Bits of ball arithmetic. Results are rounded up from the balls, so fewer bits could only make them looser."""
_NAMES_SHOWN = 6
"""Constraints that a statement names before it says how many more there are."""


@dataclass(frozen=True, slots=True)
class SmoothGuarantee:
    """Integer-subspace privacy of a release or a composition.

    Attributes:
        norm: The norm that measures distances.
        epsilon: Epsilon for each unit of distance; exact.
        delta: Delta at distance 1; exact. It grows with the distance as in the definition.
        invariants: What is published exactly. The guarantee is between tables with the same values of all of these.
        condition: Further conditions of the guarantee, such as the confidence of a bound; may be empty.
    """

    norm: Norm
    epsilon: Fraction
    delta: Fraction
    invariants: tuple[str, ...]
    condition: str = ""

    def at(self, distance: Fraction | int) -> tuple[Fraction, float]:
        """(epsilon, delta) for two tables at this distance, 1 or more. Delta is rounded up and at most 1."""
        if distance < 1:
            raise BudgetError(
                f"the distance of two tables is {distance}, wanted 1 or more: two different tables of integers are "
                "at a distance of at least 1.",
                code="subspace-parameter",
            )
        if not self.delta:
            return self.epsilon * distance, 0.0
        with precision(_BITS):
            rate = rational(self.epsilon)
            # Group privacy: 1 + e^eps + ... over the unit steps between the tables, as a geometric sum.
            growth = (rate * rational(Fraction(distance))).expm1() / rate.expm1()
            return self.epsilon * distance, min(1.0, round_up(growth * rational(self.delta)))

    def statement(self) -> str:
        """The guarantee in one sentence."""
        unit = f"{at_most(self.epsilon)} for each unit of {self.norm.value} distance"
        rest = f", delta {at_most(self.delta, 3)} at distance 1" if self.delta else ""
        named = named_invariants(self.invariants)
        condition = f" {self.condition}" if self.condition else ""
        return (
            f"epsilon {unit}{rest}, between tables that agree on the invariants ({named}); nothing is promised "
            f"about what the invariants reveal.{condition}"
        )


def laplace_guarantee(
    law: GeneralisedLaplace,
    lattice: Lattice,
    total_variation: Fraction = Fraction(0),
    *,
    restricted: bool = False,
) -> SmoothGuarantee:
    """The guarantee of generalised Laplace noise.

    Noise within total variation t of its law adds (1 + exp(epsilon)) t to delta at distance 1. The growth of delta in
    the definition covers every larger distance (docs/proofs/integer-subspace.md, section 4).

    Args:
        law: Law of the noise.
        lattice: Its constraints are the invariants.
        total_variation: Bound on the distance between the sampler's output and the law.
        restricted: The law is restricted to tables without negative counts, which doubles epsilon.
    Raises:
        BudgetError: the total variation is not in [0, 1).
    Source: Dharangutte et al. 2022, Theorem 10; docs/proofs/integer-subspace.md, section 7.
    """
    if not 0 <= total_variation < 1:
        raise BudgetError(
            f"the total variation distance is {total_variation}, wanted at least 0 and below 1. Run the chain longer."
        )
    delta, epsilon = Fraction(0), 2 * law.epsilon if restricted else law.epsilon
    if total_variation:
        with precision(_BITS):
            # Both laws may be off by the total variation, and the second is multiplied by e^eps.
            added = (1 + rational(epsilon).exp()) * rational(total_variation)
            delta = min(Fraction(round_up(added)), Fraction(1))
    return SmoothGuarantee(law.norm, epsilon, delta, lattice.system.names)


def named_invariants(names: Sequence[str]) -> str:
    """Invariants as part of a sentence: the first few by name, and the number of the others."""
    if not names:
        return "none"
    more = len(names) - _NAMES_SHOWN
    return "; ".join(names[:_NAMES_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def chain_guarantee(
    law: GeneralisedLaplace,
    lattice: Lattice,
    bound: "TotalVariationBound",
    allowed_delta: Fraction,
    *,
    extrapolate: bool = False,
) -> SmoothGuarantee:
    """The guarantee of generalised Laplace noise drawn by a chain. The chain's distance from the law adds to delta.

    Args:
        law: The wanted law.
        lattice: Its constraints are the invariants.
        bound: Bound on the chain's total variation.
        allowed_delta: Largest delta that may be added at distance 1.
        extrapolate: Use the extrapolated bound. Its assumption is then part of the guarantee.
    Raises:
        SolverError: the chain would add a larger delta, so it has not converged.
    Source: docs/subspace.md, "Delta".
    """
    from tallyveil.subspace.diagnostics import require_converged

    nearest = least_distance(lattice, law.norm)
    delta = require_converged(
        bound, law.epsilon, float(allowed_delta), least_distance=nearest, extrapolate=extrapolate
    )
    return SmoothGuarantee(
        law.norm, law.epsilon, Fraction(delta), lattice.system.names, chain_condition(bound, extrapolate)
    )


def chain_condition(bound: "TotalVariationBound", extrapolate: bool) -> str:
    """The condition of a guarantee whose noise is the state of a chain."""
    kind = "extrapolated from" if extrapolate else "measured on"
    return (
        f"The noise is the state of a chain after {bound.sweeps} sweeps; its distance from the law is a bound {kind} "
        f"{bound.pairs} pairs of chains, which holds with {confidence_text(bound.confidence)} confidence provided "
        "that meeting does not become less likely from lag to lag."
    )


def confidence_text(confidence: float) -> str:
    """The confidence as a percentage, rounded down. The float is read as the shortest decimal that prints as it."""
    return f"{at_least(100 * Fraction(str(confidence)), places=3)}%"


def gaussian_delta(
    law: GeneralisedGaussian,
    squared_distance: int,
    delta: Fraction,
    total_variation: Fraction,
    allowed_delta: Fraction | None = None,
) -> tuple[float, Fraction]:
    """(epsilon, delta) of lattice Gaussian noise within a total variation of its law; epsilon is rounded up.

    Delta is exact where the sampler has the law, so that it is shown as it was given; otherwise it is rounded up.

    Args:
        law: The wanted law.
        squared_distance: Squared distance of the protected pairs.
        delta: Delta of the law itself.
        total_variation: Bound on the distance between the sampler's output and the law.
        allowed_delta: Largest amount that the total variation may add to `delta`; None for no limit.
    Raises:
        SolverError: the total variation adds more than allowed.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12; docs/proofs/integer-subspace.md, sections 2 and 4.
    """
    epsilon, _ = upper_bound(IntegerSubspaceGaussian(law.variance, squared_distance), delta)
    added = 0.0
    if total_variation:
        added = delta_with_total_variation(Fraction(epsilon), Fraction(0), total_variation)
    if allowed_delta is not None and added > allowed_delta:
        raise SolverError(
            f"Chain: its law is within total variation distance {at_most(total_variation, 3)} of the target law, "
            f"which adds delta {at_most(added, 3)} at epsilon {at_most(epsilon)}; the allowed delta is "
            f"{at_least(allowed_delta, 3)}. Run more sweeps or more pairs of chains, or raise the allowed delta.",
            code="subspace-not-converged",
        )
    return epsilon, min(Fraction(1), delta + Fraction(added))


def compose_guarantees(guarantees: Sequence[SmoothGuarantee]) -> SmoothGuarantee:
    """The guarantee of several releases of the same table. Epsilons and deltas add, and so do the lists of invariants.

    An l2 guarantee is also an l1 guarantee, since the l1 distance is never below the l2 distance. Guarantees in both
    norms are combined in l1. Post-processing costs nothing.

    Raises:
        BudgetError: no guarantee is given.
    Source: Dharangutte et al. 2022, Propositions 6 and 7.
    """
    if not guarantees:
        raise BudgetError(
            "a composition needs at least one guarantee, and none is given. Leave the composition out."
        )
    norms = {guarantee.norm for guarantee in guarantees}
    names = dict.fromkeys(name for guarantee in guarantees for name in guarantee.invariants)
    conditions = dict.fromkeys(guarantee.condition for guarantee in guarantees if guarantee.condition)
    return SmoothGuarantee(
        norms.pop() if len(norms) == 1 else Norm.L1,
        sum((guarantee.epsilon for guarantee in guarantees), Fraction(0)),
        sum((guarantee.delta for guarantee in guarantees), Fraction(0)),
        tuple(names),
        " ".join(conditions),
    )


def gaussian_rho(law: GeneralisedGaussian, squared_distance: int) -> Fraction:
    """Cost in zero-concentrated privacy between two tables: |x - x'|^2 / (2 variance), in every dimension.

    Source: docs/proofs/integer-subspace.md, section 2.
    """
    return squared_distance / (2 * law.variance)


def event_of(
    law: LatticeLaw,
    lattice: Lattice,
    distance: Fraction | int,
    total_variation: Fraction = Fraction(0),
    *,
    restricted: bool = False,
) -> IntegerSubspaceLaplace | IntegerSubspaceGaussian:
    """The event for the ledger and the accountant.

    Args:
        law: Law of the noise.
        lattice: Its constraints are the invariants.
        distance: Largest distance of two tables to protect. For Laplace laws it is in the law's norm. For the Gaussian
            it is the squared l2 distance, an integer.
        total_variation: Bound on the distance between the sampler's output and the law.
        restricted: The Laplace law is restricted to tables without negative counts.
    """
    names = lattice.system.names
    if isinstance(law, GeneralisedGaussian):
        if Fraction(distance).denominator != 1:
            raise BudgetError(
                f"the squared l2 distance is {distance}, wanted an integer. Round it up.",
                code="subspace-parameter",
            )
        return IntegerSubspaceGaussian(law.variance, int(distance), names, total_variation)
    return IntegerSubspaceLaplace(
        law.epsilon, law.norm.value, Fraction(distance), names, total_variation, restricted
    )


def paper_variance(lattice: Lattice, epsilon: Fraction, delta: Fraction) -> float:
    """The variance that the paper uses, sigma^2 = 2 c ln(1 / delta) / epsilon^2, for comparison only.

    The paper does not determine c. This is the least c that the steps of its proof allow: c >= 3 ln K, and
    2 c / 3 - 1 - 2 m >= m ln c, where m is the dimension and K = 4 2^m V_m / det. This variance grows with the
    dimension, while `gaussian_rho` does not, and its tail bound holds only for "large enough" t.

    Raises:
        BudgetError: not 0 < delta < epsilon < 1 / e.
    Source: Dharangutte et al. 2022, Definition 13, Theorem 14 and its proof.
    """
    if not 0 < delta < epsilon < Fraction(36787944, 10**8):
        raise BudgetError(
            f"epsilon {epsilon} and delta {delta}: the theorem requires 0 < delta < epsilon < 1 / e. Use "
            "gaussian_rho, which holds for all values.",
            code="subspace-parameter",
        )
    m = lattice.dimension
    log_volume = m / 2 * math.log(math.pi) - math.lgamma(m / 2 + 1)
    log_k = math.log(4) + m * math.log(2) + log_volume - math.log(lattice.determinant_squared()) / 2
    c = max(3 * log_k, 1.0)
    while 2 * c / 3 - 1 - 2 * m < m * math.log(c):
        c *= 1.0001
    return 2 * c * math.log(1 / float(delta)) / float(epsilon) ** 2
