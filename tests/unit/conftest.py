"""Random small spines and entities, and dense generalised least squares, for the tests of spines."""

from collections.abc import Callable

import numpy as np
import pytest

from tallyveil.geography import (
    EntityFamily,
    Spine,
    entities_from_pairs,
    spine_from_columns,
)


def make_spine(rng: np.random.Generator, n_finest: int, n_levels: int, *, one_root: bool = False) -> Spine:
    """Nested runs of neighbours; geocodes say nothing of the tree."""
    label = np.arange(n_finest)
    labels = [label]
    for _ in range(n_levels - 1):
        starts = rng.random(label.max() + 1) < rng.uniform(0.2, 1.0)
        starts[0] = True
        label = (np.cumsum(starts) - 1)[label]
        labels.append(label)
    if one_root and n_levels > 1:
        labels[-1] = np.zeros(n_finest, dtype=np.int64)
    columns = {}
    for level, one in enumerate(reversed(labels)):
        names = rng.permutation(one.max() + 1)
        columns[f"L{level}"] = [f"{'abcdefg'[level]}{names[k]:02d}" for k in one]
    return spine_from_columns(columns, list(columns))


def make_family(rng: np.random.Generator, spine: Spine, n_entities: int, name: str = "any") -> EntityFamily:
    """Entities that may overlap: any sets, half of them made of whole runs."""
    n = spine.n_geounits(spine.finest)
    rows, entities = [], []
    for entity in range(n_entities):
        first, last = np.sort(rng.integers(0, n + 1, 2))
        inside = np.zeros(n, dtype=bool)
        inside[first:last] = True
        inside ^= rng.random(n) < rng.choice([0.0, 0.1, 0.4])
        if not inside.any():
            inside[rng.integers(0, n)] = True
        members = np.flatnonzero(inside)
        rows.append(members)
        entities += [f"e{entity:02d}"] * len(members)
    codes = spine.geocodes[-1][np.concatenate(rows)]
    return entities_from_pairs(spine, name, codes, entities)


def dense_variance(rows: np.ndarray, precisions: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Variances of `wanted` x under generalised least squares of `rows` x; infinite where it cannot be told."""
    exact = np.isinf(precisions)
    # What is known exactly is taken out: x lies in the null space of those rows.
    basis = np.eye(rows.shape[1])
    if exact.any():
        _, values, right = np.linalg.svd(rows[exact])
        basis = right[(values > 1e-9).sum() :].T
    measured = (rows[~exact] @ basis) * np.sqrt(precisions[~exact])[:, None]
    values, vectors = np.linalg.eigh(measured.T @ measured)
    top = max(values.max(initial=0), 1e-300)
    kept = values > 1e-11 * top
    loads = wanted @ basis @ vectors
    lost = (np.abs(loads[:, ~kept]) > 1e-7).any(axis=1)
    return np.where(lost, np.inf, (loads[:, kept] ** 2 / values[kept]).sum(axis=1))


@pytest.fixture
def random_spine() -> Callable[..., Spine]:
    """Makes a spine: (rng, n_finest, n_levels, one_root)."""
    return make_spine


@pytest.fixture
def random_family() -> Callable[..., EntityFamily]:
    """Makes a family: (rng, spine, n_entities, name)."""
    return make_family


@pytest.fixture
def dense_gls() -> Callable[..., np.ndarray]:
    """Dense generalised least squares: (rows, precisions, wanted)."""
    return dense_variance
