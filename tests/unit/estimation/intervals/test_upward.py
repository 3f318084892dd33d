"""The sweep up the tree against dense generalised least squares of each geounit's subtree, on random trees."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.samples import every, few
from tests.unit.estimation.intervals.test_against_dense import matrix, random_model

from tallyveil.estimation.intervals import upward as module
from tallyveil.estimation.intervals.algebra import information
from tallyveil.estimation.intervals.model import LevelModel, Zeros, model_of_levels
from tallyveil.estimation.intervals.upward import (
    Done,
    block_rows,
    block_sweep,
    joined_sums,
    query_sweep,
    subtrees_of,
    sweep_subtrees,
    sweep_up,
)
from tallyveil.geography.build import spine_from_columns
from tallyveil.measurements.answers import NoisyMeasurements, measure_one_by_one
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema


@dataclass
class Source:
    """Noisy answers held in memory: by geolevel, one table for each measured query."""

    model: Any
    tables: dict

    def measure(self, geolevel, query, start, stop, answers):
        level = self.model.levels[self.model.spine.level_index(geolevel)]
        number = [group.name for group in level.measured].index(query)
        precisions = level.precisions_of(np.arange(start, stop))[:, number]
        with np.errstate(divide="ignore"):
            variances = 1.0 / precisions
        return NoisyMeasurements(
            geolevel, query, start, answers, self.tables[geolevel][number][start:stop][:, answers], variances
        )

    def measure_families(self, wanted):
        return measure_one_by_one(self, wanted)


def measured(model, rng):
    """A source of made-up answers, and the exact answers of the invariants."""
    spine = model.spine
    truth = rng.poisson(3.0, (spine.n_geounits(spine.finest), model.schema.size))
    truth *= ~model.zero_patterns[model.zero_pattern]
    tables, exact = {}, {}
    for level, own in enumerate(model.levels):
        sums = np.zeros((spine.n_geounits(level), model.schema.size), np.int64)
        np.add.at(sums, spine.ancestors(level), truth)
        tables[own.geolevel] = [
            sums @ matrix(group).T.astype(np.int64) + rng.integers(-9, 10, (len(sums), group.size))
            for group in own.measured
        ]
        if own.invariants:
            exact[own.geolevel] = np.concatenate(
                [sums @ matrix(group).T.astype(np.int64) for group in own.invariants], axis=1
            )
    return Source(model, tables), exact


def estimated(model, source, exact, workers=1, prepared=block_sweep):
    """Results for every geounit above the finest, by geolevel, and the pieces in which they came."""
    sweep = prepared(model)
    spine, pieces = model.spine, []
    found = [np.full((spine.n_geounits(k), sweep.width(k)), np.nan) for k in range(spine.finest)]

    def receive(level, first, cells):
        found[level][first : first + len(cells)] = cells
        pieces.append((level, first))

    sweep_up(sweep, source, exact, receive, workers=workers)
    return found, pieces


def of_subtree(model, source, exact, level, geounit):
    """Dense least squares of all that is measured in or below a geounit, and what it leaves undetermined."""
    spine, n_cells = model.spine, model.schema.size
    members = np.flatnonzero(spine.ancestors(level) == geounit)
    normal = np.zeros((len(members) * n_cells,) * 2)
    right = np.zeros(len(normal))
    exact_rows = [np.eye(len(normal))[model.zero_patterns[model.zero_pattern[members]].reshape(-1)]]
    exact_values = [np.zeros(len(exact_rows[0]))]
    for finer in range(level, spine.n_levels):
        own, above = model.levels[finer], spine.ancestors(finer)[members]
        for g in np.unique(above):
            inside = (above == g).astype(float)
            precisions = own.precisions_of(np.array([g]))[0]
            for q, group in enumerate(own.measured):
                asked = np.kron(inside, matrix(group))
                normal += precisions[q] * asked.T @ asked
                right += precisions[q] * asked.T @ source.tables[own.geolevel][q][g]
            if own.invariants:
                exact_rows += [np.kron(inside, matrix(group)) for group in own.invariants]
                exact_values.append(exact[own.geolevel][g])
    rows, values = np.concatenate(exact_rows), np.concatenate(exact_values)
    particular = np.linalg.lstsq(rows, values, rcond=1e-10)[0] if len(rows) else np.zeros(len(normal))
    sizes, vectors = np.linalg.eigh(rows.T @ rows)
    free = vectors[:, sizes < 1e-8]
    inside = free.T @ normal @ free
    solved = free @ (
        np.linalg.pinv(inside, rcond=1e-11, hermitian=True) @ (free.T @ (right - normal @ particular))
    )
    return (particular + solved).reshape(len(members), n_cells).sum(axis=0)


@pytest.mark.parametrize("seed", few(4, every(3, range(60))))
def test_measured_answers_are_those_of_dense_least_squares(seed):
    model, rng = random_model(seed, seed % 3 > 0)
    source, exact = measured(model, rng)
    found, _ = estimated(model, source, exact)
    for level in range(model.spine.finest):
        own = model.levels[level]
        precisions = own.precisions_of(np.arange(len(found[level])))
        for g in range(len(found[level])):
            dense = of_subtree(model, source, exact, level, g)
            # The invariants of the geounit and what is measured in it are determined, and perhaps nothing else.
            asked = [group for q, group in enumerate(own.measured) if precisions[g, q] > 0] + [
                *own.invariants
            ]
            for group in asked:
                np.testing.assert_allclose(
                    matrix(group) @ found[level][g], matrix(group) @ dense, rtol=1e-9, atol=1e-7
                )


@pytest.fixture
def country():
    """Three geolevels, several patterns of facilities, and unequal groups."""
    kind = Attribute("kind", ("household", "prison", "dormitory", "nursing"))
    age, race = Attribute("age", ("minor", "adult")), Attribute("race", ("a", "b", "c"))
    recode = Recode(
        "institution", "kind", (("no", ("household",)), ("yes", ("prison", "dormitory", "nursing")))
    )
    schema = Schema("small", (kind, age, race), (recode,))
    rng = np.random.default_rng(5)
    columns = {
        "root": ["r"] * 36,
        "tract": [f"t{i // 6}" for i in range(36)],
        "block": [f"b{i:02}" for i in range(36)],
    }
    spine = spine_from_columns(columns, list(columns))
    groups = tuple(map(schema.query, ("total", "institution", "age", "race", "age*race", "detailed")))
    levels = [
        LevelModel(name, groups, np.exp(rng.normal(0, 1, (1, len(groups)))), ()) for name in spine.geolevels
    ]
    absent = np.concatenate([np.zeros((36, 1), bool), rng.random((36, 3)) < 0.7], axis=1)
    absent[:6, 1] = True  # no prison in the first tract
    return model_of_levels(schema, spine, levels, zeros=[Zeros(schema.query("kind"), "block", absent)]), rng


def test_facilities_are_used_to_nine_digits(country):
    model, rng = country
    source, exact = measured(model, rng)
    found, _ = estimated(model, source, exact)
    for level, geounits in enumerate(found):
        for g, cells in enumerate(geounits):
            np.testing.assert_allclose(
                cells, of_subtree(model, source, exact, level, g), rtol=1e-9, atol=1e-9
            )
    assert not found[1][0].reshape(4, -1)[1].any()  # exactly zero
    assert found[1][1:].reshape(5, 4, -1)[:, 1].any()


@pytest.mark.parametrize("prepared", [block_sweep, query_sweep])
def test_the_bits_depend_on_no_division_and_no_thread(country, monkeypatch, prepared):
    model, rng = country
    source, exact = measured(model, rng)
    usual, pieces = estimated(model, source, exact, 1, prepared)
    assert pieces == [(1, 0), (0, 0)]
    monkeypatch.setattr(module, "GEOUNITS_AT_ONCE", 2)
    monkeypatch.setattr(module, "FINEST_AT_ONCE", 7)
    monkeypatch.setattr(module, "GEOUNITS_PER_CALL", 1)
    for workers in (1, 2):
        other, pieces = estimated(model, source, exact, workers, prepared)
        assert pieces == [(1, 0), (1, 2), (1, 4), (0, 0)]
        assert [one.tobytes() for one in usual] == [one.tobytes() for one in other]


@pytest.mark.parametrize("prepared", [block_sweep, query_sweep])
@pytest.mark.parametrize("subtrees", [1, 2, 5, 100])
def test_subtrees_that_others_sweep_give_the_same_bits(country, monkeypatch, prepared, subtrees):
    model, rng = country
    source, exact = measured(model, rng)
    usual, _ = estimated(model, source, exact, 1, prepared)
    monkeypatch.setattr(module, "SUBTREES", subtrees)
    monkeypatch.setattr(module, "GEOUNITS_AT_ONCE", 2)
    sweep, spine = prepared(model), model.spine
    found = [np.full((spine.n_geounits(k), sweep.width(k)), np.nan) for k in range(spine.finest)]

    def receive(level, first, cells):
        assert np.isnan(found[level][first : first + len(cells)]).all()  # nothing is estimated twice
        found[level][first : first + len(cells)] = cells

    level, spans = subtrees_of(sweep)
    assert level == next(
        (k for k in range(spine.finest) if spine.n_geounits(k) >= subtrees), spine.finest - 1
    )
    assert [first for first, _ in spans[1:]] == [last for _, last in spans[:-1]]
    assert (spans[0][0], spans[-1][1]) == (0, spine.n_geounits(level))
    passed = [sweep_subtrees(sweep, source, exact, receive, (level, *span)) for span in spans]
    sweep_up(sweep, source, exact, receive, done=Done(level, joined_sums(passed)))
    assert [one.tobytes() for one in usual] == [one.tobytes() for one in found]


@pytest.mark.parametrize("seed", every(3, range(12)))
def test_rows_are_factors_of_the_information(seed):
    model, _ = random_model(seed, True)
    groups = [group for level in model.levels for group in level.measured]
    rows = block_rows(model.algebra, groups)
    for q, group in enumerate(groups):
        blocks = []
        for k, d in enumerate(model.algebra.basis.dims):
            begin, count = rows.begin[q, k], rows.counts[q, k]
            own = rows.entries[begin : begin + count * d].reshape(count, d)
            blocks.append((own.T @ own).ravel())
        np.testing.assert_allclose(np.concatenate(blocks), information(model.algebra, group), atol=1e-12)


def by_itself(model, source, exact, level, geounit, group, answer):
    """Estimate and variance of one answer from the answers of its query in and below a geounit; None if unknown."""
    spine, own = model.spine, model.levels[level]
    found = None
    if level < spine.finest:
        offsets = spine.child_offsets[level]
        below = [
            by_itself(model, source, exact, level + 1, child, group, answer)
            for child in range(offsets[geounit], offsets[geounit + 1])
        ]
        if None not in below:
            found = sum(value for value, _ in below), sum(variance for _, variance in below)
    elif model.zero_patterns[model.zero_pattern[geounit]][
        group.answers_of(np.arange(group.n_cells)) == answer
    ].all():
        return Fraction(0), Fraction(0)
    begin = 0
    for one in own.invariants:
        if one.factors == group.factors:
            return Fraction(int(exact[own.geolevel][geounit, begin + answer])), Fraction(0)
        begin += one.size
    for q, one in enumerate(own.measured):
        precision = Fraction(float(own.precisions_of(np.array([geounit]))[0, q]))
        if one.factors == group.factors and precision > 0:
            noisy = Fraction(int(source.tables[own.geolevel][q][geounit, answer])), 1 / precision
            if found is None:
                return noisy
            if found[1] == 0:
                return found
            weights = 1 / found[1], precision
            total = sum(weights)
            return (weights[0] * found[0] + weights[1] * noisy[0]) / total, 1 / total
    return found


@pytest.mark.parametrize("seed", few(4, every(3, range(30))))
def test_queries_by_themselves_are_means_by_inverse_variance(seed):
    model, rng = random_model(seed, seed % 3 > 0)
    source, exact = measured(model, rng)
    found, _ = estimated(model, source, exact, 1, query_sweep)
    for level in range(model.spine.finest):
        own, begin = model.levels[level], 0
        precisions = own.precisions_of(np.arange(len(found[level])))
        for q, group in enumerate(own.measured):
            for g in np.flatnonzero(precisions[:, q] > 0):
                for answer in range(group.size):
                    value, _ = by_itself(model, source, exact, level, g, group, answer)
                    assert found[level][g, begin + answer] == pytest.approx(float(value), rel=1e-10, abs=1e-9)
            begin += group.size


def test_queries_by_themselves_lose_nothing_where_children_are_alike(country):
    """Least squares of the query-wise estimates with their weights is the best estimate of the cells."""
    model, rng = country
    model = model_of_levels(model.schema, model.spine, model.levels)
    source, exact = measured(model, rng)
    best, _ = estimated(model, source, exact)
    alone, _ = estimated(model, source, exact, 1, query_sweep)
    weights, children = model.levels[-1].precisions[0], {1: 6, 0: 6}
    groups = model.levels[0].measured
    begin = np.cumsum([0, *(group.size for group in groups)])
    for level in (1, 0):
        weights = model.levels[level].precisions[0] + weights / children[level]
        normal = sum(w * matrix(group).T @ matrix(group) for w, group in zip(weights, groups, strict=True))
        for g, values in enumerate(alone[level]):
            right = sum(
                w * matrix(group).T @ values[start : start + group.size]
                for w, group, start in zip(weights, groups, begin, strict=False)
            )
            np.testing.assert_allclose(np.linalg.solve(normal, right), best[level][g], rtol=1e-9, atol=1e-9)
