"""What the guarantees say, held against the laws by enumeration; wrong scales are caught."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.noise import DiscreteLaplace
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.split import split_tree
from tallyveil.subspace.guarantee import SmoothGuarantee, compose_guarantees, gaussian_rho, laplace_guarantee
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm, size_of

TRIANGLE = lattice_of(ConstraintSystem.from_sets([[0, 1, 2]], 3, ["total"]))
CROSSING = lattice_of(ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4, ["left", "right"]))
LEFT = lattice_of(ConstraintSystem.from_sets([[0, 1, 2]], 4, ["left"]))
RIGHT = lattice_of(ConstraintSystem.from_sets([[1, 2, 3]], 4, ["right"]))


def vectors(lattice, reach):
    box = np.array(list(itertools.product(range(-reach, reach + 1), repeat=lattice.dimension)))
    return box @ lattice.basis.T


def near(lattice, law):
    """Differences of pairs within distance 3 in the law's norm."""
    found = vectors(lattice, 4)
    squared = (found * found).sum(axis=1)
    distance = np.abs(found).sum(axis=1) if law.norm is Norm.L1 else np.sqrt(squared)
    return [(v, float(r)) for v, r in zip(found, distance, strict=True) if 0 < r <= 3]


def log_weights(law, z):
    size = size_of(law, z)
    return -float(law.rate) * (np.sqrt(size) if law.takes_root else size)


def greatest_ratio(lattice, law, v):
    z = vectors(lattice, 12)
    return float((log_weights(law, z) - log_weights(law, z - v)).max())


@pytest.mark.parametrize("lattice", [TRIANGLE, CROSSING])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_laplace_ratios(lattice, norm):
    law = GeneralisedLaplace(norm, Fraction(3, 4))
    guarantee = laplace_guarantee(law, lattice)
    wrong = GeneralisedLaplace(norm, Fraction(3, 4) * Fraction(21, 20))
    pairs = near(lattice, law)
    assert len(pairs) >= 4
    for v, r in pairs:
        allowed = float(guarantee.epsilon) * r + 1e-12
        assert greatest_ratio(lattice, law, v) <= allowed
        assert greatest_ratio(lattice, wrong, v) > allowed  # noise 5 % too narrow breaks every pair


def sampled_log_probability(laws, z):
    """ln of the probability with which split sums give z: the product of the probabilities of its splits."""
    tree = split_tree(z.size)
    sums = np.zeros(tree.sizes.size, dtype=np.int64)
    sums[tree.leaves] = z
    total = 0.0
    for node in range(tree.sizes.size - 1, -1, -1):
        left, right = int(tree.lefts[node]), int(tree.rights[node])
        if left < 0:
            continue
        sums[node] = sums[left] + sums[right]
        parts = [(left, 1), (right, 1), (node, -1)]
        for part, sign in parts:
            table = laws.table(int(tree.sizes[part]))
            total += sign * (math.log(table.at(int(sums[part]))) - table.bits * math.log(2))
    return total


@pytest.mark.parametrize("factor", [Fraction(1), Fraction(20, 21)])
def test_the_sampler_itself_keeps_the_laplace_ratio(factor):
    """The law that split sums have, from the very tables they decide by."""
    law = GeneralisedLaplace("l1", Fraction(3, 4))
    laws = SumLaws(DiscreteLaplace(factor / law.epsilon))
    held = vectors(TRIANGLE, 8)
    probability = {tuple(z.tolist()): sampled_log_probability(laws, z) for z in held}
    assert math.fsum(math.exp(p) for p in probability.values()) == pytest.approx(1, abs=1e-3)
    worst = max(
        (probability[tuple(z.tolist())] - other) / r
        for z in held
        for v, r in near(TRIANGLE, law)
        if (other := probability.get(tuple((z - v).tolist()))) is not None
    )
    assert (worst <= float(law.epsilon) + 1e-9) is (factor == 1)


def renyi(lattice, variance, v, order):
    z = vectors(lattice, 40)
    law = GeneralisedGaussian(variance)
    a, b = log_weights(law, z), log_weights(law, z - v)
    norm = math.log(math.fsum(np.exp(a)))
    return math.log(math.fsum(np.exp(order * a + (1 - order) * b - norm))) / (order - 1)


@pytest.mark.parametrize("lattice", [TRIANGLE, CROSSING])
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(2), Fraction(9)])
def test_gaussian_renyi_divergence(lattice, variance):
    for v in lattice.basis.T:
        rho = float(gaussian_rho(GeneralisedGaussian(variance), int(v @ v)))
        for order in (1.05, 1.5, 2, 2.7, 4):
            assert renyi(lattice, variance, v, order) <= rho * order + 1e-9
        assert renyi(lattice, variance, v, 2) == pytest.approx(2 * rho)  # tight at whole orders
        assert renyi(lattice, variance * Fraction(95, 100), v, 2) > 2 * rho + 1e-6


def test_composition():
    """Two releases with different invariants: the joint loss of pairs that agree on both, and the deltas."""
    first = GeneralisedLaplace("l1", Fraction(1, 2))
    second = GeneralisedLaplace("l1", Fraction(3, 4))
    both = compose_guarantees([laplace_guarantee(first, LEFT), laplace_guarantee(second, RIGHT)])
    assert both.epsilon == Fraction(5, 4)
    assert both.invariants == ("left", "right")
    for v, r in near(CROSSING, first):
        joint = greatest_ratio(LEFT, first, v) + greatest_ratio(RIGHT, second, v)
        assert joint <= float(both.epsilon) * r + 1e-12
        assert joint > float(both.epsilon) * r * 0.999  # tight: a smaller sum would be caught


def hockey_stick(p, q, epsilon):
    return math.fsum(max(0.0, a - math.exp(epsilon) * q.get(z, 0.0)) for z, a in p.items())


@pytest.mark.parametrize("variation", [Fraction(1, 50), Fraction(1, 1000)])
def test_total_variation_costs_what_is_said(variation):
    """Noise that is off by a total variation, in the worst way: mass moved onto one vector."""
    law = GeneralisedLaplace("l1", Fraction(1))
    z = vectors(TRIANGLE, 14)
    weights = np.exp(log_weights(law, z))
    weights /= weights.sum()
    off = {tuple(v.tolist()): w * (1 - float(variation)) for v, w in zip(z, weights, strict=True)}
    off[9, -4, -5] += float(variation)
    guarantee = laplace_guarantee(law, TRIANGLE, variation)
    for v, r in near(TRIANGLE, law):
        moved = {tuple(np.add(k, v).tolist()): w for k, w in off.items()}
        epsilon, delta = guarantee.at(int(r))
        assert 0 < hockey_stick(off, moved, float(epsilon)) <= delta


def test_growth_with_distance_covers_what_total_variation_costs():
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
        guarantee = SmoothGuarantee(Norm.L1, epsilon, Fraction(1, 10**6), ())
        for r in (1, Fraction(3, 2), 2, 5):
            needed = (1 + math.exp(epsilon * r)) / (1 + math.exp(epsilon)) * 1e-6
            assert guarantee.at(r)[1] >= needed * (1 - 1e-12)
