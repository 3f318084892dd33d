"""Counts of a release that get integer-subspace noise, as data; a part of the plan."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from tallyveil.accounting.events import IntegerSubspaceGaussian, IntegerSubspaceLaplace, Neighbours
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import Declared, Exact, Name
from tallyveil.plans.constraints import Invariant
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm

INTEGER_SUBSPACE = "integer-subspace"


@dataclass(frozen=True)
class SubspaceQuery(Declared):
    """A query whose answers at one geolevel get noise that keeps the invariants; the noisy counts are then fixed."""

    mechanism: Annotated[
        Literal["integer-subspace"], Field(description="The mechanism; there is only one.")
    ] = field(default="integer-subspace", kw_only=True)
    query: Annotated[Name, Field(description="The query. Each record counts in at most one of its answers.")]
    geolevel: Annotated[Name, Field(description="Geolevel at which the counts are drawn.")]
    budget: Annotated[Exact, Field(description="Exact cost, in the unit of the strategy of the release.")]

    def law(self, mechanism: Mechanism, neighbours: Neighbours) -> LatticeLaw:
        """Law of the noise: Gaussian if the budget is rho, l1 Laplace if it is epsilon.

        Each answer changes by at most 1 if one record changes, so the l1 distance and the squared l2 distance are both
        the number of answers that change.
        """
        moved = neighbours.answers_moved
        if mechanism is Mechanism.DISCRETE_GAUSSIAN:
            # rho = moved / (2 variance), solved for the variance; exact in fractions.
            return GeneralisedGaussian(moved / (2 * self.budget))
        # l1 Laplace noise of a scale moved / epsilon costs epsilon.
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
