"""What the flags of `tallyveil account` stand for: guarantees, exact numbers, targets."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil.accounting import Calibration, Guarantee, PrivacyEvent, ZcdpConversion


def guarantee_of(
    gaussian: list[str] | None,
    laplace: list[str] | None,
    plan: Path | None,
    product: str | None,
    neighbours: str,
    proved: bool,
    width: str | None = None,
) -> "Guarantee":
    """The guarantee of the noise that was given, of a release file or of a released product.

    Without a width, epsilon's bounds are as wide as `compose` makes them.

    Raises:
        ConfigError: a flag that cannot be understood, or flags that do not go together.
    """
    from tallyveil.accounting import Neighbours, compose
    from tallyveil.errors import ConfigError

    asked: dict[str, Any] = {"engine": "proved" if proved else "auto"}
    if width is not None:
        asked["width"] = _width(width)
    if sum((plan is not None, product is not None, bool(gaussian or laplace))) > 1:
        raise ConfigError(
            "give one of these: --plan, --product, or --gaussian and --laplace.", code="bad-flag"
        )
    if product is not None:
        from tallyveil.budget.products import NEIGHBOURS, load_product

        return compose(load_product(product).event, neighbours=NEIGHBOURS, **asked)
    if plan is not None:
        from tallyveil.plans.from_toml.load import load_plan

        loaded = load_plan(plan)
        event = loaded.event()
        if loaded.spine is not None and loaded.spine.bypassing is not None:
            from tallyveil.products.topdown.run.inputs import read_allocation

            # What bypassing does follows from the geography, which is public.
            event = loaded.event(read_allocation(loaded).event())
        return compose(event, neighbours=loaded.strategy.neighbours, **asked)
    if neighbours not in list(Neighbours):
        raise ConfigError(
            f"--neighbours is '{neighbours}'; wanted one of {', '.join(Neighbours)}.", code="bad-flag"
        )
    if not gaussian and not laplace:
        raise ConfigError(
            "no noise was given, so there is nothing whose guarantee could be stated. Give --gaussian VARIANCE or "
            "--laplace SCALE, once for every kind of query, or --plan RELEASE.TOML, or --product NAME.",
            code="bad-flag",
        )
    relation = Neighbours(neighbours)
    return compose(*_events(gaussian or [], laplace or [], relation), neighbours=relation, **asked)


def _width(text: str) -> float:
    """The width of epsilon's bounds, which is looked at before a float rounds it.

    Raises:
        ConfigError: it is no number of the range that engines take.
    """
    from tallyveil.accounting.engines.dithered import NARROWEST
    from tallyveil.errors import ConfigError

    value = exact_of(text, "--width")
    if not Fraction(str(NARROWEST)) <= value <= 1:
        raise ConfigError(
            f"--width is '{text:.80}'; wanted a number from {NARROWEST:g} to 1, such as 1e-9.",
            code="bad-flag",
        )
    return float(value)


def _events(gaussian: list[str], laplace: list[str], relation: Any) -> "list[PrivacyEvent]":
    from tallyveil.accounting import DiscreteGaussian, DiscreteLaplace

    kinds: list[tuple[list[str], Callable[[Fraction, int, int], PrivacyEvent], str]] = [
        (gaussian, DiscreteGaussian, "--gaussian"),
        (laplace, DiscreteLaplace, "--laplace"),
    ]
    return [
        kind(*_parsed(text, flag, relation.answers_moved)) for texts, kind, flag in kinds for text in texts
    ]


def _parsed(text: str, flag: str, answers_moved: int) -> tuple[Fraction, int, int]:
    """(parameter, sensitivity, multiplicity) of PARAMETER[:COUNT[:SENSITIVITY]]."""
    from tallyveil.errors import ConfigError
    from tallyveil.exact import whole_number_of

    parts = text.split(":")
    counts = [whole_number_of(part) or 0 for part in parts[1:]]
    if len(parts) > 3 or not all(counts):
        raise ConfigError(
            f"{flag} is '{text:.80}'; wanted PARAMETER[:COUNT[:SENSITIVITY]] with whole counts above 0, "
            "such as 68.49:10.",
            code="bad-flag",
        )
    count, sensitivity = [*counts, 1, 1][:2]
    return exact_of(parts[0], flag), sensitivity, count * answers_moved


def exact_of(text: str, flag: str = "--delta") -> Fraction:
    """The exact number that a flag's text stands for."""
    from tallyveil.budget.fractions import parse_fraction

    return parse_fraction(text, flag)


def conversion_of(text: str, flag: str) -> "ZcdpConversion":
    """The conversion of zCDP that a flag names.

    Raises:
        ConfigError: there is no such conversion.
    """
    from tallyveil.accounting import ZcdpConversion
    from tallyveil.errors import ConfigError

    if text not in list(ZcdpConversion):
        raise ConfigError(
            f"{flag} is '{text:.80}'; wanted one of {', '.join(ZcdpConversion)}.", code="bad-flag"
        )
    return ZcdpConversion(text)


def calibrated(
    before: "Guarantee", epsilon: str | None, delta: Fraction, curve: str | None, rho: str | None
) -> "tuple[Calibration[PrivacyEvent], dict[str, Any]]":
    """The least noise for a target at one delta or for a whole curve, and what it was held against, in words.

    Args:
        before: The guarantee of the noise before; it sets the proportions.
        epsilon: The target at one delta, or None.
        delta: That delta, or the smallest delta of the curve.
        curve: The conversion of zCDP that gives the curve, or None.
        rho: The curve's rho; without it, that of the noise before.

    Raises:
        ConfigError: not exactly one of the two targets was given, or rho without a curve.
    """
    from tallyveil.accounting import (
        ZcdpCurve,
        calibrate,
        calibrate_to_curve,
        curve_excess,
        rho_of,
    )
    from tallyveil.errors import ConfigError

    if (epsilon is None) is (curve is None) or (rho is not None and curve is None):
        raise ConfigError(
            "give --epsilon for a target at one delta, or --curve (and --rho, if you like) for a whole curve.",
            code="bad-flag",
        )
    if curve is None:
        target = exact_of(str(epsilon), "--epsilon")
        return calibrate(before.event, epsilon=target, delta=delta, neighbours=before.neighbours), {}
    conversion = conversion_of(curve, "--curve")
    cost = rho_of(before.event, laplace_as_zcdp=True) if rho is None else exact_of(rho, "--rho")
    reference = ZcdpCurve(cost, conversion)
    found = calibrate_to_curve(
        before.event, reference=reference, smallest_delta=delta, neighbours=before.neighbours
    )
    excess = curve_excess(found.guarantee, reference, reference.epsilon(delta))
    return found, {
        "curve": f"{conversion.value} conversion of zCDP, rho = {cost}",
        "log_delta_above_the_curve": {"upper": excess.bound},
    }
