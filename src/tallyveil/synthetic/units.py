"""Made-up housing units of the blocks in which made-up people live."""

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.schema import load_preset

MORE_HOUSEHOLDS = 0.38
"""Probability that a household resident, after the first of the block, begins a household: about 2.6 people each."""
VACANT_SHARE = 0.1
"""Mean number of vacant housing units for each occupied one."""
MORE_VACANT = 0.5
"""In a block whose housing units are all vacant: the probability of one more of them."""
_STREAM = 0x756E74  # a separate random stream from those that make people and entities


def make_units(
    persons: pl.DataFrame, geography: pl.DataFrame, facilities: pl.DataFrame, seed: int, number: int
) -> pl.DataFrame:
    """Make up occupied and vacant housing units that agree with the people of one state.

    A block has occupied housing units if and only if people live in households there, and it has at most as many as
    people. It has housing units, occupied or vacant, if and only if the facilities have a row for its households.

    Args:
        persons: Records of preset "pl94-persons", one state.
        geography: The state's blocks, sorted by geocode.
        facilities: The state's facilities, as in `SyntheticPopulation`.
        seed: The seed of the population. The random stream of the units is used for nothing else.
        number: Number of the state, from 0.
    Returns:
        Records of preset "pl94-units": geocode, h1, count (above zero), sorted by geocode, then level.
    """
    # A stream for each state, apart from those of the people: the people are the same with and without units.
    generator = np.random.Generator(np.random.PCG64([seed, _STREAM, number]))
    residents = _of_blocks(geography, persons.filter(pl.col("hhgq") == "household"), pl.col("count").sum())
    housing = _of_blocks(geography, facilities.filter(pl.col("hhgq") == "household"), pl.len()) > 0
    # Every inhabited block has one household at least, and every further person may begin another.
    occupied = np.minimum(residents, 1) + generator.binomial(np.maximum(residents - 1, 0), MORE_HOUSEHOLDS)
    beside = generator.binomial(2 * occupied, VACANT_SHARE / 2)
    # A block with housing and without residents has vacant units alone, of which there is one at least.
    alone = generator.geometric(1 - MORE_VACANT, len(housing))
    vacant = np.where(occupied > 0, beside, np.where(housing, alone, 0))
    return _records(geography, {"vacant": vacant, "occupied": occupied})


def _of_blocks(geography: pl.DataFrame, rows: pl.DataFrame, value: pl.Expr) -> Integers:
    """A sum for each block, in the order of the geography; 0 where a block has no rows."""
    sums = rows.group_by("geocode").agg(value.cast(pl.Int64).alias("value"))
    of_blocks = geography.select("geocode").join(sums, on="geocode", how="left", maintain_order="left")
    return of_blocks["value"].fill_null(0).to_numpy()


def _records(geography: pl.DataFrame, counts: dict[str, Integers]) -> pl.DataFrame:
    levels = load_preset("pl94-units").attribute("h1").levels
    table = np.stack([counts[level] for level in levels], axis=1)
    block, code = np.nonzero(table)
    return pl.DataFrame(
        [
            geography["geocode"].gather(block),
            pl.Series("h1", levels, dtype=pl.String).gather(code),
            pl.Series("count", table[block, code]),
        ]
    )
