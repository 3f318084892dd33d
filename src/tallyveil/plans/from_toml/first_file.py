"""Write a first release file, which plans and runs as it is, and which a person can go on from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.first_levels import FirstAttribute
from tallyveil.storage.addresses import address_of, is_object
from tallyveil.storage.json_files import toml_key, toml_lines, toml_table


@dataclass(frozen=True, slots=True)
class FirstFile:
    """What a first release file says.

    Attributes:
        name: Name of the release.
        records: The confidential table, as the file will name it.
        geocode: Its column of geocodes, and that of the geography.
        count: Its column of counts; None for one row a record.
        geography: The public table of the finest geounits, as the file will name it.
        geolevels: Name of each geolevel, root first, and where its geocodes come from: a length of the prefix, or a
            column. The finest one has neither.
        finest_length: Number of characters of the finest geocodes.
        attributes: The attributes.
        unit, units: What a record stands for, and its plural; None for persons.
        neighbours: "bounded" or "unbounded".
        budget: `rho` or `epsilon`, and its value.
        tables: Queries to publish.
    """

    name: str
    records: str
    geocode: str
    count: str | None
    geography: str
    geolevels: tuple[tuple[str, int | str | None], ...]
    finest_length: int
    attributes: tuple[FirstAttribute, ...]
    unit: str | None
    units: str | None
    neighbours: str
    budget: tuple[str, Fraction]
    tables: tuple[str, ...]

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is discrete Gaussian, whose budget is rho."""
        return self.budget[0] == "rho"

    @property
    def queries(self) -> dict[str, Fraction]:
        """The share of each query, as a part of its geolevel's share.

        With several attributes: a fifth for the total, two fifths for the attributes together, each alone, and two
        fifths for all cells. With one attribute: a third for the total, and two thirds for its levels.
        """
        names = [attribute.name for attribute in self.attributes]
        if len(names) == 1:
            return {"total": Fraction(1, 3), "detailed": Fraction(2, 3)}
        single = {name: Fraction(2, 5 * len(names)) for name in names}
        return {"total": Fraction(1, 5), **single, "detailed": Fraction(2, 5)}


def geolevels_of(text: str) -> tuple[tuple[str, int | str | None], ...]:
    """The geolevels of a flag: "Region=1,Town=3,Block" with lengths of prefixes, or "Region=region,Block" with columns.

    Raises:
        ConfigError: a part before the last has no `=`, the last one has one, or lengths and columns are mixed.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    geolevels = [
        (name.strip(), _source(source.strip()) if equals else None) for name, equals, source in parts
    ]
    above, kinds = geolevels[:-1], {type(source) for _, source in geolevels[:-1]}
    if (
        geolevels[-1][1] is not None
        or type(None) in kinds
        or len(kinds) > 1
        or any(not name for name, _ in geolevels)
    ):
        raise ConfigError(
            f"--geolevels has {text!r}, wanted the geolevels from the root down, such as Region=1,Town=3,Block. A "
            "number is the length of the geocode's prefix, and a word the column of the geography that has the "
            "geocodes. The finest geolevel has none of these.",
            code="bad-flag",
        )
    return (*above, (geolevels[-1][0], None))


def release_text(first: FirstFile) -> str:
    """The release file as TOML, with a comment on each table."""
    return "\n\n".join(_tables(first)) + "\n"


def _tables(first: FirstFile) -> Iterator[str]:
    yield "# Made by `tallyveil init`. `tallyveil plan` shows what it costs and how exact it will be."
    yield toml_table("release", {"name": first.name})
    yield "# Confidential.\n" + toml_table("records", _records(first))
    yield "# Public: every geounit of the finest geolevel, also the empty ones.\n" + toml_table(
        "geography", _geography(first)
    )
    words = {"name": first.name, "unit": first.unit, "units": first.units}
    yield toml_table("schema", {key: word for key, word in words.items() if word is not None})
    for attribute in first.attributes:
        yield "\n".join(
            ["[[schema.attributes]]", *toml_lines({"name": attribute.name, "levels": list(attribute.levels)})]
        )
    yield from _budget(first)
    outputs: dict[str, object] = {"tables": list(first.tables)}
    outputs |= {"intervals": "0.95"} if first.is_gaussian else {}
    yield toml_table("outputs", outputs)


def _budget(first: FirstFile) -> Iterator[str]:
    """The tables of the budget, and of its division."""
    unit, value = first.budget
    mechanism = "discrete_gaussian" if first.is_gaussian else "discrete_laplace"
    yield (
        "# What may be spent, and what two populations may differ in. Policy decides both.\n"
        + toml_table("privacy", {"neighbours": first.neighbours, "mechanism": mechanism, unit: str(value)})
    )
    yield (
        "# How the budget is divided. `tallyveil plan --optimise` finds better shares for what you need most.\n"
        + (toml_table("strategy", {unit: str(value)}))
    )
    share = Fraction(1, len(first.geolevels))
    yield toml_table("strategy.geolevels", {name: str(share) for name, _ in first.geolevels})
    queries = {name: str(share) for name, share in first.queries.items()}
    yield f"[strategy.queries.{toml_key('*')}]\n" + "\n".join(toml_lines(queries))


def _records(first: FirstFile) -> dict[str, object]:
    table: dict[str, object] = {"path": first.records, "geocode": first.geocode}
    table |= {} if first.count is None else {"count": first.count}
    numbers = [attribute.name for attribute in first.attributes if attribute.is_number]
    return table | ({"numbers": numbers} if numbers else {})


def _geography(first: FirstFile) -> dict[str, object]:
    names = [name for name, _ in first.geolevels]
    sources = [source for _, source in first.geolevels[:-1]]
    table: dict[str, object] = {"path": first.geography, "geocode": first.geocode, "geolevels": names}
    if sources and isinstance(sources[0], str):
        return {**table, "parent_columns": sources}
    return {**table, "prefix_lengths": [*sources, first.finest_length]}


def tables_of(attributes: Sequence[FirstAttribute]) -> tuple[str, ...]:
    """Queries to publish: the total, each attribute, and if there are at most 1,000 cells also all cells."""
    cells = 1
    for attribute in attributes:
        cells *= len(attribute.levels)
    few = len(attributes) > 1 and cells <= 1000
    return ("total", *(attribute.name for attribute in attributes), *(("detailed",) if few else ()))


def relative_to(path: Path, folder: Path) -> str:
    """A path as a file in that folder names it: relative if it lies in the folder, else absolute; or an address."""
    if is_object(path):
        return address_of(path)
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def _source(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else text
