"""The cells of a lift pass: in each group of records one cell of the part, and one of the rest.

Groups none of whose records can belong to the part are one cell and keep their counts.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConfigError
from tallyveil.schema.nested_queries import representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class PartCells:
    """The cells of a lift pass in each group, by number of the group; -1 for none.

    Attributes:
        part: Representative cell of the records that belong to the part.
        rest: Representative cell of the others.
    """

    part: Integers
    rest: Integers

    @classmethod
    def of(
        cls, outer_pass: OuterPass, part: QueryGroup, cells: Integers, groups: Integers, n_groups: int
    ) -> "PartCells":
        """The cells of each group.

        Args:
            one: The pass.
            part: Its part.
            cells: Representative cells of its possible answers.
            groups: The group of each of them, from 0.
            n_groups: A number above all of these.
        Raises:
            ConfigError: a group has other cells than one of the rest and at most one of the part.
        """
        inside = part.answers_of(cells) >= 0
        cell_columns = []
        for chosen in (inside, ~inside):
            cell = np.full(n_groups, -1, dtype=np.int64)
            cell[groups[chosen]] = cells[chosen]
            cell_columns.append(cell)
            if len(np.unique(groups[chosen])) < np.count_nonzero(chosen):
                raise _wrong_cells(outer_pass)
        if bool(((cell_columns[0] >= 0) & (cell_columns[1] < 0)).any()):
            raise _wrong_cells(outer_pass)
        return cls(*cell_columns)


def possible_cells(schema: Schema, cells: QueryGroup) -> Integers:
    """The representative cells of the answers of a pass in which records may lie, ascending."""
    return np.sort(representative_cells(cells, schema.possible_answers(cells)))


def _wrong_cells(outer_pass: OuterPass) -> ConfigError:
    return ConfigError(
        f"[[estimation.outer]]: the pass that counts '{outer_pass.cells}' has a part, '{outer_pass.part}'. In each "
        "group whose count is fixed before the pass, the pass must have one cell of the rest and at most one of the "
        "part. Give the pass coarser or finer cells.",
        code="outer-pass",
    )
