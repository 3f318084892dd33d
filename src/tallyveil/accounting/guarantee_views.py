"""How a guarantee shows itself: in a few lines, as a table of a notebook, and as two figures."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.events import (
    AdaptiveEvent,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
    parts_of,
)
from tallyveil.accounting.losses.log_bounds import exponential
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS: Final = 101
"""Points of a curve that is drawn."""

SMALLEST_DELTA: Final = "1e-12"
"""Delta at which a drawn profile ends."""

_MOST_INVARIANTS: Final = 3
"""Invariants that one line names; the guarantee itself holds all of them."""


class ShownGuarantee(Protocol):
    """What is shown of a guarantee; `accounting/guarantee.py` has the class."""

    @property
    def event(self) -> PrivacyEvent:
        """What was done."""

    @property
    def alternatives(self) -> Sequence[object]:
        """One composition of losses for each way that the event may take."""

    @property
    def neighbours(self) -> Neighbours:
        """The relation that it holds under."""

    @property
    def invariants(self) -> tuple[str, ...]:
        """Statements of what is published exactly."""

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines used."""

    def epsilon(self, delta: str) -> Bounds:
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
    if len(guarantee.alternatives) > 1:
        lines.append(("alternatives", f"{len(guarantee.alternatives)}, of which the worst one counts"))
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


def draw_profile(guarantee: ShownGuarantee, axes: "Axes | None") -> "Axes":
    """Draw the certified delta at every epsilon on a logarithmic axis, with the range between its bounds shaded.

    Args:
        guarantee: The guarantee.
        axes: Where to draw; None takes the current axes of matplotlib.
    """
    axes = _axes(axes)
    # An epsilon of 0 leaves no interval to draw.
    end = guarantee.epsilon(SMALLEST_DELTA).upper or 1.0
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
    text = "; ".join(invariants[:_MOST_INVARIANTS])
    more = len(invariants) - _MOST_INVARIANTS
    return f"{text}; and {more} more" if more > 0 else text
