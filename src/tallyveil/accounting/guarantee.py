"""What a composition guarantees, from both sides: its epsilon, delta and curves, and how these are shown.

A guarantee shows itself in a few lines, as a table of a notebook, and as two figures. The privacy parameters
that stand beside a claim of accuracy are a few numbers, each rounded in the safe direction. A claim that an
answer is exact to so many records means little without what it costs. So every table of errors names, for the
same noise, epsilon at three deltas, the least false negative rate of a test with five percent false
positives, and mu of Gaussian differential privacy.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.conversion import about_epsilon, epsilon_at, real_number
from tallyveil.accounting.costs import require_neighbours
from tallyveil.accounting.curves import betas_at, knot_at, search_cost
from tallyveil.accounting.engines.choose import engine_for, engines_within
from tallyveil.accounting.engines.dithered import WIDTH, Dithered
from tallyveil.accounting.engines.enclosing import Between
from tallyveil.accounting.engines.lattice_points import are_floats
from tallyveil.accounting.engines.shared import FAR, WIDEST, LatticeNoise, takes, worst_epsilon
from tallyveil.accounting.engines.shared import NAME as SHARED
from tallyveil.accounting.engines.tails import (
    LossEngine,
    ManyBounds,
    exponential,
    log_bounds_of,
    log_delta_of,
)
from tallyveil.accounting.envelope import smallest_mu
from tallyveil.accounting.events import (
    AdaptiveEvent,
    Neighbours,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
    parts_of,
)
from tallyveil.accounting.losses import (
    Choice,
    Law,
    both_directions,
    choices_of,
    enumerated,
    invariants_of,
    number_of_laws,
)
from tallyveil.accounting.numbers import Bounds, at_least, at_most
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.arrays import Floats
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.printable import described, in_one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS: Final = 101
"""Points of a curve that is drawn."""

SMALLEST_DELTA: Final = "1e-12"
"""Delta at which a drawn profile ends."""

_BEYOND_LOSSES: Final = 1e9
"""An epsilon beyond which nobody states a guarantee."""

_MOST_INVARIANTS: Final = 3
"""Invariants that one line names; the guarantee itself holds all of them."""


class ShownGuarantee(Protocol):
    """What is shown of a guarantee; `accounting/guarantee.py` has the class."""

    @property
    def event(self) -> PrivacyEvent:
        """What was done."""

    @property
    def ways(self) -> int:
        """How many compositions of losses the event may be."""

    @property
    def neighbours(self) -> Neighbours:
        """The relation that it holds under."""

    @property
    def invariants(self) -> tuple[str, ...]:
        """Statements of what is published exactly."""

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines used."""

    def epsilon(self, delta: str | float) -> Bounds:
        """The smallest epsilon at a delta."""

    def log_profile(self, epsilons: Sequence[float]) -> ManyBounds:
        """Natural logarithm of delta at each epsilon."""

    def tradeoff_curve(self, points: int) -> tuple[Floats, tuple[Bounds, ...]]:
        """The trade-off function at so many levels."""


def lines_of(guarantee: ShownGuarantee) -> tuple[tuple[str, str], ...]:
    """Name and text of each line that describes a guarantee; nothing is computed for them."""
    kinds = Counter(type(event).__name__ for event in _leaves(guarantee.event))
    events = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    lines = [
        ("events", events or "none"),
        ("neighbours", str(guarantee.neighbours)),
        ("engines", ", ".join(guarantee.engines)),
    ]
    if guarantee.ways > 1:
        lines.append(("alternatives", f"{guarantee.ways}, of which the worst one counts"))
    if guarantee.invariants:
        lines.append(("published exactly", _shortened(guarantee.invariants)))
    return tuple(lines)


def draw_tradeoff(guarantee: ShownGuarantee, axes: "Axes | None") -> "Axes":
    """Draw the certified trade-off function, with the range between its bounds shaded.

    Args:
        guarantee: The guarantee.
        axes: Where to draw; None takes the current axes of matplotlib.
    """
    axes = _axes(axes)
    alphas, betas = guarantee.tradeoff_curve(POINTS)
    # The lower bound is the claim: fewer errors of a test mean less privacy.
    lower, upper = [beta.lower for beta in betas], [beta.upper for beta in betas]
    (line,) = axes.plot(alphas, lower, label="certified lower bound")
    axes.fill_between(alphas, lower, upper, color=line.get_color(), alpha=0.3, linewidth=0)
    axes.plot([0, 1], [1, 0], linestyle="--", color="grey", label="nothing can be told apart")
    axes.set(xlabel="false positives alpha", ylabel="least false negatives beta", xlim=(0, 1), ylim=(0, 1))
    axes.legend()
    return axes


def end_of_profile(guarantee: ShownGuarantee) -> float:
    """The epsilon at which a drawn profile ends: that of a delta of 1e-12.

    If everything may be revealed with a larger probability D, no epsilon has this delta. Then it is that of 1.001 D.
    """
    end = guarantee.epsilon(SMALLEST_DELTA).upper
    if math.isfinite(end):
        return end
    never_less = exponential(guarantee.log_profile([_BEYOND_LOSSES])).upper
    return guarantee.epsilon(min(1.001 * float(never_less[0]), 1 - 1e-12)).upper


def draw_profile(guarantee: ShownGuarantee, axes: "Axes | None") -> "Axes":
    """Draw the certified delta at every epsilon on a logarithmic axis, with the range between its bounds shaded.

    Args:
        guarantee: The guarantee.
        axes: Where to draw; None takes the current axes of matplotlib.
    """
    axes = _axes(axes)
    # An epsilon of 0 leaves no interval to draw.
    end = end_of_profile(guarantee) or 1.0
    epsilons = np.linspace(0.0, end, POINTS)
    deltas = exponential(guarantee.log_profile(epsilons.tolist()))
    # A logarithmic axis has no place for a delta below every float.
    seen = deltas.upper > 0
    lower, upper = deltas.lower[seen], deltas.upper[seen]
    (line,) = axes.plot(epsilons[seen], upper, label="certified upper bound")
    axes.fill_between(epsilons[seen], lower, upper, color=line.get_color(), alpha=0.3, linewidth=0)
    if seen.any():
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(float(SMALLEST_DELTA), float(upper.min())) / 2)
    axes.set(xlabel="epsilon", ylabel="delta")
    axes.legend()
    return axes


def _axes(axes: "Axes | None") -> "Axes":
    if axes is not None:
        return axes
    # Here, as most users of guarantees draw nothing.
    from matplotlib import pyplot

    return pyplot.gca()


def _leaves(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    if not isinstance(event, SequentialEvent | ParallelEvent | AdaptiveEvent | WorstEvent):
        yield event
    for part in parts_of(event):
        yield from _leaves(part)


def _shortened(invariants: tuple[str, ...]) -> str:
    text = "; ".join(map(in_one_line, invariants[:_MOST_INVARIANTS]))
    more = len(invariants) - _MOST_INVARIANTS
    return f"{text}; and {more} more" if more > 0 else text


Number = Fraction | float | str

_FEW: Final = 50
"""Number of alternatives that are composed one by one, in at most half a second."""

_CLOSE: Final = 1e-9
"""Width of bounds on an epsilon, relative to it, up to which equally bad alternatives are not searched one by one."""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """The exact privacy of an event, between two populations that are neighbours; made by `compose`.

    If an event may take several ways, it has one law for each way, its alternatives. Every answer is then the worst
    one of theirs. Bounds contain the true value. Claim their upper end, and for beta their lower end.

    Attributes:
        event: What was done.
        choices: What the compositions of losses take their parts from, which are its alternatives.
        neighbours: The relation that the guarantee holds under.
        invariants: Statements of what is published exactly; neighbours are defined to agree on it.
        engine: Name of the engine that was asked for.
        width: Width of epsilon's bounds that is aimed at where the losses share no lattice.
    """

    event: PrivacyEvent
    choices: tuple[Choice, ...]
    neighbours: Neighbours
    invariants: tuple[str, ...] = ()
    engine: str = "auto"
    width: float = WIDTH

    def __post_init__(self) -> None:
        if not all(choice.options for choice in self.choices):
            raise BudgetError("a guarantee needs at least one composition, which may be empty; got none.")
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        # Chosen at once, so that losses which no engine takes are refused here and not by a later question.
        _ = self._asked

    @cached_property
    def _asked(self) -> tuple[LossEngine, ...]:
        """The engines of single laws that epsilon comes from: of every alternative, or beside the shared contour."""
        return (self._engine(costliest_of(self.choices)),) if self.is_shared else self.computed_by

    def _engine(self, law: Law) -> LossEngine:
        return engine_for(law, self.engine, self.width)

    @cached_property
    def is_shared(self) -> bool:
        """Whether there are so many alternatives that epsilon is computed on a contour that all of them share."""
        return self.engine == "auto" and number_of_laws(self.choices) > _FEW and takes(self.choices)

    @property
    def ways(self) -> int:
        """How many alternatives there are; equal ones count apart where they are not composed one by one."""
        return number_of_laws(self.choices) if self.is_shared else len(self.alternatives)

    @cached_property
    def alternatives(self) -> tuple[Law, ...]:
        """Compositions of losses, one for each way that the event may take.

        Raises:
            BudgetError: there are more than 2,500.
        """
        return both_directions(enumerated(self.choices))

    @cached_property
    def computed_by(self) -> tuple[LossEngine, ...]:
        """The engine of each alternative.

        Raises:
            BudgetError: there are more than 2,500 alternatives.
        """
        return tuple(map(self._engine, self.alternatives))

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines used, each once."""
        names = tuple(dict.fromkeys(engine.name for engine in self._asked))
        return (*names, SHARED) if self.is_shared else names

    @property
    def width_reached(self) -> float | None:
        """Width of epsilon's bounds that was aimed at in the end; None if all losses share a lattice.

        It is above `width` if the losses return to their full size too often for that one. The bounds hold there too.
        """
        return max((part.width for part in self._within() if isinstance(part, Dithered)), default=None)

    def _within(self) -> Iterator[LossEngine]:
        return (part for engine in self._asked for part in engines_within(engine))

    def wider(self, epsilon: Bounds | None = None) -> float | None:
        """Width that bounds on an epsilon have instead of `width`; None if it was reached.

        Args:
            epsilon: The bounds; without them, the width is that of the engines.
        """
        widths = [self.width_reached or 0.0]
        # A contour that very many alternatives share may need a width of its own at each delta. Two laws that enclose
        # the truth are as far apart as they are. An infinite epsilon has no width.
        apart = self.is_shared or any(isinstance(part, Between) for part in self._within())
        if epsilon is not None and apart and FAR * self.width < epsilon.width < math.inf:
            widths.append(epsilon.width)
        return max(widths) if max(widths) > self.width else None

    def epsilon(self, delta: Number) -> Bounds:
        """The smallest epsilon >= 0 that holds with this delta.

        It is 0 for a delta of delta(0) or more. For delta = 0 it is the largest loss, which is infinite with Gaussian
        noise.

        Args:
            delta: 0 or more. A float stands for its exact value, text for the decimal or fraction that is written.

        Raises:
            BudgetError: delta is negative or no number.
            SolverError: no engine bounds it closely enough.
        """
        exact = real_number(delta, "delta")
        # No delta is above 1.
        if self.is_shared and exact >= 1:
            return Bounds(0.0, 0.0)
        if self.is_shared and exact > 0:
            shared = shared_epsilon(self.choices, exact, self.width)
            if shared is not None:
                return shared
        epsilons: list[Bounds] = []
        # The costliest one by zCDP is most often the worst. Of the others, one delta says that they are no worse.
        for law, engine in sorted(self._laws(), key=lambda pair: search_cost(pair[0]), reverse=True):
            if not epsilons or _exceeds(engine, _to_exceed(_largest(epsilons)), exact):
                epsilons.append(epsilon_at(engine, law, exact))
        return _largest(epsilons)

    def log_delta(self, epsilon: Number) -> Bounds:
        """Natural logarithm of delta(epsilon), -inf if delta is 0. It also holds for a delta below every float.

        Raises:
            BudgetError: epsilon is no finite number.
        """
        return self.log_profile([epsilon])[0]

    def log_profile(self, epsilons: Sequence[Number]) -> ManyBounds:
        """Natural logarithm of delta at each epsilon; many values at once take much less time than each by itself.

        Raises:
            BudgetError: an epsilon is no finite number.
        """
        # The engines take a float as its exact value, and say so themselves if it is not finite.
        exact: Sequence[float | Fraction] = epsilons  # type: ignore[assignment]
        if not are_floats(epsilons):
            exact = [
                epsilon if isinstance(epsilon, float) else real_number(epsilon, "epsilon")
                for epsilon in epsilons
            ]
        profiles = [engine.log_deltas(exact) for engine in self.computed_by]
        if len(profiles) == 1:
            return profiles[0]
        return ManyBounds(
            # The profile of several ways is their pointwise maximum, and so are both of its bounds.
            np.max([epsilon.lower for epsilon in profiles], axis=0),
            np.max([epsilon.upper for epsilon in profiles], axis=0),
        )

    def delta(self, epsilon: Number) -> Bounds:
        """The smallest delta that holds with this epsilon, which may be negative.

        Raises:
            BudgetError: epsilon is no finite number.
        """
        return self.profile_curve([epsilon])[0]

    def advantage(self) -> Bounds:
        """The total variation delta(0): the most by which the power of a test can exceed its level."""
        return self.delta(Fraction(0))

    def beta(self, alpha: Number) -> Bounds:
        """Trade-off function: the smallest type II error of a test of type I error alpha.

        With several alternatives it is the largest convex function below all of theirs. The profile bounds it from
        below, and the least of their functions from above.

        Args:
            alpha: Between 0 and 1.

        Raises:
            BudgetError: alpha is out of range or no number.

        Source: Dong, Roth, Su 2022, Proposition 2.12.
        """
        exact = real_number(alpha, "alpha")
        if not 0 <= exact <= 1:
            raise BudgetError(
                f"alpha must lie between 0 and 1, got {as_given(alpha)}. It is the type I error at which the curve "
                "is asked for."
            )
        return self._betas([exact])[0]

    def mu(self) -> Bounds:
        """The smallest mu such that the guarantee is at least that of one Gaussian answer N(mu, 1) against N(0, 1).

        The lower end is the largest mu found at any test. The upper end also covers every larger epsilon, through
        zero-concentrated differential privacy, which is a little looser. If the losses share no usable lattice, the
        bracket is about 1e-3 wide, relatively, and a few per cent where the answers are bounded one by one
        (`profile_envelope`). Real-valued normal noise alone has mu in closed form. The upper end is infinite with
        real-valued Laplace noise, randomized response of more than two options, random samples, and losses of which
        only rho is known. Where a delta remains at every epsilon, both ends are infinite.

        Source: Dong, Roth, Su 2022, Definition 2.6.
        """
        return _largest([smallest_mu(law, engine) for law, engine in self._laws()])

    def profile_curve(self, epsilons: Sequence[Number]) -> ManyBounds:
        """Delta at each epsilon."""
        return exponential(self.log_profile(epsilons))

    def tradeoff_curve(self, points: int) -> tuple[NDArray[np.float64], tuple[Bounds, ...]]:
        """The trade-off function at `points` levels alpha from 0 to 1 in ascending order, denser where it bends more.

        Raises:
            BudgetError: fewer than two points, or more than 10,000.
        """
        if not 2 <= points <= 10_000:
            raise BudgetError(f"a curve needs 2 to 10000 points, got {points}. Give a number in that range.")
        # Where to look may follow from one alternative. What is found there holds for all.
        inner = np.sort(knot_at(self.computed_by[0], self.alternatives[0], points - 2))
        alphas = np.concatenate([[0.0], inner, [1.0]])
        alphas.flags.writeable = False
        return alphas, tuple(self._betas([Fraction(alpha) for alpha in alphas.tolist()]))

    def plot_tradeoff(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the certified trade-off function, and return the axes.

        Args:
            ax: Where to draw; None takes the current axes of matplotlib.
        """
        return draw_tradeoff(self, ax)

    def plot_profile(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the certified delta at every epsilon, down to delta 1e-12, and return the axes.

        Args:
            ax: Where to draw; None takes the current axes of matplotlib.
        """
        return draw_profile(self, ax)

    def __repr__(self) -> str:
        lines = "".join(f"\n  {name}: {text}" for name, text in lines_of(self))
        return f"<Guarantee{lines}>"

    def _repr_html_(self) -> str:
        lead = "epsilon(delta), delta(epsilon), beta(alpha), mu() and advantage() compute bounds of it from both sides."
        return described("Guarantee", lines_of(self), lead)

    def _laws(self) -> Iterator[tuple[Law, LossEngine]]:
        return zip(self.alternatives, self.computed_by, strict=True)

    def _betas(self, alphas: list[Fraction]) -> list[Bounds]:
        """The trade-off function at exact levels."""
        curves = [betas_at(engine, law, alphas) for law, engine in self._laws()]
        if len(curves) == 1:
            return [beta for _, beta in curves[0]]
        bounds = []
        for alpha, ways in zip(alphas, zip(*curves, strict=True), strict=True):
            # The guarantee is no better than that of any single alternative.
            upper = min(beta.upper for _, beta in ways)
            lower = max(self._supporting(epsilon, alpha) for epsilon, _ in ways)
            bounds.append(Bounds(min(max(lower, 0.0), upper), upper))
        return bounds

    def _supporting(self, epsilon: Fraction, alpha: Fraction) -> float:
        """1 - delta(epsilon) - exp(epsilon) alpha, rounded down: below the trade-off function at every epsilon."""
        if epsilon > _LARGEST_EXPONENT:
            return 0.0
        # A float of epsilon is off by up to 2^-53 of it, and exp(epsilon) by 700 times as much of itself: below 1e-13.
        price = math.exp(float(epsilon)) * float(alpha) * (1 + 1e-13)
        return (1 - self.delta(epsilon).upper - price) - 2e-15


_LARGEST_EXPONENT: Final = 700
"""Above it no line is computed, since exp(710) is beyond the floats; 0 is below the trade-off function as well. Half of
it would lose lines at levels below exp(-350), which nobody asks for."""


def _exceeds(engine: LossEngine, epsilon: float, delta: Fraction) -> bool:
    """Whether delta at an epsilon may be above a delta. If it is not, the engine's own epsilon is no larger."""
    # No logarithm to compare with: the engine is asked for its epsilon itself.
    if not 0 < delta < 1 or not math.isfinite(epsilon):
        return True
    return log_delta_of(engine, epsilon).upper > log_bounds_of(delta).lower


def _to_exceed(bounds: Bounds) -> float:
    """The epsilon that another alternative must exceed to count, given bounds on the largest epsilon found before.

    Alternatives are often equally bad. The epsilon of each of them then lies between these bounds. So where the bounds
    are close, only an epsilon above both of them counts.
    """
    return bounds.upper if bounds.upper - bounds.lower <= _CLOSE * bounds.upper else bounds.lower


def shared_epsilon(
    choices: Sequence[Choice], delta: Fraction, width: float = WIDTH, lattices: Sequence[LatticeNoise] = ()
) -> Bounds | None:
    """The largest epsilon of all laws of some choices, on a contour that they share.

    Args:
        choices: What the laws take their parts from.
        delta: Between 0 and 1, both excluded.
        width: Width of the bounds that is aimed at; up to 1e-6 where the contour would have too many nodes.
        lattices: Noise on lattices for which a normal loss of the same rho stands; the lower bound is then that of the
            normal loss, and holds for this alone.

    Returns:
        None if the contour would have too many nodes.

    Raises:
        SolverError: no engine bounds the epsilon of one of the laws.
    """

    def alone(law: Law) -> Bounds:
        return epsilon_at(engine_for(law, "auto", width), law, delta)

    usual = costliest_of(choices)
    about = about_epsilon(usual, log_bounds_of(delta).lower)
    while True:
        bounds = worst_epsilon(choices, (usual, about), delta, width, alone, lattices)
        if bounds is not None or width >= WIDEST:
            return bounds
        width *= 10


def costliest_of(choices: Sequence[Choice]) -> Law:
    """The law of some choices that costs the most by zCDP, about; it is most often the worst one."""
    costliest = (Choice((max(choice.options, key=search_cost),), choice.times) for choice in choices)
    return enumerated(tuple(costliest))[0]


def _largest(bounds: list[Bounds]) -> Bounds:
    return Bounds(max(bound.lower for bound in bounds), max(bound.upper for bound in bounds))


def compose(
    *events: PrivacyEvent, neighbours: Neighbours | str, engine: str = "auto", width: float = WIDTH
) -> Guarantee:
    """The exact guarantee of events on the same people, one after the other.

    Args:
        events: What is done, in any order. Each event may depend on what the events before it released.
        neighbours: The relation that the sensitivities of the events are stated under. There is no default, because the
            same numbers mean different things under each relation. Its name, "bounded" or "unbounded", is taken too.
        engine: Name of the engine; "auto" takes the fastest one that is accurate for these losses.
        width: Width of epsilon's bounds that is aimed at where the losses share no lattice. A smaller one takes a
            little longer. On a lattice the bounds are as narrow as floats allow.

    Returns:
        Epsilon, delta and the trade-off function, each from both sides, with the invariants that neighbours agree on.

    Raises:
        BudgetError: what is no event; no such relation; a non-private event; an integer-subspace release at a distance
            below that of neighbours; worst cases that have no exact law (`alternatives_of`); an engine that does not
            exist or cannot take these losses; or a width out of range.

    Privacy: post-processing costs nothing. Any test of what is computed from the releases alone is a test of the
        releases (Dwork and Roth 2014, Proposition 2.1).

    Source: Zhu, Dong, Wang 2022, Theorem 10.
    """
    neighbours = Neighbours.of(neighbours)
    for event in events:
        _require_event(event)
        require_neighbours(event, neighbours)
    event = events[0] if len(events) == 1 else SequentialEvent(events)
    return Guarantee(
        event=event,
        choices=choices_of(event, neighbours),
        neighbours=neighbours,
        invariants=invariants_of(event),
        engine=engine,
        width=width,
    )


def _require_event(event: object) -> None:
    if isinstance(event, PrivacyEvent):
        return
    advice = "Give an event, such as DiscreteGaussian(5)."
    if isinstance(event, list | tuple):
        advice = "Put a star before a list of events: compose(*events, neighbours=...)."
    raise BudgetError(f"compose takes privacy events, got {as_given(event)}. {advice}")


DELTAS: Final = ("1e-5", "1e-10", "1e-11")
"""Deltas at which epsilon is stated."""

ALPHA: Final = Fraction(1, 20)
"""False positive rate at which the least false negative rate is stated."""

BETA: Final = "beta_at_alpha_0.05"
MU: Final = "mu"


def parameter_texts(row: Mapping[str, Any], columns: Sequence[str]) -> list[str | None]:
    """What a table of any kind shows of some parameters: epsilon at each of DELTAS, then columns such as BETA and MU.

    Each number is rounded in the safe direction: the rate beta down, everything else up.

    Args:
        row: Parameters by name, as `PrivacyParameters.to_mapping` gives them.
        columns: Those of BETA and MU that the table has. What the row lacks is None.
    """
    return [
        *(at_most(row[epsilon_name(delta)], places=4) for delta in DELTAS),
        *(
            None
            if row.get(column) is None
            else (at_least if column == BETA else at_most)(row[column], places=4)
            for column in columns
        ),
    ]


@dataclass(frozen=True, slots=True)
class PrivacyParameters:
    """What some noise guarantees, in a few numbers.

    Attributes:
        epsilons: Upper bounds of epsilon, by delta as it is written in DELTAS.
        beta: A lower bound of the least false negative rate at ALPHA; None if it was not computed.
        mu: An upper bound of mu; None if it was not computed, or if no finite one was found.
    """

    epsilons: Mapping[str, float]
    beta: float | None = None
    mu: float | None = None

    def to_mapping(self) -> dict[str, float | None]:
        """The numbers by name: `epsilon_at_1e-5` and so on, BETA and MU."""
        named: dict[str, float | None] = {
            epsilon_name(delta): value for delta, value in self.epsilons.items()
        }
        return {**named, BETA: self.beta, MU: self.mu}


def exact_parameters(guarantee: Guarantee, *, with_mu: bool = True) -> PrivacyParameters:
    """The parameters of a guarantee.

    Args:
        guarantee: The guarantee.
        with_mu: Whether mu is computed, which takes from a tenth of a second to two seconds.

    Returns:
        The parameters. There is no mu where the lattice of the losses is too fine for a finite one.
    """
    # An upper bound of mu and a lower one of beta: both err towards less privacy.
    mu = guarantee.mu().upper if with_mu else math.inf
    return PrivacyParameters(
        # Text, not floats: 1e-5 as a float is another number than the one stated.
        epsilons={delta: guarantee.epsilon(delta).upper for delta in DELTAS},
        beta=guarantee.beta(ALPHA).lower,
        mu=mu if math.isfinite(mu) else None,
    )


def zcdp_parameters(rho: Fraction) -> PrivacyParameters:
    """What follows from rho alone: larger epsilons, by the best conversion."""
    return PrivacyParameters({delta: zcdp_to_epsilon(rho, Fraction(delta)) for delta in DELTAS})


def pure_parameters(epsilon: float) -> PrivacyParameters:
    """What follows from pure differential privacy alone: one epsilon at every delta."""
    return PrivacyParameters(dict.fromkeys(DELTAS, epsilon))


def epsilon_name(delta: str) -> str:
    """Name of the epsilon at a delta."""
    return f"epsilon_at_{delta}"
