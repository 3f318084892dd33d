"""Made-up people of every block by voting age and race: empty blocks, skewed sizes, segregation."""

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

# Axes of the table of people: voting age (under 18, 18 and over), then the eight levels of race_ethnicity.
UNDER_18, ADULT = 0, 1
RACES = ("hisp", "white", "black", "aian", "asian", "nhpi", "other", "two")
NATIONAL_SHARE = np.array([0.17, 0.60, 0.12, 0.008, 0.055, 0.002, 0.005, 0.04])
MINOR_SHARE = np.array([0.32, 0.20, 0.26, 0.28, 0.20, 0.27, 0.28, 0.42])

# How far the log shares of races stray from those of the geounit around: together the segregation.
STRAY = {"county": 0.4, "tract": 0.8, "block_group": 0.4, "geocode": 0.3}

EMPTY_SHARE = 0.38
BLOCK_SIZE_MEDIAN, BLOCK_SIZE_SPREAD, LARGEST_BLOCK = 34.0, 1.0, 2_500.0
INSTITUTION_SHARE = 0.006
INSTITUTION_SIZE_MEDIAN, INSTITUTION_SIZE_SPREAD = 130.0, 0.9
INSTITUTION_MINOR_SHARE = 0.003


def make_people(geography: pl.DataFrame, generator: np.random.Generator) -> NDArray[np.int64]:
    """Fill a country with people.

    Args:
        geography: One row per block.
        generator: Source of the made-up counts.
    Returns:
        Shape (n_blocks, 2, 8): people by voting age and race.
    """
    totals, institution = _block_totals(geography, generator)
    races = generator.multinomial(totals, _race_shares(geography, generator))
    shift = generator.normal(0.0, 0.5, geography.height)[:, None]
    odds = MINOR_SHARE / (1 - MINOR_SHARE) * np.exp(shift)
    minor_share = np.where(institution[:, None], INSTITUTION_MINOR_SHARE, odds / (1 + odds))
    minors = generator.binomial(races, minor_share)
    return np.stack([minors, races - minors], axis=1).astype(np.int64)


def _block_totals(
    geography: pl.DataFrame, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """People of each block, and whether a large institution is in it."""
    n_blocks = geography.height
    group = _index(geography, "block_group")
    n_groups = int(group.max()) + 1
    # Parks, water and farmland come together, so blocks are empty in clusters.
    wild = generator.normal(0.0, 0.9, n_groups)[group]
    empty = generator.random(n_blocks) < 1 / (1 + np.exp(-(wild + math.log(EMPTY_SHARE / (1 - EMPTY_SHARE)))))
    density = generator.normal(0.0, 0.5, n_groups)[group]
    size = BLOCK_SIZE_MEDIAN * np.exp(density + generator.normal(0.0, BLOCK_SIZE_SPREAD, n_blocks))
    institution = ~empty & (generator.random(n_blocks) < INSTITUTION_SHARE)
    inmates = INSTITUTION_SIZE_MEDIAN * np.exp(generator.normal(0.0, INSTITUTION_SIZE_SPREAD, n_blocks))
    size = np.where(institution, 60 + inmates, size)
    totals = np.ceil(np.minimum(size, LARGEST_BLOCK)).astype(np.int64)
    return np.where(empty, 0, totals), institution


def _race_shares(geography: pl.DataFrame, generator: np.random.Generator) -> NDArray[np.float64]:
    """Race shares of each block, straying from geolevel to geolevel; shape (n_blocks, 8)."""
    log_shares = np.tile(np.log(NATIONAL_SHARE), (geography.height, 1))
    for column, stray in STRAY.items():
        geounit = _index(geography, column)
        log_shares += generator.normal(0.0, stray, (int(geounit.max()) + 1, len(RACES)))[geounit]
    weights = np.exp(log_shares)
    shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _index(geography: pl.DataFrame, column: str) -> NDArray[np.int64]:
    """Number of each block's geounit, in order of geocode; the table is sorted."""
    return geography[column].rle_id().to_numpy().astype(np.int64)
