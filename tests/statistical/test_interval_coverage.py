"""Intervals cover as often as they say, over many draws of exact discrete Gaussian noise.

Limits: with p the level and n errors that are nearly independent, six standard deviations of the count of hits; a
right program fails once in 500 million runs. `benchmarks/intervals.py` does the same at the size of a real release.
"""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.estimation.intervals.answers import level_answers, region_answers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.interval import contains, intervals_of
from tallyveil.estimation.intervals.model import Zeros, model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import Region
from tallyveil.geography.build import spine_from_columns
from tallyveil.noise.source import NoiseSource
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

pytestmark = pytest.mark.nightly

DRAWS = 400
COPIES = 20
"""The country stands so often beside itself, with noise of its own each time: one fit makes so many draws."""
LEVEL = 0.95


class Rows:
    """Answers held in memory."""

    def __init__(self, tables):
        self.tables = tables

    def rows(self, level, queries, start, stop):
        return self.tables[level][start:stop]


@pytest.fixture(scope="module")
def outcomes():
    """Hits and squared standardised errors by geolevel and for a scattered region: (normal, unified, squares)."""
    ages = Attribute("age", ("a", "b", "c", "d"))
    schema = Schema(
        "s", (ages, Attribute("home", ("h", "g"))), (Recode("half", "age", (("x", ("a", "b")),)),)
    )
    queries = tuple((name, Fraction(1, 4)) for name in ("total", "half", "age*home", "home"))
    names = ("A", "B", "C")
    shares = tuple((name, Fraction(1, 3)) for name in names)
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(1),
        shares,
        tuple((name, queries) for name in names),
    )
    own = [f"{town}{block}" for town in "pqr" for block in range(4 if town == "q" else 7)]
    codes = [f"{copy:02d}{code}" for copy in range(COPIES) for code in own]
    spine = spine_from_columns({"A": [c[:2] for c in codes], "B": [c[:3] for c in codes], "C": codes}, names)
    home = schema.query("home")
    closed = np.zeros((len(own), 2), dtype=bool)
    closed[::2, 1] = True
    closed = np.tile(closed, (COPIES, 1))
    model = model_of_strategy(
        schema, spine, strategy, invariants={"A": ["total"]}, zeros=[Zeros(home, "C", closed)]
    )
    truth = np.random.default_rng(1).poisson(2.0, (len(own), schema.size))
    truth[3:9] = 0  # empty blocks, where an interval must not be empty
    truth = np.tile(truth, (COPIES, 1))
    truth[model.zero_patterns[model.zero_pattern]] = 0
    covariance = tree_covariance(model)
    questions = questions_of(model.algebra, [schema.query("total"), schema.query("age*home")])
    scattered = np.arange(0, len(own), 3)
    regions = [Region(copy * len(own) + scattered, np.ones(len(scattered))) for copy in range(COPIES)]
    kept = {name: [] for name in (*names, "region")}
    sums = [np.add.reduceat(truth, spine.finest_offsets(level)[:-1], axis=0) for level in range(3)]
    in_region = truth.reshape(COPIES, len(own), -1)[:, scattered].sum(axis=1)
    source = NoiseSource((1).to_bytes(32, "little"))
    for draw in range(DRAWS // COPIES):
        tables = []
        for level, name in enumerate(names):
            parts = []
            for q, query in enumerate(strategy.queries(name)):
                group, law = schema.query(query), strategy.law(name, query)
                n = len(sums[level])  # each draw has addresses of its own
                noise = source.dense(law, level, q, range(draw * n, (draw + 1) * n), group.size)
                parts.append(group.apply_dense(sums[level]) + noise)
            tables.append(np.concatenate(parts, axis=1))
        fit = fit_tree(covariance, Rows(tables), {"A": sums[0].sum(axis=1, keepdims=True)})
        found = {name: level_answers(fit, level, questions) for level, name in enumerate(names)}
        found["region"] = region_answers(fit, regions, questions)
        for name, answers in found.items():
            cells = in_region if name == "region" else sums[names.index(name)]
            true = np.concatenate([cells.sum(axis=1, keepdims=True), cells], axis=1)
            random = answers.variances > 1e-6
            hits = [
                contains(intervals_of(model, answers, kind=kind), true.astype(np.int64))[random]
                for kind in ("normal", "unified")
            ]
            squares = ((answers.estimates - true) ** 2)[random] / answers.variances[random]
            kept[name].append([part.reshape(COPIES, -1) for part in (*hits, squares)])
    return {name: [np.concatenate(part) for part in zip(*parts, strict=True)] for name, parts in kept.items()}


@pytest.mark.parametrize("name", ["A", "B", "C", "region"])
def test_coverage(outcomes, name):
    normal, unified, _ = outcomes[name]
    # errors of one draw depend on each other: the spread is that of draws, not of single errors
    for hits in (normal, unified):
        by_draw = hits.mean(axis=1)
        assert abs(by_draw.mean() - LEVEL) < 6 * by_draw.std() / np.sqrt(DRAWS) + 0.002


@pytest.mark.parametrize("name", ["A", "B", "C", "region"])
def test_standardised_errors_have_variance_one(outcomes, name):
    by_draw = outcomes[name][2].mean(axis=1)
    assert abs(by_draw.mean() - 1) < 6 * by_draw.std() / np.sqrt(DRAWS)
