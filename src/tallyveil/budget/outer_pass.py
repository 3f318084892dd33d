"""An outer pass over the whole spine: which counts it estimates, and how they are rounded."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tallyveil.declared import Declared, Many, Name, left_out

Prior = Literal["shares", "company", "none"]
"""What a lift pass knows before the noisy answers: the parent's count times the child's share, or nothing. With
"company", the share is that of the records that would have no company if sizes of households were geometric."""


@dataclass(frozen=True)
class OuterPass(Declared):
    """One outer pass. It goes from the root to the finest geounits before the next outer pass begins.

    A pass with a part is a *lift pass*: it finds how many records of each group belong to the part, such as
    householders, so that in every finest geounit the part has a given total, or a total within limits.
    """

    cells: Annotated[Name, Field(description="The query whose answers the pass counts.")]
    rounding: Annotated[
        Many[Name],
        Field(
            description="Queries of the rounding chain, coarse to fine. Each adds up answers of the next one."
        ),
    ] = ()
    also: Annotated[
        Many[Name],
        left_out(()),
        Field(
            description="Measured queries of later passes. This pass uses those of their answers that its cells add "
            "up to."
        ),
    ] = ()
    part: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The query of one answer that counts a part of the records, such as householders. The pass "
            "then finds how many records of each group belong to the part."
        ),
    ] = None
    total: Annotated[
        Name | None,
        left_out(None),
        Field(description="The agreement that fixes the total of the part in every finest geounit."),
    ] = None
    residents: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The residents who live in the units of this release. The part counts occupied units, and "
            "the number of these people sets its limits."
        ),
    ] = None
    company: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The query of one answer that counts other records, the company. Each record of the part's "
            "groups that does not belong to the part needs at least one record of the company."
        ),
    ] = None
    at_most: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The query of one answer that counts records that are fixed before the pass. In every finest "
            "geounit, the part has at most as many."
        ),
    ] = None
    sizes: Annotated[
        Name | None,
        left_out(None),
        Field(
            description="The residents to whose number the sizes of households add up. The part counts the households "
            "of the largest size that no pass before has found."
        ),
    ] = None
    prior: Annotated[
        Prior | None,
        left_out(None),
        Field(
            description="The numbers that a pass with a part uses beside the noisy answers. shares, the default: the "
            "parent's count times the child's share of the fixed counts, of the adults among the residents, or of the "
            "people whose households are not found yet. company: as shares, but the child's share of n * n / (n + m) "
            "in its finest geounits, for n records that may belong to the part and m records of the company. none: no "
            "other numbers where there are noisy answers."
        ),
    ] = None

    def __post_init__(self) -> None:
        # A pass with a part always states its prior, and a pass without one never states the usual prior.
        usual = "shares" if self.part is not None else None
        object.__setattr__(self, "prior", usual if self.prior in (None, "shares") else self.prior)

    @property
    def limits(self) -> dict[str, str]:
        """Where the total of the part, or its limits, come from: a lift pass has one of these keys."""
        given = {
            "total": self.total,
            "residents": self.residents,
            "company": self.company,
            "at_most": self.at_most,
            "sizes": self.sizes,
        }
        return {key: name for key, name in given.items() if name is not None}

    @property
    def queries(self) -> tuple[str, ...]:
        """Every query that the pass names."""
        named = (self.cells, *self.rounding, *self.also, self.part, self.company, self.at_most)
        return tuple(name for name in named if name is not None)
