"""The page's variances against those of Python, on small random trees with everything that is hard about them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.estimation.intervals.test_against_dense import features, random_model, with_exact_sums
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.numerics.in_node import ask_node, floats

from tallyveil.estimation.intervals.answers import level_variances, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.explore.district import DISTRICT_FILE, NUMBERS_FILE, DescribedTable, describe
from tallyveil.explore.files import write_json_data
from tallyveil.postprocess.intervals.fits import IntervalFit

RELATIVE = 1e-9
NOTHING = 1e-9
"""Variances below this are rounding errors of zero. All precisions are of the order of 1."""
DISTRICTS = 6

pytestmark = node_needed


def queries_of(schema):
    """Tables of one and several answers, measured or not."""
    return tuple(schema.query(name) for name in ("total", schema.attributes[0].name, "detailed"))


def write_model(model, site, rows):
    """The description of a model, with the finest geounits of the site in another order than in the spine."""
    groups = queries_of(model.schema)
    fit = IntervalFit(groups, model)
    tables = [DescribedTable(group, fit) for group in groups]
    content, numbers = describe(tables, model.spine, rows, gaussian=True)
    write_json_data(site, DISTRICT_FILE, content)
    numbers.write(site / NUMBERS_FILE)


def random_set(rng, spine, n):
    """Finest geounits that follow each other, are scattered, single, all, or those of a geounit."""
    kind = int(rng.integers(5))
    if kind == 0:
        first, last = np.sort(rng.integers(0, n + 1, 2))
        return np.arange(first, max(last, first + 1)) % n
    if kind == 1:
        return np.union1d(
            np.flatnonzero(rng.random(n) < rng.choice([0.2, 0.5, 0.9])), rng.integers(n, size=1)
        )
    if kind == 2:
        return rng.integers(n, size=1)
    if kind == 3:
        return np.arange(n)
    offsets = spine.finest_offsets(int(rng.integers(spine.n_levels)))
    geounit = int(rng.integers(len(offsets) - 1))
    return np.arange(offsets[geounit], offsets[geounit + 1])


def random_districts(rng, spine, n):
    """Pairs of sets; the second, which is subtracted, is None in half of them."""
    for number in range(DISTRICTS):
        minus = random_set(rng, spine, n) if number % 2 else None
        yield random_set(rng, spine, n), minus


MODELS = {
    "everything measured": [lambda seed=seed: random_model(seed, True)[0] for seed in range(60)],
    "parts unmeasured": [lambda seed=seed: random_model(1000 + seed, False)[0] for seed in range(60)],
    "exact sums of siblings": [lambda seed=seed: with_exact_sums(seed)[0] for seed in range(12)],
}


def agree(found, wanted):
    """Infinite in the same places, zero in the same places, and otherwise equal to nine digits."""
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    found, wanted = (np.where(np.isinf(one), -1.0, one) for one in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=RELATIVE, atol=NOTHING)


@pytest.mark.nightly
@pytest.mark.parametrize("which", MODELS)
def test_districts_and_geounits_are_those_of_python(which, tmp_path):
    models = [make() for make in MODELS[which]]
    rng = np.random.default_rng(len(which))
    sites, wanted = [], []
    for number, model in enumerate(models):
        n, site = len(model.zero_pattern), tmp_path / str(number)
        rows = rng.permutation(n) if number % 2 else np.arange(n)
        write_model(model, site, rows)
        covariance = tree_covariance(model)
        questions = questions_of(model.algebra, queries_of(model.schema))
        districts, regions = [], []
        for plus, minus in random_districts(rng, model.spine, n):
            asked = {"rows": plus.tolist(), "minus": None if minus is None else minus.tolist()}
            districts.append(asked)
            region = region_of(model.spine, rows[plus])
            regions.append(region if minus is None else region - region_of(model.spine, rows[minus]))
        sites.append(
            {"site": str(site), "districts": districts, "geolevels": list(range(model.spine.n_levels))}
        )
        levels = [level_variances(covariance, level, questions) for level in range(model.spine.n_levels)]
        wanted.append((region_variances(covariance, regions, questions), levels))
    for found, (variances, levels) in zip(ask_node("variances", sites=sites), wanted, strict=True):
        agree(floats(found["districts"]), variances)
        for one, level in zip(found["geolevels"], levels, strict=True):
            agree(floats(one), level)
    if which == "parts unmeasured":
        assert any(np.isinf(variances).any() for variances, _ in wanted)
    else:
        assert all((variances > NOTHING).any() for variances, _ in wanted[:20])


@pytest.mark.nightly
def test_the_models_hold_what_is_hard():
    models = [make() for name in ("everything measured", "parts unmeasured") for make in MODELS[name]]
    counts = Counter(name for model in models for name in features(model))
    assert len(counts) == 12
    assert min(counts.values()) >= 3


def test_other_precisions_give_the_variances_of_another_plan(tmp_path):
    model, rng = random_model(3, True)
    write_model(model, tmp_path, np.arange(len(model.zero_pattern)))
    distinct = [np.unique(level.precisions, axis=0, return_inverse=True) for level in model.levels]
    changed = [rows * rng.uniform(0.5, 2.0, rows.shape[1]) for rows, _ in distinct]
    levels = [
        replace(level, precisions=new[row.reshape(-1)])
        for level, new, (_, row) in zip(model.levels, changed, distinct, strict=True)
    ]
    other = replace(model, levels=tuple(levels))
    numbers = [[], *(new.ravel().tolist() for new in changed)]
    every = list(range(model.spine.n_levels))
    found = ask_node("changed", site=str(tmp_path), precisions=numbers, geolevels=every)
    assert [one["names"] for one in found["before"][1:]] == [[q.name for q in own.measured] for own in levels]
    covariance, questions = tree_covariance(other), questions_of(model.algebra, queries_of(model.schema))
    for level, one in zip(every, found["geolevels"], strict=True):
        agree(floats(one), level_variances(covariance, level, questions))
        assert not np.allclose(floats(one), level_variances(tree_covariance(model), level, questions))
