"""What a release guarantees of a secret, against all pairs of populations of a small universe, counted cell by cell."""

import itertools
import random
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.samples import every, few

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    IntegerSubspaceGaussian,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.numbers import bound_cell, spent_cell
from tallyveil.budget.allocation import allocation_of
from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.optimise import optimise_spine
from tallyveil.geography.spine import uniform_shares
from tallyveil.geography.tables import entities_from_columns
from tallyveil.plans.from_toml.load import load_plan, plan_from_mapping
from tallyveil.plans.secrets import Secret, guarantee_named, guarantees_of, secrets_of, secrets_record

GEOLEVELS = ["Region", "Town", "Block"]
# Regions X and Y; X has a town of one block.
BLOCKS = ["X11", "X12", "X21", "Y11", "Y12", "Y13", "Y21", "Y22"]
SPINE = spine_from_prefixes(BLOCKS, GEOLEVELS, (1, 2, 3))
PATHS = {block: (block[:1], block[:2], block) for block in BLOCKS}
"""The geounits of each block, root first."""

SCHEMA = {
    "name": "small",
    "attributes": [
        {"name": "age", "levels": ["0", "1", "2", "3", "4"]},
        {"name": "home", "levels": ["house", "nursing", "prison"]},
        {"name": "sex", "levels": ["f", "m"]},
    ],
    "recodes": [
        {"name": "band", "attribute": "age", "groups": {"young": ["0", "1"], "old": ["2", "3", "4"]}},
        {"name": "school", "attribute": "age", "groups": {"school": ["1", "2"], "work": ["3"]}},
        {"name": "place_of", "attribute": "home", "groups": {"nursing": ["nursing"], "prison": ["prison"]}},
        {
            "name": "ever",
            "attribute": "age",
            "overlapping": True,
            "groups": {"first": ["0", "1", "2"], "second": ["1", "2", "3"], "third": ["2"]},
        },
    ],
    "structural_zeros": [{"name": "child", "cells": {"age": ["0"], "home": ["prison"]}}],
}
QUERIES = [
    "total",
    "age",
    "home",
    "sex",
    "band",
    "band*sex",
    "school*home",
    "ever*sex",
    "place_of*age",
    "detailed",
]


SHARES = {3: ("1/6", "1/3", "1/2"), 4: ("1/10", "1/5", "3/10", "2/5")}


def plan_of(
    queries,
    invariants=(),
    *,
    neighbours="bounded",
    mechanism="discrete_gaussian",
    subspace=(),
    bounds=(),
    total="3",
    schema=SCHEMA,
    spine=None,
    geolevels=GEOLEVELS,
):
    unit = "rho" if mechanism == "discrete_gaussian" else "epsilon"
    spent = Fraction(total) + sum(Fraction(item["rho"]) for item in subspace)
    strategy = {
        unit: total,
        "geolevels": dict(zip(geolevels, SHARES[len(geolevels)], strict=True)),
        "queries": {"*": {query: f"1/{len(queries)}" for query in queries}},
    }
    content = {
        "release": {"name": "small"},
        "records": {"path": "records.parquet", "geocode": "geocode"},
        "geography": {"path": "geography.parquet", "geolevels": GEOLEVELS, "prefix_lengths": [1, 2, 3]},
        "schema": schema,
        "privacy": {"neighbours": neighbours, "mechanism": mechanism, unit: str(spent)},
        "strategy": strategy,
        "bounds": list(bounds),
        "invariants": [{"query": query, "geolevels": levels} for query, levels in invariants],
        "outputs": {"tables": ["total"]},
    }
    if subspace:
        content["subspace"] = list(subspace)
    if spine is not None:
        content["spine"] = spine
    return plan_from_mapping(content, Path())


NUMBERS = {}


def numbers_of(plan, query, cell):
    """The answers of a query that a cell counts in."""
    key = id(plan), query, cell
    if key not in NUMBERS:
        NUMBERS[key] = plan, plan.query(query).counted_in(np.array([cell]))[1].tolist()
    return NUMBERS[key][1]


def answers_of(plan, path, cell):
    """Every answer that one record counts in: geolevel, geounit, query and number."""
    found = Counter()
    for geolevel, geounit in zip(plan.geolevels, path, strict=True):
        for query in plan.strategy.queries(geolevel):
            found.update((geolevel, geounit, query, number) for number in numbers_of(plan, query, cell))
    return found


def exact_of(plan, block, cell):
    """The same for what is published exactly."""
    found = Counter()
    for invariant in plan.invariants:
        numbers = numbers_of(plan, invariant.query, cell)
        for geolevel in invariant.geolevels:
            place = block[: 1 + GEOLEVELS.index(geolevel)]
            found.update((geolevel, place, invariant.query, number) for number in numbers)
    return found


def exact_numbers(plan, records):
    """What is published exactly of each record as one number, of which each answer has a byte."""
    places = {}
    return {
        record: sum(
            count << 8 * places.setdefault(answer, len(places))
            for answer, count in exact_of(plan, *record).items()
        )
        for record in records
    }


def difference(some, others):
    """The answers that are not the same, each with by how much."""
    return {key: some[key] - others[key] for key in some.keys() | others.keys() if some[key] != others[key]}


LAWS = {}


def law_of(plan, geolevel, query, share=None):
    key = id(plan), geolevel, query, share
    if key not in LAWS:
        LAWS[key] = plan, plan.strategy.law(geolevel, query, share)
    return LAWS[key][1]


def alike(moved, shares=None):
    """The answers that move by their law and how far: what they cost does not depend on the rest."""
    return frozenset(
        Counter(
            (geolevel, query, None if shares is None else shares(geolevel, geounit), abs(by))
            for (geolevel, geounit, query, _), by in moved.items()
        ).items()
    )


COSTS = {}


def cost_of(plan, moved):
    """Rho, or pure epsilon, of answers that move, from the definition of each law."""
    key = id(plan), moved
    if key not in COSTS:
        cost = Fraction(0)
        for (geolevel, query, share, by), times in moved:
            if share == 0:
                continue
            law = law_of(plan, geolevel, query, share)
            cost += times * (
                Fraction(by * by) / (2 * law.variance) if plan.budget_unit == "rho" else by / law.scale
            )
        COSTS[key] = plan, cost
    return COSTS[key][1]


def values_of(secret, plan, paths=PATHS):
    """All pairs of a block and a cell that differ in the secret alone."""
    schema = plan.schema
    cells = np.arange(schema.size)
    cells = cells[schema.possible(cells)].tolist()
    codes = schema.decode(np.arange(schema.size)).tolist()
    if secret.is_place:
        length = 0 if secret.within is None else 1 + plan.geolevels.index(secret.within)
        for one, other in itertools.permutations(BLOCKS, 2):
            mine, theirs = paths[one], paths[other]
            if mine[:length] == theirs[:length] and mine[length] != theirs[length]:
                yield from (((one, cell), (other, cell)) for cell in cells)
        return
    for cell, other in itertools.product(cells, repeat=2):
        if cell == other:
            continue
        for axis, attribute in enumerate(schema.attributes):
            if codes[cell][axis] == codes[other][axis]:
                continue
            if attribute.name not in secret.changes:
                break
            recode = secret.changes[attribute.name]
            if recode is not None:
                groups = schema.query(recode).factors[axis].codes
                if groups[codes[cell][axis]] < 0 or groups[codes[cell][axis]] != groups[codes[other][axis]]:
                    break
        else:
            yield from (((block, cell), (block, other)) for block in BLOCKS)


def worst(plan, shares=None, paths=PATHS):
    """The largest cost of each secret, for one record that changes it and keeps the invariants; None if there is none.

    Also that of the records that cannot, exchanged with each other record of the same secret."""
    answers = {
        (block, cell): answers_of(plan, paths[block], cell)
        for block in BLOCKS
        for cell in range(plan.schema.size)
        if plan.schema.possible(np.array([cell]))[0]
    }
    exact = exact_numbers(plan, answers)
    found = {}
    for secret in secrets_of(plan):
        alone, changing = None, []
        for one, other in values_of(secret, plan, paths):
            if exact[one] == exact[other]:
                cost = cost_of(plan, alike(difference(answers[one], answers[other]), shares))
                alone = cost if alone is None else max(alone, cost)
            else:
                changing.append((one, other))
        found[secret.name] = alone, changing, answers, exact
    return found


CASES = [
    (QUERIES, ()),
    (["total", "sex"], ()),
    (["school*home", "band"], ()),
    (["ever*sex", "place_of*age"], ()),
    (QUERIES, [("total", ["Region"])]),
    (["total", "age", "home"], [("home", ["Block"])]),
    (["age*home", "school"], [("place_of", ["Town"]), ("sex", ["Region", "Block"])]),
    (["total", "detailed"], [("school*home", ["Town"])]),
]


@cache
def worst_of(case, mechanism):
    """The plan of a case, and what its pairs cost."""
    plan = plan_of(*CASES[case], mechanism=mechanism)
    return plan, worst(plan)


@pytest.mark.parametrize(
    ("case", "mechanism"),
    few(
        4,
        [(case, "discrete_gaussian") for case in range(len(CASES))]
        + [(case, "discrete_laplace") for case in (5, 6)],
    ),
)
def test_one_record_alone_costs_what_the_worst_pair_does(case, mechanism):
    plan, found = worst_of(case, mechanism)
    for secret in secrets_of(plan):
        wanted, changing, _, _ = found[secret.name]
        by_kind = {item.exchanged: item for item in guarantees_of(plan, secret)}
        assert (False in by_kind) == (wanted is not None), secret.name
        # Records that are alike in all that is exact may be alike in everything, and then nothing is exchanged.
        assert (True in by_kind) == bool(changing) or (secret.is_place and changing), secret.name
        if wanted is not None:
            assert by_kind[False].cost(plan) == wanted, secret.name


def random_plan(rng):
    """A plan of a random schema, with recodes that overlap, structural zeros and invariants; None if it is refused."""
    attributes = [
        {"name": f"a{number}", "levels": [f"l{level}" for level in range(rng.randint(1, 4))]}
        for number in range(rng.randint(1, 3))
    ]
    recodes = []
    for number in range(rng.randint(0, 4)):
        attribute, overlapping, groups = rng.choice(attributes), rng.random() < 0.3, {}
        for level in attribute["levels"]:
            for _ in range(2 if overlapping else 1):
                members = groups.setdefault(f"g{rng.randrange(3)}", [])
                if rng.random() < 0.8 and level not in members:
                    members.append(level)
        groups = {label: levels for label, levels in groups.items() if levels}
        if groups:
            recode = {"name": f"r{number}", "attribute": attribute["name"], "groups": groups}
            recodes.append({**recode, "overlapping": overlapping})
    zeros = []
    for number in range(rng.randint(0, 2)):
        cells = {
            attribute["name"]: rng.sample(attribute["levels"], rng.randint(1, len(attribute["levels"])))
            for attribute in rng.sample(attributes, rng.randint(1, len(attributes)))
        }
        zeros.append({"name": f"z{number}", "cells": cells})

    def query(*, overlaps):
        named = [
            rng.choice(
                [
                    "",
                    attribute["name"],
                    *(
                        recode["name"]
                        for recode in recodes
                        if recode["attribute"] == attribute["name"]
                        and (overlaps or not recode["overlapping"])
                    ),
                ]
            )
            for attribute in attributes
        ]
        return "*".join(filter(None, named)) or "total"

    queries = list(dict.fromkeys(query(overlaps=True) for _ in range(rng.randint(1, 4))))
    exact = {query(overlaps=False): [rng.choice(GEOLEVELS)] for _ in range(rng.randint(0, 2))}
    schema = {"name": "s", "attributes": attributes, "recodes": recodes, "structural_zeros": zeros}
    try:
        return plan_of(queries, list(exact.items()), schema=schema)
    except TallyveilError:
        return None


@pytest.mark.parametrize("seed", few(20, every(10, range(500))))
def test_random_schemas_cost_what_their_worst_pairs_do(seed):
    plan = random_plan(random.Random(seed))
    if plan is None:
        return
    found = worst(plan)
    for secret in secrets_of(plan):
        wanted, changing, _, _ = found[secret.name]
        by_kind = {item.exchanged: item for item in guarantees_of(plan, secret)}
        assert (by_kind[False].cost(plan) if False in by_kind else None) == wanted, secret.name
        assert changing or True not in by_kind, secret.name


@pytest.mark.parametrize("case", few(3, range(len(CASES))))
def test_every_pair_moves_no_more_than_some_branch(case):
    """Not only in its rho: answer by answer, so that the branch covers the pair in every curve."""
    plan, found = worst_of(case, "discrete_gaussian")
    for secret in secrets_of(plan):
        _, _, answers, exact = found[secret.name]
        for item in guarantees_of(plan, secret):
            if item.exchanged:
                continue
            branches = item.event.branches if isinstance(item.event, WorstEvent) else (item.event,)
            counted = [variances(branch) for branch in branches]
            pairs = {
                alike(difference(answers[one], answers[other])): (one, other)
                for one, other in values_of(secret, plan)
                if exact[one] == exact[other]
            }
            for moved, pair in pairs.items():
                assert any(not by_variance(plan, moved) - branch for branch in counted), (secret.name, pair)


def by_variance(plan, moved):
    """The number of answers that move by the variance of their noise. Each moves by one."""
    counted = Counter()
    for (geolevel, query, _, by), times in moved:
        assert by == 1
        counted[law_of(plan, geolevel, query).variance] += times
    return counted


def variances(branch):
    """The number of answers by the variance of their noise."""
    counted = Counter()
    for event in branch.events:
        assert isinstance(event, DiscreteGaussian)
        assert event.sensitivity == 1
        counted[event.variance] += event.multiplicity
    return counted


@pytest.mark.parametrize("case", few(2, [case for case, (_, invariants) in enumerate(CASES) if invariants]))
def test_an_exchange_keeps_the_invariants_and_costs_no_more_than_stated(case):
    rng = np.random.default_rng(1)
    plan, found = worst_of(case, "discrete_gaussian")
    codes = [plan.schema.decode(np.array([cell]))[0].tolist() for cell in range(plan.schema.size)]
    for secret in secrets_of(plan):
        _, changing, answers, exact = found[secret.name]
        if secret.name not in {item.secret.name for item in guarantees_of(plan, secret) if item.exchanged}:
            continue
        item = guarantee_named(plan, f"{secret.name}, exchanged")
        branches = item.event.branches if isinstance(item.event, WorstEvent) else (item.event,)
        counted = [variances(branch) for branch in branches]
        pairs = {}
        for first in rng.permutation(len(changing))[:40].tolist():
            (block, cell), (other_block, other_cell) = one, other = changing[first]
            # The other record has the secret that this one gets, and all else of its own.
            for theirs, back in changing:
                if exact[one] + exact[theirs] != exact[other] + exact[back]:
                    continue
                if secret.is_place:
                    fits = (theirs[0], back[0]) == (other_block, block)
                else:
                    fits = exchanges(plan, codes, secret, (cell, other_cell), (theirs[1], back[1]))
                if fits:
                    before, after = answers[one] + answers[theirs], answers[other] + answers[back]
                    pairs[alike(difference(before, after))] = one, theirs
        for moved, pair in pairs.items():
            assert any(not by_variance(plan, moved) - branch for branch in counted), (secret.name, pair)
        largest = max((cost_of(plan, moved) for moved in pairs), default=Fraction(0))
        assert largest <= item.cost(plan)
        # Where attributes are exchanged, the other attributes of the two records are not looked at together.
        assert largest == item.cost(plan) or not secret.is_place


def cut(family="area", geolevel="Town", **other):
    return {"kind": "branch", "family": family, "geolevel": geolevel, "name": "In", **other}


def divided(geolevel="Town", name="Part", **other):
    return {"kind": "cut_by_entities", "families": ["area"], "geolevel": geolevel, "name": name, **other}


def grouped(geolevel="Town", children="Block"):
    return {
        "kind": "group_by_membership",
        "families": ["area"],
        "geolevel": geolevel,
        "children": children,
        "cutoff": 2,
    }


SPINES = [
    # Steps, the geolevels that they make, where totals are exact, and the places that one record alone can leave.
    ([cut()], GEOLEVELS, "Town", ["Town", "Region"]),
    ([cut()], GEOLEVELS, "Block", []),
    ([cut()], GEOLEVELS, "Region", ["Town", "Region"]),
    ([cut(geolevel="Region")], GEOLEVELS, "Region", ["Town", "Region", None]),
    ([cut(geolevel="Region")], GEOLEVELS, "Town", ["Town", "Region", None]),
    ([cut(parts="Part")], ["Region", "Town", "Part", "Block"], "Town", ["Part", "Town"]),
    ([divided()], ["Region", "Town", "Part", "Block"], "Town", ["Part", "Town"]),
    ([divided(name="Town", keep=False)], GEOLEVELS, "Town", ["Town", "Region"]),
    ([divided("Region")], ["Region", "Part", "Town", "Block"], "Town", ["Town", "Part", "Region"]),
    ([grouped()], GEOLEVELS, "Town", ["Town", "Region"]),
    ([grouped("Group", "Town")], ["Region", "Group", "Town", "Block"], "Town", ["Town"]),
    ([grouped("Group")], ["Region", "Town", "Group", "Block"], "Town", ["Group", "Town"]),
    # A geolevel of the geography is replaced, and its name is given to parts of a coarser one. Then nothing but a block
    # is sure to be left, and the line of all places is larger than it has to be.
    (
        [divided(keep=False), divided("Region", "Town", keep=True)],
        ["Region", "Town", "Part", "Block"],
        "Town",
        ["Part", "Town", "Region", None],
    ),
]


@pytest.mark.parametrize("query", ["total", "sex"])
@pytest.mark.parametrize(("steps", "geolevels", "geolevel", "left"), few(4, SPINES))
def test_a_place_may_change_without_leaving_an_area_that_the_steps_cut(
    steps, geolevels, geolevel, left, query
):
    spine = {"entities": "entities.parquet", "families": ["area"], "steps": steps}
    schema = {"name": "smaller", "attributes": SCHEMA["attributes"][1:]}
    plan = plan_of(
        ["total", "sex", "home"], [(query, [geolevel])], spine=spine, geolevels=geolevels, schema=schema
    )
    column = [None if block in ("X12", "Y11", "Y21", "Y22") else "in" for block in BLOCKS]
    families = entities_from_columns(SPINE, {"geocode": BLOCKS, "area": column}, ["area"])
    made = optimise_spine(SPINE, families, plan.spine.steps).spine
    assert list(made.geolevels) == list(plan.geolevels) == geolevels
    paths = {
        made.geocodes[made.finest][row]: tuple(
            made.geocodes[level][made.ancestors(level)[row]] for level in range(made.n_levels)
        )
        for row in range(len(BLOCKS))
    }
    found = worst(plan, paths=paths)
    places = [secret for secret in secrets_of(plan) if secret.is_place]
    stated = {
        secret.name: {item.exchanged: item for item in guarantees_of(plan, secret)} for secret in places
    }
    assert {secret.within for secret in places if False in stated[secret.name]} == {*left}
    for secret in places:
        alone, changing, answers, exact = found[secret.name]
        if alone is not None:
            assert stated[secret.name][False].cost(plan) == alone, secret.name
        together = stated[secret.name][True].cost(plan) if True in stated[secret.name] else None
        # Two records exchange their places where one alone cannot leave its own.
        for one, other in changing:
            for cell in range(plan.schema.size):
                theirs, back = (other[0], cell), (one[0], cell)
                if theirs in exact and exact[one] + exact[theirs] == exact[other] + exact[back]:
                    moved = difference(answers[one] + answers[theirs], answers[other] + answers[back])
                    if moved:
                        assert cost_of(plan, alike(moved)) <= together, secret.name


def test_two_records_may_differ_in_what_is_exact_of_an_area_that_both_stay_in():
    """Nobody changes the block alone, but within one town two records of another sex can exchange their blocks."""
    spine = {"entities": "entities.parquet", "families": ["area"], "steps": [cut()]}
    exact = [("total", ["Block"]), ("sex", ["Town"])]
    plan = plan_of(["total", "sex"], exact, spine=spine)
    # Two answers of sex move, in both parts of the town and in both blocks.
    law = [law_of(plan, geolevel, "sex").variance for geolevel in ("Town", "Block")]
    item = guarantee_named(plan, "place within Region, exchanged")
    assert item.cost(plan) == sum(Fraction(4, 2) / variance for variance in law)
    with pytest.raises(ConfigError, match="every change of it by one record alone"):
        guarantee_named(plan, "place within Region")


def test_bypassed_roots_may_be_in_one_root_of_the_geography():
    spine = {"bypass": True}
    gaussian = plan_of(["total"], [("total", ["Region"])], spine=spine)
    laplace = plan_of(["total"], [("total", ["Region"])], spine=spine, mechanism="discrete_laplace")
    place = Secret("place", {})
    assert [item.exchanged for item in guarantees_of(gaussian, place)] == [True]
    assert [item.exchanged for item in guarantees_of(laplace, place)] == [False, True]


def exchanges(plan, codes, secret, mine, theirs):
    """Whether two records exchange the attributes of a secret and keep their others, by the codes of each cell."""
    (a, b), (c, d) = ([codes[cell] for cell in pair] for pair in (mine, theirs))
    return all(
        (a[axis], b[axis]) == (d[axis], c[axis]) if attribute.name in secret.changes else True
        for axis, attribute in enumerate(plan.schema.attributes)
    )


def test_where_geounits_are_bypassed_each_pair_of_paths_has_its_own_noise():
    plan = plan_of(["total", "band*sex", "home"])
    made, shares = bypass(
        SPINE, uniform_shares(SPINE, dict(plan.strategy.geolevel_shares)), BypassRule.SINGLE_CHILD
    )
    allocation = allocation_of(plan.strategy, made.spine, shares)
    assert len(allocation.paths_that_meet(None)) > 1

    def share(geolevel, geounit):
        level = SPINE.level_index(geolevel)
        return shares.share(level, list(SPINE.geocodes[level]).index(geounit))

    found = worst(plan, share)
    for secret in secrets_of(plan):
        (item,) = guarantees_of(plan, secret, allocation)
        wanted = found[secret.name][0]
        # Paths that part further down than they might cost less, so that the stated cost is a bound.
        assert item.cost(plan) == wanted if not secret.is_place else item.cost(plan) >= wanted
    assert guarantee_named(plan, "place", allocation).cost(plan) == plan.strategy.total


@pytest.mark.parametrize("geolevel", [None, *GEOLEVELS])
def test_paths_that_meet_are_those_of_two_blocks_in_one_geounit(geolevel):
    plan = plan_of(["total"])
    made, shares = bypass(
        SPINE, uniform_shares(SPINE, dict(plan.strategy.geolevel_shares)), BypassRule.SINGLE_CHILD
    )
    allocation = allocation_of(plan.strategy, made.spine, shares)
    paths = [
        tuple(shares.share(level, int(SPINE.ancestors(level)[row])) for level in range(3))
        for row in range(len(BLOCKS))
    ]
    length = 0 if geolevel is None else 1 + GEOLEVELS.index(geolevel)
    wanted = {
        frozenset((paths[i], paths[j]))
        for i, j in itertools.product(range(len(BLOCKS)), repeat=2)
        if BLOCKS[i][:length] == BLOCKS[j][:length]
    }
    found = allocation.paths_that_meet(geolevel)
    assert {frozenset(pair) for pair in found} == wanted
    assert len(found) == len(wanted)


def test_under_unbounded_neighbours_a_secret_is_still_a_change_of_value():
    bounded, unbounded = plan_of(["total", "sex"]), plan_of(["total", "sex"], neighbours="unbounded")
    # The same budget buys noise of half the variance there, for one answer that moves.
    twice = 2 * guarantee_named(bounded, "sex").cost(bounded)
    assert guarantee_named(unbounded, "sex").cost(unbounded) == twice


def test_noise_of_laplace_and_counts_on_a_lattice_have_events_of_their_own():
    laplace = plan_of(["total", "sex"], mechanism="discrete_laplace")
    event = guarantee_named(laplace, "sex").event
    assert isinstance(event, SequentialEvent)
    assert all(isinstance(part, DiscreteLaplace) for part in event.events)
    drawn = {"query": "home", "geolevel": "Town", "mechanism": "integer-subspace", "rho": "1/2"}
    plan = plan_of(["total", "sex"], [("total", ["Region"])], subspace=[drawn])
    by_name = {item.name: item.event for secret in secrets_of(plan) for item in guarantees_of(plan, secret)}
    distances = {
        name: [part.squared_distance for part in event.events if isinstance(part, IntegerSubspaceGaussian)]
        for name, event in by_name.items()
    }
    assert distances == {
        "age": [],
        "home": [2],
        "sex": [],
        "all attributes": [2],
        "place within Town": [],
        "place within Region": [2],
        "place, exchanged": [4],
    }


def test_nothing_moves_where_nothing_is_measured():
    plan = plan_of(["total"])
    item = guarantee_named(plan, "age")
    assert item.cost(plan) == 0
    assert item.proved(plan.delta).bounds.upper == 0


def test_the_record_has_upper_bounds_that_rise_with_the_area():
    rows = {row["secret"]: row for row in secrets_record(plan_of(QUERIES))}
    places = [rows[name]["epsilon"] for name in ("place within Town", "place within Region", "place")]
    assert places == sorted(places)
    assert rows["age within band"]["epsilon"] < rows["age"]["epsilon"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("agee", "there is no secret 'agee'"),
        ("age within ever", "there is no secret"),
        ("place", "every change of it by one record alone"),
        ("age, exchanged", "two records need not exchange it"),
    ],
)
def test_a_secret_that_is_not_there_is_refused_by_name(name, why):
    plan = plan_of(QUERIES, [("total", ["Region"])])
    with pytest.raises(ConfigError, match=why):
        guarantee_named(plan, name)


def test_an_attribute_within_a_recode_that_is_not_measured_can_be_asked_for():
    plan = plan_of(["age", "total"])
    assert "age within school" not in {secret.name for secret in secrets_of(plan)}
    assert guarantee_named(plan, "age within school").cost(plan) == guarantee_named(plan, "age").cost(plan)
    assert rho_of(guarantee_named(plan, "age within school").event) < epsilon_of_total(plan)


def epsilon_of_total(plan):
    """The whole budget."""
    return rho_of(plan.event()) if plan.budget_unit == "rho" else epsilon_of(plan.event())


def test_the_page_shows_what_the_command_does():
    project = Path(__file__).parents[3]
    page = (project / "docs" / "secrets.md").read_text(encoding="utf-8")
    plan = load_plan(project / "examples" / "redistricting" / "national.toml")
    rows = secrets_record(plan)
    shown = re.findall(r"^ (\S.*?) {2,}([\d.]+) {2,}([\d.]+)$", page, re.MULTILINE)
    assert shown == [
        (row["secret"], spent_cell(Fraction(row["cost"])), bound_cell(row["epsilon"])) for row in rows
    ]
