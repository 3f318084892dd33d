"""The privacy guarantee of a plan, in numbers and in one sentence, computed before any data is opened.

What commands and pages show of a finished release is computed here once more (`with_guarantee`): whoever edits a
manifest can make its digest again, and its sentences with it.
"""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.numbers import MOST_DIGITS, Bounds, claim_text, delta_text, exact_text
from tallyveil.accounting.proved import ProvedEpsilon, proved_epsilon
from tallyveil.accounting.renyi import ZcdpConversion, zcdp_to_epsilon
from tallyveil.budget.allocation import Allocation, allocation_of, require_affordable
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.declared import mapping_of
from tallyveil.errors import BudgetError, StoreError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, read_hierarchies
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import RESTORE, require_unchanged
from tallyveil.geography.spine import path_total
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.release import StatedPlan
from tallyveil.storage.json_files import damaged
from tallyveil.words.language import phrase

_FOLLOWS: Final = "; the exact epsilon follows from the geography (plan --read-geography, run)"
"""Before the geography is opened, nobody knows which geounits are bypassed, so only the whole budget bounds epsilon."""

NEIGHBOURS_IN_WORDS = {
    "bounded": "one {unit}'s record changes its value",
    "unbounded": "one {unit}'s record is added or removed",
    "derived": "one person's record changes its values, its place or its {unit}, by which at most two {unit} records "
    "change",
}

POST_PROCESSING = phrase(
    "Estimation, rounding, microdata, tables and this statement read the noisy measurements, the declared invariants "
    "and public inputs, and nothing else. Whatever is computed from the output of a private mechanism is as private as "
    "the output (Dwork and Roth 2014, Proposition 2.1; for trade-off functions Dong, Roth, Su 2022, Proposition 2.8), "
    "so everything after measuring costs nothing."
)


def guarantee_of(plan: StatedPlan, allocation: Allocation | None = None) -> dict[str, Any]:
    """The privacy guarantee of a plan as plain data.

    Args:
        plan: The plan.
        allocation: The share of the budget that each geounit of the spine gets; None before the geography is opened.
            The effect of bypassing is then unknown, so only the budget bounds epsilon, and the statement says so.

    Returns:
        Exact budget and cost as text; the reporting delta; `epsilon`, the least upper bound that is proved at that
        delta (for pure differential privacy at delta 0, the cost); `classical_epsilon`, which follows from the cost
        alone, by the best known proof; with Gaussian noise `textbook_epsilon`, which published tables have for the
        same cost; both sides of the exact epsilon; the invariants; and one sentence.
    Raises:
        BudgetError, SolverError: the event cannot be accounted for.
    Source: SafeTab (Haney et al.), Lemma 4; Canonne, Kamath, Steinke 2020, for epsilon from rho.
    """
    strategy = plan.strategy
    gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    # From the cost alone; it holds for every spine, so it is stated beside what is proved for this one.
    classical = _classical(strategy, plan.spent, plan.delta)
    exact = _exact(plan, allocation)
    # Pure differential privacy has delta 0, whatever delta is reported at.
    delta = plan.delta if gaussian else 0
    return {
        "neighbours": strategy.neighbours.value,
        "neighbours_in_words": NEIGHBOURS_IN_WORDS[
            strategy.neighbours.value if strategy.records == 1 else "derived"
        ].format(unit=plan.schema.unit.one),
        "mechanism": strategy.mechanism.value,
        "budget_unit": strategy.budget_unit,
        "declared": str(plan.declared),
        "spent": str(plan.spent),
        "delta": str(delta),
        "epsilon": exact["epsilon"]["upper"] if gaussian else classical,
        "classical_epsilon": classical,
        **_textbook(strategy, plan.spent, plan.delta),
        "exact": exact,
        "post_processing": POST_PROCESSING,
        **({"subspace": [mapping_of(item) for item in plan.subspace]} if plan.subspace else {}),
        "invariants": [f"{item.query} at {', '.join(item.geolevels)}" for item in plan.invariants],
        "statement": _statement(plan, exact["epsilon"]["upper"], classical)
        + (_FOLLOWS if allocation is None and plan.may_bypass else ""),
    }


def privacy_of(plan: StatedPlan, allocation: Allocation, *, imported: bool = False) -> dict[str, Any]:
    """What a manifest states of privacy: the guarantee on a spine, and that no path of the spine overspends.

    Args:
        plan: The plan.
        allocation: The shares of the geounits.
        imported: Whether others have measured, so that some paths may have spent less than others.
    Raises:
        BudgetError: as `check_paths`, or the event cannot be accounted for.
    """
    paths = check_greatest(allocation) if imported else check_paths(allocation)
    return {**guarantee_of(plan, allocation), "paths": paths}


def with_guarantee(root: Path, manifest: Manifest) -> Manifest:
    """The manifest of a finished release with the guarantee that follows from its event, its plan and its geography.

    Every command and every page that shows the guarantee of a release of the main product takes it from here.

    Args:
        root: Folder of the release, or of measurements.
        manifest: Its manifest, held to its ledger (`read_manifest`).
    Raises:
        StoreError: the geography was changed, or with the plan gives another event than the ledger shows, or has other
            numbers of geounits than the manifest states.
        BudgetError: shares of the geography do not sum to the whole.
    """
    # Before it is read: the digest says that a file was changed, and its content might mislead about what is wrong.
    require_unchanged(root, manifest, root / GEOGRAPHY)
    plan, hierarchies = stated_plan(root / MANIFEST, manifest.body["plan"]), read_hierarchies(root)
    plan.require_geolevels(root / MANIFEST, hierarchies.spine.geolevels)
    allocation = allocation_of(plan.strategy, hierarchies.spine, hierarchies.shares)
    # The ledger shows the event; a plan that gives another one was changed, or the geography was.
    if plan.event(allocation.event()).to_mapping() != manifest.event:
        raise StoreError(
            f"the plan in {root / MANIFEST} and {root / GEOGRAPHY} do not give the event that the ledger shows, so one "
            "of them was changed after the run. Restore the folder from a copy.",
            code="release-damaged",
        )
    # Measurements state no sizes.
    levels, spine = manifest.body.get("sizes", {}).get("geolevels"), hierarchies.spine
    geounits = {name: spine.n_geounits(level) for level, name in enumerate(spine.geolevels)}
    if levels is not None and {name: item["geounits"] for name, item in levels.items()} != geounits:
        raise damaged(
            root / MANIFEST,
            "body.sizes.geolevels",
            f"{GEOGRAPHY} in the same folder has other numbers of geounits. {RESTORE}",
        )
    return replace(manifest, privacy=privacy_of(plan, allocation, imported="imported" in manifest.body))


def check_paths(allocation: Allocation) -> str:
    """Refuse a spine on which some path from a root to a finest geounit spends other than the whole, exactly.

    Returns:
        A sentence for the guarantee.
    Raises:
        BudgetError: the shares sum to another number than 1 along some path.
    Source: Cumings-Menon et al. 2023, Theorem 3.
    """
    spine = allocation.spine
    # In exact fractions: a sum of floats could pass for 1 when it is not.
    total = path_total(spine, allocation.shares)
    if total != 1:
        raise BudgetError(
            f"shares sum to {total} along every path from a root to a {spine.geolevels[-1]}; wanted exactly 1, the "
            "whole of the strategy. Take the shares that the steps of the spine made."
        )
    return (
        f"the shares of the geounits above each {spine.geolevels[-1]} and its own sum to exactly {total}, for all "
        f"{spine.n_geounits(spine.finest):,}; checked in exact fractions before anything was spent"
    )


def check_greatest(allocation: Allocation) -> str:
    """The same for measurements of others, of which some geounits may not be known: no path spends more than the whole.

    Raises:
        BudgetError: the shares sum to more than 1 along some path.
    """
    spine = allocation.spine
    greatest = require_affordable(spine, allocation.shares)
    return (
        f"the shares of the geounits above each {spine.geolevels[-1]} and its own sum to at most {greatest}, for all "
        f"{spine.n_geounits(spine.finest):,}; checked in exact fractions"
    )


def _exact(plan: StatedPlan, allocation: Allocation | None) -> dict[str, Any]:
    """The epsilon that is proved at the reporting delta, for the whole release and for each geolevel alone."""
    strategy, levels = plan.strategy, []
    for geolevel in strategy.geolevels:
        event: PrivacyEvent = strategy.geolevel_event(geolevel)
        # On the spine as it is; without it the strategy's own event, as if nothing were bypassed.
        if allocation is not None:
            event = allocation.geolevel_event(geolevel)
        budget = rho_of(event) if strategy.budget_unit == "rho" else epsilon_of(event)
        levels.append(
            {
                "geolevel": geolevel,
                "spent": str(budget),
                "classical_epsilon": _classical(strategy, budget, plan.delta),
                **_textbook(strategy, budget, plan.delta),
                "epsilon": proved_epsilon(event, strategy.neighbours, plan.delta).bounds.to_mapping(),
            }
        )
    whole = _overall(plan, allocation)
    return {
        "delta": str(plan.delta),
        "epsilon": whole.bounds.to_mapping(),
        "engines": list(whole.engines),
        "geolevels": levels,
    }


def _overall(plan: StatedPlan, allocation: Allocation | None) -> ProvedEpsilon:
    """Epsilon of the whole release; from the budget alone while nobody knows which geounits are bypassed."""
    strategy = plan.strategy
    # Nothing below the classical bound is proved before the geography is known.
    if allocation is None and plan.may_bypass:
        classical = _classical(strategy, plan.spent, plan.delta)
        name = "zcdp" if strategy.budget_unit == "rho" else "pure"
        return ProvedEpsilon(Bounds(0.0, classical), (name,))
    event = plan.event(None if allocation is None else allocation.event())
    return proved_epsilon(event, strategy.neighbours, plan.delta)


def _classical(strategy: Strategy, budget: Fraction, delta: Fraction) -> float:
    """Epsilon that follows from a budget under zCDP (Gaussian noise) or pure differential privacy (Laplace noise)."""
    if strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return zcdp_to_epsilon(budget, delta)
    # Rounded up to the next float, so that the claim holds.
    return fraction_bounds(budget).upper


def _textbook(strategy: Strategy, budget: Fraction, delta: Fraction) -> dict[str, float]:
    """Epsilon as published tables have it, rho + 2 sqrt(rho ln(1 / delta)), for Gaussian noise."""
    if strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        return {}
    return {"textbook_epsilon": ZcdpConversion.TEXTBOOK.epsilon(budget, delta)}


def _statement(plan: StatedPlan, exact: float, classical: float) -> str:
    """The guarantee in one sentence: the least proved epsilon, then the one that follows from the budget alone."""
    strategy = plan.strategy
    known = {
        "relation": strategy.neighbours.value,
        "delta": delta_text(plan.delta),
        "budget": exact_text(plan.spent),
    }
    if strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        return PURE.format(**known, epsilon=claim_text(exact, 3))
    if exact == classical:
        return BY_BUDGET.format(**known, epsilon=claim_text(exact, 3))
    least, other = _apart(exact, classical)
    return COMPOSED.format(**known, epsilon=least, other=other)


PURE: Final = phrase(
    "pure differential privacy, epsilon = {budget}, {relation} neighbours; at delta = {delta} epsilon <= {epsilon}"
)
BY_BUDGET: Final = phrase(
    "epsilon <= {epsilon} at delta = {delta}, {relation} neighbours, from the budget rho = {budget}"
)
COMPOSED: Final = phrase(
    "epsilon <= {epsilon} at delta = {delta}, {relation} neighbours, from all noise together; from the budget rho = "
    "{budget} alone would follow epsilon <= {other}"
)


def _apart(least: float, other: float) -> tuple[str, str]:
    """Texts of two different upper bounds, with enough digits to show that they differ."""
    texts = claim_text(least, 3), claim_text(other, 3)
    # More digits until both differ, or a reader would take two bounds for one number.
    for places in range(4, MOST_DIGITS):
        if texts[0] != texts[1]:
            break
        texts = claim_text(least, places), claim_text(other, places)
    return texts
