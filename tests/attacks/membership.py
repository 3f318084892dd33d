"""Which of two records is in the data? The attacker knows all others, and both records.

Many states are released at once. All have the same few people, but for one: in half of the states it is record A, in
the other half record B, which lives in another county and has another sex and age. The noise of two states is
independent. So every state is a trial of its own, at the budget of one record.

The attacker computes the logarithm of the likelihood ratio of all noisy answers that the two records touch. No rule
is better, by the lemma of Neyman and Pearson. From the published counts he uses the same weighted sum.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.attacks.statistics import CONFIDENCE, Rate, area_of_trials, of_trials
from tests.attacks.worlds import as_array, release_of

import tallyveil
from tallyveil.accounting import compose
from tallyveil.api.measured import Measurements, WithMeasurements
from tallyveil.schema.schema import schema_from_mapping

SEXES, AGES = ("female", "male"), ("0-17", "18-64", "65+")
A, B = ("female", "0-17"), ("male", "65+")
OTHERS = 3
"""People of every sex and age in every block, beside the record."""
FALSE_ALARMS = 0.01
JUDGED_AT = 0.999
"""The attack meets the bound, so intervals of 95 % would lie beyond it in one comparison of forty."""
LEVELS = {"State": ("sex*age",), "County": ("total", "sex*age"), "Block": ("total", "sex*age")}


def schema() -> dict[str, Any]:
    """Sex and age in three groups."""
    attributes = [{"name": "sex", "levels": list(SEXES)}, {"name": "age", "levels": list(AGES)}]
    return {"name": "sex-by-age", "attributes": attributes}


def release_file(rho: Fraction) -> dict[str, Any]:
    """The release file of README.md, at any budget."""
    return {
        "release": {"name": "states"},
        "records": {"path": "people.parquet", "geocode": "geocode", "count": "count"},
        "geography": {
            "path": "geography.parquet", "geocode": "geocode", "geolevels": list(LEVELS), "prefix_lengths": [6, 7, 8],
        },
        "schema": schema(),
        "privacy": {"neighbours": "bounded", "mechanism": "discrete_gaussian", "rho": str(rho)},
        "strategy": {
            "rho": str(rho),
            "geolevels": {"State": "1/4", "County": "1/4", "Block": "1/2"},
            "queries": {"*": {"total": "1/3", "sex*age": "2/3"}, "State": {"sex*age": "1"}},
        },
        "estimation": {"values": "own"},
        "invariants": [{"query": "total", "geolevels": ["State"]}],
        "outputs": {"tables": ["total", "sex*age"]},
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class States:
    """States of two counties with one block each; the first half of the states has record A, the other record B."""

    folder: Path
    number: int

    @property
    def has_b(self) -> np.ndarray:
        """Whether a state has record B."""
        return np.arange(self.number) >= self.number // 2


def make_states(folder: Path, number: int) -> States:
    """Write the records and the geography."""
    states = [f"{100_000 + state}" for state in range(number)]
    blocks = [f"{state}{county}0" for state in states for county in "12"]
    pl.DataFrame({"geocode": blocks}).write_parquet(folder / "geography.parquet")
    pairs = [(sex, age) for sex in SEXES for age in AGES]
    others = pl.DataFrame({"geocode": blocks}).join(
        pl.DataFrame({"sex": [sex for sex, _ in pairs], "age": [age for _, age in pairs]}), how="cross"
    )
    half = number // 2
    targets = pl.DataFrame(
        {
            "geocode": [f"{state}10" for state in states[:half]] + [f"{state}20" for state in states[half:]],
            "sex": [A[0]] * half + [B[0]] * (number - half),
            "age": [A[1]] * half + [B[1]] * (number - half),
        }
    )
    counted = [others.with_columns(count=pl.lit(OTHERS)), targets.with_columns(count=pl.lit(1))]
    pl.concat(counted).write_parquet(folder / "people.parquet")
    return States(folder, number)


def release_states(world: States, rho: Fraction, out: Path, key: str) -> tallyveil.Release:
    """The release of all states."""
    return release_of(world.folder, release_file(rho), out, key)


def measure_states(world: States, rho: Fraction, out: Path, key: str) -> Measurements:
    """The noisy measurements of all states alone, which take less time than a release."""
    plan = tallyveil.plan(release_file(rho), folder=world.folder)
    return tallyveil.measure(plan, out, workers=1, insecure_test_key=key)


def noisy_scores(world: States, measured: WithMeasurements) -> np.ndarray:
    """For each state, how strongly its noisy answers speak for record B."""
    total = np.zeros(world.number)
    for geolevel, queries in LEVELS.items():
        for query in queries:
            frame = measured.measurements(geolevel, query)
            variance = float(frame["variance"][0])
            total += evidence(_values(world, frame, geolevel, query, "value"), geolevel, query) / variance
    return total


def table_scores(world: States, release: tallyveil.Release) -> np.ndarray:
    """The same sum of published counts, which are not negative and add up."""
    total = np.zeros(world.number)
    for geolevel, queries in LEVELS.items():
        for query in queries:
            variance = float(release.measurements(geolevel, query)["variance"][0])
            frame = release.table(geolevel, query)
            total += evidence(_values(world, frame, geolevel, query, "count"), geolevel, query) / variance
    return total


def _values(world: States, frame: pl.DataFrame, geolevel: str, query: str, column: str) -> np.ndarray:
    """A column as an array with a row for each geounit and a column for each answer."""
    group = schema_from_mapping(schema()).query(query)
    return as_array(frame, group, tuple(geocodes_of(world, geolevel)), column)


def exact_scores(world: States) -> np.ndarray:
    """The same from true counts, at the weights of the least noise."""
    records = pl.read_parquet(world.folder / "people.parquet")
    total = np.zeros(world.number)
    for geolevel, queries in LEVELS.items():
        length = {"State": 6, "County": 7, "Block": 8}[geolevel]
        cut = records.with_columns(pl.col("geocode").str.head(length))
        for query in queries:
            group = schema_from_mapping(schema()).query(query)
            summed = cut.group_by("geocode", *group.factor_names).agg(pl.col("count").sum())
            total += evidence(_values(world, summed, geolevel, query, "count"), geolevel, query)
    return total


def evidence(values: np.ndarray, geolevel: str, query: str) -> np.ndarray:
    """The logarithm of the likelihood ratio of answers with discrete Gaussian noise of variance 1, for each state.

    An answer y whose true value is t for record A and t + 1 for record B adds y - t - 1/2, and one whose true value is
    t + 1 for A and t for B subtracts it.
    """
    group = schema_from_mapping(schema()).query(query)
    cells = [SEXES.index(sex) * len(AGES) + AGES.index(age) for sex, age in (A, B)]
    first, second = group.answers_of(np.array(cells)).tolist()
    size = 6 // group.size  # cells in an answer
    if geolevel == "State":
        base = 2 * OTHERS * size
        return (values[:, second] - base - 0.5) - (values[:, first] - base - 0.5)
    base = OTHERS * size
    pairs = values.reshape(-1, 2, group.size)  # by county
    return (pairs[:, 1, second] - base - 0.5) - (pairs[:, 0, first] - base - 0.5)


def geocodes_of(world: States, geolevel: str) -> list[str]:
    """Geocodes of all geounits of a geolevel, in order."""
    states = [f"{100_000 + state}" for state in range(world.number)]
    if geolevel == "State":
        return states
    return [f"{state}{county}{'0' if geolevel == 'Block' else ''}" for state in states for county in "12"]


@dataclass(frozen=True, slots=True)
class Told:
    """How well the two records were told apart.

    Attributes:
        false_alarms: Rate at which B is said where A is true, at a threshold chosen on other states.
        power: Rate at which B is said where B is true, at the same threshold.
        advantage: The difference of both rates for the rule "B if the score is above 0".
        area: Area under the curve of power by false alarms.
    """

    false_alarms: Rate
    power: Rate
    advantage: Rate
    area: Rate


def told_apart(world: States, found: np.ndarray, confidence: float = CONFIDENCE) -> Told:
    """Attack every state: one half of the states chooses the threshold, the other is judged by it."""
    lot = np.random.default_rng(1).random(world.number)
    scattered = found + lot * 1e-9  # ties are decided by lot
    judged = np.arange(world.number) % 2 == 1
    without, having = scattered[judged & ~world.has_b], scattered[judged & world.has_b]
    threshold = np.quantile(scattered[~judged & ~world.has_b], 1 - FALSE_ALARMS, method="higher")
    a, b = scattered[~world.has_b], scattered[world.has_b]
    right = int((b > 0).sum()) + int((a <= 0).sum())
    once = of_trials(
        right, world.number, confidence
    )  # both halves are of one size, so the advantage is 2 x right - 1
    return Told(
        of_trials(int((without > threshold).sum()), len(without), confidence),
        of_trials(int((having > threshold).sum()), len(having), confidence),
        Rate(*(2 * end - 1 for end in (once.value, once.lower, once.upper))),
        area_of_trials(a, b),
    )


@dataclass(frozen=True, slots=True)
class Certified:
    """Upper bounds that hold for every attacker at a budget."""

    guarantee: Any

    def power(self, false_alarms: float) -> float:
        """The largest power of a rule with so many false alarms."""
        return 1.0 - float(self.guarantee.beta(Fraction(false_alarms)).lower)

    def advantage(self) -> float:
        """The largest difference of power and false alarms."""
        return float(self.guarantee.advantage().upper)


def certified(world: States, rho: Fraction) -> Certified:
    """The bounds of the plan, from its event alone."""
    plan = tallyveil.plan(release_file(rho), folder=world.folder)
    return Certified(compose(plan.content.event(), neighbours="bounded"))


def within_the_bound(world: States, found: np.ndarray, bound: Certified) -> bool:
    """Whether an attack does no better than is possible, within intervals of `JUDGED_AT`."""
    told = told_apart(world, found, JUDGED_AT)
    most = bound.power(min(1.0, told.false_alarms.upper))
    return told.power.lower <= most and told.advantage.lower <= bound.advantage()
