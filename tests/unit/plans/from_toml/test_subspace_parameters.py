"""The file of one table: Gaussian noise by three parameters, sums by a grouping, and the settings of a chain."""

from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.accounting.renyi import epsilon_to_rho, zcdp_to_epsilon
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.products.lattice.public.from_toml import load_subspace_plan
from tallyveil.products.lattice.public.plan import noise_of
from tallyveil.subspace.mcmc_moves import JumpMoves, SliceMoves

FILE = """
[release]
name = "counties"

[table]
path = "people.csv"

[[attributes]]
name = "county"
path = "counties.csv"
column = "county"

[[constraints]]
name = "state total"
margin_by = "state"

[privacy]
BUDGET

[mechanism]
law = "gaussian"
distance = "2"
PARAMETER
"""
COUNTIES = "county,state\nA1,A\nB1,B\nA2,A\nB2,B\nB3,B\n"


@pytest.fixture
def load(tmp_path):
    def loaded(budget='rho = "1"', parameter='variance = "1"', counties=COUNTIES, **replaced):
        text = FILE.replace("BUDGET", budget).replace("PARAMETER", parameter)
        for old, new in replaced.items():
            text = text.replace(old, new)
        (tmp_path / "table.toml").write_text(text)
        (tmp_path / "counties.csv").write_text(counties)
        return load_subspace_plan(tmp_path / "table.toml")

    return loaded


def test_gaussian_noise_by_variance_rho_or_epsilon(load):
    assert load(parameter='variance = "4"').cost == Fraction(1, 4)
    by_rho = load(parameter='rho = "1/8"')
    assert (by_rho.cost, by_rho.law.variance) == (Fraction(1, 8), 8)
    by_epsilon = load('epsilon = "1"\ndelta = "1e-6"', 'epsilon = "1"')
    assert by_epsilon.cost == by_epsilon.declared == epsilon_to_rho(Fraction(1), Fraction(1, 10**6))
    assert 0.9999 < zcdp_to_epsilon(by_epsilon.cost, Fraction(1, 10**6)) <= 1
    with pytest.raises(BudgetError):
        load('epsilon = "1/2"', 'epsilon = "1"')


@pytest.mark.parametrize(
    ("budget", "parameter"),
    [
        ('rho = "1"', 'rho = "1"\nvariance = "1"'),
        ('rho = "1"', ""),
        ('rho = "1"\nepsilon = "1"', 'rho = "1"'),
        ("", 'rho = "1"'),
        ('rho = "1"', 'rho = "0"'),
        ('epsilon = "0"', 'rho = "1"'),
    ],
)
def test_too_many_parameters_or_none(load, budget, parameter):
    with pytest.raises((ConfigError, BudgetError)):
        load(budget, parameter)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(20)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**10), Fraction(1, 2)])
def test_the_rho_of_an_epsilon_gives_it_and_hardly_less(epsilon, delta):
    rho = epsilon_to_rho(epsilon, delta)
    assert zcdp_to_epsilon(rho, delta) <= epsilon < zcdp_to_epsilon(rho * Fraction(100_002, 100_000), delta)


def test_sums_by_a_column_of_the_table_of_levels(load):
    plan = load()
    assert plan.constraints.system.names == ("state total: A", "state total: B")
    assert plan.constraints.system.dense().tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 1, 1]]
    assert plan.lattice().structure.kind == "disjoint sums"
    assert plan.published_sums().names == ("state total: A", "state total: B", "total")


@pytest.mark.parametrize("counties", [COUNTIES.replace("state", "region"), COUNTIES.replace("A2,A", "A2,")])
def test_a_grouping_that_leaves_levels_out_is_refused(load, counties):
    with pytest.raises(ConfigError) as caught:
        load(counties=counties)
    assert caught.value.code == "subspace-margin-by"


def test_a_chain_moves_as_the_file_says(load):
    laplace = {'law = "gaussian"': 'law = "laplace"\nsampler = "chain"'}
    chain = '\n[chain]\nmoves = "{}"\nlag = 64\npairs = 40\nsweeps = 400\nallowed_delta = "0.9"'
    for moves, kind in (("slices", SliceMoves), ("jumps", JumpMoves)):
        plan = load('epsilon = "4"', 'epsilon = "1"' + chain.format(moves), **laplace)
        noise = noise_of(plan)
        assert isinstance(noise.chain.plan.moves, kind)
        assert noise.chain.bound.lag == 64
        assert plan.to_mapping()["chain"].get("moves", "slices") == moves


@pytest.mark.parametrize("name", ["count", "Noisy", "margin", "draw"])
def test_attributes_are_not_named_after_a_column_of_the_outputs(load, name):
    with pytest.raises(ConfigError) as caught:
        load(**{'name = "county"': f'name = "{name}"'})
    assert caught.value.code == "bad-name"


def test_the_example_is_a_plan():
    plan = load_subspace_plan(Path(__file__).parents[4] / "examples" / "subspace" / "table.toml")
    assert plan.cost == plan.declared == 1
    assert plan.schema.size == 16
