"""Population groups of one level, whatever the records are: their detail, their laws of noise, and what they cost.

This is the public half of Algorithms 1 and 2 (SafeTab, Haney et al.). A level is a list of groups, and a record is in a
limited number of them, the stability s. A budget B for the level gives each group the share B / s:

    total-only group   its total, with the whole share
    any other group    its total with the part gamma of the share (stage 1). The number of thresholds at or below this
                       noisy total is the group's detail. Then the table of this detail with the rest (stage 2).

Detail 0 is the total alone, and detail k the k-th table of the ladder. A record is in at most one cell of every table.

Nothing here knows where the groups come from. `plan` makes levels from the Census layout, and `group_plan` from a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from tallyveil.accounting.events import (
    AdaptiveEvent,
    Neighbours,
    ParallelEvent,
    PrivacyEvent,
    Release,
    SequentialEvent,
)
from tallyveil.accounting.events import DiscreteGaussian as DiscreteGaussianEvent
from tallyveil.accounting.events import DiscreteLaplace as DiscreteLaplaceEvent
from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law

NEIGHBOURS = Neighbours.UNBOUNDED
"""Neighbouring populations differ by adding or removing one record."""


class TableDetail(Protocol):
    """One table of a ladder: its cells are unions of the finest cells, and every finest cell is in one of them."""

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        ...

    def collapse(self, finest: Integers) -> Integers:
        """Tables of this detail, [groups, n_cells], from tables of the finest cells."""
        ...


@dataclass(frozen=True, slots=True)
class Ladder:
    """The details in which a group can be tabulated, from the total alone to the finest table.

    Attributes:
        names: Names of the details: the total, each table, and last the total of a total-only group.
        tables: The tables of details 1, 2 and so on.
        finest_cells: Number of the finest cells, of which all cells are unions.
        cells_apart: Distance of the noise addresses of two groups' cells; at least the cells of every table.
    """

    names: tuple[str, ...]
    tables: tuple[TableDetail, ...]
    finest_cells: int
    cells_apart: int

    @property
    def total_only(self) -> int:
        """The number that stands for the detail of total-only groups."""
        return len(self.tables) + 1

    def n_cells(self, detail: int) -> int:
        """Number of measured numbers of a detail in stage 2."""
        return self.tables[detail - 1].n_cells if 0 < detail < self.total_only else 1


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupLevel:
    """The population groups of one level, with their own budget. Groups stand in rows of the same width.

    A level of a layout has these attributes beside what its plan states of it.

    Attributes:
        name: A name for readers, such as "COUNTY level 2".
        geolevel: Field of the noise's addresses.
        query: First of its query numbers among the noise's addresses (`tallyveil.products.safetab.public.addresses`).
        width: Groups in a row. Groups with adaptive detail come first, then the total-only ones.
        n_adaptive: Groups of a row with adaptive detail.
        ladder: The details.
        budget: Rho or epsilon of all its groups together, exact.
        thresholds: Noisy counts from which a group gets details 1, 2 and so on; non-decreasing.
        stage_1: Law of the noise that chooses the detail.
        stage_2: Law of the noise of the total (detail 0) or of each cell.
        total_only: Law of the noise of a total-only group.
        keep_above: A total of detail 0 is published only if it is above this; None to publish always.
    """

    name: str
    geolevel: int
    query: int
    width: int
    n_adaptive: int
    ladder: Ladder
    budget: Fraction
    thresholds: tuple[int, ...]
    stage_1: Law
    stage_2: Law
    total_only: Law
    keep_above: int | None

    def bounds(self, detail: int) -> tuple[int | None, int | None]:
        """Stage-1 counts that choose a detail: lowest <= count < highest; None means no bound."""
        return bounds_of(self.thresholds, detail)


def bounds_of(thresholds: Sequence[int], detail: int) -> tuple[int | None, int | None]:
    """Stage-1 counts that choose a detail, or no bounds if it is that of total-only groups."""
    # The number of total-only groups is one beyond the tables; their count chose nothing.
    if detail > len(thresholds):
        return None, None
    return (
        thresholds[detail - 1] if detail else None,
        thresholds[detail] if detail < len(thresholds) else None,
    )


def law_of(mechanism: Mechanism, budget: Fraction) -> Law:
    """The law of noise of one count with a given budget: rho (Gaussian) or epsilon (Laplace)."""
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        # rho = sensitivity**2 / (2 variance), with sensitivity 1 for one count.
        return DiscreteGaussian(1 / (2 * budget))
    # epsilon = sensitivity / scale.
    return DiscreteLaplace(1 / budget)


def deviations_of(laws: Sequence[Law]) -> tuple[float, ...]:
    """The standard deviations of some laws, as plans state them."""
    return tuple(law.standard_deviation() for law in laws)


def level_laws(
    mechanism: Mechanism, budget: Fraction, stability: int, stage_1_fraction: Fraction, name: str
) -> tuple[Law, Law, Law]:
    """Laws of stage 1, of stage 2 and of a total-only group.

    Args:
        mechanism: Determines whether budgets are rho or epsilon.
        budget: Of all groups of the level together.
        stability: Largest number of its groups that a record can be in.
        stage_1_fraction: Share of stage 1 in a group's budget.
        name: Name of the level, for messages.
    Raises:
        BudgetError: the budget is so small or large that its noise is out of range.
    """
    # Exact fractions: the sum of what a record's groups cost is the budget, to the last digit.
    share, gamma = budget / stability, stage_1_fraction
    try:
        stage_1, stage_2, total_only = (
            # Stage 1 and stage 2 together cost the share; a total-only group spends it at once.
            law_of(mechanism, part * share)
            for part in (gamma, 1 - gamma, Fraction(1))
        )
    except BudgetError as error:
        raise BudgetError(f"{name}, budget {budget}: {error}") from None
    return stage_1, stage_2, total_only


def events_of(levels: Sequence[GroupLevel], groups: int, total_only: int) -> list[PrivacyEvent]:
    """Events of levels in which a record is in the same groups.

    Args:
        levels: The levels.
        groups: Largest number of groups of each level that a record can be in.
        total_only: Upper bound on how many of them are total-only.
    Source: SafeTab (Haney et al.), Theorems 1 to 3.
    """
    # A record in the same groups at each level: levels compose within a group, groups in parallel up to s.
    split = SequentialEvent(tuple(_split_event(level) for level in levels))
    if not total_only:
        return [ParallelEvent((split,), groups)]
    only = SequentialEvent(tuple(release_of(level.total_only) for level in levels))
    if not any(level.n_adaptive for level in levels):
        return [ParallelEvent((only,), groups)]
    # Which groups are total-only depends on the record, so the worse of the two cases counts for each of
    # them.
    either = ParallelEvent((split, only), total_only)
    if total_only == groups:
        return [either]
    return [ParallelEvent((split,), groups - total_only), either]


def _split_event(level: GroupLevel) -> PrivacyEvent:
    """Stage 1, then the tabulation of one detail. A record is in one cell of each."""
    table = release_of(level.stage_2)
    return SequentialEvent(
        # One of 1 + tables alternatives is made, all with the same law; which one is chosen is paid for by
        # stage 1.
        (release_of(level.stage_1), AdaptiveEvent((table,) * (1 + len(level.ladder.tables))))
    )


def release_of(law: Law) -> Release:
    """The event of one count with noise of a given law."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussianEvent(law.variance)
    return DiscreteLaplaceEvent(law.scale)
