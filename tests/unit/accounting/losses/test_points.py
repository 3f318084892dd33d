"""Places of epsilons among the values of a loss: many at once in floats are those found in whole numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines import lattice_points
from tallyveil.accounting.engines.lattice_points import LossPoints, are_floats
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, lattice_of
from tallyveil.errors import BudgetError

COMPOSITIONS: list[tuple[LossFactor, ...]] = [
    (GaussianLoss(Fraction(7, 3), 1, 3),),
    (LaplaceLoss(Fraction(3, 2), 2, 1), GaussianLoss(Fraction(3), 1, 2)),
    (GaussianLoss(Fraction(10**9 + 7), 1, 5),),
]


@pytest.mark.parametrize("factors", COMPOSITIONS)
def test_many_places_in_floats_are_those_in_whole_numbers(factors: tuple[LossFactor, ...]) -> None:
    found = LossPoints.of(lattice_of(factors))
    step, offset = Fraction(found.step, found.unit), Fraction(found.offset, found.unit)
    assert (step, offset) == (lattice_of(factors).step, lattice_of(factors).offset)
    assert found.mirror * step == 2 * offset
    random = np.random.default_rng(3)
    on_losses = [float(offset + step * z) for z in range(-5, 30)]  # rounded, so just beside them
    given = [*random.normal(0, 40 * float(step), 200).tolist(), *on_losses, 0.0, -0.0, 1e300]
    many = found.places(given)
    slip_units = set()
    for i, epsilon in enumerate(given):
        first, gap = found.above(abs(epsilon))
        assert many.firsts[i] == min(first, lattice_points.FARTHEST + 1)
        exact = offset + step * first - Fraction(abs(epsilon))
        assert 0 < exact <= step
        assert gap == pytest.approx(float(exact), rel=1e-15, abs=0)
        assert many.negative[i] == (epsilon < 0)
        assert many.sizes[i] == abs(epsilon)
        off = abs(Fraction(float(many.gaps[i])) - exact)
        assert off <= Fraction(float(many.slips[i])) + Fraction(float(many.gaps[i])) / 2**52
        assert many.slips[i] <= 0.75 * many.gaps[i]
        if many.slips[i]:
            turns = (abs(epsilon) - float(offset)) / float(step)
            units = abs(float(offset / step)) + 2 * abs(turns) + 1 + 2
            assert many.slips[i] == pytest.approx(2.3e-16 * units * float(step), rel=1e-9, abs=0)
            slip_units.add(round(units))
    assert len(slip_units) > 20
    assert np.count_nonzero(many.slips == 0) >= len(on_losses) - 3  # these were placed exactly


def test_few_places_and_exact_epsilons_are_found_in_whole_numbers() -> None:
    found = LossPoints.of(lattice_of(COMPOSITIONS[1]))
    assert are_floats([0.5, np.float64(2)])
    assert not are_floats([0.5, Fraction(1, 2)])
    for given in ([0.3] * 16, [Fraction(1, 3)] * 40, [0.3, 1] * 30):
        places = found.places(given)
        assert not places.slips.any()
        assert places.firsts[0] == found.above(given[0])[0]
    assert found.places([0.3] * 17).slips.all()
    assert found.above(Fraction(0))[1] > 0
    on = Fraction(found.offset + 4 * found.step, found.unit)
    assert found.above(on) == (5, float(Fraction(found.step, found.unit)))
    far = found.places([Fraction(10**400), Fraction(-(10**400))])
    assert far.firsts.tolist() == [lattice_points.FARTHEST + 1] * 2
    assert far.sizes.tolist() == [1e300] * 2
    assert far.negative.tolist() == [False, True]
    for bad in ([math.nan], [0.1] * 30 + [math.inf]):
        with pytest.raises(BudgetError, match="finite"):
            found.places(bad)


def test_some_of_many_places() -> None:
    found = LossPoints.of(lattice_of(COMPOSITIONS[0])).places([0.1 * i - 1 for i in range(20)])
    chosen = np.arange(20) % 3 == 0
    some = found.at(chosen)
    for name in ("sizes", "negative", "firsts", "gaps", "slips"):
        np.testing.assert_array_equal(getattr(some, name), getattr(found, name)[chosen])
