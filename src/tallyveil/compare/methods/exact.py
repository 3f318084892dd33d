"""The true tables, on which every attack must succeed before it is shown."""

from typing import ClassVar, Literal

from tallyveil.compare.methods.method import CERTAIN, Method, Office
from tallyveil.compare.published import ExactLaw, Limits, Published, PublishedTable, SummedQuestions


class Exact(Method):
    """No protection: every count is published as it is."""

    family: ClassVar[str] = "exact"
    literature: ClassVar[str] = ""
    cannot: ClassVar[str] = "It protects nobody."
    strength: ClassVar[str] = "Everything is exact."
    unbounded: ClassVar[str] = CERTAIN
    random: ClassVar[bool] = False

    shows_exact: ClassVar[bool] = True

    kind: Literal["exact"] = "exact"

    def stated_law(self) -> ExactLaw:
        """As in `Method`."""
        return ExactLaw()

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        tables = {name: PublishedTable(true) for name, true in office.shared.truth.items()}
        limits = Limits(office.shared, tables, ExactLaw())
        return Published(tables, ExactLaw(), SummedQuestions(office.shared.counts), limits=limits)
