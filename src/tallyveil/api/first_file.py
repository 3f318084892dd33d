"""Write a first release file for a table of records, which plans and runs as it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

from pydantic import PlainValidator, ValidationInfo

from tallyveil.api.arguments import AnyPath, Flag, Names, Text, Wanted, checked
from tallyveil.errors import ConfigError


def _by_column(texts: object, info: ValidationInfo) -> dict[str, str]:
    if isinstance(texts, Mapping):
        return dict(texts)
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ValueError("neither a mapping nor a list")
    by_column: dict[str, str] = {}
    for text in texts:
        column, _, value = text.partition("=")
        if not (column and value) or column in by_column:
            raise _each_once(str(info.context), text)
        by_column[column] = value
    return by_column


def _each_once(name: str, text: str) -> ConfigError:
    return ConfigError(f"--{name} has {text!r}, wanted COLUMN=..., with each column once.", code="bad-flag")


ByColumn = Annotated[
    Mapping[str, str] | Sequence[str],
    PlainValidator(_by_column),
    Wanted("a mapping, such as {'age': '0-17,18+'}"),
]
"""A text for each column: a mapping, or COLUMN=TEXT for each. `checked` hands on a mapping."""


@checked
def write_release_file(
    records: AnyPath,
    out: AnyPath,
    *,
    geography: AnyPath,
    geocode: Text,
    geolevels: Text,
    codebook: AnyPath | None = None,
    sample: AnyPath | None = None,
    levels_from_records: Flag = False,
    attributes: Names | None = None,
    numbers: Names | None = None,
    ranges: ByColumn | None = None,
    bands: ByColumn | None = None,
    count: Text | None = None,
    rho: Text | None = None,
    epsilon: Text | None = None,
    neighbours: Text = "bounded",
    name: Text | None = None,
    unit: Text | None = None,
    units: Text | None = None,
) -> list[str]:
    """Write a first release file. It is planned before it is written, so a file that is there can be used.

    The levels of attributes come from one place: a codebook, a sample, or the records.

    Args:
        records: Confidential table of records.
        out: File to write.
        geography: Public table of all finest geounits, also the empty ones.
        geocode: Column of the finest geocode, in both tables.
        geolevels: Geolevels from the root down, such as "Region=1,Town=3,Block". Each but the finest has the length of
            its prefix of the geocode, or the name of its column of the geography.
        codebook: Public table of all levels, with columns attribute and level.
        sample: Table with the columns of the records that is not confidential and has every level.
        levels_from_records: Whether the levels are those that occur in the records, which becomes public.
        attributes: Attributes to release; None for all of the codebook or of the sample.
        numbers: Attributes of the codebook whose columns hold whole numbers.
        ranges: Ranges of columns of numbers, such as {"age": "0-17,18-64,65+"}.
        bands: Equal ranges of others, as START:WIDTH:LAST: {"age": "0:5:85"} has 18 bands, from 0-4 to 85+.
        count: Column of counts; None if each row is one record.
        rho, epsilon: The budget, with discrete Gaussian or with discrete Laplace noise. Give one of them.
        neighbours: "bounded" or "unbounded".
        name: Name of the release; None for that of the table of records.
        unit, units: What a record stands for, and its plural; None for person.
    Returns:
        Names of the attributes.
    Raises:
        ConfigError: not exactly one budget, or several sources of levels are given, or a column is not there.
        TallyveilError: a table cannot be read, the geocodes are no tree, or `out` exists.
    Privacy: of the records, only the names and types of the columns are looked at, unless `levels_from_records` is set.
    """
    from tallyveil.plans.from_toml.first_attributes import AttributesAsked, first_attributes
    from tallyveil.plans.from_toml.first_file import geolevels_of
    from tallyveil.plans.from_toml.first_levels import ranges_of_bands
    from tallyveil.plans.from_toml.make_first import FirstFileWishes, make_first
    from tallyveil.products.topdown.run.inputs import read_spine

    if (rho is None) == (epsilon is None):
        raise ConfigError(
            "give either rho or epsilon, and not both: the budget of the release.", code="bad-argument"
        )
    if sum((codebook is not None, sample is not None, levels_from_records)) > 1:
        raise ConfigError(
            "codebook, sample and levels_from_records exclude each other: the levels come from one place. Give one.",
            code="bad-argument",
        )
    by_column = dict(cast(Mapping[str, str], ranges or {}))
    for column, text in cast(Mapping[str, str], bands or {}).items():
        if column in by_column:
            raise _each_once("bands", f"{column}={text}")
        by_column[column] = ranges_of_bands(text)
    table, levels = Path(records), geolevels_of(geolevels)
    measured = first_attributes(
        AttributesAsked(
            records=table,
            codebook=None if codebook is None else Path(codebook),
            sample=None if sample is None else Path(sample),
            from_records=levels_from_records,
            wanted=attributes or (),
            numbers=numbers or (),
            ranges=by_column,
            besides=(geocode, count),
        )
    )
    asked = FirstFileWishes(
        records=table,
        geography=Path(geography),
        geocode=geocode,
        count=count,
        geolevels=levels,
        attributes=measured,
        name=name or table.stem,
        unit=unit,
        units=units,
        neighbours=neighbours,
        budget=("epsilon", str(epsilon)) if rho is None else ("rho", rho),
        out=Path(out),
    )
    make_first(asked, read_spine)
    return [attribute.name for attribute in measured]
