"""The best of a random number of results, against exact laws of finite mechanisms and against dp_accounting."""

import itertools
import json
import math
import random
from fractions import Fraction

import pytest
from mpmath import exp, log, mp, mpf
from tests.samples import few

from tallyveil.accounting import (
    ZCDP,
    ApproximateDP,
    Gaussian,
    InvariantEvent,
    Laplace,
    Neighbours,
    NonPrivateEvent,
    PoissonRepeatAndSelect,
    PoissonSampled,
    RandomizedResponse,
    RepeatAndSelect,
    SampledWithoutReplacement,
    SequentialEvent,
    compose,
    epsilon_of,
    event_from_mapping,
    for_group,
    from_dp_event,
    renyi,
    renyi_divergence,
    rho_of,
    translate,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.errors import BudgetError

LAWS = [
    ("1/10", "1"),
    ("1/10", "0"),
    ("3/10", "-1/2"),
    ("1/100", "-9/10"),
    ("9/10", "1/1000000"),
    ("1/1000", "20"),
    ("1/1000000", "1/2"),
]
MEANS = ["1/1000", "1/2", "1", "10", "300"]


def number(exact):
    return mpf(exact.numerator) / exact.denominator


def generating(event):
    """The probability generating function of the number of runs."""
    if isinstance(event, PoissonRepeatAndSelect):
        mean = number(event.mean)
        return lambda x: exp(mean * (x - 1))
    gamma, eta = number(event.gamma), number(event.eta)
    if not eta:
        return lambda x: log(1 - (1 - gamma) * x) / log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


def best_of(masses, event):
    """The law of the best result, if later ones in the list are better; no run at all comes first."""
    f = generating(event)
    points = [mpf(0), *itertools.accumulate(masses)]
    return [f(mpf(0)), *(f(after) - f(before) for before, after in itertools.pairwise(points))]


def outcomes(epsilon, options, answers):
    """The probabilities of each list of answers under both neighbours."""
    e = exp(number(epsilon))
    single = [(e, mpf(1)), (mpf(1), e), *[(mpf(1), mpf(1))] * (options - 2)]
    whole = e + options - 1
    return [
        (math.prod(p for p, _ in some) / whole**answers, math.prod(q for _, q in some) / whole**answers)
        for some in itertools.product(single, repeat=answers)
    ]


def selections(run):
    return [RepeatAndSelect(run, *law) for law in LAWS] + [PoissonRepeatAndSelect(run, m) for m in MEANS]


@pytest.mark.parametrize(
    ("epsilon", "options", "answers"), few(1, [("1/100", 2, 1), ("1", 3, 2), ("6", 2, 2)])
)
def test_no_bound_is_below_the_exact_law_of_a_finite_mechanism(epsilon, options, answers) -> None:
    draw = random.Random(3)
    run = RandomizedResponse(epsilon, options, answers)
    pairs = outcomes(run.epsilon, options, answers)
    by_odds = sorted(pairs, key=lambda pair: pair[0] / pair[1])
    tight = []
    with mp.workdps(40):
        for event in selections(run):
            guarantee = compose(event, neighbours="bounded")
            for order in (by_odds, by_odds[::-1], draw.sample(pairs, len(pairs))):
                first, second = (best_of(side, event) for side in zip(*order, strict=True))
                both = [(p, q) for p, q in zip(first, second, strict=True) if p and q]
                for alpha in ("1.001", "2", "30"):
                    a, bound = mpf(alpha), renyi_divergence(event, alpha)
                    truth = log(sum(p**a * q ** (1 - a) for p, q in both)) / (a - 1)
                    assert truth <= bound * (1 + mpf(10) ** -13)
                    tight.append(float(truth / bound))
                for share in (0, Fraction(1, 2), Fraction(3, 2)):
                    at = share * run.epsilon * answers
                    truth = sum(max(p - exp(number(at)) * q, 0) for p, q in both)
                    bounds = guarantee.delta(at)
                    assert truth <= bounds.upper * (1 + 1e-12)
                largest = max(abs(log(p / q)) for p, q in both)
                assert largest <= number(epsilon_of(event)) * (1 + mpf(10) ** -30)
                assert largest <= guarantee.epsilon(0).upper * (1 + 1e-14)
    # The oracle shows bounds that are too small, and this one that are far too large.
    assert max(tight) > 0.3


@pytest.mark.parametrize(
    ("epsilon", "share", "mean"),
    [("10", "1/2", "13"), ("5", "1/2", "1"), ("1", "1/10", "1"), ("10", "1/100", "3")],
)
def test_the_largest_loss_of_the_best_of_samples_is_covered(epsilon, share, mean) -> None:
    """A sample loses more in one direction than in the other; results are ordered by the answer, then at random."""
    event = PoissonRepeatAndSelect(PoissonSampled(RandomizedResponse(epsilon, 2), share), mean)
    e, q, mu = exp(number(Fraction(epsilon))), number(Fraction(share)), number(Fraction(mean))
    without = [1 / (1 + e), e / (1 + e)]
    sample = [(1 - q) * without[0] + q * e / (1 + e), (1 - q) * without[1] + q / (1 + e)]
    bound = compose(event, neighbours="unbounded").epsilon(0).upper
    largest = mpf(0)
    for first, second in ((sample, without), (without, sample)):
        for answers in ((0, 1), (1, 0)):
            ahead = mpf(0)
            for answer in answers:
                after = ahead + first[answer] - second[answer]
                # The density of the best one is that of one run times exp(mean * (place - 1)).
                for difference in (ahead, after):
                    largest = max(largest, log(first[answer] / second[answer]) + mu * difference)
                ahead = after
    assert largest <= bound * (1 + 1e-14)
    assert bound < largest + mpf("1e-9") * (1 + largest)


@pytest.mark.nightly  # a search over many orders takes half a minute at small deltas
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12"])
def test_the_best_order_may_be_the_last_that_a_sample_has(delta) -> None:
    event = RepeatAndSelect(PoissonSampled(Laplace(1, 1), "1/10"), "1/2")
    guarantee = compose(event, neighbours="unbounded")
    assert 0 < guarantee.epsilon(delta).upper < 3


def test_one_run_that_is_the_same_for_all_costs_nothing() -> None:
    # Without the tangent of section 12 the Poisson bound would be ln(mean) / (alpha - 1), which is below 0 for 1/2.
    for mean in ("1/2", "10"):
        event = PoissonRepeatAndSelect(RandomizedResponse("1e-50"), mean)
        assert 0 <= renyi_divergence(event, 2) < 1e-40


def test_the_lower_bounds_are_those_of_one_run() -> None:
    run = SequentialEvent((Gaussian(4), PoissonSampled(Gaussian(1), "1/100", 50)))
    single = compose(run, neighbours="unbounded").epsilon("1e-6")
    best = compose(RepeatAndSelect(run, "1/10"), neighbours="unbounded").epsilon("1e-6")
    assert math.isclose(best.lower, single.lower, rel_tol=1e-8)
    assert 2 * single.upper < best.upper < 4 * single.upper
    assert compose(PoissonRepeatAndSelect(run, 10), neighbours="unbounded").epsilon("1e-6").lower == 0


RUNS = [
    ("GaussianDpEvent", (1.0,), "unbounded"),
    ("GaussianDpEvent", (10.0,), "unbounded"),
    ("LaplaceDpEvent", (2.0,), "unbounded"),
    ("ZCDpEvent", (0.05,), "unbounded"),
    ("RandomizedResponseDpEvent", (0.5, 4), "bounded"),
]


@pytest.mark.parametrize(("name", "arguments", "neighbours"), RUNS)
@pytest.mark.parametrize(
    ("mean", "shape"),
    few(3, [(10.0, 1.0), (10.0, 0.0), (10.0, math.inf), (1.5, 0.5), (1.0, math.inf), (300.0, 2.0)]),
)
def test_no_looser_than_dp_accounting(name, arguments, neighbours, mean, shape) -> None:
    theirs = pytest.importorskip("dp_accounting.dp_event")
    relations = pytest.importorskip("dp_accounting.privacy_accountant").NeighboringRelation
    accountant = pytest.importorskip("dp_accounting.rdp").RdpAccountant(
        neighboring_relation=relations.REPLACE_ONE if neighbours == "bounded" else relations.ADD_OR_REMOVE_ONE
    )
    event = theirs.SelfComposedDpEvent(
        theirs.RepeatAndSelectDpEvent(getattr(theirs, name)(*arguments), mean, shape), 2
    )
    read = from_dp_event(event, neighbours=neighbours)
    ours = compose(read, neighbours=neighbours).epsilon("1e-6").upper
    assert ours <= accountant.compose(event).get_epsilon(1e-6) * (1 + 1e-12)


def test_events_of_dp_accounting() -> None:
    theirs = pytest.importorskip("dp_accounting.dp_event")

    def read(mean, shape, run=None):
        run = run or theirs.GaussianDpEvent(2.0)
        return from_dp_event(theirs.RepeatAndSelectDpEvent(run, mean, shape), neighbours="unbounded")

    assert read(8.0, 1.0) == RepeatAndSelect(Gaussian(4), "1/8")
    assert read(8.0, math.inf) == PoissonRepeatAndSelect(Gaussian(4), 8)
    assert read(1.0, 3.0) == Gaussian(4)
    assert read(9.0, 1.0, theirs.NoOpDpEvent()) == SequentialEvent(())
    assert isinstance(read(9.0, 1.0, theirs.NonPrivateDpEvent()), NonPrivateEvent)
    logarithmic = read(8.0, 0.0)
    gamma = float(logarithmic.gamma)
    assert 0 < (1 / gamma - 1) / math.log(1 / gamma) - 8 < 1e-10
    for wrong in ((0.5, 1.0), (1e91, 1.0), (8.0, -0.5)):
        with pytest.raises(BudgetError) as caught:
            read(*wrong)
        assert caught.value.code == "dp-event"


@pytest.mark.parametrize(
    ("event", "written"),
    [
        (
            RepeatAndSelect(Laplace(2), "1/10", "-1/2", 3),
            {"kind": "repeat_and_select", "gamma": "1/10", "eta": "-1/2"},
        ),
        (
            PoissonRepeatAndSelect(Laplace(2), "21/2", 3),
            {"kind": "poisson_repeat_and_select", "mean": "21/2"},
        ),
    ],
)
def test_the_json_form_is_kept(event, written) -> None:
    assert event.to_mapping() == {**written, "event": Laplace(2).to_mapping(), "multiplicity": 3}
    assert event_from_mapping(json.loads(json.dumps(event.to_mapping()))) == event
    assert scaled(event, Fraction(4)).event == Laplace(8)
    assert for_group(event, 3).event == Laplace(2, 3)
    thrice, single = (
        compose(event_from_mapping({**event.to_mapping(), "multiplicity": n}), neighbours="unbounded")
        for n in (3, 1)
    )
    assert thrice.epsilon(0).upper == pytest.approx(3 * single.epsilon(0).upper)


def test_pure_epsilon() -> None:
    assert epsilon_of(RepeatAndSelect(Laplace(2), "1/10", "-1/2", 3)) == Fraction(9, 4)
    assert epsilon_of(PoissonRepeatAndSelect(Laplace(2), 10)) == 3
    assert rho_of(RepeatAndSelect(Laplace(2), "1/10"), laplace_as_zcdp=True) == Fraction(9, 8)
    for cost in (rho_of, epsilon_of):
        with pytest.raises(BudgetError, match="RepeatAndSelect of Gaussian noise") as caught:
            cost(RepeatAndSelect(Gaussian(1), "1/10"))
        assert caught.value.code == "no-cost"


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(RepeatAndSelect(Gaussian("1e10"), "1/3"), marks=pytest.mark.nightly),
        RepeatAndSelect(Gaussian("1e-4"), "1e-100", 10**6),
        pytest.param(
            RepeatAndSelect(ZCDP("1e-10"), str(1 - Fraction(1, 10**100)), "1e-90"), marks=pytest.mark.nightly
        ),
        PoissonRepeatAndSelect(Gaussian(1), "1e100"),
        PoissonRepeatAndSelect(Gaussian(1), "1e-100"),
        PoissonRepeatAndSelect(Laplace("1e-3"), 5, 10**6),
        pytest.param(
            RepeatAndSelect(PoissonSampled(Gaussian("1/4"), "1/2"), "1/2"), marks=pytest.mark.nightly
        ),
        RepeatAndSelect(RepeatAndSelect(Gaussian(4), "1/3"), "1/3"),
        PoissonRepeatAndSelect(RepeatAndSelect(Gaussian(4), "1/3"), 3),
    ],
)
def test_numbers_at_the_ends_of_their_ranges(event) -> None:
    guarantee = compose(event, ApproximateDP("1/10", "1e-9"), neighbours="unbounded")
    for delta in ("1e-8", "0.9"):
        bounds = guarantee.epsilon(delta)
        assert 0 <= bounds.lower <= bounds.upper
    assert 0 < guarantee.delta(1).upper <= 1
    assert guarantee.beta("1/20").lower >= 0
    assert guarantee.mu().upper == math.inf
    assert "RepeatAndSelect" in repr(guarantee)


def nested(levels, *selections):
    event = Gaussian(4)
    for level in range(levels):
        select, parameter = selections[level % len(selections)]
        event = select(event, parameter)
    return event


SELECTIONS = [(RepeatAndSelect, "1/2"), (PoissonRepeatAndSelect, 2)]


def work_of(levels, selections, monkeypatch):
    """How many selections are bounded at some order, in balls or floats, for one epsilon."""
    renyi._selection.cache_clear()
    asked = []
    for name in ("_certified", "_of_binomial", "_of_poisson"):
        bound = getattr(renyi._Selection, name)

        def counting(self, excess, bound=bound):
            asked.append(excess)
            return bound(self, excess)

        monkeypatch.setattr(renyi._Selection, name, counting)
    compose(nested(levels, *selections), neighbours="unbounded").epsilon("1e-6")
    monkeypatch.undo()
    return len(asked)


@pytest.mark.parametrize("selections", [SELECTIONS, SELECTIONS[1:]])
def test_the_work_of_nested_selections_does_not_double_with_each_level(selections, monkeypatch) -> None:
    few, many = (work_of(levels, selections, monkeypatch) for levels in (4, 12))
    # It grows a little faster than the number of levels: to 4.0 times here. Doubling would be 256 times.
    assert many < 6 * few


def test_selections_are_nested_up_to_a_limit() -> None:
    deepest = nested(50, *SELECTIONS[:1])
    with pytest.raises(BudgetError, match="inside each other"):
        RepeatAndSelect(deepest, "1/2")
    with pytest.raises(BudgetError, match="inside each other"):
        PoissonRepeatAndSelect(SequentialEvent((SequentialEvent((deepest,)),)), 2)


def test_fixed_size_samples_may_be_repeated() -> None:
    run = SampledWithoutReplacement(Gaussian(4), 10, 100)
    event = RepeatAndSelect(run, "1/10")
    assert (
        compose(event, neighbours="bounded").epsilon("1e-6").upper
        > compose(run, neighbours="bounded").epsilon("1e-6").upper
    )
    with pytest.raises(BudgetError) as caught:
        compose(event, neighbours="unbounded")
    assert caught.value.code == "sample-neighbours"


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: RepeatAndSelect(InvariantEvent("total"), "1/2"), "takes releases"),
        (lambda: RepeatAndSelect(SequentialEvent((NonPrivateEvent("x"),)), "1/2"), "takes releases"),
        (lambda: PoissonRepeatAndSelect("gaussian", 2), "takes releases"),
        (lambda: RepeatAndSelect(Gaussian(1), 0), "gamma of RepeatAndSelect"),
        (lambda: RepeatAndSelect(Gaussian(1), 1), "gamma of RepeatAndSelect"),
        (lambda: RepeatAndSelect(Gaussian(1), "1/2", -1), "eta of RepeatAndSelect"),
        (lambda: RepeatAndSelect(Gaussian(1), "1/2", 10**7), "eta of RepeatAndSelect"),
        (lambda: RepeatAndSelect(Gaussian(1), "1/2", 1, 0), "multiplicity of RepeatAndSelect"),
        (lambda: PoissonRepeatAndSelect(Gaussian(1), 0), "mean of PoissonRepeatAndSelect"),
        (lambda: PoissonRepeatAndSelect(Gaussian(1), 2, 0), "multiplicity of PoissonRepeatAndSelect"),
        (
            lambda: compose(RepeatAndSelect(ApproximateDP(1, "1e-9"), "1/2"), neighbours="bounded"),
            "no finite Renyi divergence",
        ),
        (
            lambda: translate(RepeatAndSelect(Gaussian(1), "1/2"), Neighbours.UNBOUNDED, Neighbours.BOUNDED),
            "no noisy partition query",
        ),
    ],
)
def test_what_cannot_be_repeated_is_refused(made, named) -> None:
    with pytest.raises(BudgetError, match=named):
        made()
