"""The tables of `tables.toml` as layouts: numbered columns, and which groups of levels each column counts.

The columns of a table split the levels of each attribute into groups that no column tells apart. A recode of these
groups makes a query of few answers, and every column is a sum of its answers.

The lines of `tables.toml` are indented as trees. A condition in them is "factor = values". The factor is an attribute,
a recode, or a variable of household types; values are labels, or ranges of ages such as "0-17" and "65+". "*white*"
stands for all sets of races with White.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from tallyveil.errors import SchemaError
from tallyveil.products.topdown.pl94.layouts import PERSON_TABLES, TableLayout, TableLine, columns_of
from tallyveil.schema.attribute import Recode
from tallyveil.schema.household_types import AGES_IN_LABELS, HouseholdType, household_types
from tallyveil.schema.names import closest_hint
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

_INDENT: Final = "  "

Node = tuple[str, list["Node"]]


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a table.

    Attributes:
        label: What it counts, in words, without a colon at the end.
        conditions: What records must meet besides the conditions of the lines above.
        parts: The lines that it is the sum of.
    """

    label: str
    conditions: str
    parts: tuple["TextLine", ...]


def line_tree(lines: Sequence[str], lists: Mapping[str, Sequence[str]]) -> tuple[TextLine, ...]:
    """The lines without indentation, with their parts.

    Args:
        lines: Indented text.
        lists: The lines that a name in braces stands for.
    """
    return _expanded(_nodes(lines), {**_long_lists(), **lists})


def _nodes(lines: Sequence[str]) -> list[Node]:
    """Each line that is not indented, with the lines under it."""
    nodes: list[Node] = []
    # `below[d]` collects the lines of depth d under the last line of depth d - 1.
    below: list[list[Node]] = [nodes]
    for line in lines:
        text = line.lstrip()
        depth = (len(line) - len(text)) // len(_INDENT)
        node: Node = (text, [])
        below[depth].append(node)
        below[depth + 1 :] = [node[1]]
    return nodes


def _expanded(nodes: Sequence[Node], lists: Mapping[str, Sequence[str]]) -> tuple[TextLine, ...]:
    expanded: list[TextLine] = []
    for text, below in nodes:
        parts = _expanded(below, lists)
        # A name in braces stands for a list of lines; what is indented under it is put under each of its leaves.
        if text.startswith("{"):
            expanded += [
                _with_parts(line_of_list, parts)
                for line_of_list in _expanded(_nodes(lists[text.strip("{}")]), lists)
            ]
        else:
            label, _, conditions = (part.strip() for part in text.partition("|"))
            expanded.append(TextLine(label.removesuffix(":"), conditions, parts))
    return tuple(expanded)


def _with_parts(line: TextLine, parts: tuple[TextLine, ...]) -> TextLine:
    """A line whose leaves have parts."""
    if not line.parts:
        return replace(line, parts=parts)
    return replace(line, parts=tuple(_with_parts(part, parts) for part in line.parts))


def _long_lists() -> dict[str, list[str]]:
    """The lists that follow from rules: races, single years and types of group quarters."""
    years = [
        "Under 1 year | age = 0",
        "1 year | age = 1",
        *(f"{age} years | age = {age}" for age in range(2, 100)),
    ]
    oldest = [
        (100, "100 to 104 years", "100-104"),
        (105, "105 to 109 years", "105-109"),
        (110, "110 years and over", "110+"),
    ]
    return {
        "races_63": _races(),
        "years_under_20": years[:20],
        "years": years + [f"{label} | age = {ages}" for _, label, ages in oldest],
        "quarters_24": [f"{label} | relgq = {level}" for level, label in _QUARTERS.items()],
    }


def _races() -> list[str]:
    """The lines of all sets of races, as in table P1 of the redistricting data."""
    (table,) = (layout for layout in PERSON_TABLES if layout.name == "P1")
    return [
        _INDENT * (column.indent - 1)
        + (column.label if column.parts else f"{column.label} | cenrace = {column.counts[0][0]}")
        for column in table.columns[1:]
    ]


_QUARTERS: Final = {
    "federal_detention_centers": "Federal detention centers",
    "federal_prisons": "Federal prisons",
    "state_prisons": "State prisons",
    "local_jails": "Local jails and other municipal confinement facilities",
    "correctional_residential_facilities": "Correctional residential facilities",
    "military_disciplinary_barracks": "Military disciplinary barracks and jails",
    "juvenile_group_homes": "Group homes for juveniles (non-correctional)",
    "juvenile_treatment_centers": "Residential treatment centers for juveniles (non-correctional)",
    "juvenile_correctional_facilities": "Correctional facilities intended for juveniles",
    "nursing_facilities": "Nursing facilities/Skilled-nursing facilities",
    "psychiatric_hospitals": "Mental (psychiatric) hospitals and psychiatric units in other hospitals",
    "hospitals_without_usual_home_elsewhere": "Hospitals with patients who have no usual home elsewhere",
    "inpatient_hospices": "In-patient hospice facilities",
    "military_treatment_facilities": "Military treatment facilities with assigned patients",
    "residential_schools": "Residential schools for people with disabilities",
    "college_housing": "College/University student housing",
    "military_quarters": "Military quarters",
    "military_ships": "Military ships",
    "shelters": "Emergency and transitional shelters for people experiencing homelessness",
    "adult_group_homes": "Group homes intended for adults",
    "adult_treatment_centers": "Residential treatment centers for adults",
    "maritime_vessels": "Maritime/Merchant vessels",
    "workers_quarters": "Workers' group living quarters and job corps centers",
    "other_noninstitutional_quarters": "Other noninstitutional facilities",
}

LevelSets = Mapping[str, frozenset[int]]
"""Level codes by attribute. Attributes that are not named may have any level."""

_YES: Final = ("no", "yes")
VARIABLES: Final[Mapping[str, Callable[[HouseholdType], str]]] = MappingProxyType(
    {
        "couple": lambda household: household.couple.name.lower(),
        "relatives": lambda household: _YES[household.relatives],
        "own": lambda household: AGES_IN_LABELS[household.own_children],
        "minors": lambda household: AGES_IN_LABELS[household.minors],
        "under_18": lambda household: _YES[household.under_18],
        "multigenerational": lambda household: _YES[household.multigenerational],
        "size": lambda household: str(household.size),
    }
)
"""The word that each variable of household types has for a type."""


def level_sets(schema: Schema, conditions: str) -> LevelSets:
    """The levels that records with some conditions have.

    Args:
        schema: The schema of the records.
        conditions: Conditions that commas separate; may be empty.
    Raises:
        SchemaError: a factor or a value is unknown.
    """
    sets: dict[str, frozenset[int]] = {}
    for condition in filter(None, (text.strip() for text in conditions.split(","))):
        name, _, values = (part.strip() for part in condition.partition("="))
        attribute, levels_of = _factor(schema, name)
        codes = frozenset(code for value in values.split() for code in _codes(name, value, levels_of))
        # Conditions on one attribute intersect, so that a narrower line within a wider one is right.
        sets = dict(both({attribute: codes}, sets))
    return sets


def both(left: LevelSets, right: LevelSets) -> LevelSets:
    """The levels of records that have both."""
    return {
        name: left.get(name, right.get(name, frozenset())) & right.get(name, left.get(name, frozenset()))
        for name in dict.fromkeys((*left, *right))
    }


def _factor(schema: Schema, name: str) -> tuple[str, dict[str, list[int]]]:
    """The attribute of a factor, and the level codes of each of its labels."""
    labels: dict[str, list[int]] = {}
    if name in VARIABLES and "household" in schema.attribute_names:
        for code, household in enumerate(household_types()):
            labels.setdefault(VARIABLES[name](household), []).append(code)
        return "household", labels
    factor = next(
        factor_of_query for factor_of_query in schema.query(name).factors if factor_of_query.name is not None
    )
    for code, group in enumerate(factor.codes):
        if group >= 0:
            labels.setdefault(factor.labels[group], []).append(code)
    return factor.attribute, labels


def _codes(name: str, value: str, levels_of: Mapping[str, list[int]]) -> Iterator[int]:
    """The level codes of one value."""
    # Ages are levels 0 to the greatest, so that a label is its own code.
    if name == "age":
        first, _, last = value.removesuffix("+").partition("-")
        top = len(levels_of) - 1 if value.endswith("+") else int(last or first)
        yield from range(int(first), top + 1)
        return
    if value.startswith("*"):
        word = value.strip("*")
        yield from (code for label, codes in levels_of.items() if word in label.split("_") for code in codes)
        return
    if value not in levels_of:
        raise SchemaError(
            f"{name!r} has no value {value!r}; it has {', '.join(levels_of)}. Use one of these."
        )
    yield from levels_of[value]


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
    names = []
    for table in _definitions()["tables"]:
        if table["records"] == records:
            names.append(table["name"])
            if table.get("letters"):
                names += [f"{table['name']}{letter}" for letter in "ABCDEFGHI"]
    return tuple(names)


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
    known = [table_name for records in PRESETS for table_name in table_names(records)]
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
    levels = both(level_sets(schema, line.conditions), above)
    if not line.parts:
        return {place: levels}
    leaves: _LeafSets = {}
    for number, part in enumerate(line.parts):
        leaves |= _leaf_sets(schema, part, levels, (*place, number))
    return leaves


def _recodes(schema: Schema, leaves: Sequence[LevelSets]) -> tuple[Recode, ...]:
    """For each attribute that a leaf names, the groups of levels that no leaf tells apart."""
    recodes = []
    for attribute in schema.attributes:
        sets = {leaf[attribute.name]: None for leaf in leaves if attribute.name in leaf}
        if not sets:
            continue
        # A leaf that does not name the attribute counts all its levels, so that none may be left out.
        everywhere = any(attribute.name not in leaf for leaf in leaves)
        groups: dict[tuple[bool, ...], list[str]] = {}
        for code, level in enumerate(attribute.levels):
            # Levels with the same answers to "is it in this leaf" are told apart by no column and become one answer.
            inside = tuple(code in levels for levels in sets)
            if everywhere or any(inside):
                groups.setdefault(inside, []).append(level)
        named = tuple((str(number), tuple(levels)) for number, levels in enumerate(groups.values()))
        recodes.append(Recode(f"groups_of_{attribute.name}", attribute.name, named))
    # A query needs at least one factor.
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
) -> TableLine:
    """A line with the combinations of groups that it counts."""
    if line.parts:
        parts = tuple(_line(part, sets, groups, (*place, n)) for n, part in enumerate(line.parts))
        return TableLine(f"{line.label}:", parts=parts)
    levels = sets[place]
    inside = [
        [label for label, code in labelled if attribute not in levels or code in levels[attribute]]
        for attribute, labelled in groups.items()
    ]
    return TableLine(line.label, tuple(product(*inside)))
