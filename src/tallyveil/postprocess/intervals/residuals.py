"""How noisy answers lie around the joint estimate of all measurements, in units of what is expected.

The estimate by generalised least squares uses every measurement, so each noisy answer y has a residual y - x against
the estimate x of the same count. If the noise has the variance v that the measurements state, and geocodes, cells and
exact counts are those that they state, residuals have mean 0. The estimate is the best linear one and therefore not
correlated with them (Gauss and Markov), so that their covariance matrix is V - C, with V the variances of the noise
and C the covariance matrix of the estimates. The sum of (y - x)^2 / v over some answers has then the mean D, the sum of
1 - Var(x) / v: the degrees of freedom that are left.

The eigenvalues of V^(-1/2) (V - C) V^(-1/2) lie between 0 and 1 and add up to D, so the sum of their squares is at most
D. With normal noise, the sum of squares exceeds D by more than 2 sqrt(D t) + 2 t, or falls short of it by more than
2 sqrt(D t), each with a probability of at most exp(-t) (Laurent and Massart 2000, Lemma 1).

A sum beyond these limits says that something is not as stated: cells in another order, a geounit under the wrong
geocode, an exact count that is not the true one, noise of another variance. So this is a check of files that others
published, and of what was done with them. It is post-processing of noisy measurements, and costs no budget.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals.answers import LevelAnswers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import KeptRows, StoredRows, fit_tree
from tallyveil.estimation.intervals.model import TreeModel, model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.postprocess.constraints import zeros_of
from tallyveil.postprocess.intervals.model import refuse_tables_apart
from tallyveil.postprocess.measured import Measured
from tallyveil.schema.query_group import QueryGroup

LIMIT: Final = math.log(1e6)
"""t of the limits: each is passed by chance once in a million times. For the largest of many sums, the logarithm of
their number is added."""


@dataclass(frozen=True, slots=True)
class Worst:
    """Where the residuals of a query are larger than anywhere else.

    Attributes:
        place: A geocode, or the labels of a cell.
        ratio: Sum of the squared residuals there, divided by what is expected.
        highest: Limit of this ratio, which is the largest of many.
    """

    place: str
    ratio: float
    highest: float


@dataclass(frozen=True, slots=True)
class QueryResiduals:
    """The residuals of one query at one geolevel.

    Attributes:
        geolevel, query: What was measured.
        degrees: What is expected of the sum of squared residuals, each divided by the variance of its noise.
        ratio: This sum divided by what is expected: about 1.
        lowest, highest: Limits of the ratio.
        cell, geounit: Where the residuals are largest.
    """

    geolevel: str
    query: str
    degrees: float
    ratio: float
    lowest: float
    highest: float
    cell: Worst
    geounit: Worst

    @property
    def is_as_stated(self) -> bool:
        """Whether the residuals are as small and as large as chance allows, in all and everywhere."""
        inside = self.lowest <= self.ratio <= self.highest
        return inside and all(worst.ratio <= worst.highest for worst in (self.cell, self.geounit))

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "as_stated": self.is_as_stated}

    def __str__(self) -> str:
        worst = (
            f"{self.cell.place} has {self.cell.ratio:.3g} (at most {self.cell.highest:.3g}) and geounit "
            f"{self.geounit.place} {self.geounit.ratio:.3g} (at most {self.geounit.highest:.3g})"
        )
        return (
            f"{self.query} at {self.geolevel}: the squared residuals are {self.ratio:.3g} times what the variances say "
            f"({self.lowest:.3g} to {self.highest:.3g} by chance); {worst}"
        )


def residuals_of(measured: Measured, workers: int = 1) -> list[QueryResiduals]:
    """The residuals of every query at every geolevel.

    Exact counts that are sums of siblings, and counts drawn on a lattice, are not used: without them the estimate is
    less exact, and its variance is as it is said here.

    Args:
        measured: Noisy measurements, opened.
        workers: Number of threads. The numbers do not depend on it.
    Raises:
        ConfigError: the schema is too large for one model of all cells.
        SchemaError, ConstraintError: the covariances would be too large, or exact counts contradict each other.
        StoreError: measurements are missing or damaged.
    """
    model, exact = _model(measured)
    rows = KeptRows(StoredRows(measured.root, model))
    estimate = fit_tree(tree_covariance(model, workers=workers), rows, exact, workers=workers)
    residuals = []
    for number, level in enumerate(model.levels):
        groups = list(dict.fromkeys(level.measured))
        if not groups:
            continue
        tallies = [_Tally.of(model, number, group) for group in groups]
        answers = LevelAnswers.of(estimate, number, questions_of(model.algebra, tuple(groups)))
        for start, stop, part in answers.stream(workers=workers):
            noisy = rows.rows(number, groups, start, stop).astype(np.float64)
            precisions = level.precisions_of(np.arange(start, stop))
            at = 0
            for group, tally in zip(groups, tallies, strict=True):
                columns = slice(at, at := at + group.size)
                precision = precisions[:, level.measured.index(group), None]
                residual = noisy[:, columns] - part.estimates[:, columns]
                tally.add(start, residual, precision, part.variances[:, columns])
        codes = measured.hierarchies.spine.geocodes[number].text
        residuals += [
            tally.residuals(level.geolevel, codes)
            for tally in tallies
            # Where no other measurement says anything about a query, nothing is left that could be compared.
            if tally.expected_by_cell.sum() > _LITTLE
        ]
    return residuals


def _model(measured: Measured) -> tuple[TreeModel, dict[str, Integers]]:
    """The model of the measurements, and the exact counts that it uses."""
    plan, spine = measured.plan, measured.hierarchies.spine
    refuse_tables_apart(plan)
    if plan.strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise ConfigError(
            f"{measured.root} has Laplace noise, and the limits of the sums of its squares are not known here. Only "
            "measurements with Gaussian noise can be checked.",
            code="interval-noise",
        )
    tables = [table for table in measured.constraints if table.is_exact and table.of_geounits >= 0]
    by_level: dict[int, list[int]] = {}
    for number, table in enumerate(tables):
        by_level.setdefault(table.of_geounits, []).append(number)
    named = {
        spine.geolevels[level]: [tables[number].query.name for number in numbers]
        for level, numbers in by_level.items()
    }
    model = model_of_strategy(
        plan.schema,
        spine,
        plan.strategy_in_passes,
        shares=measured.hierarchies.shares,
        invariants=named,
        zeros=[zeros_of(table, spine) for table in measured.constraints if not table.is_exact],
    )
    exact = {
        spine.geolevels[level]: np.concatenate(
            [tables[number].bounds_of(level, 0, spine.n_geounits(level))[0] for number in numbers], axis=1
        )
        for level, numbers in by_level.items()
    }
    return model, exact


_LITTLE: Final = 1e-6
"""Degrees of freedom below which there are none: what is left is a rounding error."""


@dataclass(slots=True)
class _Tally:
    """Sums of squared residuals of one query at one geolevel, and what is expected of them, by geounit and by cell."""

    group: QueryGroup
    by_geounit: Floats
    expected_by_geounit: Floats
    by_cell: Floats
    expected_by_cell: Floats

    @classmethod
    def of(cls, model: TreeModel, level: int, group: QueryGroup) -> "_Tally":
        """Nothing yet."""
        n = model.spine.n_geounits(level)
        return cls(group, np.zeros(n), np.zeros(n), np.zeros(group.size), np.zeros(group.size))

    def add(self, start: int, residual: Floats, precision: Floats, of_estimate: Floats) -> None:
        """Add the residuals of the geounits from `start` on; `precision` is 1 / variance, and 0 if unmeasured."""
        # What no measurement determines has an infinite variance, and no residual.
        counted = (precision > 0) & np.isfinite(of_estimate)
        squares = np.where(counted, residual**2 * precision, 0.0)
        # An estimate is never less exact than the answer itself, but for rounding.
        expected = np.where(counted, np.maximum(1.0 - of_estimate * precision, 0.0), 0.0)
        geounits = slice(start, start + len(residual))
        self.by_geounit[geounits] += squares.sum(axis=1)
        self.expected_by_geounit[geounits] += expected.sum(axis=1)
        self.by_cell += squares.sum(axis=0)
        self.expected_by_cell += expected.sum(axis=0)

    def residuals(self, geolevel: str, codes: pl.Series) -> QueryResiduals:
        """What the sums say."""
        degrees = self.expected_by_cell.sum()
        cell = _worst(self.by_cell, self.expected_by_cell)
        geounit = _worst(self.by_geounit, self.expected_by_geounit)
        labels = self.group.labels()
        return QueryResiduals(
            geolevel,
            self.group.name,
            float(degrees),
            float(self.by_cell.sum() / degrees),
            max(0.0, 1 - 2 * math.sqrt(LIMIT / degrees)),
            float(_highest(degrees, LIMIT)),
            Worst(labels[cell.place], cell.ratio, cell.highest),
            Worst(str(codes[geounit.place]), geounit.ratio, geounit.highest),
        )


def _highest(degrees: Any, t: float) -> Any:
    """Limit of a ratio with so many degrees of freedom."""
    return 1 + 2 * np.sqrt(t / degrees) + 2 * t / degrees


class _Place(NamedTuple):
    """The place of the worst sum, its ratio and its limit."""

    place: int
    ratio: float
    highest: float


def _worst(sums: Floats, expected: Floats) -> _Place:
    """The sum that is largest in the unit of its limit."""
    degrees = np.maximum(expected, _LITTLE)
    highest = _highest(degrees, LIMIT + math.log(len(sums)))
    ratios = sums / degrees
    place = int(np.argmax(ratios / highest))
    return _Place(place, float(ratios[place]), float(highest[place]))
