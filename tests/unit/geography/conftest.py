"""Random small spines and entities for the tests of this folder."""

from collections.abc import Callable

import numpy as np
import pytest

from tallyveil.geography import EntityFamily, Spine, entities_from_pairs, spine_from_columns


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
    """Entities that may overlap: mostly runs of neighbours with some changed, as real ones are."""
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


@pytest.fixture
def random_spine() -> Callable[..., Spine]:
    """Makes a spine: (rng, n_finest, n_levels, one_root)."""
    return make_spine


@pytest.fixture
def random_family() -> Callable[..., EntityFamily]:
    """Makes a family: (rng, spine, n_entities, name)."""
    return make_family
