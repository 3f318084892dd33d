"""The lattice Gaussian on any lattice, by nearest planes with rejection.

Problem. Wanted are lattice vectors z with probability proportional to exp(-|z|^2 / (2 variance)).

Variables. b_1 .. b_m is a basis and b*_i its orthogonalised (Gram-Schmidt) form. s_i^2 = variance / |b*_i|^2. rho_i(c)
is the sum of exp(-(x - c)^2 / (2 s_i^2)) over all integers x, and rho_i = rho_i(0).

Steps. Coefficients are drawn from the last to the first. The later coefficients determine a centre c for coefficient
i. The coefficient is x with probability exp(-(x - c)^2 / (2 s_i^2)) / rho_i. By Poisson summation rho_i(c) is at most
rho_i; with the remaining probability the trial fails. So a trial gives the vector z with probability exactly
exp(-|z|^2 / (2 variance)) / (product of the rho_i).

Stopping rule. Trials are repeated until one succeeds (`TrialSampler`). A trial succeeds with probability at least the
product of rho_i(1/2) / rho_i, which is computed, and is near 1 if every s_i is above about 1. Worked case: s_i^2 = 1/4
has rho_i = 1.271 and rho_i(1/2) = 1.235. With centre 1/2 the coefficient fails with probability 0.03, and with s_i^2 =
1 with 1e-8.

*The basis in closed form* (`tensor_orthogonalised`), where a table of n_1 x ... x n_k cells keeps the sums of all its
lines, which are cells that differ in one attribute alone. The integers with sum zero have the basis a_i = e_i -
e_(i+1), of which the Gram-Schmidt form is a*_i = a_i + ((i - 1) / i) a*_(i-1), with |a*_i|^2 = (i + 1) / i. The tensor
products of the a_i are a basis of the table's lattice, and those of the a*_i its Gram-Schmidt form. A centre then
depends on at most 2^k - 1 later coefficients, with the denominator (i_1 + 1) ... (i_k + 1). For a general lattice the
form takes the cube of the dimension, and its fractions grow.

Source: Brakerski, Langlois, Peikert, Regev, Stehle 2013, Lemma 2.3 (Theorem 16 of Dharangutte et al. 2022), after
Gentry, Peikert, Vaikuntanathan 2008. There the rejection comes at the end; here each coefficient has its own.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import arb

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.noise.balls import between_zero_and, precision, rational
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import ChoiceTable, NoiseAddress
from tallyveil.subspace.exact.sampler import MOST_TRIALS_AT_ONCE
from tallyveil.subspace.lattice import Lattice, gram_schmidt, lll_reduced

LEAST_ATTRIBUTES: Final = 3
"""Tables of two attributes have faster samplers."""


@dataclass(frozen=True, slots=True, eq=False)
class Orthogonalised:
    """A basis with its exact Gram-Schmidt form, as far as nearest planes need it.

    Attributes:
        basis: Sparse int64 [n_cells, m].
        later: For each coefficient i, the later coefficients j on which its centre depends, and the factors mu[j][i]
            times the denominator of i.
        denominators: One for each coefficient.
        squares: |b*_i|^2.
    """

    basis: Any
    later: tuple[tuple[Integers, Any], ...]
    denominators: tuple[int, ...]
    squares: tuple[Fraction, ...]


def tensor_shape(lattice: Lattice) -> tuple[int, ...] | None:
    """The numbers of levels of three or more attributes whose lines all sum to zero, or None for any other lattice."""
    for shape in _shapes(lattice.n_cells, lattice.dimension):
        # Dimensions agree and the basis keeps the invariants: the two lattices are then the same.
        if not (lattice.system.matrix @ _tensor_basis(shape)).count_nonzero():
            return shape
    return None


def tensor_orthogonalised(shape: tuple[int, ...]) -> Orthogonalised:
    """The basis of a table of this shape, and its Gram-Schmidt form."""
    places = list(product(*(range(1, n) for n in shape)))
    strides = [math.prod(n - 1 for n in shape[axis + 1 :]) for axis in range(len(shape))]
    later, denominators, squares = [], [], []
    for number, place in enumerate(places):
        indices, factors = [], []
        for moves in product((0, 1), repeat=len(shape)):
            if any(moves) and all(i + move < n for i, move, n in zip(place, moves, shape, strict=True)):
                indices.append(
                    number + sum(move * stride for move, stride in zip(moves, strides, strict=True))
                )
                factors.append(math.prod(-i if move else i + 1 for i, move in zip(place, moves, strict=True)))
        later.append((np.array(indices, dtype=np.int64), np.array(factors, dtype=np.int64)))
        denominators.append(math.prod(i + 1 for i in place))
        squares.append(math.prod((Fraction(i + 1, i) for i in place), start=Fraction(1)))
    return Orthogonalised(_tensor_basis(shape), tuple(later), tuple(denominators), tuple(squares))


def _tensor_basis(shape: tuple[int, ...]) -> Any:
    """Sparse int64 [n_cells, m]."""
    basis: Any = sp.eye_array(1, dtype=np.int64, format="csc")
    for n in shape:
        differences = sp.diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, -1], shape=(n, n - 1))
        basis = sp.kron(basis, differences.astype(np.int64), format="csc")
    return basis


def _shapes(n_cells: int, dimension: int) -> Iterator[tuple[int, ...]]:
    """All shapes with these numbers of cells and of basis vectors, of three attributes or more."""

    def of(cells: int, vectors: int) -> Iterator[tuple[int, ...]]:
        if cells == 1 and vectors == 1:
            yield ()
        for n in range(2, cells + 1):
            if cells % n == 0 and vectors % (n - 1) == 0:
                for rest in of(cells // n, vectors // (n - 1)):
                    yield (n, *rest)

    for shape in of(n_cells, dimension):
        if len(shape) >= LEAST_ATTRIBUTES:
            yield shape


_FIRST_CANDIDATES_BITS = 72
"""Candidates around a centre reach so far that all others together have about 2**-72 of the mass."""
_WORTH_A_TABLE = 256  # draws around one centre
_FLOAT_ERROR = 1e-12
"""Bound on the error of a boundary in floats: sums of up to 1e3 terms, each right to 1e-13 of itself, that add up to
1."""
_MOST_IN_FLOATS = 1000
"""Terms of one sum in floats, which `_FLOAT_ERROR` assumes. Wider laws are not drawn in floats."""


@dataclass(frozen=True, slots=True, eq=False)
class NearestPlanesProposal:
    """Trials of a lattice Gaussian. Made by `nearest_planes`.

    Attributes:
        laws: Laws of sums of the integer Gaussian with the same variance.
        form: The basis and its Gram-Schmidt form.
        variances: s_i^2.
        least_acceptance: Lower bound on the probability that a trial succeeds.
    """

    laws: SumLaws
    form: Orthogonalised
    variances: tuple[Fraction, ...]
    least_acceptance: float
    _tables: dict[tuple[int, int], ChoiceTable] = field(default_factory=dict, repr=False)

    @property
    def always_accepts(self) -> bool:
        """Whether no trial fails. This holds only if the basis is orthogonal."""
        return not any(indices.size for indices, _ in self.form.later)

    @property
    def trials_at_once(self) -> int:
        """Largest number of trials of one draw that are worth making together."""
        return 1 if self.always_accepts else MOST_TRIALS_AT_ONCE

    def trials(
        self, address: NoiseAddress, draws: Integers, first_trial: int, n_trials: int
    ) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Trials of each draw from first_trial: (vectors [n * n_trials, n_cells], whether each succeeded)."""
        m = len(self.variances)
        words, rows, sites = address.trial_numbers(draws, first_trial, n_trials, m + m % 2)
        coefficients = np.zeros((rows.size, m), dtype=np.int64)
        accepted = np.ones(rows.size, dtype=np.bool_)
        for i in range(m - 1, -1, -1):
            (alive,) = np.nonzero(accepted)
            denominator, (indices, factors) = self.form.denominators[i], self.form.later[i]
            # The centre is minus `scaled` over the denominator.
            scaled = coefficients[np.ix_(alive, indices)].astype(factors.dtype) @ factors
            whole = scaled // denominator
            residues = scaled - whole * denominator

            def digits(place: int, level: int = i, places: Integers = alive) -> Iterator[int]:
                row = places[place]
                return address.all_digits(int(rows[row]), int(sites[row]) + level)

            column = self._coefficients(i, residues, words[alive, i], digits)
            accepted[alive[column == _FAILED]] = False
            coefficients[alive, i] = column - whole.astype(np.int64)
        coefficients[~accepted] = 0
        return np.asarray((self.form.basis @ coefficients.T).T), accepted

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass: the product of the rho_i.

        The argument `single` is not used.
        """
        total = arb(1)
        with precision(bits + 32):
            for variance, n in Counter(self.variances).items():
                total = total * _theta(variance, Fraction(0), bits) ** n
        return total

    def _coefficients(
        self,
        i: int,
        residues: npt.NDArray[Any],
        words: npt.NDArray[np.uint64],
        digits: Callable[[int], Iterator[int]],
    ) -> Integers:
        out = np.empty(residues.size, dtype=np.int64)
        values, groups, counts = np.unique(residues, return_inverse=True, return_counts=True)
        tabled = np.array([(i, residue) in self._tables for residue in values.tolist()], dtype=np.bool_)
        # A table takes as long as hundreds of outcomes in floats, of which hardly any need the table in the end.
        rare = ~tabled & (counts < _WORTH_A_TABLE)
        rare &= _n_candidates(self.variances[i], _FIRST_CANDIDATES_BITS) <= _MOST_IN_FLOATS
        (quick,) = np.nonzero(rare[groups])
        if quick.size:
            parts = residues[quick].astype(np.float64) / self.form.denominators[i]
            out[quick] = self._in_floats(i, parts, words[quick])
        known = np.zeros(residues.size, dtype=np.bool_)
        known[quick] = out[quick] != _UNDECIDED
        for g in np.unique(groups[~known]).tolist():
            (places,) = np.nonzero(~known & (groups == g))
            out[places] = self._around(i, int(values[g]), words[places], _at(digits, places))
        return out

    def _in_floats(self, i: int, parts: Floats, words: npt.NDArray[np.uint64]) -> Integers:
        """Coefficients around the centres -parts, 0 <= parts < 1, where floats are sure of them.

        The order of the outcomes is that of `_table`, so an outcome does not depend on how it was found. It is sure if
        the uniform number is further from all boundaries than they may be off.
        """
        variance = self.variances[i]
        n = _n_candidates(variance, _FIRST_CANDIDATES_BITS)
        nearest = np.where(parts > 0.5, -1, 0)
        step = np.where((parts > 0) & (parts <= 0.5), -1, 1)
        k = np.arange(n)
        candidates = nearest[:, None] + step[:, None] * np.where(k % 2 == 1, (k + 1) // 2, -(k // 2))
        away = candidates + parts[:, None]
        rho = float(_theta(variance, Fraction(0), 96))
        bounds = np.cumsum(np.exp(-away * away / (2 * float(variance))), axis=1) / rho
        uniform = words.astype(np.float64) * 2.0**-64
        picks = (bounds <= uniform[:, None]).sum(axis=1)
        sure = (np.abs(bounds - uniform[:, None]) > _FLOAT_ERROR).all(axis=1)
        # Two candidates are equally near to a centre in the middle, which a rounded part might miss.
        sure &= (np.abs(parts - 0.5) > 1e-12) | (parts == 0.5)
        sure &= (picks < n) | (not _never_fails(variance, _FIRST_CANDIDATES_BITS))
        picked = np.append(candidates, np.full((parts.size, 1), _FAILED), axis=1)[
            np.arange(parts.size), picks
        ]
        return np.where(sure, picked, _UNDECIDED)

    def _around(
        self, i: int, residue: int, words: npt.NDArray[np.uint64], digits: Callable[[int], Iterator[int]]
    ) -> Integers:
        """Coefficients around the centre -residue / denominator."""
        table = self._tables.get((i, residue))
        centre = Fraction(-residue, self.form.denominators[i])
        n = _n_candidates(self.variances[i], _FIRST_CANDIDATES_BITS)
        if table is None:
            table = self._tables[i, residue] = self._table(i, centre, _FIRST_CANDIDATES_BITS)
        picks = table.choose(words, digits)
        nearest = _candidates(centre, n)
        outcomes = np.array([*nearest, _FAILED, _FAILED], dtype=np.int64)[picks]
        for place in np.flatnonzero(picks == n).tolist():
            outcomes[place] = self._far(i, centre, digits(place))
        return outcomes

    def _far(self, i: int, centre: Fraction, digits: Iterator[int]) -> int:
        """The outcome of a uniform number beyond the usual candidates. Candidates are added until one fits."""
        seen: list[int] = []

        def again() -> Iterator[int]:
            yield from list(seen)
            for word in digits:
                seen.append(word)
                yield word

        for doubling in range(1, 16):
            n = _n_candidates(self.variances[i], _FIRST_CANDIDATES_BITS << doubling)
            first = next(again())
            pick = int(
                self._table(i, centre, _FIRST_CANDIDATES_BITS << doubling).choose(
                    np.array([first], dtype=np.uint64), lambda _: again()
                )[0]
            )
            if pick != n:
                return _FAILED if pick > n else _candidates(centre, n)[pick]
        raise SolverError(
            "A draw lies beyond all candidates, which has a negligible probability for random bits. Check that the "
            "bits come from a cipher."
        )

    def _table(self, i: int, centre: Fraction, bits: int) -> ChoiceTable:
        """Boundaries of the nearest candidates, and last the boundary beyond which the trial fails.

        By Poisson summation, a trial fails with probability below 5 exp(-2 pi^2 variance). If that is below
        2**-(bits + 64), the last boundary is omitted here, and `_far` uses more bits if it is needed. To distinguish it
        from 1 would need as many digits as it has leading ones.
        """
        variance = self.variances[i]
        nearest = _candidates(centre, _n_candidates(variance, bits))
        never_fails = centre == 0 or _never_fails(variance, bits)

        def cumulated() -> list[arb]:
            from flint import ctx

            total = _theta(variance, Fraction(0), ctx.prec)
            so_far, shares = arb(0), []
            for x in nearest:
                so_far = so_far + (-(rational(x - centre) ** 2) / (2 * rational(variance))).exp()
                shares.append(so_far / total)
            if never_fails:
                return shares
            return [*shares, _theta(variance, centre, ctx.prec) / total]

        return ChoiceTable.build(cumulated, certain=False)


_FAILED = -(1 << 62)
"""Outcome of a coordinate whose draw is rejected. No candidate is near it."""
_UNDECIDED = _FAILED + 1
"""Outcome of a draw for which the bits at hand do not suffice; exact arithmetic then decides."""


def _at(digits: Callable[[int], Iterator[int]], places: Integers) -> Callable[[int], Iterator[int]]:
    return lambda place: digits(int(places[place]))


def nearest_planes(lattice: Lattice, variance: Fraction) -> NearestPlanesProposal:
    """Prepare trials of the lattice Gaussian, with a tensor basis if the lattice has one, or with an LLL-reduced one.

    Raises:
        SolverError: the lattice is too large to reduce.
    """
    shape = tensor_shape(lattice)
    return planes_of(_reduced(lattice) if shape is None else tensor_orthogonalised(shape), variance)


def planes_of(form: Orthogonalised, variance: Fraction) -> NearestPlanesProposal:
    """Prepare trials of the Gaussian on the lattice of a basis."""
    variances = tuple(variance / square for square in form.squares)
    shares = Counter(variances)
    least = math.prod(_least_share(v) ** n for v, n in shares.items()) * (1 - 2**-40)
    return NearestPlanesProposal(SumLaws(DiscreteGaussian(variance)), form, variances, least)


def _reduced(lattice: Lattice) -> Orthogonalised:
    """An LLL-reduced basis."""
    reduced = lll_reduced(lattice.sparse_basis)
    if reduced is None:
        raise SolverError(
            f"A lattice of dimension {lattice.dimension} is too large for the nearest-planes sampler. Use the chain "
            "sampler."
        )
    mu, squares = gram_schmidt(np.asarray(reduced.toarray(), dtype=np.int64))
    m = len(squares)
    denominators = tuple(math.lcm(*(mu[j][i].denominator for j in range(i, m))) for i in range(m))
    number_type = np.int64 if max(denominators) < 1 << 20 else object
    later = []
    for i in range(m):
        indices = [j for j in range(i + 1, m) if mu[j][i]]
        factors = [int(mu[j][i] * denominators[i]) for j in indices]
        later.append((np.array(indices, dtype=np.int64), np.array(factors, dtype=number_type)))
    return Orthogonalised(reduced, tuple(later), denominators, tuple(squares))


def _never_fails(variance: Fraction, bits: int) -> bool:
    """Whether a trial fails too rarely for `bits` digits, whatever the centre; 2 pi^2 / ln 2 = 28.47..."""
    return 28 * variance > bits + 67


def _least_share(variance: Fraction) -> float:
    """rho(1/2) / rho, the smallest probability that a coefficient succeeds, whatever its centre."""
    with precision(96):
        return max(
            0.0,
            float(_theta(variance, Fraction(1, 2), 96) / _theta(variance, Fraction(0), 96)) * (1 - 2**-40),
        )


def _theta(variance: Fraction, centre: Fraction, bits: int) -> arb:
    """The sum of exp(-(x - centre)^2 / (2 variance)) over the integers, at the current precision.

    For a wide law, Poisson's formula needs a few terms only: sqrt(2 pi v) times the sum over k of exp(-2 pi^2 v k^2)
    cos(2 pi k centre).
    """
    if variance >= 1:
        return _dual_theta(variance, centre, bits)
    reach = _reach(variance, bits)
    rate = -1 / (2 * rational(variance))
    shift = rational(centre - round(centre))
    total = sum(((rate * (x - shift) ** 2).exp() for x in range(-reach, reach + 1)), arb(0))
    # Omitted terms: |x - shift| is at least reach + 1/2 + k, and terms shrink by exp(rate (2 reach + 1)) or faster.
    first = (rate * (arb(reach) + arb(0.5)) ** 2).exp()
    return total + between_zero_and(2 * first / (1 - (rate * (2 * reach + 1)).exp()))


def _dual_theta(variance: Fraction, centre: Fraction, bits: int) -> arb:
    v, shift = rational(variance), centre - round(centre)
    rate = -2 * arb.pi() ** 2 * v
    last = int(math.sqrt((bits + 8) / (28 * float(variance)))) + 1  # 2 pi^2 / ln 2 = 28.47...
    total = arb(1)
    for k in range(1, last + 1):
        total = total + 2 * (rate * k * k).exp() * rational(2 * k * shift).cos_pi()
    # Omitted terms are at most 2 exp(rate k^2), and shrink by exp(rate (2 last + 3)) or faster.
    rest = 2 * (rate * (last + 1) ** 2).exp() / (1 - (rate * (2 * last + 3)).exp())
    return (total - rest + between_zero_and(2 * rest)) * (2 * arb.pi() * v).sqrt()


def _reach(variance: Fraction, bits: int) -> int:
    return int(math.sqrt(2 * float(variance) * (bits + 8) * math.log(2))) + 2


def _n_candidates(variance: Fraction, bits: int) -> int:
    return 2 * _reach(variance, bits) + 1


def _candidates(centre: Fraction, n: int) -> list[int]:
    """The n integers nearest to the centre, sorted by distance."""
    nearest = round(centre)
    step = 1 if centre >= nearest else -1
    return [nearest + (step * ((k + 1) // 2) if k % 2 else -step * (k // 2)) for k in range(n)]
