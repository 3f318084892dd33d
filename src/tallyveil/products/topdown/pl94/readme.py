"""The page for people who open the folder of a publication."""

import textwrap
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from tallyveil.accounting.decimals import at_most, delta_text
from tallyveil.accounting.exact import exact_text
from tallyveil.accounting.ledger.joint_cost import least_epsilon
from tallyveil.files.marks import mark_lines
from tallyveil.products.topdown.pl94.areas import PublishedAreas
from tallyveil.storage.json_files import JsonObject

_WIDTH: Final = 100

NUMBERS: Final = (
    "All numbers are whole and not negative, and every subtotal is the sum of its parts. They hold the noise of "
    "the releases. A number of a small area may be far from the truth in relation to its size."
)
"""What to know of the numbers of every publication."""

GEOCODES: Final = (
    "Geocodes are text and may begin with a zero. Some programs turn them into numbers when they open a CSV "
    "file. A spreadsheet computes a text that begins with =, +, - or @ as a formula. Import all columns with codes "
    "or names as text."
)
"""What to know of the geocodes of every publication."""

_FILES: Final = """\
tables/<areas>/<table>.parquet    one row for each area: geolevel, geocode, and the columns of the table
geography/<areas>.parquet         one row for each area, in the same order: geocode; finest_geounits, how many
                                  finest geounits it consists of; for each coarser geolevel the geounit that holds
                                  the whole area (empty if none does); POP100, its people; if there is a table H1,
                                  HU100, its housing units. For the finest geounits, also the entities that they
                                  lie in.
labels.parquet                    what each column counts: table, title, universe, column, position, indent, label,
                                  path
publication.json                  where the numbers come from, what they cost, and the SHA-256 of every file
*.csv, if there are any           the same rows as the Parquet files of the same name
"""


def readme_text(content: JsonObject, areas: PublishedAreas) -> str:
    """The text of README.txt.

    Args:
        content: What `publication.json` says.
        areas: The areas.
    """
    kinds = [f"{name} ({len(areas.codes(name)):,})" for name in areas.names]
    parts = [
        *mark_lines(content["warnings"]),
        f"Tables {', '.join(content['tables'])} of the redistricting data (P.L. 94-171), with the identifiers and "
        "labels of the Census Bureau. They were made by Tallyveil from releases with differential privacy. They are "
        "no publication of the Census Bureau.",
        f"Areas: {', '.join(kinds)}.",
        f"{NUMBERS} Persons and housing units have noise of their own, so a block may have people in households and no "
        "occupied housing unit, or the other way round.",
        GEOCODES,
        *cost_lines(content),
    ]
    return page(parts, _FILES)


def page(parts: Iterable[str], files: str) -> str:
    """Paragraphs of a page, wrapped, and the list of the files of its folder."""
    return "\n\n".join(textwrap.fill(part, _WIDTH) for part in parts) + f"\n\nFiles\n\n{files}"


def cost_lines(content: JsonObject) -> list[str]:
    """What each release costs, and what two cost together; one text each."""
    said = [f"Release of {one['counts']}: {one['privacy']['statement']}." for one in content["releases"]]
    together = content.get("together", {})
    if "rho" in together:
        delta, rho = delta_text(Fraction(together["delta"])), exact_text(Fraction(together["rho"]))
        said.append(
            f"{together['statement']} epsilon <= {at_most(least_epsilon(together))} at delta = {delta}, "
            f"{together['neighbours']} neighbours; rho = {rho}."
        )
    if "not_exact" in together:
        said[-1] += f" This epsilon is an upper bound, and a smaller one may hold: {together['not_exact']}."
    return said
