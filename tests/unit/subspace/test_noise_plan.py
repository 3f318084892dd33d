from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.costs import delta_with_total_variation
from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.errors import BudgetError, SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.diagnostics import added_delta
from tallyveil.subspace.guarantee import chain_guarantee, event_of, gaussian_delta, least_distance
from tallyveil.subspace.lattice import lattice_of, shortest_vectors
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm
from tallyveil.subspace.noise_plan import ChainSettings, guarantee_record, plan_noise, plan_restricted
from tallyveil_studies.integer_subspace.examples import delinquent_children

KEY = insecure_key("noise plans")
SUM = lattice_of(ConstraintSystem.from_sets([range(5)], 5, ["total"]))
TABLE = lattice_of(delinquent_children().system)
L1 = GeneralisedLaplace(Norm.L1, Fraction(1, 4))
LOOSE = ChainSettings(allowed_delta=Fraction(1, 2), pairs=100)


@pytest.mark.parametrize(
    "lattice",
    [
        SUM,
        TABLE,
        lattice_of(ConstraintSystem.from_sets([[0, 1]], 3)),
        lattice_of(ConstraintSystem.from_matrix([[1, 2, 3]])),
    ],
)
def test_no_lattice_vector_is_shorter_than_the_least_distance(lattice):
    shortest = shortest_vectors(lattice.sparse_basis)
    assert len(shortest)
    assert least_distance(lattice, Norm.L2) <= np.sqrt((shortest**2).sum(axis=1).min())
    assert least_distance(lattice, Norm.L1) <= np.abs(shortest).sum(axis=1).min()


def test_a_chain_pays_with_delta_in_guarantee_and_event():
    plan = plan_noise(TABLE, L1, "chain", LOOSE)
    bound = plan.chain.bound
    guarantee = chain_guarantee(L1, TABLE, bound, Fraction(1, 2))
    assert float(guarantee.delta) == added_delta(bound.measured, L1.epsilon, 4.0)
    assert "99.900% confidence" in guarantee.statement()
    event = event_of(L1, TABLE, 4, plan.total_variation)
    assert bound.measured <= event.total_variation < bound.measured * (1 + 1e-12)
    at_four = guarantee_record(plan, Fraction(4), Fraction(1, 10**10), Neighbours.BOUNDED)["delta"]
    assert at_four == guarantee.at(4)[1]
    # The nearest tables are 4 apart, so there both are the same: (1 + exp(1)) times the total variation.
    accounted = delta_with_total_variation(event.loss, Fraction(0), event.total_variation)
    assert at_four == pytest.approx(accounted, rel=1e-9)
    with pytest.raises(SolverError) as caught:
        chain_guarantee(L1, TABLE, bound, Fraction(1, 10**9))
    assert caught.value.code == "subspace-not-converged"


def test_a_gaussian_chain_is_refused_by_the_delta_it_adds():
    law = GeneralisedGaussian(Fraction(10))
    epsilon, delta = gaussian_delta(law, 2, Fraction(1, 10**6), Fraction(1, 1000))
    assert delta == pytest.approx(1e-6 + (1 + np.exp(epsilon)) / 1000)
    with pytest.raises(SolverError, match=r"allowed delta is 0\.001"):
        gaussian_delta(law, 2, Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 1000))


@pytest.mark.parametrize("wish", ["exact", "chain"])
def test_draws_depend_on_their_number_alone(wish):
    plan = plan_noise(TABLE, L1, wish, LOOSE)
    five = plan.draw(KEY, range(5))
    assert np.array_equal(five[3:], plan.draw(KEY, range(3, 5)))
    assert TABLE.contains(five.T)
    assert (plan.chain is None) == (plan.total_variation == 0)


def test_exact_is_not_promised_where_there_is_none(monkeypatch):
    import tallyveil.subspace.noise_plan as planning
    from tallyveil.subspace.exact.choose_sampler import SamplerChoice

    monkeypatch.setattr(
        planning, "choose_sampler", lambda *_: SamplerChoice(None, "chain", "too many trials", 1e9)
    )
    with pytest.raises(SolverError, match="too many trials") as caught:
        plan_noise(TABLE, L1, "exact")
    assert caught.value.code == "subspace-no-sampler"
    assert plan_noise(TABLE, L1, "auto", LOOSE).chain is not None


def test_the_headline_of_gaussian_noise_is_what_is_proved_of_its_event():
    law, delta = GeneralisedGaussian(Fraction(10)), Fraction(1, 10**10)
    stated = guarantee_record(plan_noise(TABLE, law), Fraction(4), delta, Neighbours.BOUNDED)
    proved = proved_epsilon(event_of(law, TABLE, 4), Neighbours.BOUNDED, delta)
    assert stated["epsilon"] == proved.bounds.upper
    assert stated["statement"].startswith(f"epsilon <= {at_most(proved.bounds.upper)} at delta = 1e-10, ")


@pytest.mark.parametrize("epsilon", [30, 100_000])
def test_a_guarantee_that_promises_nothing_is_refused(epsilon):
    """The l2 law is drawn up to a small total variation, which a large epsilon raises to 1."""
    plan = plan_restricted(SUM, GeneralisedLaplace(Norm.L2, Fraction(epsilon)))
    with pytest.raises(BudgetError, match="nothing would be promised") as caught:
        guarantee_record(plan, Fraction(2), Fraction(1, 10**10), Neighbours.BOUNDED)
    assert caught.value.code == "subspace-parameter"
