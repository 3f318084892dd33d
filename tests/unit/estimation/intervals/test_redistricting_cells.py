"""The full 2,016 cells of the redistricting data, once, against a dense solution."""

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.estimation.intervals.algebra import coefficients
from tallyveil.estimation.intervals.answers import level_answers, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.estimation.intervals.model import Zeros, model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of, sums_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.presets import load_preset

RELATIVE = 1e-9


class Rows:
    """Answers held in memory."""

    def __init__(self, tables):
        self.tables = tables

    def rows(self, level, queries, start, stop):
        return self.tables[level][start:stop]


@pytest.mark.nightly
@threadpool_limits.wrap(limits=1, user_api="blas")  # threads that wait for each other on a busy machine
def test_three_blocks_of_2016_cells():
    rng = np.random.default_rng(7)
    schema, strategy = (
        load_preset("pl94-persons"),
        load_strategy_preset("redistricting-state-rooted").strategy,
    )
    codes = ["440010101001001", "440010101001002", "440010101002001"]
    spine = spine_from_prefixes(codes, strategy.geolevels, [2, 5, 11, 12, 15])
    hhgq = schema.query("hhgq")
    closed = np.array([[0, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 0, 1, 0], [0] * 8], dtype=bool)
    model = model_of_strategy(
        schema, spine, strategy, invariants={"State": ["total"]}, zeros=[Zeros(hhgq, "Block", closed)]
    )
    present = ~model.zero_patterns[model.zero_pattern]
    truth = rng.poisson(0.3, (3, schema.size)) * present

    n = schema.size
    normal, right, tables = np.zeros((3 * n, 3 * n)), np.zeros(3 * n), []
    cells = np.arange(n)
    for level, name in enumerate(spine.geolevels):
        member = (spine.ancestors(level)[None] == np.arange(spine.n_geounits(level))[:, None]).astype(float)
        own, answers = np.zeros((n, n)), []
        spread = np.zeros((len(member), n))
        for query in strategy.queries(name):
            group, variance = schema.query(query), strategy.law(name, query).variance_float()
            values = np.rint(
                group.apply_dense(member @ truth) + rng.normal(0, variance**0.5, (len(member), group.size))
            )
            answers.append(values.astype(np.int64))
            number = group.answers_of(cells)
            own += (number[:, None] == number[None, :]) / variance
            spread += values[:, number] / variance
        normal += np.kron(member.T @ member, own)
        right += (member.T @ spread).ravel()
        tables.append(np.concatenate(answers, axis=1))

    kept = np.flatnonzero(present.ravel())
    factor = cho_factor(normal[np.ix_(kept, kept)], overwrite_a=True)
    weights = rng.integers(0, 2, (6, n)).astype(float)
    blocks = [np.array([1, 1, 1]), np.array([1, 1, 0]), np.array([0, 1, 0]), np.array([1, 0, 1])]
    asked = np.array([np.kron(block, weight)[kept] for block in blocks for weight in weights])
    everyone = np.ones(len(kept))
    solved = cho_solve(factor, np.column_stack([asked.T, everyone, right[kept]]))
    told, free = solved[:, -2], solved[:, -1]
    total = everyone @ told
    covariance = asked @ solved[:, :-2] - np.outer(asked @ told, asked @ told) / total
    estimates = asked @ (free + told * (truth.sum() - everyone @ free) / total)

    tree = tree_covariance(model)
    fit = fit_tree(tree, Rows(tables), {"State": np.array([[truth.sum()]])})
    questions = sums_of(model.algebra, coefficients(model.algebra, weights))
    found = [
        level_answers(fit, 0, questions),
        level_answers(fit, 3, questions),
        level_answers(fit, 4, questions),
    ]
    for one, place, block in ((found[0], 0, 0), (found[1], 0, 1), (found[2], 1, 2)):
        own = slice(6 * block, 6 * block + 6)
        np.testing.assert_allclose(one.estimates[place], estimates[own], rtol=RELATIVE, atol=RELATIVE)
        np.testing.assert_allclose(one.variances[place], np.diag(covariance[own, own]), rtol=RELATIVE)
    regions = [region_of(spine, np.flatnonzero(block)) for block in blocks]
    variances = region_variances(tree, regions, questions)
    region, row = np.divmod(np.arange(variances.size), questions.n)
    made = joint_covariance(tree, Asked(regions, region, questions.rows(), row), variances.ravel()).matrix()
    assert np.abs(made - covariance).max() <= RELATIVE * np.abs(covariance).max()
    assert level_answers(fit, 0, questions_of(model.algebra, schema.query("total"))).estimates[
        0, 0
    ] == pytest.approx(truth.sum(), rel=1e-12)
