"""Coupled chains each keep their law, meet, stay together, and their meeting times bound the distance truly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.effective_size import effective_size
from tests.oracles.mcmc import algorithm_1, algorithm_3

from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.diagnostics import (
    MeetingTimes,
    added_delta,
    choose_lag,
    meeting_times,
    overdispersed,
    potential_scale_reduction,
    require_converged,
    sweeps_until,
    total_variation_bound,
    upper_proportion,
)
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import run_chain, tune_jumps
from tallyveil.subspace.mcmc_moves import basis_columns, lattice_columns, plan_chain
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm, size_of

KEY = insecure_key("coupled chains")
LAW = GeneralisedLaplace(Norm.L1, Fraction(1, 2))
LATTICE = lattice_of(ConstraintSystem.from_sets([range(3)], 3))


def slices(law=LAW):
    return plan_chain(law, lattice_columns(LATTICE))


def jumps(law=LAW, at_once=None):
    columns = basis_columns(LATTICE.basis)
    return plan_chain(law, columns, tune_jumps(law, columns, KEY, at_once=at_once))


def from_zero(plan, sweeps, chains):
    """The state after so many sweeps of many chains."""
    return np.array([run_chain(plan, KEY, sweeps, chain=chain)[0] for chain in range(chains)])


@pytest.mark.nightly
@pytest.mark.parametrize("make", [pytest.param(slices, id="slices"), pytest.param(jumps, id="jumps")])
def test_the_bound_holds(make):
    """It lies above the distance of the law of the size, from many chains against a long one, at every time."""
    plan = make()
    lag = choose_lag(plan, KEY, 10_000)
    meetings = meeting_times(plan, KEY, lag, 2000, 10_000)
    assert meetings.unmet == 0
    long = size_of(LAW, run_chain(plan, KEY, 400_000, thin=4, chain=10**6))
    wanted = np.bincount(long, minlength=200)[:200] / long.size
    for sweeps in (1, 2, 4, 8, 16, 32):
        sizes = size_of(LAW, from_zero(plan, sweeps, 2000))
        found = np.bincount(sizes, minlength=200)[:200] / sizes.size
        noise = 0.5 * np.sqrt(2 * wanted / (np.pi * sizes.size)).sum()
        distance = 0.5 * np.abs(found - wanted).sum() - 2 * noise
        bound = total_variation_bound(plan, meetings, sweeps)
        assert distance < bound.estimate + 3 * bound.standard_error
        assert bound.estimate <= bound.measured + 4 * bound.standard_error


@pytest.mark.parametrize("lag", [3, 10])
@pytest.mark.parametrize(
    "law", [LAW, GeneralisedLaplace(Norm.L2, Fraction(1, 2)), GeneralisedGaussian(Fraction(9))]
)
def test_meetings_are_reproducible_and_their_number_is_free(law, lag):
    plan = slices(law)
    whole = meeting_times(plan, KEY, lag, 30, 1000)
    part = meeting_times(plan, KEY, lag, 10, 1000, first_pair=20)
    assert np.array_equal(whole.times[20:], part.times)
    assert whole.unmet == 0


def test_meeting_times_agree_with_the_transcription():
    """Algorithm 3 as printed, and the kernel with mirrored residuals, on the same moves."""
    plan = jumps()
    scales = plan.moves.scales
    ours = meeting_times(plan, KEY, 30, 1500, 100_000).times
    rng = np.random.default_rng(4)
    a = [math.exp(-1 / scale) for scale in scales]
    theirs = np.array([algorithm_3(LAW, LATTICE.basis, a, 30, 100_000, rng) for _ in range(300)])
    # Both couple maximally but meet by different residuals: the same order of magnitude, ours no slower by much.
    assert 0.3 < ours.mean() / theirs.mean() < 1.5


@pytest.mark.nightly
def test_the_kernel_agrees_with_the_transcription():
    plan = jumps()
    a = [math.exp(-1 / scale) for scale in plan.moves.scales]
    rng = np.random.default_rng(9)
    theirs = algorithm_1(LAW, LATTICE.basis, a, np.zeros(2, dtype=np.int64), rng, 60_000)[::10]
    ours = run_chain(plan, KEY, 600_000, thin=10)
    error = 5 * math.sqrt(size_of(LAW, theirs).var() / effective_size(size_of(LAW, theirs)))
    assert abs(size_of(LAW, theirs).mean() - size_of(LAW, ours).mean()) < error
    assert error < 0.6


def test_an_early_chain_is_refused_and_a_late_one_is_not():
    plan = slices()
    meetings = meeting_times(plan, KEY, choose_lag(plan, KEY, 1000), 4000, 1000)
    early, late = (total_variation_bound(plan, meetings, sweeps) for sweeps in (1, 400))
    with pytest.raises(SolverError, match="raise the allowed delta") as caught:
        require_converged(early, LAW.epsilon, 1e-3)
    assert caught.value.code == "subspace-not-converged"
    assert require_converged(early, LAW.epsilon, 10.0) > 1e-3
    assert require_converged(late, LAW.epsilon, 0.02) == added_delta(late.measured, LAW.epsilon)
    with pytest.raises(SolverError):
        require_converged(late, LAW.epsilon, 1e-9)
    assert require_converged(late, LAW.epsilon, 1e-9, extrapolate=True) > 0
    assert late.estimate == 0
    assert late.measured > 3 / 4000
    assert 400 * plan.points_error < late.arithmetic < 1e-12
    assert jumps().points_error == 0 < plan.points_error
    assert late.arithmetic <= late.extrapolated < late.measured


def test_measured_bound_covers():
    """Of geometric meeting times with a known bound, the upper bound at 90 % fails in less than 10 % of trials."""
    plan = slices()
    rng = np.random.default_rng(2)
    rate, lag, sweeps = 0.05, 20, 60
    survive = (1 - rate) ** np.arange(0, 4000)
    truth = sum(survive[sweeps + lag * j] for j in range(100))
    low = 0
    for _ in range(300):
        times = rng.geometric(rate, 300)
        bound = total_variation_bound(plan, MeetingTimes(lag, 10_000, times), sweeps, confidence=0.9)
        low += bound.measured < truth
        assert bound.estimate < truth * 2.5
    assert low < 30


def test_added_delta_holds_on_a_small_lattice():
    """For laws off by t, delta(D) of Definition 2 covers every pair of tables on a line."""
    epsilon = Fraction(1, 2)
    x = np.arange(-80, 81)
    exact = np.exp(-0.5 * 2 * np.abs(x))  # e_1 - e_2 has l1 norm 2
    exact /= exact.sum()
    rng = np.random.default_rng(0)
    for _ in range(50):
        off = exact * rng.uniform(0.5, 1.5, x.size)
        off /= off.sum()
        t = 0.5 * np.abs(off - exact).sum()
        delta = added_delta(t, epsilon, least_distance=2)
        for shift in (1, 2, 5):
            distance = 2 * shift
            needed = np.maximum(off - math.exp(0.5 * distance) * np.roll(off, shift), 0)[10:-10].sum()
            assert needed <= delta * math.expm1(0.5 * distance) / math.expm1(0.5) + 1e-12
    assert added_delta(0.1, epsilon) == pytest.approx(0.1 * (1 + math.exp(0.5)))
    assert added_delta(0.1, epsilon, 2) < added_delta(0.1, epsilon)
    for bad in ((0.1, Fraction(0), 1), (1.5, epsilon, 1), (0.1, epsilon, 0.5)):
        with pytest.raises(BudgetError):
            added_delta(*bad)


def test_upper_proportion_covers():
    assert upper_proportion(0, 200, 0.05) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert upper_proportion(5, 5, 0.05) == 1.0


def test_scale_reduction_tells_chains_apart():
    plan = slices()
    wide = plan_chain(overdispersed(LAW), lattice_columns(LATTICE))
    starts = [run_chain(wide, KEY, 50, chain=c)[0] for c in range(4)]
    chains = np.array([run_chain(plan, KEY, 4000, thin=4, chain=c, start=starts[c]) for c in range(4)])
    assert potential_scale_reduction(chains).max() < 1.01
    chains[0] += 10
    assert potential_scale_reduction(chains).min() > 1.5
    assert np.array_equal(potential_scale_reduction(np.zeros((2, 3, 1))), [1.0])
    assert np.isinf(potential_scale_reduction(np.arange(2.0)[:, None, None] * np.ones((2, 3, 1)))).all()
    with pytest.raises(SolverError):
        potential_scale_reduction(np.zeros((1, 5, 2)))


def test_effective_size_of_a_known_process():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=100_000)
    x = np.empty_like(noise)
    x[0] = noise[0]
    for i in range(1, x.size):
        x[i] = 0.8 * x[i - 1] + noise[i]
    assert effective_size(x) == pytest.approx(x.size * 0.2 / 1.8, rel=0.1)
    assert effective_size(noise) == pytest.approx(noise.size, rel=0.05)


def test_what_cannot_be_told_is_refused():
    plan = slices()
    few = MeetingTimes(5, 100, np.full(5, 10))
    equal = MeetingTimes(5, 100, np.zeros(50, dtype=np.int64))
    unmet = MeetingTimes(5, 100, np.append(np.full(49, 10), 101))
    for meetings in (few, equal):
        with pytest.raises(SolverError):
            total_variation_bound(plan, meetings, 50)
    bound = total_variation_bound(plan, unmet, 100)
    assert bound.estimate == math.inf
    assert bound.measured == bound.extrapolated == 1.0
    with pytest.raises(SolverError):
        sweeps_until(unmet, 0.01)
    with pytest.raises(SolverError):
        meeting_times(plan, KEY, 0, 10, 10)
    with pytest.raises(SolverError) as caught:
        choose_lag(jumps(GeneralisedLaplace(Norm.L1, Fraction(1, 50))), KEY, 2)
    assert caught.value.code == "subspace-not-converged"
