"""Equations A.5 and A.6 of the f-DP paper hold as corrected, and not as printed."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.samples import nightly

from tallyveil.noise import DiscreteGaussian
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.fdp_census.appendix import (
    QUERIES,
    class_weights,
    knots,
    printed_total_of_two,
    printed_weights,
    sum_by_classes,
)

SMALL = Fraction(3, 2)


@pytest.fixture(scope="module")
def tables():
    return knots(StudyInputs(None)).tables


@pytest.mark.parametrize("n", [2, *map(nightly, (3, 4))])
def test_the_corrected_form_is_the_law_of_the_sum(n):
    """Every point of a box whose coordinates add up to y, one by one."""
    found = sum_by_classes(SMALL, n)
    law = DiscreteGaussian(SMALL)
    by_sum: dict[int, float] = {}
    for point in product(range(-9, 10), repeat=n):
        by_sum[sum(point)] = by_sum.get(sum(point), 0.0) + math.prod(law.probability(x) for x in point)
    middle = found.size // 2
    for y in range(-n - 1, n + 2):
        assert found[middle + y] == pytest.approx(by_sum[y], rel=1e-9)
    assert found.sum() == pytest.approx(1, rel=1e-12)


def test_type_one_and_type_two_errors_are_the_exact_ones(tables):
    for row in tables["knots"].iter_rows(named=True):
        assert row["alpha_corrected"] == pytest.approx(row["alpha_exact"], rel=1e-9)
        assert row["beta_corrected"] == pytest.approx(row["beta_certified_upper"], abs=1e-12)
        assert row["beta_corrected"] == pytest.approx(row["beta_certified_lower"], abs=1e-12)
        assert row["alpha_printed"] != pytest.approx(row["alpha_exact"], rel=0.1)
    assert tables["knots"]["queries"].unique().to_list() == list(QUERIES)


def test_what_is_printed_is_no_law(tables):
    totals = dict(tables["knots-totals"].iter_rows())
    assert all(total > 2 for total in totals.values())
    assert totals["Theorem A.8"] == pytest.approx(2 * math.sqrt(2), rel=1e-6)
    assert printed_total_of_two(400.0) == pytest.approx(2 * math.sqrt(2), rel=1e-12)


def test_the_printed_factor_is_wrong_from_the_second_remainder_on():
    """k (n - 1) in the place of k (n - k): the same for k = 0 and 1, and so for two queries."""
    for n in (2, 3, 5):
        right, printed = class_weights(SMALL, n), printed_weights(SMALL, n)
        k = np.arange(n)
        wanted = np.exp(-k * (k - 1) / (2 * n * float(SMALL)))
        assert printed / printed[0] == pytest.approx(wanted * right / right[0], rel=1e-12)
