"""Which engine computes the tails of which losses.

The engines differ in speed and in what they accept, never in meaning: each gives certified bounds of the same numbers.
The choice under "auto" is the first that applies:

1. The closed form, if one Gaussian on the lattice is close enough to the law of the total loss.
2. The quadrature, if its conditions hold. Where its bounds are wide, the tilted FFT is asked as well.
3. The tilted FFT, if the common lattice of all losses is not too fine.
4. The dithered contour, for losses without a usable common lattice. Where few atoms of small variance carry the tail,
   its bounds are wide, and the rounded FFT is asked as well.
   Where its scan looks at too many states for the width asked for, it is tried with wider ones up to 1e-6.
5. The rounded FFT, which takes seconds, where this is not enough: for a few losses whose lattice is nearly usable, and
   for losses without Gaussian noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.dithered import NARROWEST, WIDTH, Dithered
from tallyveil.accounting.engines.enumeration import Direct
from tallyveil.accounting.engines.integer_polynomial import Proved
from tallyveil.accounting.engines.quadrature import Quadrature
from tallyveil.accounting.engines.rounded_fft import RoundedFFT
from tallyveil.accounting.engines.tails import (
    NOTHING,
    DeltaByTails,
    LossEngine,
    Tails,
    exact_epsilon,
    narrower,
)
from tallyveil.accounting.engines.tilted_fft import MAX_LENGTH, TiltedFFT
from tallyveil.accounting.engines.tilts import estimated_length
from tallyveil.accounting.losses.factors import GaussianLoss, LossFactor, lattice_of, merged
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

_WIDE = 1e-9
_WIDE_OFF_LATTICE = 0.01
_WIDEST = 1e-6
"""Width of epsilon's bounds at which the dithered contour is tried last. Far fewer frequencies matter for it than for
1e-9. The rounded FFT may be closer, but takes a thousand times as long."""

ENGINES = ("auto", "closed_form", "quadrature", "tilted_fft", "dithered", "rounded_fft", "proved", "direct")
"""What may be asked for."""


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
            intersection of both. Most compositions never need it, and some take long to prepare.
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
        if tails.log_delta.width <= self.wide and tails.log_second.width <= self.wide:
            return tails
        return narrower(tails, self.general.log_tails(epsilon))

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        found = self.fast.log_deltas(epsilons)
        wide = np.flatnonzero(~(found.width <= self.wide))
        if not wide.size:
            return found
        others = self.general.log_deltas([epsilons[i] for i in wide.tolist()])
        lower, upper = found.lower.copy(), found.upper.copy()
        lower[wide] = np.maximum(lower[wide], others.lower)
        upper[wide] = np.minimum(upper[wide], others.upper)
        return ManyBounds(lower, upper)


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
    built: LossEngine | None = (
        Dithered.build(factors, width) if wanted == "dithered" else _BUILDERS[wanted](factors)
    )
    if built is None:
        why = {"closed_form": ClosedForm.why_not, "quadrature": Quadrature.why_not}.get(wanted)
        reason = f": {why(factors)}" if why else ""
        if wanted == "dithered":
            reason = f": {Dithered.why_not(factors, width)}"
        raise BudgetError(
            f"the engine {wanted} cannot take these privacy losses{reason}. Ask for 'auto', which chooses an engine "
            "that can."
        )
    return built


def _fastest(factors: tuple[LossFactor, ...], width: float) -> LossEngine:
    closed = ClosedForm.build(factors)
    if closed is not None:
        return closed
    quadrature = Quadrature.build(factors)
    if estimated_length(factors, lattice_of(factors)) > MAX_LENGTH:
        return _off_lattice(factors, width) if quadrature is None else quadrature
    return (
        TiltedFFT(factors) if quadrature is None else FallbackEngine(quadrature, partial(TiltedFFT, factors))
    )


def _off_lattice(factors: tuple[LossFactor, ...], width: float) -> LossEngine:
    dithered = _dithered(factors, width)
    if dithered is None:
        return RoundedFFT(factors)
    if any(isinstance(factor, GaussianLoss) for factor in dithered.scan.others):
        return FallbackEngine(dithered, partial(RoundedFFT, factors), _WIDE_OFF_LATTICE)
    return dithered


def _dithered(factors: tuple[LossFactor, ...], width: float) -> Dithered | None:
    """The dithered contour at the width asked for, or at ten times that width, a hundred times, and so on."""
    made = Dithered.build(factors, width)
    while made is None and width < _WIDEST:
        width = float(f"{10 * width:.3g}")  # 1e-8, not a float beside it
        made = Dithered.build(factors, width)
    return made


_BUILDERS: dict[str, Callable[[tuple[LossFactor, ...]], LossEngine | None]] = {
    "closed_form": ClosedForm.build,
    "quadrature": Quadrature.build,
    "direct": Direct.build,
    "proved": Proved.build,
    "tilted_fft": TiltedFFT,
    "rounded_fft": RoundedFFT,
}
