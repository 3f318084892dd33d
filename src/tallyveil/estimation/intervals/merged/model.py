"""The model of one table: a flat schema of atoms, whose queries are sums of noisy answers.

The flat schema has one attribute, the atom. A measured query becomes one query of this schema for each number of terms
of its sums, because the variance of a sum is that number times the variance of one answer. Everything else is then as
for a small schema: the algebra of blocks, the sweeps, regions and intervals (`tallyveil.estimation.intervals`).

Worked case. A query with variance 2 has sums of 5, 5 and 6 answers. It becomes one query of two answers with variance
10, and one of one answer with variance 12.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Int32s
from tallyveil.estimation.intervals.block_linear import RANK_TOLERANCE
from tallyveil.estimation.intervals.merged.atoms import (
    MOST_ATOMS,
    Atoms,
    derive_atoms,
    flat_group,
    flat_layers,
)
from tallyveil.estimation.intervals.merged.sums import Sums, sums_of
from tallyveil.estimation.intervals.model import (
    LevelModel,
    TreeModel,
    Zeros,
    distinct_rows,
    model_of_levels,
)
from tallyveil.geography.spine import Spine
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

SPAN_TOLERANCE: Final = 1e-6
"""A question with weights of 0 and 1 is determined if no weight outside the span of the measured sums is larger."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is measured and published exactly, before cells are merged.

    Attributes:
        schema: The universe.
        spine: The hierarchy.
        levels: One for each geolevel, root first, with the queries that the estimate may use.
        zeros: Public zeros.
        gaussian: Whether the noise is Gaussian.
    """

    schema: Schema
    spine: Spine
    levels: Sequence[LevelModel]
    zeros: Sequence[Zeros] = ()
    gaussian: bool = True

    @property
    def queries(self) -> tuple[QueryGroup, ...]:
        """Every query that is measured or published exactly, each once."""
        every = (group for level in self.levels for group in (*level.measured, *level.invariants))
        return tuple({group.factors: group for group in every}.values())

    def atoms_of(self, asked: QueryGroup, *, most_atoms: int = MOST_ATOMS) -> Atoms:
        """The atoms of a table (`derive_atoms`)."""
        zeros = [zero.query for zero in self.zeros]
        return derive_atoms(self.schema, asked, self.queries, zeros, most_atoms=most_atoms)


@dataclass(frozen=True, slots=True, eq=False)
class MergedModel:
    """The model of one table.

    Attributes:
        atoms: The atoms.
        tree: The model of the flat schema.
        asked: The table's query, asked of the flat schema.
        measured: For each geolevel, the sums of each query that is used.
        exact: For each geolevel, the sums of each query that is published exactly.
    """

    atoms: Atoms
    tree: TreeModel
    asked: QueryGroup
    measured: tuple[tuple[Sums, ...], ...]
    exact: tuple[tuple[Sums, ...], ...]

    @property
    def determined(self) -> Bools:
        """Whether each answer of the table follows from sums that are measured, or known, at some geolevel."""
        own = {sums.query.factors: sums for level in (*self.measured, *self.exact) for sums in level}
        never = self.tree.zero_patterns.all(axis=0)
        rows = [
            np.eye(self.atoms.n)[never],
            *(_indicators(sums.codes, sums.n) for sums in own.values()),
        ]
        base = np.linalg.svd(np.concatenate(rows), full_matrices=False)
        inside = base[2][base[1] > RANK_TOLERANCE * base[1].max(initial=1.0)]
        asked = np.sum(
            [_indicators(layer.factors[0].codes, self.asked.size) for layer in self.asked.layers], axis=0
        )
        found: Bools = np.abs(asked - asked @ inside.T @ inside).max(axis=1) < SPAN_TOLERANCE
        return found


def merged_model(measured: Measured, asked: QueryGroup, atoms: Atoms) -> MergedModel:
    """The model of one table.

    Args:
        measured: What is measured and published exactly.
        asked: The table's query.
        atoms: The table's atoms, as `Measured.atoms_of` gives them.
    """
    found = {group.factors: sums_of(atoms, group) for group in measured.queries}
    flat = Schema("atoms", (Attribute("atom", tuple(str(number) for number in range(atoms.n))),))

    def sums(groups: Sequence[QueryGroup]) -> tuple[Sums, ...]:
        return tuple(found[group.factors] for group in groups if found[group.factors].n)

    return MergedModel(
        atoms,
        model_of_levels(
            flat,
            measured.spine,
            [_flat_level(level, lambda group: found[group.factors]) for level in measured.levels],
            zeros=_flat_zeros(atoms, measured.zeros),
            gaussian=measured.gaussian,
            largest_block=atoms.n,
        ),
        flat_layers(atoms, asked),
        tuple(sums(level.measured) for level in measured.levels),
        tuple(sums(level.invariants) for level in measured.levels),
    )


def _indicators(codes: Int32s, n: int) -> Floats:
    """A row for each of n groups, with 1 for its atoms."""
    found: Floats = (codes[None, :] == np.arange(n)[:, None]).astype(np.float64)
    return found


def _flat_level(level: LevelModel, sums: Callable[[QueryGroup], Sums]) -> LevelModel:
    groups, precisions = [], [np.zeros((len(level.precisions), 0))]
    for number, query in enumerate(level.measured):
        own = sums(query)
        for terms in np.unique(own.terms).tolist():
            groups.append(_group_of_terms(own, terms))
            precisions.append(level.precisions[:, number : number + 1] / terms)
    exact = tuple(_exact_group(one) for one in map(sums, level.invariants) if one.n)
    return LevelModel(level.geolevel, tuple(groups), _one_row(np.concatenate(precisions, axis=1)), exact)


def _one_row(precisions: Floats) -> Floats:
    same = len(precisions) > 1 and bool((precisions == precisions[:1]).all())
    return precisions[:1] if same else precisions


def _group_of_terms(sums: Sums, terms: int) -> QueryGroup:
    """The sums of so many terms, as a query of the flat schema."""
    inside = sums.terms == terms
    number = np.where(inside, np.cumsum(inside) - 1, -1)
    codes = np.where(sums.codes >= 0, number[sums.codes], -1)
    labels = tuple(str(place) for place in np.flatnonzero(inside).tolist())
    return flat_group(f"{sums.query.name} / {terms}", [codes.astype(np.int32)], labels)


def _exact_group(sums: Sums) -> QueryGroup:
    return flat_group(sums.query.name, [sums.codes], tuple(str(number) for number in range(sums.n)))


def _flat_zeros(atoms: Atoms, zeros: Sequence[Zeros]) -> list[Zeros]:
    """Atoms of which every cell is zero; cells that are zero in other atoms are not taken into account."""
    found = []
    cells = np.arange(atoms.n, dtype=np.int32)
    each = flat_group("atoms", [cells], tuple(str(number) for number in range(atoms.n)))
    for zero in zeros:
        rows, row = distinct_rows(zero.answers)
        empty = _empty_atoms(atoms, zero.query, rows)
        if empty.any():
            found.append(Zeros(each, zero.geolevel, empty[row]))
    return found


def _empty_atoms(atoms: Atoms, query: QueryGroup, zeros: Bools) -> Bools:
    """Whether all cells of each atom are zero, for each row of answers that are zero."""
    atom, answer = atoms.paired(query)
    counted = answer >= 0
    ones = np.ones(int(counted.sum()), np.int64), (answer[counted], atom[counted])
    meets = sparse.csr_matrix(ones, shape=(query.size, atoms.n))
    free = (~zeros).astype(np.int64) @ meets > 0
    free[:, atom[~counted]] = True
    return np.asarray(~free, np.bool_)
