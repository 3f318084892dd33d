from fractions import Fraction

import numpy as np
import pytest

from tallyveil.noise import DiscreteGaussian, DiscreteLaplace, NoiseSource, insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.three_columns import _table, three_column_sampler
from tallyveil.subspace.structure import recognise

ADDRESS = NoiseAddress(NoiseSource(insecure_key("three columns")), 0, 1)
LAWS = (DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(2)))


def structure(n_rows, n_columns=3):
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return recognise(ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], cells.size))


@pytest.mark.parametrize("law", LAWS)
def test_tables_of_pairs(law):
    """Against a plain two-dimensional convolution in floats; and rough tables are within their stated error."""
    made = {}
    laws = SumLaws(law)
    x = np.arange(-40, 41)
    p = np.array([law.probability(int(v)) for v in x])
    pair = np.array(
        [[p[a] * p[b] * (p[a + b - 40] if 0 <= a + b - 40 < 81 else 0) for b in range(81)] for a in range(81)]
    )
    pair /= pair.sum()
    double = np.zeros((161, 161))
    for a in range(81):
        for b in range(81):
            if pair[a, b] > 1e-25:
                double[a : a + 81, b : b + 81] += pair[a, b] * pair
    for n, plain, middle in ((1, pair, 40), (2, double, 80)):
        table = _table(laws, n, 160, made)
        rough = _table(laws, n, 64, made)
        for s in range(-6, 7):
            for t in range(-6, 7):
                assert table.at(s, t) / 2.0**160 == pytest.approx(plain[middle + s, middle + t], rel=1e-9)
        for s in range(-table.reach, table.reach + 1):
            for t in range(-table.reach, table.reach + 1):
                assert abs((rough.at(s, t) << 96) - table.at(s, t)) <= (rough.error << 96) + table.error


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ignored", [45, 55, 63])
def test_whole_number_decisions_agree_with_floats(law, ignored):
    quick = three_column_sampler(law, structure(4), 12)
    slow = three_column_sampler(law, structure(4), 12, ignored_digits=ignored)
    assert (quick.draw(ADDRESS, range(40)) == slow.draw(ADDRESS, range(40))).all()


def test_tables_of_many_rows_hold_their_mass():
    """Forty rows: the weights of so many still add up to 1, and the tables decide nearly every split."""
    sampler = three_column_sampler(DiscreteGaussian(Fraction(4)), structure(40), 120)
    whole = sampler._tables[40, 160]
    assert sum(map(sum, whole.values)) == pytest.approx(1 << 160, rel=1e-8)
    noise = sampler.draw(ADDRESS, range(300)).reshape(300, 40, 3)
    assert not noise.sum(axis=1).any()
    assert not noise.sum(axis=2).any()
    # Two of three cells of a row, and all but one row in forty, are free.
    assert noise.var() == pytest.approx(4 * 2 / 3 * 39 / 40, rel=0.03)


def test_large_tables_are_left_to_trials():
    assert three_column_sampler(DiscreteLaplace(Fraction(50)), structure(4), 12) is None
    assert three_column_sampler(LAWS[0], structure(65), 195) is None
    assert three_column_sampler(LAWS[0], structure(3, 4), 12).grid.shape == (4, 3)
