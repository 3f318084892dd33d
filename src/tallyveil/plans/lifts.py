"""Lift passes of a plan, which find how many records of each group belong to a part, such as householders.

A lift pass divides each group of records into at most two cells: one whose records belong to the part, and
one with the rest. Groups none of whose records can belong to the part are one cell and keep their counts.

Some lift passes find households by size, so that all sizes add up to the people who live in them. The first
of these finds the households of the largest size, the next one those of the size below, and so on. The
households that the last of them leaves have the smallest size: two, if it is known before who lives alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConfigError
from tallyveil.plans.constraints import Agreement, Residents
from tallyveil.plans.outer import sources_of_groups
from tallyveil.schema.nested_queries import common_groups, determines, meet, representative_cells
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
            raise _misfit_of_sizes(
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
        raise _misfit_of_sizes(
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


def _misfit_of_sizes(number: int, text: str) -> ConfigError:
    return ConfigError(f"[[estimation.outer]] pass {number + 1} {text}", code="outer-pass")


def refuse_lifts(
    schema: Schema,
    outer: Sequence[OuterPass],
    agreement: Sequence[Agreement],
    residents: Sequence[Residents] = (),
) -> None:
    """Refuse lift passes that do not fit the other passes, the agreements or the residents.

    The groups of the first pass are known only later. `PartCells` then refuses cells that do not fit these groups.

    Args:
        schema: The universe.
        outer: The passes, first to last; `refuse_outer` has passed them.
        agreement: The agreements of the release.
        residents: Its residents.
    Raises:
        ConfigError: a lift pass lacks something, has too much, or its queries do not fit.
        SchemaError: the schema has no such query.
    """
    sources = sources_of_groups([schema.query(outer_pass.cells) for outer_pass in outer])
    for number, outer_pass in enumerate(outer, start=1):
        where = f"[[estimation.outer]] pass {number}"
        # Keys first: the checks below take it that a pass with a part has exactly one limit.
        _refuse_keys(outer_pass, number, where)
        if outer_pass.part is None:
            continue
        cells = schema.query(outer_pass.cells)
        _refuse_part(outer_pass.part, schema.query(outer_pass.part), cells, where)
        if outer_pass.total is not None:
            _refuse_total(outer_pass, agreement, where)
        if outer_pass.residents is not None:
            _refuse_residents(outer_pass, residents, where)
        if outer_pass.sizes is not None:
            _refuse_households(outer_pass, residents, where)
        # Both limits are counts of the pass before, so its cells must tell their records apart.
        beside = outer_pass.company or outer_pass.at_most
        if beside is not None:
            before = schema.query(outer[sources[number - 1]].cells)
            _refuse_part(beside, schema.query(beside), before, where)
            if outer_pass.company is not None:
                _refuse_company(schema, outer_pass, schema.query(outer_pass.company), before, where)
    # A table that no pass reads would seem to be kept by the release, and is not.
    named = {item.residents for item in outer} | {item.sizes for item in outer}
    unused = [item.name for item in residents if item.name not in named]
    if unused:
        raise _misfit(
            f"[[residents]] '{unused[0]}'",
            "has no effect: no pass of [[estimation.outer]] names it. Name it in the pass whose part counts occupied "
            "units, or in passes that find households by size, or leave it out.",
        )
    # Last: it looks up residents by name, which is sure to work only once every pass has been checked.
    refuse_sizes(schema, outer, residents)


def _refuse_keys(outer_pass: OuterPass, number: int, where: str) -> None:
    """Refuse keys of a pass that cannot be given together; raises ConfigError."""
    if outer_pass.part is None:
        if outer_pass.limits or outer_pass.prior is not None:
            raise _misfit(
                where,
                f"has '{next(iter(outer_pass.limits), 'prior')}' and no 'part'. Name the part, or leave the key out.",
            )
        return
    if outer_pass.prior == "company" and outer_pass.company is None:
        raise _misfit(where, "has the prior 'company', which only a pass with the key 'company' can have.")
    if len(outer_pass.limits) != 1 or outer_pass.rounding:
        raise _misfit(
            where,
            "has a part. Such a pass has one of 'total' and 'residents', if it is the first, or one of 'company', "
            "'at_most' and 'sizes', if it is a later one. It has no 'rounding'.",
        )
    if (outer_pass.total is None and outer_pass.residents is None) == (number == 1):
        raise _misfit(
            where,
            "has a part. The part of the first pass has a 'total' or 'residents'. Only this pass can have them, "
            "because they "
            "are checked before the spend. Parts of later passes have 'company', 'at_most' or 'sizes'.",
        )


def _refuse_part(name: str, group: QueryGroup, cells: QueryGroup, where: str) -> None:
    """Refuse a query that does not have one answer, or whose records the cells do not tell apart."""
    if group.size != 1 or group.overlaps or not determines(cells, group):
        raise _misfit(
            where,
            f"names '{name}', which is not a query of one answer that is a sum of counts of '{cells.name}'. Name a "
            "recode with one group of levels.",
        )


def _refuse_total(outer_pass: OuterPass, agreement: Sequence[Agreement], where: str) -> None:
    named = next((item for item in agreement if item.name == outer_pass.total), None)
    if named is None or named.query != outer_pass.part:
        raise _misfit(
            where,
            f"takes the total of '{outer_pass.part}' from the agreement '{outer_pass.total}'. There must be an "
            f"[[agreement]] of this name whose query is '{outer_pass.part}'.",
        )


def _refuse_residents(outer_pass: OuterPass, residents: Sequence[Residents], where: str) -> None:
    item = _named(str(outer_pass.residents), residents, where)
    if not item.adults or item.households is not None or item.geolevel is not None:
        raise _misfit(
            where,
            f"finds occupied units for the residents '{item.name}'. Their table must say who is an adult ('adults'). "
            "It must not have 'households' or 'geolevel', which are for sizes of households.",
        )


def _refuse_households(outer_pass: OuterPass, residents: Sequence[Residents], where: str) -> None:
    item = _named(str(outer_pass.sizes), residents, where)
    if item.adults or item.households is None or item.geolevel is None:
        raise _misfit(
            where,
            f"finds households of a size for the residents '{item.name}'. Their table must name the query that counts "
            "households by size ('households'), and the geolevel at which sizes add up ('geolevel'). It must not have "
            "'adults', which are for occupied units.",
        )


def _named(name: str, residents: Sequence[Residents], where: str) -> Residents:
    match = next((item for item in residents if item.name == name), None)
    if match is None:
        known = ", ".join(f"'{item.name}'" for item in residents) or "none"
        raise _misfit(
            where,
            f"names the residents '{name}'. There must be a [[residents]] of this name; there are: {known}.",
        )
    return match


def _refuse_company(
    schema: Schema, outer_pass: OuterPass, company: QueryGroup, before: QueryGroup, where: str
) -> None:
    """Refuse cells that `PartCells` does not allow, and company that may belong to the part."""
    cells = schema.query(outer_pass.cells)
    # Cells that no record can have would make company and part seem to meet where they cannot.
    possible = possible_cells(schema, cells)
    groups = common_groups(cells, before)
    of_cells = groups.answers_of(possible)
    divided = PartCells.of(outer_pass, schema.query(str(outer_pass.part)), possible, of_cells, groups.size)
    if bool((company.answers_of(possible)[divided.part[of_cells] >= 0] >= 0).any()):
        raise _misfit(
            where,
            f"has the company '{outer_pass.company}', and some of these records may belong to the part "
            f"'{outer_pass.part}'. The company must be other records.",
        )


def _misfit(where: str, text: str) -> ConfigError:
    return ConfigError(f"{where} {text}", code="outer-pass")
