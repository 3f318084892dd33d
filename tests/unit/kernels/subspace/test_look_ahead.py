"""Tables and look-ahead functions of the kernels against numpy's transforms."""

from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.look_ahead import look_ahead_of

from tallyveil.kernels.subspace.look_ahead import AddedCell, next_head
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace
from tallyveil.subspace.exact.column_tables import column_tables, inflations, scratch_memory
from tallyveil.subspace.exact.two_way_grid import LawGrid, histories, norm_exponent

# From a variance of 2 on, a formula gives the tables of the Gaussian law.
LAWS = (DiscreteLaplace(Fraction(2)), DiscreteGaussian(Fraction(3, 2)))


def sequence(tables, m, k, x, length):
    """L(w) g_{m-1}(x - w) at w modulo T, in the units of g_m."""
    weights, heads = tables.columns.weights[0], tables.columns.heads
    reach, last = weights.size - 1, heads.shape[1] - 1
    out = np.zeros(length)
    for w in range(-reach, reach + 1):
        out[w % length] = (
            weights[abs(w)] * heads[m - 2, min(abs(x - w), last)] * tables.columns.steps[m - 1, k]
        )
    return out


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n_columns", [4, 5])
def test_tables_and_functions_against_numpy(law, n_columns):
    grid = LawGrid((law,), np.zeros((4, n_columns), dtype=np.int64))
    tables = column_tables(grid)
    heads, length = tables.columns.heads, tables.sizes.length
    inflation = inflations(grid.law_of, histories(grid)[2], length)
    assert (inflation >= 2.0**-26).all()
    assert (inflation < 2.0**-25).all()
    for m in (2, 3, 4):
        for x in (0, 1, 5, 17):
            spectrum = np.abs(np.fft.fft(sequence(tables, m, 0, x, length)))
            norm = (spectrum**n_columns).mean() ** (1 / n_columns)
            assert heads[m - 1, x] == pytest.approx(norm * (1 + inflation[m - 1]), rel=1e-10)
    left = np.array([3, -2, -2, 1, 0][:n_columns])
    memory = scratch_memory(n_columns, length)
    look_ahead_of(tables.columns, tables.roots, 3, left, memory)
    t = [sequence(tables, 3, k, x, length) / heads[2, abs(x)] for k, x in enumerate(left.tolist())]
    product = np.ones(length)
    for k in range(n_columns - 1, -1, -1):
        assert memory.t[k] == pytest.approx(t[k], rel=1e-12)
        product = product * np.fft.fft(t[k])
        convolution = np.fft.ifft(product).real
        added = memory.s[k] - convolution
        assert (added > -1e-17).all()
        assert added.max() < 1e-9


@pytest.mark.parametrize("exponent", [16, 37, 80, 1000])
def test_norms_have_any_exponent_in_sixteenths(exponent):
    law = LAWS[0]
    tables = column_tables(LawGrid((law,), np.zeros((2, 3), dtype=np.int64)))
    columns, length = tables.columns, tables.sizes.length
    out, before = np.empty_like(columns.heads[0]), columns.heads[0]
    cell = AddedCell(0, *norm_exponent(exponent))
    next_head(columns, tables.roots, cell, 1.0, before, scratch_memory(2, length), out)
    for x in (0, 3, 8):
        spectrum = np.abs(np.fft.fft(sequence(tables, 2, 0, x, length) / columns.steps[1, 0]))
        top = spectrum.max()
        norm = top * ((spectrum / top) ** (exponent / 16)).mean() ** (16 / exponent)
        assert out[x] == pytest.approx(norm, rel=1e-9)
