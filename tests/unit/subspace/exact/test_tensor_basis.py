"""The tensor basis of tables with all margins, beside the Gram-Schmidt form in fractions and lists of all tables."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact import nearest_planes as planes
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.mixture import mixture_sampler
from tallyveil.subspace.exact.nearest_planes import tensor_orthogonalised, tensor_shape
from tallyveil.subspace.lattice import check_lattice, gram_schmidt, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace

ADDRESS = NoiseAddress(NoiseSource(insecure_key("tensor")), 0, 1)


def lines(shape: tuple[int, ...], *more: tuple[int, ...]) -> ConstraintSystem:
    """The sums of all lines of a table, and of the axes that are listed as well."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    summed = [(axis,) for axis in range(len(shape))] + list(more)
    sets = []
    for axes in summed:
        size = int(np.prod([shape[axis] for axis in axes]))
        sets += np.moveaxis(cells, axes, range(-len(axes), 0)).reshape(-1, size).tolist()
    return ConstraintSystem.from_sets(sets, cells.size)


@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 4, 3), (4, 2, 3, 2), (5, 2, 2)])
def test_the_closed_form_is_that_of_gram_and_schmidt(shape) -> None:
    form = tensor_orthogonalised(shape)
    mu, squares = gram_schmidt(np.asarray(form.basis.toarray()))
    assert list(form.squares) == squares
    for i, ((indices, factors), denominator) in enumerate(zip(form.later, form.denominators, strict=True)):
        found = dict(zip(indices.tolist(), factors.tolist(), strict=True))
        for j in range(i + 1, len(squares)):
            assert mu[j][i] == Fraction(found.get(j, 0), denominator)


@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 4, 3), (3, 2, 3, 2)])
@pytest.mark.parametrize("more", [(), ((0, 1),), ((0, 1, 2),)])
def test_tables_with_all_lines_are_recognised(shape, more) -> None:
    lattice = lattice_of(lines(shape, *more))
    assert tensor_shape(lattice) == shape
    assert lattice.contains(tensor_orthogonalised(shape).basis.toarray())
    assert not check_lattice(lattice)


def test_other_tables_are_not_recognised() -> None:
    assert tensor_shape(lattice_of(lines((3, 4)))) is None
    whole = lines((3, 3, 3))
    without_one_margin = whole.rows(range(18))
    assert tensor_shape(lattice_of(without_one_margin)) is None
    shuffled = np.random.default_rng(3).permutation(27)
    moved = ConstraintSystem.from_matrix(whole.matrix.toarray()[:, shuffled])
    assert tensor_shape(lattice_of(moved)) is None


def test_draws_have_the_law_of_all_tables() -> None:
    """All tables of 3 x 3 x 2 cells with zero margins, by their squared length; 20,000 draws, significance 1e-3."""
    variance = Fraction(1)
    lattice = lattice_of(lines((3, 3, 2)))
    basis = tensor_orthogonalised((3, 3, 2)).basis.toarray()
    tables = np.array(list(product(range(-5, 6), repeat=4))) @ basis.T
    sizes = (tables**2).sum(axis=1)
    weights = np.exp(-sizes / 2.0)
    vectors, accepted = planes.nearest_planes(lattice, variance).trials(ADDRESS, np.arange(20_000), 0, 1)
    assert lattice.contains(vectors.T)
    first = (vectors[accepted] ** 2).sum(axis=1)
    levels = [level for level in np.unique(sizes) if weights[sizes == level].sum() > 1e-3 * weights.sum()]
    masses = np.array([weights[sizes == level].sum() for level in levels])
    expected = np.append(masses, weights.sum() - masses.sum()) / weights.sum()
    seen = np.array([(first == level).sum() for level in levels])
    counts = np.append(seen, first.size - seen.sum())
    assert chisquare(counts, expected * first.size).pvalue > 1e-3
    # The share that succeeds is the mass of all tables over the product of the rho_i.
    mass = float(planes.nearest_planes(lattice, variance).mass(None, 64))
    share = weights.sum() / mass
    assert accepted.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 20_000))


@pytest.mark.parametrize("variance", [Fraction(2, 3), Fraction(7)])
def test_floats_and_tables_give_the_same_draws(variance, monkeypatch) -> None:
    lattice = lattice_of(lines((4, 3, 3)))
    quick, accepted = planes.nearest_planes(lattice, variance).trials(ADDRESS, np.arange(150), 0, 2)
    monkeypatch.setattr(planes, "_MOST_IN_FLOATS", 0)
    slow, also = planes.nearest_planes(lattice, variance).trials(ADDRESS, np.arange(150), 0, 2)
    assert (accepted == also).all()
    assert (quick == slow).all()


def test_the_l2_law_is_drawn_through_the_tensor_basis() -> None:
    """All tables of 3 x 3 x 2 cells with zero margins, by their length; 4,000 draws, significance 1e-3."""
    form = tensor_orthogonalised((3, 3, 2))
    law = GeneralisedLaplace("l2", Fraction(2))
    sampler = mixture_sampler(law, 18, lambda laws: planes.planes_of(form, laws.law.variance))
    tables = np.array(list(product(range(-8, 9), repeat=4))) @ form.basis.toarray().T
    sizes = (tables**2).sum(axis=1)
    weights = np.exp(-2 * np.sqrt(sizes))
    found = (sampler.draw(ADDRESS, range(4000)) ** 2).sum(axis=1)
    levels = [level for level in np.unique(sizes) if weights[sizes == level].sum() > 2e-3 * weights.sum()]
    masses = np.array([weights[sizes == level].sum() for level in levels])
    expected = np.append(masses, weights.sum() - masses.sum()) / weights.sum()
    seen = np.array([(found == level).sum() for level in levels])
    assert chisquare(np.append(seen, 4000 - seen.sum()), expected * 4000).pvalue > 1e-3


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("law", "name", "total_variation"),
    [
        (GeneralisedGaussian(Fraction(3)), "nearest planes", 0),
        (GeneralisedLaplace("l2", Fraction(1)), "mixture of nearest planes", Fraction(1, 2**62)),
    ],
)
def test_a_large_three_way_table_has_an_exact_sampler(law, name, total_variation) -> None:
    """Dimension 72, beyond the cap for reduced bases."""
    lattice = lattice_of(lines((7, 5, 4)))
    choice = choose_sampler(lattice, law)
    assert choice.name == name
    assert choice.total_variation == total_variation
    noise = choice.sampler.draw(ADDRESS, range(3))
    assert lattice.contains(np.asarray(noise).T)
    assert np.abs(noise).max() > 0
