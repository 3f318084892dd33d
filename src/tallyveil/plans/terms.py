"""What a release does to privacy, as data: it names no input file, so that the folder of a release can tell it."""

from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accounting.events import InvariantEvent, PrivacyEvent, SequentialEvent
from tallyveil.budget.strategy import Strategy
from tallyveil.plans.constraints import Invariant
from tallyveil.plans.subspace_query import SubspaceQuery
from tallyveil.schema.schema import Unit


@dataclass(frozen=True, slots=True)
class PrivacyTerms:
    """The part of a plan that its privacy event and its guarantee follow from.

    Attributes:
        unit: What one record represents.
        strategy: What is measured with which budget.
        declared: Most that may be spent.
        delta: Where epsilon is reported.
        invariants: Queries published exactly.
        subspace: Queries whose counts are drawn on the lattice of the invariants.
        may_bypass: Whether geounits may be bypassed, so that the paths of the spine may differ in their shares.
    """

    unit: Unit
    strategy: Strategy
    declared: Fraction
    delta: Fraction
    invariants: tuple[Invariant, ...]
    subspace: tuple[SubspaceQuery, ...]
    may_bypass: bool

    @property
    def spent(self) -> Fraction:
        """What the release costs, in the strategy's unit."""
        # A sum of exact fractions, which the ledger and the declaration are compared with.
        return sum((item.budget for item in self.subspace), self.strategy.total)

    def event(self, measuring: PrivacyEvent | None = None) -> PrivacyEvent:
        """Everything the release does to privacy: the measurements, the counts drawn on a lattice, the invariants.

        Args:
            measuring: The measurements on the spine of the release (`Allocation.event`); without it, those of a
                spine on which nothing is bypassed, which cost the same.
        """
        invariants = tuple(InvariantEvent(invariant.statement) for invariant in self.invariants)
        mechanism, neighbours = self.strategy.mechanism, self.strategy.neighbours
        drawn = tuple(item.event(mechanism, neighbours, self.invariants) for item in self.subspace)
        # In this order; the digest of an event depends on it.
        return SequentialEvent((measuring or self.strategy.event(), *drawn, *invariants))
