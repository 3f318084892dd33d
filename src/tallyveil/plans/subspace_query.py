"""Counts of a release that get integer-subspace noise, as data; a part of the plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.accounting.subspace_events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.budget.fractions import parse_fraction
from tallyveil.budget.strategy import Mechanism
from tallyveil.plans.constraints import Invariant
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm

INTEGER_SUBSPACE = "integer-subspace"


@dataclass(frozen=True, slots=True)
class SubspaceQuery:
    """A query whose answers at one geolevel get noise that keeps the invariants; the noisy counts are then fixed.

    Attributes:
        query: A partition query: a record counts in at most one answer of one geounit.
        geolevel: Geolevel of the noisy counts. They are published, and all later counts agree with them exactly.
        budget: Exact cost, in the unit of the strategy of the release.
    """

    query: str
    geolevel: str
    budget: Fraction

    def law(self, mechanism: Mechanism, neighbours: Neighbours) -> LatticeLaw:
        """Law of the noise: Gaussian if the budget is rho, l1 Laplace if it is epsilon.

        Each answer changes by at most 1 if one record changes, so the l1 distance and the squared l2 distance are both
        the number of answers that change.
        """
        moved = neighbours.answers_moved
        if mechanism is Mechanism.DISCRETE_GAUSSIAN:
            return GeneralisedGaussian(moved / (2 * self.budget))
        return GeneralisedLaplace(Norm.L1, self.budget / moved)

    def event(
        self, mechanism: Mechanism, neighbours: Neighbours, invariants: Sequence[Invariant]
    ) -> IntegerSubspaceGaussian | IntegerSubspaceLaplace:
        """The privacy event of drawing the counts. Its cost is exactly `budget`."""
        names = tuple(item.statement for item in invariants)
        law = self.law(mechanism, neighbours)
        if isinstance(law, GeneralisedGaussian):
            return IntegerSubspaceGaussian(law.variance, neighbours.answers_moved, names)
        return IntegerSubspaceLaplace(law.epsilon, "l1", neighbours.answers_moved, names)

    @property
    def name(self) -> str:
        """Name in constraints, checks and messages."""
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
