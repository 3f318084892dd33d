"""Losses without a usable common lattice: each is moved to a fine grid, with a bound on what that changes.

The problem: delta(epsilon) = E[(1 - exp(epsilon - L))+] for a loss L that is a sum of groups of losses. Each group
has a lattice of its own, but the lattices have no common multiple that one FFT could hold.

The variables: g the step of the grid; l an atom of one group; a the grid point below l; f = (l - a) / g; t the share of
the atom that moves up; L' the loss on the grid; G the number of groups; s the tilt;
kappa = epsilon - (the loss of the other groups).

The steps:

1. Compute the tilted law of every group on its own lattice (`tilted_fft`).
2. Divide each atom l between the grid points a and a + g so that its mass under P and under Q stays the same:
   t = (1 - exp(-f g)) / (1 - exp(-g)).
3. Convolve the groups by FFTs on the grid, and sum as the tilted FFT does.
4. The sum is an upper bound; a lower bound is that minus what dividing may have added.

Why it is an upper bound: as a function of exp(-l), delta is an average of the convex functions (1 - exp(kappa - l))+,
so dividing an atom raises it (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022).

Why it is not much too large: dividing one atom changes (1 - exp(kappa - l))+ only if kappa lies in (a, a + g), and then
by at most w = t (1 - exp(-(1 - f) g)) <= tanh(g / 4), the value at kappa = l. The groups are divided one after the
other. When group i is divided, the losses of the groups before it are on the grid. The losses of the u groups after it
exceed the sum of their grid points below by less than u g. Let F be the sum of the grid points below, for group i and
those after it, and of the divided losses, for those before. Then F lies in (epsilon - (1 + u) g, epsilon), which holds
at most u + 1 grid points. So group i adds at most the mass on these points, weighted by w.
`docs/proofs/accounting-rounding.md` has the steps one by one.

Example: an atom of mass p halfway between two grid points has f = 1/2 and t = 1 / (1 + exp(-g / 2)), a little more than
a half, because the upper point has less mass under Q.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.loss_transform import UNIT, fft_error
from tallyveil.accounting.engines.tails import (
    NOTHING,
    DeltaByTails,
    Tails,
    log_of,
    probability,
    within_floats,
)
from tallyveil.accounting.engines.tilted_fft import MAX_LENGTH, TiltedFFT, TiltedLaw
from tallyveil.accounting.engines.tilts import estimated_length, tilt_grid, window
from tallyveil.accounting.losses.factors import LossFactor, lattice_of, merged
from tallyveil.accounting.losses.groups import grouped
from tallyveil.accounting.losses.largest_loss import greatest_loss
from tallyveil.accounting.losses.moments import certified_log_moment
from tallyveil.arrays import Complexes, Floats
from tallyveil.errors import SolverError
from tallyveil.exact import as_given

GRID_LENGTH = 1 << 21
"""Points of the fine grid."""

_CACHED = 2
_MOST_GROWTH = 600.0
"""Of the tilt over one step of the grid, as a logarithm: beyond it the weights leave the range of floats."""

_UNDERFLOW = 750.0
"""Minus the logarithm of a float's least size, and a little more: what is damped further is 0 in floats."""

_WINDOW = 34.0  # minus the logarithm of the mass left outside on either side: 1.7e-15
_OUTSIDE = 4 * math.exp(-_WINDOW)
_COARSENESS = 1.0  # of the tilts: each law is dear, and half a standard deviation off costs nothing


@dataclass(frozen=True, slots=True)
class RoundedLaw:
    """The tilted law of the rounded loss, and what rounding may have added at each point.

    Attributes:
        tilt: s, exact.
        step: g, exact.
        origin: Loss of the first point, exact.
        weights: Mass of each point times exp(s L' - K(s)).
        error: Bound on the sum of the errors of all weights, from the masses of the groups.
        entry_error: Bound on the further error of each weight, from the FFT.
        excess: At each point z, bound on what moving to the grid adds to delta if z is the last point not above
            epsilon, tilted as the weights are; infinite where s < 0, at which delta is not computed.
        shift: Bound on the rounding error of the positions of atoms.
    """

    tilt: Fraction
    step: Fraction
    origin: Fraction
    weights: Floats
    error: float
    entry_error: float
    excess: Floats
    shift: Fraction


class RoundedFFT(DeltaByTails):
    """Certified tails of any composition, with the loss moved to a fine grid.

    Args:
        factors: The losses added up.

    Raises:
        BudgetError: a factor is out of range.
        SolverError: the loss of one factor alone takes more values than one FFT holds.
    """

    name = "rounded_fft"

    def __init__(self, factors: tuple[LossFactor, ...]) -> None:
        self.factors = merged(factors)
        groups = grouped(self.factors)
        for group in groups:
            points = estimated_length(group.factors, lattice_of(group.factors))
            if points > MAX_LENGTH:
                raise SolverError(
                    f"the loss of {as_given(group.factors[0])} takes about {points:.3g} values that matter, and no "
                    f"common lattice contains all losses. An FFT of at most {MAX_LENGTH} points is supported. Use a "
                    "smaller variance or scale, or variances and scales whose ratios are simple fractions."
                )
        engines = [TiltedFFT(group.factors) for group in groups]
        self.groups = tuple(sorted(engines, key=lambda engine: -engine.lattice.step))
        self.greatest = greatest_loss(self.factors)
        self._laws: dict[Fraction, RoundedLaw] = {}

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`. Delta is close; both probabilities are uncertain by a few steps of the grid.

        Raises:
            BudgetError: epsilon is not finite, or beyond 1e301.
        """
        exact = within_floats(epsilon)
        if self.greatest is not None and exact >= self.greatest:
            return Tails(NOTHING, NOTHING, NOTHING)
        wanted = tilt_grid(self.factors, float(exact), _COARSENESS)
        law = self._law(max(wanted, Fraction(0)))
        moved = len(self.groups) * law.step + law.shift
        upper = self._delta(law, exact - law.shift).upper
        lower = self._delta(law, exact + law.shift, less_excess=True).lower
        first = Bounds(self._tail(law, exact + moved, 0).lower, self._tail(law, exact - moved, 0).upper)
        under = law if wanted >= 0 else self._law(max(wanted, Fraction(-1)))
        second = Bounds(self._tail(under, exact + moved, 1).lower, self._tail(under, exact - moved, 1).upper)
        return Tails(probability(first), probability(second), probability(Bounds(min(lower, upper), upper)))

    def _law(self, tilt: Fraction) -> RoundedLaw:
        law = self._laws.pop(tilt, None)  # put back last: the law that was used longest ago is given up first
        while law is None and len(self._laws) >= _CACHED:
            self._laws.pop(next(iter(self._laws)))
        self._laws[tilt] = law or rounded_law(self.factors, self.groups, tilt)
        return self._laws[tilt]

    def _delta(self, law: RoundedLaw, epsilon: Fraction, *, less_excess: bool = False) -> Bounds:
        """ln E[(1 - exp(epsilon - L'))+]; with `less_excess`, ln of a lower bound of the same for L."""
        begin, gap, distance, scale = self._above(law, epsilon, law.tilt)
        s = float(law.tilt)
        values = np.exp(-s * distance) * -np.expm1(-(gap + distance))
        total, error = _summed(law, begin, values, s * distance)
        if less_excess:
            # The points concerned lie up to G + 1 steps below the first one above epsilon: so much more damped.
            exponent = s * float(law.step) * (len(self.groups) + 1)
            if exponent > _MOST_GROWTH:
                return Bounds(-math.inf, 0.0)  # 0 is a lower bound of every delta
            place = min(max(begin - 1, 0), law.excess.size - 1)
            total = max(total - float(law.excess[place]) * math.exp(exponent) * (1 + 1e-12), 0.0)
        return log_of(scale, total, error)

    def _tail(self, law: RoundedLaw, epsilon: Fraction, power: int) -> Bounds:
        """ln of E[exp(-power L'); L' > epsilon]."""
        begin, _, distance, scale = self._above(law, epsilon, law.tilt + power)
        s = float(law.tilt) + power
        total, error = _summed(law, begin, np.exp(-s * distance), s * distance)
        return log_of(scale, total, error)

    def _above(self, law: RoundedLaw, epsilon: Fraction, tilt: Fraction) -> tuple[int, float, Floats, Bounds]:
        """First index above epsilon, its distance from epsilon, those of later points from it, and K(s) - tilt * l."""
        index = (epsilon - law.origin) // law.step + 1
        point = law.origin + index * law.step
        begin = min(max(index, 0), law.weights.size)
        end, damping = law.weights.size, float(tilt * law.step)
        if damping > _UNDERFLOW / law.weights.size:
            # Terms farther away are damped to 0 in floats.
            end = max(begin, min(index + math.ceil(_UNDERFLOW / damping) + 1, end))
        distance = float(law.step) * np.arange(begin - index, end - index, dtype=np.float64)
        scale = certified_log_moment(self.factors, law.tilt, tilt * point)
        return begin, float(point - epsilon), distance, scale


def rounded_law(factors: tuple[LossFactor, ...], groups: tuple[TiltedFFT, ...], tilt: Fraction) -> RoundedLaw:
    """Move the atoms of all groups to one grid, and convolve the groups; the coarsest group is given first."""
    low, high = window(factors, float(tilt), _WINDOW)
    margin = 2 * len(groups) + 4
    step = Fraction((high - low) / (GRID_LENGTH - 2 * margin))
    sums = _Sums.nothing()
    origin, shift, turned = Fraction(0), 0.0, len(groups)
    coarsest = groups[0].lattice.step
    if coarsest >= step:
        # It comes to lie on the grid: nothing is rounded in that group, which is the last one.
        step, turned = coarsest / (coarsest // step), turned - 1
    if abs(float(tilt)) * float(step) > _MOST_GROWTH:
        raise SolverError(
            f"the sum of the losses ranges from {low:.3g} to {high:.3g}, which is too wide for one grid. Some noise "
            "is so small that it protects nobody: account for it apart from the rest."
        )
    for group in reversed(groups):
        law, turned = group.law(tilt), max(turned - 1, 0)
        ratio = float(group.lattice.step / step)
        origin += group.lattice.offset + law.first * group.lattice.step
        shift += 4 * UNIT * law.weights.size * ratio * float(step)
        sums = sums.joined(_placed(law, ratio, float(step), turned))
    from scipy import fft  # here, since most compositions need no transform and the import takes long

    weights = fft.irfft(sums.divided, GRID_LENGTH, workers=1)
    excess = fft.irfft(sums.bounding, GRID_LENGTH, workers=1) if tilt >= 0 else np.full(GRID_LENGTH, math.inf)
    first = math.floor((Fraction(low) - origin) / step) - margin
    # Every transform of masses weighted by w <= g / 4 and summed over at most G points is at most G g / 4, and
    # its error is in proportion; there are G of them, each through G products.
    rounding = fft_error(GRID_LENGTH) * (len(groups) + 2) ** 3 * sums.mass * float(step)
    off = 1.1 * sums.mass * sums.error + 2 * _OUTSIDE
    return RoundedLaw(
        tilt=tilt,
        step=step,
        origin=origin + first * step,
        weights=np.roll(weights, -first),
        error=off,
        entry_error=1.01 * (float(sums.off.mean()) + fft_error(GRID_LENGTH) * float(sums.size.mean())),
        excess=np.maximum(np.roll(excess, -first), 0.0) + rounding + off * float(step) * len(groups),
        shift=Fraction(shift),
    )


@dataclass(frozen=True, slots=True)
class _Placed:
    """Transforms of one group's masses on the grid.

    Attributes:
        divided: Transform of the atoms divided between the two nearest points.
        below: Transform of the atoms moved to the point below.
        weighted: Transform of the same atoms times w, where each point holds the sum of the u + 1 points up to it.
        error: Bound on the sum of the errors of the masses.
    """

    divided: Complexes
    below: Complexes
    weighted: Complexes
    error: float


@dataclass(frozen=True, slots=True)
class _Sums:
    """Transforms of the groups added up so far.

    Attributes:
        divided: Transform of the loss on the grid.
        bounding: Transform of the masses that bound what dividing added.
        size: Modulus of `divided`.
        off: Bound on the error of `divided`.
        error: Sum of the groups' errors of mass.
        mass: Bound on the product of the groups' masses.
    """

    divided: Complexes
    bounding: Complexes
    size: Floats
    off: Floats
    error: float
    mass: float

    @classmethod
    def nothing(cls) -> "_Sums":
        """The transforms of the loss 0."""
        count = GRID_LENGTH // 2 + 1
        one = np.ones(count, dtype=np.complex128)
        return cls(one, np.zeros(count, dtype=np.complex128), np.ones(count), np.zeros(count), 0.0, 1.0)

    def joined(self, group: _Placed) -> "_Sums":
        """The sums with one more group, which is divided after the groups already joined."""
        mass = abs(group.divided[0]) + 1e-12
        slip = fft_error(GRID_LENGTH) * mass
        moduli = np.abs(group.divided)
        return _Sums(
            divided=self.divided * group.divided,
            bounding=self.bounding * group.below + self.divided * group.weighted,
            size=self.size * moduli,
            off=self.size * (slip + 8 * UNIT * moduli) + self.off * (moduli + slip),
            error=self.error + group.error,
            mass=self.mass * (mass + group.error),
        )


def _placed(law: TiltedLaw, ratio: float, step: float, after: int) -> _Placed:
    """Move the atoms of one group to the grid.

    Args:
        law: The atoms, tilted.
        ratio: Their distance in grid steps.
        step: g.
        after: u, the number of groups that are divided after this one.
    """
    from scipy import fft  # here, as above

    tilt = float(law.tilt)
    positions = np.arange(law.weights.size) * ratio
    cells = np.floor(positions).astype(np.int64)
    part = positions - cells
    places = cells % GRID_LENGTH
    share = np.expm1(-part * step) / math.expm1(-step)
    down = law.weights * np.exp(-tilt * part * step)
    raised = law.weights * share * np.exp(tilt * (1 - part) * step)

    def on_grid(masses: Floats) -> Floats:
        return np.bincount(places, weights=masses, minlength=GRID_LENGTH).astype(np.float64, copy=False)

    growth = math.exp(abs(tilt) * step)
    lost = law.weights.size * law.entry_error + 4 * law.outside + UNIT * (200 + 2 / min(ratio, 1.0))
    divided = fft.rfft(on_grid(down * (1 - share)) + np.roll(on_grid(raised), 1), workers=1)
    if tilt < 0 or not part.any():  # what dividing adds is not asked for, or every atom lies on the grid
        return _Placed(divided, divided, np.zeros_like(divided), growth * lost)
    weighted = on_grid(down * share * -np.expm1(-(1 - part) * step))
    summed = weighted.copy()
    for turn in range(1, after + 1):
        summed += np.roll(weighted, turn)
    return _Placed(
        divided=divided,
        below=fft.rfft(on_grid(down), workers=1),
        weighted=fft.rfft(summed, workers=1),
        error=growth * lost,
    )


def _summed(law: RoundedLaw, begin: int, values: Floats, exponents: Floats) -> tuple[float, float]:
    terms = law.weights[begin : begin + values.size] * values
    rounding = UNIT * float((np.abs(terms) * (4 * exponents + 80)).sum())
    greatest = float(values.max(initial=0.0))
    error = law.entry_error * float(values.sum()) + law.error * greatest + 4 * _OUTSIDE + rounding
    return float(terms.sum()), 1.01 * error
