"""Trees of lines from indented text, with lists of lines in the place of their names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tallyveil.products.topdown.pl94.layouts import PERSON_TABLES

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
    found: list[Node] = []
    below: list[list[Node]] = [found]
    for line in lines:
        text = line.lstrip()
        depth = (len(line) - len(text)) // len(_INDENT)
        node: Node = (text, [])
        below[depth].append(node)
        below[depth + 1 :] = [node[1]]
    return found


def _expanded(nodes: Sequence[Node], lists: Mapping[str, Sequence[str]]) -> tuple[TextLine, ...]:
    found: list[TextLine] = []
    for text, below in nodes:
        parts = _expanded(below, lists)
        if text.startswith("{"):
            found += [_with_parts(one, parts) for one in _expanded(_nodes(lists[text.strip("{}")]), lists)]
        else:
            label, _, conditions = (part.strip() for part in text.partition("|"))
            found.append(TextLine(label.removesuffix(":"), conditions, parts))
    return tuple(found)


def _with_parts(line: TextLine, parts: tuple[TextLine, ...]) -> TextLine:
    """A line whose leaves have parts."""
    if not line.parts:
        return replace(line, parts=parts)
    return replace(line, parts=tuple(_with_parts(one, parts) for one in line.parts))


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
