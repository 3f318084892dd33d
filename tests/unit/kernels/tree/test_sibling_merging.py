"""Merging of siblings against its plain twin."""

import numpy as np
import pytest
from tests.oracles.sibling_merging import merge_siblings_reference
from tests.samples import ten

from tallyveil.kernels.tree.off_spine_distance import EntityEntries, Siblings, merge_siblings


def near_and_far(inner, outer):
    return np.minimum(inner, outer + 1), np.minimum(outer, inner + 1)


def random_case(rng):
    """Two roots over parents over children, the last with whatever distances inside could give them."""
    n_parents, n_entities = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    root_of = np.sort(rng.integers(0, 2, n_parents))
    root_of = np.unique(root_of, return_inverse=True)[1]
    n_children = rng.integers(1, 6, n_parents)
    child_begin = np.concatenate([[0], np.cumsum(n_children)])
    parent_of = np.repeat(np.arange(n_parents), n_children)
    lists = [[] for _ in parent_of]
    entries, place = [], {}
    for k in range(n_entities):
        touched = [c for c in range(len(parent_of)) if rng.random() < rng.choice([0.3, 0.9])] or [0]
        sums: dict[int, list[int]] = {}
        for c in touched:
            near = int(rng.integers(0, 4))
            far = max(near + int(rng.integers(-1, 2)), 0)
            near += near == far == 0
            p = int(parent_of[c])
            both = sums.setdefault(p, [0, int(n_children[p])])
            both[0] += near
            both[1] += far - 1
            lists[c].append((k, near, far))
        roots: dict[int, list[int]] = {}
        for p, (x, y) in sums.items():
            r = int(root_of[p])
            both = roots.setdefault(r, [0, int((root_of == r).sum())])
            both[0] += min(x, y + 1)
            both[1] += min(y, x + 1) - 1
        for r, (x, y) in roots.items():
            place[k, "root", r] = len(entries)
            entries.append((x, y, -1, k))
        for p, (x, y) in sums.items():
            place[k, "parent", p] = len(entries)
            entries.append((x, y, place[k, "root", int(root_of[p])], k))
    arrays = EntityEntries(*(np.array(column, dtype=np.int64) for column in zip(*entries, strict=True)))
    of_parent = [
        [place[k, "parent", p] for k in range(n_entities) if (k, "parent", p) in place]
        for p in range(n_parents)
    ]
    flat = [
        sorted((place[k, "parent", int(parent_of[c])], near, far) for k, near, far in lists[c])
        for c in range(len(parent_of))
    ]
    rows = np.array([row for one in flat for row in one], dtype=np.int64).reshape(-1, 3)
    siblings = Siblings(
        child_begin.astype(np.int64),
        rng.integers(1, 6, n_parents),
        np.concatenate([[0], np.cumsum([len(one) for one in of_parent])]).astype(np.int64),
        np.array([e for one in of_parent for e in one], dtype=np.int64),
        np.concatenate([[0], np.cumsum([len(one) for one in flat])]).astype(np.int64),
        *(rows[:, column].copy() for column in range(3)),
    )
    distance = np.zeros(n_entities, dtype=np.int64)
    near, _ = near_and_far(arrays.inner, arrays.outer)
    roots_only = arrays.above < 0
    np.add.at(distance, arrays.entity[roots_only], near[roots_only])
    return siblings, arrays, distance


@pytest.mark.parametrize("seed", ten(range(200)))
def test_agrees_with_its_twin(seed):
    siblings, entries, distance = random_case(np.random.default_rng([62, seed]))
    expected_distance = distance.copy()
    gains_first = bool(seed % 2)
    expected, rounds = merge_siblings_reference(siblings, entries, expected_distance, gains_first)
    changed = EntityEntries(entries.inner.copy(), entries.outer.copy(), entries.above, entries.entity)
    group_of, n_rounds = merge_siblings(siblings, changed, distance, gains_first)
    assert group_of.tolist() == expected.tolist()
    assert n_rounds == rounds
    assert distance.tolist() == expected_distance.tolist()
    near, _ = near_and_far(changed.inner, changed.outer)
    total = np.zeros(len(distance), dtype=np.int64)
    roots_only = entries.above < 0
    np.add.at(total, entries.entity[roots_only], near[roots_only])
    assert total.tolist() == distance.tolist()  # what was changed in place adds up
