"""From what was done to what it guarantees."""

from tallyveil.accounting.costs import require_neighbours
from tallyveil.accounting.engines.dithered import WIDTH
from tallyveil.accounting.events import PrivacyEvent, SequentialEvent
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.losses.loss_laws import alternatives_of, invariants_of
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


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
        alternatives=alternatives_of(event, neighbours),
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
