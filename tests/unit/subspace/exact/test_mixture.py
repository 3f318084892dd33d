import math
from fractions import Fraction

import numpy as np

from tallyveil.noise.balls import precision
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.mixture import mixture_sampler
from tallyveil.subspace.exact.sampler import block_proposal
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace

LATTICE = lattice_of(ConstraintSystem.from_sets([range(3)], 3))
LAW = GeneralisedLaplace("l2", Fraction(2))
SAMPLER = mixture_sampler(LAW, 3, lambda laws: block_proposal(laws, LATTICE.structure, 3))


def test_intervals_have_no_gap_and_heights_are_above():
    follows = 0
    for component in SAMPLER.components:
        assert component.least == follows
        follows = component.most + 1
        with precision(128):
            for u in range(component.least, min(component.most, component.least + 50) + 1):
                assert float(component.kept_share(LAW.epsilon, u).lower()) <= 1
                assert float(component.kept_share(LAW.epsilon, u)) > 0.5


def test_what_is_cut_has_less_than_is_said():
    radius = math.sqrt(SAMPLER.components[-1].most)
    reach = np.arange(-60, 61)
    a, b = np.meshgrid(reach, reach)
    sizes = np.sqrt(a * a + b * b + (a + b) ** 2)
    total = np.exp(-2 * sizes).sum()
    # Shells: at most 13 r vectors between r and r + 1 in this lattice, for r of 5 or more.
    beyond = sum(13 * r * math.exp(-2 * r) for r in range(int(radius), int(radius) + 100))
    assert beyond / total < float(SAMPLER.total_variation) == 2.0**-62


def test_floats_decide_as_balls_do():
    """Uniform numbers just beside r, and random ones: floats are right or leave the decision open."""
    random = np.random.default_rng(1)
    for k, component in enumerate(SAMPLER.components[:40]):
        sizes = np.unique(np.linspace(component.least, component.most, 5).astype(np.int64))
        with precision(160):
            exact = [component.kept_share(LAW.epsilon, int(u)) * 2**64 for u in sizes]
            near = [min(max(int(r.floor().unique_fmpz() or 0), 0), 2**64 - 1) for r in exact]
        for words in (
            np.array(near, dtype=np.uint64),
            np.array([max(w - 2**30, 0) for w in near], dtype=np.uint64),
            random.integers(0, 1 << 64, sizes.size, dtype=np.uint64),
        ):
            kept, unclear = SAMPLER._kept(k, sizes, words)
            with precision(160):
                right = np.array([bool(r > int(w)) for r, w in zip(exact, words, strict=True)])
            assert (unclear | (kept == right)).all()
        beside = np.array(near, dtype=np.uint64)
        assert SAMPLER._kept(k, sizes, beside)[1][
            beside > 0
        ].all()  # 0 stands in for r = 1, which has no floor
