"""The estimate of one family, and how it was certified."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tallyveil.arrays import Floats, Integers


class EstimateStatus(Enum):
    """How the least-squares answer was obtained, from the surest. The value is its name in the manifest."""

    CERTIFIED = "certified"
    CERTIFIED_BY_MORE_SWEEPS = "certified_by_more_sweeps"
    CERTIFIED_FROM_INTERIOR_POINT = "certified_from_interior_point"
    # The order of the members matters: `least_certain` takes the later one of two.
    INTERIOR_POINT = "interior_point"
    COPIED = "copied"
    EMPTY = "empty"

    @property
    def certified(self) -> bool:
        """Whether the optimality conditions were checked on an exact face."""
        return self.value.startswith("certified")

    @property
    def remedy(self) -> str:
        """What the reader of a manifest should do about it."""
        return _ESTIMATE_REMEDIES[self]


def least_certain(status: EstimateStatus, other: EstimateStatus) -> EstimateStatus:
    """The status of two passes taken together."""
    return max(status, other, key=list(EstimateStatus).index)


class RoundingMethod(Enum):
    """How one rounding stage was solved. The value is its name in the manifest."""

    FIXED = "fixed"
    NETWORK_FLOW = "network_flow"
    LINEAR_PROGRAM = "linear_program"
    INTEGER_PROGRAM = "integer_program"

    @property
    def remedy(self) -> str:
        """What the reader of a manifest should do about it."""
        return _ROUNDING_REMEDIES[self]


_ESTIMATE_REMEDIES = {
    EstimateStatus.CERTIFIED: "nothing to do: the optimality conditions were checked on the exact face",
    EstimateStatus.CERTIFIED_BY_MORE_SWEEPS: (
        "nothing to do: certified as well, after a longer descent; where most families end here, constraints "
        "repeat one another or the queries' shares of the budget are very unequal"
    ),
    EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT: (
        "nothing to do for the answer, which is certified; the interior-point method is slow, so where many "
        "families end here, look for constraints that repeat one another, or give every query a larger share"
    ),
    EstimateStatus.INTERIOR_POINT: (
        "within the declared residual but not certified on its face; if many families end here, look for "
        "constraints that repeat one another, or give every query a larger share of the budget"
    ),
    EstimateStatus.COPIED: "nothing to do: an only child has its parent's counts",
    EstimateStatus.EMPTY: "nothing to do: nobody lives in the parent",
}

_ROUNDING_REMEDIES = {
    RoundingMethod.FIXED: "nothing to do: there was nothing to choose",
    RoundingMethod.NETWORK_FLOW: "nothing to do: optimal, proved in whole numbers by the flow's potentials",
    RoundingMethod.LINEAR_PROGRAM: "nothing to do: optimal, proved in whole numbers by the dual solution",
    RoundingMethod.INTEGER_PROGRAM: (
        "optimal by branch and bound, which is slow on large families; make the rounding queries and the "
        "constraints nested (each answer inside one answer of the one before) to get a linear program"
    ),
}


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """One rounding stage.

    Attributes:
        queries: Names of the stage's queries.
        method: How it was solved.
        deviation: Attained sum of |rounded answer - target of the stage|, persons.
    """

    queries: tuple[str, ...]
    method: RoundingMethod
    deviation: float


@dataclass(frozen=True, slots=True)
class RoundingOutcome:
    """The rounding of one family.

    Attributes:
        stages: One outcome a stage, in order.
        widened: True when rounding each cell up or down could not meet the constraints, and any whole number
            at or above zero was allowed instead.
    """

    stages: tuple[StageOutcome, ...]
    widened: bool

    @property
    def method(self) -> RoundingMethod:
        """The most laborious method any stage needed."""
        order = list(RoundingMethod)
        return max((stage.method for stage in self.stages), key=order.index, default=RoundingMethod.FIXED)


@dataclass(frozen=True, slots=True)
class FamilySolution:
    """Non-negative integer counts of the children.

    Attributes:
        counts: Persons, int64 of shape (C, s), on the problem's support.
        estimate: The real-valued least-squares answer before rounding, persons, shape (C, s).
        status: How the estimate was obtained (the least certain pass decides).
        residual_persons: Largest violation of the optimality conditions in any pass, converted to persons.
        objective: Sum over the last pass's queries of squared deviation over variance, at the estimate.
        rounding: How the rounding went.
    """

    counts: Integers
    estimate: Floats
    status: EstimateStatus
    residual_persons: float
    objective: float
    rounding: RoundingOutcome
