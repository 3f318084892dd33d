"""Exact samplers against certified probabilities by enumeration, with power: a scale 5 % off is rejected."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    insecure_key,
)
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.mixture import mixture_sampler
from tallyveil.subspace.exact.nearest_planes import nearest_planes
from tallyveil.subspace.exact.sampler import TrialSampler, block_proposal, two_way_proposal
from tallyveil.subspace.exact.split import LARGEST_ENTRIES, BlockSplitter
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, size_of

pytestmark = pytest.mark.nightly

ADDRESS = NoiseAddress(NoiseSource(insecure_key("subspace laws")), 0, 0)


def two_way(n_rows, n_columns):
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], cells.size)


def enumerated(lattice, law, reach):
    basis = lattice.basis
    box = np.array(list(itertools.product(range(-reach, reach + 1), repeat=basis.shape[1])))
    vectors = box @ basis.T
    sizes = size_of(law, vectors)
    weights = np.exp(-float(law.rate) * (np.sqrt(sizes) if law.takes_root else sizes))
    return vectors, weights / math.fsum(weights)


def p_value(lattice, law, noise, reach):
    """Chi-square of all vectors expected 20 times or more, the others together."""
    assert not lattice.system.totals(noise.T).any()
    vectors, probabilities = enumerated(lattice, law, reach)
    common = probabilities * len(noise) >= 20
    width = int(max(np.abs(vectors).max(), np.abs(noise).max())) * 2 + 1
    powers = width ** np.arange(vectors.shape[1])
    keys = vectors[common] @ powers
    order = np.argsort(keys)
    drawn = noise @ powers
    place = np.clip(np.searchsorted(keys[order], drawn), 0, keys.size - 1)
    hits = keys[order][place] == drawn
    counts = np.bincount(place[hits], minlength=keys.size)
    expected = probabilities[common][order] * len(noise)
    rest, rest_expected = len(noise) - counts.sum(), len(noise) - expected.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    if rest_expected >= 20:
        statistic += (rest - rest_expected) ** 2 / rest_expected
        return chi2.sf(statistic, keys.size)
    return chi2.sf(statistic, keys.size - 1)


TRIANGLE = ConstraintSystem.from_sets([[0, 1, 2]], 3)
NESTED = ConstraintSystem.from_sets([range(4), [0, 1]], 4)
WEIGHTED = ConstraintSystem.from_matrix([[2, 3, 0], [0, 1, 1]])
OBLIQUE = ConstraintSystem.from_matrix([[1, 2, 3]])
CROSSING = ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4)
L1, L2 = GeneralisedLaplace("l1", Fraction(4, 5)), GeneralisedLaplace("l2", Fraction(3, 2))
GAUSSIAN = GeneralisedGaussian(Fraction(3))


@pytest.mark.parametrize("law", [L1, L2, GAUSSIAN], ids=str)
@pytest.mark.parametrize(
    "system", [TRIANGLE, NESTED, WEIGHTED, OBLIQUE, CROSSING, two_way(2, 2), two_way(3, 2), two_way(2, 3)]
)
def test_the_chosen_sampler_has_its_law(system, law):
    lattice = lattice_of(system)
    n = 100_000 if law is L2 else 400_000
    noise = choose_sampler(lattice, law).sampler.draw(ADDRESS, range(n))
    reach = 30 if lattice.dimension < 3 else 14
    assert p_value(lattice, law, noise, reach) > 1e-5


@pytest.mark.parametrize("law", [L1, L2, GAUSSIAN], ids=str)
def test_a_scale_five_percent_off_is_rejected(law):
    lattice = lattice_of(TRIANGLE)
    noise = choose_sampler(lattice, law).sampler.draw(ADDRESS, range(300_000))
    if law is GAUSSIAN:
        other = GeneralisedGaussian(law.variance * Fraction(105, 100))
    else:
        other = GeneralisedLaplace(law.norm, law.epsilon * Fraction(100, 105))
    assert p_value(lattice, law, noise, 30) > 1e-5
    assert p_value(lattice, other, noise, 30) < 1e-12


def test_every_way_to_a_law_gives_it():
    """Trials by blocks, by rows and by nearest planes, each on the same lattice; and a mixture of the last."""
    lattice = lattice_of(two_way(3, 3))
    for law, cell in ((L1, DiscreteLaplace(1 / L1.epsilon)), (GAUSSIAN, DiscreteGaussian(GAUSSIAN.variance))):
        for build in (block_proposal, two_way_proposal):
            sampler = TrialSampler(build(SumLaws(cell), lattice.structure, 9), 9)
            assert p_value(lattice, law, sampler.draw(ADDRESS, range(200_000)), 6) > 1e-5
        chosen = choose_sampler(lattice, law)
        assert chosen.name == "look-ahead trials"
        assert p_value(lattice, law, chosen.sampler.draw(ADDRESS, range(40_000)), 6) > 1e-5
    planes = TrialSampler(nearest_planes(lattice, GAUSSIAN.variance), 9)
    assert p_value(lattice, GAUSSIAN, planes.draw(ADDRESS, range(200_000)), 6) > 1e-5
    oblique = lattice_of(OBLIQUE)
    mixture = mixture_sampler(L2, 3, lambda laws: nearest_planes(oblique, laws.law.variance))
    assert p_value(oblique, L2, mixture.draw(ADDRESS, range(200_000)), 30) > 1e-5


@pytest.mark.parametrize(
    ("law", "ignored"),
    [
        (DiscreteLaplace(Fraction(5, 4)), 0),
        (DiscreteLaplace(Fraction(5, 4)), 42),
        (DiscreteGaussian(Fraction(3)), 0),
        (DiscreteGaussian(Fraction(3)), 41),
    ],
)
def test_alias_tables_and_what_they_leave_out(law, ignored):
    """Rounded so far that half of all draws leave the tables, splits still have the law."""
    splitter = BlockSplitter.build(law, 3, alias_entries=LARGEST_ENTRIES, ignored_digits=ignored)
    words = ADDRESS.numbers(np.arange(1000), 0, 2)
    share = splitter.alias.split(words, np.arange(3), np.empty((1000, 3), dtype=np.int64)).mean()
    assert 0.3 < share < 0.95 if ignored else share == 0
    n = 20_000 if ignored else 1_000_000
    noise = splitter.draw(ADDRESS, np.arange(n), 0, np.zeros(n, dtype=np.int64))
    held = GeneralisedGaussian(law.variance) if law == DiscreteGaussian(Fraction(3)) else None
    held = held or GeneralisedLaplace("l1", 1 / law.scale)
    assert p_value(lattice_of(TRIANGLE), held, noise, 30) > 1e-5


@pytest.mark.soak
def test_ten_million_draws():
    """Four cells in nested sums: every vector expected 20 times or more, of ten million."""
    lattice = lattice_of(NESTED)
    sampler = choose_sampler(lattice, L1).sampler
    noise = np.concatenate([sampler.draw(ADDRESS, range(k << 20, (k + 1) << 20)) for k in range(10)])
    assert p_value(lattice, L1, noise, 20) > 1e-5


def test_a_narrow_gaussian_by_nearest_planes():
    """Below the threshold trials fail often; what succeeds still has the law."""
    lattice = lattice_of(OBLIQUE)
    law = GeneralisedGaussian(Fraction(2, 5))
    proposal = nearest_planes(lattice, law.variance)
    assert proposal.least_acceptance < 0.6
    noise = TrialSampler(proposal, 3).draw(ADDRESS, range(400_000))
    assert p_value(lattice, law, noise, 12) > 1e-5


def test_county_totals_of_a_state():
    """One sum of 102 cells: each cell's marginal against certified convolutions, and unbiased."""
    lattice = lattice_of(ConstraintSystem.from_sets([range(102)], 102))
    law = GeneralisedLaplace("l1", Fraction("0.192"))
    noise = choose_sampler(lattice, law).sampler.draw(ADDRESS, range(20_000))
    assert not noise.sum(axis=1).any()
    laws = SumLaws(DiscreteLaplace(1 / law.epsilon))
    one, others, whole = laws.table(1), laws.table(101), laws.table(102)
    probabilities = {x: one.at(x) * others.at(-x) / whole.at(0) / 2.0**one.bits for x in range(-60, 61)}
    expected = np.array([p * noise.size for p in probabilities.values()])
    counts = np.array([np.count_nonzero(noise == x) for x in probabilities])
    # Cells of one draw are not quite independent, by about one in 102.
    assert ((counts - expected) ** 2 / expected).sum() < 1.1 * chi2.isf(1e-6, 120)
    deviation = math.sqrt(sum(p * x * x for x, p in probabilities.items()))
    assert np.abs(noise.mean(axis=0)).max() < 5 * deviation / math.sqrt(len(noise))
