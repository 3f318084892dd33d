"""Finds what noisy answers of others were measured with: a declared strategy, or one computed from their variances.

A declared strategy gives every geounit and query a variance. Where geounits were bypassed, the share of an only child
went to its parent. The variances of the files must be those of the strategy, on their spine, up to the rounding of a
32-bit number.

Without a declared strategy, one is computed. A query costs rho = moved / (2 variance), where `moved` answers move
between neighbours: 1 / variance for bounded neighbours and groups that do not overlap. The costs are rounded up to
whole multiples of 2^-k, whose sums are exact and short. k is so large that the variance of a cost, as a 64-bit number,
is the number of the files. A geounit may have other variances than most of its geolevel, as where others were bypassed.
Then all its queries have the same multiple of the usual variances, and its share of the budget follows from it.

Worked case. The files give `total` the variance 4 and `sex` the variance 2 at the only geolevel. The costs are 1/4 and
1/2, the strategy spends 3/4, and the shares of the queries are 1/3 and 2/3.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.accounting.events import Neighbours
from tallyveil.arrays import Integers
from tallyveil.budget.allocation import Allocation, allocation_of, greatest_path
from tallyveil.budget.queries import sensitivities_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import ConfigError, GeographyError, SchemaError
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import GeounitShares, uniform_shares
from tallyveil.measurements.layouts.described.form import ANSWERS, Form
from tallyveil.measurements.layouts.described.source import GEOCODE, NAME, VARIANCE, SourceFiles
from tallyveil.measurements.layouts.described.spine import SourceSpine
from tallyveil.noise.laws import LARGEST_VARIANCE, SMALLEST_PARAMETER, DiscreteGaussian
from tallyveil.printable import short_name
from tallyveil.schema.schema import Schema

TOLERANCE: Final = 1e-6
"""Largest relative difference of a variance in the files from that of the settings. Files hold 32-bit numbers."""
_SHOWN: Final = 4
"""Variances that a message offers as the right ones; bypassing makes some more."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceSettings:
    """The settings that the files were made with.

    Attributes:
        name: Name of the product; None for a strategy that was computed.
        shares: Share of the budget of each geounit; None if none was bypassed.
        allocation: The strategy on the spine of the files.
        queries: For each geolevel, the query of each `query_name` of its noisy answers.
        variances: For each geolevel, the different pairs of a `query_name` and a variance in the files.
    """

    name: str | None
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
    """The rho that the variances of the files give: along a path, the sum of the costs, where it is greatest.

    Under bounded neighbours a query whose groups do not overlap moves two answers, and so costs 1 / variance.
    """
    total = np.zeros(1)
    for level, geolevel in enumerate(spine.spine.geolevels):
        here = np.zeros(spine.spine.n_geounits(level))
        stated = settings.variances[geolevel]
        for name, query in settings.queries[geolevel].items():
            of_level = np.zeros_like(here)
            moved = settings.allocation.strategy.answers_moved(query)
            laws = expected_variances(settings.allocation, geolevel, query)
            for variance in stated.filter(pl.col(NAME) == name)[VARIANCE]:
                fits = np.any([is_close(variance, wanted) for wanted in laws], axis=0)
                of_level[fits] = np.maximum(of_level[fits], moved / (2 * variance))
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
        names = tables[geolevel][NAME].unique()
        named = queries_by_name(files.form, strategy.queries(geolevel), names)
        unknown = sorted(set(tables[geolevel][NAME]) - set(named))
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
    frame = files.scan(geolevel, ANSWERS, [NAME, VARIANCE]).unique()
    pairs = files.collect(frame, geolevel, ANSWERS).sort(NAME, VARIANCE)
    for wrong, what in _mistakes(files.form):
        rows = pairs.filter(wrong)
        if rows.height:
            name, variance = rows.row(0)
            path = files.first_with(geolevel, ANSWERS, [NAME, VARIANCE], wrong)
            of = "noisy answers" if name is None else f"noisy answers of '{short_name(name)}'"
            said = what.replace(_ITS_VARIANCE, repr(variance))
            raise _bad_settings(f"{path}: {of} at {geolevel} {said}")
    return pairs


_ITS_VARIANCE: Final = "{variance}"
"""Stands for the variance of the row that is named. It is put in last, since names of columns may be anything."""


def _mistakes(form: Form) -> list[tuple[pl.Expr, str]]:
    """What a variance may not be, each with what is said of it and what can be done."""
    column, variance = form.columns.variance, pl.col(VARIANCE)
    smallest = float(SMALLEST_PARAMETER)
    if form.answers.variance == "noise":
        smallest = DiscreteGaussian(SMALLEST_PARAMETER).variance_float()
    other = (
        f"If '{column}' holds another number, such as a standard deviation, name the column of variances under "
        "[columns]; otherwise download the file again."
    )
    unmeasured = "A geounit that was not measured has no row. Remove these rows, or download the file again."
    return [
        (
            pl.col(NAME).is_null(),
            f"have no query in '{form.columns.query}'. Download the file again.",
        ),
        (variance.is_null(), f"have no number in '{column}'. {unmeasured}"),
        (~variance.is_finite(), f"have the variance {_ITS_VARIANCE}. {unmeasured}"),
        (variance < 0, f"have the variance {_ITS_VARIANCE}, which is negative. {other}"),
        (
            variance == 0,
            "have the variance 0, and noise has a greater one. Counts without noise belong into the table of "
            "constraints, which the description names under [files].",
        ),
        (
            ~variance.is_between(smallest, float(LARGEST_VARIANCE)),
            f"have the variance {_ITS_VARIANCE}; variances from {smallest:.3g} to {float(LARGEST_VARIANCE):.0e} can be "
            f"imported. {other}",
        ),
    ]


def queries_by_name(form: Form, queries: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """For each name in the files, the query that it is; none for a name of no query.

    The files may order the factors of a query's name freely. The answers have the order of the schema in any case.
    """
    # Sets of factors, because their order is free.
    known = {frozenset(query.split("*")): query for query in queries}
    named = {name: frozenset((form.query_of(name) or "").split("*")) for name in names}
    return {name: known[factors] for name, factors in named.items() if factors in known}


EXTRA_BITS: Final = 64
"""Binary digits of the smallest cost. A 64-bit number has 53; with fewer digits than that, the variance of a cost could
be another number than that of the files."""
_MIXED: Final = 2 * 1e-6
"""Relative difference of the multiples of two variances, each rounded to 32 bits."""


def computed_settings(
    files: SourceFiles, spine: SourceSpine, schema: Schema, neighbours: Neighbours
) -> SourceSettings:
    """A strategy whose variances are those of the files.

    Args:
        files: The files.
        spine: Their spine, which has measured geolevels alone.
        schema: The universe.
        neighbours: Relation under which its cost is stated.
    Raises:
        ConfigError: a name is no query of the schema, or the variances of a geounit are no multiple of the usual ones.
        GeographyError: geounits lack noisy answers although they have siblings.
        StoreError: a file cannot be read.
    """
    geolevels = spine.spine.geolevels
    tables = {name: _variances(files, name) for name in geolevels}
    queries = {name: _queries_of(files, schema, name, tables[name][NAME].unique()) for name in geolevels}
    every = dict.fromkeys(query for named in queries.values() for query in named.values())
    sensitivities = dict(sensitivities_of(schema, every))
    law = _Costs(
        files.form, {query: neighbours.answers_moved * sensitivities.get(query, 1) for query in every}, tables
    )
    costs, usual = [], {}
    for level, name in enumerate(geolevels):
        of_geounits, usual[name] = _costs_of(files, spine, level, queries[name], tables[name], law)
        costs.append(of_geounits)
    values = tuple(sorted({Fraction(0), *(cost for costs_here, _ in costs for cost in costs_here)}))
    number = {value: place for place, value in enumerate(values)}
    positions = tuple(
        np.array([number[cost] for cost in costs_here], dtype=np.int32)[place] for costs_here, place in costs
    )
    spent = GeounitShares(values, positions)
    for level in range(spine.spine.n_levels):
        _refuse_gaps(files, spine, level)
    total, _ = greatest_path(spine.spine, spent)
    whole = {name: sum(shares.values(), Fraction(0)) for name, shares in usual.items()}
    in_all = sum(whole.values(), Fraction(0))
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        neighbours,
        total,
        tuple((name, whole[name] / in_all) for name in geolevels),
        tuple(
            (name, tuple((q, cost / whole[name]) for q, cost in usual[name].items())) for name in geolevels
        ),
        tuple(sensitivities.items()),
    )
    # Where every geounit has the usual variances, the shares are those of the geolevels.
    even = all(
        bool((spent.positions[level] == number[whole[name]]).all()) for level, name in enumerate(geolevels)
    )
    shares = None if even else GeounitShares(tuple(value / total for value in values), positions)
    allocation = allocation_of(strategy, spine.spine, shares)
    return SourceSettings(None, shares, allocation, queries, tables)


def _queries_of(files: SourceFiles, schema: Schema, geolevel: str, names: Iterable[str]) -> dict[str, str]:
    """The query of each name at a geolevel, in the order of the description."""
    order = {query: place for place, (_, query) in enumerate(files.form.queries)}
    query_of: dict[str, str] = {}
    by_factors: dict[object, str] = {}
    for name in sorted(names):
        query = files.form.query_of(name)
        try:
            factors = schema.query(query or name).factors
        except SchemaError as error:
            raise _bad_settings(
                f"{geolevel} in {files.root} has noisy answers of '{short_name(name)}', which names no query: {error} "
                "Say under [queries] which query it is, add the recode to [schema], or leave its files out of the "
                "folder."
            ) from None
        if query is None:
            raise _bad_settings(
                f"{geolevel} in {files.root} has noisy answers of '{short_name(name)}', which is not named as "
                f"{files.form.answers.names!r}. Say under [queries] which query it is."
            )
        if factors in by_factors:
            raise _bad_settings(
                f"'{short_name(by_factors[factors])}' and '{short_name(name)}' at {geolevel} in {files.root} are the "
                "same query. Of a query that was measured twice only one can be imported. Leave the other out."
            )
        by_factors[factors] = name
        query_of[name] = query
    return dict(sorted(query_of.items(), key=lambda pair: (order.get(pair[1], len(order)), pair[1])))


class _Costs:
    """What a variance of the files costs, as a whole multiple of one power of 1/2."""

    def __init__(self, form: Form, moved: Mapping[str, int], tables: Mapping[str, pl.DataFrame]) -> None:
        self._moved = moved
        self._is_noise = form.answers.variance == "noise"
        largest = max(float(table[VARIANCE].max() or 1) for table in tables.values())  # type: ignore[arg-type]
        self._unit = Fraction(1, 1 << (EXTRA_BITS + max(0, int(np.ceil(np.log2(2 * largest))))))
        self._known: dict[tuple[str, float], Fraction] = {}

    def of(self, query: str, variance: float) -> Fraction:
        """The cost at which a query has the variance."""
        key = query, variance
        if key not in self._known:
            self._known[key] = self._computed(self._moved[query], variance)
        return self._known[key]

    def _computed(self, moved: int, variance: float) -> Fraction:
        wanted = self._rounded(moved, Fraction(variance))
        # Above 2 the variance of the noise is the parameter, up to less than the rounding of a 64-bit number.
        if not self._is_noise or variance > 2:
            return wanted
        # The variance of the noise rises with the parameter, which is larger: it lies between these two.
        first, last = max(Fraction(variance), SMALLEST_PARAMETER), Fraction(variance) + 2
        middle = (first + last) / 2
        for _ in range(2 * EXTRA_BITS):
            middle = (first + last) / 2
            cost = self._rounded(moved, middle)
            here = DiscreteGaussian(moved / (2 * cost)).variance_float()
            if here == variance:
                return cost
            first, last = (middle, last) if here < variance else (first, middle)
        # Between two neighbouring costs: both are as near as a cost can be.
        return self._rounded(moved, middle)

    def _rounded(self, moved: int, parameter: Fraction) -> Fraction:
        # Upwards, so that what is said to be spent is never less than the variance says.
        return math.ceil(moved / (2 * parameter) / self._unit) * self._unit


def _costs_of(
    files: SourceFiles,
    spine: SourceSpine,
    level: int,
    queries: Mapping[str, str],
    table: pl.DataFrame,
    law: _Costs,
) -> tuple[tuple[list[Fraction], Integers], dict[str, Fraction]]:
    """What each geounit of a geolevel costs: the different costs, and the number of each geounit's among them; and the
    usual cost of each query."""
    measured = spine.measured[level]
    usual = {name: _one_variance(table, name) for name in queries}
    if all(variance is not None for variance in usual.values()):
        of_query = {query: law.of(query, float(usual[name] or 0)) for name, query in queries.items()}
        return ([Fraction(0), sum(of_query.values(), Fraction(0))], measured.astype(np.int64)), of_query
    variances = _by_geounit(files, spine, level, list(queries))
    keys, place, times = np.unique(variances[measured][:, 0], return_inverse=True, return_counts=True)
    rows = np.flatnonzero(measured)
    # The most frequent variance of the first query; of equally frequent ones the smallest.
    most = keys[int(np.argmax(times))]
    first = {float(key): rows[int(np.argmax(place == number))] for number, key in enumerate(keys)}
    reference = variances[first[float(most)]]
    multiples = variances[rows] / reference
    wrong = np.abs(multiples / multiples[:, :1] - 1) > _MIXED
    if bool(wrong.any()):
        row, query = map(int, np.argwhere(wrong)[0])
        geounit = int(rows[row])
        names = list(queries)
        raise _bad_settings(
            f"'{short_name(names[query])}' has the variance {variances[geounit, query]!r} in "
            f"{spine.spine.geolevels[level]} {spine.spine.geocodes[level][geounit]!a:.60} in {files.root}, and usually "
            f"{reference[query]!r}; '{short_name(names[0])}' has {variances[geounit, 0]!r} there, and usually "
            f"{reference[0]!r}. All queries of a geounit must have the same multiple of their usual variances, as "
            "where the budget of bypassed geounits was moved. Other variances cannot be imported."
        )
    costs = [Fraction(0)]
    for key in keys:
        pairs = zip(queries.values(), variances[first[float(key)]], strict=True)
        costs.append(sum((law.of(query, float(variance)) for query, variance in pairs), Fraction(0)))
    numbers = np.zeros(len(measured), dtype=np.int64)
    numbers[rows] = 1 + place.reshape(-1)
    of_query = {
        query: law.of(query, float(variance))
        for query, variance in zip(queries.values(), reference, strict=True)
    }
    return (costs, numbers), of_query


def _one_variance(table: pl.DataFrame, name: str) -> float | None:
    """The variance that a query has in all geounits, up to the rounding of files; None if it has several."""
    variances = table.filter(pl.col(NAME) == name)[VARIANCE].to_numpy()
    return float(variances[0]) if bool(is_close(variances[-1], variances[:1]).all()) else None


def _by_geounit(files: SourceFiles, spine: SourceSpine, level: int, names: list[str]) -> NDArray[np.float64]:
    """The variance of each query in each geounit; NaN where it has none; shape (geounits, queries)."""
    geolevel = spine.spine.geolevels[level]
    frame = files.collect(
        files.scan(geolevel, ANSWERS, [GEOCODE, NAME, VARIANCE]).unique(), geolevel, ANSWERS
    )
    variances = np.full((spine.spine.n_geounits(level), len(names)), np.nan)
    for number, name in enumerate(names):
        rows = frame.filter(pl.col(NAME) == name)
        variances[spine.locate(level, rows[GEOCODE]), number] = rows[VARIANCE].to_numpy()
    some = np.isfinite(variances).any(axis=1)
    gaps = np.isnan(variances) & some[:, None]
    if bool(gaps.any()):
        geounit, query = map(int, np.argwhere(gaps)[0])
        raise SchemaError(
            f"{geolevel} {spine.spine.geocodes[level][geounit]!a:.60} in {files.root} has noisy answers of other "
            f"queries and none of '{short_name(names[query])}'. Download the files of {geolevel} again.",
            code="layout-rows",
        )
    return variances


def _refuse_gaps(files: SourceFiles, spine: SourceSpine, level: int) -> None:
    """Refuse geounits without noisy answers that have siblings, unless the files are a part of the tree."""
    tree = spine.spine
    lacking = ~spine.measured[level] & ~spine.lacking[level]
    if files.form.part or not bool(lacking.any()):
        return
    siblings = (
        np.full(tree.n_geounits(0), tree.n_geounits(0))
        if level == 0
        else np.diff(tree.child_offsets[level - 1])[tree.parents(level)]
    )
    wrong = np.flatnonzero(lacking & (siblings > 1))
    if len(wrong):
        raise GeographyError(
            f"{len(wrong):,} geounit(s) of {tree.geolevels[level]} in {files.root} have siblings and no noisy answers, "
            f"such as {tree.geocodes[level][int(wrong[0])]!a:.60}. Add their files; or give --part, which leaves "
            "unmeasured what the files lack.",
            code="layout-geounits",
        )


def _bad_settings(what: str) -> ConfigError:
    return ConfigError(what, code="layout-settings")
