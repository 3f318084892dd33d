"""A made-up state whose areas cross tracts as real ones do: blocks, entities and people.

Blocks lie along a space-filling curve, so that tracts and block groups are compact; county subdivisions are
cells within counties; school districts, house districts and postal areas are cells of the state; places are discs, as
are a few tribal areas.
"""

from pathlib import Path

import numpy as np
import polars as pl
from scipy.spatial import cKDTree

from tallyveil.api.beginning import write_country

FAMILIES = ("place", "county_subdivision", "school_district", "tribal_area")
LENGTHS = {"County": 5, "Tract": 11, "Block_Group": 12}


def hilbert(n: int, order: int = 10) -> np.ndarray:
    """Points along a Hilbert curve through the unit square, evenly spaced; shape (n, 2)."""
    d = np.arange(n, dtype=np.int64) * (1 << (2 * order)) // n
    x, y = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for bit in range(order):
        s = 1 << bit
        rx, ry = 1 & (d // 2), 1 & (d ^ (d // 2))
        turn = ry == 0
        flip = turn & (rx == 1)
        x[flip], y[flip] = s - 1 - x[flip], s - 1 - y[flip]
        x[turn], y[turn] = y[turn].copy(), x[turn].copy()
        x, y = x + s * rx, y + s * ry
        d //= 4
    return np.stack([x, y], axis=1) / (1 << order)


def cut(rng: np.random.Generator, n: int, parts: int) -> np.ndarray:
    """Cut n in a row into parts of uneven size; the part of each."""
    ends = np.sort(rng.choice(np.arange(1, n), size=min(parts, n) - 1, replace=False))
    return np.searchsorted(ends, np.arange(n), side="right")


def state(blocks: int, seed: int) -> pl.DataFrame:
    """Blocks of a state with their geocodes and the entity of each family."""
    rng = np.random.default_rng(seed)
    points = hilbert(blocks)
    county = cut(rng, blocks, max(blocks // 6_300, 2))
    tract = cut(rng, blocks, max(blocks // 131, 3))
    group = cut(rng, blocks, max(blocks // 43, 4))
    # A part that straddles two of the coarser cut falls into two; numbers restart nowhere, so text stays unique.
    codes = [
        f"42{c:03d}{t:06d}{g % 9 + 1}{b:06d}"
        for b, (c, t, g) in enumerate(zip(county.tolist(), tract.tolist(), group.tolist(), strict=True))
    ]
    wobble = points + rng.normal(scale=0.002, size=points.shape)

    def cells(n: int) -> np.ndarray:
        return cKDTree(rng.random((n, 2))).query(wobble)[1]

    def discs(n: int, share: float, spread: float) -> np.ndarray:
        centre, radius = rng.random((n, 2)), rng.lognormal(0, spread, n)
        radius *= np.sqrt(share / np.pi / np.sum(radius**2))
        distance, nearest = cKDTree(centre).query(wobble)
        return np.where(distance < radius[nearest], nearest, -1)

    def named(label: np.ndarray, width: int = 5) -> list[str | None]:
        return [None if k < 0 else f"{k:0{width}d}" for k in label.tolist()]

    scale = blocks / 421_545
    minor = county * 100_000 + cells(max(int(1_300 * scale), 5))
    return pl.DataFrame(
        {
            "geocode": codes,
            "place": named(discs(max(int(1_300 * scale), 3), 0.3, 1.0)),
            "county_subdivision": named(minor, 9),
            "school_district": named(cells(max(int(500 * scale), 3))),
            "tribal_area": named(discs(3, 0.002, 0.3)),
            # No step and no aim names these two.
            "house_district": named(cells(max(int(400 * scale), 4))),
            "postal_area": named(cells(max(int(1_400 * scale), 6))),
        }
    )


def write_people(folder: Path, table: pl.DataFrame) -> None:
    """People for the blocks of a made-up state, a third of which are empty."""
    rng = np.random.default_rng(2)
    people = np.where(rng.random(len(table)) < 0.3, 0, rng.lognormal(3, 1.2, len(table))).astype(np.int64)
    groups = ["hisp", "white", "black", "asian"]
    of_block = np.repeat(np.arange(len(table)), people)
    counts = pl.DataFrame(
        {
            "geocode": table["geocode"].gather(of_block),
            "voting_age": np.where(rng.random(len(of_block)) < 0.78, "18_plus", "under_18"),
            "race_ethnicity": pl.Series(groups).gather(
                rng.choice(4, len(of_block), p=[0.15, 0.6, 0.15, 0.1])
            ),
        }
    )
    path = folder / "made_up_counts.parquet"
    counts.group_by(pl.all()).len("count").write_parquet(path)
    geography = table.select(
        "geocode",
        pl.col("geocode").str.head(2).alias("state"),
        *(pl.col("geocode").str.head(n).alias(name.lower()) for name, n in LENGTHS.items()),
    )
    geography.write_parquet(folder / "made_up_blocks.parquet")
    write_country(folder, blocks=None, schema="race-age", like=path, seed=1)
