"""The tables of `tables.toml` as layouts: numbered columns, and which groups of levels each column counts.

The columns of a table split the levels of each attribute into groups that no column tells apart. A recode of these
groups makes a query of few answers, and every column is a sum of its answers.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, Final

from tallyveil.errors import SchemaError
from tallyveil.products.dhc.tables.conditions import LevelSets, both, level_sets
from tallyveil.products.dhc.tables.line_trees import TextLine, line_tree
from tallyveil.products.topdown.pl94.layouts import Line, TableLayout, columns_of
from tallyveil.schema.names import closest_hint
from tallyveil.schema.presets import load_preset
from tallyveil.schema.recode import Recode
from tallyveil.schema.schema import Schema

PRESETS: Final[Mapping[str, str]] = {"persons": "dhc-persons", "units": "dhc-units"}
"""The schema preset of each kind of records."""

_RACES: Final = (
    ("A", "White alone", "white"),
    ("B", "Black or African American alone", "black"),
    ("C", "American Indian and Alaska Native alone", "aian"),
    ("D", "Asian alone", "asian"),
    ("E", "Native Hawaiian and Other Pacific Islander alone", "nhopi"),
    ("F", "Some Other Race alone", "sor"),
    ("G", "Two or More Races", "two_or_more"),
)
_RACE_FACTORS: Final = {"persons": ("cenrace_7lev", "hispanic"), "units": ("race", "hisp")}


@dataclass(frozen=True, slots=True)
class DhcTable:
    """One table.

    Attributes:
        layout: Its columns. The attributes of the layout are the names of `recodes`.
        records: "persons" or "units".
        recodes: For each attribute that the table uses, the groups of levels that its columns do not tell apart.
        counted: The levels of the records that the table counts.
        tallies: Whether a record may count in several lines.
    """

    layout: TableLayout
    records: str
    recodes: tuple[Recode, ...]
    counted: LevelSets
    tallies: bool

    def schema(self, schema: Schema) -> Schema:
        """A schema with the recodes of this table instead of its own."""
        return replace(schema, recodes=self.recodes, structural_zeros=())


@cache
def preset_of(records: str) -> Schema:
    """The schema preset of a kind of records."""
    return load_preset(PRESETS[records])


@cache
def _definitions() -> dict[str, Any]:
    path = resources.files("tallyveil.products.dhc.tables") / "tables.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def table_names(records: str) -> tuple[str, ...]:
    """Names of the tables of a kind of records, with those by race and Hispanic origin, such as "P12A".

    Args:
        records: "persons" or "units".
    """
    found = []
    for table in _definitions()["tables"]:
        if table["records"] == records:
            found.append(table["name"])
            if table.get("letters"):
                found += [f"{table['name']}{letter}" for letter in "ABCDEFGHI"]
    return tuple(found)


def load_table(name: str) -> DhcTable:
    """A table by its name, such as "P12" or "P12A".

    Raises:
        SchemaError: there is no such table.
    """
    for table in _definitions()["tables"]:
        if name == table["name"]:
            return _table(table, table.get("where", ""))
        letter = name.removeprefix(table["name"])
        if table.get("letters") and name.startswith(table["name"]) and letter in _letters(table["records"]):
            who, condition = _letters(table["records"])[letter]
            where = ", ".join(filter(None, (table.get("where", ""), condition)))
            return _table({**table, "name": name, "title": f"{table['title']} ({who})"}, where)
    known = [one for records in PRESETS for one in table_names(records)]
    raise SchemaError(
        f"there is no table {name!r} of persons or units. {closest_hint(name, known)}", code="publish-table"
    )


def _letters(records: str) -> dict[str, tuple[str, str]]:
    """For each letter, who is counted, and the condition."""
    race, origin = _RACE_FACTORS[records]
    letters = {letter: (who, f"{race} = {level}") for letter, who, level in _RACES}
    letters["H"] = ("Hispanic or Latino", f"{origin} = hispanic")
    letters["I"] = ("White alone, not Hispanic or Latino", f"{race} = white, {origin} = not_hispanic")
    return letters


def _table(table: Mapping[str, Any], where: str) -> DhcTable:
    records = table["records"]
    schema = preset_of(records)
    lists = _definitions()["lists"][records]
    (root,) = line_tree(table["lines"], lists)
    counted = level_sets(schema, where)
    sets = _leaf_sets(schema, root, counted)
    recodes = _recodes(schema, list(sets.values()))
    line = _line(root, sets, _groups(schema, recodes), ())
    layout = TableLayout(
        name=table["name"],
        title=table["title"],
        universe=table["universe"],
        attributes=tuple(recode.name for recode in recodes),
        columns=tuple(columns_of(f"{table['name']}_", line)),
    )
    return DhcTable(layout, records, recodes, counted, table.get("tallies", False))


_Place = tuple[int, ...]
"""Where a line stands: its position among the parts of the line above, and so on from the root."""
_LeafSets = dict[_Place, LevelSets]


def _leaf_sets(schema: Schema, line: TextLine, above: LevelSets, place: _Place = ()) -> _LeafSets:
    """The levels that each leaf counts."""
    own = both(level_sets(schema, line.conditions), above)
    if not line.parts:
        return {place: own}
    found: _LeafSets = {}
    for number, part in enumerate(line.parts):
        found |= _leaf_sets(schema, part, own, (*place, number))
    return found


def _recodes(schema: Schema, leaves: Sequence[LevelSets]) -> tuple[Recode, ...]:
    """For each attribute that a leaf names, the groups of levels that no leaf tells apart."""
    recodes = []
    for attribute in schema.attributes:
        sets = {leaf[attribute.name]: None for leaf in leaves if attribute.name in leaf}
        if not sets:
            continue
        everywhere = any(attribute.name not in leaf for leaf in leaves)
        groups: dict[tuple[bool, ...], list[str]] = {}
        for code, level in enumerate(attribute.levels):
            inside = tuple(code in one for one in sets)
            if everywhere or any(inside):
                groups.setdefault(inside, []).append(level)
        named = tuple((str(number), tuple(levels)) for number, levels in enumerate(groups.values()))
        recodes.append(Recode(f"groups_of_{attribute.name}", attribute.name, named))
    return tuple(recodes) or (_whole(schema),)


def _whole(schema: Schema) -> Recode:
    """One group of all levels, for a table whose only line counts everything."""
    first = schema.attributes[0]
    return Recode(f"groups_of_{first.name}", first.name, (("0", first.levels),))


def _groups(schema: Schema, recodes: Sequence[Recode]) -> dict[str, list[tuple[str, int]]]:
    """For each attribute of the recodes, the label of each group and the code of one level in it."""
    return {
        recode.attribute: [
            (label, schema.attribute(recode.attribute).code(levels[0])) for label, levels in recode.groups
        ]
        for recode in recodes
    }


def _line(
    line: TextLine, sets: _LeafSets, groups: Mapping[str, list[tuple[str, int]]], place: _Place
) -> Line:
    """A line with the combinations of groups that it counts."""
    if line.parts:
        parts = tuple(_line(part, sets, groups, (*place, n)) for n, part in enumerate(line.parts))
        return Line(f"{line.label}:", parts=parts)
    levels = sets[place]
    inside = [
        [label for label, code in own if attribute not in levels or code in levels[attribute]]
        for attribute, own in groups.items()
    ]
    return Line(line.label, tuple(product(*inside)))
