"""The guarantee of noise on a lattice, the distance that it rests on, and how far the noise reaches.

The guarantee is smooth differential privacy on the classes of tables with the same invariants. A mechanism M is
(epsilon, delta)-private on these classes if, for tables x and x' at distance r >= 1,

    Pr[M(x) in E] <= exp(epsilon r) Pr[M(x') in E] + (exp(epsilon r) - 1) / (exp(epsilon) - 1) delta.

Source: Dharangutte, Gao, Gong, Yu 2022, Definition 2, Propositions 6 and 7, Theorem 10.

*The distance* (`nearest_tables`, `require_record`). Such a guarantee can promise less than it seems to. If the
declared distance is below what one record moves, it understates the cost of a record. If the invariants forbid every
change of one record, the nearest pairs differ by several. So the distance of the nearest pairs is found, distances
that protect nobody are refused, and what the others protect is said.

*How far the noise reaches* (`tail_bound`): a bound on Pr[|z| >= t] for every t, on a lattice of dimension m, in the
norm of the law. Let Z(e) be the sum of exp(-e |z|) over the lattice. For 0 < s < 1,

    Pr[|z| >= t] <= exp(-(1 - s) e t) Z(s e) / Z(e) <= exp(-(1 - s) e t) s^-m,

and s = m / (e t) gives the least bound, (exp(1) e t / m)^m exp(-e t). For the Gaussian it is (exp(1) t^2 / (m
v))^(m/2) exp(-t^2 / (2 v)). Where s would be 1 or more, the bound is 1. Worked case: nine dimensions and e = 1/4 have
at t = 120 the bound (exp(1) * 30 / 9)^9 exp(-30) = 3.9e-5. Proof: docs/proofs/integer-subspace.md, section 8. Source:
Banaszczyk 1993, Lemma 1.5, for the Gaussian; Dharangutte et al. 2022, Theorems 12 and 15, for `paper_tail`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from tallyveil.accounting.costs import delta_with_total_variation
from tallyveil.accounting.events import IntegerSubspaceGaussian, IntegerSubspaceLaplace, Neighbours
from tallyveil.accounting.numbers import at_least, at_most, round_up
from tallyveil.accounting.proved import upper_bound
from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.balls import precision, rational
from tallyveil.subspace.constraints import StructureKind
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm, size_at

if TYPE_CHECKING:
    from tallyveil.subspace.diagnostics import TotalVariationBound

CODE = "subspace-distance"


@dataclass(frozen=True, slots=True)
class NearestTables:
    """The nearest two different tables with the same invariants, by the size that a law measures.

    Attributes:
        at_least: Lower bound on the l1 norm, and on the squared l2 norm, of every nonzero lattice vector.
        smallest: Size of the smallest known lattice vector: its l1 norm or squared l2 norm, whichever the law measures.
        one_record: Whether some change of one record leaves the invariants unchanged.
    """

    at_least: int
    smallest: int
    one_record: bool


def nearest_tables(lattice: Lattice, law: LatticeLaw, neighbours: Neighbours) -> NearestTables:
    """How near two different tables can be, and whether such a pair can be neighbours.

    Adding or removing a record changes one cell, which must be free of constraints. A record that changes its cell
    takes one from a cell and adds one to another. The columns of these two cells in the constraints must be equal.
    """
    structure, columns = lattice.structure, abs(lattice.sparse_basis)
    alike = structure.free.size > 1 or any(block.size > 1 for block in structure.blocks)
    sizes = columns.multiply(columns) if law.squares else columns
    return NearestTables(
        least_size(lattice),
        int(np.asarray(sizes.sum(axis=0)).min()),
        alike if neighbours is Neighbours.BOUNDED else bool(structure.free.size),
    )


def least_size(lattice: Lattice) -> int:
    """A lower bound on the l1 norm, and therefore on the squared l2 norm, of every lattice vector except zero.

    A vector of norm 1 changes one cell by one. It keeps the invariants only if none of them names the cell. If there is
    no such cell, a vector of norm 2 changes two cells by one each, and their columns in the constraints are equal or
    opposite. If every vector of the basis has an even sum, every lattice vector has an even sum, and so an even norm.
    The squared l2 norm of an integer vector is never below its l1 norm.
    """
    structure = lattice.structure
    if structure.free.size:
        return 1
    # A change of one cell needs another in its row, and both need another in their columns: four cells.
    if structure.kind is StructureKind.TWO_WAY:
        return 4
    seen = {column.tobytes() for column in structure.columns.T}
    opposite = any((-column).tobytes() in seen for column in structure.columns.T)
    if opposite or any(block.size > 1 for block in structure.blocks):
        return 2
    # The l1 norm has the parity of the sum, so without odd sums there is no vector of norm 3.
    odd = (np.asarray(lattice.sparse_basis.sum(axis=0)) % 2).any()
    return 3 if odd else 4


def least_distance(lattice: Lattice, norm: Norm) -> float:
    """A lower bound on the distance of two different tables that agree on the invariants."""
    size = least_size(lattice)
    # It is a lower bound, so the root is rounded down by more than its error.
    return float(size) if norm is Norm.L1 or size == 1 else math.sqrt(size) * (1 - 1e-15)


def require_record(law: LatticeLaw, distance: Fraction, neighbours: Neighbours) -> None:
    """Refuse a distance smaller than the distance of two neighbours.

    Args:
        law: Law of the noise.
        distance: Distance of the protected pairs, in the law's norm; squared for the Gaussian.
        neighbours: The relation under which the budget is declared.
    Raises:
        BudgetError: two neighbours are farther apart.
    """
    moved = neighbours.answers_moved
    if size_at(law, distance) < moved:
        act = "changes its cell" if neighbours is Neighbours.BOUNDED else "is added or removed"
        raise BudgetError(
            f"the distance is {distance}, but under {neighbours.value} neighbours a record that {act} moves the "
            f"table by {_in_words(law, moved)}. At a smaller distance the declared budget would be lower than the "
            f"privacy loss of one record. Wanted {_in_words(law, moved)} or more; nothing was read.",
            code=CODE,
        )


def require_pairs(lattice: Lattice, law: LatticeLaw, distance: Fraction) -> None:
    """Refuse a distance at which no two tables agree on the invariants, so that nobody would be protected.

    Raises:
        BudgetError: every two tables that agree are farther apart.
    """
    least = least_size(lattice)
    if size_at(law, distance) < least:
        raise BudgetError(
            f"the distance is {distance}, but two different tables that agree on the invariants are at least "
            f"{_in_words(law, least)} apart: the guarantee would protect nobody. Wanted {_in_words(law, least)} or "
            "more, or fewer invariants; nothing was read.",
            code=CODE,
        )


def protected(
    nearest: NearestTables,
    law: LatticeLaw,
    distance: Fraction,
    neighbours: Neighbours,
    largest: int | None = None,
) -> str:
    """Whom the guarantee protects, in sentences.

    Args:
        nearest: The nearest tables for the lattice and the law.
        law: Law of the noise.
        distance: Distance of the protected pairs, in the law's norm; squared for the Gaussian.
        neighbours: The relation under which the budget is declared.
        largest: Largest count of a table, a larger one of which is refused; None for no bound.
    """
    between = "" if largest is None else f"The guarantee is between tables with counts from 0 to {largest}. "
    if nearest.one_record:
        limit = "" if largest is None else f" and no count above {largest}"
        return (
            f"{between}The guarantee covers the change of one record wherever that leaves the invariants as they "
            f"are{limit}."
        )
    # Rounded up, and never one: that case has returned above.
    records = max(2, -(-nearest.at_least // neighbours.answers_moved))
    said = (
        f"{between}The guarantee is not about one record: no change of one record moves these counts and leaves the "
        "invariants as they are. The nearest tables that agree on them are at least "
        f"{_in_words(law, nearest.at_least)} apart, which takes {records} records or more together."
    )
    if nearest.at_least > size_at(law, distance):
        said += " None are within the distance stated, so by itself this noise protects nobody."
    elif nearest.smallest > size_at(law, distance):
        said += (
            f" The nearest known are {_in_words(law, nearest.smallest)} apart, beyond the distance stated; whether any "
            "lie within it is not known."
        )
    return said


def _in_words(law: LatticeLaw, size: int) -> str:
    if isinstance(law, GeneralisedGaussian):
        return f"squared l2 distance {size}"
    return f"l2 distance sqrt({size})" if law.takes_root and size > 1 else f"{law.norm.value} distance {size}"


_TAIL_BITS = 128
"""Bits of ball arithmetic, far more than the 53 of the floats that are printed."""


def tail_bound(law: LatticeLaw, dimension: int, t: Fraction) -> float:
    """An upper bound on the probability that the norm of the noise is t or more, rounded up. It holds for every t."""
    gaussian = isinstance(law, GeneralisedGaussian)
    power = Fraction(dimension, 2) if gaussian else Fraction(dimension)
    reach = t * t * law.rate if gaussian else t * law.rate
    # Up to here the least of the bound over its free parameter is at the end of its range, which says 1.
    if reach <= power:
        return 1.0
    with precision(_TAIL_BITS):
        log = rational(power) * (1 + rational(reach / power).log()) - rational(reach)
        return min(1.0, round_up(log.exp()))


def tail_radius(law: LatticeLaw, dimension: int, probability: Fraction) -> int:
    """The least whole t at which `tail_bound` is at most the probability."""
    low, high = 0, 1
    # The bound never rises with t, so doubling and bisection find the least whole t.
    while tail_bound(law, dimension, Fraction(high)) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if tail_bound(law, dimension, Fraction(middle)) <= probability else (middle, high)
        )
    return high


def paper_tail(law: LatticeLaw, lattice: Lattice, t: Fraction) -> float:
    """The paper's bound, K t^m exp(-e t) or K t^m exp(-t^2 / (2 v)), which it states for the l2 norm.

    It is no certified bound: the paper proves it for "large enough" t, and does not say how large that is.
    """
    m = lattice.dimension
    factor = 2 if isinstance(law, GeneralisedGaussian) else 4
    with precision(_TAIL_BITS):
        volume = arb.pi() ** (arb(m) / 2) / (arb(m) / 2 + 1).gamma()
        constant = factor * arb(2) ** m * volume / arb(lattice.determinant_squared()).sqrt()
        reach = t * t * law.rate if isinstance(law, GeneralisedGaussian) else t * law.rate
        bound = constant * rational(t) ** m * (-rational(reach)).exp()
        return math.inf if not bound.is_finite() else float(bound.mid())


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
            # Before the fraction: e^eps may be no float.
            delta = Fraction(min(round_up(added), 1.0))
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
    event = IntegerSubspaceGaussian(law.variance, squared_distance)
    # One release moves the same table under every relation.
    epsilon, _ = upper_bound(event, Neighbours.UNBOUNDED, delta)
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
