"""How the groups of two queries lie in each other: decided factor by factor, without looking at cells.

A schema can have many millions of cells, so nothing here makes a number for each of them. All queries are
products of one factor for each attribute. What holds for the factors of every attribute then holds for the
cells. `adding_up` says which answers of one query add up to answers of another one. `only_cell` finds the
only cell in which the records of an answer can lie, if structural zeros leave just one.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import SchemaError
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema


def determines(fine: QueryGroup, coarse: QueryGroup, zeros: Sequence[Mapping[int, Bools]] = ()) -> bool:
    """Whether the answers of `coarse` can be added up from the answers of `fine`.

    They can if, for every attribute, levels that `fine` has in one group are in the same groups of `coarse`, and levels
    that `fine` leaves out are in no group of `coarse`. A structural zero may bar the cells in which `coarse` counts
    such a level. Example: `fine` counts occupied units by the householder's sex and leaves out "none". If every
    occupied unit has a householder, `fine` determines the number of occupied units.

    Args:
        fine: A query whose groups do not overlap.
        coarse: A query of the same schema. Its groups may overlap.
        zeros: Structural zeros, as `Schema.barred_levels` gives them.
    """
    barred = _barred(coarse, zeros)
    return all(
        _determines(fine_factor, coarse_factor, levels)
        for fine_factor, coarse_factor, levels in zip(fine.factors, coarse.factors, barred, strict=True)
    )


def determined_answers(
    fine: QueryGroup, coarse: QueryGroup, zeros: Sequence[Mapping[int, Bools]] = ()
) -> QueryGroup:
    """The query `coarse` without the groups whose counts cannot be added up from the answers of `fine`.

    Its answers have the numbers that they have in `coarse`. The arguments are those of `determines`; no groups overlap.
    """
    barred = _barred(coarse, zeros)
    factors = (
        _determined(fine_factor, coarse_factor, levels)
        for fine_factor, coarse_factor, levels in zip(fine.factors, coarse.factors, barred, strict=True)
    )
    return QueryGroup(coarse.name, tuple(factors))


def _in_any_group(factor: Factor) -> Bools:
    """Whether each level is in a group of the factor."""
    in_group: Bools = np.any([layer >= 0 for layer in factor.layers], axis=0)
    return in_group


def _barred(group: QueryGroup, zeros: Sequence[Mapping[int, Bools]]) -> list[Bools]:
    """For each attribute, the levels with which no cell that a query counts is possible.

    One level may be barred because another one is. Example: the query counts couples. Vacant units have none, so
    "vacant" is barred. Occupied units have a householder, so the householder's sex "none" is barred then.

    Args:
        group: The query.
        zeros: Structural zeros.
    """
    # Each pass may bar levels that let another zero bar more; passes end because levels are only taken away.
    counted = [_in_any_group(factor) for factor in group.factors]
    left = [levels.copy() for levels in counted]
    while True:
        before = sum(int(levels.sum()) for levels in left)
        for zero in zeros:
            for axis, levels in zero.items():
                # A zero bars a level only if all cells that the query counts with it lie in the zero, on every other
                # attribute.
                if all(barred[left[other]].all() for other, barred in zero.items() if other != axis):
                    left[axis] &= ~levels
        if sum(int(levels.sum()) for levels in left) == before:
            return [in_group & ~levels for in_group, levels in zip(counted, left, strict=True)]


def counts_all_of(first: QueryGroup, other: QueryGroup) -> bool:
    """Whether `first` counts every cell that `other` counts. No groups of the two queries overlap."""
    return all(
        bool(((factor.codes >= 0) | (their.codes < 0)).all())
        for factor, their in zip(first.factors, other.factors, strict=True)
    )


def common_groups(fine: QueryGroup, other: QueryGroup) -> QueryGroup:
    """The finest groups of the cells that `fine` counts, of which each is a union of groups of both queries.

    Example: `fine` has the tenures mortgage, clear and "rented or no payment", and `other` has mortgage, clear, rented
    and no payment. The common groups are the three of `fine`.

    Args:
        fine: A query whose groups do not overlap.
        other: Another one of the same schema, which counts every cell that `fine` counts.
    Raises:
        SchemaError: it does not.
    """
    # Otherwise a cell would be in a group of one query and in none of the other, and no union of groups would fit.
    if not counts_all_of(other, fine):
        raise SchemaError(
            f"query {other.name!r} leaves out cells that query {fine.name!r} counts, so that they have no common "
            "groups. Name a query that counts at least the cells of the other."
        )
    factors = (_common(factor, their) for factor, their in zip(fine.factors, other.factors, strict=True))
    return QueryGroup(f"{fine.name} with {other.name}", tuple(factors))


def meet(first: QueryGroup, other: QueryGroup) -> QueryGroup:
    """The query whose answers are the pairs of an answer of each of two queries that have a cell in common.

    Args:
        first: A query whose groups do not overlap.
        other: Another one of the same schema. A cell that either leaves out is left out.
    """
    factors = (_met(factor, their) for factor, their in zip(first.factors, other.factors, strict=True))
    return QueryGroup(f"{first.name} by {other.name}", tuple(factors))


def only_answers(group: QueryGroup, answers: Integers) -> QueryGroup:
    """The query that counts no other cells than those of some answers, and few more where it cannot.

    It keeps every group of a factor that one of the answers has. So it counts all combinations of these groups.

    Args:
        group: A query whose groups do not overlap.
        answers: Some answer numbers of the query.
    """
    numbers = np.unravel_index(np.asarray(answers, dtype=np.int64), group.shape)
    factors = (
        _only(factor, np.unique(group_numbers))
        for factor, group_numbers in zip(group.factors, numbers, strict=True)
    )
    return QueryGroup(group.name, tuple(factors))


def representative_cells(group: QueryGroup, answers: Integers) -> Integers:
    """One cell of each of some answers: the first level of each of its groups, whether or not a record may lie there.

    Every query that `group` determines has the same answer for this cell as for all other cells of the answer.

    Args:
        group: A query whose groups do not overlap.
        answers: Answer numbers of the query.
    """
    cells = np.zeros(len(answers), dtype=np.int64)
    rest = np.asarray(answers, dtype=np.int64)
    # Answers are numbered in C order, and so are cells: one pass over the attributes turns one into the other.
    stride = math.prod(factor.size for factor in group.factors)
    for factor in group.factors:
        stride //= factor.size
        number, rest = np.divmod(rest, stride)
        cells = cells * factor.n_levels + first_levels(factor)[number]
    return cells


def first_levels(factor: Factor) -> Integers:
    """The first level of each group of a factor whose groups do not overlap."""
    first = np.full(factor.size, -1, dtype=np.int64)
    # From the last level to the first, so that the first level of a group is written last and stays.
    levels = np.flatnonzero(factor.codes >= 0)[::-1]
    first[factor.codes[levels]] = levels
    return first


def _determines(fine: Factor, coarse: Factor, barred: Bools) -> bool:
    codes = fine.codes
    counted = codes >= 0
    # A level that no cell of the coarse query can have need not be known to the fine one.
    left_out = ~counted & ~barred
    first = first_levels(fine)
    return all(
        bool((layer[left_out] < 0).all()) and np.array_equal(layer[counted], layer[first[codes[counted]]])
        for layer in coarse.layers
    )


def _determined(fine: Factor, coarse: Factor, barred: Bools) -> Factor:
    """A factor without the groups that share a group of `fine` with other levels, or have levels that it leaves out."""
    codes, coarse_codes = fine.codes, coarse.codes
    counted = codes >= 0
    first = first_levels(fine)
    same = np.zeros(fine.n_levels, dtype=np.bool_)
    same[counted] = coarse_codes[counted] == coarse_codes[first[codes[counted]]]
    # A fine group whose levels lie in different coarse groups cannot be divided between them.
    mixed = np.unique(codes[counted & ~same])
    bad = (counted & np.isin(codes, mixed)) | (~counted & ~barred)
    # A coarse group is lost as a whole, also if a single one of its levels is unknown.
    lost = np.unique(coarse_codes[bad & (coarse_codes >= 0)])
    remaining = np.where(np.isin(coarse_codes, lost), -1, coarse_codes).astype(np.int32)
    remaining.setflags(write=False)
    return Factor(coarse.attribute, coarse.name, (remaining,), coarse.labels)


def _common(fine: Factor, other: Factor) -> Factor:
    """Groups of levels that are joined by either factor, among the levels that `fine` counts."""
    counted = fine.codes >= 0
    # A union-find without a tree: levels get the smallest home among those they are joined with, until nothing changes.
    home = np.where(counted, np.arange(fine.n_levels), fine.n_levels)
    while True:
        before = home
        for factor in (fine, other):
            home = _joined(home, factor.codes, counted)
        if np.array_equal(home, before):
            break
    groups, number = np.unique(home[counted], return_inverse=True)
    codes = np.full(fine.n_levels, -1, dtype=np.int32)
    codes[counted] = number
    codes.setflags(write=False)
    labels = tuple(f"group of level {int(level)}" for level in groups)
    return Factor(fine.attribute, fine.name or other.name, (codes,), labels)


def _met(first: Factor, other: Factor) -> Factor:
    counted = (first.codes >= 0) & (other.codes >= 0)
    # Both group numbers in one, in C order, so that answers stay sorted by the first query's groups.
    pairs = first.codes[counted].astype(np.int64) * other.size + other.codes[counted]
    groups, number = np.unique(pairs, return_inverse=True)
    codes = np.full(first.n_levels, -1, dtype=np.int32)
    codes[counted] = number
    codes.setflags(write=False)
    labels = tuple(
        f"{first.labels[pair // other.size]} {other.labels[pair % other.size]}" for pair in groups.tolist()
    )
    return Factor(first.attribute, first.name or other.name, (codes,), labels)


def _only(factor: Factor, groups: Integers) -> Factor:
    """A factor without some of its groups."""
    number = np.full(factor.size + 1, -1, dtype=np.int32)
    number[groups] = np.arange(len(groups))
    codes = number[factor.codes]  # levels in no group have the last number, which is -1
    codes.setflags(write=False)
    return Factor(
        factor.attribute,
        factor.name,
        (codes,),
        tuple(factor.labels[group_number] for group_number in groups.tolist()),
    )


def _joined(home: Integers, codes: NDArray[np.int32], counted: NDArray[np.bool_]) -> Integers:
    """Every counted level gets the smallest home among the levels of its group."""
    least = np.full(int(codes.max()) + 1, len(home), dtype=np.int64)
    np.minimum.at(least, codes[counted], home[counted])
    joined = home.copy()
    joined[counted] = least[codes[counted]]
    return joined


Box = list[NDArray[np.bool_]]
"""For each attribute, whether each level is in the box; a cell is in it if all its levels are."""


def only_cell(schema: Schema, group: QueryGroup, answer: int) -> int | None:
    """The only possible cell of an answer; None if the structural zeros leave several, or none.

    A level is dropped from the box of the answer when one structural zero bars all cells of the box that have it. This
    is repeated until nothing changes. It takes no number for each cell, however many cells the schema has.

    Worked case: the answer "vacant" of a schema with the attributes occupancy and sex (male, female, none), where a
    structural zero bars male and female for vacant units. The levels male and female are dropped; one cell is left.

    Args:
        schema: The universe.
        group: A query whose groups do not overlap.
        answer: Number of the answer.
    """
    numbers = np.unravel_index(answer, group.shape)
    box = [factor.codes == number for factor, number in zip(group.factors, numbers, strict=True)]
    zeros = [_box_of(schema, barred) for barred in schema.barred_levels()]
    while True:
        dropped = sum(_drop_levels(box, zero) for zero in zeros)
        if not dropped:
            break
    if any(int(levels.sum()) != 1 for levels in box):
        return None
    cell = schema.encode(np.array([[int(np.argmax(levels)) for levels in box]]))
    return int(cell[0]) if bool(schema.possible(cell)[0]) else None


def _box_of(schema: Schema, barred: dict[int, NDArray[np.bool_]]) -> Box:
    """The cells that a structural zero bars, from the levels that it names (`Schema.barred_levels`)."""
    every = [np.ones(attribute.size, dtype=np.bool_) for attribute in schema.attributes]
    return [barred.get(place, levels) for place, levels in enumerate(every)]


def _drop_levels(box: Box, zero: Box) -> int:
    """Drop the levels with which every cell of the box is barred; returns how many there are."""
    inside = [bool(barred[levels].all()) for levels, barred in zip(box, zero, strict=True)]
    dropped = 0
    for place, barred in enumerate(zero):
        if all(inside[:place] + inside[place + 1 :]):
            gone = box[place] & barred
            dropped += int(gone.sum())
            box[place] &= ~barred
            inside[place] = bool(barred[box[place]].all())
    return dropped


def adding_up(schema: Schema, group: QueryGroup, other: QueryGroup) -> Integers:
    """Answer of `other` that contains each answer of `group`; -1 where it is not a sum of answers of `group`."""
    cells = np.arange(schema.size, dtype=np.int64)
    cells = cells[schema.possible(cells)]
    mine, theirs = group.answers_of(cells), other.answers_of(cells)
    first = np.full(group.size, -1, dtype=np.int64)
    first[mine[mine >= 0]] = theirs[mine >= 0]
    split = theirs != np.where(mine >= 0, first[mine], -1)  # cells on which the two queries disagree
    broken = np.unique(theirs[split & (theirs >= 0)])
    broken = np.union1d(broken, first[mine[split & (mine >= 0)]])
    first[np.isin(first, broken)] = -1
    return first
