"""The geounits of the United States with their people, and the sizes of their supports, for `cluster_schedule.py`.

The counties are real, with their people of 2010; the numbers of tracts, block groups and blocks are those of 2020.
Tracts go to counties in proportion to people, and the rest is drawn as in `tallyveil synth`.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cluster_runs import Run

from tallyveil.arrays import Floats, Integers

COUNTIES = Path(__file__).parents[2] / "shared" / "data" / "vtd" / "us_2010_county_pop_hu.csv"
N_TRACTS, N_BLOCK_GROUPS, N_BLOCKS, N_PEOPLE = 84_414, 239_780, 8_132_968, 331_449_281
LAST_STATE = 56
SPREAD_OF_BLOCKS, SPREAD_OF_PEOPLE = 0.6, 0.4
GROUP_EXTRA = 12
"""A group of tracts has at most the square root of the county's tracts plus this."""


@dataclass(frozen=True, slots=True)
class Geolevel:
    """Geounits of one geolevel, in the order of the spine: their people, and the parent of each."""

    name: str
    people: Floats
    parent: Integers

    def child_begin(self, n_parents: int) -> Integers:
        return np.searchsorted(self.parent, np.arange(n_parents + 1))


def country(counties: Path, *, groups: bool, state: str | None = None, seed: int = 1) -> list[Geolevel]:
    """Geolevels of the country, or of one State with its share of the tracts, block groups and blocks; root first."""
    generator = np.random.default_rng(seed)
    with counties.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if int(row["fips"][:2]) <= LAST_STATE]
    people = np.array([float(row["pop"]) for row in rows])
    people *= N_PEOPLE / people.sum()
    states = np.array([row["fips"][:2] for row in rows])
    if state is not None:
        people, states = people[states == state], states[states == state]
    share = people.sum() / N_PEOPLE
    n_tracts, n_block_groups, n_blocks = (round(n * share) for n in (N_TRACTS, N_BLOCK_GROUPS, N_BLOCKS))
    of_county_state = np.unique(states, return_inverse=True)[1]
    county = _divided(people, n_tracts)
    tract = np.repeat(np.arange(n_tracts), _scaled(1 + generator.poisson(1.84, n_tracts), n_block_groups))
    shares = generator.lognormal(0, SPREAD_OF_PEOPLE, n_block_groups)
    of_county = county[tract]
    block_groups = people[of_county] * shares / np.bincount(of_county, shares)[of_county]
    sizes = generator.lognormal(0, SPREAD_OF_BLOCKS, n_block_groups)
    block = np.repeat(np.arange(n_block_groups), _scaled(sizes, n_blocks))
    tracts = _sums(tract, block_groups)
    n_states = int(of_county_state.max()) + 1
    of_states = Geolevel("State", _sums(of_county_state, people), np.zeros(n_states, dtype=np.int64))
    root = [] if state else [Geolevel("US", np.array([people.sum()]), np.zeros(1, dtype=np.int64))]
    levels = [*root, of_states, Geolevel("County", people, of_county_state)]
    if groups:
        group, above = _groups(county)
        levels.append(Geolevel("Tract_Group", _sums(group, tracts), above))
        levels.append(Geolevel("Tract", tracts, group))
    else:
        levels.append(Geolevel("Tract", tracts, county))
    nobody_knows = np.zeros(n_blocks)  # the people of blocks are not needed
    return [*levels, Geolevel("Block_Group", block_groups, tract), Geolevel("Block", nobody_knows, block)]


def _sums(parent: Integers, people: Floats) -> Floats:
    """The people of each parent."""
    return np.bincount(parent, people).astype(np.float64)


def _divided(people: Floats, number: int) -> Integers:
    """The county of each tract: at least one each, the others in proportion to people."""
    return np.repeat(np.arange(len(people)), _scaled(people, number))


def _scaled(sizes: Any, total: int) -> Integers:
    """Whole numbers of at least 1 in proportion to sizes, with this sum."""
    low, high = 0.0, total / float(np.min(sizes))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(1, np.rint(sizes * middle)).sum() < total else (low, middle)
    counts = np.maximum(1, np.rint(sizes * low)).astype(np.int64)
    counts[np.argsort(-counts, kind="stable")[: total - counts.sum()]] += 1
    return counts


def _groups(county: Integers) -> tuple[Integers, Integers]:
    """The group of each tract, and the county of each group."""
    group, above, begun = [], [], 0
    for number, n in enumerate(np.bincount(county)):
        groups = -(-n // (math.isqrt(n) + GROUP_EXTRA))
        group.append(begun + np.arange(n) * groups // n)
        above += [number] * groups
        begun += groups
    return np.concatenate(group), np.array(above)


def supports(runs: Sequence[Run], number: int, people: Floats) -> Integers:
    """Cells above zero of geounits with so many people, in a pass."""
    sizes = np.concatenate([numbers for run in runs for numbers in run.people[:-1]])
    cells = np.concatenate([numbers for run in runs for numbers in run.supports(number)[:-1]])
    positive = (sizes > 0) & (cells > 0)
    x, y = np.log(sizes[positive]), np.log(cells[positive])
    bins = np.round(x * 2).astype(int)
    at = np.array([(x[bins == place].mean(), y[bins == place].mean()) for place in np.unique(bins)])
    top = at[at[:, 0] > at[-1, 0] - math.log(100)]
    slope = np.polyfit(top[:, 0], top[:, 1], 1)[0]
    log_people = np.log(np.maximum(people, 1))
    log_cells = np.interp(log_people, *at.T) + slope * np.maximum(0, log_people - at[-1, 0])
    plan = runs[0].plan
    most = plan.query(plan.outer[number].cells).size if plan.outer else plan.schema.size
    return np.maximum(1, np.minimum(np.exp(log_cells), most)).astype(np.int64)
