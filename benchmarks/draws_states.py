"""Two kinds of made-up state on which `draws.py` measures how often draws hold the true counts.

Shares of races stray from geolevel to geolevel by normal logarithms, and sizes of blocks are log-normal, which is not
the law that draws assume. Some blocks are group quarters, where nearly all are adults of another mixture, and some
block groups are tribal areas. No person in them is real.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.synthetic.people import MINOR_SHARE, NATIONAL_SHARE, RACES


@dataclass(frozen=True)
class Kind:
    """What a state is like.

    Attributes:
        units: Counties, tracts of each, block groups of each, and blocks of each.
        empty: Share of the blocks without people.
        size: Median and standard deviation of the logarithm of the others' people.
        stray: Standard deviations of logarithms of races' shares, by county, tract, block group and block.
        facilities: Share of the inhabited blocks that are group quarters, of 150 adults in the middle.
        tribal: Share of the block groups where most people are American Indians.
        shares: Shares of races before they stray.
    """

    units: tuple[int, int, int, int]
    empty: float
    size: tuple[float, float]
    stray: tuple[float, float, float, float]
    facilities: float
    tribal: float
    shares: np.ndarray


KINDS = {
    "rural": Kind(
        (4, 3, 3, 45),
        0.55,
        (7.0, 1.1),
        (0.3, 0.4, 0.2, 0.3),
        0.004,
        0.03,
        np.array([0.05, 0.89, 0.02, 0.012, 0.005, 0.001, 0.002, 0.02]),
    ),
    "segregated": Kind((3, 6, 3, 25), 0.15, (60.0, 0.8), (0.5, 1.5, 0.7, 0.5), 0.02, 0.06, NATIONAL_SHARE),
}


def counts_of(kind: Kind, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Geocodes of all blocks, people by voting age and race (shape (blocks, 2, 8)), and which are group quarters."""
    rng = np.random.default_rng(seed)
    counties, tracts, groups, blocks = kind.units
    codes = [
        f"99{c:03d}{t:06d}{g}{b:03d}"
        for c in range(counties)
        for t in range(tracts)
        for g in range(1, groups + 1)
        for b in range(blocks)
    ]
    n = len(codes)
    logs = np.tile(np.log(kind.shares / kind.shares.sum()), (n, 1))
    for size, stray in zip((tracts * groups * blocks, groups * blocks, blocks, 1), kind.stray, strict=True):
        logs += np.repeat(rng.normal(0.0, stray, (n // size, len(RACES))), size, axis=0)
    tribal = np.repeat(rng.random(n // blocks) < kind.tribal, blocks)
    logs[tribal, RACES.index("aian")] += 6.0
    people = np.ceil(rng.lognormal(np.log(kind.size[0]), kind.size[1], n)).astype(np.int64)
    people[rng.random(n) < kind.empty] = 0
    facility = (people > 0) & (rng.random(n) < kind.facilities)
    people[facility] = np.ceil(rng.lognormal(np.log(150.0), 0.7, int(facility.sum())))
    logs[facility] = np.log(NATIONAL_SHARE) + rng.normal(0.0, 0.7, (int(facility.sum()), len(RACES)))
    shares = np.exp(logs)
    races = rng.multinomial(people, shares / shares.sum(axis=1, keepdims=True))
    odds = MINOR_SHARE / (1.0 - MINOR_SHARE) * np.exp(rng.normal(0.0, 0.4, (n, 1)))
    minors = rng.binomial(races, np.where(facility[:, None], 0.003, odds / (1.0 + odds)))
    return codes, np.stack([minors, races - minors], axis=1), facility


def write_state(kind: str, seed: int, folder: Path) -> tuple[Path, Path]:
    """Write the tables of the example of Rhode Island for a state; returns their paths: counts and blocks."""
    codes, people, _ = counts_of(KINDS[kind], seed)
    blocks, ages, races = np.nonzero(people)
    counts = pl.DataFrame(
        {
            "geocode": pl.Series(codes).gather(blocks),
            "voting_age": pl.Series(["under_18", "18_plus"]).gather(ages),
            "race_ethnicity": pl.Series(RACES).gather(races),
            "count": people[blocks, ages, races],
        }
    )
    counts.write_parquet(folder / "counts.parquet")
    pl.DataFrame({"geocode": codes}).write_parquet(folder / "blocks.parquet")
    return folder / "counts.parquet", folder / "blocks.parquet"
