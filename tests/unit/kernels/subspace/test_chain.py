"""The chains' kernels do what their plain twins do, bit for bit."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.chain import (
    DenseColumns,
    Jumps,
    couple_uniforms_reference,
    coupled_jump_sweeps_reference,
    coupled_slice_sweeps_reference,
    draw_jump_reference,
    jump_sweeps_reference,
    slice_sweeps_reference,
)
from tests.samples import few

from tallyveil.kernels.subspace.chain import (
    ROOT,
    Bits,
    Keep,
    couple_uniforms,
    coupled_jump_sweeps,
    coupled_slice_sweeps,
    draw_jump,
    high_product,
    jump_sweeps,
    level_of,
    size_budget,
    slice_sweeps,
)
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import chain_arrays, jump_arrays
from tallyveil.subspace.mcmc_moves import JumpMoves, basis_columns, jump_laws, lattice_columns, plan_chain
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm

LAWS = {
    "l1": GeneralisedLaplace(Norm.L1, Fraction(1, 3)),
    "l1, wide": GeneralisedLaplace(Norm.L1, Fraction(1, 40)),
    "l2": GeneralisedLaplace(Norm.L2, Fraction(1, 2)),
    "Gaussian": GeneralisedGaussian(Fraction(7)),
}
SYSTEMS = {
    "one sum": ConstraintSystem.from_sets([range(5)], 5),
    "general": ConstraintSystem.from_matrix([[1, 2, 3, 0, 1], [0, 1, 1, 2, 5]]),
    "table": ConstraintSystem.from_sets([[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]], 6),
}
bits = st.integers(0, 2**64 - 1)


def chains():
    rng = np.random.default_rng(5)
    for law, system in itertools.product(LAWS, SYSTEMS):
        lattice = lattice_of(SYSTEMS[system])
        for name, columns in (
            ("basis", basis_columns(lattice.basis)),
            ("more", lattice_columns(lattice)),
        ):
            for at_once in (1, 2, None):
                scales = tuple(rng.choice([0.4, 1.5, 3.0], columns.n_columns).tolist())
                moves = JumpMoves(scales, at_once if columns.n_columns > 1 else None)
                yield pytest.param(LAWS[law], columns, moves, id=f"{law}-{system}-{name}-{at_once}")


def dense(columns):
    matrix = np.zeros((columns.n_rows, columns.n_columns), dtype=np.int64)
    for k in range(columns.n_columns):
        part = slice(columns.starts[k], columns.starts[k + 1])
        matrix[columns.rows[part], k] = columns.steps[part]
    return matrix


@pytest.mark.parametrize(("noise", "columns", "moves"), few(20, list(chains())))
def test_sweeps_agree_with_their_twins(noise, columns, moves):
    rng = np.random.default_rng(8)
    plan = plan_chain(noise, columns, moves)
    target = plan.target
    law, arrays = chain_arrays(plan)
    twin_law = (target.kind, target.scale, target.limit, target.thresholds)
    matrix, n_cells = dense(columns), columns.n_cells
    jumps = jump_arrays(plan)
    twin_columns = DenseColumns(matrix, columns.pivots, n_cells)
    twin_jumps = Jumps(plan.jumps.masses[plan.jump_law].tolist(), plan.block)
    digits, n = target.thresholds.shape[0], columns.n_columns

    unkept = Keep(0, 0, np.empty((0, n_cells), dtype=np.int64))

    def start():
        return matrix @ rng.integers(-3, 4, n)

    per = n * (digits + 1)
    words = rng.integers(0, 2**64, 6 * per, dtype=np.uint64)
    a = start()
    b = a.copy()
    slice_sweeps(law, arrays, Bits(words, per, 6), a, unkept)
    slice_sweeps_reference(twin_law, twin_columns, Bits(words, per, 6), b)
    assert np.array_equal(a, b)

    per = plan.words
    words = rng.integers(0, 2**64, 40 * per, dtype=np.uint64)
    accepted = jump_sweeps(law, arrays, jumps, Bits(words, per, 40), a, unkept)
    assert accepted == jump_sweeps_reference(twin_law, twin_columns, twin_jumps, Bits(words, per, 40), b)
    assert np.array_equal(a, b)

    c = start()
    d = c.copy()
    met = coupled_jump_sweeps(law, arrays, jumps, Bits(words, per, 40), a, c)
    assert met == coupled_jump_sweeps_reference(
        twin_law, twin_columns, twin_jumps, Bits(words, per, 40), b, d
    )
    assert np.array_equal(a, b)
    assert np.array_equal(c, d)

    a, c = start(), start()
    b, d = a.copy(), c.copy()
    per = n * (digits + 3)
    words = rng.integers(0, 2**64, 6 * per, dtype=np.uint64)
    met = coupled_slice_sweeps(law, arrays, Bits(words, per, 6), a, c)
    assert met == coupled_slice_sweeps_reference(twin_law, twin_columns, Bits(words, per, 6), b, d)
    assert np.array_equal(a, b)
    assert np.array_equal(c, d)


@given(bits, bits)
def test_high_product(u, n):
    assert int(high_product(np.uint64(u), np.uint64(n))) == u * n >> 64


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_jumps_agree_with_their_twin(drawn, law):
    laws = jump_laws([0.2, 1.0, 4.0])
    jump, height = draw_jump(np.uint64(drawn), laws.masses, laws.totals, laws.finders, law)
    assert (jump, int(height)) == draw_jump_reference(drawn, laws.masses[law].tolist())
    assert int(height) < laws.masses[law][abs(jump)]


@given(*[st.integers(-9, 9), st.integers(0, 12)] * 2, st.booleans(), bits, bits, bits)
def test_coupled_points_agree_with_their_twin(low, width, other_low, other_width, near, u, v, w):
    ends = ((low, low + width), (other_low, other_low + other_width), near)
    drawn = (np.uint64(u), np.uint64(v), np.uint64(w))
    assert couple_uniforms(*ends, *drawn) == couple_uniforms_reference(*ends, u, v, w)


@pytest.mark.parametrize("ends", [(0, 5, 3, 12), (0, 11, 3, 6), (0, 3, 9, 10), (-2, 4, -2, 4), (0, 7, 1, 8)])
def test_coupled_points_are_uniform_and_often_equal(ends):
    """Both marginals are uniform; equality has the probability of the common part: a maximal coupling."""
    low, high, other_low, other_high = ends
    n, other_n = high - low + 1, other_high - other_low + 1
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**64, (20_000, 3), dtype=np.uint64)
    drawn = [couple_uniforms((low, high), (other_low, other_high), True, *three) for three in words]
    first, second = np.array(drawn).T
    for values, start, size in ((first, low, n), (second, other_low, other_n)):
        counts = np.bincount(values - start, minlength=size)
        assert counts.size == size
        assert ((counts - 20_000 / size) ** 2 / (20_000 / size)).sum() < size + 6 * np.sqrt(2 * size) + 12
    common = max(0, min(high, other_high) - max(low, other_low) + 1) / max(n, other_n)
    assert abs((first == second).mean() - common) < 0.015


def test_a_slice_of_the_l2_law_ends_at_its_height_also_near_the_limit():
    """The budget of every size and height, by counting. At a limit of 1,024 the level of the limit is a whole root."""
    scale, limit = 8.0, 1024
    levels = [level_of(ROOT, scale, size) for size in range(limit + 1)]
    for size in (0, 1, 500, 1022, 1023, 1024):
        for height in range(levels[size], levels[limit] + 3):
            largest = max(after for after in range(limit + 1) if levels[after] <= height)
            assert size_budget(ROOT, scale, limit, size, height) == largest - size
