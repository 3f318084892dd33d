"""Write a first release file, which plans and runs as it is, and which a person can go on from.

Its attributes come from a codebook, from a sample that is not confidential, from the records themselves, or
from flags. What the file is made of is checked before it is written, and the file is planned afterwards.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.budget.strategy import Strategy, expected_errors, parse_fraction
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.load import plan_from_mapping
from tallyveil.plans.inputs import GeographyInput
from tallyveil.schema.attribute import ranges_of
from tallyveil.storage.addresses import address_of, is_object
from tallyveil.storage.json_files import toml_key, toml_lines, toml_table
from tallyveil.storage.outputs import new_file
from tallyveil.storage.paths import is_same_file
from tallyveil.storage.read import (
    PLAIN,
    TextForm,
    collect,
    column_names,
    require_counts,
    require_levels,
    require_numbers,
    require_text,
    scan_table,
)
from tallyveil.storage.write import write_text

MOST_LEVELS = 5000
"""Largest number of levels of an attribute that are taken from a file."""


@dataclass(frozen=True, slots=True)
class FirstAttribute:
    """An attribute as the file will have it.

    Attributes:
        name: Its name, and its column in the records.
        levels: Names of its levels.
        is_number: Whether the column holds whole numbers and the levels are ranges.
    """

    name: str
    levels: tuple[str, ...]
    is_number: bool = False


def read_codebook(
    path: Path, numbers: Iterable[str] = (), form: TextForm = PLAIN
) -> tuple[FirstAttribute, ...]:
    """The attributes of a codebook: a table with a row for each level, and the columns `attribute` and `level`.

    Args:
        path: The codebook, Parquet or CSV.
        numbers: Attributes whose columns hold whole numbers. Their levels are ranges.
        form: How a text file is written.
    Raises:
        ConfigError: a column is missing, a value is null, an attribute has more than `MOST_LEVELS` levels, or `numbers`
            names no attribute of the codebook.
        StoreError: the file cannot be read.
        SchemaError: a level of `numbers` is no range, or a column holds lists, structures, bytes or durations.
    """
    columns = ["attribute", "level"]
    frame = scan_table(path, columns, "codebook", form=form)
    require_levels(frame, columns, path, "codebook")
    rows = collect(frame, path, "codebook").cast(pl.String)
    if rows.is_empty() or rows.null_count().sum_horizontal().item():
        raise ConfigError(
            f"the codebook {path} has no rows, or a row without an attribute or a level. Give every level a row of "
            "its own, with both.",
            code="bad-codebook",
        )
    levels: dict[str, list[str]] = {}
    for name, level in rows.iter_rows():
        levels.setdefault(name, []).append(level)
    _refuse_unknown(numbers, levels, f"the codebook {path}")
    return tuple(_attribute(name, tuple(listed), name in set(numbers)) for name, listed in levels.items())


def read_levels(
    path: Path, attributes: Sequence[str], what: str, *, confidential: bool = False
) -> tuple[FirstAttribute, ...]:
    """Attributes whose levels are the values that a table has, in ascending order.

    Args:
        path: A sample that is not confidential and has every level; or the records, if their owner allows it.
        attributes: Columns.
        what: The role of the file, for messages.
        confidential: Whether the header of the file must not be shown, because it may be a record.
    Raises:
        ConfigError: a column is missing, has nulls, or has more than `MOST_LEVELS` values.
        StoreError: the file cannot be read.
    Privacy: which values occur becomes public. For records this is a decision of their owner.
    """
    attributes_read = []
    for name in attributes:
        frame = scan_table(path, [name], what, confidential=confidential)
        require_levels(frame, [name], path, what)
        levels = collect(frame, path, what)[name].cast(pl.String).unique().sort()
        if levels.null_count():
            raise ConfigError(
                f"column {name!r} of the {what} file {path} has rows without a value. Give every row one, or leave the "
                "attribute out with --attributes.",
                code="bad-codebook",
            )
        attributes_read.append(_attribute(name, tuple(levels), is_number=False))
    return tuple(attributes_read)


def columns_besides(path: Path, others: Iterable[str | None], what: str) -> tuple[str, ...]:
    """Columns of a sample that are neither the geocode nor the count."""
    return tuple(name for name in column_names(path, what) if name not in set(others))


def ranges_of_bands(text: str) -> str:
    """The ranges of a shorthand: "0:5:85" is "0-4,5-9,...,80-84,85+".

    Raises:
        ConfigError: it is no such shorthand.
    """
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ConfigError(_bands_wanted(text), code="bad-flag")
    start, width, last = map(int, parts)
    if width < 1 or last <= start or (last - start) % width or (last - start) // width > MOST_LEVELS:
        raise ConfigError(_bands_wanted(text), code="bad-flag")
    closed = (f"{low}-{low + width - 1}" if width > 1 else str(low) for low in range(start, last, width))
    return ",".join([*closed, f"{last}+"])


def numbered(ranges: Mapping[str, str]) -> tuple[FirstAttribute, ...]:
    """Attributes with the ranges that flags give.

    Args:
        ranges: Ranges of each attribute, separated by commas.
    Raises:
        SchemaError: a text is no range, or two ranges share a number.
    """
    return tuple(
        _attribute(name, tuple(part.strip() for part in text.split(",")), is_number=True)
        for name, text in ranges.items()
    )


def _attribute(name: str, levels: tuple[str, ...], is_number: bool) -> FirstAttribute:
    if len(levels) > MOST_LEVELS:
        raise ConfigError(
            f"attribute {name!r} has more than {MOST_LEVELS:,} levels, the most that init writes. If its column holds "
            "numbers, give their ranges with --ranges or --bands. Otherwise leave it out with --attributes.",
            code="bad-codebook",
        )
    if is_number:
        ranges_of(levels, name)
    return FirstAttribute(name, levels, is_number)


def _refuse_unknown(numbers: Iterable[str], levels: Mapping[str, object], where: str) -> None:
    if unknown := [name for name in numbers if name not in levels]:
        raise ConfigError(
            f"--numbers names {', '.join(unknown)}, which {where} does not have. It has {', '.join(levels)}.",
            code="bad-flag",
        )


def _bands_wanted(text: str) -> str:
    return (
        f"--bands has {text!r}, wanted START:WIDTH:LAST, such as 0:5:85 for 0-4, 5-9, ..., 80-84, 85+. LAST less START "
        f"is a multiple of WIDTH, and there are at most {MOST_LEVELS:,} bands."
    )


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
        form: How the table of records is written, if it is a text file.
        missing: Level of records without a value, by attribute.
        exact: Geolevels whose totals are published exactly.
        names: The public table of names of areas, as the file will name it; None without one.
        strategy: How the budget is divided; None for equal shares of the geolevels (`queries`).
        labels: The labels in each language: the tables of `[labels.LANGUAGE]`.
        made_by: The command that writes the file.
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
    form: TextForm = PLAIN
    missing: tuple[tuple[str, str], ...] = ()
    exact: tuple[str, ...] = ()
    names: str | None = None
    strategy: Strategy | None = None
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    made_by: str = "init"

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
    yield (
        f"# Made by `tallyveil {first.made_by}`. `tallyveil plan` shows what it costs and how exact it will be."
    )
    yield toml_table("release", {"name": first.name})
    yield "# Confidential.\n" + toml_table("records", _records(first))
    if first.missing:
        yield "# What a record without a value counts as.\n" + toml_table(
            "records.missing", dict(first.missing)
        )
    yield (
        "# Public: every area (geounit) of the finest geolevel, also those where nobody lives.\n"
        + toml_table("geography", _geography(first))
    )
    words = {"name": first.name, "unit": first.unit, "units": first.units}
    yield toml_table("schema", {key: word for key, word in words.items() if word is not None})
    for attribute in first.attributes:
        yield "\n".join(
            ["[[schema.attributes]]", *toml_lines({"name": attribute.name, "levels": list(attribute.levels)})]
        )
    if first.exact:
        yield (
            "# Published without noise, because everybody knows these totals.\n[[invariants]]\n"
            + "\n".join(toml_lines({"query": "total", "geolevels": list(first.exact)}))
        )
    yield from _budget(first)
    outputs: dict[str, object] = {"tables": list(first.tables)}
    outputs |= {"intervals": "0.95"} if first.is_gaussian else {}
    yield toml_table("outputs", outputs)
    if any(first.labels.values()):
        yield "# What readers call the release and its parts, in each language; the first is shown without a choice."
    for language, called in first.labels.items():
        yield from _nested(f"labels.{language}", called)


def _nested(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    """A table, and the tables in it."""
    entries = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    # A language may have no label at all, and is still one of the languages.
    if entries or not table:
        yield toml_table(name, entries)
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _nested(f"{name}.{toml_key(key)}", value)


def _budget(first: FirstFile) -> Iterator[str]:
    """The tables of the budget, and of its division."""
    unit, value = first.budget
    mechanism = "discrete_gaussian" if first.is_gaussian else "discrete_laplace"
    yield (
        '# What may be spent, and what nobody may find out: "bounded" hides what a record says, "unbounded" also '
        "whether it is there. Both are decisions of policy.\n"
        + toml_table("privacy", {"neighbours": first.neighbours, "mechanism": mechanism, unit: str(value)})
    )
    yield (
        "# How the budget is divided. `tallyveil plan --optimise` finds better shares for what you need most.\n"
        + (toml_table("strategy", {unit: str(value)}))
    )
    if first.strategy is not None:
        shares = first.strategy.geolevel_shares
        yield toml_table("strategy.geolevels", {name: str(share) for name, share in shares})
        for name, _ in shares:
            parts = {query: str(part) for query, part in first.strategy.shares_of(name)}
            yield toml_table(f"strategy.queries.{toml_key(name)}", parts)
        return
    share = Fraction(1, len(first.geolevels))
    yield toml_table("strategy.geolevels", {name: str(share) for name, _ in first.geolevels})
    queries = {name: str(share) for name, share in first.queries.items()}
    yield f"[strategy.queries.{toml_key('*')}]\n" + "\n".join(toml_lines(queries))


def _records(first: FirstFile) -> dict[str, object]:
    table: dict[str, object] = {"path": first.records, "geocode": first.geocode}
    table |= {} if first.count is None else {"count": first.count}
    form = {"delimiter": first.form.delimiter, "encoding": first.form.encoding, "decimal": first.form.decimal}
    table |= {key: text for key, text in form.items() if text != getattr(PLAIN, key)}
    numbers = [attribute.name for attribute in first.attributes if attribute.is_number]
    return table | ({"numbers": numbers} if numbers else {})


def _geography(first: FirstFile) -> dict[str, object]:
    names = [name for name, _ in first.geolevels]
    sources = [source for _, source in first.geolevels[:-1]]
    table: dict[str, object] = {"path": first.geography, "geocode": first.geocode, "geolevels": names}
    table |= {} if first.names is None else {"names": first.names}
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


@dataclass(frozen=True, slots=True)
class FirstFileWishes:
    """What somebody asks for, with paths as they see them.

    Attributes:
        records, geography: Paths of the tables.
        geocode, count: Columns.
        geolevels: As in `FirstFile`.
        attributes: The attributes.
        name, unit, units, neighbours: As in `FirstFile`.
        budget: Unit and value, as text.
        out: The file to write.
    """

    records: Path
    geography: Path
    geocode: str
    count: str | None
    geolevels: tuple[tuple[str, int | str | None], ...]
    attributes: tuple[FirstAttribute, ...]
    name: str
    unit: str | None
    units: str | None
    neighbours: str
    budget: tuple[str, str]
    out: Path


def make_first(asked: FirstFileWishes, read_geography: Callable[[GeographyInput], object]) -> None:
    """Write a release file. It is planned before it is written, so a file that is there can be used.

    Args:
        asked: What the file is made of.
        read_geography: Reads the geography as a run does. Its result is not used.
    Raises:
        ConfigError, SchemaError, BudgetError: something asked for is wrong, such as a column that is not there, or
            counts that are no whole numbers.
        GeographyError: the geocodes are no tree with these geolevels.
        StoreError: a table cannot be read, or `out` exists.
    Privacy: of the records, only the names and types of the columns are looked at.
    """
    refuse_records(asked.geography, asked.records, "--geography")
    with new_file(asked.out, [asked.records, asked.geography]):
        _look_at_columns(asked)
        text = release_text(_first_file(asked))
        plan = plan_from_mapping(tomllib.loads(text), asked.out.parent)
        expected_errors(plan.strategy)
        read_geography(plan.geography)
        write_text(asked.out, text)


def refuse_records(public: Path, records: Path, flag: str) -> None:
    """Refuse the confidential table where a public one is wanted.

    Args:
        public: The file that a flag names.
        records: The confidential table.
        flag: The flag.
    Raises:
        ConfigError: both are the same file, possibly through symbolic or hard links.
    """
    if not is_same_file(public, records):
        return
    raise ConfigError(
        f"{flag} names the records. Its file must be public, because what it says is published: a codebook and a "
        "geography also list what no record has. Name another file. If the values that occur in the records may "
        "become public, --levels-from-records takes the levels from them.",
        code="bad-flag",
    )


def _look_at_columns(asked: FirstFileWishes) -> None:
    """Check the names and types of the columns of the records."""
    path, names = asked.records, [attribute.name for attribute in asked.attributes]
    wanted = [asked.geocode, *names, *([asked.count] if asked.count else [])]
    records = scan_table(path, wanted, "records", confidential=True)
    require_text(records, asked.geocode, path, "records")
    require_levels(records, names, path, "records")
    require_numbers(
        records, [attribute.name for attribute in asked.attributes if attribute.is_number], path, "records"
    )
    if asked.count is not None:
        _refuse_weights(records.collect_schema()[asked.count], asked)
        require_counts(records, asked.count, path, "records")


def _first_file(asked: FirstFileWishes) -> FirstFile:
    """What the file will say."""
    folder = asked.out.parent
    return FirstFile(
        name=asked.name,
        records=relative_to(asked.records, folder),
        geocode=asked.geocode,
        count=asked.count,
        geography=relative_to(asked.geography, folder),
        geolevels=asked.geolevels,
        finest_length=_finest_length(asked),
        attributes=asked.attributes,
        unit=asked.unit,
        units=asked.units,
        neighbours=asked.neighbours,
        budget=_wished_budget(asked),
        tables=tables_of(asked.attributes),
    )


def _finest_length(asked: FirstFileWishes) -> int:
    """Number of characters of the longest of the finest geocodes."""
    columns = [source for _, source in asked.geolevels if isinstance(source, str)]
    frame = scan_table(asked.geography, [asked.geocode, *columns], "geography")
    require_text(frame, asked.geocode, asked.geography, "geography")
    codes = collect(frame.select(pl.col(asked.geocode).cast(pl.String)), asked.geography, "geography")
    length = codes.to_series().str.len_chars().max()
    return length if isinstance(length, int) else 0


def _wished_budget(asked: FirstFileWishes) -> tuple[str, Fraction]:
    unit, text = asked.budget
    value = parse_fraction(text, f"--{unit}")
    if value <= 0:
        raise ConfigError(f"--{unit} is {text}, wanted a number above 0, such as 1/2.", code="bad-flag")
    return unit, value


def _refuse_weights(kind: pl.DataType, asked: FirstFileWishes) -> None:
    if kind.is_float():
        raise ConfigError(
            f"column {asked.count!r} of the records file {asked.records} holds decimal numbers, such as survey "
            "weights. A weighted count has no fixed sensitivity, so it cannot be released. Leave --count out to "
            "count the records of the sample, or store the counts as whole numbers.",
            code="fractional-weights",
        )


@dataclass(frozen=True, slots=True)
class AttributesAsked:
    """What flags say of the attributes. At most one of `codebook`, `sample` and `from_records` is given.

    Attributes:
        records: The confidential table.
        codebook: Public table of levels; None without one.
        sample: Table that is not confidential and has every level; None without one.
        from_records: Whether the levels are those that occur in the records.
        wanted: Names of the attributes, in order; empty for all that the codebook, the sample or `ranges` has.
        numbers: Attributes of the codebook whose columns hold whole numbers.
        ranges: Ranges of columns of numbers, by column. They replace what the codebook or the sample says.
        besides: Columns that are no attributes: those of geocodes and of counts.
    """

    records: Path
    codebook: Path | None
    sample: Path | None
    from_records: bool
    wanted: Sequence[str]
    numbers: Sequence[str]
    ranges: Mapping[str, str]
    besides: tuple[str | None, ...]


def first_attributes(asked: AttributesAsked) -> tuple[FirstAttribute, ...]:
    """The attributes of a first release file, in the order in which they are named.

    Args:
        asked: What flags say.
    Raises:
        ConfigError: the codebook or the sample is the confidential table, `numbers` is given without a codebook, an
            attribute has no levels, or the files are not as `read_codebook` and `read_levels` want them.
        SchemaError, StoreError: as `read_codebook` and `read_levels`.
    Privacy: the records are read only with `from_records`. Which values occur there then becomes public.
    """
    for flag, file in (("--codebook", asked.codebook), ("--sample", asked.sample)):
        if file is not None:
            refuse_records(file, asked.records, flag)
    if asked.numbers and asked.codebook is None:
        raise ConfigError(
            "--numbers names attributes of a codebook, which is not given. Give --codebook FILE, or the ranges of each "
            "column of numbers with --ranges or --bands, which need no --numbers.",
            code="bad-flag",
        )
    coded = () if asked.codebook is None else read_codebook(asked.codebook, asked.numbers)
    known = {attribute.name: attribute for attribute in (*coded, *numbered(asked.ranges))}
    names = _names(asked, known)
    known |= {
        attribute.name: attribute for attribute in _read(asked, [name for name in names if name not in known])
    }
    _require_levels(names, known)
    return tuple(known[name] for name in names)


def _names(asked: AttributesAsked, known: Iterable[str]) -> Sequence[str]:
    """Names of the attributes, in order."""
    if asked.wanted:
        return asked.wanted
    if asked.from_records:
        raise ConfigError("--levels-from-records needs --attributes COLUMN,...", code="bad-flag")
    return tuple(known) if asked.sample is None else columns_besides(asked.sample, asked.besides, "sample")


def _read(asked: AttributesAsked, names: Sequence[str]) -> tuple[FirstAttribute, ...]:
    """Attributes with the levels that occur in the sample or, if their owner allows it, in the records."""
    if asked.sample is not None:
        return read_levels(asked.sample, names, "sample")
    return read_levels(asked.records, names, "records", confidential=True) if asked.from_records else ()


def _require_levels(names: Sequence[str], known: Mapping[str, FirstAttribute]) -> None:
    lacking = [name for name in names if name not in known] if names else ["every attribute"]
    if lacking:
        raise ConfigError(
            f"nothing says which levels {', '.join(lacking)} has. Give --codebook FILE, --sample FILE, --ranges or "
            "--bands. Levels are not guessed from confidential records.",
            code="bad-flag",
        )
