"""What every geounit is measured with: laws, variances, cost."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import compose
from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.events import DiscreteGaussian, Neighbours, ParallelEvent, SequentialEvent
from tallyveil.accounting.losses import alternatives_of
from tallyveil.budget.allocation import allocation_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import GeounitShares, uniform_shares

# Region X has one town, whose two blocks are measured; Y has two towns, one of a single block.
SPINE = spine_from_prefixes(
    ["X11", "X12", "Y11", "Y12", "Y13", "Y21"], ("Region", "Town", "Block"), (1, 2, 3)
)
LEVELS = (("Region", Fraction(1, 6)), ("Town", Fraction(1, 3)), ("Block", Fraction(1, 2)))
QUERIES = (("total", Fraction(1, 4)), ("detailed", Fraction(3, 4)))


def strategy(mechanism=Mechanism.DISCRETE_GAUSSIAN, neighbours=Neighbours.BOUNDED):
    return Strategy(mechanism, neighbours, Fraction(3), LEVELS, tuple((name, QUERIES) for name, _ in LEVELS))


def bypassed(plan):
    made, shares = bypass(SPINE, uniform_shares(SPINE, dict(LEVELS)), BypassRule.SINGLE_CHILD)
    assert made.spine.digest() == SPINE.digest()
    return allocation_of(plan, made.spine, shares)


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_without_shares_of_their_own_it_is_the_strategy(mechanism, neighbours):
    plan = strategy(mechanism, neighbours)
    found = allocation_of(plan, SPINE)
    assert found.event() == plan.event()
    assert found.geolevel_event("Town") == plan.geolevel_event("Town")
    law = plan.law("Town", "total")
    assert found.laws("Town", "total") == {int(found.positions("Town")[0]): law}
    assert np.all(found.variances("Town", "total", 1, 3) == law.variance_float())
    assert found.measured("Block").all()


def test_laws_and_variances_are_of_each_geounits_share():
    found = bypassed(strategy())
    wanted = {
        "Region": [Fraction(1, 2), Fraction(1, 6)],
        "Town": [Fraction(0), Fraction(1, 3), Fraction(5, 6)],
        "Block": [Fraction(1, 2)] * 5 + [Fraction(0)],
    }
    for geolevel, shares in wanted.items():
        assert found.measured(geolevel).tolist() == [share > 0 for share in shares]
        variances = found.variances(geolevel, "detailed", 0, len(shares))
        for share, variance in zip(shares, variances, strict=True):
            if share:
                law = strategy().law(geolevel, "detailed", share)
                assert law.variance == 1 / (3 * share * Fraction(3, 4))
                assert variance == law.variance_float()
            else:
                assert np.isinf(variance)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_pair_of_paths_costs_the_whole_and_is_among_the_parts(neighbours):
    """By the definition: a record leaves one block and enters another; the answers that move, with their noise."""
    found = bypassed(strategy(neighbours=neighbours))
    event = found.event()
    assert isinstance(event, ParallelEvent)
    assert rho_of(event) == 3
    assert len(set(event.events)) == 3
    laws = alternatives_of(event, neighbours)
    known = {frozenset((loss.variance, loss.multiplicity) for loss in law) for law in laws}
    for one, two in itertools.combinations_with_replacement(range(6), 2):
        moved: Counter[Fraction] = Counter()
        for block in (one, two) if neighbours is Neighbours.BOUNDED else (one,):
            for level, geolevel in enumerate(SPINE.geolevels):
                geounit = int(SPINE.ancestors(level)[block])
                for query, _ in QUERIES:
                    law = found.laws(geolevel, query).get(int(found.positions(geolevel)[geounit]))
                    if law is not None:
                        moved[law.variance] += 1  # one answer, by one
        assert sum(n / (2 * variance) for variance, n in moved.items()) == 3
        assert frozenset(moved.items()) in known
    guarantee = compose(event, neighbours=neighbours)
    assert guarantee.epsilon(Fraction(1, 10**6)).upper > 0


def test_geolevels_alone_cost_their_dearest_geounit():
    found = bypassed(strategy())
    assert [rho_of(found.geolevel_event(name)) / 3 for name, _ in LEVELS] == [
        Fraction(1, 2), Fraction(5, 6), Fraction(1, 2),
    ]  # fmt: skip
    alone = spine_from_prefixes(["A11"], ("Region", "Town", "Block"), (1, 2, 3))
    made, shares = bypass(alone, uniform_shares(alone, dict(LEVELS)), BypassRule.SINGLE_CHILD)
    single = allocation_of(strategy(), made.spine, shares)
    assert single.geolevel_event("Block") == SequentialEvent(())
    assert single.event() == SequentialEvent(
        tuple(DiscreteGaussian(1 / (3 * share), multiplicity=2) for _, share in QUERIES)
    )


def test_laplace_noise_costs_the_whole_epsilon():
    assert epsilon_of(bypassed(strategy(Mechanism.DISCRETE_LAPLACE)).event()) == 3


def test_shares_that_overspend_or_do_not_fit_are_refused():
    positions = tuple(np.zeros(SPINE.n_geounits(level), np.int32) for level in range(3))
    shares = GeounitShares((Fraction(1, 2),), positions)
    with pytest.raises(BudgetError) as caught:
        allocation_of(strategy(), SPINE, shares)
    assert caught.value.code == "overspent-path"
    other = spine_from_prefixes(["X1"], ("Region", "Town"), (1, 2))
    with pytest.raises(BudgetError):
        allocation_of(strategy(), other)
