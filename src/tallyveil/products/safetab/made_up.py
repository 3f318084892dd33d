"""Made-up person records in SafeTab's published formats, for a made-up country and any list of codes.

People are made in chunks, so the memory needed does not grow with their number. The sizes of states and blocks are
skewed. Different codes are common in different states. Most people have one code, and a few have as many as are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import ConfigError
from tallyveil.products.safetab.public.config import SafetabConfig
from tallyveil.products.safetab.public.files import GEOGRAPHY, PERSONS
from tallyveil.products.safetab.public.iterations import IterationFiles, Membership
from tallyveil.products.safetab.public.regions import NO_AIANNH, NO_PLACE
from tallyveil.storage.write import write_file

CHUNK: Final = 500_000
"""People made at once, so that memory stays small. The stream of each chunk depends on its number, so another size
would make other people."""

LARGEST: Final = 400_000_000
"""Most people: above the population of the United States, so that a mistyped number does not fill a disk."""

BLOCKS_PER_TRACT: Final = 40
"""Made up: less than half of the mean of 2020 (some 8 million blocks in 85,000 tracts). Twice as many would make
half as many tracts."""

TRACTS_PER_COUNTY: Final = 8
"""Made up: fewer than in fact, so that a small country also has several counties."""

MOST_BLOCKS: Final = 12_000_000
"""Most blocks: above the 8 million of 2020."""

SAFETAB_FILES: Final = (f"{GEOGRAPHY.stem}.txt", f"{PERSONS.stem}.txt")
"""The files of a country."""

_N_CODES: Final = np.array([0.885, 0.085, 0.02, 0.006, 0.002, 0.001, 0.0006, 0.0004])
"""Share of people with 1 to 8 race codes. Made up: mostly one, and a few with all, so that lists of codes of
every length occur."""

_COMMON_HERE: Final = 0.35
"""Share of codes that are drawn by the rank within the person's state instead of the country. Made up; with 0
all states would be alike."""

_ETHNIC: Final = 0.19
"""Share of people with a tabulated ethnicity. Made up, near the share of Hispanics in 2020."""


@dataclass(frozen=True, slots=True, eq=False)
class SafetabCountry:
    """A made-up country.

    Attributes:
        blocks: GRF-C, with one row for each block, ascending.
        weights: Share of the people who live in each block; float64.
    """

    blocks: pl.DataFrame
    weights: NDArray[np.float64]


def make_safetab_country(config: SafetabConfig, n_blocks: int, seed: int) -> SafetabCountry:
    """Make blocks in every state of a config, with counties, tracts, places and tribal areas.

    Args:
        config: Config with the states.
        n_blocks: Number of blocks, at least one for each state.
        seed: The same seed makes the same country.
    Raises:
        ConfigError: there are fewer blocks than states, or too many blocks.
    """
    states = [int(state) for run in config.runs for state in config.states_of(run)]
    if not len(states) <= n_blocks <= MOST_BLOCKS:
        raise ConfigError(
            f"number of blocks: got {n_blocks}, wanted {len(states)} (one a state) to {MOST_BLOCKS:,}.",
            code="bad-flag",
        )
    # The 1 separates this stream from those of the people, which begin with [seed, 2].
    generator = np.random.default_rng([seed, 1])
    sizes = generator.lognormal(0.0, 0.9, len(states))
    of_state = 1 + np.floor(sizes / sizes.sum() * (n_blocks - len(states))).astype(np.int64)
    # What rounding down has left goes to the largest state.
    of_state[np.argmax(of_state)] += n_blocks - of_state.sum()
    state = np.repeat(states, of_state)
    # Number of a block within its state.
    within = np.arange(n_blocks) - np.repeat(np.cumsum(of_state) - of_state, of_state)
    tract, number = np.divmod(within, BLOCKS_PER_TRACT)
    county, tract = np.divmod(tract, TRACTS_PER_COUNTY)
    # There are at most 500 county numbers. Further counties become part of the last one.
    county, tract = np.minimum(county, 499), tract + TRACTS_PER_COUNTY * np.maximum(county - 499, 0)
    # Number of the tract in the country: places and tribal areas are whole tracts.
    group = np.cumsum(np.r_[0, np.diff(tract) != 0] | np.r_[0, np.diff(county) != 0])
    place = np.where(group % 4 != 3, 100 * (1 + tract % 5) + county + 1, NO_PLACE)
    area = np.where(
        group % 31 == 0, 1 + (group // 62) % 600, NO_AIANNH
    )  # two tracts each, possibly in two states
    numbers = (state, 2 * county + 1, 100 * (tract + 1), 1000 + number, place, area)
    columns = zip(GEOGRAPHY.columns, numbers, (2, 3, 6, 4, 5, 4), strict=True)
    blocks = pl.DataFrame({name: _digits(values, n) for name, values, n in columns})
    # Three in ten blocks are empty.
    weights = generator.lognormal(0.0, 1.0, n_blocks) * (generator.random(n_blocks) > 0.3)
    # So that the sum is above 0 even if every block were empty.
    weights += 1e-9
    return SafetabCountry(blocks, weights / weights.sum())


def write_safetab_country(
    out: Path, config: SafetabConfig, files: IterationFiles, *, people: int, blocks: int, seed: int
) -> list[Path]:
    """Write GRF-C.txt and person-records.txt of a made-up country.

    Args:
        out: Folder to write to.
        config: States, and the largest number of race codes of a person.
        files: The lists of codes and iterations.
        people: Number of person records.
        blocks: Number of blocks.
        seed: The same seed writes the same files.
    Returns:
        The files.
    Raises:
        ConfigError: a size is out of range.
        StoreError: the folder cannot be written to.
    """
    if not 1 <= people <= LARGEST:
        raise ConfigError(f"number of people: got {people}, wanted 1 to {LARGEST:,}.", code="bad-flag")
    country = make_safetab_country(config, blocks, seed)
    paths = [out / name for name in SAFETAB_FILES]
    write_file(paths[0], lambda path: country.blocks.write_csv(path, separator="|", quote_style="never"))

    def write(path: Path) -> None:
        with path.open("wb") as opened:
            for number, chunk in enumerate(person_chunks(country, config, files, people, seed)):
                chunk.write_csv(opened, separator="|", quote_style="never", include_header=number == 0)

    write_file(paths[1], write)
    return paths


def person_chunks(
    country: SafetabCountry, config: SafetabConfig, files: IterationFiles, people: int, seed: int
) -> Iterator[pl.DataFrame]:
    """Person records in chunks of `CHUNK`. For given arguments, a chunk depends only on its number."""
    pools = _pools(files)
    ends = np.cumsum(country.weights)
    homes = country.blocks.select(GEOGRAPHY.columns[:4])
    state = country.blocks[GEOGRAPHY.columns[0]].cast(pl.Int64).to_numpy()
    for number, first in enumerate(range(0, people, CHUNK)):
        generator = np.random.default_rng([seed, 2, number])
        n = min(CHUNK, people - first)
        # The last end may be below 1 by rounding.
        block = np.minimum(np.searchsorted(ends, generator.random(n)), len(ends) - 1)
        yield _persons(generator, homes[block], state[block], pools, config.max_race_codes)


@dataclass(frozen=True, slots=True, eq=False)
class _Pools:
    """Codes to draw from, the most common first.

    Attributes:
        race, ethnic: Codes.
        none: The code of people without a tabulated ethnicity.
        race_ends, ethnic_ends: Distribution functions over the codes.
    """

    race: pl.Series
    ethnic: pl.Series
    none: str
    race_ends: NDArray[np.float64]
    ethnic_ends: NDArray[np.float64]


def _pools(files: IterationFiles) -> _Pools:
    kind = {iteration.code: iteration.membership for iteration in files.iterations}
    race: dict[str, None] = {}
    ethnic: dict[str, None] = {}
    for code, iteration in files.mapping:
        (ethnic if kind[iteration] is Membership.ETHNICITY else race)[code] = None
    # A code of no iteration: people without a tabulated ethnicity.
    untabulated = [code for code in files.codes if code not in race and code not in ethnic]
    generator = np.random.default_rng(20)  # a fixed seed, so that the same codes are common in every country
    orders = [generator.permutation(sorted(codes)) for codes in (race or files.codes, ethnic or files.codes)]
    # A power law of rank with exponent 1.1: a few codes are common, and many rare.
    ends = [np.cumsum(1 / np.arange(1, len(order) + 1) ** 1.1) for order in orders]
    return _Pools(
        pl.Series(orders[0].tolist()),
        pl.Series(orders[1].tolist()),
        untabulated[-1] if untabulated else files.codes[-1],
        ends[0] / ends[0][-1],
        ends[1] / ends[1][-1],
    )


def _persons(
    generator: np.random.Generator,
    homes: pl.DataFrame,
    state: NDArray[np.int64],
    pools: _Pools,
    most: int,
) -> pl.DataFrame:
    n = homes.height
    shares = np.cumsum(_N_CODES[:most]) / _N_CODES[:most].sum()
    n_codes = 1 + np.searchsorted(shares, generator.random(n))
    # A folded normal law is enough for made-up ages.
    ages = np.minimum(np.abs(generator.normal(30.0, 26.0, n)), 104).astype(np.int64)
    columns: dict[str, pl.Series] = {
        "QAGE": _chosen([str(age) for age in range(105)], ages),
        "QSEX": _chosen(["1", "2"], generator.integers(0, 2, n)),
        "HOUSEHOLDER": _chosen(["False", "True"], (generator.random(n) < 0.4) & (ages > 17)),
        **{name: homes[name] for name in homes.columns},
        "CENRACE": _chosen([f"{race:02d}" for race in range(1, 64)], generator.integers(0, 63, n)),
    }
    race = pl.concat([pools.race, pl.Series(["Null"])])
    null = len(pools.race)
    for place in range(1, 9):
        having = n_codes >= place
        codes = np.full(n, null, np.int64)
        codes[having] = _codes(generator, state[having], pools.race_ends)
        columns[f"QRACE{place}"] = race.gather(codes)
    ethnic = generator.random(n) < _ETHNIC
    spans = np.full(n, len(pools.ethnic), np.int64)
    spans[ethnic] = _codes(generator, state[ethnic], pools.ethnic_ends)
    columns["QSPAN"] = pl.concat([pools.ethnic, pl.Series([pools.none])]).gather(spans)
    return pl.DataFrame({name: columns[name] for name in PERSONS.columns})


def _codes(
    generator: np.random.Generator, state: NDArray[np.int64], ends: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Codes by rank. Some people get a code that is common in their own state instead."""
    rank = np.searchsorted(ends, generator.random(len(state)), side="right")
    here = generator.random(len(state)) < _COMMON_HERE
    # 37 is only a shift that differs from state to state.
    moved: NDArray[np.int64] = np.where(here, (rank + 37 * state) % len(ends), rank)
    return np.minimum(moved, len(ends) - 1)


def _chosen(texts: list[str], places: NDArray[np.int64] | NDArray[np.bool_]) -> pl.Series:
    return pl.Series(texts).gather(places.astype(np.int64))


def _digits(numbers: NDArray[np.int64], n: int) -> pl.Series:
    return pl.Series(numbers).cast(pl.String).str.zfill(n)
