"""The worst epsilon of very many compositions, on one contour that all of them share.

The problem: a record may take one of many ways through a spine, and each release on it adds a factor to their number.
Composing one law after the other takes milliseconds for each, and four products have 10^11 laws. But all these laws
add up the same few hundred kinds of answers, in different numbers. So each kind's transform is computed once.

The variables: a *choice* is a set of options (laws), of which some are taken; a law of the composition takes its
options from each choice. z = s + iu has the tilt s and the frequency u. N(0, t^2) is the *dither*, independent of
everything; delta_t the delta of the loss L with the dither.

The idea: delta(epsilon) <= delta_t(epsilon - t^2 / 2), and delta_t is at most the trapezoid rule, a sum over few nodes
of the product of the transforms of the options. So the value of the rule is linear in the transform of each option.
If a partial product p is worse than another one q for the reference completion x0, and by more than |p - q| times what
completions can differ from x0, then q stands for p. Hardly any partial products remain.

The steps:

1. Bound the transforms of all laws at every node of the rule, sixteen neighbours at a time and then one by one. Few
   nodes are left; the others are bounded.
2. Compute the transform of each kind of answer there, and from these that of each option: one product of matrices.
3. For an epsilon: take the choices one after the other, and keep only those partial products for which no other one
   stands. The largest value, with the bounds of all errors, is an upper bound of delta of every law at once.
4. The law of the largest value is composed by its own engine, which gives the lower bound of epsilon and the next
   epsilon to ask for. This is done again until the upper bound of delta is small enough.

Proof: docs/proofs/off-lattice.md, section 11.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any, Final, cast

import numpy as np

from tallyveil.accounting.engines.dithered import (
    LEAST_VARIANCE,
    Transformed,
    is_wide_gaussian,
    saddle,
    transform_of,
)
from tallyveil.accounting.engines.loss_transform import UNIT, GaussianFactors, decay_of
from tallyveil.accounting.engines.moments import certified_log_moment, greatest_bounds, moments
from tallyveil.accounting.engines.tails import log_bounds_of
from tallyveil.accounting.losses import (
    UNKNOWN_LAW,
    Choice,
    FailureLoss,
    Law,
    NormalLoss,
    SampledLoss,
    counted,
    merged_law,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Complexes, Floats, Integers

WIDEST: Final = 1e-6
"""Width of epsilon's bounds at which the contour is tried last."""

FAR: Final = 8
"""Widths above the worst law from which a smaller upper bound is searched for, and the width reached is stated."""

NAME: Final = "shared"
"""Name of the method, for the reader of a guarantee."""

_BLOCKS: Final = (
    128,
    16,
    1,
)  # neighbouring nodes that are bounded at once, and then fewer where they may count
_AT_ONCE: Final = 1 << 20  # nodes times kinds of answers that are bounded at once
_DOUBTS_AT_ONCE: Final = 1 << 14  # nodes whose arrays stay in the cache of a core
_LITTLE: Final = 1e-3  # of what is known of a doubt: the rest of it need not be computed node by node
_MOST_SCANNED: Final = 1 << 25  # nodes of a rule, of which nearly all are only bounded
_MOST_NUMBERS: Final = 1 << 21  # transforms of kinds and of options at all nodes
_MOST_TAKEN: Final = 4096  # options that a law takes in all
_ELIMINATIONS: Final = 2  # rounds in which options are dropped that no law of interest takes
_LEAST_KEPT: Final = 4  # partial products that may be kept
_MOST_WORK: Final = 1 << 27  # more may be kept if so many numbers are compared
_MOST_ROUNDS: Final = 12  # laws that are composed by their own engines, or epsilons that are asked for
_LEFT_OUT: Final = 1e-2  # share of the width that nodes left out may take
_WRAP: Final = 28.0  # minus the logarithm of the wrap-around, which only makes the upper bound larger
_NEARBY: Final = 0.02  # relative distance of epsilons that share a tilt
_BACK: Final = (
    16  # what the distance from the worst law is divided by if a smaller upper bound is searched for
)
_MOST_DISTANCES: Final = 64  # squared distances of neighbouring tables that are looked at
_LARGEST_LOG_UNIT: Final = 1e7  # beyond it, the rounding of logarithms would show
_LARGEST_TILT: Final = 1e6  # near the largest loss tilts grow without end
_UNDERFLOW: Final = 1e-280  # more than all terms that are too small for floats


@dataclass(frozen=True, slots=True)
class LatticeNoise:
    """Gaussian noise on a lattice of integer tables.

    Attributes:
        variance: Parameter of the noise.
        squared_distance: Largest squared distance of two neighbouring tables.
    """

    variance: Fraction
    squared_distance: int

    @property
    def is_wide(self) -> bool:
        """Whether the formulas here hold for every distance of neighbours, and these are few."""
        most = self.squared_distance
        return most <= _MOST_DISTANCES and self.variance >= LEAST_VARIANCE * most


@dataclass(frozen=True, slots=True)
class _Kind:
    """One answer of a kind, at one tilt.

    Attributes:
        pulls: a of the terms a d^2 / 2 that minus the logarithm of its transform's size is at least, with d the
            distance of the frequency from the nearest multiple of the period.
        periods: The periods of these terms.
        log_cap: An upper bound of the logarithm of the transform's size, without these terms.
        log_unit: The logarithm of the unit in which the transform is computed.
    """

    pulls: Floats
    periods: Floats
    log_cap: float
    log_unit: float


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one choice.

    Attributes:
        laws: The options.
        times: How many of them a law takes.
        kinds: Places of their kinds of answers among those of all choices.
        numbers: How many answers of each kind an option has, options in rows.
        log_caps: An upper bound of the logarithm of the size of each option's transform, at every frequency.
        log_units: Logarithm of the unit in which the transform of each option is computed.
    """

    laws: tuple[Law, ...]
    times: int
    kinds: Integers
    numbers: Floats
    log_caps: Floats
    log_units: Floats

    @classmethod
    def of(
        cls, laws: tuple[Law, ...], times: int, places: dict[Transformed, int], known: list[_Kind]
    ) -> "_Options":
        """The options, given the places of all kinds and what is known of them."""
        answers = [_answers(law) for law in laws]
        used = sorted({places[kind] for law in answers for kind in law})
        column = {place: i for i, place in enumerate(used)}
        numbers = np.zeros((len(laws), len(used)))
        for row, law in zip(numbers, answers, strict=True):
            for kind, n in law.items():
                row[column[places[kind]]] = n
        caps, units = (np.array([getattr(known[i], name) for i in used]) for name in ("log_cap", "log_unit"))
        return cls(laws, times, np.array(used, dtype=np.int64), numbers, numbers @ caps, numbers @ units)


@dataclass(frozen=True, slots=True)
class _Table:
    """The transforms of the options of one choice at the nodes, in the largest of their units.

    Attributes:
        values: Options in rows, nodes in columns.
        sizes: At each node, a bound on the modulus of every option's transform.
        errors: At each node, a bound on the error of every option, relative to this size, in UNIT.
        log_unit: Logarithm of the unit.
        centre: The loss from which the phases are counted, exact.
    """

    values: Complexes
    sizes: Floats
    errors: Floats
    log_unit: float
    centre: Fraction


@dataclass(frozen=True, slots=True)
class WorstLaw:
    """What is known of the worst of all laws at an epsilon.

    Attributes:
        log_delta: An upper bound of the logarithm of delta of every law.
        law: About the worst law.
    """

    log_delta: float
    law: Law


@dataclass(frozen=True, slots=True)
class SharedContour:
    """The rule on one contour, for all laws.

    Attributes:
        options: The choices.
        tables: The transforms of their options.
        tilt: s, above 0.
        dither: t squared.
        frequencies: u at the nodes that are computed.
        weights: What multiplies the transforms there, without the phase exp(i u (centre - epsilon)).
        left_out: A bound on the sum over all other nodes, in the unit of the transforms.
        slack: What the products left out may exceed the largest one by, in this unit.
    """

    options: tuple[_Options, ...]
    tables: tuple[_Table, ...]
    tilt: float
    dither: float
    frequencies: Floats
    weights: Complexes
    left_out: float
    slack: float

    def worst(self, epsilon: Fraction) -> WorstLaw:
        """An upper bound of delta of every law at an epsilon."""
        epsilon -= Fraction(self.dither) / 2
        parts = list(zip((options.times for options in self.options), self.tables, strict=True))
        # Exact difference, rounded once: the centre and epsilon may be large and close.
        away = float(sum((n * table.centre for n, table in parts), Fraction(0)) - epsilon)
        turns = self.frequencies * (away / (2 * math.pi))
        weights = self.weights * np.exp((2j * math.pi) * (turns - np.rint(turns)))
        sizes = np.abs(weights)
        for n, table in parts:
            sizes = sizes * table.sizes**n
        errors = 8 * self.frequencies * abs(away) + 1000 + sizes.size
        errors = errors + sum(n * (table.errors + 16) for n, table in parts)
        rounding = 1.01 * float(sizes @ np.expm1(np.minimum(1.01 * UNIT * errors, 700.0))) + _UNDERFLOW
        value, given, law = self._largest(weights, 1e-13 * float(sizes.sum()))
        total = value + given + rounding + self.left_out
        log_unit, less = sum(n * table.log_unit for n, table in parts), self.tilt * float(epsilon)
        # All errors are in the total, so that it is positive; no number at all would be no bound.
        log_delta = math.log(total) + log_unit - less if total > 0 else 0.0
        slack = 64 * UNIT * (sum(n * abs(table.log_unit) for n, table in parts) + abs(less) + 16)
        return WorstLaw(min(log_delta + slack, 0.0), law)

    def _largest(self, weights: Complexes, rounding: float) -> tuple[float, float, Law]:
        """The largest value of the rule, what any law may have more than this, and the law with this value.

        Args:
            weights: Those of the rule, with their phases.
            rounding: A bound on the rounding error of one value.
        """
        times, sizes = [options.times for options in self.options], np.abs(weights)
        chosen = self._references(weights)
        references = [table.values[place] for table, place in zip(self.tables, chosen, strict=True)]
        # No law is of interest whose value cannot exceed that of the references together.
        floor = float((weights @ _product(references, times)).real)
        places = [np.arange(len(table.values)) for table in self.tables]
        for _ in range(_ELIMINATIONS):
            largest = [
                np.abs(table.values[rows]).max(axis=0)
                for table, rows in zip(self.tables, places, strict=True)
            ]
            for i, table in enumerate(self.tables):
                rest = sizes * _product(largest, [n - (i == j) for j, n in enumerate(times)])
                counts = np.abs(table.values[places[i]]) @ rest > floor
                places[i] = places[i][counts | (places[i] == chosen[i])]
        values = [table.values[rows] for table, rows in zip(self.tables, places, strict=True)]
        largest = [np.abs(rows).max(axis=0) for rows in values]
        apart = [np.abs(rows - row).max(axis=0) for rows, row in zip(values, references, strict=True)]
        # Those that differ most first: what completions can differ by is then small from the beginning.
        order = sorted(range(len(values)), key=lambda i: -float(apart[i] @ sizes))
        steps = [i for i in order for _ in range(times[i])]
        # After each step: the product of the references that remain, how large completions are, and how far from it.
        rests = [(np.ones(sizes.size, dtype=np.complex128), np.ones(sizes.size), np.zeros(sizes.size))]
        for i in reversed(steps[1:]):
            reference, size, distance = rests[-1]
            rests.append(
                (reference * references[i], size * largest[i], distance * largest[i] + size * apart[i])
            )
        products, main, given = np.ones((1, sizes.size), dtype=np.complex128), np.zeros(1), 0.0
        picks: list[tuple[int, ...]] = [()]
        for i, (reference, size, distance) in zip(steps, reversed(rests), strict=True):
            options = len(values[i])
            products = (products[:, None, :] * values[i]).reshape(-1, sizes.size)
            main = (products @ (weights * reference)).real
            moduli = np.abs(products)
            most = np.minimum(moduli @ (sizes * size), main + moduli @ (sizes * distance))
            # The best one stays, whatever rounding does to its bound.
            few = np.flatnonzero((most > floor) | (main == main.max()))
            remaining, more = _undominated(
                products[few], main[few], sizes * distance, self.slack / len(steps)
            )
            remaining, given = few[remaining], given + more + 2 * rounding
            picks = [(*picks[k // options], int(places[i][k % options])) for k in remaining.tolist()]
            products, main = products[remaining], main[remaining]
        best = int(np.argmax(main))
        taken = (self.options[i].laws[place] for i, place in zip(steps, picks[best], strict=True))
        return (
            max(float(main[best]), floor),
            given + 2 * rounding,
            merged_law(tuple(loss for law in taken for loss in law)),
        )

    def _references(self, weights: Complexes) -> list[int]:
        """The place of one option of each choice, such that together they are about the worst."""
        places = [0 for _ in self.tables]
        for _ in range(2):
            for i, table in enumerate(self.tables):
                others = [other.values[place] for other, place in zip(self.tables, places, strict=True)]
                times = [options.times - (i == j) for j, options in enumerate(self.options)]
                places[i] = int(np.argmax((table.values @ (weights * _product(others, times))).real))
        return places


def _product(rows: Sequence[Floats] | Sequence[Complexes], times: Sequence[int]) -> Any:
    """The product of some rows, each one so many times."""
    return reduce(operator.mul, (row**n for row, n in zip(rows, times, strict=True)))


def _undominated(
    products: Complexes, main: Floats, distances: Floats, slack: float
) -> tuple[Integers, float]:
    """Places of partial products that stand for all, and by how much another one may exceed the one for it.

    Args:
        products: One in each row.
        main: Their values with the reference completion.
        distances: At each node, the weight of the rule times how far completions may be from the reference.
        slack: What may be given away at no more than this many products; ten times as much otherwise, and so on.
    """
    most = max(_LEAST_KEPT, _MOST_WORK // products.size)
    while True:
        remaining: list[int] = []
        left, given = np.argsort(-main, kind="stable"), 0.0
        while left.size and len(remaining) < most:
            first = left[0]
            gaps = main[left] - main[first] + np.abs(products[left] - products[first]) @ distances
            covered = gaps <= slack
            covered[0] = True
            remaining.append(int(first))
            given = max(given, float(gaps[covered].max()))
            left = left[~covered]
        if not left.size:
            return np.array(remaining), given
        slack *= 10


def _answers(law: Law) -> dict[Transformed, int]:
    """How many answers of each kind a law has, all of which have transforms."""
    return cast("dict[Transformed, int]", counted(law))


def takes(choices: Sequence[Choice]) -> bool:
    """Whether the transforms of all losses are known, and the number of options that a law takes is moderate.

    Random samples are left out: their transforms take long where frequencies are high, and fall slowly.
    """
    losses = {loss for choice in choices for law in choice.options for loss in law}
    return sum(choice.times for choice in choices) <= _MOST_TAKEN and not any(
        isinstance(loss, FailureLoss | UNKNOWN_LAW | SampledLoss) for loss in losses
    )


def worst_epsilon(
    choices: Sequence[Choice],
    usual: tuple[Law, float],
    delta: Fraction,
    width: float,
    alone: Callable[[Law], Bounds],
    lattices: Sequence[LatticeNoise] = (),
) -> Bounds | None:
    """The largest epsilon of all laws at a delta, from both sides; None if too many frequencies count.

    With noise on lattices the lower bound is that of the normal noise in its place, and holds for this alone.

    Args:
        choices: What a law takes its options from; `takes` holds.
        usual: A law that costs about as much as the worst one, and about its epsilon.
        delta: Between 0 and 1, both excluded.
        width: Width of the bounds that is aimed at.
        alone: Epsilon of one law at delta, by an engine of its own.
        lattices: Noise for which a normal loss of the same rho stands in every law.
    """
    known: dict[Law, Bounds] = {}
    target = log_bounds_of(delta).lower
    law, about = usual
    # From the largest loss on, delta is 0.
    most = (1 + 1e-14) * math.fsum(
        choice.times * max(greatest_bounds(option).upper for option in choice.options) for choice in choices
    )
    contour, made_for, at, least = None, (law, -math.inf), min(about, 0.9 * most), math.inf
    for _ in range(_MOST_ROUNDS):
        if at >= min(most, least):
            least = min(most, least)
            break
        # A tilt is good for epsilons nearby.
        if contour is None or not abs(at - made_for[1]) <= _NEARBY * at:
            contour, made_for = contour_for(choices, law, at, target, width, lattices), (law, at)
        if contour is None:
            break
        worst = contour.worst(Fraction(at))
        if worst.law not in known:
            known[worst.law] = alone(worst.law)
            law = max(known, key=lambda each: known[each].upper)
            at = known[law].upper + width
        elif worst.log_delta <= target:
            least, nearest = at, known[law].upper + width
            # What noise on a lattice adds is no error of the contour.
            if lattices or at - nearest <= FAR * width:
                break
            # The step to here was too long: a contour for epsilons closer by may do.
            contour, at = None, nearest + (at - nearest) / _BACK
        elif made_for[0] != law:
            # At the tilt of another law its own error may be larger than delta.
            contour = None
        else:
            # What is left is the contour's own error: far enough on, delta has fallen by as much.
            step = max(1.05 * (worst.log_delta - target) / contour.tilt, width / 4)
            at = min(at + step, (at + least) / 2)
    if least == math.inf:
        return None
    return Bounds(min(max((bounds.lower for bounds in known.values()), default=0.0), least), least)


def contour_for(
    choices: Sequence[Choice],
    usual: Law,
    epsilon: float,
    log_delta: float,
    width: float,
    lattices: Sequence[LatticeNoise] = (),
) -> SharedContour | None:
    """The contour for an epsilon and a delta; None if it would have too many nodes.

    Args:
        choices: What a law takes its options from.
        usual: A law, by which the tilt is chosen.
        epsilon: About where the worst law is asked for.
        log_delta: About the logarithm of its delta there.
        width: What the contour may add to epsilon, about.
        lattices: As for `worst_epsilon`.
    """
    tilt = saddle(partial(_moments, usual), epsilon, 1.0, (0.0, math.inf), _LARGEST_TILT)
    # At the tilts of losses near the largest one nothing varies.
    spread = max(math.sqrt(_moments(usual, tilt)[1]), 1 / tilt)
    # Half of the width is for the dither, the rest for all else.
    dither = width / (tilt + 1)
    # The wrap-around by Chernoff's bounds on both sides.
    step = 2 * math.pi / max(math.sqrt(2 * _WRAP) * spread, (_WRAP - log_delta) / tilt)
    taken, places = Counter[tuple[Law, ...]](), dict[Transformed, int]()
    for choice in choices:
        taken[choice.options] += choice.times
        for kind in (kind for law in choice.options for kind in _answers(law)):
            places.setdefault(kind, len(places))
    known = [_kind_of(kind, tilt) for kind in places]
    options = tuple(_Options.of(laws, times, places, known) for laws, times in taken.items())
    # About the value of the rule, in the unit of the transforms.
    log_unit = sum(each.times * float(each.log_units.max()) for each in options)
    if not log_unit < _LARGEST_LOG_UNIT:
        return None
    log_value = log_delta + tilt * epsilon - log_unit
    rule = _Rule(tilt, dither, step, spread, log_unit, log_value + math.log(_LEFT_OUT * tilt * width))
    most = _MOST_NUMBERS // (len(places) + sum(len(each.laws) for each in options))
    nodes, left_out = rule.nodes(options, known, most)
    if nodes is None:
        return None
    left_out += sum(rule.doubt(noise, options) for noise in lattices)
    u: Floats = nodes.astype(np.float64) * step
    z = (tilt + 1j * u).astype(np.complex128)
    weights = np.exp(z * z * (dither / 2)) / (z * (z + 1))
    # Half the nodes: the transform at -u is the conjugate of that at u, hence 2 for all but u = 0.
    weights *= np.where(nodes == 0, 1.0, 2.0) * (step / (2 * math.pi))
    slack = tilt * width / 8 * math.exp(min(log_value, 700.0))
    return SharedContour(
        options,
        _tables(options, tuple(places), nodes, step, tilt),
        tilt,
        dither,
        u,
        weights,
        left_out,
        slack,
    )


def _moments(law: Law, tilt: float) -> tuple[float, float]:
    """Mean and variance of a law's tilted loss, in floats."""
    answers = [(n, *moments(kind, tilt)) for kind, n in _answers(law).items()]
    return sum((n * mean for n, mean, _ in answers), 0.0), sum((n * v for n, _, v in answers), 0.0)


def _kind_of(kind: Transformed, tilt: float) -> _Kind:
    exact = Fraction(tilt)
    if is_wide_gaussian(kind):
        gaussians = GaussianFactors.of((kind,))
        log_unit = float((exact + exact * exact) * gaussians.variance / 2)
        return _Kind(
            gaussians.pulls, gaussians.periods, log_unit + gaussians.loss, log_unit - gaussians.log_norm
        )
    assert not isinstance(kind, NormalLoss)
    decay = decay_of(GaussianFactors.of(()), (kind,), exact, 1.0)
    log_unit = certified_log_moment((kind,), exact, Fraction(0)).upper
    return _Kind(decay.pulls, decay.periods, log_unit, log_unit)


def _doubt(variance: float, u: Floats) -> Floats:
    """A bound on the distance of the transforms of discrete Gaussian noise on a shifted line and of normal noise.

    Both are relative to exp((s + s^2) / (2 v)), with v the variance, and the noise moves by 1.
    """
    period = 2 * math.pi * variance
    nearest = np.rint(u / period)
    distance = np.abs(u - nearest * period)
    # The normaliser lies between 2 - c and c, with c the sum of the images at 0.
    images = 2 * sum(math.exp(-2 * math.pi**2 * variance * j * j) for j in range(1, 6)) * (1 + 1e-9)
    # The images farther away than the two on both sides of the nearest one are together below this part of it.
    farther = 2.1 * math.exp(-4 * math.pi**2 * variance)
    doubts: Floats = np.exp(distance * distance * (-1 / (2 * variance)))
    is_first = nearest == 0
    # The first image itself is that of normal noise.
    doubts = np.where(is_first, farther, 1 + farther) * doubts
    # The image on the other side of u; and that on the far side, which is farther away than a period.
    doubts += np.exp((period - distance) ** 2 * (-1 / (2 * variance)))
    doubts += math.exp(-2 * math.pi**2 * variance)
    # The first image is at most 1.
    return (doubts * (1 + 1e-6) + images) / (1 - images)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The trapezoid rule before its nodes are known.

    Attributes:
        tilt: s.
        dither: t squared.
        step: Distance of neighbouring nodes.
        spread: About the standard deviation of the tilted loss.
        log_unit: Logarithm of the unit of the transforms.
        log_negligible: Logarithm of what may be left out in all, in this unit.
    """

    tilt: float
    dither: float
    step: float
    spread: float
    log_unit: float
    log_negligible: float

    @property
    def slack(self) -> float:
        """More than the rounding of logarithms of sizes."""
        return 1e-9 + 1e-12 * abs(self.log_unit)

    def nodes(
        self, options: tuple[_Options, ...], known: list[_Kind], most: int
    ) -> tuple[Integers | None, float]:
        """Numbers of the nodes that are not negligible, None if there are too many, and a bound on the other terms."""
        height = self._height(options)
        count = self._count(height)
        if count > _MOST_SCANNED:
            return None, 0.0
        scan = _Scan(self, options, known)
        blocks, length, left_out = np.arange(1), count, math.exp(self._beyond(count, height) + self.slack)
        for shorter in _BLOCKS:
            times = length // shorter
            blocks, more = scan.remaining(
                (blocks[:, None] * times + np.arange(times)).reshape(-1), shorter, most
            )
            if blocks.size > most:
                return None, 0.0
            length, left_out = shorter, left_out + more
        # At an epsilon that is far too large all nodes are negligible; the first one is computed in any case.
        return blocks if blocks.size else np.arange(1), 1.001 * left_out

    def doubt(self, noise: LatticeNoise, options: tuple[_Options, ...]) -> float:
        """What all terms of noise on a lattice may exceed those of normal noise by, whatever else is composed with it.

        Given the output up to multiples of the difference v of both tables, the noise is discrete Gaussian noise on a
        line, of variance v = variance / |v|^2, with an offset that nobody knows and a movement by 1. Of its transform,
        the first image is that of normal noise.
        """
        height = self._height(options)
        count, total = self._count(height), 0.0
        for begin in range(0, count, _DOUBTS_AT_ONCE):
            # A transform is no larger than the sum of all its images, below 1.03 of its unit from 1/4 on.
            rest = 1.03 * math.exp(self._beyond(begin, height) + self.slack) if begin else math.inf
            if rest <= _LITTLE * total:
                return 1.001 * (total + rest)
            u = np.arange(begin, min(begin + _DOUBTS_AT_ONCE, count), dtype=np.float64) * self.step
            doubts = np.zeros(u.size)
            for n in range(1, noise.squared_distance + 1):
                np.maximum(doubts, _doubt(float(noise.variance / n), u), out=doubts)
            logs = height - u * u * (self.dither / 2) - np.log(self.tilt**2 + u * u)
            total += float(np.exp(logs + self.slack) @ doubts) * self.step / math.pi
        return 1.001 * (total + 1.03 * math.exp(self._beyond(count, height) + self.slack))

    def _height(self, options: tuple[_Options, ...]) -> float:
        """Logarithm of what multiplies exp(-(u t)^2 / 2) / |z (z + 1)| in a bound on the terms of every law."""
        caps = sum(each.times * float(each.log_caps.max()) for each in options)
        return caps - self.log_unit + self.tilt**2 * self.dither / 2

    def _count(self, height: float) -> int:
        """A number of nodes beyond which all terms together are negligible."""
        count = _BLOCKS[0]
        while count <= _MOST_SCANNED and self._beyond(count, height) > self.log_negligible:
            count *= 2
        return count

    def _beyond(self, count: int, height: float) -> float:
        """Logarithm of a bound on the terms from a node on: an integral of exp(-(u t)^2 / 2) / u^2."""
        end = (count - 1) * self.step
        return height - end * end * self.dither / 2 - math.log(end * math.pi)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Bounds on the terms of a rule for every law at once."""

    rule: _Rule
    options: tuple[_Options, ...]
    known: list[_Kind]

    def remaining(self, numbers: Integers, length: int, most: int) -> tuple[Integers, float]:
        """Blocks of nodes that are not negligible, at most about so many, and a bound on the terms of the others."""
        parts = [np.zeros(0, dtype=np.int64)]
        left_out, n_kinds = 0.0, max(1, *(each.kinds.size for each in self.options))
        at_once = max(1, _AT_ONCE // n_kinds)
        for begin in range(0, numbers.size, at_once):
            blocks, sums = self._remaining_at_once(numbers[begin : begin + at_once], length)
            parts.append(blocks)
            left_out += sums
            if sum(each.size for each in parts) > most:
                break
        return np.concatenate(parts), left_out

    def _remaining_at_once(self, numbers: Integers, length: int) -> tuple[Integers, float]:
        rule = self.rule
        first: Floats = numbers.astype(np.float64) * (length * rule.step)
        middle, half = first + (length - 1) / 2 * rule.step, (length - 1) / 2 * rule.step
        # The dither, 1 / |z (z + 1)| and the step; then the caps, which what is known replaces choice by choice.
        logs = (rule.tilt**2 - first * first) * rule.dither / 2 + math.log(rule.step / math.pi)
        logs = logs - np.log(rule.tilt**2 + first * first) - rule.log_unit
        logs = logs + sum(each.times * float(each.log_caps.max()) for each in self.options)
        # So much for each node that all of them together are negligible, as the sum of 1 / u is a logarithm.
        few = rule.log_negligible + math.log(rule.step / 40) - np.log(first + 1 / rule.spread)
        left_out = 0.0
        for each in self.options:
            if not numbers.size:
                break
            logs = logs + each.times * (self._log_sizes(each, middle, half) - float(each.log_caps.max()))
            small = logs <= few
            left_out += length * float(np.exp(logs[small] + rule.slack).sum())
            numbers, middle, logs, few = numbers[~small], middle[~small], logs[~small], few[~small]
        return numbers, left_out

    def _log_sizes(self, options: _Options, middle: Floats, half: float) -> Floats:
        """A bound on the logarithms of the sizes of all options within a distance of some frequencies."""
        owners = [i for i, place in enumerate(options.kinds.tolist()) for _ in self.known[place].pulls]
        if not owners:
            return np.full(middle.size, float(options.log_caps.max()))
        pulls, periods = (
            np.concatenate([getattr(self.known[place], name) for place in options.kinds.tolist()])[:, None]
            for name in ("pulls", "periods")
        )
        distances = np.abs(middle - np.rint(middle / periods) * periods) - (half + 64 * UNIT * middle)
        distances = np.maximum(distances, 0.0)
        # Rounded down: the sum of positive terms is right to a few units for each.
        falls = options.numbers[:, owners] @ (pulls * ((1 - 1e-9) / 2) * distances * distances)
        sizes: Floats = (options.log_caps[:, None] - falls).max(axis=0)
        return sizes


def _tables(
    options: tuple[_Options, ...], kinds: tuple[Transformed, ...], nodes: Integers, step: float, tilt: float
) -> tuple[_Table, ...]:
    """The transforms of all options at the nodes, which are whole multiples of a step."""
    u = nodes.astype(np.float64) * step
    parts = [transform_of(kind, nodes, step, tilt) for kind in kinds]
    # What underflows counts as 1e-300, far below every error.
    logs = np.array([np.log(np.where(part.values == 0, 1e-300, part.values)) for part, _ in parts])
    log_sizes = np.array([np.log(np.maximum(part.sizes, 1e-300)) for part, _ in parts])
    errors = np.array([part.errors for part, _ in parts])
    tables = []
    for each in options:
        numbers, used = each.numbers, each.kinds
        centres = [
            sum((int(n) * parts[i][1] for n, i in zip(row, used, strict=True) if n), Fraction(0))
            for row in numbers
        ]
        log_unit = float(each.log_units.max())
        less = (each.log_units - log_unit)[:, None]
        # Phases are counted from the centre of the first option, exactly.
        phases = np.multiply.outer([float(centre - centres[0]) for centre in centres], u)
        turns = phases / (2 * math.pi)
        turned = np.exp((2j * math.pi) * (turns - np.rint(turns)))
        sums = numbers @ logs[used]
        rough = numbers @ (errors[used] + 64) + (16 + used.size) * (numbers @ np.abs(logs[used]))
        rough = rough + 8 * np.abs(phases) + ((16 + used.size) * np.abs(each.log_units) + 100)[:, None]
        tables.append(
            _Table(
                np.exp(sums + less) * turned,
                np.exp((numbers @ log_sizes[used] + less).max(axis=0)) * (1 + 1e-6),
                rough.max(axis=0),
                log_unit,
                centres[0],
            )
        )
    return tuple(tables)
