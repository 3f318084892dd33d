import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError, ConstraintError
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.guarantee import (
    compose_guarantees,
    event_of,
    gaussian_rho,
    laplace_guarantee,
    paper_variance,
)
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm
from tallyveil.subspace.profile import pair_profile

SUM = lattice_of(ConstraintSystem.from_sets([range(4)], 4, ["state total"]))
L1 = GeneralisedLaplace("l1", Fraction(1, 4))
GAUSSIAN = GeneralisedGaussian(Fraction(3))


def test_the_statement_names_distance_and_invariants():
    said = laplace_guarantee(L1, SUM).statement()
    assert "epsilon 0.25 for each unit of l1 distance" in said
    assert "state total" in said


def test_delta_of_a_sampler_that_is_not_exact():
    variation = Fraction(1, 10**9)
    guarantee = laplace_guarantee(L1, SUM, variation)
    assert float(guarantee.delta) == pytest.approx((1 + math.exp(0.25)) * 1e-9)
    epsilon, delta = guarantee.at(4)
    assert epsilon == 1
    assert delta == pytest.approx(math.expm1(1) / math.expm1(0.25) * float(guarantee.delta))


def test_norms_compose_in_l1():
    l2 = laplace_guarantee(GeneralisedLaplace("l2", Fraction(1)), SUM)
    assert compose_guarantees([l2, l2]).norm is Norm.L2
    both = compose_guarantees([l2, laplace_guarantee(L1, SUM)])
    assert both.norm is Norm.L1
    assert both.epsilon == Fraction(5, 4)
    assert both.invariants == ("state total",)


def test_events_carry_law_distance_and_invariants():
    assert event_of(L1, SUM, 2) == IntegerSubspaceLaplace("1/4", "l1", 2, ("state total",))
    assert event_of(GAUSSIAN, SUM, 2).rho == Fraction(1, 3) == gaussian_rho(GAUSSIAN, 2)
    assert event_of(GAUSSIAN, SUM, 2) == IntegerSubspaceGaussian(3, 2, ("state total",))


def test_the_papers_constant_grows_with_the_dimension():
    small = paper_variance(SUM, Fraction(1, 10), Fraction(1, 1000))
    large = paper_variance(
        lattice_of(ConstraintSystem.from_sets([range(40)], 40)), Fraction(1, 10), Fraction(1, 1000)
    )
    assert large > 3 * small
    with pytest.raises(BudgetError, match="0 < delta < epsilon < 1 / e"):
        paper_variance(SUM, Fraction(1), Fraction(1, 1000))


@pytest.mark.parametrize("v", [[1, -1, 0, 0], [1, 1, -1, -1], [2, -1, -1, 0], [1, 0, 0, -1]])
@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(3)])
def test_profile_of_a_pair_by_listing(v, variance):
    law = GeneralisedGaussian(variance)
    profile = pair_profile(SUM, law, v)
    reach = 16
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    z = np.column_stack([grid, -grid.sum(axis=1)])
    weights = np.exp(-(z * z).sum(axis=1) / (2 * float(variance)))
    weights /= math.fsum(weights)
    shifted = z - np.array(v)
    other = np.exp(-((shifted * shifted).sum(axis=1) - (z * z).sum(axis=1)) / (2 * float(variance))) * weights
    for epsilon in (Fraction(0), Fraction(1, 2), Fraction(2)):
        listed = np.maximum(weights - math.exp(epsilon) * other, 0).sum()
        bounds = profile.delta(epsilon)
        assert bounds.lower <= listed + 1e-12
        assert bounds.upper >= listed - 1e-12
        assert bounds.width < 1e-15 + 1e-12 * bounds.upper
    rho = float(gaussian_rho(law, int(np.dot(v, v))))
    for order in (2, 3):
        assert profile.renyi(order) == pytest.approx(rho * order)


def test_profiles_that_are_not_to_be_had():
    with pytest.raises(ConstraintError, match="not agree on the invariants") as caught:
        pair_profile(SUM, GAUSSIAN, [1, 0, 0, 0])
    assert caught.value.code == "subspace-pair"
    with pytest.raises(ConstraintError, match="same table"):
        pair_profile(SUM, GAUSSIAN, [0, 0, 0, 0])
    cells = np.arange(25).reshape(5, 5)
    large = lattice_of(ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], 25))
    move = np.zeros(25, dtype=np.int64)
    move[[0, 1, 5, 6]] = 1, -1, -1, 1
    with pytest.raises(BudgetError, match="dimension 16") as caught_budget:
        pair_profile(large, GAUSSIAN, move)
    assert caught_budget.value.code == "subspace-too-large"
    crossing = lattice_of(ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4))
    with pytest.raises(BudgetError, match="too long") as caught_budget:
        pair_profile(crossing, GeneralisedGaussian(Fraction(10**6)), [0, 1, -1, 0])
    assert caught_budget.value.code == "subspace-too-large"
    many = lattice_of(ConstraintSystem.from_sets([range(20)], 20))
    with pytest.raises(BudgetError, match="9 different counts"):
        pair_profile(many, GeneralisedGaussian(Fraction(50)), [*range(1, 9), -36, *[0] * 11])


def test_profiles_of_two_way_tables_and_crossing_sums():
    """Lists of vectors: certified tightly, and the Renyi divergence is that of rho at whole orders."""
    cells = np.arange(6).reshape(2, 3)
    table = lattice_of(ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], 6))
    crossing = lattice_of(ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4))
    law = GeneralisedGaussian(Fraction(5, 2))
    for lattice, v in ((table, [1, -1, 0, -1, 1, 0]), (crossing, [1, -1, 0, 1]), (crossing, [0, 1, -1, 0])):
        profile = pair_profile(lattice, law, v)
        assert profile.renyi(2) == pytest.approx(float(2 * gaussian_rho(law, int(np.dot(v, v)))))
        box = np.stack(np.meshgrid(np.arange(-25, 26), np.arange(-25, 26)), axis=-1).reshape(-1, 2)
        z = box @ lattice.basis.T
        weights = np.exp(-(z * z).sum(axis=1) / 5)
        weights /= math.fsum(weights)
        other = np.exp(-(int(np.dot(v, v)) - 2 * (z @ v)) / 5) * weights
        for epsilon in (Fraction(0), Fraction(1), Fraction(3)):
            listed = np.maximum(weights - math.exp(epsilon) * other, 0).sum()
            bounds = profile.delta(epsilon)
            assert bounds.lower <= listed + 1e-12
            assert bounds.upper >= listed - 1e-12
            assert bounds.width < 1e-15


def test_a_profile_lists_sums_of_cells_moved_alike():
    """Sixty cells moved one way and forty the other: two sums, not a hundred cells."""
    lattice = lattice_of(ConstraintSystem.from_sets([range(102)], 102))
    v = [2] * 20 + [-1] * 40 + [0] * 42
    law = GeneralisedGaussian(Fraction(6))
    profile = pair_profile(lattice, law, v)
    assert profile.renyi(2) == pytest.approx(float(2 * gaussian_rho(law, 120)))
    assert profile.delta(Fraction(4)).width < 1e-12


def test_disjoint_sums_and_free_cells_in_a_profile():
    lattice = lattice_of(ConstraintSystem.from_sets([[0, 1], [2, 3, 4]], 6))
    profile = pair_profile(lattice, GeneralisedGaussian(Fraction(2)), [1, -1, 0, 1, -1, 2])
    assert profile.squared_distance == 8
    assert profile.renyi(2) == pytest.approx(4.0)
    assert float(profile.left_out) < 1e-20
