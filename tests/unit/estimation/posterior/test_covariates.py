"""How public numbers of blocks are coded."""

import numpy as np
import pytest

from tallyveil.estimation.posterior.covariates import FARTHEST, Covariates


def test_numbers_are_coded_by_their_logarithms_and_ranks():
    numbers = np.array([0, *2.0 ** np.arange(17), 0])
    covariates = Covariates.of(("homes",), numbers[:, None])
    (coding,) = covariates.codings
    logs = np.log(numbers[1:-1])
    assert (coding.centre, coding.spread) == pytest.approx((logs.mean(), logs.std()))
    assert coding.begins == [2, 4, 16, 256]
    assert covariates.design[1:-1, 0] == pytest.approx((logs - logs.mean()) / logs.std())
    assert covariates.design[:, 1].tolist() == [1, *[0] * 17, 1]
    assert covariates.design[[0, -1], 0].tolist() == [0, 0]
    assert covariates.kind.tolist() == [0, 1, 2, *[3] * 2, *[4] * 4, *[5] * 9, 0]


def test_units_of_a_number_have_no_effect():
    area = np.array([3.0, 0.0, 1e7, 40.0, 2e5])
    first, second = (Covariates.of(("area",), values[:, None]) for values in (area, area / 1e6))
    assert first.design == pytest.approx(second.design)
    assert (first.kind == second.kind).all()


@pytest.mark.parametrize(
    ("numbers", "columns"),
    [([0, 7, 7], 1), ([1, 2, 3], 1), ([0, 1, 2], 2), ([2**53 - 2, 2**53, 2**53], 0)],
)
def test_only_what_differs_has_an_effect(numbers, columns):
    assert Covariates.of(("homes",), np.array(numbers, float)[:, None]).design.shape == (3, columns)


def test_a_number_far_from_all_others_does_not_decide_alone():
    numbers = np.array([*range(1, 1000), 1e300])
    assert Covariates.of(("homes",), numbers[:, None]).design.max() == FARTHEST


def test_blocks_of_one_kind_are_so_in_every_covariate():
    numbers = np.array([[0, 5], [0, 0], [3, 5], [3, 0], [0, 5]], float)
    kind = Covariates.of(("homes", "area"), numbers).kind
    assert len(set(kind.tolist())) == 4
    assert kind[0] == kind[4]
