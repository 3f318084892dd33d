"""Exact standard deviations of the unbiased estimates for geounits and entities, before any data is opened."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.estimation.intervals.answers import level_variances, region_variances
from tallyveil.estimation.intervals.covariance import TreeCovariance, tree_covariance
from tallyveil.estimation.intervals.questions import Questions
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.intervals.fits import planned_fits
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.system import usable_cores


@dataclass(frozen=True, slots=True, eq=False)
class AreaDeviations:
    """Standard deviations of one query over the geounits of a geolevel, or the entities of a family.

    Attributes:
        area: The geolevel or the family.
        is_entity: Whether the area is a family of entities.
        query: The query.
        labels: Labels of the query's answers.
        codes: Names of the geounits or entities.
        n_finest: Number of finest geounits of each; shape (n,).
        deviations: Standard deviations in persons; infinite if the measurements will not determine an answer; shape
            (n, answers).
    """

    area: str
    is_entity: bool
    query: str
    labels: tuple[str, ...]
    codes: tuple[str, ...]
    n_finest: NDArray[np.int64]
    deviations: NDArray[np.float64]

    @property
    def largest(self) -> NDArray[np.float64]:
        """Largest standard deviation of any answer, for each geounit or entity."""
        largest: NDArray[np.float64] = self.deviations.max(axis=1)
        return largest

    def summary(self) -> dict[str, Any]:
        """Plain data: smallest, median and largest standard deviation; None for those that are not determined."""
        # Infinite ones sort last, so the largest is None where any answer is not determined.
        values = np.sort(self.deviations, axis=None)
        chosen = {"smallest": values[0], "median": values[len(values) // 2], "largest": values[-1]}
        known = {name: float(value) if np.isfinite(value) else None for name, value in chosen.items()}
        return {
            "area": self.area,
            "is_entity": self.is_entity,
            "query": self.query,
            "n": len(self.codes),
            **known,
        }

    def entries(self) -> Iterator[dict[str, Any]]:
        """Plain data: one entry for each geounit or entity, with a standard deviation or None for each answer."""
        for code, n_finest, row in zip(self.codes, self.n_finest, self.deviations, strict=True):
            values = [float(value) if np.isfinite(value) else None for value in row]
            yield {
                "area": self.area,
                "code": code,
                "finest_geounits": int(n_finest),
                "query": self.query,
                "standard_deviations": dict(zip(self.labels, values, strict=True)),
            }


def deviations_record(deviations: Sequence[AreaDeviations]) -> dict[str, Any]:
    """Standard deviations as plain data: a summary of each area, and a value for every entity and answer."""
    return {
        "summaries": [item.summary() for item in deviations],
        "entities": [entry for item in deviations if item.is_entity for entry in item.entries()],
    }


def expected_deviations(
    plan: ReleasePlan,
    hierarchies: Hierarchies,
    families: Sequence[EntityFamily],
    *,
    queries: Sequence[str] | None = None,
    workers: int | None = None,
) -> list[AreaDeviations]:
    """Standard deviations of the unbiased estimates of all counts of a plan.

    Args:
        plan: The plan. Its public bounds are opened; its records are not.
        hierarchies: Its spine and the areas off the spine.
        families: Families of entities on that spine.
        queries: Queries, measured or not; None for the plan's tables.
        workers: Number of threads; None for one per core.
    Returns:
        One entry for each geolevel or family and each query. Geolevels of the original geography come first, by their
        number of geounits.
    Raises:
        ConstraintError, SchemaError: bounds or queries do not fit the plan.
    """
    groups = [plan.query(name) for name in dict.fromkeys(queries or plan.tables)]
    threads = workers or usable_cores()
    deviations: list[AreaDeviations] = []
    for fit in planned_fits(plan, hierarchies, groups):
        covariance = tree_covariance(fit.model, workers=threads)
        for group, questions in fit.asked:
            deviations += _of_table(covariance, hierarchies, families, group, questions, threads)
    order = list(dict.fromkeys(entry.area for entry in deviations))
    # Stable: tables of an area stay in the order in which they were asked for.
    deviations.sort(key=lambda item: order.index(item.area))
    levels = [item for item in deviations if not item.is_entity]
    return sorted(levels, key=lambda item: len(item.codes)) + [item for item in deviations if item.is_entity]


def _of_table(
    covariance: TreeCovariance,
    hierarchies: Hierarchies,
    families: Sequence[EntityFamily],
    group: QueryGroup,
    questions: Questions,
    workers: int,
) -> Iterator[AreaDeviations]:
    """Standard deviations of one query, by area."""
    spine, labels = hierarchies.spine, tuple(group.labels())
    for level in hierarchies.known_levels:
        sizes, codes = np.diff(spine.finest_offsets(level)), tuple(spine.geocodes[level])
        # The model may have geolevels of sums besides those of the spine, so numbers differ.
        place = covariance.model.spine.level_index(spine.geolevels[level])
        errors = np.sqrt(level_variances(covariance, place, questions))
        yield AreaDeviations(spine.geolevels[level], False, group.name, labels, codes, sizes, errors)
    for family, is_entity in (
        *((family, False) for family in hierarchies.replaced),
        *((family, True) for family in families),
    ):
        regions = [region_of(spine, family.members_of(entity)) for entity in range(family.n_entities)]
        errors = np.sqrt(region_variances(covariance, regions, questions, workers=workers))
        yield AreaDeviations(family.name, is_entity, group.name, labels, family.codes, family.sizes, errors)
