"""Lift passes of a plan: outer passes that find how many records of each group belong to a part, such as householders.

A lift pass divides each group of records into at most two cells: one whose records belong to the part, and one with the
rest.
"""

from collections.abc import Sequence

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConfigError
from tallyveil.plans.constraints import Agreement, Residents
from tallyveil.plans.household_sizes import refuse_sizes
from tallyveil.plans.outer import sources_of_groups
from tallyveil.plans.part_cells import PartCells, possible_cells
from tallyveil.schema.nested_queries import common_groups, determines
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


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
