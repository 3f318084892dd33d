"""Makes the spine that was measured from the geocodes of the files, and finds the settings they were made with.

Problem. The files list geocodes by geolevel. A geocode begins with the geocode of its parent, and all
geocodes of a geolevel have the same length. The geounits of production's spine are not those of the
tabulation geography: States are cut, and block groups are optimised ones. Counts are published for the
tabulation geography. The tree that was measured and the tabulation geography are wanted, with the same
blocks.

Steps. The geocodes of blocks give the tree: each geolevel has the prefixes of its length. These prefixes must
be exactly the geocodes that the files list there; otherwise files are missing. The last 16 digits of a
block's geocode give its tabulation block, block group, tract, county and State. A geolevel whose geounits are
those of the tabulation geography gets the tabulation geocodes. Any other geolevel keeps the geocodes of the
files.

Worked case. The geocodes 044...4400700010011001 and 144...4400700010011002 of blocks begin with 044 and 144.
These are two geounits at State, parts of the State 44. Both blocks are in the tabulation tract 44007000100.

Settings. A strategy gives every geounit and query a variance. Where geounits were bypassed, the share of an
only child went to its parent. The variances of the files must be those of the strategy, on their spine, up to
the rounding of a 32-bit number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.areas import Hierarchies, geounits_as_entities, plain_hierarchies
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import GeounitShares, Spine, uniform_shares
from tallyveil.measurements.layouts.census_2020.source import (
    ANSWERS,
    CONSTRAINTS,
    SourceFiles,
    queries_by_name,
    table_folder,
)
from tallyveil.noise.laws import DiscreteGaussian

_BLOCK: Final = "Block"
_BLOCK_DIGITS: Final = 16
"""Digits of a tabulation block with which a block's geocode ends: State 2, county 3, tract 6, block group 1, block
4."""
_TABULATION: Final = {"US": 0, "State": 2, "County": 5, "Tract": 11, "Block_Group": 12}
"""Number of digits of a tabulation block's geocode that name its geounit at each geolevel."""
_GEOCODES_SHOWN: Final = 3
"""Geocodes that a message shows as examples."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceSpine:
    """The spine of the files, and how their geocodes are found on it.

    Attributes:
        hierarchies: The spine that was measured and the tabulation geography; no shares yet.
        measured: For each geolevel, whether each geounit has noisy answers.
        source: The same tree with the geocodes of the files.
        rows: For each geolevel, the geounit of `hierarchies.spine` that each geounit of `source` is.
    """

    hierarchies: Hierarchies
    measured: tuple[np.ndarray, ...]
    source: Spine
    rows: tuple[Integers, ...]

    @property
    def spine(self) -> Spine:
        """The spine that was measured."""
        return self.hierarchies.spine

    def locate(self, level: int, geocodes: pl.Series) -> Integers:
        """Geounit of each geocode of the files; -1 where there is none."""
        return _located(self.source, self.rows[level], level, geocodes)


def read_spine(files: SourceFiles) -> SourceSpine:
    """Make the spine from the geocodes of all tables.

    Raises:
        GeographyError: geocodes are not nested, or a geounit lacks its parent or its children; a block's geocode does
            not name its tabulation block.
        StoreError: a file cannot be read.
    """
    geolevels = files.geolevels
    if geolevels[-1] != _BLOCK:
        raise _bad_geounits(
            f"{files.root} has no geolevel {_BLOCK}; it has {', '.join(geolevels)}. The tree of geounits is made "
            "from the geocodes of blocks. Add the files of the finest geolevel."
        )
    answered = {name: _geocodes(files, name, ANSWERS) for name in geolevels}
    # Bypassed geounits have constraints and no answers, so that both tables together list all geounits.
    listed = {
        name: pl.concat([answered[name], _geocodes(files, name, CONSTRAINTS)]).unique().sort()
        for name in geolevels
    }
    lengths = [_length(files, name, listed[name]) for name in geolevels]
    if any(longer <= shorter for shorter, longer in pairwise(lengths)):
        raise _bad_geounits(
            f"geocodes of {', '.join(geolevels)} in {files.root} have {', '.join(map(str, lengths))} characters; "
            "wanted more at each finer geolevel, because a geocode begins with that of its parent. Take all "
            "geolevels from the same product."
        )
    blocks = listed[_BLOCK]
    for name, length in zip(geolevels[:-1], lengths, strict=False):
        # Prefixes of blocks are the tree; the lists only prove that no file is missing.
        _require_same(files, name, listed[name], blocks.str.slice(0, length).unique().sort())
    source = spine_from_prefixes(blocks, geolevels, lengths)
    hierarchies = _hierarchies(source.geocodes[-1].text, geolevels, lengths)
    rows = _rows(source, hierarchies.spine)
    measured = []
    for level, name in enumerate(geolevels):
        here = np.zeros(source.n_geounits(level), dtype=np.bool_)
        here[_located(source, rows[level], level, answered[name])] = True
        measured.append(here)
    return SourceSpine(hierarchies, tuple(measured), source, rows)


def tabulation_blocks(geocodes: pl.Series) -> pl.Series:
    """The 15 digits of the tabulation block that each block geocode of the files ends with.

    The files write the number of the block group twice: by itself, and as the first digit of the block.
    """
    block_numbers = geocodes.str.tail(_BLOCK_DIGITS)
    return block_numbers.str.slice(0, 11) + block_numbers.str.slice(12)


def _geocodes(files: SourceFiles, geolevel: str, table: str) -> pl.Series:
    """The different geocodes of a table."""
    frame = files.scan(geolevel, table, ["geocode"]).unique()
    codes = files.collect(frame, geolevel, table)["geocode"]
    if codes.null_count():
        raise _bad_geounits(
            f"{files.root.joinpath(*table_folder(geolevel, table))} has rows without a geocode. Download the table "
            "again."
        )
    return codes


def _length(files: SourceFiles, geolevel: str, geocodes: pl.Series) -> int:
    """The one number of characters that the geocodes of a geolevel have."""
    lengths = geocodes.str.len_chars()
    if lengths.n_unique() == 1:
        return int(lengths[0])
    short, long = (geocodes.filter(lengths == end)[0] for end in (lengths.min(), lengths.max()))
    raise _bad_geounits(
        f"geocodes of {geolevel} in {files.root} have different lengths, such as {short!a:.60} and {long!a:.60}. In "
        "this layout all geocodes of a geolevel have the same number of characters. Take all files from one product."
    )


def _require_same(files: SourceFiles, geolevel: str, listed: pl.Series, prefixes: pl.Series) -> None:
    """Refuse geounits without blocks, and blocks whose geounit is not listed."""
    childless = listed.filter(~listed.is_in(prefixes.implode()))
    if len(childless):
        raise _bad_geounits(
            f"{len(childless):,} geounit(s) of {geolevel} in {files.root} have no blocks: {_examples(childless)}. "
            f"Files of finer geolevels are missing. Add them, or take the geounits out of {geolevel}, with all that is "
            "below them, so that the folder holds one whole tree."
        )
    orphans = prefixes.filter(~prefixes.is_in(listed.implode()))
    if len(orphans):
        raise _bad_geounits(
            f"blocks in {files.root} lie in {len(orphans):,} geounit(s) of {geolevel} that no table of {geolevel} "
            f"lists: {_examples(orphans)}. Add the files of {geolevel} for these, or remove the files of their blocks."
        )


def _hierarchies(blocks: pl.Series, geolevels: Sequence[str], lengths: Sequence[int]) -> Hierarchies:
    """The tree with tabulation geocodes where it has tabulation geounits, and the tabulation geography."""
    numbers = tabulation_blocks(blocks)
    _require_tabulation(blocks, numbers)
    geocodes, tabulated, replaced = {}, {}, []
    for name, length in zip(geolevels[:-1], lengths, strict=False):
        of_files = blocks.str.slice(0, length)
        digits = _TABULATION[name]
        of_tables = numbers.str.slice(0, digits) if digits else pl.repeat(name, len(numbers), eager=True)
        pairs = pl.DataFrame([of_files.alias("files"), of_tables.alias("tables")]).unique()
        # One to one: each geounit of the files is one of the tabulation, and the other way round.
        is_same = pairs.height == pairs["files"].n_unique() == pairs["tables"].n_unique()
        geocodes[name] = of_tables if is_same else of_files
        tabulated[name] = of_tables
        if not is_same:
            replaced.append(name)
    spine = spine_from_columns({**geocodes, _BLOCK: numbers}, geolevels)
    if not replaced:
        return plain_hierarchies(spine)
    original = spine_from_columns({**tabulated, _BLOCK: numbers}, geolevels)
    # The two trees sort their blocks by different geocodes.
    order = original.locate(original.finest, spine.geocodes[-1].text)
    areas = [geounits_as_entities(original, original.level_index(name)).reordered(order) for name in replaced]
    return Hierarchies(spine, original, replaced=tuple(areas))


def _require_tabulation(blocks: pl.Series, numbers: pl.Series) -> None:
    tail = blocks.str.tail(_BLOCK_DIGITS)
    # The block group is written twice, and must be the same both times.
    bad = ~tail.str.contains(r"^[0-9]{16}$") | (tail.str.slice(11, 1) != tail.str.slice(12, 1))
    if bool(bad.any()):
        raise _bad_geounits(
            f"{int(bad.sum()):,} geocode(s) of {_BLOCK} do not end with the 16 digits of a tabulation block, such as "
            f"{blocks.filter(bad)[0]!a:.60}. Wanted: State (2), county (3), tract (6), block group (1) and block (4, "
            "beginning with the block group). They say which State, county, tract and block group counts are "
            "published for. Take the files as the Census Bureau published them."
        )
    if numbers.n_unique() != len(numbers):
        twice = numbers.filter(numbers.is_duplicated())
        raise _bad_geounits(
            f"two geocodes of {_BLOCK} end with the same tabulation block, such as {twice[0]!a}. A block is in one "
            "place of the tree. Remove the files of one of the two."
        )


def _rows(source: Spine, spine: Spine) -> tuple[Integers, ...]:
    """The geounit of a spine that each geounit of the same tree in another order is, by geolevel."""
    numbers = tabulation_blocks(source.geocodes[-1].text)
    blocks = spine.locate(spine.finest, numbers)
    rows = [
        # A geounit is found by its first block.
        spine.ancestors(level)[blocks[source.finest_offsets(level)[:-1]]]
        for level in range(source.finest)
    ]
    return (*rows, blocks)


def _located(source: Spine, rows: Integers, level: int, geocodes: pl.Series) -> Integers:
    if source.n_geounits(level) == 1 and len(geocodes) and geocodes.eq("").all():
        return np.full(len(geocodes), rows[0], dtype=np.int64)  # a root with the empty geocode
    # -1 stays -1, and must not be used as an index from the end.
    places = source.locate(level, geocodes)
    return np.where(places < 0, -1, rows[places])


def _examples(geocodes: pl.Series) -> str:
    shown = ", ".join(f"{code!a:.60}" for code in geocodes.head(_GEOCODES_SHOWN))
    return shown + (", ..." if len(geocodes) > _GEOCODES_SHOWN else "")


def _bad_geounits(what: str) -> GeographyError:
    return GeographyError(what, code="layout-geounits")


TOLERANCE: Final = 1e-6
"""Largest relative difference of a variance in the files from that of the settings. Files hold 32-bit numbers."""
_SHOWN: Final = 4
"""Variances that a message offers as the right ones; bypassing makes some more."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceSettings:
    """The settings that the files were made with.

    Attributes:
        name: Name of the product.
        shares: Share of the budget of each geounit; None if none was bypassed.
        allocation: The strategy on the spine of the files.
        queries: For each geolevel, the query of each `query_name` of its noisy answers.
        variances: For each geolevel, the different pairs of a `query_name` and a variance in the files.
    """

    name: str
    shares: GeounitShares | None
    allocation: Allocation
    queries: Mapping[str, Mapping[str, str]]
    variances: Mapping[str, pl.DataFrame]


def find_settings(
    files: SourceFiles, spine: SourceSpine, strategies: Mapping[str, Strategy]
) -> SourceSettings:
    """The settings whose geolevels, queries and variances are those of the files.

    Args:
        files: The files.
        spine: Their spine.
        strategies: Known strategies by the name of their product.
    Raises:
        ConfigError: none has the geolevels, queries and variances of the files.
        GeographyError: geounits lack noisy answers although they have siblings.
        StoreError: a file cannot be read.
    """
    # Geolevels first: they are cheap to compare.
    same = {name: strategy for name, strategy in strategies.items() if strategy.geolevels == files.geolevels}
    if not same:
        known = "; ".join(f"{name}: {', '.join(strategy.geolevels)}" for name, strategy in strategies.items())
        raise _bad_settings(
            f"{files.root} has the geolevels {', '.join(files.geolevels)}. Known products have: {known}. Add the "
            "missing geolevels, or remove those above the part of the country that is imported."
        )
    # Read once for all strategies that are tried.
    tables = {name: _variances(files, name) for name in files.geolevels}
    mistakes = []
    for name, strategy in same.items():
        settings, mistake = _try(files, spine, name, strategy, tables)
        if settings is not None:
            return settings
        mistakes.append(f"  {name}: {mistake}")
    raise _bad_settings(
        f"the noisy answers in {files.root} were not made with the settings of a known product:\n"
        + "\n".join(mistakes)
        + "\nImport files of one product as they were published. Measurements with other settings stay in a folder of "
        "`tallyveil measure`."
    )


def expected_variances(allocation: Allocation, geolevel: str, query: str) -> list[NDArray[np.float64]]:
    """For each geounit, the two numbers that a file may call its variance: of the law, and the law's parameter.

    They differ by less than one millionth where the variance is 1 or more.
    """
    level = allocation.spine.level_index(geolevel)
    whole = allocation.variances(geolevel, query, 0, allocation.spine.n_geounits(level))
    by_position = np.full(len(allocation.shares.values), np.inf)
    # Laws are per position in the tree, so that each is computed once and not for every geounit.
    for position, law in allocation.laws(geolevel, query).items():
        by_position[position] = float(law.variance) if isinstance(law, DiscreteGaussian) else np.inf
    return [whole, by_position[allocation.positions(geolevel)]]


def rho_of_variances(spine: SourceSpine, settings: SourceSettings) -> float:
    """The rho that the variances of the files give: along a path, the sum of 1 / variance, where it is greatest.

    Under bounded neighbours a query whose groups do not overlap costs 1 / variance.
    """
    total = np.zeros(1)
    for level, geolevel in enumerate(spine.spine.geolevels):
        here = np.zeros(spine.spine.n_geounits(level))
        stated = settings.variances[geolevel]
        for name, query in settings.queries[geolevel].items():
            of_level = np.zeros_like(here)
            laws = expected_variances(settings.allocation, geolevel, query)
            for variance in stated.filter(pl.col("query_name") == name)["variance"]:
                fits = np.any([is_close(variance, wanted) for wanted in laws], axis=0)
                of_level[fits] = np.maximum(of_level[fits], 1 / variance)
            here += of_level
        # Along a path from the root: the spends of a geounit and of all above it add up.
        total = here + (total if level == 0 else total[spine.spine.parents(level)])
    return float(total.max())


def is_close(variance: NDArray[np.float64] | float, wanted: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether variances agree up to the rounding of a file. Where nothing is measured, none does."""
    # Infinity times a tolerance would accept anything; 0 accepts nothing.
    finite = np.where(np.isfinite(wanted), wanted, 0.0)
    return np.abs(variance - finite) <= TOLERANCE * finite


def _try(
    files: SourceFiles,
    spine: SourceSpine,
    name: str,
    strategy: Strategy,
    tables: Mapping[str, pl.DataFrame],
) -> tuple[SourceSettings | None, str]:
    """The settings if they fit, else the first mistake in words."""
    queries = {}
    for level, geolevel in enumerate(files.geolevels):
        named = queries_by_name(strategy.queries(geolevel), tables[geolevel]["query_name"].unique())
        unknown = sorted(set(tables[geolevel]["query_name"]) - set(named))
        missing = sorted(set(strategy.queries(geolevel)) - set(named.values()))
        if unknown:
            return None, f"{geolevel} has noisy answers of '{unknown[0]!s:.80}', which it does not measure"
        if missing and bool(spine.measured[level].any()):
            return None, f"{geolevel} has no noisy answers of {', '.join(missing)}"
        queries[geolevel] = named
    shares = _shares(spine, strategy)
    allocation = allocation_of(strategy, spine.spine, shares)
    for geolevel in files.geolevels:
        for query_name, variance in tables[geolevel].iter_rows():
            wanted = _wanted(allocation, geolevel, queries[geolevel][query_name])
            if not is_close(variance, wanted).any():
                return None, (
                    f"'{query_name}' at {geolevel} has the variance {variance!r}; wanted "
                    f"{' or '.join(f'{variance:.6g}' for variance in wanted[:_SHOWN])}"
                )
    return SourceSettings(name, shares, allocation, queries, tables), ""


def _wanted(allocation: Allocation, geolevel: str, query: str) -> NDArray[np.float64]:
    """The different variances that a query may have at a geolevel."""
    return np.unique(
        np.concatenate(
            [_distinct(variances) for variances in expected_variances(allocation, geolevel, query)]
        )
    )


def _distinct(values: NDArray[np.float64]) -> NDArray[np.float64]:
    finite: NDArray[np.float64] = values[np.isfinite(values)]
    return np.unique(finite)


def _shares(spine: SourceSpine, strategy: Strategy) -> GeounitShares | None:
    """Shares after bypassing, if some geounits have no noisy answers; those must be the only children."""
    if all(bool(measured.all()) for measured in spine.measured):
        return None
    # Bypassing is done again from the geography alone, and must leave out the same geounits as the files.
    uniform = uniform_shares(spine.spine, dict(strategy.geolevel_shares))
    spine_made, shares = bypass(spine.spine, uniform, BypassRule.SINGLE_CHILD)
    if spine_made.spine.digest() != spine.spine.digest():
        raise ValueError("bypassing only children changed the tree")
    for level, name in enumerate(spine.spine.geolevels):
        wrong = np.flatnonzero(shares.measured(level) != spine.measured[level])
        if len(wrong):
            lacks = bool(shares.measured(level)[wrong[0]])
            code = spine.spine.geocodes[level][int(wrong[0])]
            why = (
                "has no noisy answers, although it has siblings, so that it was not bypassed. Files are missing"
                if lacks
                else "has noisy answers, although it is an only child, and only children elsewhere have none. Files of "
                "different products are mixed"
            )
            raise GeographyError(
                f"{len(wrong):,} geounit(s) of {name} contradict the rule of bypassing: {code!a:.60} {why}. Take all "
                "files of one product, for one whole tree.",
                code="layout-geounits",
            )
    return shares


def _variances(files: SourceFiles, geolevel: str) -> pl.DataFrame:
    """The different pairs of a query name and a variance, at a geolevel."""
    frame = files.scan(geolevel, ANSWERS, ["query_name", "variance"]).unique()
    frame_of_variances = files.collect(frame, geolevel, ANSWERS).sort("query_name", "variance")
    bad = frame_of_variances.filter(
        pl.col("query_name").is_null() | pl.col("variance").is_null() | ~pl.col("variance").is_finite()
    )
    if bad.height:
        raise _bad_settings(
            f"noisy answers at {geolevel} in {files.root} have no query name or no finite variance. A geounit that was "
            "not measured has no row in this layout. Download the files of this geolevel again."
        )
    return frame_of_variances


def _bad_settings(what: str) -> ConfigError:
    return ConfigError(what, code="layout-settings")
