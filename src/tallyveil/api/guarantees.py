"""Guarantees for Python and for `tallyveil account`: of a release file, of a product of the Census, of noise given by
hand, and of finished releases together; their curves, and the least noise for a target.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, PlainValidator, ValidationInfo

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.numbers import Bounds, at_most
from tallyveil.api.arguments import AnyPath, Exact, Text, Wanted, WholeNumber, checked
from tallyveil.api.noise_flags import NOISE_FLAGS
from tallyveil.budget.strategy import parse_fraction
from tallyveil.errors import BudgetError, ConfigError

if TYPE_CHECKING:
    from tallyveil.accounting.calibration import Calibration
    from tallyveil.accounting.events import Neighbours, PrivacyEvent
    from tallyveil.accounting.guarantee import Guarantee
    from tallyveil.accounting.ledger.joint import JointLedgers
    from tallyveil.accounting.proved import ProvedEpsilon
    from tallyveil.accounting.renyi import ZcdpConversion


Word = TypeVar("Word", bound=StrEnum)

LARGEST_EPSILON: Final = 10**6
"""Largest epsilon at the end of a curve. A guarantee with a larger epsilon is meaningless."""
POINTS_DRAWN: Final = 121
"""Points of a drawn curve. With half as many, corners show; twice as many take twice as long and look the same."""


def _neighbours(text: object, info: ValidationInfo) -> "Neighbours":
    from tallyveil.accounting.events import Neighbours

    return _member(Neighbours, text, info)


def _conversion(text: object, info: ValidationInfo) -> "ZcdpConversion":
    from tallyveil.accounting.renyi import ZcdpConversion

    return _member(ZcdpConversion, text, info)


def _member(words: type[Word], text: object, info: ValidationInfo) -> Word:
    if text not in list(words):
        raise ConfigError(
            f"--{info.context} is '{text!s:.80}'; wanted one of {', '.join(words)}.", code="bad-flag"
        )
    return words(str(text))


def _width(text: object, info: ValidationInfo) -> float:
    from tallyveil.accounting.engines.dithered import NARROWEST

    # Looked at before a float rounds it.
    value = parse_fraction(text, f"--{info.context}")
    if not Fraction(str(NARROWEST)) <= value <= 1:
        raise ConfigError(
            f"--{info.context} is '{text!s:.80}'; wanted a number from {NARROWEST:g} to 1, such as 1e-9.",
            code="bad-flag",
        )
    return float(value)


def _largest(text: object, info: ValidationInfo) -> Fraction:
    value = parse_fraction(text, f"--{info.context}")
    if not 0 < value <= LARGEST_EPSILON:
        raise ConfigError(
            f"--{info.context} is {text!s:.80}; wanted a number above 0 and at most {LARGEST_EPSILON:,}.",
            code="bad-flag",
        )
    return value


Folders = Annotated[Sequence[AnyPath], Wanted("a list of folders")]
Engine = Literal["auto", "proved"]
Relation = Annotated[str, PlainValidator(_neighbours), Wanted("'bounded' or 'unbounded'")]
Conversion = Annotated[str, PlainValidator(_conversion), Wanted("'textbook' or 'best'")]
"""How zCDP gives epsilon."""
Width = Annotated[str | float, PlainValidator(_width), Wanted("a number as text, such as '1e-9'")]
"""How far apart the two bounds of epsilon may be where the losses share no lattice."""
Largest = Annotated[str | Fraction, PlainValidator(_largest), Wanted("an exact number as text, such as '10'")]
"""The largest epsilon of a curve."""

Points = Annotated[int, Field(strict=True, ge=2), Wanted("a whole number of at least 2")]
"""Points of a curve: its two ends, and those between."""

_METHODS: Final = {
    "zcdp": "zero-concentrated differential privacy",
    "renyi": "Renyi differential privacy",
    "pure": "pure differential privacy",
    "shared": "composition of the losses, with a bound on what noise on lattices may add to normal noise",
}


@checked
def guarantee_of_plan(
    release: AnyPath,
    *,
    secret: Text | None = None,
    engine: Engine = "auto",
    width: float | None = None,
) -> "Guarantee":
    """The exact guarantee of the measurements of a release file, for a whole record or for a secret of it.

    Args:
        release: The release file. If its spine bypasses geounits, the public geography is opened.
        secret: Name of the secret, as `Plan.secrets` lists it; None for a whole record. The guarantee is
            then for populations that differ in this alone, and says nothing about other differences.
        engine: "proved" for ball arithmetic, which is slow and proves every digit.
        width: How far apart the two bounds of epsilon may be where the losses share no lattice; None for the usual.
    Raises:
        TallyveilError: the file or the geography is wrong, or the guarantee cannot be computed.
    """
    from tallyveil.accounting.events import InvariantEvent, Neighbours
    from tallyveil.accounting.guarantee import compose
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.plans.secrets import guarantee_named
    from tallyveil.products.topdown.run.inputs import read_allocation_if_bypassed

    plan = load_plan(Path(release))
    allocation = read_allocation_if_bypassed(plan)
    asked = _without_none({"engine": engine, "width": width})
    if secret is None:
        event = plan.event(None if allocation is None else allocation.event())
        return compose(event, neighbours=plan.strategy.neighbours, **asked)
    exact = [InvariantEvent(invariant.statement) for invariant in plan.invariants]
    event = guarantee_named(plan, secret, allocation).event
    # A record that changes a value, whatever the neighbours of the plan are.
    return compose(event, *exact, neighbours=Neighbours.BOUNDED, **asked)


@checked
def guarantee_of_product(
    product: Text, *, engine: Engine = "auto", width: float | None = None
) -> "Guarantee":
    """The exact guarantee of a released product of the 2020 Census; `tallyveil account products` lists their names.

    Args:
        product: Name of the product.
        engine, width: As for `guarantee_of_plan`.
    """
    from tallyveil.accounting.guarantee import compose
    from tallyveil.budget.presets import NEIGHBOURS, load_product

    asked = _without_none({"engine": engine, "width": width})
    return compose(load_product(product).event, neighbours=NEIGHBOURS, **asked)


@checked
def guarantee_of_noise(
    noise: Mapping[str, Sequence[str]],
    *,
    events: AnyPath | None = None,
    plan: AnyPath | None = None,
    product: Text | None = None,
    secret: Text | None = None,
    neighbours: Relation | None = None,
    engine: Engine = "auto",
    width: Width | None = None,
) -> "Guarantee":
    """The exact guarantee of noise that is stated by flags, of a file of events, of a release file or of a product.

    Args:
        noise: Values of flags, by the names of `NOISE_FLAGS`.
        events: A file of events (`plans/from_toml/spending.py`), whose neighbours are its own.
        plan, product: As for `guarantee_of_plan` and `guarantee_of_product`, whose neighbours are their own.
        secret: With a plan: as for `guarantee_of_plan`.
        neighbours: "bounded" or "unbounded" (the default), of the flags.
        engine, width: As for `guarantee_of_plan`.
    Raises:
        ConfigError: not exactly one of flags, events, plan and product is given; a secret without a plan, or neighbours
            without flags.
    """
    from tallyveil.accounting.events import Neighbours
    from tallyveil.accounting.guarantee import compose

    # Each of these states a whole guarantee, and two would contradict each other.
    given = sum((events is not None, plan is not None, product is not None, any(noise.values())))
    if given > 1:
        raise ConfigError(
            "give one of these: --plan, --product, --events, or flags of noise such as --gaussian.",
            code="bad-flag",
        )
    if not given:
        raise ConfigError(
            "no noise was given, so there is nothing whose guarantee could be stated. Give a flag of noise such as "
            "--gaussian VARIANCE, once for every kind of query, or --events FILE, or --plan RELEASE.TOML, or "
            "--product NAME.",
            code="bad-flag",
        )
    if neighbours is not None and not any(noise.values()):
        raise ConfigError(
            "--neighbours is for flags of noise: what --events, --plan and --product name states its own neighbours. "
            "Leave --neighbours out.",
            code="bad-flag",
        )
    if secret is not None and plan is None:
        raise ConfigError("--secret needs --plan RELEASE.TOML, whose records have it.", code="bad-flag")
    asked: dict[str, Any] = {"engine": engine, "width": width}
    if product is not None:
        return guarantee_of_product(product, **asked)
    if plan is not None:
        return guarantee_of_plan(plan, secret=secret, **asked)
    relation = Neighbours(neighbours or Neighbours.UNBOUNDED)
    stated = [flag.event(text, relation) for flag in NOISE_FLAGS for text in noise.get(flag.name, ())]
    if events is not None:
        from tallyveil.plans.from_toml.spending import load_spending  # whose room loads all plans

        relation, spending = load_spending(Path(events))
        stated = [spending]
    return compose(*stated, neighbours=relation, **_without_none(asked))


@checked
def epsilon_of_guarantee(guarantee: "Guarantee", delta: Exact) -> dict[str, Any]:
    """Bounds on epsilon at a delta, and the upper bounds of the other accountants that apply."""
    from tallyveil.accounting.proved import classical_epsilons

    exact = Fraction(delta)
    classical = classical_epsilons(guarantee.event, exact)
    epsilon = guarantee.epsilon(exact)
    return {
        "epsilon": epsilon.to_mapping(),
        "delta": exact,
        **({"classical": classical} if classical else {}),
        **_about(guarantee, epsilon),
    }


@checked
def delta_of_guarantee(guarantee: "Guarantee", epsilon: Exact) -> dict[str, Any]:
    """Bounds on delta at an epsilon, and on its logarithm."""
    exact = Fraction(epsilon)
    return {
        "delta": guarantee.delta(exact).to_mapping(),
        "log_delta": guarantee.log_delta(exact).to_mapping(),
        "epsilon": exact,
        **_about(guarantee),
    }


_GROUP: Final = "epsilon is an upper bound, by group privacy."
_GROUP_OF_SECRET: Final = (
    "epsilon is an upper bound, by the cost of the secret alone or by the guarantee for every change of the group, "
    "whichever is smaller. Each person of the group may have another value of the secret; where two records exchange "
    "it, each of them with a record outside of the group."
)


@checked
def epsilon_of_group(
    guarantee: "Guarantee", size: WholeNumber, delta: Exact, record: "Guarantee | None" = None
) -> "tuple[Guarantee, dict[str, Any]]":
    """The guarantee for a group of persons, such as a household, and bounds on its epsilon as plain data.

    Beside epsilon for the group stand that for one person and the textbook's bound, which knows nothing of the noise:
    size times epsilon at a larger delta.

    Args:
        guarantee: For one person.
        size: Persons in the group.
        delta: Where epsilon is stated.
        record: If the guarantee is of a secret, that of the whole record: stated for records that change, it covers
            every change of the group, too, and the smaller epsilon of the two is stated. None if the guarantee is of a
            whole record.
    Raises:
        BudgetError: nothing is known for a group about a part of what was done.
    """
    from tallyveil.accounting.costs import group_privacy
    from tallyveil.accounting.groups import for_group, for_group_of_secret, is_exact_for_groups
    from tallyveil.accounting.guarantee import compose

    exact = Fraction(delta)
    events = [for_group(guarantee.event, size)]
    if record is not None:
        events = [for_group_of_secret(guarantee.event, size), *_of_every_change(record, size)]
    ways = [
        compose(event, neighbours=guarantee.neighbours, engine=guarantee.engine, width=guarantee.width)
        for event in events
    ]
    group = min(ways, key=lambda way: way.epsilon(exact).upper)
    person, together = guarantee.epsilon(exact), group.epsilon(exact)
    textbook = {"epsilon": {"upper": math.inf}, "delta": {"upper": float(exact)}}
    if math.isfinite(person.upper):
        epsilon, larger = group_privacy(Fraction(person.upper), exact, size)
        textbook = {"epsilon": {"upper": fraction_bounds(epsilon).upper}, "delta": {"upper": larger}}
    known = size == 1 or (record is None and is_exact_for_groups(guarantee.event))
    return group, {
        "size": size,
        "epsilon": together.to_mapping() if known else {"upper": together.upper},
        "delta": exact,
        **({} if known else {"not_exact": _GROUP if record is None else _GROUP_OF_SECRET}),
        "person": {"epsilon": person.to_mapping()},
        "textbook": textbook,
        **_about(group, together),
    }


def _of_every_change(record: "Guarantee", size: int) -> "list[PrivacyEvent]":
    """The event for some records that change in any way; none where nothing is known of that."""
    from tallyveil.accounting.costs import translate
    from tallyveil.accounting.events import Neighbours
    from tallyveil.accounting.groups import for_group

    try:
        # A secret is a change of value, also under unbounded neighbours, where a record is added or removed.
        return [for_group(translate(record.event, record.neighbours, Neighbours.BOUNDED), size)]
    except BudgetError as error:
        if error.code not in ("no-group", "no-translation"):
            raise
        return []


Curve = list[tuple[Fraction, "Bounds"]]


@checked
def profile_of_guarantee(
    guarantee: "Guarantee", points: Points = POINTS_DRAWN, largest: Largest | None = None
) -> tuple[Curve, dict[str, Any]]:
    """The privacy profile: bounds on delta at each epsilon, as a curve and as plain data.

    Args:
        guarantee: The guarantee.
        points: Number of points.
        largest: Largest epsilon; None for that at which delta is 1e-12.
    """
    from tallyveil.accounting.guarantee import end_of_profile

    end = Fraction(end_of_profile(guarantee) if largest is None else largest)
    grid = _grid(end, points)
    curve = list(zip(grid, guarantee.profile_curve(grid), strict=True))
    listed = [{"epsilon": epsilon, "delta": bounds.to_mapping()} for epsilon, bounds in curve]
    return curve, {"profile": listed, **_about(guarantee)}


@checked
def tradeoff_of_guarantee(guarantee: "Guarantee", points: Points) -> tuple[Curve, dict[str, Any]]:
    """The trade-off function: bounds on beta at each alpha, as a curve and as plain data."""
    curve = [(alpha, guarantee.beta(alpha)) for alpha in _grid(Fraction(1), points)]
    return curve, {
        "tradeoff": [{"alpha": alpha, "beta": bounds.to_mapping()} for alpha, bounds in curve],
        "advantage": guarantee.advantage().to_mapping(),
        "mu": guarantee.mu().to_mapping(),
        **_about(guarantee),
    }


@checked
def calibrated_noise(
    before: "Guarantee",
    *,
    delta: Exact,
    epsilon: Exact | None = None,
    curve: Conversion | None = None,
    rho: Exact | None = None,
) -> "tuple[Guarantee, dict[str, Any]]":
    """The least noise for a target at one delta or for a whole curve: its guarantee, and its description as plain data.

    Args:
        before: The guarantee of the noise before; it sets the proportions.
        delta: The delta of the target, or the smallest delta of the curve.
        epsilon: The target at that delta.
        curve: Instead of epsilon: the conversion of zCDP that gives the curve.
        rho: The curve's rho; None for that of the noise before.
    Raises:
        ConfigError: not exactly one of the two targets was given, or rho without a curve.
    """
    from tallyveil.accounting.calibration import calibrate, calibrate_to_curve, curve_excess
    from tallyveil.accounting.costs import rho_of
    from tallyveil.accounting.renyi import ZcdpConversion, ZcdpCurve

    # Exactly one of them: with both it would not be clear which target holds.
    if (epsilon is None) is (curve is None) or (rho is not None and curve is None):
        raise ConfigError(
            "give --epsilon for a target at one delta, or --curve (and --rho, if you like) for a whole curve.",
            code="bad-flag",
        )
    exact, target = Fraction(delta), {}
    if epsilon is not None:
        least = calibrate(before.event, epsilon=Fraction(epsilon), delta=exact, neighbours=before.neighbours)
    else:
        conversion = ZcdpConversion(str(curve))
        cost = rho_of(before.event, laplace_as_zcdp=True) if rho is None else Fraction(rho)
        reference = ZcdpCurve(cost, conversion)
        least = calibrate_to_curve(
            before.event, reference=reference, smallest_delta=exact, neighbours=before.neighbours
        )
        # How far above the curve the result may lie is computed and not assumed.
        excess = curve_excess(least.guarantee, reference, reference.epsilon(exact))
        target = {
            "curve": f"{conversion.value} conversion of zCDP, rho = {cost}",
            "log_delta_above_the_curve": {"upper": excess.bound},
        }
    return least.guarantee, {
        **_calibrated(least),
        "delta": exact,
        **target,
        "event": least.event.to_mapping(),
        **_about(least.guarantee),
    }


@checked
def savings_of_plan(release: AnyPath, delta: Exact, conversion: Conversion = "best") -> dict[str, Any]:
    """The least noise for each geolevel of a release file that keeps the epsilon which zCDP gives for it."""
    from tallyveil.accounting.renyi import ZcdpConversion
    from tallyveil.budget.guarantees import geolevel_savings
    from tallyveil.plans.from_toml.load import load_plan

    strategy, exact, by = load_plan(Path(release)).strategy, Fraction(delta), ZcdpConversion(conversion)
    return {
        "delta": exact,
        "conversion": by.value,
        "geolevels": [
            {"geolevel": geolevel, **_calibrated(least)}
            for geolevel, least in geolevel_savings(strategy, exact, by)
        ],
        "neighbours": strategy.neighbours.value,
    }


@checked
def reductions(
    guarantee: "Guarantee",
    delta: Exact,
    conversion: Conversion = "textbook",
    *,
    plan: AnyPath | None = None,
    product: Text | None = None,
) -> dict[str, Any]:
    """By how many percent the exact epsilon is smaller than what rho gives, at every delta from one up.

    Args:
        guarantee: Of all noise together.
        delta: The smallest delta. At smaller ones the exact epsilon is not larger, and smaller for noise whose law is
            known; by how much is not computed.
        conversion: How rho gives epsilon.
        plan: The release file whose geolevels are accounted for, too, each with its part of the budget.
        product: The released product whose geolevels are accounted for, too. Several products together have none.
    Returns:
        A row for all noise together and for each geolevel: rho, both epsilons at delta, and the percentage, which is
        certified at every delta from this one up and rounded down.
    Raises:
        BudgetError: some noise has no rho.
    """
    from tallyveil.accounting.guarantee import compose
    from tallyveil.accounting.renyi import ZcdpConversion
    from tallyveil.budget.guarantees import TOGETHER
    from tallyveil.budget.presets import load_product
    from tallyveil.plans.from_toml.load import load_plan

    exact, by = Fraction(delta), ZcdpConversion(conversion)
    strategies = () if product is None else load_product(product).strategies
    if plan is not None:
        strategies = (load_plan(Path(plan)).strategy,)
    rows = [{"geolevel": TOGETHER, **_reduction(guarantee, exact, by)}]
    if len(strategies) == 1:
        (strategy,) = strategies
        for name in strategy.geolevels:
            of_geolevel = compose(strategy.geolevel_event(name), neighbours=strategy.neighbours)
            rows.append({"geolevel": name, **_reduction(of_geolevel, exact, by)})
    return {
        "delta": exact,
        "conversion": by.value,
        "geolevels": rows,
        "neighbours": guarantee.neighbours.value,
    }


def _reduction(guarantee: "Guarantee", delta: Fraction, conversion: "ZcdpConversion") -> dict[str, Any]:
    from tallyveil.accounting.costs import rho_of
    from tallyveil.accounting.reduction import certified_reduction
    from tallyveil.accounting.renyi import ZcdpCurve

    rho = rho_of(guarantee.event, laplace_as_zcdp=True)
    curve, epsilon = ZcdpCurve(rho, conversion), guarantee.epsilon(delta)
    return {
        "rho": rho,
        "zcdp_epsilon": curve.epsilon(delta),
        "epsilon": epsilon.to_mapping(),
        "smaller_by_percent": 100 * certified_reduction(guarantee, curve, delta, epsilon),
    }


def census_products() -> list[dict[str, Any]]:
    """The released products of the 2020 Census, what their record is, and their cost by zCDP at the published delta."""
    from tallyveil.accounting.renyi import ZcdpConversion
    from tallyveil.budget.presets import DELTA, load_product, product_names

    return [
        {
            "product": product.name,
            "record": product.record,
            "budgets": product.n_budgets,
            "rho": at_most(product.rho, places=4),
            "published epsilon": None
            if product.published_epsilon is None
            else at_most(product.published_epsilon),
            "textbook": at_most(ZcdpConversion.TEXTBOOK.epsilon(product.rho, DELTA), places=3),
            "best zCDP": at_most(ZcdpConversion.BEST.epsilon(product.rho, DELTA), places=3),
        }
        for product in map(load_product, product_names())
    ]


def _calibrated(least: "Calibration[PrivacyEvent]") -> dict[str, Any]:
    """A factor on all noise, exactly and rounded up, the percentage that it saves, rounded down, and epsilon."""
    from tallyveil.accounting.numbers import at_least

    return {
        # Rounded up, because less noise than the factor would not keep the target; the saving is rounded down for that
        # reason.
        "factor": {"exact": str(least.factor), "decimal": Fraction(at_most(least.factor, 12))},
        "saving_percent": Fraction(at_least(100 * (1 - least.factor))),
        "epsilon": dict(zip(("lower", "upper"), least.epsilon, strict=True)),
    }


def _grid(end: Fraction, points: int) -> list[Fraction]:
    """Numbers from 0 to the end, equally spaced up to the sixth digit. Each is exactly the decimal that is shown."""

    # Rounded up to the digits that are shown, so that a bound at the shown number is the one beside it.
    return [Fraction(at_most(end * i / (points - 1))) for i in range(points)]


def _about(guarantee: "Guarantee", epsilon: "Bounds | None" = None) -> dict[str, Any]:
    """The neighbours that a guarantee covers, and how it was computed; an epsilon is that which was asked for."""
    reached = guarantee.wider(epsilon)
    return {
        "neighbours": guarantee.neighbours.value,
        "engines": list(guarantee.engines),
        # Said only where the width that was asked for was not reached.
        **({} if reached is None else {"width_reached": Fraction(str(reached))}),
        "invariants": list(guarantee.invariants),
    }


def _without_none(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, slots=True, eq=False)
class TotalGuarantee:
    """What finished releases about the same people guarantee together; made by `total_guarantee`.

    Attributes:
        ledgers: Their ledgers or folders.
        content: The guarantee as plain data. Each bound is a float under `lower` or `upper`; `lower` is left out where
            only an upper bound is known. Claim `upper`.
        joint: What all of them spent and published.
    """

    ledgers: tuple[Path, ...]
    content: dict[str, Any]
    joint: "JointLedgers"

    def guarantee(self) -> "Guarantee":
        """The exact guarantee, whose curve can be drawn.

        Raises:
            BudgetError: there is none, since a release has noise on a lattice.
        """
        from tallyveil.accounting.ledger.joint import published_guarantee
        from tallyveil.accounting.losses import has_loss_law

        if has_loss_law(self.joint.paid):
            return published_guarantee(self.joint)
        raise BudgetError(
            "--plot draws an exact privacy profile, and noise on a lattice has none. Leave --plot out: the total then "
            "gives rho and an upper bound on epsilon.",
            code="subspace-no-law",
        )


@checked
def total_guarantee(
    runs: Folders, delta: str | Fraction = "1e-10", *, budget: Exact | None = None
) -> TotalGuarantee:
    """The joint privacy guarantee of several releases about the same people, from their ledgers.

    Measurements and the releases that are estimated from them count once. Releases under unbounded neighbours beside
    others under bounded ones count as what the change of one person's record costs.

    Args:
        runs: Folders of releases, or folders that contain such folders.
        delta: Delta at which epsilon is stated.
        budget: A budget in rho that was fixed in advance for all releases of these people. What is left of it, and what
            it promises however the releases were chosen, are then part of the content.
    Raises:
        StoreError: a folder holds no finished release, or a ledger is damaged.
        BudgetError: a release protects nobody, more was spent than the budget, or ledgers have different neighbours and
            are not all of finished releases.
    """
    from tallyveil.accounting.ledger.joint import read_joint, require_protection, runs_in
    from tallyveil.accounting.ledger.lines import LEDGER
    from tallyveil.files.finished import refuse_unfinished
    from tallyveil.files.manifest_files import copied_lines, read_manifest

    named = [Path(run) for run in runs]
    ledgers: list[Path] = []
    for run in named:  # a folder that is not itself a run means all runs in it
        ledgers += runs_in(run) if run.is_dir() and not (run / LEDGER).exists() else [run]
    folders = [
        path if path.is_dir() else path.parent for path in ledgers if path.is_dir() or path not in named
    ]
    for folder in folders:
        refuse_unfinished(folder)
    joint = read_joint(ledgers, releases=folders)
    require_protection(joint)  # tables without noise have no manifest of a release
    # A release that was estimated from measurements copies the lines of their ledger. Read again without these lines,
    # so that measurements and what was estimated from them are paid for once.
    copied = {folder: copied_lines(read_manifest(folder)) for folder in folders}
    if any(copied.values()):
        joint = read_joint(ledgers, copied, folders)
    exact = parse_fraction(delta, "--delta")
    content: dict[str, Any] = {"runs": [str(ledger) for ledger in ledgers]}
    content |= total_content(joint, str(delta), exact, several=len(ledgers) > 1)
    if budget is not None:
        content["budget"] = _budget(joint, Fraction(budget), exact)
    if joint.translated:
        content["translated"] = [f"{path}: from unbounded to bounded neighbours" for path in joint.translated]
    if joint.non_private:
        content["not_covered"] = [f"NOT PRIVATE: {act}" for act in joint.non_private]
    return TotalGuarantee(tuple(ledgers), content, joint)


def total_content(joint: "JointLedgers", delta: str, exact: Fraction, *, several: bool) -> dict[str, Any]:
    """What releases about the same people guarantee together, as plain data.

    Args:
        joint: What they spent and published.
        delta: Where epsilon is stated, as it was written.
        exact: The same number.
        several: Whether they are several, so that the results of some may have decided the noise of others.
    Raises:
        BudgetError: a release protects nobody, or the delta is out of range.
    """
    content = _published(joint, delta, exact)
    return content | ({"noise_chosen_on_the_way": _on_the_way(joint, exact)} if several else {})


def _published(joint: "JointLedgers", delta: str, exact: Fraction) -> dict[str, Any]:
    """What is proved of everything that several runs published. The delta is shown as it was written."""
    from tallyveil.accounting.ledger.joint import published_epsilon
    from tallyveil.accounting.losses import invariants_of
    from tallyveil.accounting.proved import classical_epsilons

    proved = published_epsilon(joint, exact)
    bounds = {"upper": proved.bounds.upper} if proved.not_exact else proved.bounds.to_mapping()
    reached = proved.width_reached
    return {
        "epsilon": bounds,
        "delta": delta,
        **(_not_exact(joint, proved) if proved.not_exact else {}),
        "classical": classical_epsilons(joint.paid, exact),
        "neighbours": joint.neighbours.value,
        "engines": list(proved.engines),
        **({} if reached is None else {"width_reached": Fraction(str(reached))}),
        "invariants": list(invariants_of(joint.paid)),
    }


def _on_the_way(joint: "JointLedgers", delta: Fraction) -> dict[str, Any]:
    """Epsilon if the noise of later releases was chosen by the results of earlier ones."""
    from tallyveil.accounting.ledger.joint import odometer_of

    try:
        return {"epsilon": {"upper": odometer_of(joint, delta).epsilon}}
    except BudgetError as error:  # the other numbers of the total do not depend on it
        return {"not_known": str(error)}


def _budget(joint: "JointLedgers", rho: Fraction, delta: Fraction) -> dict[str, Any]:
    """A budget that was fixed in advance: what is left of it, and the epsilon that it promises in any case."""
    from tallyveil.accounting.events import ZCDP
    from tallyveil.accounting.ledger.joint import left_of
    from tallyveil.accounting.proved import proved_epsilon

    left = left_of(joint, rho)
    promised = proved_epsilon(ZCDP(rho), joint.neighbours, delta).bounds
    return {"rho": str(rho), "left": str(left), "epsilon": {"upper": promised.upper}}


def _not_exact(joint: "JointLedgers", proved: "ProvedEpsilon") -> dict[str, Any]:
    """What is to be said where epsilon is only an upper bound: why, rho, and what samplers add to delta."""
    from tallyveil.accounting.costs import epsilon_of, has_gaussian, rho_of
    from tallyveil.accounting.engines.tails import fraction_bounds
    from tallyveil.accounting.ledger.joint import added_delta

    added = added_delta(joint, Fraction(proved.bounds.upper))
    answer: dict[str, Any] = {"added_delta": {"upper": added}} if added else {}
    method = _METHODS[proved.engines[-1]]
    answer["not_exact"] = f"epsilon is an upper bound, by {method}: {proved.not_exact}"
    answer["rho"] = str(rho_of(joint.paid, laplace_as_zcdp=True))
    if has_gaussian(joint.paid):
        return answer
    pure = epsilon_of(joint.paid)
    answer["pure_epsilon"] = {"upper": fraction_bounds(pure).upper}
    at_pure = added_delta(joint, pure)
    return answer | ({"pure_delta": {"upper": at_pure}} if at_pure else {})
