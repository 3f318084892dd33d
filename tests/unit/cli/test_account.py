"""`tallyveil account`: the same answers as the functions, for people and for programs."""

import json
import re
from fractions import Fraction
from functools import partial

import pytest
from tests.samples import nightly

import tallyveil
from tallyveil.accounting import (
    ZCDP,
    ApproximateDP,
    Declaration,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    Laplace,
    Ledger,
    Neighbours,
    PoissonSampled,
    RandomizedResponse,
    SequentialEvent,
    compose,
    for_group,
    rho_of,
)
from tallyveil.accounting.costs import translate
from tallyveil.accounting.groups import for_group_of_secret
from tallyveil.api.noise_flags import NOISE_FLAGS
from tallyveil.errors import BudgetError
from tallyveil.plans.from_toml.load import load_plan


@pytest.fixture
def account(command):
    return partial(command, "account")


def test_epsilon(account):
    queries = ["--gaussian", "5:10", "--gaussian", "68.49:10"]
    answer = json.loads(account("epsilon", "--delta", "1e-10", *queries, "--json"))
    expected = compose(
        DiscreteGaussian("5", multiplicity=10),
        DiscreteGaussian("68.49", multiplicity=10),
        neighbours=Neighbours.UNBOUNDED,
    ).epsilon("1e-10")
    assert answer["epsilon"] == {"lower": expected.lower, "upper": expected.upper}
    assert answer["epsilon"]["upper"] < answer["classical"]["zcdp"] < answer["classical"]["zcdp_textbook"]
    assert "between" in account("epsilon", "--delta", "1e-10", *queries)


@pytest.mark.parametrize("width", ["1e-400", "1e-13", "1e309", "1.0000000000000000000001", "0", "-1e400"])
def test_a_width_that_no_float_holds_is_refused(account, width):
    said = account("epsilon", "--delta", "1e-10", "--gaussian", "5", "--width", width, code=2)
    assert "bad-flag" in said
    assert "from 1e-12 to 1" in said


@pytest.mark.parametrize("width", ["1e-12", "1"])
def test_the_ends_of_the_range_of_widths_are_taken(account, width):
    assert account("epsilon", "--delta", "1e-10", "--gaussian", "5", "--width", width)


@pytest.mark.parametrize("epsilon", ["1e10", "1e309", "1e400"])
def test_a_target_that_no_float_holds_is_refused(account, epsilon):
    said = account("calibrate", "--delta", "1e-10", "--gaussian", "5", "--epsilon", epsilon, code=5)
    assert "at most 1e9" in said


def test_bounded_neighbours_double_every_query(account):
    bounded = json.loads(
        account("delta", "--epsilon", "2", "--gaussian", "9:3", "--neighbours", "bounded", "--json")
    )
    doubled = json.loads(account("delta", "--epsilon", "2", "--gaussian", "9:6", "--json"))
    assert bounded["delta"] == doubled["delta"]
    assert bounded["neighbours"] == "bounded"


def test_proved_answers_lie_within_the_fast_ones(account):
    fast = json.loads(account("epsilon", "--delta", "1e-11", "--gaussian", "5:10", "--json"))["epsilon"]
    proved = json.loads(account("epsilon", "--delta", "1e-11", "--gaussian", "5:10", "--proved", "--json"))
    assert proved["engines"] == ["proved"]
    assert fast["lower"] <= proved["epsilon"]["upper"]
    assert proved["epsilon"]["lower"] <= fast["upper"]


def test_curves_and_their_plots(account, tmp_path):
    plot = tmp_path / "profile.svg"
    profile = json.loads(account("profile", "--gaussian", "5", "--points", "5", "--json", "--plot", plot))[
        "profile"
    ]
    assert len(profile) == 5
    deltas = [point["delta"]["upper"] for point in profile]
    assert deltas == sorted(deltas, reverse=True)
    assert "<svg" in plot.read_text()
    plot = tmp_path / "tradeoff.png"
    tradeoff = json.loads(account("tradeoff", "--laplace", "2", "--points", "5", "--json", "--plot", plot))
    assert tradeoff["tradeoff"][0]["beta"]["upper"] <= 1
    assert tradeoff["tradeoff"][-1]["beta"]["lower"] == 0
    assert plot.stat().st_size > 1000
    account("profile", "--gaussian", "5", "--plot", tmp_path / "profile.txt", code=2)


def test_calibrate(account):
    answer = json.loads(
        account("calibrate", "--epsilon", "1", "--delta", "1e-9", "--gaussian", "5:10", "--json")
    )
    assert answer["epsilon"]["upper"] <= 1
    assert answer["event"]["multiplicity"] == 10


@pytest.mark.nightly
def test_calibrate_to_a_whole_curve(account):
    flags = ("calibrate", "--delta", "1e-11", "--gaussian", "5:10", "--json")
    answer = json.loads(account(*flags, "--curve", "textbook"))
    one = json.loads(account(*flags, "--epsilon", "11.0654729"))
    assert answer["log_delta_above_the_curve"]["upper"] <= 0
    assert one["factor"]["decimal"] < answer["factor"]["decimal"] == 0.8513171421
    explicit = json.loads(account(*flags, "--curve", "textbook", "--rho", "1"))
    assert explicit == answer
    best = json.loads(account(*flags, "--curve", "best"))
    assert best["factor"]["decimal"] > answer["factor"]["decimal"]


@pytest.mark.parametrize(
    "target", [(), ("--epsilon", "1", "--curve", "best"), ("--epsilon", "1", "--rho", "1"), ("--curve", "x")]
)
def test_calibrate_wants_one_target(account, target):
    assert "error [bad-flag]" in account("calibrate", "--delta", "1e-9", "--gaussian", "5", *target, code=2)


def test_a_release_file_can_be_accounted_for(account, small_release):
    answer = json.loads(account("epsilon", "--delta", "1e-10", "--plan", small_release, "--json"))
    assert answer["neighbours"] == "bounded"
    assert answer["invariants"] == ["total at Region is published exactly"]


def test_savings_by_geolevel(account, small_release):
    answer = json.loads(account("savings", small_release, "--json"))
    assert [item["geolevel"] for item in answer["geolevels"]] == ["Region", "Town", "Block"]
    for item in answer["geolevels"]:
        assert 0 < item["saving_percent"] < 40


def test_savings_by_either_conversion(account, small_release):
    savings = {
        name: json.loads(account("savings", small_release, "--conversion", name, "--json"))
        for name in ("textbook", "best")
    }
    assert json.loads(account("savings", small_release, "--json")) == savings["best"]
    pairs = zip(savings["textbook"]["geolevels"], savings["best"]["geolevels"], strict=True)
    assert all(textbook["saving_percent"] > best["saving_percent"] for textbook, best in pairs)
    assert "wanted one of textbook, best" in account("savings", small_release, "--conversion", "x", code=2)


def test_reductions_by_geolevel(account, small_release):
    answer = json.loads(account("reduction", "--plan", small_release, "--conversion", "best", "--json"))
    rows = {row["geolevel"]: row for row in answer["geolevels"]}
    assert list(rows) == ["all geolevels", "Region", "Town", "Block"]
    for row in rows.values():
        at_delta = 100 * (1 - row["epsilon"]["upper"] / row["zcdp_epsilon"])
        assert 0 < row["smaller_by_percent"] <= at_delta
    together = json.loads(account("epsilon", "--delta", "1e-10", "--plan", small_release, "--json"))
    assert rows["all geolevels"]["epsilon"] == together["epsilon"]


def test_reductions_of_noise_and_of_products(account):
    noise = json.loads(account("reduction", "--delta", "1e-11", "--gaussian", "4.9995:10", "--json"))
    (row,) = noise["geolevels"]
    assert row["smaller_by_percent"] == 8.5  # what the paper says of the State
    product = json.loads(account("reduction", "--product", "dhc-units-pr", "--json"))
    assert len(product["geolevels"]) == 8
    assert "error [no-cost]" in account("reduction", "--approximate-dp", "1:1e-5", code=5)


def test_released_products(account):
    answer = json.loads(account("epsilon", "--delta", "1e-10", "--product", "dhc-units-us", "--json"))
    assert answer["epsilon"]["upper"] == pytest.approx(32.071984965157, abs=1e-11)
    assert (answer["neighbours"], len(answer["invariants"])) == ("bounded", 1)
    listed = json.loads(account("products", "--json"))
    assert [row["product"] for row in listed][-1] == "all-pr"
    assert {row["rho"] for row in listed if row["product"].startswith("dhc-units")} == {"7.7005"}
    both = ("--product", "dhc-units-us", "--gaussian", "5")
    assert "give one of these" in account("epsilon", "--delta", "1e-10", *both, code=2)


def test_total_of_several_runs_is_more_than_each(account, small_release, tmp_path):
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.run import run_release

    plan = load_plan(small_release)
    runs = [run_release(plan, tmp_path / name).path for name in ("one", "two")]
    single = json.loads(account("total", runs[0], "--json"))["epsilon"]
    both = json.loads(account("total", *runs, "--json"))["epsilon"]
    doubled = compose(plan.event(), plan.event(), neighbours=plan.strategy.neighbours).epsilon("1e-10")
    assert single["upper"] < both["lower"]
    folder = tmp_path / "runs"
    folder.mkdir()
    for run in runs:
        run.rename(folder / run.name)
    assert json.loads(account("total", folder, "--json"))["epsilon"] == both
    assert both["lower"] <= doubled.upper
    assert doubled.lower <= both["upper"]
    total = json.loads(account("total", folder, "--json", "--budget", "20"))
    assert total["noise_chosen_on_the_way"]["epsilon"]["upper"] > both["upper"]
    spent = 2 * rho_of(plan.event())
    assert total["budget"]["left"] == str(20 - spent)
    assert total["budget"]["epsilon"]["upper"] > both["upper"]
    assert "the releases spent" in account("total", folder, "--budget", spent / 2, code=BudgetError.exit_code)


def test_total_with_gaussian_noise_on_a_lattice_is_an_upper_bound(account, tmp_path):
    event = IntegerSubspaceGaussian(10, 2, ("county totals",))
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, Declaration("rho", Fraction(1), Neighbours.BOUNDED), "a") as ledger:
        ledger.spend(event, "a table", "table")
    answer = json.loads(account("total", path, "--json"))
    assert answer["rho"] == "1/10"
    assert answer["epsilon"]["upper"] < answer["classical"]["zcdp"]
    assert (answer["neighbours"], answer["invariants"]) == ("bounded", ["county totals"])
    text = account("total", path)
    assert "epsilon: at most 2." in text
    assert "no single exact loss law" in text
    refused = account("total", path, "--plot", tmp_path / "curve.svg", code=BudgetError.exit_code)
    assert "Leave --plot out" in refused


def numbers_of(bounds):
    """The two numbers of "between 1.2 and 1.3"."""
    return [Fraction(text) for text in re.findall(r"between (\S+) and ([^\s;]+)", bounds)[0]]


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        (("epsilon", "--delta", "1e-10", "--gaussian", "5:10"), ("epsilon",)),
        (("epsilon", "--delta", "1e-7", "--laplace", "7/3:4"), ("epsilon",)),
        (("delta", "--epsilon", "3", "--gaussian", "68.49:10", "--gaussian", "5"), ("delta", "log_delta")),
        (("calibrate", "--epsilon", "1", "--delta", "1e-9", "--gaussian", "5:10"), ("epsilon",)),
        (("tradeoff", "--laplace", "2", "--points", "3"), ("advantage", "mu")),
    ],
)
def test_printed_bounds_hold_the_computed_ones(account, flags, keys):
    record, text = json.loads(account(*flags, "--json")), account(*flags)
    lines = dict(line.partition(": ")[::2] for line in text.splitlines() if ": " in line)
    for key in keys:
        lower, upper = numbers_of(lines[key.replace("_", " ")])
        exact = {end: Fraction(value) for end, value in record[key].items()}
        assert lower <= exact["lower"] <= exact["upper"] <= upper
        gap = exact["upper"] - exact["lower"]
        assert upper - lower <= max(
            3 * gap, abs(upper) * Fraction(1, 10**15)
        )  # the gap is shown, not swallowed
    for name, value in record.get("classical", {}).items():
        shown = re.findall(rf"(?:^|; ){name.replace('_', ' ')} (\d[^;]*)", lines["classical"])[0]
        assert Fraction(value) <= Fraction(shown) <= Fraction(value) * (1 + Fraction(1, 10**5))


def test_points_of_a_curve_are_the_decimals_shown(account):
    flags = ("profile", "--gaussian", "5", "--points", "4")
    record = json.loads(account(*flags, "--json"))["profile"]
    lines = [line for line in account(*flags).splitlines() if line.startswith("  epsilon")]
    guarantee = compose(DiscreteGaussian("5"), neighbours=Neighbours.UNBOUNDED)
    for point, line in zip(record, lines, strict=True):
        epsilon = Fraction(line.split()[1].rstrip(";"))
        assert float(epsilon) == point["epsilon"]
        lower, upper = numbers_of(line)
        exact = guarantee.delta(epsilon)
        assert lower <= Fraction(exact.lower) <= Fraction(exact.upper) <= upper


@pytest.mark.parametrize("question", ["epsilon", "profile", "tradeoff", "delta"])
def test_no_noise_is_no_release(account, question):
    flags = {"epsilon": ("--delta", "1e-10"), "delta": ("--epsilon", "1")}.get(question, ())
    assert "no noise was given" in account(question, *flags, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("epsilon", "--delta", "1e-10", "--gaussian", "five"),
        ("epsilon", "--delta", "1e-10", "--gaussian", "5:0"),
        ("epsilon", "--delta", "1e-10", "--gaussian", "5:1:1:1"),
        ("epsilon", "--delta", "1e-10", "--gaussian", "5", "--neighbours", "both"),
    ],
)
def test_mistakes_are_named(account, arguments):
    assert "error [" in account(*arguments, code=2)


@pytest.mark.parametrize(
    "flags",
    [
        ["epsilon", "--delta", "1e-10", "--gaussian", "1e400:1"],
        ["epsilon", "--delta", "1e-10", "--gaussian", "1e-400:1"],
        ["epsilon", "--delta", "1e-10", "--laplace", "1e400"],
        ["epsilon", "--delta", "1e-10", "--gaussian", "5:²"],
        ["epsilon", "--delta", "1e-10", "--gaussian", "9" * 5000],
        ["epsilon", "--delta", "1e-10", "--gaussian", "10:" + "9" * 5000],
        ["epsilon", "--delta", "1e-99999999", "--gaussian", "10"],
        ["profile", "--gaussian", "10", "--largest", "1e400"],
        ["profile", "--gaussian", "10", "--largest", "-3"],
    ],
    ids=lambda flags: " ".join(flags)[:50],
)  # fmt: skip
def test_numbers_beyond_all_noise_are_refused_in_one_sentence(account, flags):
    code = (
        2
        if "--largest" in flags or "²" in flags[-1] or len(flags[-1]) > 5000 or "99999999" in " ".join(flags)
        else 5
    )
    said = account(*flags, code=code)
    assert len(said) < 500


@pytest.mark.parametrize("scale", ["1e-100", *map(nightly, ("1e-30", "1e30")), "1e100"])
def test_the_smallest_and_the_largest_noise_have_an_answer(account, scale):
    found = json.loads(account("epsilon", "--delta", "1e-10", "--laplace", scale, "--json"))["epsilon"]
    assert 0 <= found["lower"] <= found["upper"]


def test_noise_next_to_none_reveals_everything(account):
    flags = ("--laplace", "0.00078", "--laplace", "1.4e-45", "--epsilon", "1e-249")
    assert json.loads(account("delta", *flags, "--json"))["delta"]["lower"] > 1 - 1e-12


@pytest.mark.parametrize(
    ("flags", "events"),
    [
        (("--real-gaussian", "1.21:3:1/2"), [Gaussian("1.21", "1/2", 6)]),
        (("--real-laplace", "2", "--gaussian", "5:2"), [DiscreteGaussian(5, 1, 4), Laplace(2, 1, 2)]),
        (("--laplace", "2:1:3"), [DiscreteLaplace(2, 3, 2)]),
        (
            ("--response", "3/2:5:2", "--response", "1"),
            [RandomizedResponse("3/2", 5, 2), RandomizedResponse(1)],
        ),
        (("--approximate-dp", "1/10:1e-7:3"), [ApproximateDP("1/10", "1e-7", 3)]),
        (("--zcdp", "1/8"), [ZCDP("1/8")]),
    ],
)
def test_flags_of_every_kind_of_noise(account, flags, events):
    # A change of value moves two answers of a query. What is no query is stated under the relation itself.
    answer = json.loads(account("delta", "--epsilon", "1", *flags, "--neighbours", "bounded", "--json"))
    assert answer["delta"] == compose(*events, neighbours="bounded").delta(1).to_mapping()
    curve = json.loads(account("profile", *flags, "--points", "2", "--largest", "1", "--json"))
    assert len(curve["profile"]) == 2


@pytest.mark.parametrize("item", NOISE_FLAGS, ids=lambda item: item.name)
def test_a_value_has_the_form_that_help_shows(account, item):
    bare = re.sub(r"[\[\]:A-Z]", "", item.metavar)
    assert bare == ""
    too_many = ":".join(["1"] * (len(item.parts) + 1))
    refused = account("delta", "--epsilon", "1", item.flag, too_many, code=2)
    assert item.metavar in refused
    example = re.findall(r"such as (\S+),", refused)[0]
    assert len(example.split(":")) <= len(item.parts)
    assert json.loads(account("delta", "--epsilon", "1", item.flag, example, "--json"))


SPENDING = """
neighbours = "unbounded"

[[events]]
kind = "poisson_sampled"
probability = "1/100"
multiplicity = 100
event = { kind = "gaussian", variance = "1.21", sensitivity = 1, multiplicity = 1 }

[[events]]
kind = "approximate_dp"
epsilon = "1/10"
delta = "1e-7"
multiplicity = 1
"""


def test_events_of_a_file(account, tmp_path):
    path = tmp_path / "spending.toml"
    path.write_text(SPENDING, encoding="utf-8")
    events = PoissonSampled(Gaussian("1.21"), "1/100", 100), ApproximateDP("1/10", "1e-7")
    guarantee = compose(*events, neighbours="unbounded")
    # The relation is that of the file, and accountants that know no samples are left out.
    answer = json.loads(account("epsilon", "--delta", "1e-5", "--events", path, "--json"))
    assert answer["epsilon"] == guarantee.epsilon("1e-5").to_mapping()
    assert (answer["neighbours"], "classical" in answer) == ("unbounded", False)
    path.write_text(SPENDING.replace('"1/10"', "0.1"), encoding="utf-8")
    assert "events[2]: 'epsilon'" in account("profile", "--events", path, code=BudgetError.exit_code)
    assert "give one of these" in account("tradeoff", "--events", path, "--zcdp", "1", code=2)
    contradiction = account("profile", "--events", path, "--neighbours", "bounded", code=2)
    assert "states its own neighbours" in contradiction


def test_a_household(account, tmp_path):
    flags = ("group", "--delta", "1e-10", "--size", "5", "--gaussian", "68.49:10")
    answer = json.loads(account(*flags, "--json", "--plot", tmp_path / "household.svg"))
    household = compose(DiscreteGaussian("68.49", 5, 10), neighbours="unbounded").epsilon("1e-10")
    assert answer["epsilon"] == household.to_mapping()
    person = answer["person"]["epsilon"]["upper"]
    assert answer["textbook"]["epsilon"]["upper"] == pytest.approx(5 * person)
    assert answer["textbook"]["delta"]["upper"] > 1e-10
    assert "textbook: epsilon at most" in account(*flags)
    assert (tmp_path / "household.svg").exists()


def test_a_household_of_a_stated_guarantee_has_an_upper_bound(account):
    flags = ("group", "--delta", "1e-6", "--size", "3", "--json", "--approximate-dp")
    answer = json.loads(account(*flags, "1/10:1e-9"))
    assert set(answer["epsilon"]) == {"upper"}
    assert "upper bound" in answer["not_exact"]
    assert set(json.loads(account(*flags, "1/10"))["epsilon"]) == {"lower", "upper"}
    # One person has no epsilon at this delta, and so neither has a household.
    none = json.loads(account(*flags, "1/10:1e-3"))
    assert none["textbook"]["epsilon"]["upper"] == none["epsilon"]["upper"] == "Infinity"


def test_a_household_of_a_release_file_and_of_a_product(account, small_release):
    flags = ("group", "--delta", "1e-10", "--size", "2", "--json")
    for source in (("--plan", small_release), ("--product", "dhc-units-us")):
        answer = json.loads(account(*flags, *source))
        assert answer["neighbours"] == "bounded"
        assert answer["person"]["epsilon"]["upper"] < answer["epsilon"]["lower"]


def test_a_household_with_samples_is_refused(account, tmp_path):
    path = tmp_path / "spending.toml"
    path.write_text(SPENDING, encoding="utf-8")
    flags = ("group", "--delta", "1e-5", "--events", path, "--size")
    assert "error [no-group]" in account(*flags, "2", code=BudgetError.exit_code)
    assert "size must be" in account(*flags, 10**7, code=BudgetError.exit_code)


@pytest.mark.nightly
def test_one_person_with_samples_is_a_group(account, tmp_path):
    path = tmp_path / "spending.toml"
    path.write_text(SPENDING, encoding="utf-8")
    assert "size: 1" in account("group", "--delta", "1e-5", "--events", path, "--size", "1")


def test_a_profile_that_never_reaches_0_ends_near_its_least_delta(account):
    curve = json.loads(account("profile", "--approximate-dp", "1/10:1e-7", "--points", "5", "--json"))[
        "profile"
    ]
    assert curve[-1]["epsilon"] == pytest.approx(0.1, rel=1e-5)
    assert curve[-1]["delta"]["upper"] == pytest.approx(1e-7, rel=0.01)


def test_secrets_of_a_release_file(account, small_release):
    rows = json.loads(account("secrets", str(small_release), "--json"))
    table = tallyveil.plan(small_release).secrets()
    assert rows == table.to_dicts()
    whole = tallyveil.plan(small_release).guarantee
    assert {"age", "home", "all attributes", "place, exchanged"} <= set(table["secret"])
    for row in rows:
        bounds = tallyveil.guarantee_of_plan(small_release, secret=row["secret"]).epsilon(row["delta"])
        assert row["epsilon"] == pytest.approx(bounds.upper, rel=1e-8)
        assert bounds.upper <= whole.epsilon.upper or row["records"] == 2
        assert (row["records"] == 2) <= bool(row["changes_invariants"])
    text = account("secrets", str(small_release))
    assert "differ in this secret alone" in text
    assert "Exchanged: one record alone would change" in text


def test_a_secret_has_all_curves(account, small_release):
    asked = ["--plan", str(small_release), "--secret", "age"]
    guarantee = tallyveil.guarantee_of_plan(small_release, secret="age")
    answer = json.loads(account("delta", "--epsilon", "1", *asked, "--json"))
    assert answer["delta"]["upper"] == guarantee.delta(1).upper
    assert answer["invariants"] == list(tallyveil.guarantee_of_plan(small_release).invariants)
    curve = json.loads(account("tradeoff", "--points", "3", *asked, "--json"))
    assert curve["tradeoff"][1]["beta"]["lower"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epsilon", "--delta", "1e-10", "--gaussian", "5", "--secret", "age"], "--secret needs --plan"),
        (
            ["epsilon", "--delta", "1e-10", "--plan", "PLAN", "--secret", "years"],
            "there is no secret 'years'",
        ),
    ],
)
def test_a_secret_needs_a_plan_that_has_it(account, small_release, words, said):
    words = [str(small_release) if word == "PLAN" else word for word in words]
    assert said in " ".join(account(*words, code=2).split())


def test_a_group_whose_members_change_a_secret(account, small_release):
    """By rho times the square of the size, and never above the guarantee for every change of the group."""
    asked = ("group", "--size", "3", "--delta", "1e-10", "--plan", small_release, "--json")
    every, age, place = (
        json.loads(account(*asked, *more))
        for more in ([], ["--secret", "age"], ["--secret", "place within Town"])
    )
    costs = {
        row["secret"]: Fraction(row["cost"])
        for row in json.loads(account("secrets", small_release, "--json"))
    }
    by_rho = json.loads(account("epsilon", "--delta", "1e-10", "--zcdp", str(9 * costs["age"]), "--json"))
    assert age["epsilon"]["upper"] == pytest.approx(by_rho["epsilon"]["upper"])
    assert age["person"]["epsilon"]["upper"] < age["epsilon"]["upper"] < every["epsilon"]["upper"]
    assert place["epsilon"]["upper"] <= every["epsilon"]["upper"]
    assert "another value of the secret" in age["not_exact"]


def test_a_group_that_changes_a_secret_is_about_values_also_under_unbounded_neighbours(
    account, edit, small_release
):
    """With any pair of values as the worst one, the secret of two persons is that of two records that change."""
    edit('neighbours = "bounded"', 'neighbours = "unbounded"')
    asked = ("group", "--size", "2", "--delta", "1e-6", "--plan", small_release, "--json")
    added, every = (json.loads(account(*asked, *more)) for more in ([], ["--secret", "all attributes"]))
    assert every["epsilon"]["upper"] > added["epsilon"]["upper"]
    plan = load_plan(small_release)
    changed = compose(for_group(translate(plan.event(), "unbounded", "bounded"), 2), neighbours="bounded")
    assert every["epsilon"]["upper"] <= changed.epsilon(Fraction(1, 10**6)).upper * 1.000001


def test_a_secret_that_costs_nothing_costs_a_group_nothing():
    assert for_group_of_secret(SequentialEvent(()), 3) == SequentialEvent(())


def test_secrets_of_another_product_are_refused_by_name(account):
    assert "other-product" in account("secrets", "examples/hospital_stays/stays.toml", code=2)
