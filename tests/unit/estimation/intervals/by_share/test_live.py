"""Variances with live categories: against schemas that have no others, the plain model, and differences."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import SchemaError
from tallyveil.estimation.intervals.by_share.covariances import top_down_of
from tallyveil.estimation.intervals.by_share.live import chains_of, live_variances
from tallyveil.estimation.intervals.by_share.measured import AskedVariance, VariancesByShare, measured_queries
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

QUERIES = ("total", "half", "age*sex", "half*sex")
PASSES = [["total"], ["half", "half*sex"], ["age*sex"]]
ASKED = ("total", "age", "half*sex", "age*sex")


def schema_of(sexes, halves, ages):
    """Halves of equal size: a recode of ages."""
    each = ages // halves
    groups = tuple((f"h{g}", tuple(str(g * each + i) for i in range(each))) for g in range(halves))
    return Schema(
        "people",
        (Attribute("sex", tuple(map(str, range(sexes)))), Attribute("age", tuple(map(str, range(ages))))),
        (Recode("half", "age", groups),),
    )


def strategy_of(geolevels):
    n = len(geolevels)
    parts = (Fraction(1, 10), Fraction(2, 10), Fraction(4, 10), Fraction(3, 10))
    return Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(3, 2),
        tuple((name, Fraction(i + 1, n * (n + 1) // 2)) for i, name in enumerate(geolevels)),
        tuple((name, tuple(zip(QUERIES, parts, strict=True))) for name in geolevels),
    )


@pytest.fixture
def world(random_spine, random_family):
    rng = np.random.default_rng(5)
    spine = random_spine(rng, 20, 3, one_root=True)
    family = random_family(rng, spine, 4, "any")
    strategy = strategy_of(spine.geolevels)
    shares = np.array(
        [
            float(strategy.share(level, query) / strategy.total)
            for level in strategy.geolevels
            for query in strategy.queries(level)
        ]
    )
    return spine, family, strategy, shares


def variances(world, schema, sizes=None, exact=None, drawn=None):
    spine, family, strategy, _ = world
    asked = [AskedVariance(area, query) for area in (0, 1, 2, "any") for query in ASKED]
    estimator = top_down_of(spine, (0, 1, 2), [family])
    more = {
        "exact": exact or {},
        "drawn": drawn or {},
        "passes": dict.fromkeys(spine.geolevels, PASSES),
    }
    if sizes is None:
        queries = measured_queries(schema, strategy, spine.geolevels, asked=ASKED, **more)
        return VariancesByShare(queries, estimator, asked)
    everywhere = {(name, query): size for name in spine.geolevels for query, size in sizes.items()}
    return live_variances(
        schema, strategy, spine.geolevels, sizes=everywhere, asked=asked, estimator=estimator, **more
    )


@pytest.mark.parametrize("exact", [{}, {"L0": ["total"]}, {"L0": ["half"], "L1": ["sex"]}])
def test_where_all_categories_are_live_it_is_the_plain_model(world, exact):
    schema = schema_of(2, 3, 6)
    drawn = {"L1": [(schema.query("sex"), 2.5)]}
    plain = variances(world, schema, exact=exact, drawn=drawn).at(world[-1])
    found = variances(world, schema, {"sex": 2, "half": 3, "age": 6}, exact, drawn).at(world[-1])
    assert found.values == pytest.approx(plain.values, rel=1e-5)
    assert found.slopes == pytest.approx(plain.slopes, rel=1e-4, abs=1e-6 * np.abs(plain.slopes).max())


def test_categories_that_are_not_live_have_no_error(world):
    """As many answers as the large schema has, of which only those of the small one have errors."""
    small, large = schema_of(2, 2, 4), schema_of(3, 5, 30)
    plain = variances(world, small).at(world[-1]).values
    found = variances(world, large, {"sex": 2, "half": 2, "age": 4}).at(world[-1]).values
    ratio = np.array([small.query(query).size / large.query(query).size for query in ASKED])
    assert found == pytest.approx(plain * np.tile(ratio, 4), rel=1e-5)


def test_derivatives_are_those_of_differences(world):
    shares = world[-1]
    by_share = variances(world, schema_of(2, 3, 6), {"sex": 1.2, "half": 1.5, "age": 2.7})
    slopes = by_share.at(shares).slopes
    for place in range(len(shares)):
        step = np.zeros(len(shares))
        step[place] = 1e-5 * shares[place]
        difference = (by_share.at(shares + step).values - by_share.at(shares - step).values) / 2
        assert difference == pytest.approx(slopes[:, place] * step[place], rel=1e-4, abs=1e-12)


def test_one_live_category_leaves_only_the_total(world):
    found = variances(world, schema_of(2, 3, 6), {"sex": 1, "half": 1, "age": 1}).at(world[-1]).values
    totals = found.reshape(4, 4)[:, 0]
    assert found.reshape(4, 4) == pytest.approx(totals[:, None] / [[1, 6, 6, 12]], rel=1e-6)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"sex": 2, "half": 3}, "no row for 'age' at L0, 'age' at L1, 'age' at L2. Add what is absent"),
        ({"sex": 2, "half": 3, "age": 2}, "'age' at L0 2 live groups, and half 3"),
    ],
)
def test_sizes_that_do_not_fit(world, sizes, said):
    with pytest.raises(SchemaError, match=said) as error:
        variances(world, schema_of(2, 3, 6), sizes)
    assert error.value.code == "bad-live-sizes"


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"a": "012", "b": "345"}, "'half' lies in several groups of 'other'"),
        ({"a": "01", "b": "23"}, "overlap, or it leaves out levels of 'age'"),
        ({"a": "0123", "b": "2345"}, "overlap, or it leaves out levels of 'age'"),
    ],
)
def test_groupings_that_make_no_chain(groups, said):
    base = schema_of(2, 3, 6)
    overlapping = sum(map(len, groups.values())) > 6
    made = tuple((name, tuple(levels)) for name, levels in groups.items())
    other = Recode("other", "age", made, overlapping)
    schema = Schema("people", base.attributes, (*base.recodes, other))
    with pytest.raises(SchemaError, match=said) as error:
        chains_of(schema, [schema.query("half"), schema.query("other")])
    assert error.value.code == "bad-live-sizes"


def test_a_recode_of_single_levels_is_the_attribute():
    base = schema_of(2, 3, 6)
    same = Recode("same", "age", tuple((f"s{i}", (str(i),)) for i in reversed(range(6))))
    schema = Schema("people", base.attributes, (*base.recodes, same))
    (_, chain) = chains_of(schema, [schema.query("same*sex"), schema.query("half")])
    assert chain.names == ("half", "age")
    assert chain.place(schema.query("same").factors[1]) == 2
