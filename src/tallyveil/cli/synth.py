"""`tallyveil synth`: make up a population of any size, with a release file that is ready to run."""

import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import SCHEMA, AsJson, Quiet, give_files

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.synthetic import PublishedCounts

DEFAULT_SCHEMA = "pl94-persons"
PEOPLE_PER_BLOCK = 40
COMMAND = "synth"
WHAT = "a made-up population"
RELEASE_FILE = "release.toml"
DHC = "dhc"
DHC_RELEASES = ("redistricting", "h1", "dhc-persons", "dhc-units")
"""Releases of the programme that the people and units of schema "dhc" come with."""
AGREEING = ("h1", "dhc-persons", "dhc-units")
"""The releases that have another release file with `--agree`."""
PROGRAMME_FILE = "programme.toml"
SIZED = ("dhc-persons", "dhc-units")
"""The releases that have another release file with `--sizes`."""
SIZES = {"none": None, "tract": "Tract", "block": "Block"}
"""Where household sizes add up to the people in households, by value of `--sizes`."""
LONGEST_TITLE = 60
BLOCK_LENGTH = 15
"""Characters of a block's geocode. The release files take the geocodes above it from its beginning."""
GEOLEVEL_LENGTHS = {"state": 2, "county": 5, "tract": 11, "block_group": 12}


def synth(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write to.")],
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", min=1, help="Number of finest geounits. Not with --like."),
    ] = None,
    people: Annotated[
        int | None,
        typer.Option("--people", min=0, help="Number of people. Default: about 40 for each block."),
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(
            "--states",
            min=1,
            max=51,
            help="Number of states; fewer if there are fewer counties. Default: one for every 400,000 blocks. A "
            "geolevel US is above several states.",
        ),
    ] = None,
    schema: Annotated[
        str,
        typer.Option(
            "--schema",
            help=f"{SCHEMA} Also pl94-units (the housing units of the same people: keep all other flags), race-age, "
            "and dhc (households with people in them, and a programme of four releases).",
        ),
    ] = DEFAULT_SCHEMA,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            help="Keep the counts of this table: geocode, voting_age, race_ethnicity, count (Parquet or CSV).",
        ),
    ] = None,
    like_geography: Annotated[
        Path | None,
        typer.Option(
            "--like-geography",
            help="Table of all blocks of --like, including empty ones: geocode, state, county, tract, block_group. "
            "Default: the table *_blocks beside *_counts if there is one, else only the blocks of --like.",
        ),
    ] = None,
    agree: Annotated[
        bool,
        typer.Option(
            "--agree",
            help="With --schema dhc and one state: a programme whose files of persons and of units agree.",
        ),
    ] = False,
    sizes: Annotated[
        str,
        typer.Option(
            "--sizes",
            help="With --agree: household sizes add up to the people in households of every tract or block (none, "
            "tract, block).",
        ),
    ] = "none",
    safetab: Annotated[
        Path | None,
        typer.Option(
            "--safetab",
            metavar="PARAMS",
            help="Instead, make SafeTab's person-records and GRF-C for the codes and states of this parameter folder.",
        ),
    ] = None,
    geometry: Annotated[
        bool,
        typer.Option(
            "--geometry",
            help="Make up a polygon for every block, too, and name them in the release files. To run these needs the "
            "extra `maps`.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same population.")] = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make up a population: records, geography, off-spine entities, facility bounds and a release file.

    With `--schema dhc`, the people live in households and facilities: `persons.parquet` and `units.parquet` agree.

    No person in it is real, so it needs no protection. Use it for trials, tests and benchmarks.
    """
    if safetab is not None:
        given = (
            states is not None,
            like is not None,
            like_geography is not None,
            schema != DEFAULT_SCHEMA,
            agree,
            sizes != "none",
            geometry,
        )
        paths = _write_safetab(out, safetab, blocks, people, seed, foreign=any(given))
    else:
        paths = write_country(
            out,
            blocks=blocks,
            people=people,
            states=states,
            schema=schema,
            like=like,
            like_geography=like_geography,
            seed=seed,
            agree=agree,
            sizes=sizes,
            geometry=geometry,
        )
    give_files(paths, quiet=quiet, as_json=as_json)


def _write_safetab(
    out: Path, params: Path, blocks: int | None, people: int | None, seed: int, *, foreign: bool
) -> list[Path]:
    """Write SafeTab's data files and return their paths.

    Raises:
        ConfigError: no size is given, or a flag for another kind of population is given.
    """
    from tallyveil.errors import ConfigError
    from tallyveil.products.safetab.made_up import SAFETAB_FILES, write_safetab_country
    from tallyveil.products.safetab.public.config import read_config
    from tallyveil.products.safetab.public.iterations import read_iterations
    from tallyveil.storage.outputs import new_folder

    if foreign or (blocks is None and people is None):
        raise ConfigError(
            "--safetab needs --people N, --blocks N or both. It cannot be combined with --states, --schema, --like, "
            "--like-geography or --geometry, because its states and codes come from PARAMS.",
            code="bad-flag",
        )
    config, files = read_config(params), read_iterations(params)
    n_states = sum(len(config.states_of(run)) for run in config.runs)
    n_blocks = blocks if blocks is not None else max(n_states, (people or 0) // PEOPLE_PER_BLOCK)
    n_people = people if people is not None else n_blocks * PEOPLE_PER_BLOCK
    with new_folder(out, COMMAND, WHAT, SAFETAB_FILES):
        return write_safetab_country(out, config, files, people=n_people, blocks=n_blocks, seed=seed)


def write_country(
    out: Path,
    *,
    blocks: int | None,
    schema: str,
    people: int | None = None,
    states: int | None = None,
    like: Path | None = None,
    like_geography: Path | None = None,
    seed: int = 1,
    name: str | None = None,
    intervals: str | None = None,
    agree: bool = False,
    sizes: str = "none",
    geometry: bool = False,
) -> list[Path]:
    """Write a made-up population and its release file, or its programme; return the paths of the files.

    If `intervals` is given, the release file asks for intervals with that coverage beside every count. If `agree` is
    given, the files of the programme agree; with `sizes`, also in household sizes, in every tract or block. If
    `geometry` is given, every block gets a polygon, and the release files name them.

    Raises:
        ConfigError: not exactly one of `blocks` and `like` is given, `people` or `states` is given with `like`, the
            schema is not a known preset, `agree` is given without a programme of one state, or `sizes` is unknown or
            given without `agree`.
    """
    from tallyveil.errors import ConfigError
    from tallyveil.products.dhc.made_up.files import DHC_FILES, write_dhc_states
    from tallyveil.storage.outputs import new_folder
    from tallyveil.storage.write import write_text
    from tallyveil.synthetic import COUNTRY_FILES, make_states, settled_states, write_states
    from tallyveil.synthetic.files import MAP_FILE, write_map
    from tallyveil.synthetic.published import geography_of

    _check_country(blocks, like, schema)
    dhc, title = schema == DHC, name or _title_of(out)
    if agree and (not dhc or (states or 1) > 1):
        raise _one_state_is_needed()
    if sizes not in SIZES or (sizes != "none" and not agree):
        raise ConfigError(
            f"--sizes {sizes}: wanted one of {', '.join(SIZES)}. Sizes in tracts or blocks need --agree.",
            code="bad-flag",
        )
    files = _dhc_toml_files(agree=agree, sized=sizes != "none") if dhc else {RELEASE_FILE: schema}
    with new_folder(out, COMMAND, WHAT, [*(DHC_FILES if dhc else COUNTRY_FILES), MAP_FILE, *files]):
        published = _published(like, like_geography) if like is not None else None
        if agree and published is not None and geography_of(published)["state"].n_unique() > 1:
            raise _one_state_is_needed()
        if dhc:
            n_states = 1 if agree and like is None else states
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
    from tallyveil.synthetic.files import MAP_FILE

    return re.sub(r"(\n\[geography\].*\npath = .*\n)", rf'\1geometry = "{MAP_FILE}"\n', text)


def _one_state_is_needed() -> Exception:
    from tallyveil.errors import ConfigError

    return ConfigError(
        f"--agree needs --schema {DHC} and one state: the strategies of files that agree have no geolevel above State.",
        code="bad-flag",
    )


def _check_country(blocks: int | None, like: Path | None, schema: str) -> None:
    from tallyveil.errors import ConfigError
    from tallyveil.schema.names import closest_hint
    from tallyveil.synthetic import PRESETS

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
    releases = {one: one if one.startswith(DHC) else f"{DHC}-{one}" for one in DHC_RELEASES}
    files = {
        f"{one}.toml": f"{template}-agree" if agree and one in AGREEING else template
        for one, template in releases.items()
    }
    if sized:
        files |= {f"{one}.toml": f"{files[f'{one}.toml']}-sizes" for one in SIZED}
    return {**files, PROGRAMME_FILE: f"{DHC}-programme{'-agree' if agree else ''}"}


def _title_of(out: Path) -> str:
    """A name for releases, after the folder that their inputs are written to; other signs become hyphens."""
    return re.sub(r"[^\w .,()-]", "-", out.name)[:LONGEST_TITLE].strip() or "synthetic"


def _filled(name: str, title: str, paths: dict[str, Path]) -> str:
    """A release file. With several states, the template with a geolevel US is used if there is one."""
    import polars as pl

    from tallyveil.storage.read import scan_parquet

    folder = resources.files("tallyveil.cli.release_files")
    n_states = scan_parquet(paths["geography"]).select(pl.col("state").n_unique()).collect().item()
    template = folder / f"{name}-us.toml"
    if n_states == 1 or not template.is_file():
        template = folder / f"{name}.toml"
    text = template.read_text(encoding="utf-8").replace("@NAME@", title)
    for part, path in paths.items():
        text = text.replace(f"@{part.upper()}@", path.name)
    return text


def _published(like: Path, like_geography: Path | None) -> "PublishedCounts":
    import polars as pl

    from tallyveil.storage.inputs import is_input
    from tallyveil.synthetic import PublishedCounts

    counts = _with_block_codes(like, ["geocode", "voting_age", "race_ethnicity", "count"], "counts")
    beside = like.with_name(like.name.replace("_counts", "_blocks"))
    if like_geography is None and beside != like and is_input(beside, "geography"):
        like_geography = beside
    if like_geography is not None:
        blocks = _with_block_codes(like_geography, ["geocode", *GEOLEVEL_LENGTHS], "geography")
    else:
        blocks = (
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
    require_text(rows.lazy(), "geocode", path, what)
    rows = rows.with_columns(pl.col("geocode").cast(pl.String))
    wrong = rows["geocode"].filter(rows["geocode"].str.len_chars() != BLOCK_LENGTH)
    if len(wrong):
        raise GeographyError(
            f"column 'geocode' of the {what} file {path} has {len(wrong):,} geocodes that do not have {BLOCK_LENGTH} "
            f"characters, such as {wrong[0]!a:.40}. Wanted the geocodes of blocks."
        )
    return rows
