"""Groups chosen by variance: what the search thinks a change does is what it does to the whole spine."""

import numpy as np
import pytest
from tests.samples import every, few, ten

from tallyveil.budget.spine.regroup import (
    Measure,
    RegroupingAim,
    carried_weights,
    group_by_variance,
    outside_of,
)
from tallyveil.budget.spine.variance import entity_parts, entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.steps import FanOutLimit

LIMIT = FanOutLimit(cutoff=3)


def precisions_of(rng, spine):
    return {name: float(np.exp(rng.normal(0, 1))) for name in spine.geolevels}


def whole(spine, precisions):
    return spine_variances(
        spine,
        [np.full(spine.n_geounits(level), precisions[name]) for level, name in enumerate(spine.geolevels)],
    )


@pytest.mark.parametrize("seed", ten(every(3, range(60))))
def test_outside_terms_give_every_change_of_the_objective(random_spine, random_family, seed):
    """Change one geounit's inside; all weighted variances of the spine change as the outside terms say."""
    rng = np.random.default_rng([31, seed])
    spine = random_spine(rng, int(rng.integers(4, 30)), 4, one_root=bool(seed % 3))
    family = random_family(rng, spine, 5)
    level = int(rng.integers(0, 3))
    u = int(rng.integers(spine.n_geounits(level)))
    precisions = [np.exp(rng.normal(0, 1, spine.n_geounits(i))) for i in range(4)]
    if seed % 4 == 0:
        precisions[0][:] = np.inf if level else 0.0
    weights = tuple(rng.random(spine.n_geounits(i)) for i in range(4))
    entity_weights = rng.random(5)

    def objective(found):
        total = sum(float(w @ v) for w, v in zip(weights, found.variance, strict=True))
        return total + float(entity_weights @ entity_variances(found, family))

    def seen_from_u(found, out):
        """The objective up to a constant: the inside by the upward pass, the outside by `out`."""
        entries = entity_parts(found, family)
        here = entries[level][0]
        variance = 1 / (1 / found.below[level][u] + out.precision[u])
        entity = np.repeat(np.arange(5), np.diff(here.begin))
        value = (out.weight[u] + carried_weights(found, weights)[level][u]) * variance + inner(found)
        for i in np.flatnonzero(here.geounit == u):
            value += entity_weights[entity[i]] * (
                here.spread[i] + (here.slope[i] + out.outside_slope[i]) ** 2 * variance
            )
        return value

    def inner(found):
        """The part of the geounits' variances below u that does not depend on u's own."""
        total, zero = 0.0, [np.zeros(spine.n_geounits(i)) for i in range(4)]
        carried = carried_weights(found, weights)
        inside = zero
        inside[level][u] = 1
        for i in range(level, 3):
            inside[i + 1] = inside[i][spine.parents(i + 1)]
            v, b, mask = found.below[i + 1], carried[i + 1], inside[i + 1]
            s = found.family(i).total
            t = np.add.reduceat(b * v**2, spine.child_offsets[i][:-1])
            total += float((mask * b * v).sum() - (inside[i] * t / s).sum())
        return total

    before = spine_variances(spine, precisions)
    out = outside_of(before, entity_parts(before, family), entity_weights, weights, level)
    changed = [one.copy() for one in precisions]
    lo, hi = u, u + 1
    for i in range(level, 4):
        if i > level:
            lo, hi = int(spine.child_offsets[i - 1][lo]), int(spine.child_offsets[i - 1][hi])
        changed[i][lo:hi] *= np.exp(rng.normal(0, 1, hi - lo))
    after = spine_variances(spine, changed)
    said = seen_from_u(after, out) - seen_from_u(before, out)
    assert said == pytest.approx(objective(after) - objective(before), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("seed", few(3, every(3, range(40))))
@pytest.mark.parametrize("measure", Measure)
def test_never_worse_and_recomputed(random_spine, random_family, seed, measure):
    rng = np.random.default_rng([32, seed])
    spine = random_spine(rng, int(rng.integers(6, 40)), 4, one_root=True)
    families = [random_family(rng, spine, 4, "f"), random_family(rng, spine, 3, "g")]
    precisions = precisions_of(rng, spine)
    if seed % 3 == 0:
        precisions["L0"] = np.inf
    aim = RegroupingAim((("f", 1.0), ("g", 2.0)), (("L1", 0.5), ("L3", 0.1)), measure)
    made = group_by_variance(spine, families, precisions, geolevel="L2", limit=LIMIT, aim=aim)
    found = whole(made.spine, precisions)
    for one, entities in zip(made.after, families, strict=False):
        told = entity_variances(found, entities.reordered(made.rows))
        assert one.mean == pytest.approx(told.mean())
        assert one.greatest == pytest.approx(told.max())
    start, end = {p.name: p for p in made.before}, {p.name: p for p in made.after}
    weight = dict((*aim.families, *aim.geolevels))
    if measure is Measure.SUM:
        assert all(end[name].mean <= start[name].mean * (1 + 1e-9) for name in weight)
    else:
        assert max(weight[n] * end[n].greatest for n in weight) <= max(
            weight[n] * start[n].greatest for n in weight
        ) * (1 + 1e-12)
    for name in ("L0", "L1", "L3"):
        level = spine.level_index(name)
        assert sorted(made.spine.geocodes[level]) == sorted(spine.geocodes[level])


@pytest.mark.parametrize("seed", ten(range(20)))
def test_groups_of_groups(random_spine, random_family, seed):
    """Children that are cut by entities, as tracts are, are not interchangeable and have slopes between 0 and 1."""
    rng = np.random.default_rng([35, seed])
    spine = random_spine(rng, int(rng.integers(10, 50)), 5, one_root=True)
    family = random_family(rng, spine, 5, "f")
    precisions = precisions_of(rng, spine)
    level = "L1" if seed % 2 else "L2"
    aim = RegroupingAim((("f", 1.0),), (("L3", 1.0),), list(Measure)[seed % 3 == 0], spare_all=False)
    made = group_by_variance(spine, [family], precisions, geolevel=level, limit=LIMIT, aim=aim)
    told = entity_variances(whole(made.spine, precisions), family.reordered(made.rows))
    assert made.after[0].mean == pytest.approx(told.mean())
    if aim.measure is Measure.SUM:
        ratios = [two.mean / one.mean for one, two in zip(made.before, made.after, strict=True)]
        assert sum(ratios) <= len(ratios) * (1 + 1e-12)


def test_something_is_gained(random_spine, random_family):
    rng = np.random.default_rng(33)
    rounds = 0
    for _ in range(10):
        spine = random_spine(rng, 40, 4, one_root=True)
        family = random_family(rng, spine, 4, "f")
        aim = RegroupingAim((("f", 1.0),), spare_all=False)
        precisions = {"L0": 1.0, "L1": 1.0, "L2": 1.0, "L3": 0.05}
        made = group_by_variance(spine, [family], precisions, geolevel="L2", limit=LIMIT, aim=aim)
        assert made.rounds == 0 or made.after[0].mean < made.before[0].mean
        rounds += made.rounds
    assert rounds > 5


def test_without_rounds_the_spine_is_the_given_one(random_spine, random_family):
    rng = np.random.default_rng(40)
    spine = random_spine(rng, 30, 4, one_root=True)
    family = random_family(rng, spine, 4, "f")
    precisions = precisions_of(rng, spine)
    aim = RegroupingAim((("f", 1.0),), (("L1", 2.0),))
    made = group_by_variance(
        spine, [family], precisions, geolevel="L2", limit=LIMIT, aim=aim, limits={"L3": 1e-9}, most_rounds=0
    )
    assert (made.rounds, made.unmet) == (0, ("L3",))
    assert made.spine is spine
    assert made.rows.tolist() == list(range(30))
    assert made.before == made.after
    found = whole(spine, precisions)
    told = {"f": entity_variances(found, family), "L1": found.variance[1], "L3": found.variance[3]}
    assert [part.name for part in made.before] == list(told)
    for part in made.before:
        values = told[part.name]
        wanted = (values.mean(), values.max(), np.sqrt(values).mean())
        assert (part.mean, part.greatest, part.deviation) == pytest.approx(wanted)


def test_bad_aims_are_refused(random_spine, random_family):
    rng = np.random.default_rng(34)
    spine = random_spine(rng, 20, 4)
    family = random_family(rng, spine, 3, "f")
    precisions = precisions_of(rng, spine)

    def call(geolevel="L2", precisions=precisions, **aim):
        return group_by_variance(
            spine,
            [family],
            precisions,
            geolevel=geolevel,
            limit=LIMIT,
            aim=RegroupingAim(**{"families": (("f", 1.0),), **aim}),
        )

    for wrong in (
        {"families": (("h", 1.0),)},
        {"geolevels": (("L2", 1.0),)},
        {"geolevels": (("L9", 1.0),)},
        {"families": ()},
        {"families": (("f", 1.0), ("L1", 1.0))},
    ):
        with pytest.raises(GeographyError, match="aim names") as error:
            call(**wrong)
        assert error.value.code == "unknown-entity"
    for wrong in ({"families": (("f", 0.0),)}, {"geolevels": (("L1", -1.0),)}):
        with pytest.raises(BudgetError, match="above 0"):
            call(**wrong)
    for geolevel in ("L0", "L3"):
        with pytest.raises(GeographyError, match="cannot be chosen") as error:
            call(geolevel)
        assert error.value.code == "spine-step"
    for wrong in ({"L3": 0.0}, {"L3": np.inf}, {"L2": np.inf}, {"L1": -1.0}, {"L2": np.nan}):
        with pytest.raises(BudgetError, match="missing or out of range"):
            call(precisions={**precisions, **wrong})
    for name in precisions:
        with pytest.raises(BudgetError, match="missing or out of range"):
            call(precisions={other: one for other, one in precisions.items() if other != name})
    assert (
        call(
            precisions={**precisions, "L0": np.inf, "L1": 0.0, "L2": 0.0},
            families=(),
            geolevels=(("L3", 1.0),),
        )
        .before[0]
        .name
        == "L3"
    )


@pytest.mark.parametrize("seed", few(3, range(12)))
def test_limits_hold_for_what_is_not_aimed_at(random_spine, random_family, seed):
    """Without limits the other family and the geolevel lose in some of these cases; with them, in none."""
    rng = np.random.default_rng([36, seed])
    spine = random_spine(rng, int(rng.integers(30, 60)), 4, one_root=True)
    families = [random_family(rng, spine, 4, "f"), random_family(rng, spine, 6, "g")]
    precisions = {"L0": np.inf, "L1": 1.0, "L2": 1.0, "L3": 0.02}
    before = whole(spine, precisions)
    limits = {
        "g": 1.02 * float(np.sqrt(entity_variances(before, families[1])).mean()),
        "L1": 1.02 * float(np.sqrt(before.variance[1]).mean()),
        "L3": 1.02 * float(np.sqrt(before.variance[3]).mean()),
    }
    aim = RegroupingAim((("f", 1.0),), (), list(Measure)[seed % 3 == 0])
    call = {"geolevel": "L2", "limit": LIMIT, "aim": aim}
    made = group_by_variance(spine, families, precisions, **call, limits=limits)
    after = whole(made.spine, precisions)
    told = {
        "g": entity_variances(after, families[1].reordered(made.rows)),
        "L1": after.variance[1],
        "L3": after.variance[3],
    }
    assert made.unmet == ()
    for part in made.after:
        if part.name in limits:
            assert part.deviation == pytest.approx(np.sqrt(told[part.name]).mean())
            assert part.deviation <= limits[part.name] * (1 + 1e-8)
    first, last = made.before[0], made.after[0]
    assert (last.mean if aim.measure is Measure.SUM else last.greatest) <= (
        first.mean if aim.measure is Measure.SUM else first.greatest
    ) * (1 + 1e-12)


def test_without_limits_something_loses(random_spine, random_family):
    """What the limits are for: the same cases, with only one family looked at."""
    worse = 0
    for seed in range(12):
        rng = np.random.default_rng([36, seed])
        spine = random_spine(rng, int(rng.integers(30, 60)), 4, one_root=True)
        families = [random_family(rng, spine, 4, "f"), random_family(rng, spine, 6, "g")]
        precisions = {"L0": np.inf, "L1": 1.0, "L2": 1.0, "L3": 0.02}
        made = group_by_variance(
            spine, families, precisions, geolevel="L2", limit=LIMIT, aim=RegroupingAim((("f", 1.0),))
        )
        one, two = (
            np.sqrt(entity_variances(whole(s, precisions), family)).mean()
            for s, family in ((spine, families[1]), (made.spine, families[1].reordered(made.rows)))
        )
        worse += two > one * 1.02
    assert worse > 3


def test_a_limit_that_cannot_be_kept_is_named(random_spine, random_family):
    rng = np.random.default_rng(37)
    spine = random_spine(rng, 40, 4, one_root=True)
    families = [random_family(rng, spine, 4, "f"), random_family(rng, spine, 6, "g")]
    precisions = {"L0": np.inf, "L1": 1.0, "L2": 1.0, "L3": 0.02}
    call = {"geolevel": "L2", "limit": LIMIT, "aim": RegroupingAim((("f", 1.0),))}
    made = group_by_variance(spine, families, precisions, **call, limits={"g": 1e-3})
    assert made.unmet == ("g",)
    before, after = ({part.name: part for part in parts} for parts in (made.before, made.after))
    assert after["g"].deviation < before["g"].deviation
    assert after["f"].mean <= before["f"].mean * (1 + 1e-12)


@pytest.mark.parametrize("limits", [{"h": 1.0}, {"f": 1.0}, {"L2": 1.0}])
def test_a_limit_is_on_something_else_than_the_aim(random_spine, random_family, limits):
    rng = np.random.default_rng(38)
    spine = random_spine(rng, 20, 4)
    families = [random_family(rng, spine, 3, "f")]
    with pytest.raises(GeographyError, match="or a limit does"):
        group_by_variance(
            spine,
            families,
            precisions_of(rng, spine),
            geolevel="L2",
            limit=LIMIT,
            aim=RegroupingAim((("f", 1.0),)),
            limits=limits,
        )
