"""The model of one table: a flat schema of atoms, whose queries are sums of noisy answers.

A schema has a million cells, and a table a hundred answers, so least squares over all cells is out of reach. The flat
schema has one attribute, the atom. A measured query becomes one query of this schema for each number of terms of its
sums, because the variance of a sum is that number times the variance of one answer: a query with variance 2 and sums
of 5, 5 and 6 answers becomes one query of two answers with variance 10 and one of one answer with variance 12.
Everything else is as for a small schema (`tallyveil.estimation.intervals`).

*Atoms* are sets of possible cells that neither the table nor its estimate divides. For every attribute, the levels
that the table treats alike are merged. The atoms are the combinations of merged levels that have a possible cell. They
are divided further by the groups of measured queries, the smallest query first, as long as there are few atoms: the
more atoms, the more of the measurements' information is used. An attribute is *even* if every query either sums it or
asks for it level by level, and no zero names it. Exchanging two levels that the table merges then changes nothing, so
dividing them would use no further information. Worked case: a table asks for sex; queries measure sex by age, and the
age groups young and old by race. Race is even, and the table sums it. So there are 4 atoms, sex by young and old,
whatever the number of races.

*Sums* of a query's noisy answers are the finest groups of answers whose cells are together some whole atoms. Atoms and
answers with a possible cell in common are joined, and a group is a connected component. Cells that the query leaves
out join their atoms to nothing that is measured, so a component with such cells is not used. Answers without a
possible cell are noise around zero and belong to no group. Worked case: the atoms are ages 0 to 4, 5 to 17, and 18 or
older; a query counts single years 0 to 9 and, together, 10 or older. Its answers 0 to 4 are one group. Its other
answers are one group of 6, which is two atoms.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Int32s, Integers, Numbers
from tallyveil.estimation.intervals.algebra import RANK_TOLERANCE
from tallyveil.estimation.intervals.fit import AnswerRows, narrowed
from tallyveil.estimation.intervals.model import (
    LevelModel,
    TreeModel,
    Zeros,
    distinct_rows,
    model_of_levels,
)
from tallyveil.geography.spine import Spine
from tallyveil.schema.attribute import Attribute
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
        answers = np.zeros(self.n, np.int64)
        left_out = np.zeros(self.n, np.bool_)
        for numbers, merged, factor in zip(place, self.group.factors, layer.factors, strict=True):
            level = first_levels(merged)[numbers]
            groups = factor.codes[level]
            left_out |= groups < 0
            answers = answers * factor.size + groups
        return np.where(left_out, -1, answers).astype(np.int32)

    def paired(self, layer: QueryGroup) -> tuple[Integers, Integers]:
        """All pairs of an atom and an answer of a query that have a possible cell in common.

        Args:
            layer: A query without overlapping groups.
        Returns:
            The atom of each pair, and the answer; -1 for cells that the query leaves out.
        """
        factors, pairs = [], []
        for merged, factor in zip(self.group.factors, layer.factors, strict=True):
            # Attribute by attribute: pairs of groups with a common level. Their products have the common cells.
            both = np.stack([merged.codes, factor.codes], axis=1)
            distinct, codes = np.unique(both, axis=0, return_inverse=True)
            factors.append(_factor(merged.attribute, codes.reshape(-1)))
            pairs.append(distinct.astype(np.int64))
        # A product of pairs counts only if a possible cell lies in it, which the schema tells for a query.
        finer = QueryGroup("pairs", tuple(factors))
        places = np.unravel_index(self.schema.possible_answers(finer), finer.shape)
        atoms, answers = np.zeros(len(places[0]), np.int64), np.zeros(len(places[0]), np.int64)
        left_out = np.zeros(len(atoms), np.bool_)
        shapes = self.group.shape, layer.shape
        for numbers, pair, n_merged, n_groups in zip(places, pairs, *shapes, strict=True):
            atoms = atoms * n_merged + pair[numbers, 0]
            groups = pair[numbers, 1]
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
    # The name breaks ties, so that the order of the plan does not change estimates.
    by_size = sorted(queries, key=lambda group: (group.size, group.name))
    even = _even(schema, by_size, zeros)
    codes: list[Int32s] = [_refined(factor.layers) for factor in asked.factors]
    atoms = _atoms(schema, codes)
    largest = max(most_atoms, atoms.n)
    for query in (*zeros, *by_size):
        finer = [
            attribute_codes if is_even else _refined((attribute_codes, *factor.layers))
            for attribute_codes, factor, is_even in zip(codes, query.factors, even, strict=True)
        ]
        divided = _atoms(schema, finer)
        # A query that would make too many atoms is skipped; a later one may still fit.
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
    numbers: Int32s = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    return numbers


def _atoms(schema: Schema, codes: Sequence[Int32s]) -> Atoms:
    factors = (
        _factor(item.name, attribute_codes)
        for item, attribute_codes in zip(schema.attributes, codes, strict=True)
    )
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
    frozen = tuple(np.ascontiguousarray(layer, np.int32) for layer in layers)
    # Query groups are compared and hashed, so that their arrays may not change.
    for layer in frozen:
        layer.flags.writeable = False
    return QueryGroup(name, (Factor("atom", "atom", frozen, labels),))


def flat_layers(atoms: Atoms, asked: QueryGroup) -> QueryGroup:
    """A query that does not divide atoms, asked of the flat schema; its answers keep their numbers."""
    labels = tuple(str(answer) for answer in range(asked.size))
    layers = [atoms.codes_of(layer) for layer in asked.layers]
    return flat_group(asked.name, layers, labels)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSums:
    """The groups of one query. The noise of a sum of m answers has m times the variance of one answer.

    Attributes:
        query: The query; one layer if its groups overlap.
        codes: For each atom, its sum; -1 for none; shape (n_atoms,).
        answers: The answers that belong to a sum, sum after sum.
        begin: The answers of sum s are `answers[begin[s]:begin[s + 1]]`.
    """

    query: QueryGroup
    codes: Int32s
    answers: Integers
    begin: Integers

    @property
    def n(self) -> int:
        """Number of sums."""
        return len(self.begin) - 1

    @property
    def terms(self) -> Integers:
        """Number of answers in each sum."""
        return np.diff(self.begin)

    def apply(self, values: Numbers) -> Integers:
        """Sums of rows of answers; shape (n_rows, n)."""
        if not self.n:
            return np.zeros((len(values), 0), np.int64)
        sums: Integers = np.add.reduceat(values[:, self.answers], self.begin[:-1], axis=1, dtype=np.int64)
        return sums


def sums_of(atoms: Atoms, query: QueryGroup) -> AnswerSums:
    """The finest sums of a query's answers that are sums of atoms.

    Args:
        atoms: The atoms.
        query: A query without overlapping groups, or a layer.
    """
    from scipy.sparse.csgraph import connected_components  # here, since most runs make no intervals

    atom, answer = atoms.paired(query)
    counted, place = np.unique(answer, return_inverse=True)
    # A bipartite graph: atoms first, then answers.
    edges = np.ones(len(atom), np.int8), (atom, atoms.n + place.reshape(-1))
    size = atoms.n + len(counted)
    _, component = connected_components(sparse.coo_matrix(edges, shape=(size, size)), directed=False)
    # Answers are sorted, so that -1, which stands for cells left out, is the first if it is there.
    unusable = component[atoms.n] if counted[0] < 0 else -1
    of_atom, of_answer = component[: atoms.n], component[atoms.n :]
    usable = np.unique(of_atom[of_atom != unusable])
    number = np.full(int(component.max()) + 1, -1, np.int32)
    number[usable] = np.arange(len(usable))
    sums = number[of_answer]
    # Stable, so that answers keep their order inside a sum; those without a sum (-1) come first and are cut off.
    order = np.argsort(sums, kind="stable")[int((sums < 0).sum()) :]
    begin = np.concatenate([[0], np.cumsum(np.bincount(sums[sums >= 0], minlength=len(usable)))])
    return AnswerSums(query, number[of_atom], counted[order], begin.astype(np.int64))


SPAN_TOLERANCE: Final = 1e-6
"""A question with weights of 0 and 1 is determined if no weight outside the span of the measured sums is larger."""


@dataclass(frozen=True, slots=True, eq=False)
class UnmergedModel:
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
    measured: tuple[tuple[AnswerSums, ...], ...]
    exact: tuple[tuple[AnswerSums, ...], ...]

    @property
    def determined(self) -> Bools:
        """Whether each answer of the table follows from sums that are measured, or known, at some geolevel."""
        sums_by_query = {
            sums.query.factors: sums for level in (*self.measured, *self.exact) for sums in level
        }
        never = self.tree.zero_patterns.all(axis=0)
        rows = [
            np.eye(self.atoms.n)[never],
            *(_indicators(sums.codes, sums.n) for sums in sums_by_query.values()),
        ]
        # An orthonormal basis of all sums; a question is determined if it lies in their span.
        base = np.linalg.svd(np.concatenate(rows), full_matrices=False)
        inside = base[2][base[1] > RANK_TOLERANCE * base[1].max(initial=1.0)]
        asked = np.sum(
            [_indicators(layer.factors[0].codes, self.asked.size) for layer in self.asked.layers], axis=0
        )
        determined: Bools = np.abs(asked - asked @ inside.T @ inside).max(axis=1) < SPAN_TOLERANCE
        return determined


def merged_model(measured: UnmergedModel, asked: QueryGroup, atoms: Atoms) -> MergedModel:
    """The model of one table.

    Args:
        measured: What is measured and published exactly.
        asked: The table's query.
        atoms: The table's atoms, as `UnmergedModel.atoms_of` gives them.
    """
    sums_by_query = {group.factors: sums_of(atoms, group) for group in measured.queries}
    flat = Schema("atoms", (Attribute("atom", tuple(str(number) for number in range(atoms.n))),))

    def sums(groups: Sequence[QueryGroup]) -> tuple[AnswerSums, ...]:
        return tuple(sums_by_query[group.factors] for group in groups if sums_by_query[group.factors].n)

    return MergedModel(
        atoms,
        model_of_levels(
            flat,
            measured.spine,
            [_flat_level(level, lambda group: sums_by_query[group.factors]) for level in measured.levels],
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
    indicators: Floats = (codes[None, :] == np.arange(n)[:, None]).astype(np.float64)
    return indicators


def _flat_level(level: LevelModel, sums: Callable[[QueryGroup], AnswerSums]) -> LevelModel:
    groups, precisions = [], [np.zeros((len(level.precisions), 0))]
    for number, query in enumerate(level.measured):
        query_sums = sums(query)
        for terms in np.unique(query_sums.terms).tolist():
            groups.append(_group_of_terms(query_sums, terms))
            # A sum of independent answers has the sum of their variances.
            precisions.append(level.precisions[:, number : number + 1] / terms)
    exact = tuple(_exact_group(exact_sums) for exact_sums in map(sums, level.invariants) if exact_sums.n)
    return LevelModel(level.geolevel, tuple(groups), _one_row(np.concatenate(precisions, axis=1)), exact)


def _one_row(precisions: Floats) -> Floats:
    same = len(precisions) > 1 and bool((precisions == precisions[:1]).all())
    return precisions[:1] if same else precisions


def _group_of_terms(sums: AnswerSums, terms: int) -> QueryGroup:
    """The sums of so many terms, as a query of the flat schema."""
    inside = sums.terms == terms
    number = np.where(inside, np.cumsum(inside) - 1, -1)
    codes = np.where(sums.codes >= 0, number[sums.codes], -1)
    labels = tuple(str(place) for place in np.flatnonzero(inside).tolist())
    return flat_group(f"{sums.query.name} / {terms}", [codes.astype(np.int32)], labels)


def _exact_group(sums: AnswerSums) -> QueryGroup:
    return flat_group(sums.query.name, [sums.codes], tuple(str(number) for number in range(sums.n)))


def _flat_zeros(atoms: Atoms, zeros: Sequence[Zeros]) -> list[Zeros]:
    """Atoms of which every cell is zero; cells that are zero in other atoms are not taken into account."""
    flat = []
    cells = np.arange(atoms.n, dtype=np.int32)
    each = flat_group("atoms", [cells], tuple(str(number) for number in range(atoms.n)))
    for zero in zeros:
        rows, row = distinct_rows(zero.answers)
        empty = _empty_atoms(atoms, zero.query, rows)
        if empty.any():
            flat.append(Zeros(each, zero.geolevel, empty[row]))
    return flat


def _empty_atoms(atoms: Atoms, query: QueryGroup, zeros: Bools) -> Bools:
    """Whether all cells of each atom are zero, for each row of answers that are zero."""
    atom, answer = atoms.paired(query)
    counted = answer >= 0
    ones = np.ones(int(counted.sum()), np.int64), (answer[counted], atom[counted])
    meets = sparse.csr_matrix(ones, shape=(query.size, atoms.n))
    # How many answers that may be above zero each atom meets.
    free = (~zeros).astype(np.int64) @ meets > 0
    # Cells that the query leaves out may have anybody.
    free[:, atom[~counted]] = True
    return np.asarray(~free, np.bool_)


ANSWERS_AT_ONCE: Final = 1 << 22
"""Noisy answers of one query that are in memory at once: 32 MiB as int64. A query of a schema with too many cells may
have a million answers, so that few geounits are read together. Twice or half of it changes memory alone."""


class MergedRows:
    """Rows of the flat schema's queries, from rows of the measured queries.

    Args:
        rows: Source of the noisy answers.
        model: The model of the table.
    """

    def __init__(self, rows: AnswerRows, model: MergedModel) -> None:
        self._rows = rows
        self._model = model

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Sums for geounits start to stop - 1: those of every query that is used, in the order of the model."""
        width = sum(group.size for group in queries)
        out, place = np.zeros((stop - start, width), np.int64), 0
        for sums in self._model.measured[level]:
            # The model has a query for each number of terms, ascending (`_flat_level`); sums follow that order.
            order = np.argsort(sums.terms, kind="stable")
            at_once = max(1, ANSWERS_AT_ONCE // sums.query.size)
            for first in range(start, stop, at_once):
                last = min(first + at_once, stop)
                values = self._rows.rows(level, [sums.query], first, last)
                out[first - start : last - start, place : place + sums.n] = sums.apply(values)[:, order]
            place += sums.n
        return narrowed(out)
