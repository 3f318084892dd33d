"""The page's intervals against those of Python: the same whole numbers."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.estimation.intervals.test_against_dense import random_model
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.numerics.in_node import ask_node, floats

from tallyveil.estimation.intervals.answers import Answers
from tallyveil.estimation.intervals.interval import intervals_if_any, intervals_of, rounded_inward

pytestmark = node_needed

PER_LEVEL = 2_500
LEVELS = ((0.95, 1), (0.5, 1), (0.9, 25_181), (0.6827, 3), (0.999999, 1), (0.99, 389))


@pytest.fixture(scope="module")
def model():
    return random_model(0, True)[0]


def random_answers(seed):
    """Estimates near and far from zero, far below it, whole and half numbers; errors that are tiny, large or zero."""
    rng = np.random.default_rng(seed)
    errors = np.exp(rng.uniform(np.log(0.05), np.log(3_000), PER_LEVEL))
    errors[:200] = np.exp(rng.uniform(-14, -3, 200))
    errors[200:300] = 0.0
    errors[300:330] = np.inf
    scale = np.where(np.isinf(errors), 1.0, errors)
    estimates = np.round(rng.normal(0, 1, PER_LEVEL) * scale * rng.choice([0.3, 3.0, 8.0], PER_LEVEL), 6)
    estimates[::5] = np.round(estimates[::5])
    estimates[1::50] = np.floor(estimates[1::50]) + 0.5
    estimates[2::9] += 1e6
    return Answers(estimates, errors**2)


@pytest.mark.parametrize("kind", ["unified", "normal"])
def test_intervals_are_those_of_python(model, kind):
    answers = [random_answers(seed) for seed in range(len(LEVELS))]
    cases, wanted = [], []
    for (level, together), own in zip(LEVELS, answers, strict=True):
        made = intervals_of(model, own, level=level, kind=kind, simultaneous=together)
        low, high = made.low, made.high
        if kind == "normal":
            low, high = rounded_inward(own.estimates, low, high, least=-np.inf)
        wanted.append(np.stack([low, high], axis=1))
        variances = [str(one) if np.isinf(one) else one for one in own.variances.tolist()]
        cases += [
            [estimate, variance, level, together]
            for estimate, variance in zip(own.estimates.tolist(), variances, strict=True)
        ]
    found, sure = floats(ask_node("intervals", kind=kind, cases=cases)), np.concatenate(wanted)
    np.testing.assert_array_equal(found, sure)
    finite = sure[np.isfinite(sure).all(axis=1)]
    assert len(np.unique(finite, axis=0)) > 1_000
    assert (finite[:, 0] > 0).any()
    assert (finite[:, 0] == finite[:, 1]).any()


@pytest.mark.parametrize("level", [0.49, 1.0, 1 - 2.0**-53])
def test_levels_that_python_refuses_are_refused(level):
    with pytest.raises(AssertionError, match="the level of an interval is"):
        ask_node("intervals", kind="unified", cases=[[1.0, 1.0, level, 1]])


def test_a_district_has_an_interval_where_its_answer_is_estimated(model):
    estimates, variances = np.array([3.2, -1.0, 7.0, np.nan]), np.array([4.0, np.inf, 0.0, 2.0])
    texts = [[str(one) for one in values.tolist()] for values in (estimates, variances)]
    for level, together in ((0.95, 1), (0.8, 2)):
        given = intervals_of(model, Answers(estimates, variances), level=level, simultaneous=together)
        asked = {"level": level, "together": together, "gaussian": True}
        found = ask_node("district", estimates=texts[0], variances=texts[1], asked=asked)
        assert found == [[given.low[0], given.high[0]], None, [7, 7], None]
    apart = ask_node(
        "district", estimates=texts[0], variances=texts[1], asked={"level": 0.95, "gaussian": False}
    )
    assert apart == [None, None, [7, 7], None]
    less = {"level": 0.95, "gaussian": True, "difference": True}
    assert ask_node("district", estimates=["3.2"], variances=["4"], asked=less) == [[0, 7]]
    assert ask_node("district", estimates=["-3.2"], variances=["4"], asked=less) == [[-7, 0]]


def test_laplace_noise_has_intervals_only_of_exact_counts(model):
    """The estimate of an exact count can have a rounding error."""
    estimates = [2.9999999, 3.0000001, 5.0]
    answers = Answers(np.array(estimates), np.array([0.0, 0.0, 1.0]))
    given = intervals_if_any(replace(model, gaussian=False), answers, level=0.95)
    found = ask_node(
        "district",
        estimates=[str(one) for one in estimates],
        variances=["0", "0", "1"],
        asked={"level": 0.95, "gaussian": False},
    )
    assert found == [[3, 3], [3, 3], None]
    assert given.low[:2].tolist() == given.high[:2].tolist() == [3, 3]
    assert np.isnan(given.low[2])
