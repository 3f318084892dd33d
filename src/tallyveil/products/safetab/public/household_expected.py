"""The expected accuracy of a SafeTab-H run, from the plan alone: margins by table, level set and detail."""

from dataclasses import asdict, dataclass
from typing import Any

from tallyveil.products.safetab.public.household_tables import quality_of_sum
from tallyveil.products.safetab.public.households import HouseholdPlan


@dataclass(frozen=True, slots=True)
class HouseholdError:
    """95 % margins of one detail of a household set, in households.

    Attributes:
        run, table, geography, level: The household set.
        detail: Name of the published table.
        from_count: T1 count from which this detail is chosen; None for no such bound.
        cell, cell_variance: Margin and variance of a measured cell.
        total, total_variance: Margin and variance of the total, which is the sum of the cells.
    """

    run: str
    table: str
    geography: str
    level: int
    detail: str
    from_count: int | None
    cell: float
    cell_variance: float
    total: float
    total_variance: float

    def to_mapping(self) -> dict[str, Any]:
        """The same values as plain data."""
        return asdict(self)


def expected_household_errors(plan: HouseholdPlan) -> tuple[HouseholdError, ...]:
    """Margins of every set and detail, without data."""
    errors = []
    for run in plan.runs:
        for household_set in run.sets:
            # A cell has the same law in every detail; only sums differ.
            cell = quality_of_sum(household_set, 1)
            for number, detail in enumerate(household_set.table.details):
                total = quality_of_sum(household_set, detail.n_cells)
                errors.append(
                    HouseholdError(
                        run.run,
                        household_set.table.name,
                        household_set.geography,
                        household_set.level,
                        detail.folder,
                        household_set.thresholds[number - 1] if number else None,
                        cell.margin,
                        cell.variance,
                        total.margin,
                        total.variance,
                    )
                )
    return tuple(errors)
