"""Controlled rounding: every count to a multiple of a base, such that all sums still hold.

*Program*, for a parent and its children with all their tables. Each count is base times a whole number, the multiple
below it or the one above; steps beyond these cost ten bases each, so that they are taken only where nothing else fits.
The parent's counts are those that the family above has given it. Every sum must hold. The cost is the sum of the
absolute differences from the truth.

Source: Cox 1987; Salazar-Gonzalez 2006.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import highspy
import numpy as np
from pydantic import Field
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.compare.inputs import TableName
from tallyveil.compare.methods.method import CERTAIN, Method, Office
from tallyveil.compare.published import Limits, Published, PublishedTable, SummedQuestions, observed_law
from tallyveil.compare.relations import NO_LIMIT, Families, Lines
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import linear_program, quiet_solver

BEYOND: Final = 10.0
"""Cost of a step beyond the two multiples beside a count, in bases. At 1 a step would be taken to save a difference
elsewhere; at a hundred the solver's tolerances begin to matter."""

FREE: Final = -1
"""Stands for a count that the program chooses."""


class ControlledRounding(Method):
    """Controlled rounding: all counts are multiples of a base and add up, in every family of the spine.

    Tables of entities off the spine are sums of the rounded finest geounits, whose errors add up there.
    """

    family: ClassVar[str] = "rounding"
    literature: ClassVar[str] = "Cox 1987; Salazar-Gonzalez 2006; Hundepool et al. 2012, chapter 5"
    cannot: ClassVar[str] = (
        "A rounded count excludes all but a few true ones. Sums over many small areas, such as those "
        "of entities, can be far off."
    )
    strength: ClassVar[str] = (
        "Tables add up, errors of areas on the spine stay below the base, and multiples are exact."
    )
    unbounded: ClassVar[str] = CERTAIN
    random: ClassVar[bool] = False

    kind: Literal["controlled_rounding"] = "controlled_rounding"
    base: int = Field(ge=2, le=1000, description="Counts are published as multiples of this number.")
    seconds: int = Field(default=2, ge=1, le=3600, description="Time limit of each integer program.")

    def publish(self, office: Office) -> Published:
        """As in `Method`.

        Raises:
            SolverError: a program found nothing in its time.
        """
        shared = office.shared
        tables = {name: np.full_like(true, FREE) for name, true in shared.truth.items()}
        beyond = 0
        for level in range(1, shared.n_geolevels):
            families = Families(shared, level)
            for parent in range(shared.areas[level - 1].n_areas):
                counts = families.gathered(shared.truth, parent)
                given = families.gathered(tables, parent)
                rounded = self._rounded(counts, given, families.lines(parent))
                families.scatter(rounded, tables, parent)
                beyond += int((np.abs(rounded - counts) >= self.base).sum())
        finest = self._finest(tables, office)
        published: dict[TableName, PublishedTable] = {}
        geolevels = {areas.name for areas in shared.geolevels}
        sums = shared.tables_of(finest)
        for name in shared.truth:
            published[name] = PublishedTable(tables[name] if name[0] in geolevels else sums[name])
        bases = {
            name: int(np.abs(tables[name] - true).max(initial=0)) // self.base + 1
            for name, true in shared.truth.items()
            if name[0] in geolevels
        }
        return Published(
            published,
            observed_law(shared, published),
            SummedQuestions(finest),
            limits=Limits(shared, published, _WithinBases(self.base, bases)),
            notes=(f"{beyond:,} counts are a base or more from the truth, because no nearer ones add up.",),
        )

    def _finest(self, tables: dict[TableName, Integers], office: Office) -> Integers:
        """The rounded cells of the finest geounits; zeros where no published query tells the cells apart."""
        shared = office.shared
        if shared.detailed is None:
            return np.zeros_like(shared.counts)
        answers = shared.detailed.answers_of(np.arange(shared.schema.size))
        return tables[shared.finest.name, shared.detailed.name][:, answers]

    def _rounded(self, counts: Integers, given: Integers, lines: Lines) -> Integers:
        """Multiples of the base for one family; counts that are given stay."""
        n_counts = counts.size
        below = counts // self.base
        above = below + (counts % self.base > 0)
        fixed = given != FREE
        lower, upper = (
            np.where(fixed, given // self.base, limit).astype(np.float64) for limit in (below, above)
        )
        # Between the two multiples the difference is linear: what a step up costs, or saves.
        step = np.where(fixed, 0, np.abs(above * self.base - counts) - np.abs(below * self.base - counts))
        sums = lines.matrix(n_counts, whole=-1.0)
        # Steps up and down beyond the two; no count falls below zero.
        beyond = np.where(fixed, 0.0, highspy.kHighsInf)
        program = linear_program(
            np.concatenate([step, np.full(2 * n_counts, BEYOND * self.base)]).astype(np.float64),
            (
                np.concatenate([lower, np.zeros(2 * n_counts)]),
                np.concatenate([upper, beyond, np.where(fixed, 0.0, below)]),
            ),
            (np.zeros(lines.n_lines), np.zeros(lines.n_lines)),
            sparse.csc_matrix(sparse.hstack([sums, sums, -sums])),
        )
        program.integrality_ = [highspy.HighsVarType.kInteger] * (3 * n_counts)
        solver = quiet_solver()
        solver.setOptionValue("time_limit", float(self.seconds))
        solver.setOptionValue("mip_rel_gap", 0.01)
        solver.passModel(program)
        solver.run()
        values = np.rint(np.asarray(solver.getSolution().col_value)).astype(np.int64)
        multiples = (
            values[:n_counts] + values[n_counts : 2 * n_counts] - values[2 * n_counts :]
            if values.size
            else None
        )
        if (
            multiples is None
            or (
                np.bincount(lines.line, multiples[lines.parts], lines.n_lines) != multiples[lines.wholes]
            ).any()
        ):
            raise SolverError(
                f"controlled rounding to {self.base} found no table in {self.seconds} s. Raise seconds of the method "
                f"'{self.name}'.",
            )
        return np.asarray(multiples * self.base)


@dataclass(frozen=True, slots=True, eq=False)
class _WithinBases:
    """Every count of the spine is less than some bases from the truth: by one, where all sums allow it.

    The attacker is granted the number of each table, which the office knows. Of entities off the spine nothing is said.

    Attributes:
        base: Counts are multiples of it.
        bases: By table of the spine, the least number of bases that is above all errors.
    """

    base: int
    bases: Mapping[TableName, int]

    def limits(self, name: TableName, published: PublishedTable) -> tuple[Floats, Floats]:
        """As in `Support`."""
        counts = published.counts.astype(np.float64)
        if name not in self.bases:
            return np.zeros(counts.shape), np.full(counts.shape, NO_LIMIT)
        most = self.bases[name] * self.base - 1
        return np.maximum(counts - most, 0), counts + most
