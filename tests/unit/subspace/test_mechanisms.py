from fractions import Fraction

import numpy as np
import pytest

from tallyveil.errors import BudgetError
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, size_of

L1, L2 = GeneralisedLaplace("l1", Fraction(1, 4)), GeneralisedLaplace("l2", Fraction(1, 4))
GAUSSIAN = GeneralisedGaussian(Fraction(3))


def test_sizes():
    z = np.array([[3, -4], [0, 1]])
    assert size_of(L1, z).tolist() == [7, 1]
    assert size_of(L2, z).tolist() == size_of(GAUSSIAN, z).tolist() == [25, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: GeneralisedLaplace("l1", Fraction(0)),
        lambda: GeneralisedLaplace("l2", Fraction(-1)),
        lambda: GeneralisedLaplace("l1", 0.25),
        lambda: GeneralisedGaussian(Fraction(0)),
        lambda: GeneralisedGaussian(Fraction(10**11)),
        lambda: GeneralisedLaplace("l1", Fraction("1e400")),
        lambda: GeneralisedLaplace("l2", Fraction("1e-400")),
        lambda: GeneralisedGaussian(Fraction("-1e400")),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(BudgetError) as caught:
        make()
    assert caught.value.code == "subspace-parameter"


def test_epsilon_zero_says_what_it_would_mean():
    with pytest.raises(BudgetError, match="infinite noise"):
        GeneralisedLaplace("l1", Fraction(0))
