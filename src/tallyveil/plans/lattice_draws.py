"""Draws of integer-subspace counts, prepared from public facts before any data is opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Invariant
from tallyveil.plans.release import ReleasePlan, SubspaceQuery
from tallyveil.schema.nested_queries import adding_up
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.noise_plan import NoisePlan

if TYPE_CHECKING:
    from tallyveil.subspace.exact.sampler import VectorSampler


@dataclass(frozen=True, slots=True, eq=False)
class SubspaceDraw:
    """A draw that was prepared without data.

    Attributes:
        item: The entry of the plan.
        number: Its position in the plan, which is also part of its noise address.
        level: Number of its geolevel.
        places: int64 [n_cells], position of each cell of the lattice in the array of geounits times answers. Answers
            that consist only of structural zeros have no cell.
        noise: Law of the noise on the lattice of the invariants on these cells.
        sampler: Exact sampler of the noise.
        expected_trials: Expected number of trials for one draw.
    """

    item: SubspaceQuery
    number: int
    level: int
    places: Integers
    noise: NoisePlan
    sampler: "VectorSampler"
    expected_trials: float


def prepare_subspace(plan: ReleasePlan, spine: Spine) -> tuple[SubspaceDraw, ...]:
    """Prepare the lattices and the samplers of a plan's integer-subspace counts, before anything is spent.

    Raises:
        ConstraintError: the invariants determine the counts, so that no noise is possible.
        SolverError: no exact sampler fits.
    """
    return tuple(_prepared(plan, spine, item, number) for number, item in enumerate(plan.subspace))


def _prepared(plan: ReleasePlan, spine: Spine, item: SubspaceQuery, number: int) -> SubspaceDraw:
    from tallyveil.subspace.exact.choose_sampler import choose_sampler  # few plans draw on a lattice

    level, group = spine.level_index(item.geolevel), plan.query(item.query)
    possible = np.flatnonzero(_reached(plan.schema, group))
    geounits = np.arange(spine.n_geounits(level), dtype=np.int64)
    places = (geounits[:, None] * group.size + possible[None, :]).ravel()
    lattice = lattice_of(_system(plan, spine, level, group, places))
    law = item.law(plan.strategy.mechanism, plan.strategy.neighbours)
    choice = choose_sampler(lattice, law)
    if choice.sampler is None or choice.sampler.total_variation:
        raise SolverError(
            f"{item.name} at {item.geolevel}: {choice.reason}. A release draws these counts only with an exact "
            "sampler. Fix fewer invariants on the query, or draw it at another geolevel. Nothing was spent.",
            code="subspace-no-sampler",
        )
    noise = NoisePlan(lattice, law, choice.name, choice.reason, choice.sampler, None, Fraction(0))
    return SubspaceDraw(item, number, level, places, noise, choice.sampler, choice.expected_trials)


def _system(
    plan: ReleasePlan, spine: Spine, level: int, group: QueryGroup, places: Integers
) -> ConstraintSystem:
    """The constraint system, with a row for every invariant answer that is a sum of the query's answers.

    The row is at the finest geolevel at which that invariant answer is exact.
    """
    rows: list[Integers] = []
    columns: list[Integers] = []
    names: list[str] = []
    for query, at in _finest(plan.invariants, spine, level).items():
        answers = adding_up(plan.schema, group, plan.query(query))
        ancestor = _ancestors(spine, level, at)
        size = plan.query(query).size
        of_place = answers[places % group.size]
        inside = np.flatnonzero(of_place >= 0)
        row = ancestor[places[inside] // group.size] * size + of_place[inside]
        used, numbered = np.unique(row, return_inverse=True)
        rows.append(numbered.reshape(-1) + len(names))
        columns.append(inside)
        labels = plan.query(query).labels()
        codes = spine.geocodes[at]
        named = [query if size == 1 else f"{query} {label}" for label in labels]
        place = spine.geolevels[at]
        names += [f"{named[r % size]} of {place} {codes[r // size]}" for r in used.tolist()]
    none = np.zeros(0, dtype=np.int64)
    where = np.concatenate([none, *rows]), np.concatenate([none, *columns])
    ones = np.ones(len(where[0]), dtype=np.int64)
    return ConstraintSystem.from_matrix(
        sp.coo_matrix((ones, where), shape=(len(names), places.size)).tocsr(), names
    )


def _finest(invariants: Sequence[Invariant], spine: Spine, level: int) -> dict[str, int]:
    """Finest geolevel, not below `level`, at which each invariant is exact. Coarser geolevels follow by summation."""
    exact_level: dict[str, int] = {}
    for item in invariants:
        at = min(level, max(spine.level_index(name) for name in item.geolevels))
        exact_level[item.query] = max(at, exact_level.get(item.query, 0))
    return exact_level


def _reached(schema: Schema, group: QueryGroup) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    cells = np.arange(schema.size, dtype=np.int64)
    answers = group.answers_of(cells[schema.possible(cells)])
    reached = np.zeros(group.size, dtype=np.bool_)
    reached[answers[answers >= 0]] = True
    return reached


def _ancestors(spine: Spine, level: int, above: int) -> Integers:
    """Number of the geounit at level `above` that contains each geounit of `level`."""
    ancestors = np.arange(spine.n_geounits(level), dtype=np.int64)
    for finer in range(level, above, -1):
        offsets = spine.child_offsets[finer - 1]
        ancestors = np.searchsorted(offsets, ancestors, side="right") - 1
    return np.asarray(ancestors, dtype=np.int64)
