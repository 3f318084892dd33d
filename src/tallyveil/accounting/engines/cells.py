"""Few random samples, and losses beside them: the possible values of every loss are divided into cells.

The problem: delta(epsilon) = E[(1 - exp(epsilon - L))+] from both sides, for a sum L of few losses whose transform
hardly falls. If a record is in a sample with probability q = 1e-6, nearly all of the loss lies within q of 0, and what
matters is the rare sample that holds the record. No grid with equal steps and no contour sees both.

The variables: P and Q the laws of the outputs for two neighbours; R = dP/dQ, so that a loss is ln R; a cell the
outcomes with a < R <= b; p and q its probabilities under P and Q.

The steps:

1. Cut the outcomes of one loss into cells. Both probabilities are computed in balls: those of normal and of Laplace
   noise in closed form, those of integer noise as sums.
2. From below, all outcomes of a cell count as one, with the loss ln(p / q): to tell fewer outcomes apart reveals less.
   From above, each outcome is divided between the ends a and b of its cell so that p and q stay as they are: the
   outcomes of the cell can be made from these two, so that these reveal more. Beyond the last cell b is infinite.
3. Two laws are added up pair by pair, and the sums are cut into cells in the same way. So n losses take about log2(n)
   such steps; the last one is left out, as delta of a sum of two lists takes one look-up for each entry of one of them.
4. A cell in which delta is straight adds nothing to its error. Elsewhere the error is the square of its width times
   how likely it is to hold the loss where the sum is epsilon. Cells are narrow where this is large: each epsilon has
   the cells of its neighbourhood, from an exponential tilt.

Delta rises with the probabilities under P and with the losses. So a bound takes both rounded to its safe side, and no
probability needs to add up to 1. Proof: docs/proofs/cells.md.

Example: four samples with q = 1e-6 of normal noise, 2,000 cells: epsilon at delta 1e-9 is 3.43569e-5, to 2.1e-11.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from flint import arb

from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.engines.moments import greatest_bounds
from tallyveil.accounting.engines.sampled import (
    kinds_of,
    log_odds,
    log_ratios,
    losses_of_sample,
    moves_of,
)
from tallyveil.accounting.engines.tails import (
    NOTHING,
    ManyBounds,
    Tails,
    float_bounds,
    tails_by_chords,
    within_floats,
)
from tallyveil.accounting.losses import (
    ChoiceLoss,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    MixtureLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    chord_length,
)
from tallyveil.accounting.numbers import Bounds, log_of
from tallyveil.arrays import Floats
from tallyveil.noise.balls import between_zero_and, precision, rational

COUNT: Final = 2000
"""Cells of a law. The width of epsilon's bounds falls with the square of it, and time grows with the square."""

_ROUGH: Final = 250
"""The same for a search."""

_BITS: Final = 192
"""Bits of ball arithmetic. A cell may hold 1e-30 of a law, and the share of each of its ends is a difference."""

_FARTHEST: Final = 39.0
"""Standard deviations beyond which normal noise has a probability below every float."""

_EDGES: Final = 4097
"""Places at which a loss is looked at to choose its cells."""

_SPREAD: Final = 0.05
"""Share of the cells that are spread over all losses, so that no cell is very wide."""

_EVEN: Final = 0.25
"""The same of the cells that are as long as each other."""

_SPARE: Final = 60.0
"""Nats below delta from which the ends of a law count little."""

_AT_ONCE: Final = 1 << 15
"""Pairs of entries that are added up at once: the sum of so many terms has an error of as many units."""

_FEW: Final = 16
"""Pairs of losses for each cell up to which every pair is kept."""

_COARSE: Final = 160
"""Entries of each law that tell where the cells of their sum are needed."""

_GROUPS: Final = 400
"""Groups of these pairs."""

_LOST: Final = 1e-322
"""What two products lose, or gain, where they are below every normal float."""

_LEAST: Final = 1e-250
"""Cells of less are left out from below: what products gained could be much of them."""

_HALVINGS: Final = 60
"""Halvings of a bracket of tilts. Every tilt gives bounds."""

_TINY: Final = 1e-12
"""An epsilon that counts as 0 where cells are chosen."""

_LARGEST_TILT: Final = 1e9
"""The largest tilt that a search tries."""

_DEEPEST: Final = 690.0
"""Minus the logarithm of the least delta that keeps its digits. Probabilities are multiplied by up to 1e300."""

_CACHED: Final = 8
"""Neighbourhoods of epsilons whose laws are kept."""

MOST_VARIANCE: Final = 10**5
"""Of discrete Gaussian noise, whose values are listed: about half a second. Real noise stands for a larger one."""

MOST_VALUES: Final = 1 << 14
"""Of discrete Laplace noise, and steps that discrete Gaussian noise is moved."""


@dataclass(frozen=True, slots=True)
class _Law:
    """Losses and their probabilities under P, rounded to one side.

    Attributes:
        values: Finite losses, ascending.
        masses: Their probabilities times exp(scale), the scale being the caller's.
        infinite: The probability of an infinite loss, with the same factor, and what products below every float
            may have lost. From below it is what they may have gained.
        slip: By how much a value may be off.
    """

    values: Floats
    masses: Floats
    infinite: float = 0.0
    slip: float = 0.0


_NONE: Final = _Law(np.zeros(1), np.ones(1))
"""The law of a release of nothing."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """Outcomes with a ratio between two ends.

    Attributes:
        least: The smallest ratio R, 0 or more.
        most: The largest one; None if there is none.
        first: Probability under P.
        second: Probability under Q.
    """

    least: arb
    most: arb | None
    first: arb
    second: arb

    @property
    def reversed(self) -> "_Cell":
        """The same outcomes with P and Q exchanged."""
        least = 1 / self.most if self.most is not None else arb(0)
        return _Cell(least, 1 / self.least if self.least > 0 else None, self.second, self.first)


def takes_cells(loss: SampledLoss) -> bool:
    """Whether the outcomes of a loss are cut into cells: not for integer noise with too many values."""
    match loss.base:
        case ChoiceLoss():
            return all(takes_cells(part) for _, part in kinds_of(loss))
        case GaussianLoss(variance, sensitivity):
            return variance <= MOST_VARIANCE and sensitivity < MOST_VALUES
        case LaplaceLoss(_, sensitivity):
            return sensitivity < MOST_VALUES
        case _:
            return True


@dataclass(frozen=True, slots=True)
class _Outline:
    """One kind of loss in floats, to choose tilts and cells.

    Attributes:
        places: Edges of the outcomes: standard deviations of normal noise, or units of the scale of Laplace noise.
        ratios: ln R at these.
        logs: Logarithms of the probabilities under Q between them.
    """

    places: Floats
    ratios: Floats
    logs: Floats

    @classmethod
    def of(cls, loss: SampledLoss) -> "_Outline":
        """That of one sample of normal, discrete Gaussian or real Laplace noise."""
        base = loss.base
        if isinstance(base, ExponentialLoss):
            whole = float(base.epsilon)
            places = np.linspace(whole / 2 if loss.changed else 0.0, whole, _EDGES)
            odds = 2 * places - whole
            logs = -(places[1:] + places[:-1]) / 2 - math.log(2)
        else:
            moves = moves_of(base)
            least = moves[0][0] / 2 if loss.changed else -_FARTHEST
            places = np.linspace(least, moves[-1][0] + _FARTHEST, _EDGES)
            odds = log_odds(base, places)
            logs = -(np.minimum(places[1:] ** 2, places[:-1] ** 2)) / 2 - math.log(2 * math.pi) / 2
        return cls(places, log_ratios(loss, odds), logs + math.log(places[1] - places[0]))

    def weights(self, loss: SampledLoss, tilt: float) -> Floats:
        """Logarithms of the tilted probabilities between the places."""
        middle = (self.ratios[1:] + self.ratios[:-1]) / 2
        if loss.changed:
            return np.logaddexp(self.logs + (1 + tilt) * middle, self.logs - tilt * middle)
        return self.logs - tilt * middle if loss.added else self.logs + (1 + tilt) * middle

    def cut(self, loss: SampledLoss, tilt: float, most: float, depth: float, count: int) -> Floats:
        """Places of the cells.

        Args:
            loss: The loss.
            tilt: Of the losses that matter.
            most: Losses beyond it may share one cell.
            depth: Minus the logarithm of delta, about.
            count: Number of cells.
        """
        middle = (self.ratios[1:] + self.ratios[:-1]) / 2
        matter = self.logs + (0.0 if loss.added else np.maximum(middle, 0.0)) >= -depth - _SPARE
        if loss.added:
            matter &= -middle <= most
        else:
            matter &= middle <= most
        inside = np.flatnonzero(matter)
        if not inside.size:
            inside = np.array([0])
        first, last = int(inside[0]), int(inside[-1]) + 1
        logs = self.weights(loss, tilt)[first:last]
        chances = np.exp(logs - logs.max())
        return _spread(
            self.places[first : last + 1], np.abs(np.diff(self.ratios[first : last + 1])), chances, count
        )


def _spread(places: Floats, lengths: Floats, weights: Floats, count: int) -> Floats:
    """Ends of cells among places.

    The error of a cell is about its weight times the square of its length. For a given number of cells the sum of
    these is least if their density is the third root of weight by length.

    Args:
        places: Edges of pieces, ascending.
        lengths: Of each piece, in losses.
        weights: Of each piece.
        count: Number of cells.
    """
    density = np.cbrt(weights * lengths * lengths)
    whole = density.sum()
    density += whole * _SPREAD / density.size
    # Where one loss alone carries delta, the tilt has no end, and all weight is at one of the epsilons of a law.
    if lengths.sum() > 0:
        density += whole * _EVEN * lengths / lengths.sum()
    total = np.concatenate([[0.0], np.cumsum(density)])
    if not total[-1] > 0:
        return places[[0, -1]]
    return np.unique(np.interp(np.linspace(0, total[-1], count + 1), total, places))


def _cells_of(loss: SampledLoss, places: Floats) -> list[_Cell]:
    """The outcomes of one sample, if the record was removed, between places; the caller sets the precision."""
    base, q, rest = loss.base, rational(loss.probability), rational(1 - loss.probability)
    match base:
        case ExponentialLoss(epsilon):
            ends, outcomes = _of_laplace(rational(epsilon), places, above=loss.changed)
        case GaussianLoss():
            ends, outcomes = _of_integers(base, places)
        case _:
            ends, outcomes = _of_normal(base, places, above=loss.changed)

    def ratio(odds: arb | None) -> arb | None:
        return None if odds is None else rest + q * odds

    cells = []
    for (low, high), (moved, without) in zip(ends, outcomes, strict=True):
        least = ratio(low)
        cells.append(
            _Cell(rest if least is None else least, ratio(high), rest * without + q * moved, without)
        )
    return cells


_Ends: TypeAlias = list[tuple[arb | None, arb | None]]
_Chances: TypeAlias = list[tuple[arb, arb]]


def _of_laplace(epsilon: arb, places: Floats, *, above: bool) -> tuple[_Ends, _Chances]:
    """Ends of exp(b), and the probabilities with and without the record, for real Laplace noise.

    Under Q the noise has the density exp(-|x|) / 2. If x is below 0, b is -epsilon, and above epsilon it is epsilon.
    """
    inner = [arb(place) for place in places[1:-1].tolist()]
    whole = [epsilon / 2 if above else arb(0), *inner, epsilon]
    odds = [(2 * x - epsilon).exp() for x in whole]
    ends: _Ends = list(itertools.pairwise(odds))
    chances = []
    for low, high in itertools.pairwise(whole):
        grown = (high - low).expm1()
        chances.append((grown * (low - epsilon).exp() / 2, grown * (-high).exp() / 2))
    atoms = [(epsilon, arb("0.5"), (-epsilon).exp() / 2)]
    if not above:
        atoms.append((-epsilon, (-epsilon).exp() / 2, arb("0.5")))
    for b, moved, without in atoms:
        ends.append((b.exp(), b.exp()))
        chances.append((moved, without))
    return ends, chances


def _of_normal(base: object, places: Floats, *, above: bool) -> tuple[_Ends, _Chances]:
    """The same for normal noise; the first and the last cell reach to the ends of the line."""
    if isinstance(base, MixtureLoss):
        unit = rational(base.variance).sqrt()
        moves = [(rational(move) / unit, rational(share)) for move, share in base.shares]
    else:
        assert isinstance(base, NormalLoss)
        moves = [(rational(base.mu_squared).sqrt(), arb(1))]
    whole = [arb(place) for place in places.tolist()]
    if above:
        # The place with b = 0 itself, of which a float is off.
        whole[0] = moves[0][0] / 2
    odds: list[arb | None] = [
        sum((share * (mu * x - mu * mu / 2).exp() for mu, share in moves), arb(0)) for x in whole
    ]
    if not above:
        odds = [None, *odds]
    masses = [_normal_masses(whole, mu, above=above) for mu, _ in moves]
    moved = [
        sum((share * part for (_, share), part in zip(moves, parts, strict=True)), arb(0))
        for parts in zip(*masses, strict=True)
    ]
    without = _normal_masses(whole, arb(0), above=above)
    return list(zip(odds, [*odds[1:], None], strict=True)), list(zip(moved, without, strict=True))


def _normal_masses(places: Sequence[arb], centre: arb, *, above: bool) -> list[arb]:
    """Probabilities of a normal law between places and beyond them, each with its digits."""
    root = arb(2).sqrt()
    below: list[arb] = [arb(0)]
    beyond: list[arb] = [arb(1)]
    for place in places:
        x = (place - centre) / root
        # From the side on which it is small; the other one is 1 less this.
        if x < 0:
            below.append((-x).erfc() / 2)
            beyond.append(1 - below[-1])
        else:
            beyond.append(x.erfc() / 2)
            below.append(1 - beyond[-1])
    below.append(arb(1))
    beyond.append(arb(0))
    masses = [
        high - low if low < arb("0.5") else left - right
        for low, high, left, right in zip(below[:-1], below[1:], beyond[:-1], beyond[1:], strict=True)
    ]
    return masses[1:] if above else masses


def _of_integers(base: GaussianLoss, places: Floats) -> tuple[_Ends, _Chances]:
    """The same for discrete Gaussian noise, whose cells are runs of whole numbers."""
    sigma, k = math.sqrt(base.variance), base.sensitivity
    # All but a probability below every float of either law.
    far = math.ceil(_FARTHEST * sigma) + 2
    first, last = -far, k + far
    unit = rational(-1 / (2 * base.variance))
    weights = _weights_of_integers(base.variance, far + k + 1)
    # Beyond an end each weight is a smaller part of the one before: a geometric series.
    beyond = (unit * (far + k + 1) ** 2).exp() / (1 - (unit * (2 * (far + k) + 3)).exp())
    total = 1 + 2 * (sum(weights[1:], arb(0)) + between_zero_and(beyond))
    edges = np.unique(np.clip(np.floor(places * sigma), first - 1, last)).astype(np.int64).tolist()
    ends: _Ends = []
    chances: _Chances = []
    # No cell has losses on both sides of 0: of a sample of fixed size those above count alone.
    for low, high in itertools.pairwise(sorted({first - 1, k // 2, *edges, last})):
        inside = range(low + 1, high + 1)
        without = sum((weights[abs(y)] for y in inside), arb(0)) / total
        moved = sum((weights[abs(y - k)] for y in inside), arb(0)) / total
        ends.append((_odds_of_integer(base, low + 1), _odds_of_integer(base, high)))
        chances.append((moved, without))
    for side, end in ((-1, first - 1), (1, last + 1)):
        tails = [
            (unit * (y * y)).exp() / (1 - (unit * (2 * abs(y) + 1)).exp()) / total for y in (end - k, end)
        ]
        odds = _odds_of_integer(base, end)
        ends.append((None, odds) if side < 0 else (odds, None))
        chances.append((between_zero_and(tails[0].upper()), between_zero_and(tails[1].upper())))
    return ends, chances


# Every epsilon has cells of its own, of the same values.
@lru_cache(maxsize=4)
def _weights_of_integers(variance: Fraction, count: int) -> list[arb]:
    """Weights exp(-y^2 / (2 v)) of the first whole numbers from 0 on."""
    with precision(_BITS):
        unit = rational(-1 / (2 * variance))
        return [(unit * (y * y)).exp() for y in range(count)]


def _odds_of_integer(base: GaussianLoss, place: int) -> arb:
    """Exp(b) of discrete Gaussian noise."""
    return rational((2 * place - base.sensitivity) * base.sensitivity / (2 * base.variance)).exp()


def _all_cells(loss: SampledLoss, cut: Callable[[SampledLoss], Floats]) -> list[_Cell]:
    """The cells of one loss; `cut` gives the places of the cells of real or Gaussian noise."""
    if isinstance(loss.base, ChoiceLoss):
        return [
            replace(cell, first=rational(share) * cell.first, second=rational(share) * cell.second)
            for share, part in kinds_of(loss)
            for cell in _all_cells(part, cut)
        ]
    if loss.base is None or isinstance(loss.base, LaplaceLoss | ResponseLoss):
        cells = [
            _Cell(value.exp(), value.exp(), chance, chance * (-value).exp())
            for value, chance in losses_of_sample(loss)
        ]
    else:
        cells = _cells_of(loss, cut(loss))
        if loss.changed:
            # Only outcomes that are likelier with the record count, for both neighbours; the rest has a loss of 0.
            halves = [cell for cell in cells if not cell.least < 1]
            stays = 1 - sum((cell.first + cell.second for cell in halves), arb(0))
            return [*halves, *(cell.reversed for cell in halves), _Cell(arb(1), arb(1), stays, stays)]
        if loss.added:
            cells = [cell.reversed for cell in cells]
    if not loss.failure:
        return cells
    # A failure while the record is in the sample is counted apart. One without it has the ratio 1 - q.
    q, fails = rational(loss.probability), rational(loss.failure)
    held, whole = 1 - fails, arb(1) if loss.added else 1 - q * fails
    cells = [
        replace(cell, first=cell.first * held / whole, second=cell.second * held / whole) for cell in cells
    ]
    failed = _Cell(1 - q, 1 - q, (1 - q) * fails, fails)
    failed = failed.reversed if loss.added else failed
    return [*cells, replace(failed, first=failed.first / whole, second=failed.second / whole)]


def _divided(cells: Sequence[_Cell], scale: Fraction) -> tuple[_Law, _Law]:
    """Laws that cost no less and no more, with probabilities times exp(scale)."""
    unit = rational(scale).exp()
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    infinite = 0.0

    def above(ratio: arb, chance: arb) -> None:
        upper.append((float_bounds(ratio.upper().log()).upper, max(float_bounds(chance * unit).upper, 0.0)))

    for cell in cells:
        if cell.first > 0 and cell.second > 0:
            quotient = float_bounds((cell.first / cell.second).lower().log())
            lower.append((quotient.lower, max(float_bounds(cell.first * unit).lower, 0.0)))
        if cell.most is None:
            # Delta of one loss at the end of the cell is infinite, and the rest lies there.
            rest = cell.least * cell.second
            infinite += max(float_bounds((cell.first - rest) * unit).upper, 0.0)
            if cell.least > 0:
                above(cell.least, rest)
            continue
        width = 1 - cell.least / cell.most
        at_most = (cell.first - cell.least * cell.second) / width if width > 0 else None
        if (
            at_most is None
            or not cell.least > 0
            or not at_most.rad() < arb(2) ** -60 * cell.first.abs_upper()
        ):
            # An atom, a cell that reaches down to 0, or one so narrow that its ends need not be told apart.
            above(cell.most, cell.first)
            continue
        above(cell.most, at_most)
        above(cell.least, cell.first - at_most)
    return (
        _law(upper, infinite * (1 + len(cells) * UNIT), is_upper=True),
        _law(lower, 0.0, is_upper=False),
    )


def _law(entries: Sequence[tuple[float, float]], infinite: float, *, is_upper: bool) -> _Law:
    values, masses = np.array(entries, dtype=np.float64).reshape(-1, 2).T
    # Equal ends of neighbouring cells meet in one entry.
    losses, places, terms = np.unique(values, return_inverse=True, return_counts=True)
    error = UNIT * (terms + 2) * (1 if is_upper else -1)
    summed = np.bincount(places.ravel(), weights=masses, minlength=losses.size) * (1 + error)
    return _Law(losses, summed.astype(np.float64, copy=False), infinite)


@dataclass(frozen=True, slots=True)
class _Side:
    """How laws are added up: from above or from below.

    Attributes:
        is_upper: Which.
        tilt: Of the losses that matter.
        count: Cells of a sum.
    """

    is_upper: bool
    tilt: float
    count: int

    def power(self, law: _Law, n: int, most: Callable[[int], float]) -> _Law:
        """The sum of n equal losses; sums of k of them beyond `most(k)` may share one cell."""
        if n == 0:
            return _NONE
        if n == 1:
            return law
        half = self.power(law, n // 2, most)
        double = self.sum(half, half, most(n // 2 * 2))
        return double if n % 2 == 0 else self.sum(double, law, most(n))

    def sum(self, left: _Law, right: _Law, most: float) -> _Law:
        """The sum of two losses, cut into cells."""
        if left.values.size * right.values.size <= _FEW * self.count:
            return self._pairs(left, right)
        left, right = (
            law if law.values.size <= 2 * self.count else self._cut(law, _NONE, math.inf)
            for law in (left, right)
        )
        return self._cut(left, right, most)

    def _cut(self, left: _Law, right: _Law, most: float) -> _Law:
        ends = self._ends(left, right, most)
        widths = -np.expm1(-np.diff(ends))
        total, part = np.zeros(widths.size), np.zeros(widths.size)
        rows = max(1, _AT_ONCE // right.values.size)
        steps = 0
        for first in range(0, left.values.size, rows):
            values = np.add.outer(left.values[first : first + rows], right.values).ravel()
            masses = np.multiply.outer(left.masses[first : first + rows], right.masses).ravel()
            cell = np.searchsorted(ends, values, side="right") - 1
            total += np.bincount(cell, weights=masses, minlength=widths.size)
            # Of R between a and b the share (1 - a / R) / (1 - a / b) goes up to b.
            masses *= -np.expm1(ends[cell] - values)
            part += np.bincount(cell, weights=masses, minlength=widths.size)
            steps += 1
        # All terms are positive. One has an error of 80 units, and one for each addition.
        error = UNIT * (max(_AT_ONCE, right.values.size) + steps + 200)
        slip = left.slip + right.slip + UNIT * float(np.abs(ends).max())
        infinite = _infinite(left, right)
        if not self.is_upper:
            held = total > _LEAST
            shrunk = np.minimum(part[held] / total[held], 1.0) * (1 - 4 * error)
            # ln(p / q), with q = p (1 - the mean of 1 - a / R) / a.
            values = ends[:-1][held] - np.log1p(-shrunk)
            # Ascending again, where rounding exchanged two: a smaller loss is safe.
            values = np.minimum.accumulate(values[::-1])[::-1]
            return _Law(
                values,
                total[held] * (1 - 2 * error),
                infinite,
                slip + 64 * UNIT * float(np.abs(values).max()),
            )
        up = np.minimum(part / widths, total)
        masses = np.zeros(ends.size)
        masses[1:] += up * (1 + 4 * error)
        masses[:-1] += np.maximum(total * (1 + 4 * error) - up * (1 - 4 * error), 0.0)
        return _Law(ends, masses, infinite, slip)

    def _pairs(self, left: _Law, right: _Law) -> _Law:
        """The same with every pair of losses."""
        values = np.add.outer(left.values, right.values).ravel()
        masses = np.multiply.outer(left.masses, right.masses).ravel()
        slip = left.slip + right.slip + UNIT * float(np.abs(values).max())
        values, places = np.unique(values, return_inverse=True)
        error = UNIT * (masses.size + 2) * (1 if self.is_upper else -1)
        summed = (np.bincount(places.ravel(), weights=masses) * (1 + error)).astype(np.float64, copy=False)
        return _Law(values, summed, _infinite(left, right), slip)

    def _ends(self, left: _Law, right: _Law, most: float) -> Floats:
        (values, logs), (others, other_logs) = _coarse(left), _coarse(right)
        sums = np.add.outer(values, others).ravel()
        masses = np.add.outer(logs, other_logs).ravel()
        order = np.argsort(sums, kind="stable")
        sums, masses = sums[order], masses[order]
        weights = masses + self.tilt * np.minimum(sums, most)
        weights = np.exp(weights - weights.max())
        # One unit of rounding above all sums, and the least of them.
        low = float(left.values[0] + right.values[0])
        high = math.nextafter(float(left.values[-1] + right.values[-1]), math.inf)
        starts = np.unique(np.linspace(0, sums.size, _GROUPS + 1).astype(np.int64))[:-1]
        edges = np.clip(np.concatenate([[low], sums[starts[1:]], [high]]), low, max(min(most, high), low))
        held = np.add.reduceat(weights, starts)
        ends = _spread(edges, np.diff(edges), held, self.count)
        ends = ends[(ends > low) & (ends < high)]
        return np.concatenate([[low], ends, [high]])


def _coarse(law: _Law) -> tuple[Floats, Floats]:
    """Fewer values, and the logarithms of their masses."""
    starts = np.unique(np.linspace(0, law.values.size, _COARSE + 1).astype(np.int64))[:-1]
    middles = np.add.reduceat(law.values, starts) / np.diff(np.append(starts, law.values.size))
    with np.errstate(divide="ignore"):
        return middles, np.log(np.add.reduceat(law.masses, starts))


def _infinite(left: _Law, right: _Law) -> float:
    """The probability that one of two losses is infinite, and what products of both lose, rounded up."""
    either = left.infinite * (float(right.masses.sum()) + right.infinite) + right.infinite * float(
        left.masses.sum()
    )
    either += _LOST * left.masses.size * right.masses.size
    return either * (1 + UNIT * (right.masses.size + left.masses.size + 8))


@dataclass(frozen=True, slots=True)
class _Delta:
    """Delta of the sum of two laws; each epsilon takes one look-up for each loss of the first.

    Attributes:
        left: The first law.
        right: The second law.
        weights: For each loss b of the second law and those c above, the sum of p exp(b - c).
        gaps: The sum of p (1 - exp(b - c)).
        infinite: The probability of an infinite loss, and what products below every float may have lost or gained.
    """

    left: _Law
    right: _Law
    weights: Floats
    gaps: Floats
    infinite: float

    @classmethod
    def of(cls, left: _Law, right: _Law) -> "_Delta":
        """Delta of the sum."""
        weights, gaps = [0.0], [0.0]
        values = right.values.tolist()
        before = values[-1]
        for value, mass in zip(reversed(values), reversed(right.masses.tolist()), strict=True):
            gaps.append(gaps[-1] - math.expm1(value - before) * weights[-1])
            weights.append(mass + math.exp(value - before) * weights[-1])
            before = value
        # Each entry of both lists has what is lost above it, and counts as often as all of the first law.
        lost = _LOST * right.values.size * float(left.masses.sum())
        infinite = _infinite(left, right) + lost
        return cls(left, right, np.array(weights[::-1]), np.array(gaps[::-1]), infinite)

    def log_delta(self, epsilon: Fraction, side: int) -> float:
        """Ln delta plus the scale, rounded to one side."""
        left, right = self.left, self.right
        about = float(epsilon)
        most = float(np.abs(left.values).max() + np.abs(right.values).max())
        slip = left.slip + right.slip + 4 * UNIT * (abs(about) + most)
        x = about - left.values - side * slip
        place = np.searchsorted(right.values, x, side="right")
        nearest = np.append(right.values, math.inf)[place]
        parts = self.gaps[place] - np.expm1(np.minimum(x - nearest, 0.0)) * self.weights[place]
        total = float((left.masses * parts).sum())
        # Each sum of the second law has 40 units for every entry, as an exponential is among them.
        error = UNIT * (40 * right.values.size + left.values.size + 500)
        total = total * (1 + side * error) + side * self.infinite
        return math.log(total) if total > 0 else -math.inf


@dataclass(frozen=True, slots=True)
class _Near:
    """What is known near an epsilon: delta from both sides, times exp(scale)."""

    upper: _Delta
    lower: _Delta
    scale: float


class Cells:
    """Certified delta of few losses that are cut into cells.

    Args:
        law: The losses, equal ones merged; none fails, but samples may.
        count: Cells of each law.
    """

    name = "cells"

    def __init__(self, law: Law, count: int = COUNT) -> None:
        self.law = law
        self.count = count
        self.samples = tuple(_as_sample(loss) for loss in law)
        self.greatest = greatest_bounds(law).upper
        self._chord = chord_length(law)
        self._near: dict[float, _Near] = {}

    @classmethod
    def build(cls, law: Law) -> "Cells | None":
        """The engine, or None where a loss has too many values."""
        return cls(law) if all(takes_cells(_as_sample(loss)) for loss in law) else None

    def rough(self) -> "Cells":
        """An engine of the same losses that is faster and less exact, to search with."""
        return Cells(self.law, _ROUGH)

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`; both probabilities follow from delta and are known to a few per cent."""
        return tails_by_chords(self, epsilon, max(abs(float(epsilon)) / 32, self._chord))

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        return ManyBounds.of([self._log_delta(within_floats(epsilon)) for epsilon in epsilons])

    def _log_delta(self, epsilon: Fraction) -> Bounds:
        if epsilon >= self.greatest:
            return NOTHING
        near = self._at(self._neighbourhood(float(epsilon)))
        ends = [
            law.log_delta(epsilon, side) - near.scale for law, side in ((near.lower, -1), (near.upper, 1))
        ]
        slack = [40 * UNIT * (abs(end) + near.scale + 1) if math.isfinite(end) else 0.0 for end in ends]
        upper = min(ends[1] + slack[1], 0.0)
        return Bounds(min(ends[0] - slack[0], upper), upper)

    def _neighbourhood(self, epsilon: float) -> float:
        """The end of the epsilons that share a law: four for each doubling, or of the distance to the largest loss."""
        end = _next_step(epsilon, 1)
        left = self.greatest - epsilon
        return end if left > end - epsilon else self.greatest - _next_step(left, -1)

    def _at(self, epsilon: float) -> _Near:
        if epsilon not in self._near:
            while len(self._near) >= _CACHED:
                self._near.pop(next(iter(self._near)))
            self._near[epsilon] = self._cut_near(epsilon)
        return self._near[epsilon]

    def _cut_near(self, epsilon: float) -> _Near:
        outlines = {
            part: _Outline.of(part) for loss in self.samples for part in _parts(loss) if _is_cut(part)
        }
        flat = [(loss, *_flattened(loss, outlines)) for loss in self.samples]
        tilt, depth, lows = _saddle(flat, epsilon)
        answers = sum(loss.multiplicity for loss in self.samples)
        # A binary fraction, so that n times it is exact.
        scale = Fraction(max(0, math.floor(depth / answers * 2**20)), 2**20)
        whole = sum(loss.multiplicity * low for loss, low in zip(self.samples, lows, strict=True))
        laws: list[tuple[tuple[_Law, _Law], int, float]] = []
        for loss, low in zip(self.samples, lows, strict=True):
            beyond = epsilon - (whole - low)

            def cut(part: SampledLoss, beyond: float = beyond) -> Floats:
                return outlines[replace(part, multiplicity=1)].cut(part, tilt, beyond, depth, self.count)

            with precision(_BITS):
                laws.append((_divided(_all_cells(loss, cut), scale), loss.multiplicity, low))
        upper, lower = (
            self._summed(
                [(pair[i], n, low) for pair, n, low in laws], _Side(not i, tilt, self.count), epsilon - whole
            )
            for i in (0, 1)
        )
        return _Near(upper, lower, float(scale * answers))

    def _summed(self, laws: list[tuple[_Law, int, float]], side: _Side, above: float) -> _Delta:
        """Delta of the sum; `above` is how far epsilon is above the sum of the lowest losses."""
        # A half of every kind, and of an odd number one more, in turn to either half.
        before = [0, *itertools.accumulate(n for _, n, _ in laws)]
        shares = [
            [(n + (which + parity) % 2) // 2 for (_, n, _), parity in zip(laws, before[:-1], strict=True)]
            for which in (0, 1)
        ]
        first = self._half(laws, shares[0], side, above)
        second = first if shares[1] == shares[0] else self._half(laws, shares[1], side, above)
        return _Delta.of(first, second)

    def _half(
        self, laws: list[tuple[_Law, int, float]], shares: list[int], side: _Side, above: float
    ) -> _Law:
        total, lowest = _NONE, 0.0
        for (law, _, low), taken in zip(laws, shares, strict=True):
            part = side.power(law, taken, lambda k, low=low: above + k * low)  # type: ignore[misc]
            lowest += taken * low
            total = part if total is _NONE else side.sum(total, part, above + lowest) if taken else total
        return total


def _as_sample(loss: object) -> SampledLoss:
    """A loss as a sample that surely holds the record."""
    if isinstance(loss, SampledLoss):
        return loss
    assert not isinstance(loss, FailureLoss)
    assert isinstance(loss, NormalLoss | GaussianLoss | LaplaceLoss | ExponentialLoss | ResponseLoss)
    return SampledLoss(replace(loss, multiplicity=1), Fraction(1), multiplicity=loss.multiplicity)


def _parts(loss: SampledLoss) -> list[SampledLoss]:
    """One sample of each kind that may be drawn."""
    if isinstance(loss.base, ChoiceLoss):
        return [part for _, part in kinds_of(loss)]
    return [replace(loss, multiplicity=1)]


def _is_cut(loss: SampledLoss) -> bool:
    return isinstance(loss.base, NormalLoss | MixtureLoss | GaussianLoss | ExponentialLoss)


def _next_step(value: float, side: int) -> float:
    """The next of four numbers for each doubling, upwards or downwards; 0 for a tiny one."""
    if abs(value) < _TINY:
        return 0.0
    steps = 4 * math.log2(abs(value))
    larger = math.ceil(steps) if (value > 0) == (side > 0) else math.floor(steps)
    return math.copysign(2.0 ** (larger / 4), value)


def _flattened(loss: SampledLoss, outlines: dict[SampledLoss, _Outline]) -> tuple[Floats, Floats]:
    """Losses of one sample, and the logarithms of their probabilities under P, in floats."""
    if isinstance(loss.base, ChoiceLoss):
        kinds = [(log_of(share), *_flattened(part, outlines)) for share, part in kinds_of(loss)]
        return np.concatenate([values for _, values, _ in kinds]), np.concatenate(
            [share + logs for share, _, logs in kinds]
        )
    part = replace(loss, multiplicity=1)
    if part not in outlines:
        with precision(64):
            listed = [(float(value), float(chance)) for value, chance in losses_of_sample(loss)]
        values, chances = np.array(listed).T
        return values, np.log(np.maximum(chances, 1e-320))
    outline = outlines[part]
    middle = (outline.ratios[1:] + outline.ratios[:-1]) / 2
    if isinstance(loss.base, ExponentialLoss) and not loss.changed:
        e = float(loss.base.epsilon)
        middle = np.concatenate([middle, log_ratios(loss, np.array([-e, e]))])
        logs = np.concatenate([outline.logs, [-math.log(2), -math.log(2) - e]])
    else:
        logs = outline.logs
    if loss.changed:
        values = np.concatenate([middle, -middle, [0.0]])
        return values, np.concatenate([logs + middle, logs, [math.log(0.5)]])
    return (-middle, logs) if loss.added else (middle, logs + middle)


def _saddle(
    flat: Sequence[tuple[SampledLoss, Floats, Floats]], epsilon: float
) -> tuple[float, float, list[float]]:
    """The tilt at which the mean is epsilon, minus the logarithm of delta there, and the least loss of each kind."""
    lows = [float(values[logs > logs.max() - 40].min()) for _, values, logs in flat]
    whole = sum(loss.multiplicity * low for (loss, _, _), low in zip(flat, lows, strict=True))
    # Losses beyond what epsilon leaves to one of them count as that much.
    short = [
        (loss.multiplicity, np.minimum(values, max(epsilon - (whole - low), low)), logs)
        for (loss, values, logs), low in zip(flat, lows, strict=True)
    ]

    def moments(tilt: float) -> tuple[float, float]:
        log_moment = mean = 0.0
        for n, values, logs in short:
            exponents = logs + tilt * values
            highest = float(exponents.max())
            weights = np.exp(exponents - highest)
            log_moment += n * (highest + math.log(float(weights.sum())))
            # No product of vectors: its rounding may depend on the number of threads.
            mean += n * float((weights * values).sum()) / float(weights.sum())
        return log_moment, mean

    def is_short(tilt: float) -> bool:
        log_moment, mean = moments(tilt)
        return mean < epsilon and tilt * epsilon - log_moment < _DEEPEST

    low, high = 0.0, 1.0
    if not is_short(low):
        return low, 0.0, lows
    while is_short(high) and high < _LARGEST_TILT:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return low, max(0.0, low * epsilon - moments(low)[0]), lows
