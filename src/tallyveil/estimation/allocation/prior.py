"""The prior of blocks, learned from the noisy answers alone: expectation and maximisation.

Nothing is learned from true counts, so the prior costs no privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import FloatBlocks, FloatRows, IntegerRows, Integers
from tallyveil.estimation.allocation.model import FACTORS, FAMILY_SIZES, GROUP_SHARES, SIZES_AN_OCTAVE
from tallyveil.kernels.allocation.law import Families, Grid, Noise, Prior, expectations, likelihoods

STEPS: Final = 8
"""Steps of expectation and maximisation, for the concentration and again for all else. They do not reach the maximum:
sizes near nobody still change slowly, as `EMPTY` says."""

EMPTY: Final = 0.25
"""Share of blocks without people from which learning begins. The noisy answers hardly tell nobody from few people, so
that steps change this share slowly. On Rhode Island a smaller start leaves more empty blocks with people, and fewer
inhabited blocks are made empty; but it makes the noisy answers less likely. After 9 steps with a fifth of the families,
the logarithm of their likelihood is 12 larger from 0.4, 28 smaller from 0.1 and 75 smaller from 0.02. The share is then
0.05 to 0.23, and still grows from every start; in truth it is 0.28."""

FEW: Final = 5
"""One family in so many is used to choose the concentration."""

CONCENTRATIONS: Final = (4.0, 16.0, 64.0)
"""Concentrations that are tried. With the last, the spread of a cell's count in a block is nearly that of chance."""

ADDED_BLOCKS: Final = 0.05
"""Blocks added to each size of each class of families."""


def first_prior(grid: Grid) -> Prior:
    """The prior before anything is learned: `EMPTY` of the blocks, every size and class equally likely, and factors
    around 1.
    """
    sizes = np.ones((len(FAMILY_SIZES) + 1, grid.n_sizes, grid.shift.shape[0]))
    sizes[:, 0] *= (grid.n_sizes - 1) * EMPTY / (1.0 - EMPTY)
    factors = np.exp(-0.5 * (np.array(FACTORS) / SIZES_AN_OCTAVE) ** 2)
    return _maximised(sizes, np.tile(factors, (len(GROUP_SHARES) + 1, 1)))


def _maximised(sizes: FloatBlocks, factors: FloatRows) -> Prior:
    """The prior that makes expected numbers of blocks likeliest, with some blocks added."""
    n_sizes, n_classes = sizes.shape[1:]
    # A size's share of each class depends on its octave alone: few large blocks say little of single sizes.
    octave = np.concatenate([[0], 1 + np.arange(n_sizes - 1) // SIZES_AN_OCTAVE])
    of_class = np.zeros((int(octave.max()) + 1, n_classes))
    np.add.at(of_class, octave, sizes.sum(axis=0))
    of_class += 1.0 / n_classes
    of_class /= of_class.sum(axis=1, keepdims=True)
    of_size = sizes.sum(axis=2) + ADDED_BLOCKS
    of_size /= of_size.sum(axis=1, keepdims=True)
    factors = factors + 0.01
    factors /= factors.sum(axis=1, keepdims=True)
    return Prior(np.log(of_size)[:, :, None] + np.log(of_class[octave])[None], factors)


@dataclass(frozen=True, slots=True, eq=False)
class BlockModel:
    """What was learned of blocks.

    Attributes:
        grid: The lattice of means, and the lists of sizes, factors and classes.
        prior: The prior.
        n_blocks: Number of blocks whose noisy answers it was learned from.
    """

    grid: Grid
    prior: Prior
    n_blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Blocks to learn from.

    Attributes:
        values: Noisy values of each block and cell; 0 where the family has nobody.
        family: Family of each block.
        families: What is known of families.
    """

    values: IntegerRows
    family: Integers
    families: Families


def learned(sample: Sample, noise: Noise, grid_for: Callable[[float], Grid]) -> BlockModel:
    """The prior that makes the noisy answers of some blocks likeliest.

    The concentration is chosen on a fifth of the families, as it decides little; then sizes, classes and factors are
    learned from all.

    Args:
        sample: The blocks.
        noise: The law of the noise.
        grid_for: The lattice for a concentration.
    """
    distinct, place = np.unique(sample.values, return_inverse=True)
    column = place.reshape(sample.values.shape)
    few = np.flatnonzero(sample.family % FEW == 0)

    def improved(grid: Grid, prior: Prior, rows: Integers, steps: int) -> tuple[float, Prior]:
        table, logarithm = likelihoods(distinct, noise, grid)
        columns, family = column[rows], sample.family[rows]
        likelihood = 0.0
        for _ in range(steps):
            likelihood, sizes, factors = expectations(columns, table, family, sample.families, prior, grid)
            prior = _maximised(sizes, factors)
        return likelihood + float(logarithm[columns].sum()), prior

    tried = []
    for concentration in CONCENTRATIONS:
        grid = grid_for(concentration)
        tried.append((grid, *improved(grid, first_prior(grid), few, STEPS)))
    grid, _, prior = max(tried, key=lambda item: item[1])
    _, prior = improved(grid, prior, np.arange(len(sample.family)), STEPS)
    return BlockModel(grid, prior, len(sample.family))
