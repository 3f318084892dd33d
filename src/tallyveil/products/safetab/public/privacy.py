"""The guarantee of a SafeTab run, exactly and by the paper's accountants."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.accounting.renyi import renyi_epsilon, zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.budget.strategy import Mechanism
from tallyveil.exact import fraction_of
from tallyveil.files.finished import MANIFEST, PLAN
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed
from tallyveil.products.safetab.public.group_plan import StatedGroupPlan
from tallyveil.products.safetab.public.households import StatedHouseholdPlan
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import SafetabPlan, StatedSafetabPlan
from tallyveil.storage.json_files import JsonObject, damaged


@dataclass(frozen=True, slots=True)
class RunPrivacy:
    """Epsilon of one run at a given delta, by every accountant. Each is an upper bound; the exact one is the smallest.

    Attributes:
        run: "US" or "PR".
        budget: Sum of the level budgets, in rho (Gaussian) or pure epsilon (Laplace); exact.
        delta: The delta.
        exact: Epsilon from the exact loss law, with total-only groups in their worst case; rounded up.
        exact_lower: Lower bound on the same epsilon, which shows how precisely it is known.
        pure: Pure epsilon (delta 0); only for Laplace noise.
        renyi: Epsilon from the (corrected) Renyi divergence.
        zcdp: Epsilon from rho by the optimal conversion; only for Gaussian noise.
        zcdp_textbook: Epsilon from rho by rho + 2 sqrt(rho ln(1 / delta)); only for Gaussian noise.
        changed, changed_lower: Bounds on the exact epsilon if a record is changed within the run (`changed_event`).
    """

    run: str
    budget: Fraction
    delta: Fraction
    exact: float
    exact_lower: float
    pure: float | None
    renyi: float
    zcdp: float | None
    zcdp_textbook: float | None
    changed: float
    changed_lower: float

    def to_mapping(self) -> dict[str, Any]:
        """The same values as plain data."""
        return {
            "run": self.run,
            "budget": str(self.budget),
            "delta": str(self.delta),
            "epsilon": {"lower": self.exact_lower, "upper": self.exact},
            "pure": self.pure,
            "renyi": self.renyi,
            "zcdp": self.zcdp,
            "zcdp_textbook": self.zcdp_textbook,
            "changed": changed_mapping(self.budget, self.changed_lower, self.changed),
        }


def privacy_of(plan: SafetabPlan, delta: Fraction) -> tuple[RunPrivacy, ...]:
    """The guarantee of each run, between populations that differ by one person's record.

    A person is in one run, so the guarantee of both runs together is the weaker of the two.

    Args:
        plan: The plan.
        delta: Between 0 and 1.
    Raises:
        BudgetError: the delta is out of range.
    """
    mechanism = plan.config.mechanism
    return tuple(privacy_of_event(run.run, run.budget, run.event(), mechanism, delta) for run in plan.runs)


def changed_event(event: PrivacyEvent) -> PrivacyEvent:
    """The event for a record that changes its value: it leaves its groups and enters at most as many others.

    The groups that it leaves and those that it enters have independent noise. So the loss is the sum of two independent
    losses, each that of one record removed or added. If the two records share a group, its totals do not change, and
    the loss is smaller. So this event is an upper bound, which is attained if they share no group.
    """
    return SequentialEvent((event, event))


def changed_mapping(budget: Fraction, lower: float, upper: float) -> dict[str, Any]:
    """The guarantee for a record that changes its value, as plain data: twice the budget, and epsilon."""
    return {"budget": str(2 * budget), "epsilon": {"lower": lower, "upper": upper}}


def privacy_of_event(
    name: str, budget: Fraction, event: PrivacyEvent, mechanism: Mechanism, delta: Fraction
) -> RunPrivacy:
    """The guarantee of one run.

    Args:
        name: Name of the run.
        budget: What the event costs in rho or pure epsilon.
        event: What the run does.
        mechanism: Of its noise.
        delta: Between 0 and 1.
    Raises:
        BudgetError: the delta is out of range.
    """
    exact = proved_epsilon(event, NEIGHBOURS, delta).bounds
    changed = proved_epsilon(changed_event(event), NEIGHBOURS, delta).bounds
    gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
    # Laplace noise has a pure epsilon, and zCDP would only be weaker.
    rho = rho_of(event) if gaussian else None
    return RunPrivacy(
        run=name,
        budget=budget,
        delta=delta,
        exact=exact.upper,
        exact_lower=exact.lower,
        pure=None if gaussian else fraction_bounds(epsilon_of(event)).upper,
        renyi=renyi_epsilon(event, delta).value,
        zcdp=None if rho is None else zcdp_to_epsilon(rho, delta),
        zcdp_textbook=None if rho is None else zcdp_to_epsilon_textbook(rho, delta),
        changed=changed.upper,
        changed_lower=changed.lower,
    )


def derived_privacy(root: Path, manifest: Manifest) -> JsonObject:
    """The guarantee of each run of a finished release, from the event in its ledger, at the deltas that it states.

    Args:
        root: Folder of the release.
        manifest: Its manifest, held to its ledger.
    Raises:
        StoreError: the plan in the folder names other runs, or runs of other budgets, than the ledger shows.
        BudgetError: a stated delta is out of range.
    """
    event = next(entry.event for entry in read_ledger(root / LEDGER)[1] if entry.kind == "spend")
    plan = read_listed(root, manifest, PLAN, _STATED[manifest.kind])
    mechanism = Mechanism(plan["mechanism"])
    if manifest.kind is ReleaseKind.GROUPS:
        budgets, parts = {plan["name"]: plan["spent"]}, [event]
    else:
        # Every record is in one run, so that the ledger has one event of them side by side.
        budgets = {name: run["budget"] for name, run in plan["runs"].items()}
        parts = list(event.events) if isinstance(event, ParallelEvent) else []
    cost = rho_of if mechanism is Mechanism.DISCRETE_GAUSSIAN else epsilon_of
    if [Fraction(budget) for budget in budgets.values()] != [cost(part) for part in parts]:
        raise damaged(
            root / PLAN, "runs", "The ledger in the same folder shows other runs, or other budgets."
        )
    derived = {}
    for name, part in zip(budgets, parts, strict=True):
        stated = manifest.privacy.get(name)
        delta = fraction_of(str(stated.get("delta"))) if isinstance(stated, dict) else None
        if delta is None:
            raise damaged(root / MANIFEST, "privacy", "It states no delta of a run.")
        derived[name] = privacy_of_event(name, cost(part), part, mechanism, delta).to_mapping()
    return derived


def with_runs(root: Path, manifest: Manifest) -> Manifest:
    """The manifest with the guarantee of every run that follows from its ledger; raises as `derived_privacy`.

    Every command and every page that shows the guarantee of a release takes it from here.
    """
    return replace(manifest, privacy=derived_privacy(root, manifest))


_STATED: Final = {
    ReleaseKind.SAFETAB: StatedSafetabPlan,
    ReleaseKind.HOUSEHOLDS: StatedHouseholdPlan,
    ReleaseKind.GROUPS: StatedGroupPlan,
}
"""What `plan.json` of each kind of release holds."""
