"""Sums of a query's noisy answers that are sums of atoms.

Problem. A measured query divides the cells otherwise than the atoms do. Wanted are the finest groups of its answers
whose cells are together some whole atoms.

Steps. Atoms and answers with a possible cell in common are joined. A group is a connected component. Cells that the
query leaves out join their atoms to nothing that is measured, so a component with such cells is not used. Answers
without a possible cell are noise around zero and belong to no group.

Worked case. The atoms are ages 0 to 4, 5 to 17, and 18 or older. A query counts single years 0 to 9 and, together, 10
or older. Its answers 0 to 4 are one group of 5 answers. Its other answers are one group of 6, which is two atoms.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tallyveil.arrays import Int32s, Integers, Numbers
from tallyveil.estimation.intervals.merged.atoms import Atoms
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
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
        found: Integers = np.add.reduceat(values[:, self.answers], self.begin[:-1], axis=1, dtype=np.int64)
        return found


def sums_of(atoms: Atoms, query: QueryGroup) -> Sums:
    """The finest sums of a query's answers that are sums of atoms.

    Args:
        atoms: The atoms.
        query: A query without overlapping groups, or a layer.
    """
    atom, answer = atoms.paired(query)
    counted, place = np.unique(answer, return_inverse=True)
    edges = np.ones(len(atom), np.int8), (atom, atoms.n + place.reshape(-1))
    size = atoms.n + len(counted)
    _, component = connected_components(sparse.coo_matrix(edges, shape=(size, size)), directed=False)
    unusable = component[atoms.n] if counted[0] < 0 else -1
    of_atom, of_answer = component[: atoms.n], component[atoms.n :]
    kept = np.unique(of_atom[of_atom != unusable])
    number = np.full(int(component.max()) + 1, -1, np.int32)
    number[kept] = np.arange(len(kept))
    sums = number[of_answer]
    order = np.argsort(sums, kind="stable")[int((sums < 0).sum()) :]
    begin = np.concatenate([[0], np.cumsum(np.bincount(sums[sums >= 0], minlength=len(kept)))])
    return Sums(query, number[of_atom], counted[order], begin.astype(np.int64))
