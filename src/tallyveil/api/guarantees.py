"""Guarantees from Python: of a release file, of a product of the Census, and of finished releases together.

The guarantee that a plan or a release states is an object that people can read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from tallyveil.accounting.numbers import Bounds, at_most, bound_cell, delta_text
from tallyveil.api.arguments import AnyPath, Text, Wanted, checked
from tallyveil.errors import BudgetError
from tallyveil.files.marks import short_mark
from tallyveil.printable import described

if TYPE_CHECKING:
    from tallyveil.accounting import Guarantee
    from tallyveil.accounting.ledger.joint import JointLedgers
    from tallyveil.accounting.proved import ProvedEpsilon


@dataclass(frozen=True, slots=True, repr=False)
class StatedGuarantee:
    """The privacy of a release, as its plan or its manifest states it.

    Attributes:
        content: The entry `privacy` of the plan or the manifest.
        warnings: What must be said wherever the release is shown; none for a plan.
    Privacy: computed from the plan alone.
    """

    content: dict[str, Any]
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def statement(self) -> str:
        """The guarantee in a sentence."""
        return str(self.content["statement"])

    @property
    def delta(self) -> Fraction:
        """The delta at which `epsilon` is stated. For Laplace noise, too, it is the delta of the plan, and not 0."""
        return Fraction(self.content["exact"]["delta"])

    @property
    def epsilon(self) -> Bounds:
        """Certified bounds of epsilon at this delta. Claim the upper one."""
        return Bounds(**self.content["exact"]["epsilon"])

    @property
    def pure_epsilon(self) -> float | None:
        """For Laplace noise, an upper bound of epsilon at delta = 0; None for Gaussian noise, which has none."""
        return None if Fraction(self.content["delta"]) else float(self.content["epsilon"])

    @property
    def spent(self) -> Fraction:
        """The cost, in `budget_unit`."""
        return Fraction(self.content["spent"])

    @property
    def budget_unit(self) -> str:
        """Unit of the budget: `rho` or `epsilon`."""
        return str(self.content["budget_unit"])

    @property
    def neighbours(self) -> str:
        """By what two populations differ that the guarantee cannot tell apart, in words."""
        return str(self.content["neighbours_in_words"])

    @property
    def invariants(self) -> tuple[str, ...]:
        """What is published exactly, and so is outside the guarantee."""
        return tuple(self.content["invariants"])

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, as in the manifest."""
        return dict(self.content)

    def __repr__(self) -> str:
        return f"<StatedGuarantee: {self.statement}{short_mark(self.warnings)}>"

    def _repr_html_(self) -> str:
        exact = [("published exactly", name) for name in self.invariants]
        pure = (
            []
            if self.pure_epsilon is None
            else [("epsilon at delta = 0", f"at most {at_most(self.pure_epsilon)}")]
        )
        lines = [
            (
                f"epsilon at delta = {delta_text(self.delta)}",
                f"at most {bound_cell(self.epsilon.upper)}",
            ),
            *pure,
            (self.budget_unit, f"{self.content['spent']} of {self.content['declared']} declared"),
            ("neighbours", self.neighbours),
            *exact,
        ]
        lead = (
            f"If {self.neighbours}, any result becomes at most e^epsilon times as likely or as unlikely, up to the "
            "probability delta."
        )
        return described(f"Guarantee{short_mark(self.warnings)}", lines, lead)


Folders = Annotated[Sequence[AnyPath], Wanted("a list of folders")]
Engine = Literal["auto", "proved"]

_METHODS: Final = {
    "zcdp": "zero-concentrated differential privacy",
    "renyi": "Renyi differential privacy",
    "pure": "pure differential privacy",
}


@checked
def guarantee_of_plan(
    release: AnyPath, *, engine: Engine = "auto", width: float | None = None
) -> "Guarantee":
    """The exact guarantee of the measurements of a release file.

    Args:
        release: The release file. If its spine bypasses geounits, the public geography is opened.
        engine: "proved" for ball arithmetic, which is slow and proves every digit.
        width: How far apart the two bounds of epsilon may be where the losses share no lattice; None for the usual.
    Raises:
        TallyveilError: the file or the geography is wrong, or the guarantee cannot be computed.
    """
    from tallyveil.accounting import compose
    from tallyveil.plans.from_toml.load import load_plan

    plan = load_plan(Path(release))
    event = plan.event()
    if plan.spine is not None and plan.spine.bypassing is not None:
        from tallyveil.products.topdown.run.inputs import read_allocation

        # What bypassing does follows from the geography, which is public.
        event = plan.event(read_allocation(plan).event())
    asked = {} if width is None else {"width": width}
    return compose(event, neighbours=plan.strategy.neighbours, engine=engine, **asked)


@checked
def guarantee_of_product(
    product: Text, *, engine: Engine = "auto", width: float | None = None
) -> "Guarantee":
    """The exact guarantee of a released product of the 2020 Census; `tallyveil account products` lists their names.

    Args:
        product: Name of the product.
        engine, width: As for `guarantee_of_plan`.
    """
    from tallyveil.accounting import compose
    from tallyveil.budget.presets import NEIGHBOURS, load_product

    asked = {} if width is None else {"width": width}
    return compose(load_product(product).event, neighbours=NEIGHBOURS, engine=engine, **asked)


@dataclass(frozen=True, slots=True, eq=False)
class TotalGuarantee:
    """What finished releases about the same people guarantee together; made by `total_guarantee`.

    Attributes:
        ledgers: Their ledgers or folders.
        content: The guarantee as plain data. A float is an upper bound, and a Fraction is exact.
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
def total_guarantee(runs: Folders, delta: str | Fraction = "1e-10") -> TotalGuarantee:
    """The joint privacy guarantee of several releases about the same people, from their ledgers.

    Measurements and the releases that are estimated from them count once.

    Args:
        runs: Folders of releases, or folders that contain such folders.
        delta: Delta at which epsilon is stated.
    Raises:
        StoreError: a folder holds no finished release, or a ledger is damaged.
        BudgetError: a release protects nobody, or the releases have different neighbours.
    """
    from tallyveil.accounting.ledger.joint import read_joint, require_protection, runs_in
    from tallyveil.budget.strategy import parse_fraction
    from tallyveil.files.finished import refuse_unfinished
    from tallyveil.files.manifest_files import copied_lines, read_manifest

    named = [Path(run) for run in runs]
    ledgers: list[Path] = []
    for run in named:  # a folder that is not itself a run means all runs in it
        ledgers += runs_in(run) if run.is_dir() and not (run / "ledger.jsonl").exists() else [run]
    folders = [
        path if path.is_dir() else path.parent for path in ledgers if path.is_dir() or path not in named
    ]
    for folder in folders:
        refuse_unfinished(folder)
    joint = read_joint(ledgers)
    require_protection(joint)  # tables without noise have no manifest of a release
    # A release that was estimated from measurements copies the lines of their ledger. Read again without these lines,
    # so that measurements and what was estimated from them are paid for once.
    copied = {folder: copied_lines(read_manifest(folder)) for folder in folders}
    if any(copied.values()):
        joint = read_joint(ledgers, copied)
    content: dict[str, Any] = {"runs": [str(ledger) for ledger in ledgers]}
    content |= _published(joint, str(delta), parse_fraction(delta, "--delta"))
    if joint.non_private:
        content["not_covered"] = [f"NOT PRIVATE: {act}" for act in joint.non_private]
    return TotalGuarantee(tuple(ledgers), content, joint)


def _published(joint: "JointLedgers", delta: str, exact: Fraction) -> dict[str, Any]:
    """What is proved of everything that several runs published. The delta is shown as it was written."""
    from tallyveil.accounting import invariants_of
    from tallyveil.accounting.ledger.joint import published_epsilon
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


def _not_exact(joint: "JointLedgers", proved: "ProvedEpsilon") -> dict[str, Any]:
    """What is to be said where epsilon is only an upper bound: why, rho, and what samplers add to delta."""
    from tallyveil.accounting import epsilon_of, rho_of
    from tallyveil.accounting.costs import has_gaussian
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
