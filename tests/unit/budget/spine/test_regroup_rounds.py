"""Inside a round of the search for groups: its weights, its score, and what it keeps."""

from dataclasses import replace

import numpy as np
import pytest

from tallyveil.budget.caps import FIRST_WEIGHT
from tallyveil.budget.spine import regroup
from tallyveil.budget.spine.regroup import Measure, RegroupingAim
from tallyveil.geography.build import Reshaped
from tallyveil.geography.steps import FanOutLimit

LIMIT = FanOutLimit(cutoff=3)


class Searching:
    """A search that has begun, with its parts; the finest geounits have a limit."""

    def __init__(self, random_spine, random_family, measure=Measure.SUM, **further):
        rng = np.random.default_rng(41)
        self.spine = random_spine(rng, 40, 4, one_root=True)
        families = [random_family(rng, self.spine, 4, "f"), random_family(rng, self.spine, 6, "g")]
        self.precisions = {"L0": 1.0, "L1": 1.0, "L2": 1.0, "L3": 0.05}
        aim = RegroupingAim((("f", 1.0), ("g", 3.0)), (("L1", 2.0),), measure, **further)
        rows = np.arange(40)
        self.start = regroup._evaluated(Reshaped(self.spine, rows), families, self.precisions, ["L1", "L3"])
        limits = {"L3": 0.99 * self.start.deviations()["L3"]}
        self.task = regroup._Task(families, self.precisions, aim, limits, 2, LIMIT, self.start)

    def changed(self, **factors):
        """The state at the start with other variances."""
        values = {name: one * factors.get(name, 1.0) for name, one in self.start.values.items()}
        return replace(self.start, values=values)


def test_the_score_is_the_weighted_sum_of_means_or_the_largest_variance(random_spine, random_family):
    summed = Searching(random_spine, random_family)
    assert regroup._score(summed.task, summed.start) == pytest.approx(1 + 3 + 2)
    assert regroup._score(summed.task, summed.changed(f=0.5, g=2.0, L3=9.0)) == pytest.approx(0.5 + 6 + 2)
    largest = Searching(random_spine, random_family, Measure.MAXIMUM)
    top = {name: float(one.max()) for name, one in largest.start.values.items()}
    for factors in ({}, {"f": 100.0}, {"L1": 100.0}, {"L3": 1000.0}):
        told = [
            weight * top[name] * factors.get(name, 1.0) for name, weight in (("f", 1), ("g", 3), ("L1", 2))
        ]
        assert regroup._score(largest.task, largest.changed(**factors)) == pytest.approx(max(told))


def test_the_weights_of_the_sum_make_it_the_score_and_add_what_is_limited(random_spine, random_family):
    case = Searching(random_spine, random_family)
    now = case.changed(f=0.7, g=1.4, L3=1.1)
    scale = {"f": 1.0, "g": 2.0, "L1": 1.0, "L3": 0.25}
    weights = regroup._weights(case.task, now, scale)
    parts = {name: float(weights[name] @ one) for name, one in now.values.items()}
    assert parts == pytest.approx({"f": 0.7, "g": 3 * 2 * 1.4, "L1": 2.0, "L3": 0.25 * 1.1})
    assert all(np.ptp(one) == 0 for one in weights.values())


def test_the_weights_of_the_maximum_are_slopes_of_a_high_power(random_spine, random_family):
    case = Searching(random_spine, random_family, Measure.MAXIMUM)
    scale = dict.fromkeys(case.start.values, 0.5)
    weights = regroup._weights(case.task, case.start, scale)
    score = regroup._score(case.task, case.start)

    def power(values):
        """The root of the sum of eighth powers, which is a little above the maximum."""
        parts = [weight * values[name] / score for name, weight in (("f", 1), ("g", 3), ("L1", 2))]
        return score / 8 * sum(float((one**8).sum()) for one in parts)

    for name, one in case.start.values.items():
        if name == "L3":
            mean = one.mean()
            assert weights[name] == pytest.approx(np.full(len(one), score * 0.5 / mean / len(one)))
            continue
        moved = {**case.start.values, name: one + 1e-6 * one[0] * (np.arange(len(one)) == 0)}
        slope = (power(moved) - power(case.start.values)) / (1e-6 * one[0])
        assert weights[name][0] == pytest.approx(slope, rel=1e-4, abs=1e-9)


def test_what_grows_is_named_and_what_is_better_goes_by_limits_first(random_spine, random_family):
    case = Searching(random_spine, random_family)
    grown = regroup._grown
    assert grown(case.task, case.start, case.changed(f=0.9)) == ()
    assert grown(case.task, case.start, case.changed(f=1.001)) == ("f",)
    # The limit is broken already, so its part may only fall.
    assert grown(case.task, case.start, case.changed(L3=1.001)) == ("L3",)
    assert grown(case.task, case.changed(L3=1.1), case.changed(L3=1.05)) == ()
    assert grown(case.task, case.changed(f=0.5), case.changed(f=0.9)) == ()  # compared with the start
    greedy = Searching(random_spine, random_family, spare_all=False)
    assert grown(greedy.task, greedy.start, greedy.changed(f=2.0, L3=1.001)) == ("L3",)
    largest = Searching(random_spine, random_family, Measure.MAXIMUM)
    assert grown(largest.task, largest.start, largest.changed(f=2.0)) == ()
    better = regroup._is_better
    assert better(case.task, case.changed(f=0.9), case.start)
    assert not better(case.task, case.changed(f=1.1), case.start)
    assert not better(case.task, case.start, case.start)
    assert better(case.task, case.changed(f=1.1, L3=0.999), case.start)
    assert not better(case.task, case.changed(f=0.9, L3=1.001), case.start)
    assert not better(case.task, case.changed(f=1.1, L3=0.9), case.changed(L3=0.95))  # both within the limit


def test_limits_begin_with_a_low_weight_that_is_raised_where_it_must_be(random_spine, random_family):
    case = Searching(random_spine, random_family)
    free = replace(case.task, limits={})
    assert regroup._first_scale(free) == dict.fromkeys(case.start.values, 1.0)
    wide = regroup._first_scale(replace(case.task, limits={"L3": 1e9}))
    assert wide["L3"] == FIRST_WEIGHT
    assert min(wide["f"], wide["g"], wide["L1"]) == 1.0
    assert wide["L1"] > 1.0  # a part of the aim that would grow has a limit as well
    tight = regroup._first_scale(replace(case.task, limits={"L3": 0.95 * case.start.deviations()["L3"]}))
    assert tight["L3"] > FIRST_WEIGHT
    greedy = Searching(random_spine, random_family, spare_all=False)
    assert regroup._first_scale(greedy.task) == {"f": 1.0, "g": 1.0, "L1": 1.0, "L3": FIRST_WEIGHT}


def test_all_gaining_containers_are_changed_or_those_that_gain_most(random_spine, random_family, monkeypatch):
    """Trials that fail change 40, 20, 8 and 2 of 40 containers that gain, and then name what grew first."""
    case = Searching(random_spine, random_family)
    gains = np.random.default_rng(1).permutation(np.concatenate([np.arange(1.0, 41.0), np.zeros(10)]))
    tried = []

    def record(task, state, groups, changed):
        tried.append(set(gains[changed]))
        return len(tried)

    monkeypatch.setattr(regroup, "_tried", record)
    monkeypatch.setattr(regroup, "_grown", lambda task, current, trial: (f"part {trial}",))
    assert regroup._best_of(case.task, case.start, np.zeros(1), gains) == (None, ("part 1",))
    assert tried == [set(np.arange(41.0 - n, 41.0)) for n in (40, 20, 8, 2)]
    monkeypatch.setattr(regroup, "_grown", lambda task, current, trial: ("f",) if trial == 5 else ())
    monkeypatch.setattr(regroup, "_is_better", lambda task, trial, current: trial == 7)
    assert regroup._best_of(case.task, case.start, np.zeros(1), gains) == (7, ())
    assert regroup._best_of(case.task, case.start, np.zeros(1), np.zeros(50)) == (None, ())
    assert len(tried) == 7
