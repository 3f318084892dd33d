"""The exact privacy profile of lattice Gaussian noise for one pair of tables.

Problem. Two tables differ by v. At noise z the privacy loss is (|v|^2 - 2 <z, v>) / (2 variance). So the profile needs
only the law of the integer <z, v>.

Steps. There are two methods.
- If block sums vanish: convolution. Cells of a block with the same entry of v contribute through their sum,
  for which there are certified tables.
- Otherwise, for small lattices: a list of all vectors up to a length R. The mass beyond R is bounded: for the
  Gram-Schmidt vectors b* of a basis and any s in (0, 1), the sum of exp(-a |z|^2) over |z| > R is at most

      exp(-(1 - s) a R^2) prod_j (1 + sqrt(pi / (s a)) / |b*_j|).

  This holds coordinate by coordinate, because a sum of exp(-a (k + shift)^2) over the integers k is largest for shift 0
  (Poisson summation).
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.accounting.numbers import Bounds, round_up
from tallyveil.errors import BudgetError, ConstraintError
from tallyveil.noise.balls import between_zero_and, precision, rational
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.lattice import Lattice, flint_matrix, gram_schmidt, lll_reduced
from tallyveil.subspace.mechanisms import GeneralisedGaussian

_BITS = 192
"""Bits of ball arithmetic. Balls carry their rounding errors, so fewer bits would make results looser, never wrong."""
_MOST_TERMS = 4_000_000
"""Most entries of one product of distributions. Pairs that need more are refused."""
_MOST_LISTED = 4_000_000
"""Most points of the box that is searched for short lattice vectors. Pairs that need more are refused."""
_MOST_LISTED_DIMENSION = 12
"""Dimension above which no list is tried: even 4 values for each coordinate would be 4**12, 16 million points."""
_LISTED_NATS = 40.0
"""The weight omitted from a list is at most exp(-40), about 4e-18, relative to that of the vector 0."""


@dataclass(frozen=True, slots=True, eq=False)
class PairProfile:
    """Privacy losses between two tables under lattice Gaussian noise. Made by `pair_profile`.

    Attributes:
        variance: Variance parameter of the noise.
        squared_distance: |v|^2.
        inner: The listed values of <z, v>, ascending.
        masses: Their probabilities, as balls that include all errors.
        left_out: Upper bound on the probability of all other values.
    """

    variance: Fraction
    squared_distance: int
    inner: tuple[int, ...]
    masses: tuple[arb, ...]
    left_out: arb

    def delta(self, epsilon: Fraction) -> Bounds:
        """Lower and upper bound on the smallest delta that holds with this epsilon for this pair."""
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
        """The Renyi divergence at an integer order above 1, for comparison with rho * order.

        It is computed from below: values whose probability is not certainly above 0 are omitted.
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
        lattice: A lattice whose block sums all vanish (`Structure.sums_vanish`). Any other lattice may have up to about
            4 million vectors within the radius that contains nearly all of the mass (for example, dimension 4 at a
            variance of 4).
        law: The Gaussian law.
        difference: v, a nonzero lattice vector.
    Raises:
        ConstraintError: v is zero or not in the lattice, so the tables are equal or have different invariants.
        BudgetError: v changes the cells of a block by too many different counts, or the lattice is too large to list.
    """
    v = np.asarray(difference, dtype=np.int64)
    if not lattice.contains(v):
        raise ConstraintError(
            "Pair of tables: their difference is not in the lattice, so they do not agree on the invariants, and "
            "the guarantee does not cover them. Give two tables that agree on the invariants.",
            code="subspace-pair",
        )
    if not v.any():
        raise ConstraintError(
            "Pair of tables: their difference is zero, so they are the same table. Give two tables that differ.",
            code="subspace-pair",
        )
    inner, left_out = (
        _by_sums(lattice, law, v) if lattice.structure.sums_vanish else _by_listing(lattice, law, v)
    )
    ordered = sorted(inner)
    return PairProfile(law.variance, int(v @ v), tuple(ordered), tuple(inner[t] for t in ordered), left_out)


def _by_sums(
    lattice: Lattice, law: GeneralisedGaussian, v: npt.NDArray[np.int64]
) -> tuple[dict[int, arb], arb]:
    """(probability of each <z, v>, bound on the omitted probability), if block sums vanish."""
    with precision(_BITS + 64):
        inner, error = _inner_products(SumLaws(DiscreteGaussian(law.variance)), lattice, v)
        held = sum(inner.values(), arb(0)) - len(inner) * error
        return {t: mass + arb(0, error) for t, mass in inner.items()}, 1 - held


def _by_listing(
    lattice: Lattice, law: GeneralisedGaussian, v: npt.NDArray[np.int64]
) -> tuple[dict[int, arb], arb]:
    """The result of `_by_sums` for small lattices, from a list of all lattice vectors up to a length."""
    basis = _short_basis(lattice)
    squares = [float(square) for square in gram_schmidt(basis)[1]]
    with precision(_BITS):
        squared_radius, outside = _radius(squares, law.variance)
        vectors = _within(basis, squared_radius)
        sizes, counts = np.unique(
            np.column_stack([vectors @ v, (vectors * vectors).sum(axis=1)]), axis=0, return_counts=True
        )
        weights: dict[int, arb] = defaultdict(lambda: arb(0))
        for (t, size), n in zip(sizes.tolist(), counts.tolist(), strict=True):
            weights[t] += n * rational(Fraction(-size) / (2 * law.variance)).exp()
        inside = sum(weights.values(), arb(0))
        whole = inside + between_zero_and(outside)
        return {t: weight / whole for t, weight in weights.items()}, outside / inside


def _short_basis(lattice: Lattice) -> npt.NDArray[np.int64]:
    if lattice.dimension > _MOST_LISTED_DIMENSION:
        raise BudgetError(
            f"Profile of a pair: '{lattice.structure.kind.value}' of dimension {lattice.dimension}. Lattice vectors "
            f"can be listed up to dimension {_MOST_LISTED_DIMENSION}. Use rho, which holds for every pair and "
            "lattice.",
            code="subspace-too-large",
        )
    reduced = lll_reduced(lattice.sparse_basis)
    return np.asarray((lattice.sparse_basis if reduced is None else reduced).toarray(), dtype=np.int64)


def _radius(squares: list[float], variance: Fraction) -> tuple[int, arb]:
    """(R^2, bound on the weight beyond it), for the smallest R^2 over a grid of s."""
    least: tuple[int, arb] | None = None
    for step in range(1, 16):
        s = Fraction(step, 16)
        # The rounding errors of the floats are much smaller than this reduction.
        # Shorter vectors make the volume, and with it the bound, larger: the reduction is on the safe side.
        roots = [arb(square * (1 - 1e-9)).sqrt() for square in squares]
        width = (2 * arb.pi() * rational(variance / s)).sqrt()
        volume = arb(1)
        for root in roots:
            volume *= 1 + width / root
        nats = float(volume.log()) + _LISTED_NATS
        squared = math.ceil(2 * float(variance) * nats / float(1 - s))
        beyond = volume * rational(-(1 - s) * squared / (2 * variance)).exp()
        if least is None or squared < least[0]:
            least = squared, beyond.abs_upper()
    assert least is not None
    return least


def _within(basis: npt.NDArray[np.int64], squared_radius: int) -> npt.NDArray[np.int64]:
    """All lattice vectors with |z|^2 at most R^2. Coefficient j is at most R times the length of dual vector j."""
    gram = flint_matrix(basis.T @ basis)
    inverse = gram.inv()
    # Gram matrix and inverse are exact fractions, so no vector within R is missed by rounding.
    bounds = [
        math.isqrt(squared_radius * int(inverse[j, j].p) // int(inverse[j, j].q))
        for j in range(basis.shape[1])
    ]
    if math.prod(2 * bound + 1 for bound in bounds) > _MOST_LISTED:
        raise BudgetError(
            f"Profile of a pair: a list of all lattice vectors up to length {math.sqrt(squared_radius):.3g} in "
            f"dimension {basis.shape[1]} is too long. Use rho, which holds for every pair and lattice.",
            code="subspace-too-large",
        )
    vectors = np.zeros((1, basis.shape[0]), dtype=np.int64)
    for j, bound in enumerate(bounds):
        steps = np.arange(-bound, bound + 1)[:, None] * basis[:, j]
        vectors = (vectors[:, None, :] + steps[None, :, :]).reshape(-1, basis.shape[0])
    return np.asarray(vectors[(vectors * vectors).sum(axis=1) <= squared_radius], dtype=np.int64)


def _inner_products(laws: SumLaws, lattice: Lattice, v: npt.NDArray[np.int64]) -> tuple[dict[int, arb], arb]:
    """(probability of each <z, v>, an additional error of each beyond its ball)."""
    result: dict[int, arb] = {0: arb(1)}
    for block in lattice.structure.blocks:
        touched = [int(c) for c in v[block] if c]
        if touched:
            result = _added(result, _of_block(laws, touched, int(block.size)))
    for cell in lattice.structure.free:
        if v[cell]:
            table = laws.table(1)
            unit = arb(2) ** -table.bits
            law = {int(v[cell]) * s: table.at(s) * unit for s in range(-table.reach, table.reach + 1)}
            result = _added(result, law)
    # Each of at most 2**25 terms is off by at most 2**-180; the probability of a zero sum is above 2**-40.
    return result, arb(2) ** -100


def _of_block(laws: SumLaws, touched: list[int], n: int) -> dict[int, arb]:
    """Law of the sum of c_i z_i over the touched cells, given that all n cells sum to zero."""
    bits = laws.table(1).bits
    joint: dict[tuple[int, int], int] = {(0, 0): 1 << bits}
    alike = Counter(touched)
    for c, cells in alike.items():
        table = laws.table(cells)
        reach = _kept_reach(table.reach, len(alike))
        if len(joint) * (2 * reach + 1) > _MOST_TERMS:
            raise BudgetError(
                f"Profile of a pair: the pair differs in one block by {len(alike)} different counts, too many to "
                "list with this variance. Use rho, which holds for every pair.",
                code="subspace-too-large",
            )
        after: dict[tuple[int, int], int] = defaultdict(int)
        for (t, s), mass in joint.items():
            for x in range(-reach, reach + 1):
                after[t + c * x, s + x] += mass * table.at(x)
        # Back to fixed point at 2**-bits. Rounding down only loses mass, which `_by_sums` counts as omitted.
        joint = {key: mass >> bits for key, mass in after.items() if mass >> bits}
    rest = n - len(touched)
    whole = laws.table(n).at(0)
    out: dict[int, int] = defaultdict(int)
    for (t, s), mass in joint.items():
        other = laws.table(rest).at(-s) if rest else int(s == 0) << bits
        out[t] += mass * other
    return {t: arb(mass) / arb(whole) * arb(2) ** -bits for t, mass in out.items() if mass}


def _kept_reach(reach: int, n: int) -> int:
    return max(1, math.ceil(reach * (0.75 if n > 2 else 1.0)))


def _added(left: dict[int, arb], right: dict[int, arb]) -> dict[int, arb]:
    if len(left) * len(right) > _MOST_TERMS:
        raise BudgetError(
            "Profile of a pair: the pair differs in too many blocks to list. Use rho, which holds for every pair.",
            code="subspace-too-large",
        )
    out: dict[int, arb] = {}
    for t, mass in left.items():
        for u, other in right.items():
            out[t + u] = out.get(t + u, arb(0)) + mass * other
    return out
