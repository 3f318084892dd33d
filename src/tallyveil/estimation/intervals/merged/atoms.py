"""Atoms of a table: sets of possible cells that neither the table nor its estimate divides.

Problem. A schema has a million cells, and a table has a hundred answers. Least squares over all cells is out of reach.

Steps. For every attribute, the levels that the table treats alike are merged. The atoms are the combinations of merged
levels that have a possible cell. They are divided further by the groups of measured queries, the smallest query first,
as long as there are few atoms. The more atoms, the more of the measurements' information is used.

An attribute is *even* if every query either sums it or asks for it level by level, and no zero names it. Exchanging two
levels that the table merges then changes nothing in the problem. So the estimate of the table depends only on sums over
such levels, and dividing them would use no further information.

Worked case. A table asks for sex. Queries measure sex by age, and the age groups young and old by race. Race is even,
and the table sums it. So the atoms are sex by young and old: 4 atoms, whatever the number of races.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Int32s, Integers
from tallyveil.schema.nested_queries import first_levels
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

MOST_ATOMS: Final = 64
"""The queries divide atoms as long as there are at most this many. A table may have more answers by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """A partition of the possible cells of a schema, the same in every geounit.

    Attributes:
        schema: The universe.
        group: A query in one answer of which every cell counts.
        answers: The answers with a possible cell, ascending. These are the atoms.
    """

    schema: Schema
    group: QueryGroup
    answers: Integers

    @property
    def n(self) -> int:
        """Number of atoms."""
        return len(self.answers)

    def codes_of(self, layer: QueryGroup) -> Int32s:
        """For each atom, the answer of a query in which all of its cells count, or -1 if its cells count in none.

        Args:
            layer: A query without overlapping groups that does not divide atoms.
        """
        place = np.unravel_index(self.answers, self.group.shape)
        found = np.zeros(self.n, np.int64)
        left_out = np.zeros(self.n, np.bool_)
        for own, merged, factor in zip(place, self.group.factors, layer.factors, strict=True):
            level = first_levels(merged)[own]
            groups = factor.codes[level]
            left_out |= groups < 0
            found = found * factor.size + groups
        return np.where(left_out, -1, found).astype(np.int32)

    def paired(self, layer: QueryGroup) -> tuple[Integers, Integers]:
        """All pairs of an atom and an answer of a query that have a possible cell in common.

        Args:
            layer: A query without overlapping groups.
        Returns:
            The atom of each pair, and the answer; -1 for cells that the query leaves out.
        """
        factors, pairs = [], []
        for merged, factor in zip(self.group.factors, layer.factors, strict=True):
            both = np.stack([merged.codes, factor.codes], axis=1)
            distinct, codes = np.unique(both, axis=0, return_inverse=True)
            factors.append(_factor(merged.attribute, codes.reshape(-1)))
            pairs.append(distinct.astype(np.int64))
        finer = QueryGroup("pairs", tuple(factors))
        found = np.unravel_index(self.schema.possible_answers(finer), finer.shape)
        atoms, answers = np.zeros(len(found[0]), np.int64), np.zeros(len(found[0]), np.int64)
        left_out = np.zeros(len(atoms), np.bool_)
        shapes = self.group.shape, layer.shape
        for own, pair, n_merged, n_groups in zip(found, pairs, *shapes, strict=True):
            atoms = atoms * n_merged + pair[own, 0]
            groups = pair[own, 1]
            left_out |= groups < 0
            answers = answers * n_groups + groups
        return np.searchsorted(self.answers, atoms), np.where(left_out, -1, answers)


def derive_atoms(
    schema: Schema,
    asked: QueryGroup,
    queries: Iterable[QueryGroup],
    zeros: Sequence[QueryGroup] = (),
    *,
    most_atoms: int = MOST_ATOMS,
) -> Atoms:
    """The atoms of a table.

    Args:
        schema: The universe.
        asked: The table's query. Its groups may overlap.
        queries: Every query that is measured or published exactly; layers of those whose groups overlap.
        zeros: Queries of public zeros.
        most_atoms: Queries divide atoms as long as there are at most this many.
    """
    by_size = sorted(queries, key=lambda group: (group.size, group.name))
    even = _even(schema, by_size, zeros)
    codes: list[Int32s] = [_refined(factor.layers) for factor in asked.factors]
    atoms = _atoms(schema, codes)
    largest = max(most_atoms, atoms.n)
    for query in (*zeros, *by_size):
        finer = [
            own if is_even else _refined((own, *factor.layers))
            for own, factor, is_even in zip(codes, query.factors, even, strict=True)
        ]
        divided = _atoms(schema, finer)
        if divided.n <= largest:
            codes, atoms = finer, divided
    return atoms


def _even(schema: Schema, queries: Sequence[QueryGroup], zeros: Sequence[QueryGroup]) -> list[bool]:
    """Whether each attribute is even."""
    named = {axis for zero in schema.barred_levels() for axis in zero}
    for group in zeros:
        named |= {axis for axis, factor in enumerate(group.factors) if not factor.is_sum}
    return [
        axis not in named
        and all(query.factors[axis].is_sum or query.factors[axis].is_identity for query in queries)
        for axis in range(len(schema.attributes))
    ]


def _refined(layers: Sequence[NDArray[np.integer]]) -> Int32s:
    """The number of each level's set. Levels are in one set if every layer puts them into the same group, or none."""
    table = np.stack(layers, axis=1)
    found: Int32s = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    return found


def _atoms(schema: Schema, codes: Sequence[Int32s]) -> Atoms:
    factors = (_factor(item.name, own) for item, own in zip(schema.attributes, codes, strict=True))
    group = QueryGroup("atoms", tuple(factors))
    return Atoms(schema, group, schema.possible_answers(group))


def _factor(attribute: str, codes: NDArray[np.integer]) -> Factor:
    groups = codes.astype(np.int32)
    groups.flags.writeable = False
    return Factor(
        attribute, attribute, (groups,), tuple(str(number) for number in range(int(groups.max()) + 1))
    )


def flat_group(name: str, layers: Sequence[Int32s], labels: tuple[str, ...]) -> QueryGroup:
    """A query of the flat schema whose only attribute is the atom.

    Args:
        name: Its name.
        layers: For each layer, the answer of each atom, or -1.
        labels: Labels of the answers.
    """
    kept = tuple(np.ascontiguousarray(layer, np.int32) for layer in layers)
    for layer in kept:
        layer.flags.writeable = False
    return QueryGroup(name, (Factor("atom", "atom", kept, labels),))


def flat_layers(atoms: Atoms, asked: QueryGroup) -> QueryGroup:
    """A query that does not divide atoms, asked of the flat schema; its answers keep their numbers."""
    labels = tuple(str(answer) for answer in range(asked.size))
    layers = [atoms.codes_of(layer) for layer in asked.layers]
    return flat_group(asked.name, layers, labels)
