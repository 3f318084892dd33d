"""Tails of any sum of independent losses that can be listed: each is moved to a grid, and one transform adds them up.

The problem: delta(epsilon) = E[(1 - exp(epsilon - L))+] from both sides, for L a sum of n independent losses. The laws
of the two neighbours need not mirror each other, and n may be ten thousand.

The variables: g the step of the grid, a power of two; s >= 0 the tilt; L' the loss on the grid; N the length of the
transform; T = L' - L.

The steps:

1. List the atoms of each kind of loss, tilted by s (`atom_lists`).
2. Divide each atom between the two grid points beside it, so that its mass under P and under Q stays the same. This
   raises delta (docs/proofs/accounting-rounding.md says why).
3. Transform each kind of loss, raise it to its multiplicity, multiply, and transform back.
4. Sum as the tilted FFT does. The sum is an upper bound.
5. A lower bound is the sum minus what dividing may have added. Given the losses, exp(-T) has mean 1, and T is about as
   large as sqrt(A) with A = n g^2 / 4. So dividing adds at most sqrt(A) / 2 at a loss near epsilon, and less than
   exp(-x^2 / 2) at one that lies x sqrt(A) away (docs/proofs/real-noise.md, section 3).

Example: a thousand samples with q = 1/100 of normal noise with mu = 1 have a total loss with a standard deviation of
0.4. Then g is about 1e-4 and sqrt(A) about 2e-3. Epsilon is known to about 1e-4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.atom_lists import AtomList, Listable, listed
from tallyveil.accounting.engines.chords import tails_by_chords
from tallyveil.accounting.engines.loss_transform import UNIT, fft_error, power_with_error
from tallyveil.accounting.engines.tails import NOTHING, Tails, float_bounds, within_floats
from tallyveil.accounting.losses.largest_loss import greatest_bounds
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Complexes, Floats
from tallyveil.errors import SolverError
from tallyveil.noise.balls import precision, rational

LENGTH: Final = 1 << 19
"""Points of the grid: a transform takes 10 ms. Epsilon's upper end is off by the square of the step, its lower end by
the step or more: with twice the points a quarter, and a half at most, of that."""

FINE_LENGTH: Final = 1 << 21
"""The same for integer noise alone, which needs few transforms."""

_OUTSIDE: Final = 48.0
"""Minus the logarithm of the mass outside of the window that is aimed at."""

_SCALES: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
"""Tilts that are tried in Chernoff's bound, in units of the best one for a normal loss."""

# Laws of tilts that are kept: 4 MiB each at the usual length, 16 MiB at the fine one. Twice doubles that.
_CACHED: Final = 16
# Nats by which Chernoff's bound at the chosen tilt may exceed the least one; see `_tilt`.
_SPARE: Final = 4.0
# Halvings of a bracket of tilts: 2^-24 of it is left. Every tilt gives bounds, so this decides no correctness.
_HALVINGS: Final = 24
_FARTHEST: Final = 1e9  # the largest tilt, in units of the deviation
_SMALL: Final = 25.0  # minus the logarithm of the tail of T, relative to delta
# Shells around epsilon, in units of sqrt(A): more of them follow exp(-x^2 / 2) more closely,
# and each one is a sum over its part of the grid.
_SHELLS: Final = (1.0, 2.0, 3.0, 4.0, 6.0)
_AROUND: Final = 2.0
"""Distances from epsilon, in units of the standard deviation of T, at which what dividing adds is bounded."""

_STEEPEST: Final = 600.0
"""Largest exponent that is computed: exp(709) is the largest float, and 600 leaves room for a hundred orders of it."""


@dataclass(frozen=True, slots=True)
class GriddedLaw:
    """The tilted law of the loss on the grid.

    Attributes:
        tilt: s.
        step: g.
        first: Place of the first weight: its loss is first * g.
        weights: Mass of each point times exp(s L' - log_scale).
        log_scale: From both sides.
        entry_error: Bound on the error of each weight.
        lost: Bound on the tilted mass left out: outside of the window, or of the lists.
        relative: Bound on the logarithm of a factor by which all masses may be off.
        slip: Bound on the error of the total loss.
        spread: n (g / 2)^2, about, and not below 4 n sinh(g / 4)^2.
        deviation: Standard deviation of the tilted loss, about.
    """

    tilt: float
    step: float
    first: int
    weights: Floats
    log_scale: Bounds
    entry_error: float
    lost: float
    relative: float
    slip: float
    spread: float
    deviation: float


class Gridded:
    """Certified delta of a composition of losses that can be listed.

    Args:
        law: The losses, equal ones merged.
        length: Points of the grid, a power of two.
    """

    name = "gridded"

    def __init__(self, law: tuple[Listable, ...], length: int = LENGTH) -> None:
        self.law = law
        self.length = length
        self.greatest = greatest_bounds(law).upper
        self._laws: dict[float, GriddedLaw] = {}
        self._moments: dict[float, tuple[float, float, float]] = {}

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`; both probabilities follow from delta and are known to a few per cent."""
        return tails_by_chords(self, epsilon, 0.02 * self._at(0.0)[2])

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        return ManyBounds.of([self._log_delta(within_floats(epsilon)) for epsilon in epsilons])

    def _log_delta(self, epsilon: Fraction) -> Bounds:
        if epsilon >= self.greatest:
            return NOTHING
        law = self._gridded(self._tilt(float(epsilon)))
        slip = Fraction(law.slip)
        # Delta falls with epsilon: a loss that may be off is asked for at the safe side of it.
        total, error = _summed(law, epsilon - slip)
        upper = _logarithm(total + error, law, epsilon - slip, 1)
        total, error = _summed(law, epsilon + slip)
        log_upper = min(0.0, upper)
        lower = _logarithm(total - error - _excess(law, epsilon + slip, log_upper), law, epsilon + slip, -1)
        return Bounds(min(lower, log_upper), log_upper)

    def _gridded(self, tilt: float) -> GriddedLaw:
        if tilt not in self._laws:
            while len(self._laws) >= _CACHED:
                self._laws.pop(next(iter(self._laws)))
            self._laws[tilt] = gridded_law(self.law, tilt, self.length)
        return self._laws[tilt]

    def _at(self, tilt: float) -> tuple[float, float, float]:
        """About the log moment, the mean and the deviation of the tilted loss; infinite if it is too far out."""
        if tilt not in self._moments:
            log_moment = mean = variance = 0.0
            try:
                for loss in self.law:
                    atoms = listed(loss, tilt, coarse=True)
                    middle = float(atoms.weights @ atoms.losses)
                    log_moment += loss.multiplicity * atoms.log_scale
                    mean += loss.multiplicity * middle
                    variance += loss.multiplicity * float(atoms.weights @ (atoms.losses - middle) ** 2)
            except SolverError:
                # An infinite mean ends the doubling of a search, and the tilt is never used.
                log_moment = mean = math.inf
            self._moments[tilt] = log_moment, mean, math.sqrt(max(variance, 1e-300))
        return self._moments[tilt]

    def _tilt(self, epsilon: float) -> float:
        """A tilt of 0 or more, below the one whose mean is epsilon, from a grid that neighbouring epsilons share.

        At the latter, Chernoff's bound is least. The smallest tilt is taken at which it is at most exp(4) times as
        large. There delta keeps its digits, and the law fits into a narrow window.
        """
        most = self._saddle(epsilon)

        def size(tilt: float) -> float:
            return self._at(tilt)[0] - tilt * epsilon

        limit = size(most) + _SPARE
        if not most or limit >= 0:
            return 0.0
        low, high = 0.0, most
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if size(middle) <= limit else (middle, high)
        # Eight tilts for each doubling: neighbouring epsilons find theirs among the laws that are kept.
        grid = 2.0 ** (math.floor(math.log2(high)) - 3)
        return min(math.ceil(high / grid) * grid, most)

    def _saddle(self, epsilon: float) -> float:
        """About the tilt whose mean is epsilon, 0 if that is below 0."""
        _, mean, deviation = self._at(0.0)
        if mean >= epsilon:
            return 0.0
        low, high = 0.0, 1 / deviation
        while self._at(high)[1] < epsilon and high < _FARTHEST / deviation:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            _, mean, deviation = self._at(middle)
            if abs(mean - epsilon) <= deviation / 4:
                return middle
            low, high = (middle, high) if mean < epsilon else (low, middle)
        return low


def gridded_law(losses: tuple[Listable, ...], tilt: float, length: int = LENGTH) -> GriddedLaw:
    """The law of the sum of losses, tilted, on the grid."""
    lists = [(listed(loss, tilt), loss.multiplicity) for loss in losses]
    mean = sum(n * float(atoms.weights @ atoms.losses) for atoms, n in lists)
    variance = sum(
        n * float(atoms.weights @ (atoms.losses - float(atoms.weights @ atoms.losses)) ** 2)
        for atoms, n in lists
    )
    most = sum(n * float(np.abs(atoms.losses).max()) for atoms, n in lists)
    # Of a single atom it would be 0, and Chernoff's tilts are divided by its root.
    variance = max(variance, (1e-6 * most) ** 2)
    # At most a law is as wide as its largest loss on either side.
    low = max(mean - _reach(lists, mean, variance, -1), -1.001 * most)
    high = min(mean + _reach(lists, mean, variance, 1), 1.001 * most)
    # A power of two, so that the place of a float atom is exact; 64 points are left at the ends.
    step = 2.0 ** math.ceil(math.log2(max(high - low, 1e-280) / (length - 64)))
    if tilt * step > _STEEPEST:
        # Dividing an atom multiplies its upper part by up to exp(s g). Every tilt gives bounds, so take one that fits.
        return gridded_law(losses, _STEEPEST / step, length)
    spare = (length * step - (high - low)) / 2
    low, high = low - spare, high + spare
    divided = [(_Divided.of(atoms, tilt, step), n) for atoms, n in lists]
    first = math.floor(low / step) + 1
    outside = _beyond(divided, step, high - step, variance, 1) + _beyond(
        divided, step, low + step, variance, -1
    )
    # Whatever wraps around lies outside of the window, and is part of `outside`.
    weights, entry_error = _added_up(divided, first, length)
    answers = sum(n for _, n in lists)
    log_scale = math.fsum(n * atoms.log_scale for atoms, n in lists)
    slack = 4 * UNIT * math.fsum(n * abs(atoms.log_scale) for atoms, n in lists)
    return GriddedLaw(
        tilt=tilt,
        step=step,
        first=first,
        weights=weights,
        log_scale=Bounds(log_scale - slack, log_scale + slack),
        entry_error=entry_error,
        lost=4 * outside + 2 * sum(n * atoms.lost for atoms, n in lists),
        relative=1.01
        * sum(
            n * (atoms.relative + parts.relative)
            for (atoms, n), (parts, _) in zip(lists, divided, strict=True)
        ),
        slip=1.01 * sum(n * atoms.slip for atoms, n in lists),
        spread=1.001 * answers * 4 * math.sinh(step / 4) ** 2 if step < _STEEPEST else math.inf,
        deviation=math.sqrt(variance),
    )


@dataclass(frozen=True, slots=True)
class _Divided:
    """Atoms divided between grid points.

    Attributes:
        cells: Place of the grid point below each atom.
        down: Weight that goes there.
        up: Weight that goes to the next point.
        relative: Bound on the relative error of these, and of the sum of those that fall on one point.
    """

    cells: Floats
    down: Floats
    up: Floats
    relative: float

    @classmethod
    def of(cls, atoms: AtomList, tilt: float, step: float) -> "_Divided":
        turns = atoms.losses / step  # exact, since the step is a power of two
        cells = np.floor(turns)
        part = turns - cells
        # Shares 1 - t and t of accounting-rounding.md, times exp(s move), as the weights are tilted.
        whole = math.expm1(-step)
        down = atoms.weights * np.exp(-(tilt + 1) * step * part) * (np.expm1(-(1 - part) * step) / whole)
        up = atoms.weights * np.exp(tilt * step * (1 - part)) * (np.expm1(-part * step) / whole)
        most = int(np.unique(cells, return_counts=True)[1].max())
        return cls(cells, down, up, UNIT * (120 + 8 * (tilt + 1) * step + 2 * most))


def _reach(lists: list[tuple[AtomList, int]], mean: float, variance: float, side: int) -> float:
    """Distance from the mean, on one side, that holds all but little of the law: Chernoff's bound, in floats."""
    # It only aims: what really lies outside is bounded by `_beyond`, on the divided atoms.
    best = math.inf
    for scale in _SCALES:
        t = scale * math.sqrt(2 * _OUTSIDE / variance)
        log_moment = sum(n * _log_mean(atoms.weights, side * t * atoms.losses) for atoms, n in lists)
        best = min(best, (log_moment - side * t * mean + _OUTSIDE + 2) / t)
    return best


def _beyond(
    divided: list[tuple[_Divided, int]], step: float, end: float, variance: float, side: int
) -> float:
    """Bound on the weight of all places on one side of an end: none, or Chernoff's bound."""
    farthest = sum(
        n * int(max(side * atoms.cells.max(), side * atoms.cells.min()) + 1) for atoms, n in divided
    )
    # No sum of so many places reaches beyond the end.
    if math.floor(side * end / step) > farthest:
        return 0.0
    # The logarithm of 1: no tilted mass is larger, whichever tilts are tried.
    best = 0.0
    for scale in _SCALES:
        t = scale * math.sqrt(2 * _OUTSIDE / max(variance, step * step))
        logs = [
            (
                n,
                _log_mean(atoms.down, side * t * step * atoms.cells),
                _log_mean(atoms.up, side * t * step * (atoms.cells + 1)),
            )
            for atoms, n in divided
        ]
        parts = [n * float(np.logaddexp(down, up)) for n, down, up in logs]
        size = math.fsum(n * (abs(down) + 2) for n, down, _ in logs) + abs(t * end)
        best = min(best, math.fsum(parts) - side * t * end + 1e-12 * size)
    return math.exp(best)


def _log_mean(weights: Floats, exponents: Floats) -> float:
    """ln of the sum of weights * exp(exponents)."""
    held = weights > 0
    if not held.any():
        return -math.inf
    logs = np.log(weights[held]) + exponents[held]
    highest = float(logs.max())
    return highest + math.log(float(np.exp(logs - highest).sum()))


def _added_up(divided: list[tuple[_Divided, int]], first: int, length: int) -> tuple[Floats, float]:
    """Weights of the sum on a cycle of places that begins with `first`, and a bound on the error of each."""
    from scipy import fft  # here, since most compositions need no transform and the import takes long

    if len(divided) == 1 and divided[0][1] == 1:
        weights = np.roll(_on_cycle(divided[0][0], length), -(first % length))
        weights.flags.writeable = False
        return weights, 0.0
    product: Complexes = np.ones(length // 2 + 1, dtype=np.complex128)
    size, off = np.ones(product.size), np.zeros(product.size)
    for atoms, n in divided:
        # Places are whole numbers on a cycle, so that a shift costs no rounding.
        mass = _on_cycle(atoms, length)
        values = fft.rfft(mass, workers=1)
        slip = np.full(values.size, fft_error(length) * float(mass.sum()) * 1.01)
        raised, error = power_with_error(values, np.abs(values), slip, n)
        moduli = np.abs(raised)
        off = size * error + off * (moduli + error) + 8 * UNIT * size * moduli
        size = size * moduli
        product = product * raised
    weights = np.roll(fft.irfft(product, length, workers=1), -(first % length))
    # Read-only, since the law is kept and shared by later epsilons.
    weights.flags.writeable = False
    return weights, 1.01 * (2 * float(off.mean()) + fft_error(length) * 2 * float(size.mean()))


def _on_cycle(atoms: _Divided, length: int) -> Floats:
    """The divided weights of one answer, on a cycle of places that begins with 0."""
    places = np.mod(atoms.cells, length).astype(np.int64)
    mass: Floats = np.bincount(places, weights=atoms.down, minlength=length).astype(np.float64, copy=False)
    return mass + np.roll(np.bincount(places, weights=atoms.up, minlength=length), 1)


def _summed(law: GriddedLaw, epsilon: Fraction) -> tuple[float, float]:
    """The sum of weights above epsilon, in units of exp(log_scale - s epsilon), and a bound on its error."""
    step = Fraction(law.step)
    index = epsilon // step + 1
    gap = float(index * step - epsilon)
    begin = min(max(index - law.first, 0), law.weights.size)
    distance = gap + law.step * np.arange(
        begin - (index - law.first), law.weights.size - (index - law.first), dtype=np.float64
    )
    # Positive terms only, each relative to epsilon, so that no digits cancel.
    values = np.exp(-law.tilt * distance) * -np.expm1(-distance)
    terms = law.weights[begin:] * values
    rounding = UNIT * float((np.abs(terms) * (8 * law.tilt * distance + 80)).sum())
    return float(terms.sum()), 1.01 * (law.entry_error * float(values.sum()) + law.lost + rounding)


def _excess(law: GriddedLaw, epsilon: Fraction, log_delta: float) -> float:
    """Bound on what dividing added to the sum, in the same units; infinite where nothing is known."""
    if log_delta == -math.inf:
        return 0.0
    if law.spread > _STEEPEST:
        return math.inf
    # Relative to delta itself, so that what is neglected stays exp(-25) of it.
    root, tail = math.sqrt(law.spread), _SMALL - log_delta
    far = law.tilt * float(epsilon) - law.log_scale.lower - tail
    farthest = math.sqrt(2 * tail)
    if max((farthest + _AROUND + 1) * root * law.tilt, far) > _STEEPEST:
        return math.inf
    places = [x for x in _SHELLS if x < farthest] + [farthest]
    heights = [math.sqrt(math.expm1(law.spread)) / 2, *(_height(x, law.spread) for x in places)]
    # The proof sums differences of heights that do not rise.
    heights = np.minimum.accumulate(heights).tolist()
    near = 0.0
    for x, inner, outer in zip(places, heights[:-1], heights[1:], strict=True):
        near += (inner - outer) * _mass(law, epsilon, (x + _AROUND + root) * root)
    # Of the losses within x of epsilon, more than this share stay within x + 2 on the grid.
    share = 1 - 2 * math.exp(-(_AROUND**2) / 2)
    return 1.01 * (near / share + 2 * math.exp(far))


def _height(x: float, spread: float) -> float:
    """Bound on what dividing adds at losses that lie x times sqrt(spread), and half of spread, from epsilon."""
    power = x / math.sqrt(spread)
    log_most = -power * math.log1p(1 / power) - math.log1p(power)
    return math.exp(log_most - x * x / 2)


def _mass(law: GriddedLaw, epsilon: Fraction, reach: float) -> float:
    """The mass on the grid within a reach of epsilon, in units of exp(log_scale - s epsilon), rounded up."""
    step, wide = Fraction(law.step), Fraction(reach)
    begin = max((epsilon - wide) // step - law.first, 0)
    end = min((epsilon + wide) // step + 2 - law.first, law.weights.size)
    if end <= begin:
        return law.lost * math.exp(reach * law.tilt)
    nearest = float((law.first + begin) * step - epsilon)
    values = np.exp(-law.tilt * (nearest + law.step * np.arange(end - begin, dtype=np.float64)))
    near = float((np.abs(law.weights[begin:end]) * values).sum())
    return 1.001 * (near + law.entry_error * float(values.sum()) + law.lost * math.exp(reach * law.tilt))


def _logarithm(value: float, law: GriddedLaw, epsilon: Fraction, side: int) -> float:
    """ln of a sum in units of exp(log_scale - s epsilon), rounded to one side."""
    if not value > 0 or value == math.inf:
        return -math.inf if side < 0 else 0.0
    with precision(128):
        # The exact product: in floats its rounding alone could exceed the width of the bounds.
        shift = float_bounds(rational(Fraction(law.tilt) * epsilon))
    scale = law.log_scale.upper - shift.lower if side > 0 else law.log_scale.lower - shift.upper
    part = math.log(value)
    slack = law.relative + 8 * UNIT * (abs(part) + abs(scale) + 1)
    return part + scale + side * slack
