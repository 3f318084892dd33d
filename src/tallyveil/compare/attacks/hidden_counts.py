"""Attack (f): hidden counts by interval arithmetic along all sums.

A count is hidden if the tables do not show it exactly: it is left out, rounded, or changed by a cell key. The attacker
knows which true counts can be behind each published one, by the settings of the method, and which tables add up to
which. He narrows the limits of all counts, of all tables and areas at once, until nothing changes. A count whose limits
meet is known exactly. This finds what one sum after the other tells; an integer program over all tables might find
more. Limits alone are used, so that a true count between them that no key allows is not excluded.

*Worked case.* Counts are rounded to the nearest multiple of 3. A town of two blocks is published as 3, and each block
as 0. So the town has 2 to 4 people, and each block has at most 1: the town has 2, and each block has 1.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tallyveil.compare.attacks.attack import Attack, Finding, Targets, share
from tallyveil.compare.published import ExactLaw, Limits, Published, PublishedTable


class HiddenCounts(Attack):
    """Who computes what was hidden."""

    name: ClassVar[str] = "hidden counts"
    letter: ClassVar[str] = "f"
    who: ClassVar[str] = (
        "Anybody who reads the tables and the settings of the method, adds and subtracts. Hidden is every count that "
        "the tables do not show exactly: one that is left out, rounded, or changed by a key. Against methods that "
        "limit how far a count can be from the truth; swapping and added noise do not."
    )
    prior: ClassVar[str] = "none of the hidden counts is known"
    bounded: ClassVar[str] = (
        "There is none without suppression. Secondary suppression audits its tables, family by family, and proves for "
        "single families that no hidden count follows exactly from them; see the method."
    )
    reading: ClassVar[str] = (
        "He narrows limits along one sum after the other; integer programs over all tables might find more. Swapping, "
        "TopDown and SafeTab limit no count, so that he has nothing to begin with."
    )
    headline: ClassVar[str] = "hidden counts found exactly"
    must: ClassVar[float] = 0.99

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        return [] if published.limits is None else self._recovered(targets, published.limits)

    def power(self, targets: Targets, findings: Sequence[Finding]) -> float | None:
        """On tables that hide nothing he hides one count of the first child of every parent himself, and finds it."""
        shared = targets.shared
        tables = {name: PublishedTable(true) for name, true in shared.truth.items()}
        name = shared.finest.name, shared.queries[-1].name
        hidden = np.zeros(shared.truth[name].shape, dtype=np.bool_)
        hidden[np.unique(shared.parents(shared.n_geolevels - 1), return_index=True)[1], 0] = True
        tables[name] = PublishedTable(shared.truth[name], hidden)
        return self.headline_of(self._recovered(targets, Limits(shared, tables, ExactLaw())))

    def _recovered(self, targets: Targets, limits: Limits) -> list[Finding]:
        hidden = limits.hidden
        if not hidden.any():
            return []
        low, high = limits.narrowed
        true = limits.cells.joined(targets.shared.truth)
        small = hidden & (true > 0) & (true <= 2)
        # Limits that the truth is outside of, as of settings that are not those of the tables, are no knowledge.
        inside = (low <= true) & (true <= high)
        known, nearly = inside & (low == high), inside & (high - low <= 2)
        return [
            share(self.name, measure, int((right & among).sum()), int(among.sum()), prior=0.0)
            for measure, right, among in (
                (self.headline, known, hidden),
                ("hidden counts of 1 and 2 found exactly", known, small),
                ("hidden counts known to within 2", nearly, hidden),
            )
        ]
