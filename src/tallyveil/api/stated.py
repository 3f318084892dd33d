"""The guarantee that a plan or a release states, as an object that people can read.

It is a module of its own, because `api/guarantees.py` imports code that can read records, and what opens a
release must not.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tallyveil.accounting.numbers import Bounds, at_most, bound_cell, delta_text
from tallyveil.files.marks import short_mark
from tallyveil.printable import described


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
        """How two neighbouring populations differ, in words."""
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
