"""What people begin with: a first release file for their own records, or made-up people with a release file.

A release file that is written here plans and runs as it is. No person among the made-up people is real, so
they need no protection.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

from pydantic import PlainValidator, ValidationInfo

from tallyveil.api.arguments import AnyPath, Flag, Names, Text, Wanted, WholeNumber, checked
from tallyveil.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.synthetic.population import PublishedCounts


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
    from tallyveil.plans.from_toml.first_file import (
        AttributesAsked,
        FirstFileWishes,
        first_attributes,
        geolevels_of,
        make_first,
        ranges_of_bands,
    )
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


EXAMPLE: Final = ("persons.csv", "areas.csv", "codebook.csv", "README.txt")
"""Files of the small example of the tutorial."""
PEOPLE_PER_BLOCK: Final = 40
"""People of SafeTab's made-up data for each block, as in the country's blocks on average. With twice as many, half as
many groups are too small to be shown in detail."""
COMMAND: Final = "synth"
WHAT: Final = "a made-up population"
RELEASE_FILE: Final = "release.toml"
DHC: Final = "dhc"
DEFAULT_SCHEMA: Final = "pl94-persons"
DHC_RELEASES: Final = ("redistricting", "h1", "dhc-persons", "dhc-units")
"""Releases of the programme that the people and units of schema "dhc" come with."""
AGREEING: Final = ("h1", "dhc-persons", "dhc-units")
"""The releases that have another release file with `--agree`."""
PROGRAMME_FILE: Final = "programme.toml"
SIZED: Final = ("dhc-persons", "dhc-units")
"""The releases that have another release file with `--sizes`."""
SIZES: Final = {"none": None, "tract": "Tract", "block": "Block"}
"""Where household sizes add up to the people in households, by value of `--sizes`."""
LONGEST_TITLE: Final = 60
"""Characters of the name of a release, after the folder of its inputs. A release file takes names of up to 200."""
BLOCK_LENGTH: Final = 15
"""Characters of a block's geocode. The release files take the geocodes above it from its beginning."""
GEOLEVEL_LENGTHS: Final = {"state": 2, "county": 5, "tract": 11, "block_group": 12}


NO_SIZE: Final = (
    "--safetab needs --people N, --blocks N or both. It cannot be combined with --states, --schema, --like, "
    "--like-geography or --geometry, because its states and codes come from PARAMS."
)


@checked
def write_safetab_country(
    out: AnyPath,
    params: AnyPath,
    *,
    blocks: WholeNumber | None = None,
    people: WholeNumber | None = None,
    seed: WholeNumber = 1,
) -> list[Path]:
    """Write made-up person-records and GRF-C for the codes and states of SafeTab parameters.

    Args:
        out: Folder to write to, new or empty.
        params: Folder of the parameters.
        blocks: Number of blocks; None for one for every 40 people.
        people: Number of people; None for 40 in each block. Give this, or blocks, or both.
        seed: The same seed makes the same people.
    Returns:
        Paths of the files.
    Raises:
        ConfigError: no size is given, or the parameters are wrong.
    """
    from tallyveil.products.safetab import made_up
    from tallyveil.products.safetab.public.config import read_config
    from tallyveil.products.safetab.public.iterations import read_iterations
    from tallyveil.storage.outputs import new_folder

    if blocks is None and people is None:
        raise ConfigError(
            NO_SIZE,
            code="bad-flag",
        )
    config, files = read_config(Path(params)), read_iterations(Path(params))
    # At least a block in each state, so that every state of the parameters has people.
    n_states = sum(len(config.states_of(run)) for run in config.runs)
    n_blocks = blocks if blocks is not None else max(n_states, (people or 0) // PEOPLE_PER_BLOCK)
    n_people = people if people is not None else n_blocks * PEOPLE_PER_BLOCK
    # Names of all files that are written, because what an interrupted call left of them is removed.
    with new_folder(Path(out), COMMAND, WHAT, made_up.SAFETAB_FILES):
        return made_up.write_safetab_country(
            Path(out), config, files, people=n_people, blocks=n_blocks, seed=seed
        )


@checked
def write_country(
    out: AnyPath,
    *,
    blocks: WholeNumber | None = None,
    schema: Text = DEFAULT_SCHEMA,
    people: WholeNumber | None = None,
    states: WholeNumber | None = None,
    like: AnyPath | None = None,
    like_geography: AnyPath | None = None,
    seed: WholeNumber = 1,
    name: Text | None = None,
    intervals: Text | None = None,
    agree: Flag = False,
    sizes: Text = "none",
    geometry: Flag = False,
) -> list[Path]:
    """Write a made-up population and its release file, or its programme; return the paths of the files.

    Args:
        out: Folder to write to, new or empty.
        blocks: Number of finest geounits. Give this or `like`.
        schema: Schema preset; also "pl94-units", "race-age", and "dhc" for households with people in them and a
            programme of four releases.
        people: Number of people; None for about 40 in each block.
        states: Number of states; None for one for every 400,000 blocks.
        like: Table whose counts are kept: geocode, voting_age, race_ethnicity, count.
        like_geography: Table of all blocks of `like`, including empty ones; None for the table `*_blocks` beside
            `*_counts` if there is one, else only the blocks of `like`.
        seed: The same seed makes the same population.
        name: Name of the release; None for that of the folder.
        intervals: Coverage of the intervals that the release file asks for; None for no intervals.
        agree: Whether the files of persons and of units agree, with "dhc".
        sizes: With `agree`, where household sizes add up to the people in households: "none", "tract" or "block". With
            "tract" there is one state.
        geometry: Whether every block gets a polygon, which the release files name.
    Raises:
        ConfigError: not exactly one of `blocks` and `like` is given, `people` or `states` is given with `like`, the
            schema is not a known preset, `agree` is given without a programme, or `sizes` is unknown, given without
            `agree`, or "tract" with several states.
    """
    from tallyveil.products.dhc.made_up.population import DHC_FILES, write_dhc_states
    from tallyveil.storage.outputs import new_folder
    from tallyveil.storage.write import write_text
    from tallyveil.synthetic.population import (
        COUNTRY_FILES,
        MAP_FILE,
        geography_of,
        make_states,
        settled_states,
        write_map,
        write_states,
    )

    out = Path(out)
    # Before the folder is made: a wrong argument leaves nothing behind.
    _check_country(blocks, None if like is None else Path(like), schema)
    dhc, title = schema == DHC, name or _title_of(out)
    if agree and not dhc:
        raise ConfigError(
            f"--agree needs --schema {DHC}, which makes both persons and units.", code="bad-flag"
        )
    if sizes not in SIZES or (sizes != "none" and not agree):
        raise ConfigError(
            f"--sizes {sizes}: wanted one of {', '.join(SIZES)}. Sizes in tracts or blocks need --agree.",
            code="bad-flag",
        )
    in_tracts = sizes == "tract"
    if in_tracts and (states or 1) > 1:
        raise _needs_single_state()
    files = _dhc_toml_files(agree=agree, sized=sizes != "none") if dhc else {RELEASE_FILE: schema}
    with new_folder(out, COMMAND, WHAT, [*(DHC_FILES if dhc else COUNTRY_FILES), MAP_FILE, *files]):
        published = None if like is None else _published(Path(like), like_geography)
        # How many states the kept counts have is known only when they are read.
        if in_tracts and published is not None and geography_of(published)["state"].n_unique() > 1:
            raise _needs_single_state()
        if dhc:
            n_states = 1 if in_tracts and like is None else states
            paths = write_dhc_states(settled_states(blocks, seed, published, people, n_states), seed, out)
        else:
            paths = write_states(make_states(schema, blocks, seed, published, people, states), out)
        if geometry:
            paths["geometry"] = write_map(paths["geography"], seed)
        # the last table of every release file is [outputs]
        ending = "" if intervals is None else f'intervals = "{intervals}"\n'
        for file, template in files.items():
            text = _filled(template, title, paths).replace("@SIZES@", SIZES[sizes] or "")
            write_text(out / file, (_with_geometry(text) if geometry else text) + ending)
    return [*paths.values(), *(out / file for file in files)]


def _with_geometry(text: str) -> str:
    """A release file that names the made-up polygons; that of a programme has no geography."""
    from tallyveil.synthetic.population import MAP_FILE

    # Behind the path of the geography, whose table has no other key that could stand there.
    return re.sub(r"(\n\[geography\].*\npath = .*\n)", rf'\1geometry = "{MAP_FILE}"\n', text)


def _needs_single_state() -> Exception:
    return ConfigError(
        "--sizes tract needs one state: the spine of several states has no tracts. Use --sizes block or --states 1.",
        code="bad-flag",
    )


def _check_country(blocks: int | None, like: Path | None, schema: str) -> None:
    from tallyveil.schema.names import closest_hint
    from tallyveil.synthetic.population import PRESETS

    if (blocks is None) == (like is None):
        raise ConfigError("give either --blocks N or --like COUNTS.", code="bad-flag")
    if schema not in (known := (*PRESETS, DHC)):
        parts = schema.startswith(DHC)
        hint = (
            f"Use --schema {DHC}, which makes both persons and units."
            if parts
            else closest_hint(schema, known)
        )
        raise ConfigError(
            f"--schema {schema}: there is no made-up population of this kind. {hint}", code="bad-flag"
        )


def _dhc_toml_files(*, agree: bool, sized: bool) -> dict[str, str]:
    """The files of the programme, with their templates."""
    # The files of persons and units have the product's name already; those of people at large get it.
    releases = {name: name if name.startswith(DHC) else f"{DHC}-{name}" for name in DHC_RELEASES}
    files = {
        f"{name}.toml": f"{template}-agree" if agree and name in AGREEING else template
        for name, template in releases.items()
    }
    if sized:
        files |= {f"{name}.toml": f"{files[f'{name}.toml']}-sizes" for name in SIZED}
    return {**files, PROGRAMME_FILE: f"{DHC}-programme{'-agree' if agree else ''}"}


def _title_of(out: Path) -> str:
    """A name for releases, after the folder that their inputs are written to; other signs become hyphens."""
    return re.sub(r"[^\w .,()-]", "-", out.name)[:LONGEST_TITLE].strip() or "synthetic"


def _filled(name: str, title: str, paths: dict[str, Path]) -> str:
    """A release file. With several states, the template with a geolevel US is used if there is one."""
    import polars as pl

    from tallyveil.storage.read import scan_parquet

    folder = resources.files("tallyveil.api.release_files")
    n_states = scan_parquet(paths["geography"]).select(pl.col("state").n_unique()).collect().item()
    # A single state needs no level above it, and a template without one is simpler to read.
    template = folder / f"{name}-us.toml"
    if n_states == 1 or not template.is_file():
        template = folder / f"{name}.toml"
    text = template.read_text(encoding="utf-8").replace("@NAME@", title)
    for part, path in paths.items():
        text = text.replace(f"@{part.upper()}@", path.name)
    return text


def _published(like: Path, like_geography: "str | Path | None") -> "PublishedCounts":
    import polars as pl

    from tallyveil.storage.read import is_input
    from tallyveil.synthetic.population import PublishedCounts

    counts = _with_block_codes(like, ["geocode", "voting_age", "race_ethnicity", "count"], "counts")
    # Published tables come in pairs, whose names differ in this word alone.
    beside = like.with_name(like.name.replace("_counts", "_blocks"))
    if like_geography is None and beside != like and is_input(beside, "geography"):
        like_geography = beside
    if like_geography is not None:
        blocks = _with_block_codes(Path(like_geography), ["geocode", *GEOLEVEL_LENGTHS], "geography")
    else:
        blocks = (
            # Without a table of all blocks the empty ones are not known, and blocks with counts are all there are.
            counts.select("geocode")
            .unique()
            .with_columns(
                pl.col("geocode").str.head(length).alias(name) for name, length in GEOLEVEL_LENGTHS.items()
            )
        )
    return PublishedCounts(counts, blocks)


def _with_block_codes(path: Path, columns: list[str], what: str) -> "pl.DataFrame":
    """A table whose column `geocode` holds the geocodes of blocks; raises ConfigError, GeographyError, StoreError."""
    import polars as pl

    from tallyveil.errors import GeographyError
    from tallyveil.storage.read import read_table, require_text

    rows = read_table(path, columns, what)
    # A number has lost the zeros of its front, and its length would still look right for some states.
    require_text(rows.lazy(), "geocode", path, what)
    rows = rows.with_columns(pl.col("geocode").cast(pl.String))
    wrong = rows["geocode"].filter(rows["geocode"].str.len_chars() != BLOCK_LENGTH)
    if len(wrong):
        raise GeographyError(
            f"column 'geocode' of the {what} file {path} has {len(wrong):,} geocodes that do not have {BLOCK_LENGTH} "
            f"characters, such as {wrong[0]!a:.40}. Wanted the geocodes of blocks."
        )
    return rows


@checked
def write_example(out: AnyPath) -> list[Path]:
    """Write the small example of the tutorial: made-up records, areas and a codebook.

    Args:
        out: Folder to write to, new or empty.
    Returns:
        Paths of the files.
    """
    from tallyveil.storage.outputs import new_folder
    from tallyveil.storage.write import write_text

    folder, source = Path(out), resources.files("tallyveil") / "tutorial"
    with new_folder(folder, "init", "a made-up example", EXAMPLE):
        for name in EXAMPLE:
            write_text(folder / name, (source / name).read_text(encoding="utf-8"))
    return [folder / name for name in EXAMPLE]
