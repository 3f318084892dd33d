"""Finds which settings of production the files were made with: their queries and variances say so.

A strategy gives every geounit and query a variance. Where geounits were bypassed, the share of an only child went to
its parent. The variances of the files must be those of the strategy, on their spine, up to the rounding of a 32-bit
number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.shares import GeounitShares, uniform_shares
from tallyveil.measurements.layouts.census_2020.names import ANSWERS, queries_by_name
from tallyveil.measurements.layouts.census_2020.source import SourceFiles
from tallyveil.measurements.layouts.census_2020.spine import SourceSpine
from tallyveil.noise.laws import DiscreteGaussian

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
        raise _bad(
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
    raise _bad(
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
        raise _bad(
            f"noisy answers at {geolevel} in {files.root} have no query name or no finite variance. A geounit that was "
            "not measured has no row in this layout. Download the files of this geolevel again."
        )
    return frame_of_variances


def _bad(what: str) -> ConfigError:
    return ConfigError(what, code="layout-settings")
