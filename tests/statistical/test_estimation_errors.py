"""Where no count is near zero, the released errors have the law that least squares promises."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.histograms import histogram_from_triplets

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.allocation import allocation_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.confidential.measure import Measurer
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import EstimationPass, FamilyProblem, MeasuredQuery, RoundingStage
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema

pytestmark = pytest.mark.nightly

RUNS = 1500
SCHEMA = Schema("s", (Attribute("a", ("x", "y", "z")), Attribute("b", ("p", "q"))))
GEOCODES = [f"{run:04d}" for run in range(RUNS)]
SPINE = spine_from_prefixes(GEOCODES, ("Root",), (4,))
TRUTH = np.array([900, 800, 700, 1600, 500, 400])
QUERIES = ("total", "a", "detailed")


def strategy(mechanism):
    shares = tuple((query, Fraction(1, 3)) for query in QUERIES)
    return Strategy(
        mechanism, Neighbours.BOUNDED, Fraction(1, 20), (("Root", Fraction(1)),), (("Root", shares),)
    )


def estimates(mechanism) -> np.ndarray:
    """Real-valued estimates of many geounits with the same counts and noise of their own, shape (RUNS, 6)."""
    cells = np.arange(6)
    geounits = np.repeat(np.arange(RUNS), 6)
    histogram = histogram_from_triplets("Root", RUNS, geounits, np.tile(cells, RUNS), np.tile(TRUTH, RUNS))
    labels = {query: SCHEMA.query(query).answers_of(cells).astype(np.int32) for query in QUERIES}
    allocation = allocation_of(strategy(mechanism), SPINE)
    source = Measurer((histogram,), SCHEMA, allocation, NoiseSource(insecure_key("estimates")))
    found = []
    for run, geocode in enumerate(GEOCODES):
        measured = [source.measure("Root", q, run, run + 1, np.arange(SCHEMA.query(q).size)) for q in QUERIES]
        problem = FamilyProblem(
            geocode=geocode,
            geolevel="Root",
            children=(geocode,),
            support=cells,
            parent_counts=None,
            measured=tuple(MeasuredQuery(m.query, labels[m.query], m.values, m.variances) for m in measured),
            constraints=(),
            passes=(EstimationPass(QUERIES),),
            rounding=(RoundingStage((("detailed", labels["detailed"]),)),),
        )
        solution = estimate_family(problem)
        assert np.abs(solution.counts - solution.estimate).max() <= 1
        found.append(solution.estimate[0])
    return np.array(found)


def covariance(mechanism) -> np.ndarray:
    """Covariance of generalised least squares, from explicit matrices."""
    information = np.zeros((6, 6))
    for query in QUERIES:
        group = SCHEMA.query(query)
        matrix = np.zeros((group.size, 6))
        matrix[group.answers_of(np.arange(6)), np.arange(6)] = 1
        information += matrix.T @ matrix / strategy(mechanism).law("Root", query).variance_float()
    return np.linalg.inv(information)


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_errors_are_unbiased_and_have_the_promised_variance(mechanism):
    errors = estimates(mechanism) - TRUTH
    expected = covariance(mechanism)
    for weights in (
        np.ones(6),
        np.array([1, 1, 0, 0, 0, 0]),
        np.array([1, 0, 0, 0, 0, 0]),
        np.array([1, -1, 0, 0, 0, 0]),
    ):
        combined = errors @ weights / np.sqrt(weights @ expected @ weights)
        assert abs(combined.mean()) < 5 / np.sqrt(RUNS)
        spread = (combined**2).mean()
        # Kurtosis of the Laplace law makes its spread less sure; 5 standard errors of each.
        tolerance = 5 * np.sqrt((2 if mechanism is Mechanism.DISCRETE_GAUSSIAN else 5) / RUNS)
        assert abs(spread - 1) < tolerance
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        whitened = errors @ np.linalg.inv(np.linalg.cholesky(expected)).T
        assert stats.kstest((whitened**2).sum(axis=1), stats.chi2(6).cdf).pvalue > 1e-6
        assert stats.kstest((whitened**2).sum(axis=1) * 1.15, stats.chi2(6).cdf).pvalue < 1e-6
