"""Lift passes that find households by size, so that all sizes add up to the people who live in them.

The first of these passes finds the households of the largest size, the next one those of the size below, and so on.
The households that the last of them leaves have the smallest size: two, if it is known before who lives alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConfigError
from tallyveil.plans.constraints import Residents
from tallyveil.plans.outer import sources_of_groups
from tallyveil.plans.part_cells import PartCells, possible_cells
from tallyveil.schema.nested_queries import common_groups, meet, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

SEVERAL: Final = -1
"""Size of the households of a group in which households can have several sizes."""


@dataclass(frozen=True, slots=True, eq=False)
class SizesOfGroups:
    """The sizes that households in groups of records can have.

    Attributes:
        size: Of each group: the size of all its households, 0 if it has none, or `SEVERAL`.
        smallest: The smallest size of households in groups with several sizes.
        largest: The largest one; 0 if no group has several sizes.
    """

    size: Integers
    smallest: int
    largest: int

    @classmethod
    def of(
        cls, schema: Schema, sizes: QueryGroup, cells: QueryGroup, groups: Sequence[QueryGroup]
    ) -> "SizesOfGroups":
        """The sizes in some groups.

        Args:
            schema: The universe.
            sizes: Query that counts households of one person, two and so on.
            cells: The cells of a pass.
            groups: Queries whose answers are the groups, numbered query by query; each is a union of the cells.
        Raises:
            ConfigError: two groups have several sizes, and these are not the same or have a gap.
        """
        # One record for each pair of cell and size is enough: groups are unions of the cells.
        both = meet(cells, sizes)
        cells_of_both = representative_cells(both, schema.possible_answers(both).astype(np.int64))
        has = np.zeros((sum(query.size for query in groups), sizes.size), dtype=np.bool_)
        begin = 0
        for query in groups:
            answers = query.answers_of(cells_of_both)
            # A negative answer says that the query does not count the record.
            inside = answers >= 0
            has[begin + answers[inside], sizes.answers_of(cells_of_both[inside])] = True
            begin += query.size
        number = has.sum(axis=1)
        # argmax of booleans is the first true one, here the only one; sizes count from 1, answers from 0.
        size = np.where(number > 1, SEVERAL, np.where(number == 1, has.argmax(axis=1) + 1, 0))
        several = np.unique(has[number > 1], axis=0)
        if not len(several):
            return cls(size, 0, 0)
        # Row 0 speaks for all groups: if there are other rows, they differ, and are refused below.
        named = np.flatnonzero(several[0]) + 1
        smallest, largest = int(named[0]), int(named[-1])
        if len(several) > 1 or len(named) < largest - smallest + 1:
            raise ConfigError(
                "[[estimation.outer]]: passes with 'sizes' find sizes of households step by step. Among households "
                f"whose size '{' and '.join(query.name for query in groups)}' do not say, every kind must be able to "
                "have the same sizes, without a gap. Let a pass before tell kinds with other sizes apart.",
                code="outer-pass",
            )
        return cls(size, smallest, largest)


def refuse_sizes(schema: Schema, outer: Sequence[OuterPass], residents: Sequence[Residents]) -> None:
    """Refuse passes for sizes that do not find all sizes one by one, the largest first.

    Args:
        schema: The universe.
        outer: The passes, first to last.
        residents: The residents of the release; those that passes name have a query of households by size.
    Raises:
        ConfigError: a pass is missing, has another part or other residents.
        SchemaError: the schema has no such query.
    """
    asked = [number for number, outer_pass in enumerate(outer) if outer_pass.sizes is not None]
    if not asked:
        return
    item = next(entry for entry in residents if entry.name == outer[asked[0]].sizes)
    sizes, cells = (
        schema.query(str(item.households)),
        [schema.query(outer_pass.cells) for outer_pass in outer],
    )
    sources, size = sources_of_groups(cells), sizes.size
    for number in asked:
        groups = common_groups(cells[number], cells[sources[number]])
        before = SizesOfGroups.of(schema, sizes, cells[number], [groups])
        # Asked of the first pass only: each later pass knows early what the passes before it have found.
        known_early = size == sizes.size and bool((before.size >= before.smallest).any())
        if (
            outer[number].sizes != item.name
            or before.largest != size
            or known_early
            or not _finds(schema, outer[number], sizes, size, groups)
        ):
            raise _misfit(
                number,
                f"has 'sizes'. Such passes find the households of '{sizes.name}' for the same residents, one size "
                "after another. The first pass finds the largest size, and no larger size than the smallest may be "
                f"known before. In every kind of households, the part of this pass must be those of size {size}, and "
                "the rest those of all smaller sizes.",
            )
        # Largest first, so that what is left after this pass has only smaller sizes.
        size -= 1
    # `largest` is above 0 only if some group still has several sizes.
    left = SizesOfGroups.of(schema, sizes, cells[asked[-1]], [cells[asked[-1]]])
    if left.largest:
        raise _misfit(
            asked[-1],
            f"is the last one with 'sizes', and leaves households of {left.smallest} to {left.largest} people "
            "together. Add a pass for each of these sizes but the smallest.",
        )


def _finds(schema: Schema, outer_pass: OuterPass, sizes: QueryGroup, size: int, groups: QueryGroup) -> bool:
    """Whether a pass finds the households of a size in every group that has some."""
    cells = schema.query(outer_pass.cells)
    possible = possible_cells(schema, cells)
    cell_sizes = SizesOfGroups.of(schema, sizes, cells, [cells]).size[cells.answers_of(possible)]
    part = schema.query(str(outer_pass.part))
    # Called for its refusals: it raises for cells that do not fit the groups.
    PartCells.of(outer_pass, part, possible, groups.answers_of(possible), groups.size)
    return np.array_equal(part.answers_of(possible) >= 0, cell_sizes == size)


def _misfit(number: int, text: str) -> ConfigError:
    return ConfigError(f"[[estimation.outer]] pass {number + 1} {text}", code="outer-pass")
