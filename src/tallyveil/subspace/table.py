"""Constraints on a table of named cells: margins, sums over cells, and weighted sums."""

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.schema.schema import Schema
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import require_totals


@dataclass(frozen=True, slots=True)
class Margin:
    """A sum for each combination of levels of some attributes. Without attributes it is the total.

    Attributes:
        name: Name for messages and the guarantee.
        attributes: Names of the attributes.
    """

    name: str
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """One sum over cells.

    Attributes:
        name: Name for messages and the guarantee.
        terms: Pairs (levels by attribute, coefficient). An attribute that is not named has all levels. For a cell in
            several terms, the coefficients are added.
        total: The total that the owner of the table states; None if none is stated.
    """

    name: str
    terms: tuple[tuple[tuple[tuple[str, tuple[str, ...]], ...], float], ...]
    total: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TableConstraints:
    """Constraints on the cells of a schema.

    Attributes:
        system: The constraints.
        stated: (row, total) of the constraints whose total is stated.
    """

    system: ConstraintSystem
    stated: tuple[tuple[int, int], ...]


def constrain(schema: Schema, constraints: Sequence[Margin | WeightedSum]) -> TableConstraints:
    """The system of some constraints on the cells of a schema.

    Raises:
        ConstraintError: the table lacks an attribute or level, a coefficient is not an integer, or no table of integers
            has the stated totals.
    """
    rows: list[int] = []
    cells: list[int] = []
    values: list[float] = []
    names: list[str] = []
    stated: list[tuple[int, int]] = []
    for constraint in constraints:
        if isinstance(constraint, Margin):
            sums = _margin(schema, constraint)
        else:
            sums = [(constraint.name, _weighted(schema, constraint))]
            if constraint.total is not None:
                stated.append((len(names), constraint.total))
        for name, members in sums:
            rows += [len(names)] * len(members)
            cells += list(members)
            values += list(members.values())
            names.append(name)
    data: npt.NDArray[np.float64] | Integers = np.array(values, dtype=np.float64)
    matrix = sp.coo_matrix((data, (rows, cells)), shape=(len(names), schema.size))
    system = ConstraintSystem.from_matrix(matrix, names)
    if stated:
        require_totals(
            system.rows([row for row, _ in stated]), np.array([total for _, total in stated], dtype=np.int64)
        )
    return TableConstraints(system, tuple(stated))


def cell_labels(schema: Schema) -> tuple[dict[str, str], ...]:
    """For each cell in order, the level of every attribute."""
    levels = product(*(attribute.levels for attribute in schema.attributes))
    return tuple(dict(zip(schema.attribute_names, combination, strict=True)) for combination in levels)


def _margin(schema: Schema, margin: Margin) -> list[tuple[str, dict[int, float]]]:
    for name in margin.attributes:
        _require_attribute(schema, margin.name, name)
    axes = [axis for axis, a in enumerate(schema.attributes) if a.name in margin.attributes]
    chosen = [schema.attributes[axis].levels for axis in axes]
    grid = np.arange(schema.size).reshape(schema.shape)
    members = np.moveaxis(grid, axes, range(len(axes))).reshape(math.prod(map(len, chosen)), -1)
    labels = (f"{margin.name}: {', '.join(levels)}" if levels else margin.name for levels in product(*chosen))
    return [(label, dict.fromkeys(row, 1.0)) for label, row in zip(labels, members.tolist(), strict=True)]


def _weighted(schema: Schema, constraint: WeightedSum) -> dict[int, float]:
    members: dict[int, float] = {}
    for selection, times in constraint.terms:
        for cell in _selected(schema, constraint.name, selection):
            members[cell] = members.get(cell, 0.0) + times
    return members


def _selected(schema: Schema, where: str, selection: tuple[tuple[str, tuple[str, ...]], ...]) -> list[int]:
    wanted = {name: frozenset(levels) for name, levels in selection}
    for name, levels in selection:
        attribute = _require_attribute(schema, where, name)
        known = frozenset(attribute)
        for level in levels:
            if level not in known:
                raise _unknown(where, f"level '{level}' of '{name}'", level, attribute)
    axes = [
        [i for i, level in enumerate(a.levels) if a.name not in wanted or level in wanted[a.name]]
        for a in schema.attributes
    ]
    grids = np.meshgrid(*axes, indexing="ij")
    sizes = tuple(len(a.levels) for a in schema.attributes)
    return [int(cell) for cell in np.ravel_multi_index(tuple(g.ravel() for g in grids), sizes)]


def _require_attribute(schema: Schema, where: str, name: str) -> tuple[str, ...]:
    """The attribute's levels."""
    for attribute in schema.attributes:
        if attribute.name == name:
            return attribute.levels
    raise _unknown(where, f"attribute '{name}'", name, schema.attribute_names)


def _unknown(where: str, what: str, got: str, known: Sequence[str]) -> ConstraintError:
    close = difflib.get_close_matches(got, known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return ConstraintError(
        f"Constraint '{where}': the table has no {what}; there are {shown}.{hint} Correct the name, or the list of "
        "cells.",
        code="subspace-unknown-cell",
    )
