"""Estimates of one table from sums: equal to least squares over all cells, and unbiased with the stated variance."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from tests.samples import every, few
from tests.unit.estimation.intervals.test_against_dense import (
    matrix,
    random_query,
    random_schema,
    random_spine,
)

from tallyveil.estimation.intervals.answers import level_answers, region_answers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.merged import (
    MergedRows,
    UnmergedModel,
    derive_atoms,
    merged_model,
    sums_of,
)
from tallyveil.estimation.intervals.model import LevelModel, Zeros, model_of_levels
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.schema import Schema


@dataclass
class Named:
    """Noisy answers in memory, by geolevel and query."""

    tables: dict

    def rows(self, level, queries, start, stop):
        own = [self.tables[level, group.factors][start:stop] for group in queries]
        n = stop - start
        return np.concatenate([np.zeros((n, 0), np.int64), *own], axis=1)


def random_measured(seed, *, most_queries=4):
    """Queries, precisions, zeros and invariants of a random schema on a random spine."""
    rng = np.random.default_rng(seed)
    schema, n_levels = random_schema(rng), int(rng.integers(1, 4))
    spine = random_spine(rng, n_levels)
    zeros = []
    if rng.random() < 0.4:
        query = random_query(rng, schema)
        shape = spine.n_geounits(spine.finest), query.size
        zeros.append(Zeros(query, spine.geolevels[-1], rng.random(shape) < 0.3))
    levels = []
    for level, name in enumerate(spine.geolevels):
        groups = {}
        for _ in range(int(rng.integers(1, most_queries + 1))):
            group = random_query(rng, schema)
            groups[group.factors] = group
        if rng.random() < 0.7:
            groups[schema.query("detailed").factors] = schema.query("detailed")
        n = spine.n_geounits(level) if rng.random() < 0.5 else 1
        precisions = np.exp(rng.normal(-1, 1, (n, len(groups))))
        exact = (schema.query("total"),) if rng.random() < 0.2 else ()
        levels.append(LevelModel(name, tuple(groups.values()), precisions, exact))
    return UnmergedModel(schema, spine, levels, tuple(zeros)), rng


def random_truth(measured, rng):
    """True cells of the finest geounits; cells that must be zero are."""
    model = model_of_levels(
        measured.schema, measured.spine, measured.levels, zeros=measured.zeros, largest_block=9999
    )
    present = ~model.zero_patterns[model.zero_pattern]
    return rng.poisson(3.0, present.shape) * present, model


def sums_by_level(spine, truth):
    return [
        np.add.reduceat(truth, spine.finest_offsets(level)[:-1], axis=0) for level in range(spine.n_levels)
    ]


def noisy(measured, truth, rng, spread=5.0):
    """Noisy answers; their noise need not have the stated variance, because estimates are compared with estimates."""
    tables = {}
    for level, own in enumerate(sums_by_level(measured.spine, truth)):
        for group in measured.levels[level].measured:
            exact = own @ matrix(group).T
            tables[level, group.factors] = np.rint(exact + spread * rng.normal(size=exact.shape)).astype(
                np.int64
            )
    return Named(tables)


def exact_answers(measured, truth):
    """The invariants, before cells are merged."""
    found = {}
    for own, level in zip(sums_by_level(measured.spine, truth), measured.levels, strict=True):
        if level.invariants:
            found[level.geolevel] = np.concatenate(
                [own @ matrix(group).T for group in level.invariants], axis=1
            )
    return {name: values.astype(np.int64) for name, values in found.items()}


def merged_exact(merged, exact):
    found = {}
    for name, sums in zip(merged.tree.spine.geolevels, merged.exact, strict=True):
        if sums:
            found[name] = np.concatenate(
                [one.apply(exact[name]) for one in sums], axis=1
            )  # one invariant: the total
    return found


def merged_answers(merged, rows, exact):
    covariance = tree_covariance(merged.tree)
    fit = fit_tree(covariance, MergedRows(rows, merged), merged_exact(merged, exact))
    questions = questions_of(merged.tree.algebra, merged.asked)
    spine = merged.tree.spine
    levels = [level_answers(fit, level, questions) for level in range(spine.n_levels)]
    region = region_of(spine, range(0, spine.n_geounits(spine.finest), 2))
    return [*levels, region_answers(fit, [region], questions)]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isinf(one.variances), np.isinf(other.variances))
        known = np.isfinite(other.variances)
        scale = other.variances[known].max(initial=1e-3)
        assert np.abs(one.variances[known] - other.variances[known]).max(initial=0) <= 1e-9 * scale
        size = np.abs(other.estimates[known]).max(initial=0) + np.sqrt(scale)
        assert np.abs(one.estimates[known] - other.estimates[known]).max(initial=0) <= 1e-9 * size


@pytest.mark.parametrize("seed", few(4, range(30)))
def test_with_all_atoms_it_is_least_squares_over_all_cells(seed):
    measured, rng = random_measured(seed)
    truth, model = random_truth(measured, rng)
    rows, exact = noisy(measured, truth, rng), exact_answers(measured, truth)
    fit = fit_tree(tree_covariance(model), rows, exact)
    asked = random_query(rng, measured.schema)
    questions = questions_of(model.algebra, asked)
    spine = measured.spine
    wanted = [level_answers(fit, level, questions) for level in range(spine.n_levels)]
    region = region_of(spine, range(0, spine.n_geounits(spine.finest), 2))
    wanted.append(region_answers(fit, [region], questions))
    merged = merged_model(measured, asked, measured.atoms_of(asked, most_atoms=10**6))
    assert_same(merged_answers(merged, rows, exact), wanted)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", every(3, range(12)))
def test_few_atoms_give_unbiased_estimates_with_the_stated_variance(seed):
    """Both are computed from the weight of every single noisy answer, which is found by changing it by one."""
    measured, rng = random_measured(100 + seed, most_queries=3)
    measured = replace(measured, levels=[replace(level, invariants=()) for level in measured.levels])
    truth, _ = random_truth(measured, rng)
    spine, asked = measured.spine, random_query(rng, measured.schema)
    atoms = measured.atoms_of(asked, most_atoms=int(rng.integers(1, 4)))
    merged = merged_model(measured, asked, atoms)
    nothing = {key: np.zeros_like(table) for key, table in noisy(measured, truth, rng).tables.items()}
    base = merged_answers(merged, Named(nothing), {})
    covariance = tree_covariance(merged.tree)
    questions = questions_of(merged.tree.algebra, merged.asked)
    variances = [np.zeros_like(one.variances) for one in base[:-1]]
    expected = [np.zeros_like(one.variances) for one in base[:-1]]
    for (level, factors), table in nothing.items():
        own = measured.levels[level]
        number = [group.factors for group in own.measured].index(factors)
        exact = sums_by_level(spine, truth)[level] @ matrix(own.measured[number]).T
        for geounit, answer in product(*map(range, table.shape)):
            one = table.copy()
            one[geounit, answer] = 1
            fit = fit_tree(covariance, MergedRows(Named(nothing | {(level, factors): one}), merged), {})
            precision = own.precisions_of(np.array([geounit]))[0, number]
            for at in range(spine.n_levels):
                weight = np.nan_to_num(level_answers(fit, at, questions).estimates)
                variances[at] += weight**2 / precision
                expected[at] += weight * exact[geounit, answer]
    for level, found in enumerate(base[:-1]):
        known = np.isfinite(found.variances)
        np.testing.assert_allclose(variances[level][known], found.variances[known], rtol=1e-9, atol=1e-9)
        true = sums_by_level(spine, truth)[level] @ dense(asked)
        np.testing.assert_allclose(expected[level][known], true[known], rtol=1e-9, atol=1e-8)


def dense(asked):
    return np.sum([matrix(layer).T for layer in asked.layers], axis=0)


SCHEMA = Schema(
    "small",
    (
        Attribute("age", tuple("01234567")),
        Attribute("race", tuple("abc")),
        Attribute("kind", ("home", "none")),
    ),
    (
        Recode("bands", "age", (("young", tuple("012")), ("old", tuple("34567")))),
        Recode("late", "age", (("mid", tuple("34")), ("old", tuple("567")))),
        Recode("any", "race", (("a", ("a", "b")), ("c", ("b", "c"))), overlapping=True),
    ),
    (StructuralZero("none is young", (("kind", ("none",)), ("age", tuple("34567")))),),
)


def test_sums_are_the_finest_unions_of_atoms():
    atoms = derive_atoms(SCHEMA, SCHEMA.query("bands"), [SCHEMA.query("age*race")], most_atoms=1)
    assert atoms.n == 2
    sums = sums_of(atoms, SCHEMA.query("age*race"))
    assert sums.terms.tolist() == [9, 15]
    values = np.arange(24)[None, :]
    assert sums.apply(values).tolist() == [[sum(range(9)), sum(range(9, 24))]]
    # "late" leaves young people out, who are an atom of their own
    late = sums_of(atoms, SCHEMA.query("late*kind"))
    assert late.codes.tolist() == [0, -1] or late.codes.tolist() == [-1, 0]
    assert late.terms.tolist() == [
        2
    ]  # "old" people are never of kind "none", so two of four answers have a cell
    assert sums_of(atoms, SCHEMA.query("kind")).n == 1


def test_even_attributes_are_not_divided():
    queries = [SCHEMA.query(name) for name in ("age*race", "race", "bands")]
    atoms = derive_atoms(SCHEMA, SCHEMA.query("total"), queries)
    assert atoms.group.shape == (8, 1, 1)  # race is even; nothing asks for kind
    assert derive_atoms(SCHEMA, SCHEMA.query("race"), queries).group.shape == (8, 3, 1)
    uneven = [*queries, SCHEMA.query("any").layers[0]]
    assert derive_atoms(SCHEMA, SCHEMA.query("total"), uneven).group.shape[1] > 1


def test_overlapping_groups_of_the_table():
    atoms = derive_atoms(SCHEMA, SCHEMA.query("any"), [SCHEMA.query("race")])
    codes = [atoms.codes_of(layer).tolist() for layer in SCHEMA.query("any").layers]
    assert set(zip(*codes, strict=True)) == {(0, -1), (0, 1), (-1, 1)}
