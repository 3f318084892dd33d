"""The page for people who open the folder of a publication."""

from typing import Final

from tallyveil.files.marks import mark_lines
from tallyveil.products.topdown.pl94.areas import PublishedAreas
from tallyveil.products.topdown.pl94.readme import GEOCODES, NUMBERS, cost_lines, page
from tallyveil.storage.json_files import JsonObject

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
        *mark_lines(content["warnings"]),
        f"Tables {', '.join(content['tables']) or '(none)'} of the Demographic and Housing Characteristics. They were "
        "made by Tallyveil from releases with differential privacy. They are no publication of the Census Bureau. "
        "Columns are numbered in the order of their labels, and labels.parquet says what each counts.",
        f"Areas: {', '.join(kinds)}.",
        f"{NUMBERS} Persons and units have noise of their own, so the number of householders of an area may differ "
        "from the number of its occupied housing units.",
        "The microdata are made-up records that have the published counts. No row is the record of a person or a "
        "housing unit.",
        GEOCODES,
        *cost_lines(content),
    ]
    return page(parts, _FILES)
