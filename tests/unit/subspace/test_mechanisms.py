from fractions import Fraction

import numpy as np

from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, size_of

L1, L2 = GeneralisedLaplace("l1", Fraction(1, 4)), GeneralisedLaplace("l2", Fraction(1, 4))
GAUSSIAN = GeneralisedGaussian(Fraction(3))


def test_sizes():
    z = np.array([[3, -4], [0, 1]])
    assert size_of(L1, z).tolist() == [7, 1]
    assert size_of(L2, z).tolist() == size_of(GAUSSIAN, z).tolist() == [25, 1]
