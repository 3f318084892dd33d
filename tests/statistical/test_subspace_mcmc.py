"""The paper's three examples: converged no later than the paper says, and ten times sooner with better moves."""

import csv
from itertools import product

import numpy as np
import pytest
from scipy.stats import ks_2samp
from tests.samples import every

from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.subspace.diagnostics import (
    choose_lag,
    meeting_times,
    overdispersed,
    potential_scale_reduction,
    sweeps_until,
    total_variation_bound,
)
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import run_chain, tune_jumps
from tallyveil.subspace.mcmc_moves import basis_columns, lattice_columns, plan_chain
from tallyveil.subspace.mechanisms import Norm
from tallyveil_studies.integer_subspace.examples import (
    DELINQUENT_CHILDREN,
    ILLINOIS_COUNTIES,
    delinquent_children,
    illinois_counties,
    intersecting_constraints,
)

pytestmark = pytest.mark.nightly

KEY = insecure_key("the paper's examples")
EXAMPLES = {
    "intersecting": intersecting_constraints,
    "children": delinquent_children,
    "Illinois": illinois_counties,
}


@pytest.mark.soak
@pytest.mark.parametrize(("norm", "name"), every(2, product(Norm, reversed(EXAMPLES))))
def test_slices_converge_ten_times_sooner(name, norm):
    """Below 0.01 with 95 % confidence within a tenth of the paper's iterations, counted in moves of one column each."""
    example = EXAMPLES[name]()
    lattice = lattice_of(example.system)
    plan = plan_chain(example.law(norm), lattice_columns(lattice))
    lag = choose_lag(plan, KEY, 5000)
    # Some pairs choose the number of sweeps, others bound the distance: chosen on itself, a bound would be too low.
    sweeps = int(1.3 * meeting_times(plan, KEY, lag, 200, 5000, first_pair=1000).times.max())
    paper = dict(example.iterations).get(norm, 10**6)
    bound = total_variation_bound(plan, meeting_times(plan, KEY, lag, 800, 5000), sweeps, confidence=0.95)
    assert bound.estimate < 0.01
    assert bound.measured < 0.01
    assert sweeps * plan.columns.n_columns / lattice.dimension < paper / 10


@pytest.mark.parametrize("norm", [Norm.L1, Norm.L2])
@pytest.mark.parametrize("name", ["intersecting", "children"])
def test_algorithm_1_converges_when_the_paper_says(name, norm):
    example = EXAMPLES[name]()
    law = example.law(norm)
    columns = basis_columns(lattice_of(example.system, "smith").basis)
    plan = plan_chain(law, columns, tune_jumps(law, columns, KEY))
    meetings = meeting_times(plan, KEY, choose_lag(plan, KEY, 100_000), 100, 100_000)
    assert sweeps_until(meetings, 0.01) < dict(example.iterations)[norm]


def test_chains_of_illinois_agree():
    """Potential scale reduction below 1.01 for every county, from starts that are spread out, with margins kept."""
    example = illinois_counties()
    law, columns = example.law(Norm.L1), lattice_columns(lattice_of(example.system))
    wide, plan = plan_chain(overdispersed(law), columns), plan_chain(law, columns)
    starts = [run_chain(wide, KEY, 100, chain=chain)[0] for chain in range(4)]
    chains = np.array([run_chain(plan, KEY, 6000, thin=4, chain=c, start=starts[c]) for c in range(4)])
    assert potential_scale_reduction(chains[:, 50:]).max() < 1.01
    assert not chains.sum(axis=2).any()
    means = chains.reshape(-1, ILLINOIS_COUNTIES).mean(axis=0)
    assert np.abs(means).max() < 1.0


def test_the_examples_are_those_of_the_paper(shared_data):
    children = np.array(DELINQUENT_CHILDREN).ravel()
    assert children.sum() == 135
    example = delinquent_children()
    assert example.system.totals(children).tolist() == [20, 55, 25, 35, 50, 35, 30, 20]
    with (shared_data / "vtd" / "us_2010_county_pop_hu.csv").open() as file:
        counties = [int(row["pop"]) for row in csv.DictReader(file) if row["fips"].startswith("17")]
    assert len(counties) == ILLINOIS_COUNTIES
    assert sum(counties) == 12_830_632
    sets = intersecting_constraints().system.dense()
    assert sets.shape == (3, 14)
    assert sets.sum(axis=1).tolist() == [8, 8, 8]
    assert (sets @ sets.T)[np.triu_indices(3, 1)].tolist() == [4, 4, 4]
    assert sets.prod(axis=0).sum() == 2


@pytest.mark.parametrize(("name", "norm"), every(3, product(["Illinois", "intersecting"], Norm)))
def test_chains_agree_with_the_exact_sampler(name, norm):
    """Norms and one cell of separate states against exact draws; a scale 5 % off is told apart."""
    example = EXAMPLES[name]()
    law, lattice = example.law(norm), lattice_of(example.system)
    choice = choose_sampler(lattice, law)
    if choice.sampler is None:
        pytest.skip(f"no exact sampler: {choice.reason}")
    n = 4000 if name == "Illinois" else 20_000
    exact = choice.sampler.draw(NoiseAddress(NoiseSource(KEY), 0, 0), range(n))
    plan = plan_chain(law, lattice_columns(lattice))
    states = run_chain(plan, KEY, 40 * n, thin=40)
    sizes = [np.abs(draws).sum(axis=1) for draws in (exact, states)]
    assert ks_2samp(*sizes).pvalue > 1e-4
    assert ks_2samp(exact[:, -1], states[:, -1]).pvalue > 1e-4
    assert ks_2samp(1.05 * sizes[0], sizes[1]).pvalue < 1e-6
