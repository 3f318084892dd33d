"""Which queries the invariants fix: exactly those that no two tables with equal invariants can differ in."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.queries import Saving, find_saving, fixed_queries, is_fixed
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

SCHEMA = Schema(
    "homes",
    (Attribute("age", ("young", "middle", "old")), Attribute("home", ("house", "barracks", "ship"))),
    (
        Recode("grown", "age", (("young", ("young",)), ("grown", ("middle", "old")))),
        Recode("aged", "age", (("middle", ("middle",)), ("old", ("old",)))),
        Recode("afloat", "home", (("ship", ("ship",)),)),
    ),
    (StructuralZero("no young in barracks", (("age", ("young",)), ("home", ("barracks", "ship")))),),
)
QUERIES = ("total", "age", "home", "grown", "aged", "afloat", "grown*home", "aged*afloat", "detailed")


def indicators(schema, names):
    """Rows: which possible cells each answer counts."""
    cells = np.arange(schema.size)
    cells = cells[schema.possible(cells)]
    rows = []
    for name in names:
        group = schema.query(name)
        answers = group.answers_of(cells)
        rows += [(answers == number).astype(float) for number in range(group.size)]
    return np.array(rows).reshape(len(rows), len(cells))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("known", [(), *((name,) for name in QUERIES), *combinations(QUERIES[:-1], 2)])
def test_a_query_is_fixed_where_its_answers_are_combinations_of_the_known_ones(query, known):
    """Against the ranks of the full matrices."""
    above = indicators(SCHEMA, known)
    both = indicators(SCHEMA, (*known, query))
    rank = np.linalg.matrix_rank(above) if len(known) else 0
    wanted = np.linalg.matrix_rank(both) == rank
    assert is_fixed(SCHEMA.query(query), [SCHEMA.query(name) for name in known], SCHEMA) == wanted


@settings(max_examples=60)
@given(st.data())
def test_the_same_for_any_schema(data):
    """Random recodes that leave levels out, and random structural zeros, that may bar everything."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    attributes = tuple(
        Attribute(f"a{n}", tuple(f"l{k}" for k in range(size))) for n, size in enumerate(sizes)
    )
    recodes, zeros = [], []
    for number, attribute in enumerate(attributes):
        for which in range(2):
            groups = data.draw(st.lists(st.integers(-1, 1), min_size=attribute.size, max_size=attribute.size))
            table = tuple(
                (
                    f"g{group}",
                    tuple(name for name, own in zip(attribute.levels, groups, strict=True) if own == group),
                )
                for group in sorted(set(groups) - {-1})
            )
            if table:
                recodes.append(Recode(f"r{number}{which}", attribute.name, table))
    for which in range(data.draw(st.integers(0, 2))):
        chosen = data.draw(st.lists(st.sampled_from(attributes), min_size=1, unique=True))
        cells = tuple(
            (one.name, tuple(data.draw(st.lists(st.sampled_from(one.levels), min_size=1, unique=True))))
            for one in chosen
        )
        zeros.append(StructuralZero(f"z{which}", cells))
    schema = Schema("any", attributes, tuple(recodes), tuple(zeros))

    def spec():
        named = [
            data.draw(
                st.sampled_from((None, one.name, *(r.name for r in recodes if r.attribute == one.name)))
            )
            for one in attributes
        ]
        return "*".join(name for name in named if name) or "total"

    query, known = spec(), [spec() for _ in range(data.draw(st.integers(0, 3)))]
    above, both = indicators(schema, known), indicators(schema, [*known, query])
    rank = np.linalg.matrix_rank(above) if above.size else 0
    wanted = (np.linalg.matrix_rank(both) if both.size else 0) == rank
    assert is_fixed(schema.query(query), [schema.query(name) for name in known], schema) == wanted


def strategy_of(shares, mechanism=Mechanism.DISCRETE_GAUSSIAN):
    levels = tuple(shares)
    return Strategy(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(2),
        tuple((level, Fraction(1, len(levels))) for level in levels),
        tuple(
            (level, tuple((query, Fraction(share)) for query, share in own.items()))
            for level, own in shares.items()
        ),
    )


def test_the_national_shares_of_2020_spend_a_third_on_totals_that_are_exact():
    """32 % of rho measures totals of States, which are exact."""
    strategy, schema = load_strategy_preset("redistricting-us").strategy, load_preset("pl94-persons")
    found = fixed_queries(strategy, schema, [("total", ["State"])])
    assert [(item.geolevel, item.query, item.known_from) for item in found] == [
        ("State", "total", "the exact total at State"),
    ]
    assert found[0].share == Fraction(1440, 4099) * Fraction(3773, 4097)
    assert round(float(found[0].share), 2) == 0.32


def test_a_better_strategy_costs_the_same_and_keeps_every_proportion():
    strategy = load_strategy_preset("redistricting-us").strategy
    saving = find_saving(strategy, load_preset("pl94-persons"), [("total", ["State"])])
    assert saving is not None
    better = saving.strategy
    assert better.total == strategy.total
    gain = 1 / (1 - saving.share)
    for level in strategy.geolevels:
        for query in strategy.queries(level):
            if (level, query) == ("State", "total"):
                assert query not in better.queries(level)
            else:
                assert better.share(level, query) == strategy.share(level, query) * gain
    assert find_saving(better, load_preset("pl94-persons"), [("total", ["State"])]) is None
    law, before = better.law("Block", "detailed"), strategy.law("Block", "detailed")
    assert float(law.variance / before.variance) ** 0.5 == pytest.approx(saving.deviation)


def test_a_laplace_scale_falls_by_the_share_itself():
    strategy = strategy_of({"A": {"total": "1/2", "age": "1/2"}, "B": {"age": 1}}, Mechanism.DISCRETE_LAPLACE)
    saving = find_saving(strategy, SCHEMA, [("total", ["A"])])
    assert saving.share == Fraction(1, 4)
    assert saving.deviation == pytest.approx(0.75)


def test_what_is_coarser_is_fixed_and_what_is_finer_is_not():
    strategy = strategy_of({name: {"total": "1/2", "age": "1/2"} for name in ("A", "B", "C")})
    found = fixed_queries(strategy, SCHEMA, [("grown", ["B"])])
    assert [(item.geolevel, item.query) for item in found] == [("A", "total"), ("B", "total")]
    assert fixed_queries(strategy, SCHEMA, []) == ()


def test_of_several_geolevels_the_finest_counts_whatever_its_name_and_place():
    """The geolevels are in the order of the spine, which is not that of the alphabet."""
    strategy = strategy_of({name: {"total": "1/2", "age": "1/2"} for name in ("Z", "M", "A")})
    for named in (["M"], ["Z", "M"], ["M", "Z"]):
        found = fixed_queries(strategy, SCHEMA, [("grown", named)])
        assert [(item.geolevel, item.query, item.known_from) for item in found] == [
            ("Z", "total", "the exact grown at M"),
            ("M", "total", "the exact grown at M"),
        ]
        assert [item.share for item in found] == [Fraction(1, 6), Fraction(1, 6)]


def test_a_geolevel_of_which_all_is_fixed_keeps_its_shares():
    strategy = strategy_of({"A": {"total": 1}, "B": {"total": "1/4", "age": "3/4"}, "C": {"age": 1}})
    saving = find_saving(strategy, SCHEMA, [("total", ["B"])])
    assert saving.stuck == ("A",)
    assert saving.share == Fraction(1, 12)
    assert saving.strategy.share("A", "total") == strategy.share("A", "total")
    assert saving.strategy.queries("B") == ("age",)
    only = strategy_of({"A": {"total": 1}, "B": {"age": 1}})
    saving = find_saving(only, SCHEMA, [("total", ["A"])])
    assert saving == Saving(fixed_queries(only, SCHEMA, [("total", ["A"])]), ("A",), Fraction(0), None, 1.0)


def test_several_invariants_and_the_zeros_are_named():
    strategy = strategy_of({"A": {"home": "1/2", "grown*home": "1/2"}})
    # of those at home the young are those not grown, and nobody young lives elsewhere
    found = fixed_queries(strategy, SCHEMA, [("home", ["A"]), ("grown", ["A"])])
    assert [item.known_from for item in found] == [
        "the exact home at A",
        "the exact home at A, grown at A together",
    ]
    barred = Schema("none", SCHEMA.attributes, SCHEMA.recodes, (StructuralZero("z", (("home", ("ship",)),)),))
    found = fixed_queries(strategy_of({"A": {"afloat": "1/2", "home": "1/2"}}), barred, [])
    assert [(item.query, item.known_from) for item in found] == [("afloat", "the structural zeros")]


def test_a_large_schema_is_looked_at_by_kinds():
    """10^12 cells, of which one total is known: a handful of kinds."""
    wide = Schema("wide", tuple(Attribute(f"a{n}", tuple(f"l{k}" for k in range(1000))) for n in range(4)))
    assert is_fixed(wide.query("total"), [wide.query("a0*a1")], wide)
    assert not is_fixed(wide.query("detailed"), [wide.query("a0")], wide)
    assert not is_fixed(wide.query("a2"), [wide.query("a0*a1")], wide)


@pytest.mark.parametrize(("limit", "fixed"), [(6, True), (5, False)])
def test_above_the_limit_of_kinds_no_query_is_called_fixed(monkeypatch, limit, fixed):
    """Three kinds of ages and two of homes."""
    monkeypatch.setattr("tallyveil.budget.queries.MOST_KINDS", limit)
    assert is_fixed(SCHEMA.query("age"), [SCHEMA.query("age")], SCHEMA) == fixed


def test_above_the_limit_of_entries_no_query_is_called_fixed_by_several(monkeypatch):
    """Seven possible kinds of cells, of which two queries tell three answers and one."""
    query, known = SCHEMA.query("grown*home"), [SCHEMA.query("home"), SCHEMA.query("grown")]
    assert is_fixed(query, known, SCHEMA)
    kinds, answers = 4, 4 + 3 + 2
    for limit in (kinds * answers, kinds * answers - 1):
        monkeypatch.setattr("tallyveil.budget.queries.MOST_KINDS", limit)
        assert is_fixed(query, known, SCHEMA) == (limit == kinds * answers)
