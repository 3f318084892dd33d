"""One attribute in the basis of the algebra: atoms, which queries treat as a whole, and contrasts within atoms.

A query puts some levels into groups, asks for others one by one, and leaves others out. An atom is a largest set of
levels that every query either treats as a whole or asks for one by one. The normalised sums over atoms are the *dense*
part of the attribute. A contrast within an atom is a combination of its levels with sum zero. Every query maps
contrasts either to zero or to themselves.

Worked case. An attribute has four levels, and one query groups them as {1, 2} and {3, 4}. These two groups are the
atoms. Each has one contrast, and no query distinguishes the two contrasts, so they are of one kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.schema.query_group import Factor

# Marks of a level in a query, where it is in no group or a group by itself. Both are below 0, the least number of a
# group.
LEFT_OUT = -1  # in no group
ALONE = -2  # asked for by itself
# Number of the dense part among the kinds of an axis; contrasts are numbered from 1.
DENSE = 0


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Atoms and contrasts of one attribute.

    Attributes:
        atoms: Levels of each atom, increasing. Atoms are sorted by their first level.
        contrasts: For each kind of contrast, its atoms. No query distinguishes contrasts of the same kind. The number
            of a kind is its position here plus one, because 0 denotes the dense part.
        kinds: Kind of the coefficient that is stored at each level's position; 0 at an atom's first level; shape
            (n_levels,).
        ranks: Number of that coefficient within its kind; shape (n_levels,).
    """

    atoms: tuple[tuple[int, ...], ...]
    contrasts: tuple[tuple[int, ...], ...]
    kinds: Integers
    ranks: Integers

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of coefficients of each kind: atoms first, then each kind of contrast."""
        within = (sum(len(self.atoms[atom]) - 1 for atom in kind) for kind in self.contrasts)
        return (len(self.atoms), *within)

    def representative(self, kind: int) -> Integers:
        """For each row of a kind's block, a level: the atoms' first levels, or a level of one atom of the kind."""
        if kind == DENSE:
            return np.array([levels[0] for levels in self.atoms], np.int64)
        return np.array([self.atoms[self.contrasts[kind - 1][0]][0]], np.int64)


def derive_axis(n_levels: int, factors: Sequence[Factor], labels: Integers) -> Axis:
    """Atoms of an attribute, by common refinement.

    Args:
        n_levels: Number of levels of the attribute.
        factors: The effect of each query on the attribute.
        labels: Levels with different labels are separated, because zeros distinguish them; shape (n_levels,).
    """
    # Two levels are in one atom exactly if every query and the zeros mark them alike.
    marks = [labels.astype(np.int64), *(_marks(factor) for factor in factors)]
    members: dict[tuple[int, ...], list[int]] = {}
    for level, key in enumerate(zip(*(mark.tolist() for mark in marks), strict=True)):
        members.setdefault(key, []).append(level)
    atoms = tuple(tuple(levels) for levels in members.values())
    alike: dict[tuple[int, ...], list[int]] = {}
    for atom, (key, levels) in enumerate(members.items()):
        if len(levels) > 1:
            # A query sees contrasts only where it asks level by level; into which group it sums them does not matter.
            met = (key[0], *(int(mark == ALONE) for mark in key[1:]))
            alike.setdefault(met, []).append(atom)
    contrasts = tuple(tuple(numbers) for numbers in alike.values())
    kinds, ranks = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64)
    for atom, atom_levels in enumerate(atoms):
        ranks[atom_levels[0]] = atom
    for kind, numbers in enumerate(contrasts, start=1):
        places = [level for atom in numbers for level in atoms[atom][1:]]
        kinds[places] = kind
        ranks[places] = np.arange(len(places))
    return Axis(atoms, contrasts, kinds, ranks)


def _marks(factor: Factor) -> Integers:
    """The effect of a query on each level: its group, or that it is asked for alone, or that it is left out."""
    codes = factor.codes.astype(np.int64)
    sizes = _group_sizes(factor)
    # A group of one level is the level itself, so it does not hold the level together with others.
    return np.where(codes < 0, LEFT_OUT, np.where(sizes[codes] == 1, ALONE, codes))


def _group_sizes(factor: Factor) -> Integers:
    return np.bincount(factor.codes[factor.codes >= 0], minlength=factor.size)


def factor_blocks(axis: Axis, factor: Factor, *, normalised: bool = False) -> tuple[Floats, ...]:
    """F'F for each kind of the axis: a matrix over atoms, then 1 by 1 matrices.

    Args:
        axis: An axis that was derived from this factor, and possibly others.
        factor: The effect of a query on the attribute.
        normalised: Whether to give F'(FF')^-1 F instead, the projector on what the factor determines.
    """
    sizes = _group_sizes(factor)
    codes = np.array([factor.codes[levels[0]] for levels in axis.atoms], np.int64)
    # A sum over an atom is the root of its size times the normalised sum.
    roots = np.sqrt([len(levels) for levels in axis.atoms])
    alone = (codes >= 0) & (sizes[codes] == 1)
    grouped = (codes >= 0) & ~alone
    same = (codes[:, None] == codes[None, :]) & grouped[:, None] & grouped[None, :]
    dense = np.where(same, np.outer(roots, roots), 0.0)
    if normalised:
        # FF' is diagonal with the sizes of groups, so that its inverse divides each group by its own.
        dense = dense / np.where(grouped, sizes[codes], 1)[:, None]
    dense[alone, alone] = 1.0
    return (dense, *(np.array([[float(alone[kind[0]])]]) for kind in axis.contrasts))


def factor_rows(axis: Axis, factor: Factor) -> tuple[Floats, ...]:
    """The rows F for each kind of the axis, so that `factor_blocks` holds their F'F. A row of zeros is left out."""
    sizes = _group_sizes(factor)
    codes = np.array([factor.codes[levels[0]] for levels in axis.atoms], np.int64)
    roots = np.sqrt([len(levels) for levels in axis.atoms])
    alone = (codes >= 0) & (sizes[codes] == 1)
    groups = np.unique(codes[(codes >= 0) & ~alone])
    rows = np.where(codes[None, :] == groups[:, None], roots, 0.0)
    dense = np.concatenate([rows, np.eye(len(codes))[alone]])
    return (dense, *(np.ones((int(alone[kind[0]]), 1)) for kind in axis.contrasts))
