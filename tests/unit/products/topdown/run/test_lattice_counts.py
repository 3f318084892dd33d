"""Which sums the counts of a release must keep, read off its invariants."""

import dataclasses

import numpy as np
import pytest

from tallyveil.errors import ConstraintError
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.constraints import Invariant
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.lattice_draws import prepare_subspace
from tallyveil.plans.release import SubspaceQuery
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.subspace.exact.digits import NoiseAddress


@pytest.fixture
def prepared(small_release):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)

    def prepare(query, geolevel, *invariants):
        changed = dataclasses.replace(
            plan,
            declared=plan.declared + 1,
            invariants=invariants,
            subspace=(SubspaceQuery(query, geolevel, plan.declared / 2),),
        )
        (draw,) = prepare_subspace(changed, spine)
        noise = np.zeros((spine.n_geounits(draw.level), plan.query(query).size), dtype=np.int64)
        vector = draw.sampler.draw(NoiseAddress(NoiseSource(insecure_key("x")), 0, 0), range(1))[0]
        noise.reshape(-1)[draw.places] = vector
        return draw.noise.lattice, noise

    return prepare


def test_totals_sum_to_zero_within_every_region(prepared):
    lattice, noise = prepared("total", "Town", Invariant("total", ("Region",)))
    assert lattice.dimension == 6
    assert not noise.reshape(2, 4).sum(axis=1).any()
    assert noise.any()


def test_without_an_invariant_nothing_is_kept(prepared):
    lattice, _ = prepared("total", "Town")
    assert lattice.dimension == 8


def test_an_invariant_that_is_finer_counts_where_the_query_adds_up_to_it(prepared):
    """Homes are exact at towns; of ages by home they fix two sums a town, and barracks hold no young."""
    lattice, noise = prepared(
        "age*home", "Town", Invariant("home", ("Town",)), Invariant("total", ("Region",))
    )
    assert lattice.n_cells == 8 * 5
    assert lattice.dimension == 8 * (5 - 2)
    by_home = noise.reshape(8, 3, 2).sum(axis=1)
    assert not by_home.any()
    assert not noise.reshape(8, 3, 2)[:, 0, 1].any()


def test_an_invariant_that_the_query_does_not_add_up_to_is_left_out(prepared):
    lattice, _ = prepared("grown", "Town", Invariant("age", ("Region",)))
    assert lattice.system.n_constraints == 2  # "young" is an answer of both; "middle" is not
    assert lattice.dimension == 16 - 2


def test_a_query_that_is_exact_already_is_refused(prepared):
    with pytest.raises(ConstraintError) as caught:
        prepared("total", "Town", Invariant("total", ("Block",)))
    assert caught.value.code == "subspace-nothing-left"
