"""Cell suppression: small counts are hidden, and further counts so that nobody can compute the first ones."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tallyveil.arrays import Bools, Floats, IntegerRows, Integers
from tallyveil.compare.inputs import SharedInput, TableName
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.patterns import least_pattern
from tallyveil.compare.published import Published, PublishedTable, observed_law
from tallyveil.compare.relations import Lines, nested


class Suppression(Method):
    """Primary and secondary cell suppression: counts from 1 to below a threshold are hidden; zeros are shown.

    The secondary suppressions are found family by family, a parent with its children and all their tables, from the
    finest geolevel up: each by an integer program that hides as little as possible and an audit of what is hidden. A
    sum that must be hidden is hidden in the family above as well. Tables of entities off the spine are hidden by the
    threshold alone.
    """

    family: ClassVar[str] = "suppression"
    literature: ClassVar[str] = (
        "Willenborg and de Waal 2001; Fischetti and Salazar 2001; Hundepool et al. 2012, chapter 4"
    )
    cannot: ClassVar[str] = (
        "It does not hide that somebody is there: a hidden count is above zero. Its audit is of these tables and these "
        "areas; one more table, or areas that cut across, can tell what was hidden."
    )
    strength: ClassVar[str] = (
        "What is shown is exact, zeros stay zeros, and readers see where something is missing."
    )
    random: ClassVar[bool] = False

    kind: Literal["suppression"] = "suppression"
    threshold: int = Field(ge=2, le=1000, description="Counts from 1 to below this number are hidden.")
    secondary: bool = Field(
        default=True, description="Whether further counts are hidden by integer programs."
    )
    seconds: int = Field(default=2, ge=1, le=3600, description="Time limit of each integer program.")

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        hidden = {name: (true > 0) & (true < self.threshold) for name, true in shared.truth.items()}
        primary = sum(int(part.sum()) for part in hidden.values())
        notes = [f"{primary:,} counts are below the threshold."]
        if self.secondary:
            notes.append(self._hide_more(shared, hidden))
        # Half of the threshold is the middle of what a primary count can be.
        stand_in = max(1, self.threshold // 2)
        tables = {name: PublishedTable(true, hidden[name], stand_in) for name, true in shared.truth.items()}
        return Published(
            tables,
            observed_law(shared, tables),
            _Withheld(shared.counts, self.threshold),
            least_hidden=1,
            notes=tuple(notes),
        )

    def _hide_more(self, shared: SharedInput, hidden: dict[TableName, Bools]) -> str:
        """Hide further counts, and say what was done."""
        began = time.process_time()
        proved = families = 0
        cost = bound = 0.0
        before = sum(int(part.sum()) for part in hidden.values())
        for level in range(shared.n_geolevels - 1, 0, -1):
            family = _Families(shared, level)
            for parent in range(shared.areas[level - 1].n_areas):
                flags = family.gathered(hidden, parent)
                if not flags.any():
                    continue
                families += 1
                counts = family.gathered(shared.truth, parent)
                price = family.price(counts)
                pattern = least_pattern(
                    counts, family.lines(parent), flags, price, least=1, seconds=float(self.seconds)
                )
                family.scatter(pattern.hidden, hidden, parent)
                proved += pattern.proved
                cost, bound = cost + pattern.cost, bound + min(pattern.bound, pattern.cost)
        further = sum(int(part.sum()) for part in hidden.values()) - before
        gap = 100 * (cost - bound) / cost if cost else 0.0
        return (
            f"{further:,} further counts are hidden by {families:,} integer programs, within {gap:.1f} % of the proved "
            f"least cost, in {time.process_time() - began:.0f} s. In {proved:,} of these families the audit proves "
            "that no hidden count follows from what is shown of the family. It does not look at families together, "
            "or at areas off the spine; attack (f) does."
        )


class _Families:
    """The tables of a parent and its children side by side: one row for each of them, the parent first."""

    def __init__(self, shared: SharedInput, level: int) -> None:
        self._above, self._here = shared.areas[level - 1].name, shared.areas[level].name
        self._queries = shared.queries
        self._starts = np.concatenate([[0], np.cumsum([query.size for query in shared.queries])])
        self._nested = [
            (shared.queries.index(coarse), shared.queries.index(fine), answers)
            for coarse, fine, answers in nested(shared.queries)
        ]
        parents = shared.parents(level)
        self._order = np.argsort(parents, kind="stable")
        self._ends = np.searchsorted(parents[self._order], np.arange(shared.areas[level - 1].n_areas + 1))

    def children(self, parent: int) -> Integers:
        """Numbers of the children of a parent."""
        return self._order[self._ends[parent] : self._ends[parent + 1]]

    def gathered(self, tables: Mapping[TableName, NDArray[Any]], parent: int) -> NDArray[Any]:
        """The family's part of some tables, as one vector."""
        rows = [
            np.concatenate(
                [
                    tables[self._above, query.name][[parent]],
                    tables[self._here, query.name][self.children(parent)],
                ]
            )
            for query in self._queries
        ]
        return np.concatenate(rows, axis=1).ravel()

    def scatter(self, values: Bools, tables: Mapping[TableName, Bools], parent: int) -> None:
        """Write such a vector back."""
        table = values.reshape(-1, self._starts[-1])
        for query, start in zip(self._queries, self._starts.tolist(), strict=False):
            part = table[:, start : start + query.size]
            tables[self._above, query.name][parent] = part[0]
            tables[self._here, query.name][self.children(parent)] = part[1:]

    def lines(self, parent: int) -> Lines:
        """The sums in the family."""
        width = int(self._starts[-1])
        n_children = self.children(parent).size
        answers = np.arange(width)
        wholes, parts, line = (
            [answers],
            [width + np.arange(n_children * width)],
            [np.tile(answers, n_children)],
        )
        n_lines = width
        for coarse, fine, inside in self._nested:
            used = np.flatnonzero(inside >= 0)
            size = self._queries[coarse].size
            for row in range(n_children + 1):
                wholes.append(row * width + self._starts[coarse] + np.arange(size))
                parts.append(row * width + self._starts[fine] + used)
                line.append(n_lines + inside[used])
                n_lines += size
        return Lines(np.concatenate(wholes), np.concatenate(parts), np.concatenate(line))

    def price(self, counts: Integers) -> Floats:
        """Costs of hiding: large counts cost more, and the parent, whom more users need, as much as five children."""
        price = 1.0 + np.log1p(counts)
        price[: self._starts[-1]] *= 5.0
        return np.asarray(price)


@dataclass(frozen=True, slots=True, eq=False)
class _Withheld:
    """An office that answers questions about unions, and hides answers below its threshold."""

    counts: IntegerRows
    threshold: int

    def answers(self, members: Bools, cell: int) -> PublishedTable:
        """As in `Questions`."""
        counts = members.astype(np.int64) @ self.counts[:, cell]
        return PublishedTable(counts, (counts > 0) & (counts < self.threshold))

    def restricted(self, geounits: Integers) -> "_Withheld":
        """As in `Questions`."""
        return _Withheld(self.counts[geounits], self.threshold)
