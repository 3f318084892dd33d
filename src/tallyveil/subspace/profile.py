"""The exact privacy profile of lattice Gaussian noise for one pair of tables.

For tables that differ by v the loss at noise z is (|v|^2 - 2 <z, v>) / (2 variance), so the profile needs the law of
the whole number <z, v> only. Two ways give it: where block sums vanish, by convolution over the cells that v
touches, the other cells entering through certified tables of sums; else by listing the lattice vectors of a box,
with the mass outside bounded.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.rounding import round_up
from tallyveil.errors import BudgetError, ConstraintError
from tallyveil.noise.balls import between_zero_and, precision, rational
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian

_BITS = 192
_MOST_TERMS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PairProfile:
    """Losses between two tables under lattice Gaussian noise. Made by `pair_profile`.

    Attributes:
        variance: Of the noise.
        squared_distance: |v|^2.
        inner: The values of <z, v> held, ascending.
        masses: Their probabilities, as balls that hold all errors.
        left_out: A bound of the probability of all other values.
    """

    variance: Fraction
    squared_distance: int
    inner: tuple[int, ...]
    masses: tuple[arb, ...]
    left_out: arb

    def delta(self, epsilon: Fraction) -> Bounds:
        """The smallest delta that holds with this epsilon for this pair, from both sides."""
        with precision(_BITS):
            total = arb(0)
            for t, mass in zip(self.inner, self.masses, strict=True):
                loss = Fraction(self.squared_distance - 2 * t) / (2 * self.variance)
                if loss > epsilon:
                    total = total - mass * rational(epsilon - loss).expm1()
            whole = total + between_zero_and(self.left_out)
            upper = min(1.0, round_up(whole))
            return Bounds(min(max(0.0, -round_up(-whole)), upper), upper)

    def renyi(self, order: int) -> float:
        """The Renyi divergence at a whole order above 1, for checks against rho * order.

        From below: values whose probability is not surely above 0 are left out.
        """
        with precision(_BITS):
            total = arb(0)
            for t, mass in zip(self.inner, self.masses, strict=True):
                if not mass > 0:
                    continue
                loss = Fraction(self.squared_distance - 2 * t) / (2 * self.variance)
                total = total + mass.mid() * rational((order - 1) * loss).exp()
            return float(total.log() / (order - 1))


def pair_profile(lattice: Lattice, law: GeneralisedGaussian, difference: npt.ArrayLike) -> PairProfile:
    """The exact losses between tables that differ by a vector.

    Args:
        lattice: Whose block sums all vanish (`Structure.sums_vanish`).
        law: Gaussian.
        difference: v, a nonzero lattice vector.
    Raises:
        ConstraintError: v is not in the lattice: the tables do not agree on the invariants.
        BudgetError: v is zero, the structure is not of that kind, or v touches too many cells for its size.
    """
    v = np.asarray(difference, dtype=np.int64)
    if not lattice.contains(v):
        raise ConstraintError(
            "Pair of tables: their difference is not in the lattice, so they do not agree on the invariants, and "
            "nothing is promised between them. Give a pair that agrees.",
            code="subspace-pair",
        )
    if not v.any() or not lattice.structure.sums_vanish:
        raise BudgetError(
            f"Profile of a pair: needs a nonzero difference and sums over blocks of cells, and this is "
            f"'{lattice.structure.kind.value}'. Use rho, which holds for every pair and lattice.",
            code="subspace-no-law",
        )
    laws = SumLaws(DiscreteGaussian(law.variance))
    with precision(_BITS + 64):
        inner, error = _inner_products(laws, lattice, v)
        ordered = sorted(inner)
        masses = tuple(inner[t] + arb(0, error) for t in ordered)
        held = sum((inner[t] for t in ordered), arb(0)) - len(ordered) * error
        left_out = 1 - held
    return PairProfile(law.variance, int(v @ v), tuple(ordered), masses, left_out)


def _inner_products(laws: SumLaws, lattice: Lattice, v: npt.NDArray[np.int64]) -> tuple[dict[int, arb], arb]:
    """(probability of each <z, v>, an error that each may have beyond its ball)."""
    result: dict[int, arb] = {0: arb(1)}
    for block in lattice.structure.blocks:
        touched = [int(c) for c in v[block] if c]
        if touched:
            result = _added(result, _of_block(laws, touched, int(block.size)))
    for cell in lattice.structure.free:
        if v[cell]:
            table = laws.table(1)
            unit = arb(2) ** -table.bits
            one = {int(v[cell]) * s: table.at(s) * unit for s in range(-table.reach, table.reach + 1)}
            result = _added(result, one)
    # Each of at most 2**25 terms is off by 2**-180 or less, over a probability of a zero sum above 2**-40.
    return result, arb(2) ** -100


def _of_block(laws: SumLaws, touched: list[int], n: int) -> dict[int, arb]:
    """Law of sum of c_i z_i over the touched cells, given that all n cells sum to zero."""
    single = laws.table(1)
    joint: dict[tuple[int, int], int] = {(0, 0): 1 << single.bits}
    kept = _kept_reach(single.reach, len(touched))
    for c in touched:
        if len(joint) * (2 * kept + 1) > _MOST_TERMS:
            raise BudgetError(
                f"Profile of a pair: it moves {len(touched)} cells of one block, too many to list with this variance. "
                "Use rho, which holds for every pair.",
                code="subspace-too-large",
            )
        after: dict[tuple[int, int], int] = defaultdict(int)
        for (t, s), mass in joint.items():
            for x in range(-kept, kept + 1):
                after[t + c * x, s + x] += mass * single.at(x)
        joint = {key: mass >> single.bits for key, mass in after.items() if mass >> single.bits}
    rest = n - len(touched)
    whole = laws.table(n).at(0)
    out: dict[int, int] = defaultdict(int)
    for (t, s), mass in joint.items():
        other = laws.table(rest).at(-s) if rest else int(s == 0) << single.bits
        out[t] += mass * other
    return {t: arb(mass) / arb(whole) * arb(2) ** -single.bits for t, mass in out.items() if mass}


def _kept_reach(reach: int, n: int) -> int:
    return max(1, math.ceil(reach * (0.75 if n > 2 else 1.0)))


def _added(left: dict[int, arb], right: dict[int, arb]) -> dict[int, arb]:
    if len(left) * len(right) > _MOST_TERMS:
        raise BudgetError(
            "Profile of a pair: it moves too many blocks to list. Use rho, which holds for every pair.",
            code="subspace-too-large",
        )
    out: dict[int, arb] = {}
    for t, mass in left.items():
        for u, other in right.items():
            out[t + u] = out.get(t + u, arb(0)) + mass * other
    return out
