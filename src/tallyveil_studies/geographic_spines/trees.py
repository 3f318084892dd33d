"""Small spines with a share for every geounit, and what giving a geounit's share to its children does to variances.

Noise has the paper's units: the Laplace law has scale 1 / share, the Gaussian law has variance 1 / share. Each geounit
measures one answer, its total.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from tallyveil.accounting.guarantee import pure_parameters, zcdp_parameters
from tallyveil.arrays import Floats
from tallyveil.budget.spine.variance import spine_variances
from tallyveil.budget.strategy import Mechanism
from tallyveil.geography import Spine, spine_from_columns

Shares: TypeAlias = tuple[Floats, ...]
"""Share of every geounit, one array for each geolevel, root first. A geounit with share 0 is not measured."""

ROUNDING = 1e-11
"""A relative growth of at most this size is rounding of floating-point numbers."""


def whole_budget_parameters(mechanism: Mechanism, shares: int = 1) -> dict[str, float | None]:
    """Privacy parameters of noise for one record added or removed, whatever geounits are bypassed.

    Args:
        mechanism: A share of 1 costs epsilon 1 with the Laplace law, and rho 1/2 with the Gaussian law.
        shares: What the shares sum to on every path.
    """
    gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
    return (zcdp_parameters(Fraction(shares, 2)) if gaussian else pure_parameters(float(shares))).to_mapping()


def incidence(spine: Spine) -> NDArray[np.int64]:
    """The matrix A: a row for each geounit, coarsest geolevel first; a column for each block; 1 if the row contains it.

    Source: Cumings-Menon et al. 2023, equation 11.
    """
    levels = (
        spine.ancestors(level) == np.arange(spine.n_geounits(level))[:, None]
        for level in range(spine.n_levels)
    )
    return np.concatenate(list(levels)).astype(np.int64)


def spine_of_paths(paths: Iterable[Sequence[int]]) -> Spine:
    """A spine from the numbers of the geounits on the path to each block, without the root."""
    listed = list(paths)
    depth = len(listed[0])
    names = [f"level {level}" for level in range(depth + 1)]
    # Codes that begin with the parent's, so that each geolevel refines the one above.
    columns = {
        name: ["/".join(f"{number:03}" for number in (0, *path)[: level + 1]) for path in listed]
        for level, name in enumerate(names)
    }
    return spine_from_columns(columns, names)


def balanced(*fan_outs: int) -> Spine:
    """A spine with one root, in which every geounit of a geolevel has the same number of children."""
    return spine_of_paths(map(tuple, np.ndindex(*fan_outs)))


def shares_by_level(spine: Spine, shares: Sequence[float]) -> Shares:
    """The same share for every geounit of a geolevel."""
    return tuple(np.full(spine.n_geounits(level), float(share)) for level, share in enumerate(shares))


def given_to_children(spine: Spine, shares: Shares, level: int, geounits: Sequence[int]) -> Shares:
    """Shares after each of these geounits of one geolevel has given its own share to each of its children."""
    after = [share.copy() for share in shares]
    offsets = spine.child_offsets[level]
    for geounit in geounits:
        after[level + 1][offsets[geounit] : offsets[geounit + 1]] += after[level][geounit]
        after[level][geounit] = 0.0
    return tuple(after)


def precisions(shares: Shares, mechanism: Mechanism) -> Shares:
    """1 / variance of every geounit's own measurement."""
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return tuple(share.copy() for share in shares)
    # The variance of the Laplace law of scale b is 2 b**2.
    return tuple(share**2 / 2 for share in shares)


def variances(spine: Spine, shares: Shares, mechanism: Mechanism) -> Shares:
    """Variance of every geounit's total by weighted least squares with all measurements."""
    return spine_variances(spine, precisions(shares, mechanism)).variance


def growth(before: Shares, after: Shares) -> float:
    """Greatest relative growth of a geounit's variance; below 0 if every variance falls."""
    return max(float((new / old).max()) for old, new in zip(before, after, strict=True)) - 1


def growth_of_queries(spine: Spine, before: Shares, after: Shares, mechanism: Mechanism) -> float:
    """Greatest relative growth of the variance of any linear query of the blocks' counts."""
    matrix = incidence(spine)
    first, second = (
        matrix.T @ (np.concatenate(precisions(shares, mechanism))[:, None] * matrix)
        for shares in (before, after)
    )
    # The variance of query q is q' inv(second) q afterwards. Its greatest ratio is an eigenvalue of the pair.
    return float(eigh(first, second, eigvals_only=True)[-1]) - 1
