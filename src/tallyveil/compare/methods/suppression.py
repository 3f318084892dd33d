"""Cell suppression: small counts are hidden, and further counts so that nobody can compute the first ones."""

import time
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from tallyveil.arrays import Bools, Integers
from tallyveil.compare.inputs import SharedInput, TableName
from tallyveil.compare.methods.method import CERTAIN, Method, Office
from tallyveil.compare.methods.sensitive import Rules
from tallyveil.compare.patterns import least_pattern
from tallyveil.compare.published import ExactLaw, Limits, Published, PublishedTable, observed_law
from tallyveil.compare.relations import NO_LIMIT, Families, TableCells
from tallyveil.declared import Exact


class Suppression(Method):
    """Cell suppression: sensitive counts are hidden and, with `secondary`, further ones beside them; zeros are shown.

    A count is sensitive by a threshold, by the dominance of its largest contributors, or by the p % rule.

    The secondary suppressions are found family by family, a parent with its children and all their tables, from the
    finest geolevel up: each by an integer program that hides as little as possible and an audit of what is hidden. A
    sum that must be hidden is hidden in the family above as well. Tables of entities off the spine are hidden by the
    rules alone.
    """

    family: ClassVar[str] = "suppression"
    literature: ClassVar[str] = (
        "Willenborg and de Waal 2001; Fischetti and Salazar 2001; Hundepool et al. 2012, chapter 4"
    )
    cannot: ClassVar[str] = (
        "It does not hide that somebody is there: a hidden count is above zero. One more table, or areas that cut "
        "across, can tell what was hidden."
    )
    strength: ClassVar[str] = (
        "What is shown is exact, zeros stay zeros, and readers see where something is missing."
    )
    unbounded: ClassVar[str] = CERTAIN
    random: ClassVar[bool] = False
    shows_exact: ClassVar[bool] = True

    kind: Literal["suppression"] = "suppression"
    threshold: int | None = Field(
        default=None, ge=2, le=1000, description="Counts from 1 to below this number are hidden."
    )
    largest: int | None = Field(default=None, ge=1, le=10, description="n of the dominance rule (n, k).")
    percent: Exact | None = Field(
        default=None, gt=0, lt=100, description="k of the dominance rule: the n largest have more than k %."
    )
    p: Exact | None = Field(default=None, gt=0, le=100, description="p of the p % rule.")
    secondary: bool = Field(
        default=True, description="Whether further counts are hidden by integer programs."
    )
    seconds: int = Field(default=2, ge=1, le=3600, description="Time limit of each integer program.")
    minutes: int = Field(
        default=60,
        ge=1,
        le=1440,
        description="Time limit of all of them; families that are left then hide all that they may.",
    )

    @model_validator(mode="after")
    def _has_a_rule(self) -> Self:
        if (self.largest is None) != (self.percent is None):
            raise ValueError("give both largest and percent for the dominance rule, or neither")
        if self.threshold is None and self.percent is None and self.p is None:
            raise ValueError("give threshold, largest and percent, or p: nothing would be hidden")
        return self

    @property
    def unranked(self) -> str | None:
        """As in `Method`."""
        return None if self.secondary else "no office hides the sensitive counts alone"

    @property
    def rules(self) -> Rules:
        """Which counts are hidden first."""
        return Rules(self.threshold, self.largest, self.percent, self.p)

    def stated_law(self) -> ExactLaw:
        """As in `Method`: zeros are never hidden."""
        return ExactLaw(least_hidden=1)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared, rules = office.shared, self.rules
        hidden = {
            (areas.name, query.name): rules.of_table(shared, areas, query)
            for areas in shared.areas
            for query in shared.queries
        }
        primary = sum(int(part.sum()) for part in hidden.values())
        notes = [f"{primary:,} counts are sensitive by the rules."]
        if rules.looks_at_contributors:
            notes.append(
                "Each record is a contributor of its own, so that dominance and the p % rule are thresholds."
                if shared.contributor is None
                else "Contributors are those of the records. Further counts are hidden so that no hidden count follows "
                "exactly; how closely a contributor could be estimated is not limited by them."
            )
        notes.append(
            self._hide_more(shared, hidden)
            if self.secondary
            else "Only sensitive counts are hidden, no further ones beside them, so that sums give some away. Nothing "
            "was audited. An office would not publish so."
        )
        # Half of the threshold is the middle of what a primary count can be.
        stand_in = max(1, (self.threshold or 2) // 2)
        tables = {name: PublishedTable(true, hidden[name], stand_in) for name, true in shared.truth.items()}
        return Published(
            tables,
            observed_law(shared, tables),
            _Withheld(shared, np.arange(shared.finest.n_areas), rules),
            limits=Limits(shared, tables, self.stated_law()),
            notes=tuple(notes),
        )

    def _hide_more(self, shared: SharedInput, hidden: dict[TableName, Bools]) -> str:
        """Hide further counts, and say what was done."""
        began = time.monotonic()
        cost = bound = 0.0
        programs = limited = late = 0
        before = sum(int(part.sum()) for part in hidden.values())
        proved: dict[tuple[int, int], bool] = {}
        solved: dict[tuple[int, int], Bools] = {}
        families = {level: Families(shared, level) for level in range(1, shared.n_geolevels)}
        # A sum that is hidden for the family above needs hidden parts below, and families together can tell what none
        # tells alone. So they are visited until nothing more is hidden. The hidden counts only grow, so that this ends.
        changed = True
        while changed:
            changed = False
            for level in range(shared.n_geolevels - 1, 0, -1):
                family = families[level]
                for parent in range(shared.areas[level - 1].n_areas):
                    flags, place = family.gathered(hidden, parent), (level, parent)
                    if not flags.any() or (place in solved and np.array_equal(solved[place], flags)):
                        continue
                    counts = family.gathered(shared.truth, parent)
                    left = began + 60 * self.minutes - time.monotonic()
                    pattern = least_pattern(
                        counts,
                        family.lines(parent),
                        flags,
                        family.price(counts),
                        # What did not follow beside fewer hidden counts does not follow beside more.
                        safe=solved[place] if proved.get(place) else np.zeros_like(flags),
                        least=1,
                        seconds=max(0.0, min(self.seconds, left)),
                    )
                    family.scatter(pattern.hidden, hidden, parent)
                    programs, limited = programs + (left > 0), limited + (left > 0 and pattern.limited)
                    late += left <= 0
                    changed = True
                    solved[place], proved[place] = pattern.hidden, pattern.proved
                    cost, bound = cost + pattern.cost, bound + min(pattern.bound, pattern.cost)
            changed = changed or _hide_beside(shared, hidden)
        further = sum(int(part.sum()) for part in hidden.values()) - before
        gap = 100 * (cost - bound) / cost if cost else 0.0
        return (
            f"{further:,} further counts are hidden by {programs:,} integer programs, together within {gap:.1f} % of "
            f"their proved least costs, in {time.monotonic() - began:.0f} s. {limited:,} of them ended at a time "
            "limit, where another machine may hide other counts. "
            + (f"{late:,} families had no time left, and hide all that they may. " if late else "")
            + f"In {sum(proved.values()):,} of {len(proved):,} families with hidden counts the audit proves that no "
            "hidden count follows from what is shown of the family. All families together are looked at by interval "
            "arithmetic alone, and areas off the spine are not; attack (f) does both."
        )


def _hide_beside(shared: SharedInput, hidden: dict[TableName, Bools]) -> bool:
    """Where interval arithmetic over all geolevels finds a hidden count, hide the cheapest count on each of its lines.

    Returns:
        Whether anything was hidden.
    """
    cells = TableCells(shared, with_entities=False)
    counts, flags = cells.joined(shared.truth), cells.joined(hidden)
    low, high = cells.narrowed(np.where(flags, 1.0, counts), np.where(flags, NO_LIMIT, counts))
    known = flags & (low == high)
    further = np.zeros_like(flags)
    for block in cells.blocks():
        line, member = block.touching(known).members
        # Only counts above zero that are shown can be hidden; the smallest of each line comes first.
        able = ~flags[member] & (counts[member] > 0)
        order = np.lexsort((counts[member][able], line[able]))
        first = np.unique(line[able][order], return_index=True)[1]
        further[member[able][order][first]] = True
    for name in cells.names:
        hidden[name] |= further[cells.numbers(name)]
    return bool(further.any())


@dataclass(frozen=True, slots=True, eq=False)
class _Withheld:
    """An office that answers questions about unions, and hides answers that are sensitive."""

    shared: SharedInput
    geounits: Integers
    rules: Rules

    def answers(self, members: Bools, cell: int) -> PublishedTable:
        """As in `Questions`."""
        counts = members.astype(np.int64) @ self.shared.counts[self.geounits, cell]
        if self.shared.contributor is None or not self.rules.looks_at_contributors:
            return PublishedTable(counts, self.rules.of_counts(counts))
        return PublishedTable(counts, self.rules.of_unions(members, self._contributions(cell)))

    def restricted(self, geounits: Integers) -> "_Withheld":
        """As in `Questions`."""
        return _Withheld(self.shared, self.geounits[geounits], self.rules)

    def _contributions(self, cell: int) -> sparse.csr_matrix:
        """What each contributor adds to the cell in each geounit; shape (geounits.size, n_contributors)."""
        counts, contributor = self.shared.counts, self.shared.contributor
        assert contributor is not None
        starts = np.cumsum(counts.ravel()) - counts.ravel()
        size = counts[self.geounits, cell]
        first = starts[self.geounits * counts.shape[1] + cell]
        rows = np.repeat(np.arange(self.geounits.size), size)
        people = np.arange(rows.size) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first, size)
        known, columns = np.unique(contributor[people], return_inverse=True)
        shape = (self.geounits.size, known.size)
        return sparse.csr_matrix((np.ones(rows.size, dtype=np.int64), (rows, columns)), shape=shape)
