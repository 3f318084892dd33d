"""Files of events: the form of a ledger and that of dp_accounting, in TOML and in JSON; refusals name the place."""

import json
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    DiscreteLaplace,
    Gaussian,
    Neighbours,
    ParallelEvent,
    PoissonSampled,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.errors import BudgetError, ConfigError, StoreError
from tallyveil.plans.from_toml.spending import load_spending

FILE = """
neighbours = "unbounded"

[[events]]
kind = "worst"
chosen = "public"

[[events.branches]]
kind = "gaussian"
variance = "5/2"
sensitivity = 1
multiplicity = 2

[[events.branches]]
kind = "poisson_sampled"
probability = "1/100"
multiplicity = 1000
event = { kind = "gaussian", variance = "1.21", sensitivity = 1, multiplicity = 1 }

[[events]]
kind = "parallel"
degree = 2

[[events.events]]
kind = "discrete_laplace"
scale = 3
sensitivity = 1
multiplicity = 4
"""
EVENT = SequentialEvent(
    (
        WorstEvent((Gaussian("5/2", 1, 2), PoissonSampled(Gaussian("1.21"), "1/100", 1000)), "public"),
        ParallelEvent((DiscreteLaplace(3, 1, 4),), 2),
    )
)
GAUSSIAN = {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 1.5}


@pytest.fixture
def load(tmp_path):
    def loaded(content, name="spending.toml"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return load_spending(path)

    return loaded


def test_events_within_events(load):
    assert load(FILE) == (Neighbours.UNBOUNDED, EVENT)


def test_json_has_the_form_of_a_ledger(load):
    content = {"neighbours": "bounded", "events": [event.to_mapping() for event in EVENT.events]}
    assert load(content, "spending.json") == (Neighbours.BOUNDED, EVENT)


def test_events_of_dp_accounting(load):
    sampled = {
        **GAUSSIAN,
        "class_name": "PoissonSampledDpEvent",
        "sampling_probability": 0.25,
        "event": GAUSSIAN,
    }
    del sampled["noise_multiplier"]
    steps = {
        "module_name": "dp_accounting.dp_event",
        "class_name": "ComposedDpEvent",
        "events": [
            {
                "module_name": "dp_accounting.dp_event",
                "class_name": "SelfComposedDpEvent",
                "event": sampled,
                "count": 3,
            },
            GAUSSIAN,
        ],
    }
    _, event = load({"neighbours": "unbounded", "events": [steps, Gaussian(2).to_mapping()]}, "events.json")
    training = SequentialEvent((PoissonSampled(Gaussian("9/4"), "1/4", 3), Gaussian("9/4")))
    assert event == SequentialEvent((training, Gaussian(2)))
    response = {
        **GAUSSIAN,
        "class_name": "RandomizedResponseDpEvent",
        "noise_parameter": 0.5,
        "num_buckets": 3,
    }
    del response["noise_multiplier"]
    _, event = load({"neighbours": "bounded", "events": [response]}, "events.json")
    assert isinstance(event.events[0], RandomizedResponse)


def test_what_dp_accounting_stores_is_read(load):
    theirs = pytest.importorskip("dp_accounting.dp_event")

    def plain(value):
        if hasattr(value, "_asdict"):
            return {name: plain(part) for name, part in value._asdict().items()}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    steps = theirs.SelfComposedDpEvent(theirs.PoissonSampledDpEvent(0.25, theirs.GaussianDpEvent(2.0)), 10)
    whole = theirs.ComposedDpEvent([steps, theirs.ZCDpEvent(0.25), theirs.NoOpDpEvent()])
    stored = plain(whole.to_named_tuple())
    _, event = load({"neighbours": "unbounded", "events": [stored]}, "events.json")
    assert event.events[0].events[0] == PoissonSampled(Gaussian(4), "1/4", 10)
    assert event.events[0].events[1].rho == Fraction(1, 4)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            ('"5/2"', "2.5"),
            r"spending.toml, events\[1\].branches\[1\]: 'variance' of a gaussian event must be text",
        ),
        (('"1.21"', '"x"'), r"events\[1\].branches\[2\].event: variance of Gaussian must be an exact number"),
        (('"1.21"', '"1.21", mean = 0'), r"branches\[2\].event: a gaussian event has the keys"),
        (
            ('"discrete_laplace"', '"geometric"'),
            r"events\[2\].events\[1\]: unknown privacy event 'geometric'",
        ),
        (("degree = 2", "degree = 0"), r"events\[2\]: degree of ParallelEvent must be"),
        (("degree = 2", ""), r"events\[2\]: a parallel event has the keys"),
        (("degree = 2", "degree = true"), r"events\[2\]: degree of ParallelEvent must be"),
    ],
)
def test_refusals_name_the_place(load, change, named):
    with pytest.raises(BudgetError, match=named):
        load(FILE.replace(*change))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"class_name": "MixtureOfGaussiansDpEvent"}, r"events\[1\]: .*'MixtureOfGaussiansDpEvent'"),
        ({"class_name": ["GaussianDpEvent"]}, "is not supported"),
        ({"module_name": "ours.dp_event"}, "Its module_name must be"),
        ({"clipping": 1.0}, "It has the fields"),
        ({"xi": 0.0}, "It has the fields"),
        ({"noise_multiplier": "much"}, "must be an exact number"),
        ({"noise_multiplier": float("nan")}, "must be an exact number"),
    ],
)
def test_what_dp_accounting_may_mean_otherwise_is_refused(load, changed, named):
    with pytest.raises(BudgetError, match=named):
        load({"neighbours": "unbounded", "events": [GAUSSIAN | changed]}, "events.json")


def test_the_events_of_a_composition_are_a_list(load):
    composed = {"module_name": "dp_accounting.dp_event", "class_name": "ComposedDpEvent", "events": "none"}
    with pytest.raises(BudgetError, match="must be a list"):
        load({"neighbours": "unbounded", "events": [composed]}, "events.json")


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (FILE.replace('neighbours = "unbounded"', ""), "s.toml", "bad-key-or-value"),
        (FILE.replace("unbounded", "both"), "s.toml", "bad-key-or-value"),
        ("note = 1\n" + FILE, "s.toml", "bad-key-or-value"),
        ('neighbours = "bounded"\nevents = []', "s.toml", "bad-key-or-value"),
        ('neighbours = "bounded"\nevents = [1]', "s.toml", "bad-key-or-value"),
        (FILE, "s.json", "not-toml"),
        ('{"neighbours": "bounded", "neighbours": "unbounded", "events": []}', "s.json", "not-toml"),
        ("[]", "s.json", "bad-key-or-value"),
        ('{"a":' * 5000, "s.json", "not-toml"),
    ],
)
def test_a_wrong_file_is_refused(load, content, name, code):
    with pytest.raises(ConfigError) as caught:
        load(content, name)
    assert caught.value.code == code


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="existing JSON file"):
        load_spending(tmp_path / "none.json")
