"""The l2 Laplace law on a lattice, drawn exactly (up to a truncation) as a mixture of lattice Gaussians.

Problem. Wanted are lattice vectors z with probability proportional to exp(-epsilon |z|), where |z| is the l2 norm.

Variables. u = |z|^2. The values of u are divided into intervals. Interval k has a variance v_k and a height a_k.

Steps. As a function of u, the exponent -epsilon sqrt(u) is convex. On an interval it therefore lies below
a_k - u / (2 v_k), for any v_k, if a_k is chosen at the ends of the interval. So

    exp(-epsilon sqrt(u)) = exp(a_k) exp(-u / (2 v_k)) r_k(u)   for u in interval k, with r_k(u) at most 1.

A trial chooses k with probability proportional to exp(a_k) mass_k. It makes a trial of the lattice Gaussian of variance
v_k, which gives z with probability exp(-|z|^2 / (2 v_k)) / mass_k. It keeps z if |z|^2 lies in interval k and a uniform
number is below r_k(|z|^2). Then z has probability proportional to exp(-epsilon |z|), whatever the v_k are.

Stopping rule. Trials are repeated until one succeeds. Intervals are added up to a radius R beyond which the law has
less than 2**-62 of its mass (or as little as is asked for). Only this mass is cut off.

The bound on it: |z| > R implies exp(-epsilon |z|) <= exp(-(1 - s) epsilon R) exp(-s epsilon |z|) for s in (0, 1). The
sum of exp(-s epsilon |z|) over the lattice is at most the sum over all integer vectors. The latter is E[(sum over x of
exp(-x^2 s^2 epsilon^2 / (2 N^2)))^d] with N standard normal (the Levy law is the mixing law), and the inner sum is at
most 1 + sqrt(2 pi) |N| / (s epsilon). The normaliser is at least exp(-epsilon^2 v / 2) times the Gaussian normaliser of
any v, by the tangent of the exponent.

Worked case. Let epsilon = 1 and take the interval u = 4 to 9, with v = 2.5. At both ends -sqrt(u) + u / (2 v) is -1.2,
so a = -1.2. At u = 6, r = exp(-2.449 + 1.2 + 1.2) = 0.95: most trials that end in the interval are kept.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.noise.balls import certified_float, precision, rational
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.subspace.exact.convolution import SumLaws, unit_float
from tallyveil.subspace.exact.digits import ChoiceTable, NoiseAddress, is_below
from tallyveil.subspace.exact.sampler import MOST_TRIALS, ROUND_CELLS, Proposal, single_mass
from tallyveil.subspace.mechanisms import GeneralisedLaplace

MakeProposal = Callable[[SumLaws], Proposal]

CUT_BITS: Final = 62
"""The Gaussian components stop where less than 2**-62 of the mass is left, unless more bits are asked for."""
_OWN_SITES: Final = 1 << 46
"""First site of the two uniform numbers that decide each trial itself; the Gaussian trials use smaller sites."""

_MOST_COMPONENTS: Final = 2000
"""More components than this are refused, and the chain sampler is named instead."""

_MARGIN: Final = 2.0**-43
"""16 times the relative error, 2**-47, of each of three terms. Within it, ball arithmetic decides."""


@dataclass(frozen=True, slots=True)
class Component:
    """One Gaussian of the mixture.

    Attributes:
        least, most: Ends of its interval of u = |z|^2, both included.
        variance: v.
        proposal: Trials of the lattice Gaussian with this variance.
    """

    least: int
    most: int
    variance: Fraction
    proposal: Proposal

    def log_height(self, epsilon: Fraction) -> arb:
        """a, at the current precision."""
        slope = 1 / (2 * rational(self.variance))
        ends = [-rational(epsilon) * arb(u).sqrt() + slope * u for u in (self.least, self.most)]
        return ends[0].max(ends[1])

    def kept_share(self, epsilon: Fraction, u: int) -> arb:
        """r(u), at the current precision."""
        exponent = -rational(epsilon) * arb(u).sqrt() + u / (2 * rational(self.variance))
        return (exponent - self.log_height(epsilon)).exp()


@dataclass(frozen=True, slots=True, eq=False)
class MixtureSampler:
    """Draws from the l2 Laplace law on a lattice. Made by `mixture_sampler`.

    Attributes:
        law: The law.
        n_cells: Number of cells of the table.
        components: Sorted by intervals, which cover all u from 0 without a gap.
        chosen: Chooses the component of a trial.
        heights: float64, a of each component, with relative error below 2**-47.
        cut_bits: The mass beyond the last interval is below 2**-cut_bits.
    """

    law: GeneralisedLaplace
    n_cells: int
    components: tuple[Component, ...]
    chosen: ChoiceTable
    heights: npt.NDArray[np.float64]
    cut_bits: int

    @property
    def total_variation(self) -> Fraction:
        """2**-cut_bits: the mass beyond the last interval is smaller."""
        return Fraction(1, 1 << self.cut_bits)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers. The result for a number does not depend on the other numbers.

        Args:
            address: Place of the noise in the address space.
            draws: [n], each 0 to 2**36 - 1.
        Returns:
            int64 [n, n_cells].
        """
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.empty((wanted.size, self.n_cells), dtype=np.int64)
        at_once = max(1, ROUND_CELLS // self.n_cells)
        for first in range(0, wanted.size, at_once):
            self._fill(address, wanted[first : first + at_once], out[first : first + at_once])
        return out

    def _fill(self, address: NoiseAddress, draws: Integers, out: Integers) -> None:
        left = np.arange(draws.size)
        for trial in range(MOST_TRIALS):
            vectors, done = self._trial(address, draws[left], trial)
            out[left[done]] = vectors[done]
            left = left[~done]
            if not left.size:
                return
        raise SolverError(
            f"An exact sampler rejected {MOST_TRIALS} trials of one draw. Use the chain sampler, or, if outputs are "
            "restricted, nonnegative outputs."
        )

    def _trial(
        self, address: NoiseAddress, draws: Integers, trial: int
    ) -> tuple[Integers, npt.NDArray[np.bool_]]:
        site = _OWN_SITES + 2 * trial
        words = address.numbers(draws, site, 2)

        def digits(place: int, offset: int) -> Iterator[int]:
            return address.all_digits(int(draws[place]), site + offset)

        picks = self.chosen.choose(np.ascontiguousarray(words[:, 0]), lambda i: digits(i, 0))
        vectors = np.zeros((draws.size, self.n_cells), dtype=np.int64)
        done = np.zeros(draws.size, dtype=np.bool_)
        for k in np.unique(picks).tolist():
            component = self.components[k]
            (places,) = np.nonzero(picks == k)
            drawn, accepted = component.proposal.trials(address, draws[places], trial, 1)
            sizes = (drawn * drawn).sum(axis=1)
            accepted &= (component.least <= sizes) & (sizes <= component.most)
            passed, unclear = self._kept(k, sizes, words[places, 1])
            for i in np.flatnonzero(accepted & unclear).tolist():
                place = int(places[i])
                passed[i] = self._exactly(k, int(sizes[i]), int(words[place, 1]), partial(digits, place, 1))
            vectors[places] = drawn
            done[places] = accepted & passed
        return vectors, done

    def _kept(
        self, k: int, sizes: Integers, words: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which uniform numbers are below r_k(u), in floats; and which are so close to it that floats do not decide.

        The result for sizes outside the interval is arbitrary.
        """
        variance, height = float(self.components[k].variance), self.heights[k]
        slope, root = sizes / (2 * variance), float(self.law.epsilon) * np.sqrt(sizes)
        with np.errstate(over="ignore"):
            ratio = np.exp(slope - root - height)
        # The relative error of each of the three terms is at most 2**-47, and r is at most 1. The last bits of exp
        # differ between machines, by much less than the margin.
        margin = _MARGIN * (1 + slope + root + abs(height))
        uniform = unit_float(words)
        # The whole uniform number lies in [uniform, uniform + 2**-53]: both ends must agree.
        passed = np.asarray(uniform + 2.0**-53 <= ratio - margin)
        return passed, np.asarray(~passed & (uniform < ratio + margin))

    def _exactly(self, k: int, u: int, word: int, digits: Callable[[], Iterator[int]]) -> bool:
        component = self.components[k]
        if component.least == component.most:
            return True
        return is_below(lambda: component.kept_share(self.law.epsilon, u), word, digits)


def mixture_sampler(
    law: GeneralisedLaplace, n_cells: int, make: MakeProposal, cut_bits: int = CUT_BITS
) -> MixtureSampler:
    """Choose the intervals and certify the masses.

    Args:
        law: An l2 Laplace law.
        n_cells: Number of cells of the table.
        make: Makes trials of the lattice Gaussian, given the law of one cell.
        cut_bits: The mass that is cut off is below 2**-cut_bits.
    """
    # Two bits and a nat more cover the rounding of the floats below.
    nats = (cut_bits + 2) * math.log(2) + 1
    components: list[Component] = []
    least, log_total = 0, 0.0
    while not components or _tail(law, n_cells, math.sqrt(least)) - log_total > -nats:
        component = _component(law, least, make)
        components.append(component)
        log_total = max(log_total, _log_total(law, component))
        least = component.most + 1
        if len(components) > _MOST_COMPONENTS:
            raise SolverError(
                f"{law}: the mixture needs more than {_MOST_COMPONENTS} Gaussian components. Use the chain "
                "sampler, or, if outputs are restricted, nonnegative outputs."
            )

    def cumulated() -> list[arb]:
        masses = [_mass(component, law) for component in components]
        total = sum(masses, arb(0))
        shares, so_far = [], arb(0)
        for mass in masses[:-1]:
            so_far = so_far + mass
            shares.append(so_far / total)
        return shares

    chosen = ChoiceTable.build(cumulated, certain=True)
    with precision(160):
        heights = np.array([certified_float(component.log_height(law.epsilon)) for component in components])
    return MixtureSampler(law, n_cells, tuple(components), chosen, heights, cut_bits)


def _component(law: GeneralisedLaplace, least: int, make: MakeProposal) -> Component:
    epsilon = float(law.epsilon)
    # Over a factor q of u, the secant is above the exponent by at most epsilon sqrt(u) (ln q)^2 / 32, here 0.3 nats.
    width = math.sqrt(10 / (epsilon * math.sqrt(least))) if least else 0.0
    most = max(least, int(least * math.exp(min(width, 1.4))) - 1)
    mean_root = (math.sqrt(least) + math.sqrt(most)) / 2
    variance = Fraction(max(1, round(16 * max(mean_root, 0.25) / epsilon)), 16)
    return Component(least, most, variance, make(SumLaws(DiscreteGaussian(variance))))


def _mass(component: Component, law: GeneralisedLaplace) -> arb:
    from flint import ctx

    single = single_mass(DiscreteGaussian(component.variance))
    return component.log_height(law.epsilon).exp() * component.proposal.mass(single, ctx.prec)


def _log_total(law: GeneralisedLaplace, component: Component) -> float:
    """A lower bound of ln of the law's normaliser. The weight of 0 alone gives 0."""
    if not component.proposal.always_accepts:
        return 0.0
    with precision(160):
        single = single_mass(DiscreteGaussian(component.variance))
        log_mass = component.proposal.mass(single, 160).log()
        return float(log_mass - rational(law.epsilon) ** 2 * rational(component.variance) / 2)


def _tail(law: GeneralisedLaplace, d: int, radius: float) -> float:
    """An upper bound of ln of the sum of exp(-epsilon |z|) over |z| >= radius."""
    epsilon = float(law.epsilon)
    log_moment = math.lgamma((d + 1) / 2) + d / 2 * math.log(2) - math.log(math.pi) / 2  # ln E |N|^d
    root = math.exp(log_moment / d)
    shares = [i / 20 for i in range(1, 20)]
    return min(
        d * math.log1p(math.sqrt(2 * math.pi) * root / (s * epsilon)) - (1 - s) * epsilon * radius
        for s in shares
    )
