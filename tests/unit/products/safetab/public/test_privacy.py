"""Guarantees and calibration: the paper's parameters give the trusted values, and targets are met from below."""

from fractions import Fraction
from pathlib import Path

import pytest
from tests import toy_country as toy

from tallyveil.accounting import SequentialEvent, epsilon_of, rho_of
from tallyveil.accounting.ledger.joint import JointLedgers, published_epsilon
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.products.safetab.public.calibration import budget_for_margin, calibrate_plan
from tallyveil.products.safetab.public.estimates import CONFIDENCE
from tallyveil.products.safetab.public.from_toml import load_group_plan
from tallyveil.products.safetab.public.levels import NEIGHBOURS, law_of
from tallyveil.products.safetab.public.plan import read_plan, suppression_bound
from tallyveil.products.safetab.public.plan_record import privacy_of_groups
from tallyveil.products.safetab.public.privacy import privacy_of

DELTA = Fraction(1, 10**10)
GAUSSIAN, LAPLACE = Mechanism.DISCRETE_GAUSSIAN, Mechanism.DISCRETE_LAPLACE
MARGINS = (6, 6, 11, 11, 50, 50, 50)
LEVELS = (("usa", 2), ("state", 2), ("county", 2), ("aiannh", 2), ("usa", 1), ("state", 1), ("county", 1))


def paper_plan(tmp_path, production, unit, budgets):
    """Production's lists with the paper's seven levels."""
    import json
    import shutil

    folder = tmp_path / unit
    shutil.copytree(production, folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    config = json.loads((folder / "config.json").read_text())
    config |= {key: 0 for key in config if key.startswith("privacy_budget_p_level")}
    config |= {
        f"privacy_budget_p_level_{level}_{g}": b for (g, level), b in zip(LEVELS, budgets, strict=True)
    }
    config |= {"run_pr": False, "privacy_defn": unit, "thresholds_p": config["thresholds_p"]}
    (folder / "config.json").write_text(json.dumps(config))
    return read_plan(folder)


def test_geometric_noise_with_total_only_groups_in_their_worst_case(tmp_path, production):
    """Total-only groups at nation and state: all nine detailed ones, two of the regional ones."""
    plan = paper_plan(tmp_path, production, "puredp", (4.27, 4.27, 2.49, 2.49, 0.59, 0.59, 0.59))
    (found,) = privacy_of(plan, DELTA)
    assert found.budget == Fraction("15.29")
    assert found.pure == pytest.approx(15.29, abs=1e-9)
    # Trusted: 13.4743612261 with total-only groups at nation and state detailed; two regional groups add a little.
    assert 13.4743 < found.exact < 13.50
    assert found.exact - found.exact_lower < 1e-8
    assert found.exact < found.renyi < 14.2
    assert found.zcdp is None


def test_discrete_gaussian_noise_with_the_papers_budgets(tmp_path, production):
    plan = paper_plan(tmp_path, production, "zcdp", (0.534, 0.534, 0.159, 0.159, 0.008, 0.008, 0.008))
    (found,) = privacy_of(plan, DELTA)
    assert found.budget == Fraction("1.41")
    assert found.exact == pytest.approx(11.68006118, abs=2e-7)
    assert found.zcdp == pytest.approx(12.177309, abs=1e-6)
    assert found.zcdp_textbook == pytest.approx(12.805868, abs=1e-6)
    assert found.renyi == pytest.approx(12.177309, abs=1e-6)
    assert found.pure is None
    assert found.to_mapping()["budget"] == "141/100"


def test_events_cost_the_budget_exactly(tmp_path, production):
    for run in read_plan(production).runs:
        assert rho_of(run.event()) == run.budget == Fraction({"US": "4.944", "PR": "2.643"}[run.run])
    plan = read_plan(toy.write_params(tmp_path / "p", privacy_defn="puredp"))
    for run in plan.runs:
        assert epsilon_of(run.event()) == run.budget
    assert epsilon_of(plan.event()) == max(run.budget for run in plan.runs)


# Section F: exact budgets of one count at 95 % (accounting and errata), before s / (1 - gamma).
@pytest.mark.parametrize(
    ("mechanism", "margin", "wanted"),
    [
        (LAPLACE, 6, 0.456902),
        (LAPLACE, 11, 0.259767),
        (LAPLACE, 50, 0.059313),
        (GAUSSIAN, 6, 0.045119),
        (GAUSSIAN, 11, 0.014488),
        (GAUSSIAN, 50, 0.000753),
    ],
)
def test_budgets_for_a_margin(mechanism, margin, wanted):
    budget = budget_for_margin(mechanism, margin, stability=9, stage_1_fraction=Fraction(1, 10))
    base = budget * Fraction(9, 10) / 9
    assert float(base) == pytest.approx(wanted, abs=6e-7)
    assert law_of(mechanism, base).margin(CONFIDENCE) == margin
    assert law_of(mechanism, base * (1 - Fraction(1, 10**7))).margin(CONFIDENCE) > margin


def test_the_printed_recipe_gives_table_4():
    gamma = Fraction(1, 10)
    pure = [
        budget_for_margin(LAPLACE, m, stability=9, stage_1_fraction=gamma, recipe="printed") for m in MARGINS
    ]
    rho = [
        budget_for_margin(GAUSSIAN, m, stability=9, stage_1_fraction=gamma, recipe="printed") for m in MARGINS
    ]
    assert [float(x) for x in pure[::2]] == pytest.approx([4.2796, 2.4964, 0.5874, 0.5874], abs=5e-5)
    assert [float(x) for x in rho[::2]] == pytest.approx([0.53333, 0.15868, 0.00768, 0.00768], abs=5e-6)
    assert float(sum(pure)) == pytest.approx(15.314318, abs=1e-6)
    assert float(sum(rho)) == pytest.approx(1.407062, abs=1e-6)
    # Geometric noise by the printed recipe misses 95 %; the exact one costs more.
    exact = [budget_for_margin(LAPLACE, m, stability=9, stage_1_fraction=gamma) for m in MARGINS]
    assert float(sum(exact)) == pytest.approx(16.11276, abs=2e-5)
    exact = [budget_for_margin(GAUSSIAN, m, stability=9, stage_1_fraction=gamma) for m in MARGINS]
    assert float(sum(exact)) == pytest.approx(1.214748, abs=2e-6)


@pytest.mark.parametrize("margin", [0, -1, 2.5])
def test_a_margin_is_a_whole_number(margin):
    with pytest.raises(BudgetError):
        budget_for_margin(GAUSSIAN, margin, stability=9, stage_1_fraction=Fraction(1, 10))


@pytest.mark.parametrize("unit", [pytest.param("puredp", marks=pytest.mark.nightly), "zcdp"])
def test_calibration_meets_the_target_exactly_and_keeps_the_proportions(tmp_path, unit):
    zero = {
        f"privacy_budget_p_level_1_{g}": 0 for g in ("usa", "state", "county", "tract", "place", "aiannh")
    }
    plan = read_plan(toy.write_params(tmp_path / "p", run_pr=False, privacy_defn=unit, **zero))
    target = Fraction(3)
    found = calibrate_plan(plan, epsilon=target, delta=DELTA)
    (privacy,) = privacy_of(found, DELTA)
    assert privacy.exact <= 3
    assert privacy.exact > 3 - 1e-7
    old, new = plan.runs[0].sets, found.runs[0].sets
    factors = {b.budget / a.budget for a, b in zip(old, new, strict=True)}
    assert len(factors) == 1
    assert found.config.thresholds == plan.config.thresholds


@pytest.mark.parametrize(("variance", "chance", "wanted"), [("625", "0.9999", 93), ("31.4465", "0.9999", 21)])
def test_suppression_bounds_of_production(variance, chance, wanted):
    assert suppression_bound(DiscreteGaussian(Fraction(variance)), Fraction(chance)) == wanted


@pytest.mark.parametrize("chance", ["0.5", "0.3", "0.001", "0.9", "0.999999"])
def test_the_suppression_bound_is_the_quantile(chance):
    law, p = DiscreteGaussian(Fraction(30)), float(chance)
    bound = suppression_bound(law, Fraction(chance))
    assert float(law.cdf(bound).mid()) >= p > float(law.cdf(bound - 1).mid())


def published(event):
    """What `account total` proves of the ledger of a run that does this."""
    return published_epsilon(JointLedgers((), NEIGHBOURS, SequentialEvent((event,)), (), ()), DELTA).bounds


def test_the_headlines_are_what_is_proved_of_the_ledger(tmp_path):
    """A person is in one run, so that the ledger costs as much as the more expensive run."""
    budgets = {f"privacy_budget_p_level_2_{g.lower().replace('-', '_')}": 0 for g in toy.US + toy.PR}
    persons = read_plan(toy.write_params(tmp_path / "p", **budgets))
    headlines = privacy_of(persons, DELTA)
    assert len(headlines) == 2
    assert max(one.exact for one in headlines) == published(persons.event()).upper
    groups = load_group_plan(Path(__file__).parents[5] / "examples" / "hospital_stays" / "stays.toml")
    assert privacy_of_groups(groups).exact == published(groups.event()).upper
