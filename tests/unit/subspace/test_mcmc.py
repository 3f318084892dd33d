"""Chains follow their law, on their lattice, from their key."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2
from tests.samples import every, few

from tallyveil.errors import ConfigError, SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import SINGLE, ChainStream, estimate_seconds, run_chain, tune_jumps
from tallyveil.subspace.mcmc_moves import (
    JumpMoves,
    SliceMoves,
    basis_columns,
    butterfly_pairs,
    chain_target,
    greatest_size,
    jump_laws,
    lattice_columns,
    plan_chain,
    slack_thresholds,
)
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm, size_of

KEY = insecure_key("subspace chains")
ONE_SUM = ConstraintSystem.from_sets([range(3)], 3)
TABLE = ConstraintSystem.from_sets([[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]], 6)
GENERAL = ConstraintSystem.from_matrix([[1, 2, 3]])
LAWS = {
    "l1": GeneralisedLaplace(Norm.L1, Fraction(1, 2)),
    "l2": GeneralisedLaplace(Norm.L2, Fraction(4, 5)),
    "Gaussian": GeneralisedGaussian(Fraction(6)),
}


def weights(law, vectors, factor=1.0):
    size = size_of(law, vectors).astype(float)
    w = np.exp(-float(law.rate) * factor * (np.sqrt(size) if law.takes_root else size))
    return w / w.sum()


def enumerated(system, reach=60):
    """All lattice vectors of dimension two with coefficients up to `reach`, and the basis."""
    basis = lattice_of(system, "reduced").basis
    coefficients = np.array(list(itertools.product(range(-reach, reach + 1), repeat=2)))
    return coefficients @ basis.T


def p_value(states, vectors, probabilities):
    """Chi-square of whole vectors, rare ones taken together."""
    codes = {tuple(v): i for i, v in enumerate(vectors.tolist())}
    counts = np.zeros(len(codes))
    found, times = np.unique(states, axis=0, return_counts=True)
    for vector, n in zip(found.tolist(), times.tolist(), strict=True):
        counts[codes[tuple(vector)]] += n
    expected = probabilities * len(states)
    common = expected >= 10
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    return chi2.sf(((observed - wanted) ** 2 / wanted).sum(), observed.size - 1)


MOVES = {"slices": (SliceMoves, 24, 100_000), "jumps": (None, 60, 60_000), "single jumps": (1, 40, 60_000)}


SYSTEMS = {"one sum": ONE_SUM, "table": TABLE, "general": GENERAL}


@pytest.mark.parametrize(
    ("law", "system", "moves"), few(2, every(4, itertools.product(LAWS, SYSTEMS, MOVES)))
)
def test_states_follow_the_law(law, system, moves):
    """Against enumeration; a scale 5 % off is rejected."""
    lattice = lattice_of(SYSTEMS[system])
    columns = lattice_columns(lattice) if moves == "slices" else basis_columns(lattice.basis)
    how, thin, n = MOVES[moves]
    chosen = SliceMoves() if how is SliceMoves else tune_jumps(LAWS[law], columns, KEY, at_once=how)
    states = run_chain(plan_chain(LAWS[law], columns, chosen), KEY, n * thin, thin=thin)
    assert not (SYSTEMS[system].dense() @ states.T).any()
    vectors = enumerated(SYSTEMS[system])
    assert p_value(states, vectors, weights(LAWS[law], vectors)) > 1e-5
    off = 1.05 ** (2 if law == "Gaussian" else 1)
    assert p_value(states, vectors, weights(LAWS[law], vectors, off)) < 1e-8


def test_a_chain_is_a_function_of_its_key():
    plan = plan_chain(LAWS["l1"], lattice_columns(lattice_of(TABLE)))
    whole = run_chain(plan, KEY, 5000, thin=1)
    assert np.array_equal(whole, run_chain(plan, KEY, 5000, thin=1))
    assert np.array_equal(whole[6::7], run_chain(plan, KEY, 4998, thin=7))
    assert np.array_equal(whole[-1], run_chain(plan, KEY, 5000)[0])
    assert not np.array_equal(whole, run_chain(plan, KEY, 5000, thin=1, chain=1))
    assert not np.array_equal(whole, run_chain(plan, insecure_key("another"), 5000, thin=1))


def test_words_do_not_depend_on_chunks():
    stream = ChainStream(KEY, b"plan", 7)
    whole = stream.words(SINGLE, 3, 10, 20).copy()
    assert stream.per_sweep == 8
    assert np.array_equal(whole[5 * 8 : 9 * 8], stream.words(SINGLE, 3, 15, 4))
    assert not np.array_equal(whole, stream.words(SINGLE, 4, 10, 20))
    with pytest.raises(ConfigError):
        stream.words(SINGLE, -1, 0, 1)


def test_progress_is_told():
    told: list[int] = []
    plan = plan_chain(LAWS["l1"], lattice_columns(lattice_of(TABLE)))
    run_chain(plan, KEY, 10, thin=4, advanced=told.append)
    assert told == [12]
    assert 0 < estimate_seconds(plan, 1000) < 10


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(60), Fraction(1, 10**9), Fraction(24, 125)])
def test_slack_is_geometric(rate):
    """The digits' masses multiply to that of the number, and what is left out is below 2**-80."""
    table = slack_thresholds(rate)
    assert float(rate) * 256 ** table.shape[0] > 80 * np.log(2)
    for digit, row in enumerate(table):
        step = float(rate) * 256.0**digit
        d = np.arange(255)
        exact = np.expm1(-step * (d + 1)) / np.expm1(-step * 256)
        assert np.abs(row[:-1].astype(float) / 2.0**64 - exact).max() < 1e-12
        assert np.all(np.diff(row[:-1].astype(float)) >= 0)


def test_jump_laws_are_symmetric_and_whole():
    laws = jump_laws([0.3, 2.0, 30.0])
    for masses, totals in zip(laws.masses.astype(object), laws.totals, strict=True):
        assert masses[0] + 2 * masses[1:].sum() == 2**32
        assert int(totals[-1]) == masses[1:].sum()
    a = np.exp(-1 / 2.0)
    e = np.arange(20)
    assert np.abs(laws.masses[1][:20] / 2.0**32 - (1 - a) / (1 + a) * a**e).max() < 1e-7


@pytest.mark.parametrize("law", LAWS)
def test_the_limit_is_out_of_reach(law):
    vectors = enumerated(ONE_SUM)
    size = size_of(LAWS[law], vectors)
    assert weights(LAWS[law], vectors)[size > greatest_size(LAWS[law], 3)].sum() < 2**-80


@pytest.mark.parametrize(
    "system", [ONE_SUM, TABLE, GENERAL, ConstraintSystem.from_sets([[0, 1], [1, 2, 3]], 6)]
)
def test_columns_span_the_lattice(system):
    lattice = lattice_of(system)
    columns = lattice_columns(lattice)
    dense = columns.dense()
    assert not (system.dense() @ dense).any()
    coordinates = np.linalg.lstsq(lattice.basis.astype(float), dense.astype(float), rcond=None)[0]
    whole = np.rint(coordinates).astype(np.int64)
    assert np.array_equal(lattice.basis @ whole, dense)
    from flint import fmpz_mat

    form = fmpz_mat(whole.shape[0], whole.shape[1], [int(v) for v in whole.ravel()]).snf()
    assert all(int(form[i, i]) in (1, -1) for i in range(lattice.dimension))
    assert columns.dimension == lattice.dimension
    assert np.array_equal(columns.squares(), (dense**2).sum(axis=0))
    assert np.array_equal(columns.absolutes(), np.abs(dense).sum(axis=0))


def test_butterflies_connect_everything():
    for n in range(1, 40):
        joined = list(range(n))
        for i, j in butterfly_pairs(n):
            assert 0 <= i < j < n
            old, new = joined[j], joined[i]
            joined = [new if group == old else group for group in joined]
        assert len(set(joined)) == 1
    assert len(butterfly_pairs(102)) < 102 * 3.5


def test_bad_input_is_refused():
    columns = lattice_columns(lattice_of(ONE_SUM))
    plan = plan_chain(LAWS["l1"], columns)
    for call in (
        lambda: run_chain(plan, KEY, 0),
        lambda: run_chain(plan, KEY, 5, thin=0),
        lambda: run_chain(plan, KEY, 5, start=[1.5, 0, 0]),
        lambda: run_chain(plan, KEY, 5, start=[10**9, -(10**9), 0]),
        lambda: plan_chain(LAWS["l1"], columns, JumpMoves((1.0,))),
        lambda: plan_chain(LAWS["l1"], columns, JumpMoves((1.0,) * columns.n_columns, 99)),
        lambda: basis_columns(np.zeros((3, 1), dtype=int)),
        lambda: chain_target(GeneralisedGaussian(Fraction(10**10)), 10**6, 2),
    ):
        with pytest.raises(SolverError) as caught:
            call()
        assert caught.value.code == "subspace-chain-range"
    with pytest.raises(ConfigError):
        run_chain(plan, b"short", 5)
