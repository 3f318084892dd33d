"""Certified tails: above what is found by listing, and never vacuous where the paper's formula is."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.guarantee import paper_tail, tail_bound, tail_radius
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm
from tallyveil_studies.integer_subspace.examples import delinquent_children

L1, L2 = GeneralisedLaplace(Norm.L1, Fraction(1, 4)), GeneralisedLaplace(Norm.L2, Fraction(1, 4))
GAUSSIAN = GeneralisedGaussian(Fraction(9))


@pytest.mark.parametrize("law", [L1, L2, GAUSSIAN])
@pytest.mark.parametrize("cells", [2, 3])
def test_the_bound_is_above_the_tail_of_a_list(law, cells):
    axes = np.meshgrid(*[np.arange(-150, 151)] * (cells - 1), indexing="ij")
    vectors = np.stack([axis.ravel() for axis in axes])
    vectors = np.vstack([vectors, -vectors.sum(axis=0)])
    norm = np.abs(vectors).sum(axis=0) if law == L1 else np.sqrt((vectors**2).sum(axis=0))
    size = norm**2 if law == GAUSSIAN else norm
    weights = np.exp(-float(law.rate) * size)
    weights /= weights.sum()
    bounds = [tail_bound(law, cells - 1, Fraction(t)) for t in range(1, 80)]
    tails = [weights[norm >= t].sum() for t in range(1, 80)]
    assert all(bound >= tail for bound, tail in zip(bounds, tails, strict=True))
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("law", [L1, GAUSSIAN])
def test_the_radius_holds_on_draws_of_the_children_and_the_paper_says_nothing_there(law):
    lattice = lattice_of(delinquent_children().system)
    sampler = choose_sampler(lattice, law).sampler
    drawn = sampler.draw(NoiseAddress(NoiseSource(insecure_key("tails")), 0, 0), range(300))
    norm = np.abs(drawn).sum(axis=1) if law is L1 else np.sqrt((drawn**2).sum(axis=1))
    radius = tail_radius(law, lattice.dimension, Fraction(1, 100))
    assert tail_bound(law, lattice.dimension, Fraction(radius)) <= 0.01
    assert tail_bound(law, lattice.dimension, Fraction(radius - 1)) > 0.01
    assert (norm >= radius).mean() < 0.03  # 0.01 at most is expected
    assert radius < 2 * norm.max()
    assert paper_tail(law, lattice, Fraction(radius)) > 1


def test_the_paper_s_formula_in_one_dimension():
    lattice = lattice_of(ConstraintSystem.from_sets([range(2)], 2))
    # V_1 = 2 and det = 2, so that K = 4 * 2 * 2 / sqrt(2).
    expected = 16 / np.sqrt(2) * 40 * np.exp(-10)
    assert paper_tail(L1, lattice, Fraction(40)) == pytest.approx(expected)


@pytest.mark.parametrize("rows", [[[2, 0], [0, 1]], [[2, 1], [1, 3]], [[2, 1, 0], [1, 3, 1], [0, 1, 2]]])
def test_integer_points_of_an_ellipsoid_are_as_many_as_its_volume(rows):
    """The paper's Theorem 17. The volume is V s^l / sqrt(det Q); the printed power of det Q is another one."""
    form = np.array(rows)
    n = len(form)
    axes = np.meshgrid(*[np.arange(-62, 63)] * n, indexing="ij")
    points = np.stack([axis.ravel() for axis in axes])
    squares = np.einsum("il,ij,jl->l", points, form, points)
    unit_ball = {2: np.pi, 3: 4 * np.pi / 3}[n]
    radii = np.array([5, 10, 20, 40])
    assert radii[-1] / np.sqrt(np.linalg.eigvalsh(form)[0]) < 62
    counted = np.array([(squares <= radius**2).sum() for radius in radii])
    volumes = unit_ball * radii.astype(float) ** n / np.sqrt(np.linalg.det(form))
    assert np.all(np.abs(counted / volumes - 1) <= 2 * radii ** (-2 + 2 / (1 + n)))
