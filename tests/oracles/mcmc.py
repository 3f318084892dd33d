"""Algorithms 1, 2 and 3 of the paper in floating point: the reference for tests of the kernels.

It is never used for a release. Two misprints are corrected: the accepted w* belongs to the lagged chain (step 11), and
proposals start once before the loop over coordinates (step 4 of Algorithm 2; inside the loop, as printed, it would undo
all coordinates except the last).

Source: Dharangutte, Gao, Gong, Yu 2022, appendix D.
"""

import math
from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.subspace.mechanisms import LatticeLaw


def log_density(law: LatticeLaw, z: Integers) -> float:
    """ln q(z) without the normaliser."""
    size = float((z * z).sum() if law.squares else np.abs(z).sum())
    return -float(law.rate) * (math.sqrt(size) if law.takes_root else size)


def double_geometric(rng: np.random.Generator, a: float) -> int:
    """A jump with P(e) = (1 - a) / (1 + a) a^|e|: the difference of two geometric numbers."""
    return int(rng.geometric(1 - a)) - int(rng.geometric(1 - a))


def mass(a: float, e: int) -> float:
    """P(e) of the double-geometric law."""
    return (1 - a) / (1 + a) * a ** abs(e)


def algorithm_1(
    law: LatticeLaw,
    basis: Integers,
    a: Sequence[float],
    v: Integers,
    rng: np.random.Generator,
    iterations: int,
) -> Integers:
    """Gibbs-within-Metropolis: the state z = C v after each iteration, int64 [iterations, n_cells]."""
    states = np.empty((iterations, basis.shape[0]), dtype=np.int64)
    v = v.copy()
    for iteration in range(iterations):
        proposal = v.copy()
        for j in range(basis.shape[1]):
            proposal[j] = v[j] + double_geometric(rng, a[j])
        ratio = log_density(law, basis @ proposal) - log_density(law, basis @ v)
        if math.log(rng.random()) <= ratio:
            v = proposal
        states[iteration] = basis @ v
    return states


def algorithm_2(
    law: LatticeLaw, basis: Integers, a: Sequence[float], v: Integers, w: Integers, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """One step of the maximal coupling. It takes the pair (v, w) and returns the next one."""
    v_new, w_new = v.copy(), w.copy()
    for j in range(basis.shape[1]):
        jump = double_geometric(rng, a[j])
        v_new[j] = v[j] + jump
        if rng.random() * mass(a[j], jump) <= mass(a[j], int(v_new[j] - w[j])):
            w_new[j] = v_new[j]
            continue
        while True:
            jump = double_geometric(rng, a[j])
            if rng.random() * mass(a[j], jump) > mass(a[j], int(w[j] + jump - v[j])):
                break
        w_new[j] = w[j] + jump
    log_r = math.log(rng.random())
    keep_v = log_r > log_density(law, basis @ v_new) - log_density(law, basis @ v)
    keep_w = log_r > log_density(law, basis @ w_new) - log_density(law, basis @ w)
    return (v if keep_v else v_new), (w if keep_w else w_new)


def algorithm_3(
    law: LatticeLaw, basis: Integers, a: Sequence[float], lag: int, longest: int, rng: np.random.Generator
) -> int:
    """tau - lag of one pair of chains that start at zero, or longest + 1."""
    v = np.zeros(basis.shape[1], dtype=np.int64)
    w = v.copy()
    for _ in range(lag):
        proposal = v + np.array([double_geometric(rng, each) for each in a])
        if math.log(rng.random()) <= log_density(law, basis @ proposal) - log_density(law, basis @ v):
            v = proposal
    for time in range(1, longest + 1):
        if np.array_equal(v, w):
            return time - 1
        v, w = algorithm_2(law, basis, a, v, w, rng)
    return longest + 1
