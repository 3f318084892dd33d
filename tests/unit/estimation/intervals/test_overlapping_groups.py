"""Estimates from measurements of overlapping groups, and of such groups, against dense generalised least squares."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.queries import sensitivities_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.estimation.intervals.algebra import coefficients
from tallyveil.estimation.intervals.answers import level_answers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.model import model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

LEVELS = ("a", "b", "ab", "c")
SCHEMA = Schema(
    "combinations",
    (Attribute("race", LEVELS), Attribute("age", ("young", "middle", "old"))),
    (
        Recode("any", "race", (("a", ("a", "ab")), ("b", ("b", "ab"))), overlapping=True),
        Recode(
            "up_to", "age", (("y", ("young",)), ("m", ("young", "middle")), ("o", ("young", "middle", "old"))),
            overlapping=True,
        ),
    ),
)  # fmt: skip
SPINE = spine_from_prefixes(["A1", "A2", "A3", "B1"], ("Region", "Town"), (1, 2))
QUERIES = ("any*up_to", "total", "detailed")


def dense(query: str) -> np.ndarray:
    return SCHEMA.query(query).apply_dense(np.eye(SCHEMA.size)).T


class Noisy:
    """Answers of every query asked, by name: what a file of measurements holds."""

    def __init__(self, tables: dict[tuple[int, str], np.ndarray]) -> None:
        self.tables = tables

    def rows(self, level, queries, start, stop):
        return np.concatenate([self.tables[level, group.name][start:stop] for group in queries], axis=1)


@pytest.mark.parametrize("asked", ["any", "any*up_to", "race*up_to", "detailed"])
def test_estimates_and_variances_are_those_of_dense_least_squares(asked):
    shares = tuple((name, Fraction(1, 3)) for name in QUERIES)
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(1),
        (("Region", Fraction(1, 4)), ("Town", Fraction(3, 4))),
        (("Region", shares), ("Town", shares)),
        sensitivities_of(SCHEMA, QUERIES),
    )
    rng = np.random.default_rng(4)
    truth = rng.poisson(20, (4, SCHEMA.size))
    members = [np.array([[1, 1, 1, 0], [0, 0, 0, 1]]), np.eye(4)]
    normal, right, tables = np.zeros((4 * SCHEMA.size,) * 2), np.zeros(4 * SCHEMA.size), {}
    for level, geolevel in enumerate(SPINE.geolevels):
        for query in QUERIES:
            rows, variance = dense(query), strategy.law(geolevel, query).variance_float()
            noisy = np.rint(
                members[level] @ truth @ rows.T
                + rng.normal(0, variance**0.5, (len(members[level]), len(rows)))
            )
            tables[level, query] = noisy.astype(np.int64)
            for geounit, weights in enumerate(members[level]):
                design = np.kron(weights, rows)
                normal += design.T @ design / variance
                right += design.T @ noisy[geounit] / variance
    covariance = np.linalg.inv(normal)
    model = model_of_strategy(SCHEMA, SPINE, strategy)
    fit = fit_tree(tree_covariance(model), Noisy(tables), {})
    questions = questions_of(model.algebra, [SCHEMA.query("total"), SCHEMA.query(asked)])
    assert questions.n == 1 + SCHEMA.query(asked).size
    for level in range(2):
        found = level_answers(fit, level, questions)
        for geounit, weights in enumerate(members[level]):
            design = np.kron(weights, np.concatenate([dense("total"), dense(asked)]))
            np.testing.assert_allclose(
                found.estimates[geounit], design @ covariance @ right, rtol=1e-8, atol=1e-7
            )
            np.testing.assert_allclose(
                found.variances[geounit], np.diag(design @ covariance @ design.T), rtol=1e-8
            )
    np.testing.assert_allclose(
        questions_of(model.algebra, SCHEMA.query(asked)).rows()
        @ coefficients(model.algebra, np.eye(SCHEMA.size)).T,
        dense(asked),
        atol=1e-9,
    )
