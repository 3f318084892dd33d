"""Slow oracles of the allocation of blocks: every size, class, factor and count, and every way to share counts out."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.stats import nbinom

from tallyveil.arrays import Floats, IntegerRows, Integers
from tallyveil.kernels.allocation.flow import price
from tallyveil.kernels.allocation.law import PER_SIZE, Families, Grid, Laws, Noise, Prior


def block_laws_reference(
    values: Integers, noise: Noise, families: Families, prior: Prior, grid: Grid, most: int
) -> Floats:
    """Probability of every table of counts from 0 to `most` of a block of family 0; an axis for each cell."""
    counts = np.arange(most + 1)
    place, shares = families.place[0], families.share_class[0]
    means = np.concatenate([[0.0], np.exp(grid.log_mean)])
    z = np.abs(values[:, None] - counts)
    told = np.exp(-noise.rate * z.astype(float) ** noise.power / noise.power)
    told[z > noise.reach] = 0.0

    def cell(c: int, mean: float) -> Floats:
        law = nbinom.pmf(counts, grid.concentration, grid.concentration / (grid.concentration + mean))
        return np.asarray(law * told[c])

    nobody = {c: cell(c, 0.0) for c in range(values.size)}
    total = np.zeros((most + 1,) * values.size)
    for s in range(grid.n_sizes):
        for h in range(grid.shift.shape[0]):
            laws = []
            for r, cells in enumerate(grid.cells):
                law = np.zeros((most + 1,) * len(cells))
                for g, step in enumerate(grid.factor):
                    if s == 0:
                        weight, parts = float(g == 0), [nobody[c] for c in cells]
                    elif g == 0:
                        weight, parts = prior.factor[shares[r], 0], [nobody[c] for c in cells]
                    else:
                        weight = prior.factor[shares[r], g]
                        places = [place[c] + PER_SIZE * (s - 1 + step) + grid.shift[h, c] for c in cells]
                        parts = [
                            cell(c, means[min(max(k, 0), len(means) - 1)])
                            for c, k in zip(cells, places, strict=True)
                        ]
                    outer = parts[0]
                    for part in parts[1:]:
                        outer = np.multiply.outer(outer, part)
                    law += weight * outer
                laws.append(law)
            joint = laws[0]
            for law in laws[1:]:
                joint = np.multiply.outer(joint, law)
            total += np.exp(prior.log_size[families.size_class[0], s, h]) * joint
    # From the groups' order of cells to the schema's.
    return np.moveaxis(total, range(values.size), grid.cells.ravel()) / total.sum()


def _divisions(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to divide n people among blocks."""
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _divisions(n - first, parts - 1):
            yield first, *rest


def cost_of(laws: Laws, counts: IntegerRows) -> int:
    """Sum of the prices of all units, and of those of the blocks' totals."""
    n, n_cells = counts.shape
    with_totals = np.concatenate([counts, counts.sum(axis=1, keepdims=True)], axis=1)
    return sum(
        price(laws, b * (n_cells + 1) + c, unit)
        for b in range(n)
        for c in range(n_cells + 1)
        for unit in range(1, int(with_totals[b, c]) + 1)
    )


def share_out_reference(laws: Laws, supply: Integers, n_blocks: int) -> int:
    """The least cost of any table of counts that adds up to the supply."""
    ways = [list(_divisions(int(n), n_blocks)) for n in supply]
    return min(cost_of(laws, np.array(columns).T) for columns in product(*ways))
