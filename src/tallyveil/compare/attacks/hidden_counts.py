"""Attack (f): hidden counts by interval arithmetic along all sums.

The attacker knows which tables add up to which, and the least that a hidden count can be. He narrows the limits of all
hidden counts, of all tables and areas at once, until nothing changes. A count whose limits meet is known exactly. This
finds what one sum after the other tells; an integer program over all tables might find more.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, share
from tallyveil.compare.inputs import SharedInput, TableName
from tallyveil.compare.published import Published
from tallyveil.compare.relations import NO_LIMIT, TableCells


class HiddenCounts(Attack):
    """Who computes what was hidden."""

    name: ClassVar[str] = "hidden counts"
    letter: ClassVar[str] = "f"
    who: ClassVar[str] = (
        "Anybody who reads the tables, adds and subtracts. Against methods that hide counts and show all others."
    )
    prior: ClassVar[str] = "none of the hidden counts is known"
    bounded: ClassVar[str] = (
        "Where a method was audited, this proves that hidden counts do not follow exactly from some tables; see the "
        "method."
    )
    limits: ClassVar[str] = (
        "He narrows limits along one sum after the other; integer programs over all tables might find more. Changed "
        "counts are not attacked so, although the multiples of rounding and the largest change of cell keys set limits "
        "too."
    )
    headline: ClassVar[str] = "hidden counts found exactly"
    must: ClassVar[float] = 0.99

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        if published.least_hidden is None:
            return []
        hidden = {name: ~table.shown for name, table in published.tables.items()}
        return self._recovered(targets, hidden, published.least_hidden)

    def power(self, targets: Targets, findings: Sequence[Finding]) -> float | None:
        """On tables that hide nothing he hides one count of the first child of every parent himself, and finds it."""
        shared = targets.shared
        hidden = {name: np.zeros(true.shape, dtype=np.bool_) for name, true in shared.truth.items()}
        query = shared.queries[-1].name
        first = np.unique(shared.parents(shared.n_geolevels - 1), return_index=True)[1]
        hidden[shared.finest.name, query][first, 0] = True
        return self.headline_of(self._recovered(targets, hidden, 0))

    def _recovered(self, targets: Targets, hidden: dict[TableName, Bools], least: int) -> list[Finding]:
        shared = targets.shared
        flags, low, high = limits_of(shared, shared.truth, hidden, least)
        true = np.concatenate([shared.truth[name].ravel() for name in TableCells(shared).names])
        known = flags & (low == high)
        small = flags & (true > 0) & (true <= 2)
        return [
            share(self.name, self.headline, int(known.sum()), int(flags.sum()), prior=0.0),
            share(
                self.name,
                "hidden counts of 1 and 2 found exactly",
                int((known & small).sum()),
                int(small.sum()),
                prior=0.0,
            ),
            share(
                self.name,
                "hidden counts known to within 2",
                int((flags & (high - low <= 2)).sum()),
                int(flags.sum()),
                prior=0.0,
            ),
        ]


def limits_of(
    shared: SharedInput, shown: Mapping[TableName, Integers], hidden: Mapping[TableName, Bools], least: int
) -> tuple[Bools, Floats, Floats]:
    """Which counts are hidden, and the limits that shown ones leave them; in the order of `TableCells`.

    Args:
        shared: Says which tables there are, and how they add up.
        shown: Counts of all tables; those that are hidden are not looked at.
        hidden: Where none is shown.
        least: The least that a hidden count can be.
    """
    cells = TableCells(shared)
    flags = np.concatenate([hidden[name].ravel() for name in cells.names])
    counts = np.concatenate([shown[name].ravel() for name in cells.names])
    low, high = cells.narrowed(
        np.where(flags, float(least), counts), np.where(flags, NO_LIMIT, counts.astype(np.float64))
    )
    return flags, low, high
