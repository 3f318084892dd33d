"""Margins of error from simulated noise: large enough, and zero for what is exact."""

from fractions import Fraction

import numpy as np

from tallyveil.noise import insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil.subspace.noise_plan import error_margins, plan_noise, plan_restricted, rank

SUMS = ConstraintSystem.from_sets([[0, 1, 2], [0, 1], range(5)], 5)


def noise():
    system = ConstraintSystem.from_sets([[0, 1, 2]], 5)
    return plan_noise(lattice_of(system), GeneralisedLaplace(Norm.L1, Fraction(1, 2)))


def test_margins_cover_and_exact_sums_have_none():
    plan = noise()
    finished = []
    margins = error_margins(plan, SUMS, finished.append)
    assert finished == [100] * 10
    vectors = plan.draw(insecure_key("other draws"), range(4000))
    assert margins.draws == 1000
    assert ((np.abs(vectors) <= margins.cells).mean(axis=0) >= 0.945).all()
    assert ((np.abs(SUMS.totals(vectors.T).T) <= margins.sums).mean(axis=0) >= 0.945).all()
    assert margins.sums[0] == 0
    assert margins.sums[2] > 0


def test_there_are_none_where_they_would_depend_on_the_table_or_on_too_few_draws():
    plan = noise()
    assert error_margins(plan_restricted(plan.lattice, plan.law), SUMS) is None
    assert rank(1000) == 971
    assert rank(134) is None
    assert rank(135) == 135
    assert rank(0) is None
