"""What groups chosen by variance aim at, and what limits the rest."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.budget.caps import Reference
from tallyveil.budget.spine.regroup import Measure
from tallyveil.budget.spine.variance import TotalMeasures
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_prefixes as prefixes
from tallyveil.geography.optimise import Branch, GroupByMembership, optimise_spine
from tallyveil.geography.steps import FanOutLimit
from tallyveil.geography.tables import entities_from_columns
from tallyveil.plans.inputs import Regroup, with_protected
from tallyveil.products.topdown.run.spine_making import area_changes, choose_groups, is_worse, warnings_of

STEPS = (Branch("reserve", "Town", "R"), GroupByMembership(("ward", "school"), "Group", "Block"))


def asked(**keys):
    given = {
        "geolevel": "Group",
        "limit": FanOutLimit(1000),
        "aim": (("ward", Fraction(2)),),
        "measure": Measure.SUM,
    }
    return Regroup(**{**given, **keys})


def test_families_of_the_steps_join_the_aim():
    assert with_protected(asked(), STEPS).aim == (("ward", 2), ("reserve", 1), ("school", 1))
    assert with_protected(asked(may_worsen=("school",)), STEPS).aim == (("ward", 2), ("reserve", 1))
    # The greatest variance of them all would be another aim.
    assert with_protected(asked(measure=Measure.MAXIMUM), STEPS).aim == (("ward", 2),)


@pytest.fixture(scope="module")
def town():
    """Two towns of three groups of thirty blocks; wards, schools and two families that no step is made for."""
    blocks = [f"{t}{g}{b:02d}" for t in "AB" for g in range(3) for b in range(30)]
    spine = prefixes(blocks, ("Region", "Town", "Group", "Block"), (0, 1, 2, 4))
    rng = np.random.default_rng(1)
    number = np.arange(len(blocks))
    table = {
        "geocode": blocks,
        "ward": [f"w{n // 37}" for n in number],
        "school": [f"s{n // 52}" for n in number],
        "reserve": ["r" if 20 <= n < 41 else None for n in number],
        "post": [f"p{n}" for n in rng.integers(0, 4, len(blocks))],
        "none": [None] * len(blocks),
    }
    families = entities_from_columns(spine, table, ("ward", "school", "reserve", "post", "none"))
    levels = ("Region", "Town", "Group", "Block")
    shares = (Fraction(1, 4), Fraction(1, 4), Fraction(9, 20), Fraction(1, 20))
    strategy = Strategy(
        mechanism=Mechanism.DISCRETE_GAUSSIAN,
        neighbours="bounded",
        total=Fraction(1),
        geolevel_shares=tuple(zip(levels, shares, strict=True)),
        query_shares=tuple((name, (("total", Fraction(1)),)) for name in levels),
    )
    measures = TotalMeasures(strategy, {"total": 1}, ("Region",))
    return spine, families, measures, optimise_spine(spine, families, STEPS[1:])


def chosen(town, **keys):
    spine, families, measures, steps = town
    full = with_protected(asked(**keys), STEPS[1:])
    made, groups = choose_groups(full, spine, steps, families, measures)
    found = area_changes(spine, families, measures, steps, made, groups, [name for name, _ in full.aim])
    return {one.name: one for one in found}, found


def test_what_is_not_aimed_at_keeps_its_limit(town):
    free, told = chosen(town, may_worsen=("school", "post", "Group", "Block", "reserve", "Town"))
    assert {name for name, one in free.items() if one.aimed} == {"ward"}
    lost = [name for name, one in free.items() if is_worse(one.steps.mean, one.made.mean)]
    assert "school" in lost
    sentences = warnings_of(told)
    assert all(
        any(sentence.startswith(f"{name}: totals are less exact") for sentence in sentences) for name in lost
    )
    kept, _ = chosen(town)
    assert {name for name, one in kept.items() if one.aimed} == {"ward", "school"}
    assert not [name for name, one in kept.items() if is_worse(one.steps.mean, one.made.mean)]
    assert "none" not in kept  # a family without entities
    loose, _ = chosen(town, most_loss=Fraction(1, 2))
    assert loose["ward"].made.mean <= kept["ward"].made.mean * 1.001


def test_losses_from_the_geography_are_named_where_they_remain(town):
    found, told = chosen(town, reference=Reference.GEOGRAPHY, most_loss=Fraction(0))
    sentences = warnings_of(told)
    for name, one in found.items():
        over = not one.aimed and one.made.mean > one.given.mean * (1 + 1e-6) and one.made.mean > 0.01
        assert one.unmet == over
        assert (
            any(s.startswith(f"{name}: it loses more than [spine.regroup] most_loss") for s in sentences)
            == over
        )


def test_a_name_that_may_worsen_is_known(town):
    with pytest.raises(GeographyError, match="may worsen atlantis, none"):
        chosen(town, may_worsen=("atlantis", "none"))


def test_what_counts_as_worse():
    assert not is_worse(0.0, 0.005)  # as good as exact
    assert is_worse(0.0, 0.5)
    assert not is_worse(10.0, 10.5)
    assert is_worse(10.0, 10.51)
    assert is_worse(10.0, float("inf"))
    assert not is_worse(float("inf"), float("inf"))
