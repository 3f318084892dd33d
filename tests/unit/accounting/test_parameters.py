"""The few numbers beside a claim of accuracy: each one is that of the guarantee, rounded in the safe direction."""

from tallyveil.accounting import DiscreteGaussian, DiscreteLaplace, compose, zcdp_to_epsilon
from tallyveil.accounting.guarantee import exact_parameters, pure_parameters, zcdp_parameters
from tallyveil.accounting.numbers import exact_number

DELTAS = ("1e-5", "1e-10", "1e-11")


def test_the_parameters_of_a_guarantee_are_its_safe_ends() -> None:
    guarantee = compose(DiscreteGaussian(9, multiplicity=3), neighbours="unbounded")
    found = exact_parameters(guarantee)
    wanted = {f"epsilon_at_{delta}": guarantee.epsilon(delta).upper for delta in DELTAS}
    wanted["beta_at_alpha_0.05"] = guarantee.beta("1/20").lower
    assert found.to_mapping() == {**wanted, "mu": guarantee.mu().upper}
    assert exact_parameters(guarantee, with_mu=False).to_mapping() == {**wanted, "mu": None}


def test_a_mu_that_is_not_finite_is_left_out() -> None:
    guarantee = compose(DiscreteLaplace("1/1000"), neighbours="unbounded")
    found = exact_parameters(guarantee)
    assert (found.mu is None) == (guarantee.mu().upper == float("inf"))
    assert found.epsilons["1e-10"] == guarantee.epsilon("1e-10").upper


def test_what_follows_from_rho_or_from_pure_privacy_alone() -> None:
    rho = exact_number("1/7", "rho")
    assert zcdp_parameters(rho).to_mapping() == {
        **{f"epsilon_at_{delta}": zcdp_to_epsilon(rho, delta) for delta in DELTAS},
        "beta_at_alpha_0.05": None,
        "mu": None,
    }
    assert pure_parameters(0.7).epsilons == dict.fromkeys(DELTAS, 0.7)
    assert pure_parameters(0.7).beta is pure_parameters(0.7).mu is None
