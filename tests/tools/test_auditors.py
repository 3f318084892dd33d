"""The auditors' own statistics: bounds hold, a true claim stands, and a claim that is too small is refuted."""

import json
import math
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm
from tests.auditors import audit as own_audit
from tests.auditors import auditorium, guesses, kolmogorov, sequential, sniper, statdp
from tests.auditors import run as runner
from tests.auditors.bounds import delta_below, epsilon_below, mean_radius, mu_below, probability_bounds
from tests.auditors.classifier import train
from tests.auditors.drawing.evidence import Measured, scores
from tests.auditors.drawing.groups_of_outputs import GROUPS
from tests.auditors.findings import JUDGES, refuse_gaps
from tests.auditors.outputs import Claim, Draws, Outputs
from tests.auditors.power import FAULTS, UNSEEN
from tests.commands import PROJECT, NotCheckedError
from tests.samples import few
from tests.seeded.run import Bug, read_bugs

from tallyveil.accounting import Gaussian, compose
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace


def claim_of_mu(mu):
    """The exact curve of N(0, 1) against N(mu, 1)."""
    epsilons = np.linspace(0, 4, 25)
    deltas = norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)
    epsilon = float(np.interp(-0.01, -deltas, epsilons))
    release = sniper.gaussian_epsilon(mu, 1e-10)
    return Claim(epsilons, deltas, 0.01, epsilon, mu, mu**2, math.inf, release)


def gaussian_outputs(mu, claimed, number=40_000):
    """A column in which the sides differ by mu, and one of noise alone."""
    rng = np.random.default_rng(8)
    first, second = (rng.normal([shift, 0], size=(number, 2)) for shift in (0, mu))
    scores = [claimed * (side[:, 0] - claimed / 2) for side in (first, second)]
    return Outputs("gaussian", first, second, scores[0], scores[1], claim_of_mu(claimed))


def answers_at_random(epsilon, claimed, number=40_000):
    """Randomised response: a bit that is kept with probability e^epsilon / (1 + e^epsilon)."""
    rng = np.random.default_rng(9)
    first, second = ((rng.random((number, 1)) < expit(sign * epsilon)).astype(int) for sign in (-1, 1))
    epsilons = np.linspace(0, claimed, 10)
    deltas = (math.exp(claimed) - np.exp(epsilons)) / (math.exp(claimed) + 1)
    claim = Claim(epsilons, deltas, 1e-3, claimed, math.inf, claimed, claimed, claimed)
    scores = [claimed * (2 * side[:, 0] - 1.0) for side in (first, second)]
    return Outputs("bit", first, second, scores[0], scores[1], claim)


AUDITORS = {
    "sniper": sniper.audit,
    "hockey-stick": lambda one: [auditorium.hockey_stick(one)],
    "renyi": lambda one: [auditorium.renyi(one)],
    "mmd": lambda one: [auditorium.discrepancy(one)],
    "sequential": sequential.audit,
    "guesses": lambda one: [guesses.audit(one)],
}


@pytest.mark.parametrize("audit", few(2, (pytest.param(audit, id=name) for name, audit in AUDITORS.items())))
def test_a_true_claim_stands(audit):
    assert not [found for found in audit(gaussian_outputs(1.0, 1.0)) if found.refuted]


@pytest.mark.parametrize("audit", few(2, [AUDITORS[name] for name in AUDITORS if name != "mmd"]))
def test_a_claim_that_is_a_third_too_small_is_refuted(audit):
    assert [found for found in audit(gaussian_outputs(1.5, 1.0)) if found.refuted]


def test_the_discrepancy_refutes_only_gross_faults():
    """Sides that never meet have total variation 1; the tester finds more than a claimed third of it."""
    assert not auditorium.discrepancy(gaussian_outputs(1.5, 1.0)).refuted
    assert auditorium.discrepancy(gaussian_outputs(12.0, 1.0)).refuted


@pytest.mark.nightly
def test_a_fault_that_the_documented_noise_does_not_show_is_learnt():
    """The second column gives the side away, which no score of the first column sees."""
    outputs = gaussian_outputs(1.0, 1.0, 8000)
    rng = np.random.default_rng(10)
    leaking = replace(outputs, second=outputs.second + rng.normal(3, 1, outputs.second.shape) * [0, 1])
    for audit in (sniper.audit, sequential.audit):
        assert [found for found in audit(leaking) if found.refuted]


@pytest.mark.nightly
def test_pure_claims():
    true, small = answers_at_random(1.0, 1.0), answers_at_random(1.0, 0.9)
    assert 0.9 < statdp.audit(true).found < 1
    assert statdp.audit(small).refuted
    assert [found for found in sequential.audit(small) if found.refuted]
    assert not [found for found in sequential.audit(true) if found.refuted]


@pytest.mark.parametrize(
    ("kind", "law"),
    [("gaussian", DiscreteGaussian(Fraction(7, 3))), ("laplace", DiscreteLaplace(Fraction(11, 4)))],
)
def test_the_distribution_function_of_the_kolmogorov_check(kind, law):
    points = np.arange(-15, 16)
    parameter = float(law.variance if kind == "gaussian" else law.scale)
    expected = [float(law.cdf(int(x)).mid()) for x in points]
    assert kolmogorov.distribution(kind, parameter, points) == pytest.approx(expected, abs=1e-12)


def test_the_kolmogorov_check_tells_a_scale_5_percent_off():
    rng = np.random.default_rng(11)
    draws = np.rint(rng.normal(0, 10, 2_000_000)).astype(np.int64)
    # Rounding adds a twelfth to the variance; the distribution functions then differ by less than 1e-5.
    assert not kolmogorov.audit(Draws("right", "gaussian", 100 + 1 / 12, draws)).refuted
    assert kolmogorov.audit(Draws("wrong", "gaussian", 95.0, draws)).refuted


def test_binomial_bounds_are_exact():
    lower, upper = probability_bounds(7, 50, 0.01)
    assert binom.sf(6, 50, lower) == pytest.approx(0.01)
    assert binom.cdf(7, 50, upper) == pytest.approx(0.01)
    assert probability_bounds(0, 50, 0.01)[0] == 0
    assert probability_bounds(50, 50, 0.01)[1] == 1


@pytest.mark.nightly
def test_bounds_of_a_pair_fail_as_rarely_as_asked():
    """At the true values, with a tenth as the failure probability: exact bounds are a little careful."""
    rng = np.random.default_rng(12)
    p, q, n = 0.4, 0.2, 300
    failed = np.zeros(3)
    for _ in range(1000):
        often, seldom = rng.random(n) < p, rng.random(n) < q
        failed += [
            epsilon_below(often, seldom, 0.01, 0.1) > math.log((p - 0.01) / q),
            delta_below(often, seldom, 0.5, 0.1) > p - math.exp(0.5) * q,
            mu_below(often, seldom, 0.1) > norm.ppf(p) - norm.ppf(q),
        ]
    assert failed.max() <= 130


def test_means_lie_within_the_radius():
    rng = np.random.default_rng(13)
    values = rng.random((2000, 100)) < 0.03
    missed = sum(abs(row.mean() - 0.03) > mean_radius(row.astype(float), 1.0, 0.1) for row in values)
    assert missed <= 2 * 240  # each side fails with a tenth at most; a standard error is 13


def test_an_account_gains_nothing_on_average_at_the_claim():
    """Randomised response at its own epsilon: no account gains on average there, and one above it loses."""
    epsilon = 0.7
    accounts = sequential.Accounts(np.array([epsilon, 0.9]), np.zeros(2))
    high, low = expit(epsilon), expit(-epsilon)
    chances = np.array([[(1 - high) * (1 - low), (1 - high) * low], [high * (1 - low), high * low]])
    mean = (accounts._gains * chances).sum(axis=(1, 2))
    assert mean[0] == pytest.approx(0, abs=1e-12)
    assert mean[1] < -0.01


def test_an_account_grows_as_in_the_worked_case():
    accounts = sequential.Accounts(np.array([math.log(2)]), np.zeros(1))
    first, second = np.full(24, -9.0), np.full(24, 9.0)
    assert not accounts.observe(first, second).any()  # nothing is bet before anything was seen
    paths = accounts.observe(first, second)
    assert paths[0, -2] < math.log(200) < paths[0, -1]


@pytest.mark.nightly
def test_true_claims_are_refuted_as_rarely_as_the_level_says():
    """With a level of a tenth, at claims that are exactly true."""
    rng = np.random.default_rng(14)
    refuted = 0
    for _ in range(60):
        first, second = (rng.normal(shift, 1, (400, 1)) for shift in (0, 1))
        scores = [side[:, 0] - 0.5 for side in (first, second)]
        outputs = Outputs("true", first, second, scores[0], scores[1], claim_of_mu(1.0))
        refuted += any(found.refuted for found in sequential.audit(outputs, level=0.1))
    assert refuted <= 15


@pytest.mark.nightly
def test_guesses_bound_the_total_variation_as_rarely_wrongly_as_asked():
    """At the true value, with a tenth as the failure probability, where the two sides differ in how often they hit."""
    rng = np.random.default_rng(15)
    p, q, n = 0.95, 0.3, 100
    wrong = 0
    for _ in range(2000):
        first, second = (np.where(rng.random(n) < one, 1.0, -1.0) for one in (q, p))
        wrong += guesses.variation_below(first, second, 0.1) > p - q
    assert wrong <= 230
    assert guesses.variation_below(np.full(5, -1.0), np.full(5, 1.0), 2.0**-10) == pytest.approx(0)


def test_few_guesses_refute_what_few_outputs_teach_no_classifier():
    """350 outputs of each side, with noise of half the variance, as of whole releases."""
    found = guesses.audit(gaussian_outputs(2 * math.sqrt(2), 2.0, 350))
    assert found.refuted
    assert found.samples == 700
    assert not guesses.audit(gaussian_outputs(2.0, 2.0, 350)).refuted


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(3)), DiscreteLaplace(Fraction(2))])
def test_a_score_is_the_ratio_of_likelihoods_and_notices_zeros_without_noise(law):
    answers = np.arange(-40, 41)
    masses = np.array([float(law.cdf(int(x)).mid()) - float(law.cdf(int(x) - 1).mid()) for x in answers])
    rows = np.stack([np.full(answers.size, 7), answers], axis=1)
    untouched, moved = Measured(law, [5], [5]), Measured(law, [2], [4])
    found = scores(rows, [untouched, moved])[36:-36]
    place = np.arange(answers.size)[36:-36]
    assert found == pytest.approx(np.log(masses[place - 4] / masses[place - 2]), abs=1e-9)

    empty = Measured(law, [1, 0, 0], [0, 0, 0])
    exact, noisy = scores(np.array([[0, 0, 0], [0, 1, 0]]), [empty])
    documented = math.log(masses[40] / masses[39])  # the answer 0, of the truth 0 and of the truth 1
    assert noisy == pytest.approx(documented + math.log1p(-0.01) - math.log1p(-0.01))
    plain = 0.99 * masses[40] ** 2
    assert exact == pytest.approx(math.log((plain * masses[40] + 0.01) / ((plain + 0.01) * masses[39])))


def test_a_classifier_learns_the_ratio_of_likelihoods():
    outputs = gaussian_outputs(1.0, 1.0)
    scores = train(outputs.first, outputs.second).scores(outputs.first)
    assert np.abs(scores - outputs.first_scores).max() < 0.2


def test_gaussian_epsilon_is_that_of_the_accountant():
    certified = compose(Gaussian(1, 1), neighbours="unbounded").epsilon("1e-10")
    assert sniper.gaussian_epsilon(1.0, 1e-10) == pytest.approx(certified.upper, rel=1e-6)


def test_files_keep_what_is_written(tmp_path):
    outputs = gaussian_outputs(1.0, 1.0, 10)
    outputs.write(tmp_path)
    back = Outputs.read(tmp_path / "gaussian.pair.npz")
    assert np.array_equal(back.second, outputs.second)
    assert np.array_equal(back.claim.deltas, outputs.claim.deltas)
    assert back.claim.mu == 1.0
    Draws("d", "laplace", 0.5, np.arange(4)).write(tmp_path)
    assert Draws.read(tmp_path / "d.draws.npz").kind == "laplace"


def test_faults_are_those_that_are_seeded():
    assert {*FAULTS} <= {bug.name for bug in read_bugs()}
    assert {*UNSEEN} <= set(FAULTS)
    assert {group for groups in FAULTS.values() for group in groups} <= set(GROUPS)


def found(judge, **changes):
    return {"target": "bit", "auditor": judge, "found": 0.5, "claimed": 1.0, **changes}


def test_every_auditor_must_have_judged_every_target(tmp_path):
    with pytest.raises(NotCheckedError, match="there are no outputs"):
        refuse_gaps([], tmp_path)
    (tmp_path / "bit.pair.npz").write_text("")
    findings = [found(judge) for judge in JUDGES[".pair.npz"]]
    refuse_gaps(findings, tmp_path)
    for left_out in findings:
        with pytest.raises(NotCheckedError, match=f"bit by {left_out['auditor']}$"):
            refuse_gaps([one for one in findings if one != left_out], tmp_path)
    with pytest.raises(NotCheckedError, match="found nan"):
        refuse_gaps([*findings, found("StatDP", found=math.nan)], tmp_path)


def test_our_auditors_judge_as_they_are_listed(capsys, tmp_path):
    own_audit._climb((), 400, lambda number: [one for judge in own_audit._auditors(answers_at_random(1, 1, 400))
                                          for one in judge(answers_at_random(1, 1, 400))])  # fmt: skip
    said = {json.loads(line)["auditor"] for line in capsys.readouterr().out.splitlines()}
    assert JUDGES[".pair.npz"] - said == {"jax-privacy", "privacy-estimates"}


@pytest.fixture
def drawing(monkeypatch):
    """What drawing ends with, by the copy that is drawn from; a finished one writes one file."""
    ends = {}

    def ran(command, **options):
        code = ends.get(command[4], 0)
        if not code:
            (Path(command[3]) / "bit.pair.npz").write_text("")
        return subprocess.CompletedProcess(command, code, "", "KeyError: 'tree'\n" if code else "")

    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setattr(runner, "digest_of", str)
    return ends


def test_outputs_of_other_numbers_or_sources_are_not_audited_again(drawing, tmp_path, monkeypatch):
    assert runner._draw(PROJECT, tmp_path / "tree", "tree", 100, 20) == ""
    assert runner._draw(PROJECT, tmp_path / "tree", "tree", 100, 20) == ""
    with pytest.raises(NotCheckedError, match="other sources or numbers"):
        runner._draw(PROJECT, tmp_path / "tree", "tree", 200, 20)
    monkeypatch.setattr(runner, "digest_of", lambda folders: "other")
    with pytest.raises(NotCheckedError, match="other sources or numbers"):
        runner._draw(PROJECT, tmp_path / "tree", "tree", 100, 20)


@pytest.mark.parametrize("name", ["tree", "tree.half"])
def test_a_folder_of_a_user_is_neither_audited_nor_removed(drawing, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine.txt").write_text("mine")
    with pytest.raises(NotCheckedError, match="holds no outputs of this command"):
        runner._draw(PROJECT, tmp_path / "tree", "tree", 100, 20)
    assert (tmp_path / name / "mine.txt").read_text() == "mine"


def test_a_fault_is_drawn_in_its_own_groups_among_those_that_are_asked_for(drawing, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "scratch_copy", lambda folder: tmp_path / "copy")
    monkeypatch.setattr(Bug, "apply", lambda bug, project: None)
    audited = []
    monkeypatch.setattr(runner, "_audited", lambda drawn, rungs: audited.extend(drawn) or [])
    bug = next(one for one in read_bugs() if one.name == "share-counted-twice")
    for groups in (["release-gaussian", "release-laplace"], GROUPS):
        runner._with_fault(bug, groups, 100, 20, tmp_path / str(len(groups)))
    assert [one.name for one in audited] == ["release-laplace", "tree", "release-laplace"]


def test_what_was_half_drawn_is_drawn_again(drawing, tmp_path):
    (tmp_path / "tree.half").mkdir()
    (tmp_path / "tree.half" / "drawn.json").write_text("{}")
    (tmp_path / "tree.half" / "old.pair.npz").write_text("")
    assert runner._draw(PROJECT, tmp_path / "tree", "tree", 100, 20) == ""
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["bit.pair.npz", "drawn.json"]


def test_a_copy_that_ends_with_an_error_is_refused_only_where_the_project_is_drawn_from(
    drawing, tmp_path, monkeypatch
):
    """Otherwise the machine, and not the fault, may be the reason."""
    monkeypatch.setattr(runner, "scratch_copy", lambda folder: tmp_path / "copy")
    monkeypatch.setattr(Bug, "apply", lambda bug, project: None)
    bug = next(one for one in read_bugs() if one.name == "sensitivity-1-for-2")
    drawing[str(tmp_path / "copy" / "src")] = 1
    for _ in range(2):  # the second time from what was kept
        findings, refusals = runner._with_fault(bug, ["tree"], 100, 20, tmp_path / "out" / bug.name)
        assert findings == []
        assert refusals == ["tree: the copy ends with an error (KeyError: 'tree')"]
    drawing[str(PROJECT / "src")] = 1
    with pytest.raises(NotCheckedError, match="drawing tree ended with 1"):
        runner._with_fault(bug, ["tree"], 100, 20, tmp_path / "again" / bug.name)
