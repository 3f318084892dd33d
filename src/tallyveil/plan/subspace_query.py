"""Counts of a release that the integer-subspace mechanism draws, as data: part of the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.budget.fractions import parse_fraction
from tallyveil.budget.strategy import Mechanism
from tallyveil.plan.constraints import Invariant
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm

INTEGER_SUBSPACE = "integer-subspace"


@dataclass(frozen=True, slots=True)
class SubspaceQuery:
    """A query whose answers at one geolevel get noise that leaves the invariants alone, and are then fixed.

    Attributes:
        query: A partition query: a record counts in at most one answer of one geounit.
        geolevel: Where it is drawn; the counts are published, and hold exactly in all that follows.
        budget: Exact cost, in the unit of the release's strategy.
    """

    query: str
    geolevel: str
    budget: Fraction

    def law(self, mechanism: Mechanism, neighbours: Neighbours) -> LatticeLaw:
        """Law of the noise: Gaussian where the budget is rho, l1 Laplace where it is epsilon.

        A changed record takes one from an answer and gives one to another: l1 distance and squared l2 distance are the
        number of answers moved.
        """
        moved = neighbours.answers_moved
        if mechanism is Mechanism.DISCRETE_GAUSSIAN:
            return GeneralisedGaussian(moved / (2 * self.budget))
        return GeneralisedLaplace(Norm.L1, self.budget / moved)

    def event(
        self, mechanism: Mechanism, neighbours: Neighbours, invariants: Sequence[Invariant]
    ) -> IntegerSubspaceGaussian | IntegerSubspaceLaplace:
        """What drawing the counts does to privacy; its cost is exactly `budget`."""
        names = tuple(item.statement for item in invariants)
        law = self.law(mechanism, neighbours)
        if isinstance(law, GeneralisedGaussian):
            return IntegerSubspaceGaussian(law.variance, neighbours.answers_moved, names)
        return IntegerSubspaceLaplace(law.epsilon, "l1", neighbours.answers_moved, names)

    @property
    def name(self) -> str:
        """For constraints, checks and messages."""
        return f"{INTEGER_SUBSPACE} {self.query}"

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`."""
        return {
            "mechanism": INTEGER_SUBSPACE,
            "query": self.query,
            "geolevel": self.geolevel,
            "budget": str(self.budget),
        }


def drawn_items(plan: Mapping[str, Any]) -> tuple[SubspaceQuery, ...]:
    """The queries that `plan.json` says were drawn on a lattice."""
    return tuple(
        SubspaceQuery(item["query"], item["geolevel"], parse_fraction(item["budget"], "budget"))
        for item in plan.get("subspace", [])
    )
