"""TopDown's errors by true size, beside lattice noise of the same cost: what the paper says of the Bureau's data.

The paper compares its noise with demonstration data of the Bureau, whose errors fall with a county's population. The
project does not have those data. So the real TopDown makes releases of two public populations of 2010, under the exact
total of every State: the counties of all States that have voting districts in the file, and the voting districts of
Kansas, many of which are small. The population query of a geolevel has the budget that the paper names: epsilon 0.192 =
4 x 0.16 x 0.3, pure differential privacy, for a person who is moved to another geounit. The move changes two counts. So
lattice noise of the same cost has epsilon 0.096 for each unit of l1 distance.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.guarantee import exact_parameters
from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.noise import NoiseSource
from tallyveil.report.drawing import BoxPanel, BoxPlot, BoxSeries, DotPanel, DotPlot, Dots, Role
from tallyveil.storage.read import collect, scan_text
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import (
    ILLINOIS,
    ILLINOIS_EPSILON,
    KEY,
    boxed,
    nearest_parameters,
)
from tallyveil_studies.releases import published_counts, release_text

DISTRICT_FILE: Final = "vtd/us_2010_vtd.csv.gz"
KANSAS: Final = "20"
KEYS: Final = 40
"""Number of releases of each population with each method."""
LATTICE_DRAWS: Final = 200
"""Draws of lattice noise of each population: five times the releases, because they cost no estimation."""

LATTICE: Final = "integer subspace"
ONE_PASS, TOTALS_FIRST = "TopDown, one pass", "TopDown, totals first"
PASSES: Final = {ONE_PASS: '[["*"]]', TOTALS_FIRST: '[["total"], ["*"]]'}
ROLES: Final = {ONE_PASS: Role.PUBLISHED, TOTALS_FIRST: Role.REDUCED, LATTICE: Role.OURS}

GEOLEVEL_EPSILON: Final = 4 * Fraction("0.16")
"""Epsilon of a geolevel: 4 x 0.16, as the paper says of the demonstration data."""

SHARES: Final = {
    "total": Fraction(3, 10),
    "voting_age": Fraction(1, 10),
    "race_ethnicity": Fraction(2, 10),
    "detailed": Fraction(4, 10),
}
"""Share of each query in the epsilon of a geolevel. The paper names the first; the others are chosen here."""
STATE_SHARES: Final = {
    query: share / (1 - SHARES["total"]) for query, share in SHARES.items() if query != "total"
}
"""The same at the State, whose total is exact."""
MOVED: Final = 2
"""The l1 distance of two tables of totals if one person is moved to another geounit."""
LATTICE_LAW: Final = GeneralisedLaplace(Norm.L1, ILLINOIS_EPSILON / MOVED)

SIZES: Final = {
    "County": (0, 1_000, 5_000, 10_000, 50_000, 200_000),
    "District": (0, 1, 100, 500, 1_000, 2_000),
}
"""The least total of each size class of a geolevel."""

_STATE_DIGITS, _COUNTY_DIGITS = 2, 5
_RACES: Final = ("hisp", "white", "black", "aian", "asian", "nhpi", "other", "two")
_ADDRESS: Final = 252
"""Field geolevel of this exhibit's addresses."""

Errors = dict[str, Integers]
"""By method: errors of the totals of the finest geolevel, int64 [draws, n_geounits]."""


class Population(NamedTuple):
    """Public counts of persons.

    Attributes:
        digits: The geolevels, root first, and the digits of their geocodes.
        records: Persons by `geocode`, `voting_age` and `race_ethnicity`, in column `count`.
        totals: `geocode` and `total` of every finest geounit, by geocode.
    """

    digits: dict[str, int]
    records: pl.DataFrame
    totals: pl.DataFrame

    @property
    def geolevel(self) -> str:
        """The finest geolevel."""
        return list(self.digits)[-1]

    @property
    def sizes(self) -> Integers:
        """The totals."""
        return np.asarray(self.totals["total"].to_numpy(), dtype=np.int64)

    def states(self) -> dict[str, Integers]:
        """By State, the places of its geounits from the smallest to the largest."""
        states = self.totals["geocode"].str.slice(0, _STATE_DIGITS).to_numpy()
        order = np.argsort(self.sizes, kind="stable")
        return {str(state): order[states[order] == state] for state in np.unique(states)}


def topdown_bias(inputs: StudyInputs, keys: int = KEYS) -> Findings:
    """Mean signed error by size in releases and with lattice noise.

    Args:
        inputs: Public counts of voting districts, and what makes a release.
        keys: Number of releases of each population with each method; at least 2.
    """
    counties, districts = populations(inputs)
    of_counties, of_districts = (_errors(inputs, part, keys) for part in (counties, districts))
    by_size = pl.concat([_by_size(counties, of_counties), _by_size(districts, of_districts)])
    slopes = _slopes(counties, of_counties)
    places = counties.states()[ILLINOIS]
    costs = pl.concat([_costs(counties), _costs(districts)])
    of_a_county = costs.filter(geolevel=counties.geolevel).drop("geolevel")
    return Findings(
        tables={
            "topdown-bias": by_size.join(costs, on=["geolevel", "method"], how="left"),
            "topdown-bias-slopes": slopes.join(of_a_county, on="method", how="left"),
            "topdown-bias-illinois": _by_county(counties, of_counties, places).join(
                of_a_county, on="method", how="left"
            ),
        },
        drawings={
            "topdown-bias": _size_plot(by_size, "County", "Counties by population"),
            "topdown-bias-districts": _size_plot(by_size, "District", "Voting districts by population"),
            "topdown-bias-illinois": _county_plot(counties, of_counties, places),
        },
        notes=(
            f"{counties.totals.height:,} counties of {len(counties.states())} States, and "
            f"{districts.totals.height:,} voting districts of Kansas; {keys} releases of each with each method, and "
            f"{LATTICE_DRAWS} draws of lattice noise. The counts are public, the keys are known, and no release is "
            "kept: these are test keys, and nothing here is protected by them.",
            "The privacy parameters are those that the noise of a whole release would have with a secret key, for a "
            "person who is moved to another geounit of the State. Lattice noise is on the totals alone.",
            *_sentences(
                slopes, {"counties": (counties, of_counties), "voting districts": (districts, of_districts)}
            ),
        ),
    )


def populations(inputs: StudyInputs) -> tuple[Population, Population]:
    """The counties of all States in the file with two or more counties, and the voting districts of Kansas.

    Raises:
        MissingDataError: the file is missing.
    """
    (path,) = inputs.files("TopDown's errors by size", (DISTRICT_FILE,))
    table = collect(scan_text(path), path, "voting districts").with_row_index("number")
    county = pl.col("state") + pl.col("county")
    # A State with one county has no noise on it under its exact total.
    several = pl.col("county").n_unique().over("state") > 1
    # Districts have no code that is unique in the file, so they get the number of their row.
    kansas = county + pl.col("number").cast(pl.String).str.zfill(6)
    digits = {"State": _STATE_DIGITS, "County": _COUNTY_DIGITS}
    return (
        _population(table.filter(several).with_columns(geocode=county), digits),
        _population(
            table.filter(pl.col("state") == KANSAS).with_columns(geocode=kansas),
            {**digits, "District": _COUNTY_DIGITS + 6},
        ),
    )


def _population(table: pl.DataFrame, digits: dict[str, int]) -> Population:
    """Persons of both ages and eight groups; the file has all persons (`pop_`) and adults (`vap_`) of each group."""
    parts = []
    for race in _RACES:
        everybody, adults = (pl.col(f"{kind}_{race}").cast(pl.Int64) for kind in ("pop", "vap"))
        # The file has all persons and adults; children are the difference.
        for age, persons in (("under_18", everybody - adults), ("18_plus", adults)):
            parts.append(
                table.select(
                    "geocode",
                    pl.lit(age).alias("voting_age"),
                    pl.lit(race).alias("race_ethnicity"),
                    persons.alias("count"),
                )
            )
    records = pl.concat(parts).group_by("geocode", "voting_age", "race_ethnicity").sum()
    totals = table.group_by("geocode").agg(pl.col("pop").cast(pl.Int64).sum().alias("total")).sort("geocode")
    # Zeros are no records; the geography lists empty geounits.
    return Population(digits, records.filter(pl.col("count") > 0).sort(pl.all()), totals)


def release_file(digits: Mapping[str, int], passes: str) -> str:
    """The release file of TopDown: each geolevel has epsilon 4 x 0.16, and its population query 0.3 of that.

    Args:
        digits: The geolevels and the digits of their geocodes.
        passes: Passes of the estimation, as in a release file.
    """
    plan = strategy(digits)
    shares, queries, of_the_state = (
        "\n".join(f'{name} = "{share}"' for name, share in part)
        for part in (plan.geolevel_shares, SHARES.items(), STATE_SHARES.items())
    )
    tables = f"""
[privacy]
neighbours = "{plan.neighbours.value}"
mechanism = "{plan.mechanism.value}"
epsilon = "{plan.total}"
[[invariants]]
query = "total"
geolevels = ["State"]
[strategy]
epsilon = "{plan.total}"
[strategy.geolevels]
{shares}
[strategy.queries."*"]
{queries}
[strategy.queries.State]
{of_the_state}
[estimation]
values = "own"
[estimation.passes]
"*" = {passes}
State = [["*"]]
"""
    return release_text("errors by size", digits, tables)


def strategy(geolevels: Iterable[str]) -> Strategy:
    """What a release measures, and what each query costs."""
    names = list(geolevels)
    return Strategy(
        Mechanism.DISCRETE_LAPLACE,
        Neighbours.BOUNDED,
        GEOLEVEL_EPSILON * len(names),
        tuple((name, Fraction(1, len(names))) for name in names),
        tuple((name, tuple((STATE_SHARES if name == "State" else SHARES).items())) for name in names),
    )


def _costs(population: Population) -> pl.DataFrame:
    """By method, epsilon at delta 0 and the privacy parameters of what it draws."""
    release = strategy(population.digits)
    exact = exact_parameters(compose(release.event(), neighbours=release.neighbours)).to_mapping()
    # The cost does not depend on which State: the nearest tables differ in two geounits.
    places = len(population.states()[min(population.states())])
    sums = ConstraintSystem.from_sets([range(places)], places, ["State"])
    loss, of_lattice = nearest_parameters(LATTICE_LAW, lattice_of(sums))
    costs = {**dict.fromkeys(PASSES, (release.total, exact)), LATTICE: (loss, of_lattice)}
    return pl.DataFrame(
        [
            {"geolevel": population.geolevel, "method": method, "pure_epsilon": float(total), **parameters}
            for method, (total, parameters) in costs.items()
        ],
        infer_schema_length=None,
    )


def _errors(inputs: StudyInputs, population: Population, keys: int) -> Errors:
    errors: Errors = {}
    for method, passes in PASSES.items():
        text = release_file(population.digits, passes)
        drawn = []
        for number in range(keys):
            # A key for each release, the same ones for both methods.
            key = f"tallyveil study integer-subspace, TopDown, {number}"
            geography, level = population.totals.select("geocode"), population.geolevel
            published = published_counts(inputs, text, population.records, geography, (level,), key)
            drawn.append(_off(published[level], population.totals))
        errors[method] = np.stack(drawn)
    return {**errors, LATTICE: _lattice(population)}


def _off(published: pl.DataFrame, truth: pl.DataFrame) -> Integers:
    # Geounits without persons are not in the histogram and count 0.
    summed = published.group_by(pl.col("geocode").cast(pl.String)).agg(pl.col("count").sum())
    joined = truth.join(summed, on="geocode", how="left").sort("geocode")
    return np.asarray((joined["count"].fill_null(0) - joined["total"]).to_numpy(), dtype=np.int64)


def _lattice(population: Population) -> Integers:
    """Noise on the totals that keeps every State's total, at the cost of the population query of a release."""
    noise = np.zeros((LATTICE_DRAWS, population.totals.height), dtype=np.int64)
    for state, places in population.states().items():
        lattice = lattice_of(ConstraintSystem.from_sets([range(len(places))], len(places), ["State"]))
        choice = choose_sampler(lattice, LATTICE_LAW)
        if choice.sampler is None:  # one sum always has one
            raise RuntimeError(choice.reason)
        # Each State and geolevel has an address of its own.
        address = NoiseAddress(NoiseSource(KEY), _ADDRESS, int(state) + 100 * len(population.digits))
        noise[:, places] = choice.sampler.draw(address, range(LATTICE_DRAWS))
    return noise


def _by_size(population: Population, errors: Errors) -> pl.DataFrame:
    """Mean and root mean square of the errors in each size class that occurs."""
    least = np.array(SIZES[population.geolevel])
    # The class is the number of lower ends at or below the size.
    number = np.searchsorted(least, population.sizes, side="right")
    rows: list[dict[str, Any]] = []
    for size in np.unique(number):
        places = np.flatnonzero(number == size)
        sizes = population.sizes[places]
        for method, drawn in errors.items():
            rows.append(
                {
                    "geolevel": population.geolevel,
                    "method": method,
                    "smallest": int(sizes.min()),
                    "largest": int(sizes.max()),
                    "geounits": len(places),
                    "draws": len(drawn),
                    **_mean("mean_error", drawn[:, places].mean(axis=1)),
                    "root_mean_square": _root_mean_square(drawn[:, places]),
                    "added_by_setting_negatives_to_zero": float(_added_at_zero(drawn[:, places], sizes)),
                }
            )
    return pl.DataFrame(rows)


def _added_at_zero(drawn: Integers, sizes: Integers) -> float:
    """Mean of what is added if negative noisy totals are set to zero."""
    return float(np.maximum(-(sizes + drawn), 0).mean())


def _mean(name: str, by_draw: npt.NDArray[Any]) -> dict[str, float]:
    error = float(by_draw.std(ddof=1) / math.sqrt(len(by_draw)))
    return {name: float(by_draw.mean()), f"{name}_standard_error": error}


def _root_mean_square(drawn: Integers) -> float:
    return float(np.sqrt(np.square(drawn, dtype=np.float64).mean()))


def _slopes(counties: Population, errors: Errors) -> pl.DataFrame:
    """Mean slope of a draw's errors on the rank of the county in its State, from 0 (smallest) to 1, over draws."""
    rows = []
    by_state = counties.states()
    for method, drawn in errors.items():
        slopes = {}
        for state, places in by_state.items():
            # From the smallest county of the State to the largest.
            rank = np.linspace(-0.5, 0.5, len(places))
            slopes[state] = drawn[:, places] @ rank / (rank @ rank)
        slopes = {"all": np.mean(list(slopes.values()), axis=0), **slopes}
        rows += [
            {"state": state, "method": method, "draws": len(drawn), **_mean("slope_on_rank", slope)}
            for state, slope in slopes.items()
        ]
    return pl.DataFrame(rows)


def _by_county(counties: Population, errors: Errors, places: Integers) -> pl.DataFrame:
    of_places = counties.totals[places].rename({"geocode": "county", "total": "population"})
    return pl.concat(
        [
            of_places.with_columns(
                method=pl.lit(method),
                draws=pl.lit(len(drawn)),
                mean_error=pl.Series(drawn[:, places].mean(axis=0)),
                standard_error=pl.Series(drawn[:, places].std(axis=0, ddof=1) / math.sqrt(len(drawn))),
            )
            for method, drawn in errors.items()
        ]
    )


def _sentences(slopes: pl.DataFrame, by_population: Mapping[str, tuple[Population, Errors]]) -> Iterator[str]:
    for row in slopes.filter(state="all").iter_rows(named=True):
        yield (
            f"{row['method']}: from the smallest to the largest county of a State the error changes by "
            f"{row['slope_on_rank']:+.2f} persons (standard error {row['slope_on_rank_standard_error']:.2f}), mean "
            "over the States."
        )
    for what, (population, errors) in by_population.items():
        negative = float((population.sizes + errors[LATTICE] < 0).mean())
        yield f"{LATTICE}: {100 * negative:.4f} percent of the noisy totals of {what} are negative."


def _size_plot(by_size: pl.DataFrame, geolevel: str, title: str) -> DotPlot:
    series = []
    for method, role in ROLES.items():
        of_method = by_size.filter(geolevel=geolevel, method=method)
        means, errors = of_method["mean_error"], of_method["mean_error_standard_error"]
        # Two standard errors, some 95 %.
        ranges = tuple(zip(means - 2 * errors, means + 2 * errors, strict=True))
        series.append(Dots(method, role, tuple(means), ranges))
    rows = tuple(
        f"{low:,} to {high:,}" if high > low else f"{low:,}"
        for low, high in of_method.select("smallest", "largest").iter_rows()
    )
    return DotPlot(
        rows, (DotPanel(title, tuple(series), "mean error, persons, with two standard errors"),), 1
    )


def _county_plot(counties: Population, errors: Errors, places: Integers) -> BoxPlot:
    panels = tuple(
        BoxPanel(method, (BoxSeries(method, role, boxed(errors[method][:, places])),))
        for method, role in ROLES.items()
    )
    names = tuple(counties.totals["geocode"].to_numpy()[places])
    return BoxPlot(names, panels, "county of Illinois, by population", "error, persons")
