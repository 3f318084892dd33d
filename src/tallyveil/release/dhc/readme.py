"""The page for people who open the folder of a publication."""

import textwrap
from typing import Final

from tallyveil.release.pl94.areas import PublishedAreas
from tallyveil.release.pl94.readme import cost_lines
from tallyveil.storage.json_files import JsonObject

_WIDTH: Final = 100
_FILES: Final = """\
tables/<areas>/<table>.parquet    one row for each area: geolevel, geocode, and the columns of the table
geography/<areas>.parquet         one row for each area, in the same order: geocode; finest_geounits, how many
                                  finest geounits it consists of; for each coarser geolevel the geounit that holds
                                  the whole area (empty if none does); POP100, its people, and HU100, its housing
                                  units. For the finest geounits, also the entities that they lie in.
labels.parquet                    what each column counts: table, title, universe, column, position, indent, label,
                                  path
microdata/persons.txt, units.txt  one row for each record, with "|" between the fields, if microdata were asked for;
                                  the Parquet files of the same name have the same rows
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
        *content["warnings"],
        f"Tables {', '.join(content['tables']) or '(none)'} of the Demographic and Housing Characteristics. They were "
        "made by Tallyveil from releases with differential privacy. They are no publication of the Census Bureau. "
        "Columns are numbered in the order of their labels, and labels.parquet says what each counts.",
        f"Areas: {', '.join(kinds)}.",
        "All numbers are whole and not negative, and every subtotal is the sum of its parts. They hold the noise of "
        "the releases. A number of a small area may be far from the truth in relation to its size. Persons and "
        "units have noise of their own, so the number of householders of an area may differ from the number of its "
        "occupied housing units.",
        "The microdata are made-up records that have the published counts. No row is the record of a person or a "
        "housing unit.",
        "Geocodes are text and may begin with a zero. Some programs turn them into numbers when they open a CSV "
        "file. A spreadsheet computes a text that begins with =, +, - or @ as a formula. Import all columns with codes "
        "or names as text.",
        *cost_lines(content),
    ]
    return "\n\n".join(textwrap.fill(part, _WIDTH) for part in parts) + f"\n\nFiles\n\n{_FILES}"
