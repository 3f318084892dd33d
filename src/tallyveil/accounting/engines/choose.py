"""Which engine computes the tails of which losses.

The engines differ in speed and in what they accept, never in meaning: each gives certified bounds of the same numbers.

Integer noise alone. The choice under "auto" is the first engine of `_ON_LATTICE`, and then of `_OF_TRANSFORMS`, that
takes the losses: the closed form, the quadrature, the tilted FFT; enumeration if there is no Gaussian noise of usual
variance; upper bounds alone by Renyi divergences if epsilon is beyond all use; the dithered contour; enumeration with
Gaussian noise, also where it is quicker than a contour of many nodes; the contour beside losses with few values; and
the contour at a larger width. The first three need a lattice that all losses share. Some engines may have wide bounds
far out, and have a second one that is asked there too (`FallbackEngine`): the tilted FFT helps the quadrature, and
enumeration helps the tilted FFT of noise of small variance; the contour beside losses with few values helps that of all
losses, where few atoms of small variance or a few large losses of samples carry the tail; and enumeration, which cuts
Gaussian noise off, is made to cut less.

Any other law is taken apart:

1. Failures are taken out: with probability D everything is revealed, otherwise the rest counts.
2. One normal loss alone has a closed form.
3. Losses of which only Renyi divergences are known: by these from above. From below a normal loss of the same rho
   stands for a rho, and one run for the best of several.
4. Samples of fixed size: from above the losses of the pair that covers each sample, from below those of a record
   that all samples move in the same way.
5. All others: enumeration of a few finite losses, or the dithered contour.
6. Where that would need too many frequencies, losses with few values together are taken apart from the others, for
   which the contour then falls (`Conditioned`). Then larger widths are tried.
7. Discrete Laplace noise with very many steps: real Laplace noise that covers it stands for it in the upper bounds, and
   real Laplace noise that it covers in the lower bounds (docs/proofs/real-noise.md, section 2).
   So does real normal noise for discrete Gaussian noise of large variance on samples. For samples of normal noise that
   nearly always hold the record the mechanism itself stands in the upper bounds, and in the lower bounds a sample that
   holds it less often.
8. Few samples that hardly ever hold a record, and those that no contour takes, such as samples of very narrow noise,
   are cut into cells (`Cells`).
9. What remains has too many frequencies without any sample, as 10^9 answers that protect nobody have. Renyi divergences
   bound delta from above, and nothing is claimed from below.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeGuard

import numpy as np

from tallyveil.accounting.engines.ball_tails import (
    MOST_BITS,
    Countable,
    Enumeration,
    Normal,
    OneSample,
    Proved,
)
from tallyveil.accounting.engines.cells import MOST_VARIANCE, Cells
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.dithered import FEW_NODES, LEAST_VARIANCE, NARROWEST, WIDTH, Dithered
from tallyveil.accounting.engines.enclosing import Between, Conditioned, RenyiUpper, WithFailure
from tallyveil.accounting.engines.halves import Halves
from tallyveil.accounting.engines.moments import estimated_length, greatest_bounds
from tallyveil.accounting.engines.quadrature import Quadrature
from tallyveil.accounting.engines.sampled import number_of_losses
from tallyveil.accounting.engines.tails import (
    NOTHING,
    DeltaByTails,
    LossEngine,
    ManyBounds,
    Tails,
    exact_epsilon,
    lower_fraction,
    narrower,
    upper_fraction,
)
from tallyveil.accounting.engines.tilted_fft import MAX_LENGTH, TiltedFFT
from tallyveil.accounting.losses import (
    UNKNOWN_LAW,
    AnyLoss,
    ChoiceLoss,
    ConcentratedLoss,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    LossFactor,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    SelectedLoss,
    chord_length,
    cost_hint,
    further,
    lattice_of,
    merged,
    merged_law,
    of_integers,
    times,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.accounting.renyi import has_divergence, searched_divergence
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

ENGINES: Final = (
    "auto",
    "closed_form",
    "quadrature",
    "tilted_fft",
    "dithered",
    "direct",
    "cells",
    "proved",
)
"""What may be asked for."""

_WIDE: Final = 1e-9
"""Difference of the logarithms of two bounds of delta or Q above which a second engine on a lattice is asked. The
quadrature reaches about 1e-12 where its conditions hold well, so they hold barely here."""

_WIDE_OFF_LATTICE: Final = 0.01
"""The same off every lattice, where Q is known to four digits at best. The second engine helps only where the bounds of
delta are wide too."""

_WIDE_OF_SAMPLES: Final = 0.5
"""The same for random samples, of which cells know little more than the contour where the latter knows delta."""

_WIDEST: Final = 1e-3
"""Width of epsilon's bounds at which the dithered contour is tried last. Far fewer frequencies matter for it than for
1e-9."""

_WIDEST_OF_SAMPLES: Final = 1e-6
"""The same of random samples, of which cells know more than at a larger width."""

_RARE: Final = Fraction(1, 64)
"""Samples are cut into cells if on average no more of them than this hold a record. Nearly all of their losses lie so
close to 0 that a contour has very many nodes."""

_MANY_NODES: Final = 1 << 18
"""Nodes of a usual contour from which a larger width is tried, if the width that was asked for is out of reach. A
search looks at some twenty contours of so many nodes in seconds. Contours of samples are dear for another reason."""

_PROTECTS_NOBODY: Final = 1e8
"""About the rho from which only upper bounds are given, which take no time. Epsilon is as large, and a contour would
have phases that floats do not tell apart."""

_FINE_STEPS: Final = 1 << 8
"""Steps that an answer with discrete Laplace noise moves from which real Laplace noise may stand for it. For one answer
with the largest loss l those of both bounds differ by (l / steps)^2 / 4, which is 4e-6 l^2 at most; for n answers by n
times that."""

_NEARLY_ALWAYS: Final = 1 - Fraction(1, 10**12)
"""Probability of a record above which no contour takes a sample: floats would not tell it from 1."""

_SLACK_OF_VARIANCE: Final = 4
"""By how much the variance of normal noise differs from that of the discrete Gaussian noise for which it stands."""

_LEAST_DELTA: Final = Fraction(1, 10**310)
"""The least delta that a second enumeration resolves, below every normal float. It takes ten times as many bits."""

_MOST_VALUES: Final = 64
"""Values of the losses that a composition is taken apart by, at most: the other losses are asked at each of them."""

_LARGE: Final = 20.0
"""The largest loss from which one that has few values is always taken apart from samples; smaller ones cost a contour a
few more nodes."""

_LEAST_REST: Final = 10**300
"""One over the least probability of no failure that is taken: its logarithm must be a float."""

_FEW_ANSWERS: Final = 1 << 14
"""Bits of the denominators of all failures up to which their probability is computed as an exact fraction."""


@dataclass(frozen=True, slots=True)
class NoLoss(DeltaByTails):
    """The engine of an empty composition: nothing is released, so the loss is always 0.

    Attributes:
        name: "exact".
    """

    name: str = "exact"

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails above `epsilon`: everything below 0, nothing from there on; delta = max(0, 1 - exp(epsilon))."""
        exact = exact_epsilon(epsilon)
        if exact >= 0:
            return Tails(NOTHING, NOTHING, NOTHING)
        log_delta = math.log(-math.expm1(max(float(exact), -1e300)))
        slack = 1e-15 * (1 + abs(log_delta))
        certain = Bounds(0.0, 0.0)
        return Tails(certain, certain, Bounds(log_delta - slack, min(log_delta + slack, 0.0)))


@dataclass(frozen=True, slots=True)
class FallbackEngine:
    """A fast engine, and another one for the epsilons at which the fast one's bounds are wide.

    Attributes:
        fast: The engine that is asked first.
        build: Makes the engine that is asked too where the first one's bounds are wide. The answer is then the
            intersection of both. Most compositions never need it, and some take long to prepare. It returns the fast
            engine where there is no other one, which is then not asked again.
        wide: Relative width of the bounds of delta or of Q above which they count as wide.
        name: Name of the fast engine.
    """

    fast: LossEngine
    build: Callable[[], LossEngine]
    wide: float = _WIDE
    _built: list[LossEngine] = field(default_factory=list, repr=False, compare=False)

    @property
    def general(self) -> LossEngine:
        """The second engine, built when it is first needed."""
        if not self._built:
            self._built.append(self.build())
        return self._built[0]

    @property
    def name(self) -> str:
        """Name of the fast engine."""
        return self.fast.name

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        tails = self.fast.log_tails(epsilon)
        narrow = tails.log_delta.width <= self.wide and tails.log_second.width <= self.wide
        if narrow or self.general is self.fast:
            return tails
        # Both are valid, so their intersection is, and the second engine can only help.
        return narrower(tails, self.general.log_tails(epsilon))

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        fast = self.fast.log_deltas(epsilons)
        # Negated, so that a width that is no number counts as wide, too.
        wide = np.flatnonzero(~(fast.width <= self.wide))
        if not wide.size or self.general is self.fast:
            return fast
        # Only the epsilons with wide bounds are asked of the second engine, which may take seconds to build.
        others = self.general.log_deltas([epsilons[i] for i in wide.tolist()])
        lower, upper = fast.lower.copy(), fast.upper.copy()
        lower[wide] = np.maximum(lower[wide], others.lower)
        upper[wide] = np.minimum(upper[wide], others.upper)
        return ManyBounds(lower, upper)


def first_asked(engine: LossEngine) -> LossEngine:
    """The engine itself, or that of an engine with a fallback which is asked first."""
    return engine.fast if isinstance(engine, FallbackEngine) else engine


def engines_within(engine: LossEngine) -> Iterator[LossEngine]:
    """The engine itself and all those that its bounds are made of, but for second engines, which few epsilons need."""
    yield engine
    match engine:
        case Between(upper, lower):
            parts: tuple[LossEngine, ...] = (upper, lower)
        case WithFailure() | Conditioned():
            parts = (engine.rest,)
        case FallbackEngine(fast):
            parts = (fast,)
        case _:
            parts = ()
    for part in parts:
        yield from engines_within(part)


def engine_for(law: Law, wanted: str, width: float) -> LossEngine:
    """The engine for a law: one of `choose_engine`, or one built from closed forms and lists.

    Args:
        law: Merged losses.
        wanted: Name of an engine, or "auto".
        width: Width of epsilon's bounds that is aimed at, where an engine takes one.

    Raises:
        BudgetError: no such engine; an engine asked for that cannot take the losses; or losses of which only rho is
            known, together with random samples that have no divergence.
        SolverError: the losses are out of the range of every engine.
    """
    rest = further(law)
    if not rest:
        return choose_engine(of_integers(law), wanted, width)
    if wanted in ENGINES and wanted not in {"auto", "dithered", "direct", "cells"}:
        raise BudgetError(
            f"the engine {wanted} takes integer noise only, and there is other noise. Ask for 'auto', which chooses an "
            "engine that can."
        )
    least, most = _failures(law)
    if (1 - most) * _LEAST_REST < 1:
        raise BudgetError(
            "the composition reveals everything with a probability that floats cannot tell from 1."
        )
    held = tuple(loss for loss in law if not isinstance(loss, FailureLoss))
    engine = _without_failures(held, wanted, width)
    return WithFailure(least, most, engine, held) if most else engine


def choose_engine(factors: tuple[LossFactor, ...], wanted: str = "auto", width: float = WIDTH) -> LossEngine:
    """The engine for a composition: the one asked for, or the fastest whose conditions hold.

    Args:
        factors: The losses added up; none is a release of nothing.
        wanted: One of `ENGINES`.
        width: Width of the bounds of epsilon that the dithered contour aims at; the other engines do not use it.

    Raises:
        BudgetError: no such engine, a width or a factor out of range, or losses that the engine asked for cannot
            take.
        SolverError: the losses spread further than any engine works on.
    """
    if wanted not in ENGINES:
        raise BudgetError(
            f"there is no engine {as_given(wanted)}; there are {', '.join(ENGINES)}. Ask for one of these."
        )
    if not NARROWEST <= width <= 1:
        raise BudgetError(
            f"the width of epsilon's bounds must lie between {NARROWEST:g} and 1, got {width}. Give one such as 1e-9."
        )
    if not factors:
        return NoLoss()
    factors = merged(factors)
    if wanted == "auto":
        return _fastest(factors, width)
    built = _ASKED_FOR[wanted](factors, width)
    if built is None:
        why_not: dict[str, Callable[[tuple[LossFactor, ...]], str | None]] = {
            "closed_form": ClosedForm.why_not,
            "quadrature": Quadrature.why_not,
            "dithered": partial(Dithered.why_not, width=width),
        }
        why = why_not.get(wanted)
        raise _cannot_take(wanted, why(factors) if why else None)
    return built


def _cannot_take(wanted: str, why: str | None) -> BudgetError:
    reason = f": {why}" if why else ""
    return BudgetError(
        f"the engine {wanted} cannot take these privacy losses{reason}. Ask for 'auto', which chooses an engine "
        "that can."
    )


def _fastest(factors: tuple[LossFactor, ...], width: float) -> LossEngine:
    engine = next((engine for build in _ON_LATTICE if (engine := build(factors, width)) is not None), None)
    match engine:
        case None:
            return _by_transform(factors, width)
        # Only where the second engine takes the losses, too: it would refuse them amid a search.
        case Quadrature() if _has_lattice(factors):
            return FallbackEngine(engine, partial(TiltedFFT, factors))
        # Few atoms of noise of small variance lie so far apart that transforms lose what is between them.
        case TiltedFFT() if not _has_gaussian(factors) and _are_enumerable(factors):
            return FallbackEngine(
                engine, lambda: _enumerated(factors, _LEAST_DELTA) or engine, _WIDE_OFF_LATTICE
            )
        case _:
            return engine


def _by_transform(law: Law, width: float) -> LossEngine:
    """The first engine that takes the losses, with a second one where its bounds are wide, or what is left."""
    # Built one by one, as some take seconds.
    engine = next((engine for build in _OF_TRANSFORMS if (engine := build(law, width)) is not None), None)
    if engine is None:
        return _between_others(law, width) or _last(law)
    if isinstance(engine, Dithered) and engine.usual_nodes > FEW_NODES:
        engine = _cut_off(law, width) or engine
    sampled = _has_samples(law)
    match engine:
        case Dithered() if any(
            isinstance(factor, SampledLoss | GaussianLoss) for factor in engine.scan.others
        ):
            # Without a second engine the bounds stay as wide as they are.
            return FallbackEngine(
                engine,
                lambda: _conditioned(law, width) or (sampled and Cells.build(law)) or engine,
                _WIDE_OF_SAMPLES if sampled else _WIDE_OFF_LATTICE,
            )
        case Enumeration() | Halves() if not engine.is_whole:
            # Gaussian noise is cut off at a small delta, and for smaller ones further out.
            return FallbackEngine(engine, lambda: _enumerated(law, _LEAST_DELTA) or engine, _WIDE_OFF_LATTICE)
        case _:
            return engine


def _of_nobody(law: Law, width: float) -> Between | None:
    """Upper bounds alone where epsilon is beyond all use."""
    # A contour of many Gaussian answers takes no longer for it.
    others = [loss for loss in law if not isinstance(loss, GaussianLoss | NormalLoss)]
    if sum(map(cost_hint, others)) < _PROTECTS_NOBODY or not all(map(has_divergence, law)):
        return None
    return _upper_alone(law)


def _upper_alone(law: Law) -> Between:
    """Upper bounds by Renyi divergences; nothing is claimed from below."""
    return Between(RenyiUpper(law), NoLoss(), law, (), chord_length(law))


def _has_samples(law: Law) -> bool:
    return any(isinstance(loss, SampledLoss) for loss in law)


def _last(law: Law) -> LossEngine:
    """Samples in cells; for all other losses upper bounds alone."""
    return (_has_samples(law) and Cells.build(law)) or _upper_alone(law)


def _rare(law: Law, width: float) -> Cells | None:
    """Samples in cells that hardly ever hold a record."""
    samples = [loss for loss in law if isinstance(loss, SampledLoss)]
    held = sum((loss.multiplicity * loss.probability for loss in samples), Fraction(0))
    return Cells.build(law) if len(samples) == len(law) and held <= _RARE else None


def _between_others(law: Law, width: float) -> Between | None:
    """Bounds with other losses in the place of those that no contour takes, if there are any."""
    upper, lower = (
        merged_law(tuple(_in_its_place(loss, covering=covering) for loss in law))
        for covering in (True, False)
    )
    if upper == lower:
        return None
    # Failures on samples were counted before, and must not be taken out again.
    engines = [_without_rho(part, "auto", width) for part in (upper, lower)]
    return Between(engines[0], engines[1], upper, lower, chord_length(law))


def _in_its_place(loss: AnyLoss, *, covering: bool) -> AnyLoss:
    """A loss that costs no less, or no more, than one that no contour takes (real-noise.md, sections 2 and 4).

    It is of real noise in the place of fine integer noise; or of the mechanism itself, and of a sample that holds the
    record a little less often, in the place of a sample that nearly always holds it.
    """
    match loss:
        case SampledLoss(NormalLoss() as base, q) if q > _NEARLY_ALWAYS and not loss.changed:
            if covering:
                return replace(base, multiplicity=loss.multiplicity)
            return replace(loss, probability=_NEARLY_ALWAYS)
        case LaplaceLoss() if loss.sensitivity >= _FINE_STEPS:
            return ExponentialLoss(
                -loss.offset + (1 / (4 * loss.scale**2) if covering else 0), loss.multiplicity
            )
        case SampledLoss(GaussianLoss() as base) if base.variance > MOST_VARIANCE:
            variance = base.variance + (-_SLACK_OF_VARIANCE if covering else _SLACK_OF_VARIANCE)
            return replace(loss, base=NormalLoss(base.sensitivity**2 / variance))
        case SampledLoss(LaplaceLoss() as base):
            real = _in_its_place(base, covering=covering)
            assert isinstance(real, LaplaceLoss | ExponentialLoss)
            return replace(loss, base=real)
        case _:
            return loss


def _has_lattice(factors: tuple[LossFactor, ...]) -> bool:
    """Whether one transform holds all points that matter of the lattice that all losses share."""
    return estimated_length(factors, lattice_of(factors)) <= MAX_LENGTH


def _tilted(factors: tuple[LossFactor, ...], width: float) -> TiltedFFT | None:
    return TiltedFFT(factors) if _has_lattice(factors) else None


def _dithered(law: Law, width: float) -> Dithered | None:
    return Dithered.build(law, width, lambda part: _without_failures(part, "auto", width))


def _conditioned(law: Law, width: float, least: float = 0.0) -> Conditioned | None:
    """Losses with few values together, and the others given these: the values keep a transform from falling.

    Args:
        law: The losses.
        width: That of the engine of the others.
        least: What the largest value must exceed.
    """
    finite = tuple(
        loss
        for loss in law
        if _is_countable(loss) and not isinstance(loss, ExponentialLoss) and not _has_gaussian((loss,))
    )
    rest = tuple(loss for loss in law if loss not in finite)
    if not finite or not rest or greatest_bounds(finite).upper <= least:
        return None
    table = Enumeration.build(finite)
    if table is None or len(table.probabilities) > _MOST_VALUES:
        return None
    engine = OneSample.build(rest) or _dithered(rest, width)
    if engine is None:
        return None
    values, log_chances = table.logarithms()
    # Between the values delta bends as that of the others does.
    return Conditioned(values, log_chances, table.slip, engine, chord_length(rest), table.log_cut())


def _far_apart(law: Law, width: float) -> Conditioned | None:
    """The same where a value is so large that one contour for all losses beside samples would be very long."""
    return _conditioned(law, width, _LARGE) if _has_samples(law) else None


def _wider(law: Law, width: float) -> Dithered | None:
    """The contour at ten or a hundred times the width, and so on."""
    widest, most = (_WIDEST_OF_SAMPLES, math.inf) if _has_samples(law) else (_WIDEST, _MANY_NODES)
    engine = None
    while width < widest and (engine is None or engine.usual_nodes > most):
        width = float(f"{10 * width:.3g}")  # 1e-8, not a float beside it
        engine = _dithered(law, width)
    return engine


def _direct(law: Law, width: float) -> Enumeration | Halves | None:
    return _enumerated(law, Fraction(1, 10**30))


def _enumerated(law: Law, least_delta: Fraction) -> Enumeration | Halves | None:
    countable = tuple(loss for loss in law if _is_countable(loss))
    if len(countable) < len(law):
        return None
    # Only losses of real Laplace noise have a density, and then every epsilon looks at every value.
    of_densities = any(isinstance(loss, ExponentialLoss) for loss in countable)
    return (Enumeration if of_densities else Halves).build(countable, least_delta=least_delta)


def _are_enumerable(factors: tuple[LossFactor, ...]) -> bool:
    """Whether losses are so small that an enumeration resolves the tails of Gaussian noise."""
    return sum(map(cost_hint, factors)) < MOST_BITS / 2


def _is_countable(loss: AnyLoss) -> TypeGuard[Countable]:
    if isinstance(loss, SampledLoss):
        return number_of_losses(loss) > 0
    return isinstance(loss, GaussianLoss | LaplaceLoss | ExponentialLoss | ResponseLoss)


def _whole(law: Law, width: float) -> Enumeration | Halves | None:
    """Enumeration where it cuts nothing off, or little: without Gaussian noise of usual variance."""
    return None if _has_gaussian(law) else _direct(law, width)


def _cut_off(law: Law, width: float) -> Enumeration | Halves | None:
    return _direct(law, width) if _has_gaussian(law) else None


def _has_gaussian(law: Law) -> bool:
    return any(isinstance(loss, GaussianLoss) and loss.variance >= LEAST_VARIANCE for loss in law)


_Builder = Callable[[tuple[Any, ...], float], LossEngine | None]

_ON_LATTICE: Final[tuple[_Builder, ...]] = (
    lambda factors, _: ClosedForm.build(factors),
    lambda factors, _: Quadrature.build(factors),
    _tilted,
)
"""Engines of integer noise whose losses share a lattice, in the order in which "auto" tries them."""

_OF_TRANSFORMS: Final[tuple[_Builder, ...]] = (
    _whole,
    _of_nobody,
    _rare,
    _far_apart,
    _dithered,
    _cut_off,
    _conditioned,
    _wider,
)
"""Engines for losses without a usable lattice, tried after those, in this order; benchmarks/README.md has workloads."""

_ASKED_FOR: Final[dict[str, _Builder]] = {
    "closed_form": lambda factors, _: ClosedForm.build(factors),
    "quadrature": lambda factors, _: Quadrature.build(factors),
    "tilted_fft": lambda factors, _: TiltedFFT(factors),  # it says itself why it cannot
    "dithered": _dithered,  # at the width asked for and no other
    "direct": _direct,
    "cells": lambda law, _: Cells.build(law),
    "proved": lambda factors, _: Proved.build(factors),
}
"""The engine that is asked for by its name."""


def _without_failures(law: Law, wanted: str, width: float) -> LossEngine:
    """The engine of a law given that nothing fails; failures of its samples count elsewhere, and only once."""
    if not further(law):
        return choose_engine(of_integers(law), wanted, width)
    # Divergences add up (docs/proofs/real-noise.md, section 6).
    lower = merged_law(tuple(attained for loss in law for attained in _attained(loss)))
    if any(isinstance(loss, UNKNOWN_LAW) for loss in law):
        # Refuses a loss without a divergence at once, and not amid a search.
        searched_divergence(law)
        return Between(
            RenyiUpper(law), _without_failures(lower, wanted, width), law, lower, chord_length(law)
        )
    # One sample of fixed size attains its bounds at every epsilon.
    if lower != merged_law(law) and not _is_one_of_fixed_size(law):
        upper = _without_rho(law, wanted, width)
        return Between(upper, _without_failures(lower, wanted, width), law, lower, chord_length(law))
    # Merged, so that all normal answers are this one.
    if len(law) == 1 and isinstance(law[0], NormalLoss):
        return Normal(law[0].mu_squared)
    return _without_rho(law, wanted, width)


def _without_rho(law: Law, wanted: str, width: float) -> LossEngine:
    """The engine for losses of which the law is known."""
    if wanted == "auto":
        # Its transform falls slowly, so that no contour takes one sample.
        return OneSample.build(law) or _by_transform(law, width)
    engine = _ASKED_FOR[wanted](law, width)
    if engine is None:
        raise _cannot_take(wanted, Dithered.why_not(law, width) if wanted == "dithered" else None)
    return engine


def _failures(law: Law) -> tuple[Fraction, Fraction]:
    """The probability that everything is revealed, from both sides; equal if it is exact.

    A sample reveals everything with q times the probability of its mechanism, if the record was removed.
    """
    if any(isinstance(loss, FailureLoss) and not loss.attained for loss in law):
        # A chance that no mechanism is known to have counts above alone.
        certain = tuple(loss for loss in law if not isinstance(loss, FailureLoss) or loss.attained)
        every = tuple(replace(loss, attained=True) if isinstance(loss, FailureLoss) else loss for loss in law)
        return _failures(certain)[0], _failures(every)[1]
    chances = [(loss.probability, loss.multiplicity) for loss in law if isinstance(loss, FailureLoss)]
    chances += [
        (loss.probability * loss.failure, loss.multiplicity)
        for loss in law
        if isinstance(loss, SampledLoss) and not loss.added and loss.failure
    ]
    if sum(n * p.denominator.bit_length() for p, n in chances) <= _FEW_ANSWERS:
        # Exact while the denominators are short: they grow with every chance.
        none = math.prod(((1 - p) ** n for p, n in chances), start=Fraction(1))
        return 1 - none, 1 - none
    # Enough for what is left beside a probability of 1 - 10^-300, which takes 1,000 bits.
    with precision(2048):
        ball = sum((n * (-rational(p)).log1p() for p, n in chances), rational(Fraction(0)))
        revealed = -ball.expm1()
        return max(lower_fraction(revealed), Fraction(0)), min(upper_fraction(revealed), Fraction(1))


def _is_one_of_fixed_size(law: Law) -> bool:
    match law:
        case (SampledLoss(base, changed=True, multiplicity=1),):
            return not isinstance(base, ChoiceLoss)
        case _:
            return False


def _attained(loss: AnyLoss) -> Law:
    """Losses that some mechanism has of which the same is known."""
    match loss:
        case ConcentratedLoss():
            return (NormalLoss(2 * loss.rho, loss.multiplicity),)
        case SampledLoss(ChoiceLoss(_, (q, base))):
            return (SampledLoss(base, q, added=loss.added, multiplicity=loss.multiplicity),)
        case SampledLoss(changed=True):
            return (replace(loss, changed=False),)
        # One run, if all results are equally good; nothing, if there may be no run.
        case SelectedLoss(base, eta):
            runs = () if eta is None else times(base, Fraction(loss.multiplicity))
            return tuple(attained for run in runs for attained in _attained(run))
        case _:
            return (loss,)
