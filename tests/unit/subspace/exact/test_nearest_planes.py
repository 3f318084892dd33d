import time
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.noise.balls import precision, rational
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact import nearest_planes as planes
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of

ADDRESS = NoiseAddress(NoiseSource(insecure_key("planes")), 0, 1)
OBLIQUE = lattice_of(ConstraintSystem.from_matrix([[1, 2, 3]]))


def test_more_candidates_change_nothing(monkeypatch):
    """With few candidates at first, many draws go the long way, to the same outcomes."""
    draws = np.arange(300)
    usual, accepted = planes.nearest_planes(OBLIQUE, Fraction(9)).trials(ADDRESS, draws, 0, 1)
    monkeypatch.setattr(planes, "_FIRST_CANDIDATES_BITS", 1)
    again, also = planes.nearest_planes(OBLIQUE, Fraction(9)).trials(ADDRESS, draws, 0, 1)
    assert (accepted == also).all()
    assert (usual == again).all()


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(1), Fraction(20)])
def test_sums_around_any_centre(variance):
    with precision(128):
        for centre in (Fraction(0), Fraction(1, 3), Fraction(-7, 2)):
            x = np.arange(-200, 201)
            plain = np.exp(-((x - float(centre)) ** 2) / (2 * float(variance))).sum()
            assert float(planes._theta(variance, centre, 128)) == pytest.approx(plain)


def test_wide_laws_are_laid_out_at_once():
    """Trials that hardly ever fail: the share that does is not told from 0 by thousands of digits."""
    proposal = planes.nearest_planes(OBLIQUE, Fraction(2500))
    began = time.process_time()
    vectors, accepted = proposal.trials(ADDRESS, np.arange(2000), 0, 1)
    assert time.process_time() - began < 10  # a minute with every share laid out
    assert accepted.all()
    assert OBLIQUE.contains(vectors.T)
    # Cells have the variance of the projection onto the plane: 1 - a_i^2 / |a|^2 of the parameter.
    expected = 2500 * (1 - np.array([1, 4, 9]) / 14)
    assert vectors.var(axis=0) == pytest.approx(expected, rel=0.15)


def test_both_formulas_for_sums_agree():
    """Poisson's formula beside the plain sum, which `_theta` uses for variances below 1."""
    with precision(256):
        for variance in (Fraction(1), Fraction(7, 3), Fraction(900)):
            for centre in (Fraction(0), Fraction(1, 2), Fraction(-1, 3)):
                rate = -1 / (2 * rational(variance))
                plain = sum(((rate * rational(x - centre) ** 2).exp() for x in range(-900, 901)), arb(0))
                found = planes._theta(variance, centre, 128)
                assert found.rad() < 2**-100
                assert abs(float(found - plain)) < 1e-30
