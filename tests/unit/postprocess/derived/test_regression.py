"""Regression with noise in the variables: known slopes over many draws, formulas by hand, and what is refused."""

from typing import Any

import numpy as np
import pytest

import tallyveil
from tallyveil import analysis
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.regression import MOST_ERROR, corrected, noise_shares
from tallyveil.products.topdown.run.run import run_release

TRUE = np.array([2.0, 0.7, -1.5])


def world(rng, n):
    """Regressors and outcomes without noise."""
    first = rng.gamma(4.0, 1.0, n)
    x = np.column_stack([np.ones(n), first, 0.3 * first + rng.normal(0, 1.0, n)])
    return x, x @ TRUE + rng.normal(0, 0.4, n)


def noise_of(rng, n):
    """Noise of outcome and regressors that is correlated, and of different size in each area."""
    base = np.array([[0.5, 0.1, 0.05], [0.1, 1.0, 0.2], [0.05, 0.2, 0.4]])
    return base * rng.uniform(0.5, 1.5, n)[:, None, None]


def draws(rng, noise):
    return np.einsum("nij,nj->ni", np.linalg.cholesky(noise), rng.normal(size=noise.shape[:2]))


def test_corrected_slopes_are_those_before_noise():
    """Bias within its Monte Carlo error where that of least squares is many times it; intervals of 95 % hold."""
    rng = np.random.default_rng(1)
    n, times = 400, 400
    fits, held = [], []
    for _ in range(times):
        x, y = world(rng, n)
        noise = noise_of(rng, n)
        error = draws(rng, noise)
        seen = x.copy()
        seen[:, 1:] += error[:, 1:]
        fit = corrected(y + error[:, 0], seen, noise)
        fits.append([fit.slopes, fit.naive, fit.simex])
        held.append(np.abs(fit.slopes - TRUE) <= 1.959964 * fit.errors)
    made, naive, simex = np.moveaxis(np.array(fits), 1, 0)
    spread = made.std(axis=0) / np.sqrt(times)
    assert (np.abs(made.mean(axis=0) - TRUE) < 3 * spread).all()
    assert (np.abs(naive.mean(axis=0) - TRUE) > 15 * spread).all()
    # SIMEX takes away most of the bias, and not all of it.
    assert (np.abs(simex.mean(axis=0) - TRUE) < 0.35 * np.abs(naive.mean(axis=0) - TRUE)).all()
    coverage = np.mean(held, axis=0)
    assert (np.abs(coverage - 0.95) < 0.035).all()


def test_noise_that_areas_share_changes_the_standard_errors():
    """The noise of pairs of areas cancels, as where their sum is known exactly."""
    rng = np.random.default_rng(2)
    n, times = 200, 300
    noise = np.broadcast_to(np.diag([0.0, 1.0]), (n, 2, 2))
    covariance = np.zeros((2, n, 2, n))
    covariance[1, np.arange(n), 1, np.arange(n)] = 1.0
    covariance[1, np.arange(n), 1, np.arange(n) ^ 1] = -1.0
    # Neighbours are alike, so that the noise of their products with x cancels as well, and only that of y is left.
    x = np.repeat(rng.gamma(4.0, 1.5, n // 2), 2)
    made, errors, apart = [], [], []
    for _ in range(times):
        half = rng.normal(size=n // 2)
        seen = np.column_stack([np.ones(n), x + np.stack([half, -half], axis=1).ravel()])
        y = 1.0 + 2.0 * x + rng.normal(0, 1.5, n)
        made.append(corrected(y, seen, noise, covariance).slopes)
        errors.append(corrected(y, seen, noise, covariance).errors)
        apart.append(corrected(y, seen, noise).errors)
    spread = np.std(made, axis=0)
    assert np.abs(np.mean(errors, axis=0) / spread - 1).max() < 0.25
    assert (np.mean(apart, axis=0) / spread > 1.3).all()
    with pytest.raises(ConfigError, match="share so much of their noise"):
        # Without any error of its own, nothing is left but rounding and what is of second order.
        corrected(1.0 + 2.0 * x, np.column_stack([np.ones(n), seen[:, 1]]), noise, 4 * covariance)


def test_without_noise_it_is_least_squares():
    x, y = world(np.random.default_rng(3), 50)
    fit = corrected(y, x, np.zeros((50, 3, 3)))
    wanted = np.linalg.lstsq(x, y, rcond=None)[0]
    for slopes in (fit.slopes, fit.naive, fit.simex):
        np.testing.assert_allclose(slopes, wanted)
    residuals = y - x @ wanted
    bread = np.linalg.inv(x.T @ x)
    robust = bread @ (x.T * residuals**2) @ x @ bread * 50 / 47
    np.testing.assert_allclose(fit.errors, np.sqrt(np.diag(robust)))
    np.testing.assert_allclose(fit.naive_errors, fit.errors)


def test_too_much_noise_is_refused():
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(100), rng.normal(0, 1, 100)])
    for part, sound in ((0.2, True), (0.5, True), (0.7, False), (1.5, False)):
        noise = np.broadcast_to(np.diag([0.0, part * x[:, 1].var()]), (100, 2, 2))
        error = (4 * part * (1 - part) + 2 * part**2) ** 0.5 / (1 - part) / 10
        assert (0 < error < MOST_ERROR) == sound
        assert noise_shares(x, noise) == pytest.approx([part])
        if sound:
            corrected(x[:, 1], x, noise)
        else:
            with pytest.raises(ConfigError, match="is noise, which is too much"):
                corrected(x[:, 1], x, noise)
    with pytest.raises(ConfigError, match="follows from the others"):
        corrected(x[:, 1], np.column_stack([x, 3 * x[:, 1]]), np.zeros((100, 3, 3)))


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression")
    run_release(
        load_plan(make_small_inputs(folder / "inputs")), folder / "out", test_key=bytes(32), workers=1
    )
    return tallyveil.open(folder / "out")


def test_counts_of_a_release(release):
    """Against the same moments from the covariances of the answer."""
    counts = release.ask("age by Block where home = house")
    fit = analysis.regress(
        counts, analysis.count({"age": "old"}), {"young": analysis.count({"age": ["young"]})}, level=0.9
    )
    frame = counts.table
    young, old = (frame.filter(age=age)["estimate"].to_numpy() for age in ("young", "old"))
    matrix, n = counts.covariance(), len(young)
    own = [matrix[3 * place : 3 * place + 3, 3 * place : 3 * place + 3] for place in range(n)]
    moments = np.array([[n, young.sum()], [young.sum(), (young**2).sum() - sum(part[0, 0] for part in own)]])
    products = np.array([old.sum(), (young * old).sum() - sum(part[0, 2] for part in own)])
    np.testing.assert_allclose(fit.table["estimate"], np.linalg.solve(moments, products), rtol=1e-6)
    assert fit.table["term"].to_list() == ["intercept", "young"]
    assert fit.n == n
    reach = fit.table["upper"] - fit.table["estimate"]
    np.testing.assert_allclose(reach, 1.6448536 * fit.table["standard_error"])
    assert 0 < fit.table["noise"][1] < 0.5
    assert abs(fit.table["naive"][1]) < abs(fit.table["estimate"][1])


def test_shares_and_logits_of_a_release(release):
    counts = release.ask("age by home by Town where home = house")
    young = analysis.share({"age": "young"})
    old = analysis.share({"age": "old"}, of={"home": "house"})
    fit = analysis.regress(counts, young, {"old": old})
    parts = counts.table["estimate"].to_numpy().reshape(-1, 3)
    first, last = (parts[:, [0, 2]] / parts.sum(axis=1, keepdims=True)).T
    # Shares less their small bias.
    assert fit.table["naive"][1] == pytest.approx(np.polyfit(last, first, 1)[0], abs=0.01)
    logit = analysis.regress(counts, analysis.share({"age": "young"}, logit=True), {"old": old})
    # Of shares near a half, a logit is about four times as steep.
    assert 3 < logit.table["estimate"][1] / fit.table["estimate"][1] < 6


def test_public_numbers_have_no_noise(release):
    """As an outcome they are corrected for the noise of the regressors alone; as a regressor there is none."""
    counts = release.ask("age by Block where home = house")
    codes = counts.table["geocode"].unique(maintain_order=True).to_list()
    known = {code: 3.0 * place for place, code in reversed(list(enumerate(codes)))}
    young = counts.table.filter(age="young")["estimate"].to_numpy()
    matrix, n, y = counts.covariance(), len(young), 3.0 * np.arange(len(young))
    noise = sum(matrix[3 * place, 3 * place] for place in range(n))
    fit = analysis.regress(counts, known, {"young": analysis.count({"age": "young"})}).table
    moments = np.array([[n, young.sum()], [young.sum(), (young**2).sum() - noise]])
    np.testing.assert_allclose(
        fit["estimate"], np.linalg.solve(moments, [y.sum(), (young * y).sum()]), rtol=1e-6
    )
    plain = analysis.regress(counts, analysis.count({"age": "young"}), {"known": known}).table
    np.testing.assert_allclose(plain["estimate"], np.polyfit(y, young, 1)[::-1], rtol=1e-8)
    np.testing.assert_allclose(plain["estimate"], plain["naive"])
    assert plain["noise"].to_list() == [0.0, 0.0]


def test_what_cannot_be_regressed(release):
    counts = release.ask("age by Block where home = house")
    young, old = analysis.count({"age": "young"}), analysis.share({"age": "old"}, logit=True)
    cases: list[tuple[Any, str]] = [
        ((release.ask("age by Town as share of total"), young, {"old": young}), "holds no counts"),
        ((release.ask("age"), young, {"old": young}), "no column of the answer"),
        ((counts, young, {"old": analysis.count({"home": "house"})}), "'home' is no column"),
        ((counts, young, {"old": analysis.count({"age": "older"})}), "no level 'older'"),
        ((counts, young, {}), "wanted variables by names"),
        ((counts, young, {"intercept": young}), "wanted variables by names"),
        ((counts, "young", {"young": young}), "a variable is a value of type str"),
        ((counts, {"elsewhere": 1.0}, {"young": young}), r"lack \d+ of \d+ areas"),
        ((counts, {"a": float("nan")}, {"young": young}), "'a' is no finite number"),
        ((counts, {"a": 10**400}, {"young": young}), "'a' is no finite number"),
        ((counts, old, {"young": young}), "may be zero before noise"),
        ((release.ask("age by Region"), young, {"all": analysis.count()}), "too few"),
    ]
    for arguments, words in cases:
        with pytest.raises(ConfigError, match=words) as refused:
            analysis.regress(*arguments)
        assert refused.value.code in ("bad-regression", "bad-question")
    with pytest.raises(ConfigError, match="wanted levels by column"):
        analysis.count({"age": 5})  # type: ignore[dict-item]
