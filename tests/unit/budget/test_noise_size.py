"""Noise so large that published counts could leave the range of exact arithmetic is refused."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from tallyveil.budget.noise_size import (
    MOST_CELLS_OF_NOISE,
    certify_laws,
    certify_noise,
    laws_of,
    refuse_vast_noise,
)
from tallyveil.errors import BudgetError, GeographyError, SchemaError, SolverError
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace
from tallyveil.noise.table import InversionTable
from tallyveil.schema.attribute import Attribute, StructuralZero
from tallyveil.schema.schema import Schema

LEVELS = tuple(f"l{number}" for number in range(100))


def allocation(deviation: float):
    """Noise of this standard deviation at the root."""
    law = SimpleNamespace(standard_deviation=lambda: deviation)
    return SimpleNamespace(
        strategy=SimpleNamespace(queries=lambda _: ("total",)),
        spine=SimpleNamespace(geolevels=("State", "Block")),
        laws=lambda _geolevel, _query: {0: law},
    )


def test_noise_counts_in_possible_cells_alone():
    """A hundred cells, of which one is possible."""
    zero = StructuralZero("never", (("a", LEVELS[1:]),))
    whole, sparse = (Schema("s", (Attribute("a", LEVELS),), (), zeros) for zeros in ((), (zero,)))
    refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE / 100), whole)
    with pytest.raises(BudgetError, match="100 possible cells") as caught:
        refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE / 99), whole)
    assert caught.value.code == "noise-too-large"
    refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE), sparse)
    with pytest.raises(BudgetError, match="1 possible cells"):
        refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE * 1.01), sparse)


SMALL = Schema("s", (Attribute("a", LEVELS),))


def measured(geolevels, queries=1, laws=lambda geolevel, query: {0: DiscreteGaussian(Fraction(1))}):
    """An allocation of these geolevels, each measured with this number of queries."""
    names = tuple(f"q{number}" for number in range(queries))
    return SimpleNamespace(
        strategy=SimpleNamespace(geolevels=geolevels, queries=lambda geolevel: names),
        spine=SimpleNamespace(geolevels=geolevels),
        laws=laws,
    )


def test_the_laws_of_a_release_are_those_of_every_share_of_every_query_at_every_geolevel():
    def laws(geolevel, query):
        first = {"State": 1, "Block": 10}[geolevel] + {"q0": 0, "q1": 3}[query]
        return {3: DiscreteGaussian(Fraction(first)), 7: DiscreteGaussian(Fraction(first + 1))}

    wanted = {DiscreteGaussian(Fraction(one)) for one in (1, 2, 4, 5, 10, 11, 13, 14)}
    assert laws_of(measured(("State", "Block"), 2, laws)) == wanted


def test_the_largest_noise_at_the_root_counts():
    def laws(deviation):
        small, large = (SimpleNamespace(standard_deviation=lambda one=one: one) for one in (1.0, deviation))
        return lambda geolevel, query: (
            {0: small, 1: large} if (geolevel, query) == ("State", "q1") else {0: small}
        )

    refuse_vast_noise(measured(("State", "Block"), 3, laws(MOST_CELLS_OF_NOISE / 100)), SMALL)
    with pytest.raises(BudgetError, match="at State, noise"):
        refuse_vast_noise(measured(("State", "Block"), 3, laws(MOST_CELLS_OF_NOISE / 99)), SMALL)
    vast = SimpleNamespace(standard_deviation=lambda: MOST_CELLS_OF_NOISE * 2.0)
    only_below = measured(("State", "Block"), 3, lambda geolevel, _: {0: vast} if geolevel == "Block" else {})
    refuse_vast_noise(only_below, SMALL)  # the root alone counts, and here it is not measured


def test_geolevels_and_queries_have_addresses_or_are_refused():
    many = tuple(f"g{number}" for number in range(257))
    certify_noise(measured(many[:256]), SMALL)
    with pytest.raises(GeographyError):
        certify_noise(measured(many), SMALL)
    certify_noise(measured(("State",), 1 << 16, lambda *_: {}), SMALL)
    with pytest.raises(SchemaError):
        certify_noise(measured(("State",), (1 << 16) + 1, lambda *_: {}), SMALL)


def test_certifying_refuses_vast_noise_and_builds_the_table_of_every_law_once(monkeypatch):
    built = []
    monkeypatch.setattr(InversionTable, "build", built.append)
    laws = [DiscreteGaussian(Fraction(1)), DiscreteLaplace(Fraction(2)), DiscreteGaussian(Fraction(1))]
    certify_laws(laws)
    assert sorted(built, key=repr) == sorted(set(laws), key=repr)
    built.clear()
    certify_noise(measured(("State",)), SMALL)
    assert built == [DiscreteGaussian(Fraction(1))]
    with pytest.raises(BudgetError) as caught:
        certify_noise(
            measured(("State",), laws=lambda *_: {0: DiscreteGaussian(Fraction(10**10))}),
            Schema("vast", (Attribute("a", LEVELS), Attribute("b", LEVELS), Attribute("c", LEVELS))),
        )
    assert caught.value.code == "noise-too-large"


def test_a_law_that_cannot_be_certified_is_an_error(monkeypatch):
    def fail(_):
        raise SolverError("the highest precision does not determine it")

    monkeypatch.setattr(InversionTable, "build", fail)
    with pytest.raises(SolverError):
        certify_laws([DiscreteGaussian(Fraction(1))])
