"""Records of a block from its published tables: an integer program.

Problem. The tables of a block are counts t. A microdata file of the block is a count x_c of each kind of record c, a
cell of the schema. Wanted are whole numbers x >= 0 whose tables are the published ones: A x = t, where A adds up the
cells of each answer. Of all that fit, the attacker takes the likeliest under the distribution of the county, which is
published: the one with the least sum of -log(share of c in the county) x_c.

A record is certain if every file that fits has it: for each cell, the least x_c that fits is a further program. Where
the least counts add up to all people of the block, a single file fits, and the block is *solved*.

Noisy answers fit no file exactly; `likeliest.py` has the program for them.
"""

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from tallyveil.estimation.highs import linear_program, quiet_solver
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one block.

    Attributes:
        codes: For each table, the answer in which each cell counts; shape (tables, cells).
        counts: For each table, its answers.
    """

    codes: np.ndarray
    counts: tuple[np.ndarray, ...]

    def candidates(self) -> np.ndarray:
        """Cells that no table has at zero."""
        told = [counts[codes] > 0 for codes, counts in zip(self.codes, self.counts, strict=True)]
        return np.flatnonzero(np.all(told, axis=0))


def codes_of(groups: list[QueryGroup]) -> np.ndarray:
    """The answer of each table in which each cell counts."""
    return np.array([group.answers_of(np.arange(group.n_cells)) for group in groups])


class BlockProgram:
    """The files that fit the tables of a block.

    Raises:
        ValueError: no file fits, so the tables contradict each other.
    """

    def __init__(self, tables: Tables, cost: np.ndarray) -> None:
        self._cells = tables.candidates()
        self._n_cells = tables.codes.shape[1]
        self._people = int(tables.counts[0].sum())
        rows, targets, first = [], [], 0
        for codes, counts in zip(tables.codes, tables.counts, strict=True):
            used = np.flatnonzero(counts)
            place = np.full(counts.size, -1)
            place[used] = first + np.arange(used.size)
            rows.append(place[codes[self._cells]])
            targets.append(counts[used].astype(float))
            first += used.size
        n, columns = self._cells.size, np.tile(np.arange(self._cells.size), len(rows))
        matrix = sparse.csc_matrix((np.ones(columns.size), (np.concatenate(rows), columns)), shape=(first, n))
        target = np.concatenate(targets)
        program = linear_program(
            cost[self._cells], (np.zeros(n), np.full(n, highspy.kHighsInf)), (target, target), matrix
        )
        program.integrality_ = [highspy.HighsVarType.kInteger] * n
        self._solver = quiet_solver()
        self._solver.setOptionValue("mip_rel_gap", 0.0)
        self._solver.setOptionValue("mip_abs_gap", 1e-9)
        self._solver.passModel(program)

    def likeliest(self) -> np.ndarray:
        """Counts of all cells in the likeliest file that fits."""
        if not self._cells.size and self._people:
            raise ValueError(
                "no file of records fits the tables of a block: every cell is in an answer of zero"
            )
        found = np.zeros(self._n_cells, np.int64)
        found[self._cells] = self._solved() if self._cells.size else 0
        return found

    def certain(self, found: np.ndarray) -> np.ndarray:
        """The counts of all cells that every fitting file has at least, given one file that fits."""
        least = np.zeros(self._n_cells, np.int64)
        n = self._cells.size
        for column in np.flatnonzero(found[self._cells]):
            costs = np.zeros(n)
            costs[column] = 1
            self._solver.changeColsCost(n, np.arange(n, dtype=np.int32), costs)
            least[self._cells[column]] = self._solved()[column]
        return least

    def _solved(self) -> np.ndarray:
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise ValueError(f"no file of records fits the tables of a block: {status}")
        return np.rint(self._solver.getSolution().col_value).astype(np.int64)
