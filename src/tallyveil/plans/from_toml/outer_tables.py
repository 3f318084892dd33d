"""The tables [[estimation.outer]] and [[residents]] of a release file, as typed models."""

from typing import Annotated

from pydantic import Field

from tallyveil.budget.outer_pass import OuterPass, Prior
from tallyveil.plans.from_toml.tables import Name, PlainName, Table


class OuterPassTable(Table):
    """[[estimation.outer]]: a pass over the whole spine, which is finished before the next one begins."""

    cells: Name = Field(description="The query whose answers the pass counts.")
    rounding: list[Name] = Field(
        default_factory=list,
        description="Queries of the rounding chain, coarse to fine. Each adds up answers of the next one.",
    )
    also: list[Name] = Field(
        default_factory=list,
        description="Measured queries of later passes. This pass uses those of their answers that its cells add up to.",
    )
    part: Name | None = Field(
        default=None,
        description="The query of one answer that counts a part of the records, such as householders. The pass then "
        "finds how many records of each group belong to the part.",
    )
    total: Name | None = Field(
        default=None, description="The agreement that fixes the total of the part in every finest geounit."
    )
    company: Name | None = Field(
        default=None,
        description="The query of one answer that counts other records, the company. Each record "
        "of the part's groups that does not belong to the part needs at least one record of the company.",
    )
    residents: Name | None = Field(
        default=None,
        description="The residents who live in the units of this release. The part counts occupied units, and "
        "the number of these people sets its limits.",
    )
    at_most: Name | None = Field(
        default=None,
        description="The query of one answer that counts records that are fixed before the pass. In every finest "
        "geounit, the part has at most as many.",
    )
    sizes: Name | None = Field(
        default=None,
        description="The residents to whose number the sizes of households add up. The part counts the households of "
        "the largest size that no pass before has found.",
    )
    prior: Prior = Field(
        default="shares",
        description="The numbers that a pass with a part uses beside the noisy answers. shares: the parent's count "
        "times the child's share of the fixed counts, of the adults among the residents, or of the people whose "
        "households are not found yet. company: as shares, but the child's share of n * n / (n + m) in its finest "
        "geounits, for n records that may belong to the part and m records of the company. none: no other numbers "
        "where there are noisy answers.",
    )

    def as_pass(self) -> OuterPass:
        """The pass as the plan has it."""
        return OuterPass(
            self.cells,
            tuple(self.rounding),
            tuple(self.also),
            part=self.part,
            total=self.total,
            company=self.company,
            residents=self.residents,
            at_most=self.at_most,
            sizes=self.sizes,
            prior=self.prior,
        )


Levels = Annotated[list[Name], Field(min_length=1)]
"""Some levels of an attribute. No record has none of them, so an empty list could only be a mistake."""


class ResidentsTable(Table):
    """[[residents]]: the people of a finished release who live in the units that this release counts."""

    name: PlainName = Field(description="Name in messages and manifests, and of the release in a programme.")
    path: Name | None = Field(
        default=None,
        description="Folder of the finished release. May be left out in a file that a programme of releases runs.",
    )
    people: dict[Name, Levels] = Field(
        min_length=1,
        description="Which people of that release live in units: for each attribute named, the levels that they have.",
    )
    adults: dict[Name, Levels] = Field(
        default_factory=dict,
        description="Which of these people are adults: for each attribute named, the levels that they have. Occupied "
        "units need it.",
    )
    households: Name | None = Field(
        default=None,
        description="The query that counts households of one person, two and so on; its last answer also counts all "
        "larger ones. Sizes need it.",
    )
    geolevel: Name | None = Field(
        default=None,
        description="The geolevel of the geounits in which the sizes of households add up to these people. Sizes need "
        "it.",
    )
