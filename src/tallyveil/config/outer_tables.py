"""The tables [[estimation.outer]] and [[residents]] of a release file, as typed models."""

from pydantic import Field

from tallyveil.budget.outer_pass import OuterPass, Prior
from tallyveil.config.tables import Name, PlainName, Table


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
        description="The query of one answer that counts the records of which each record beside the part needs one.",
    )
    residents: Name | None = Field(
        default=None,
        description="The residents who must have units: the part counts occupied units, and these people are its "
        "limits.",
    )
    at_most: Name | None = Field(
        default=None,
        description="The query of one answer that counts records that are fixed before the pass. In every finest "
        "geounit, the part has at most as many.",
    )
    prior: Prior = Field(
        default="shares",
        description="What a pass with a part knows before the noisy answers. shares: the parent's count times the "
        "child's share of the fixed counts, or of the adults among the residents. none: nothing where there are noisy "
        "answers.",
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
            prior=self.prior,
        )


class ResidentsTable(Table):
    """[[residents]]: the people of a finished release who live in the units that this release counts."""

    name: PlainName = Field(description="Name in messages and manifests, and of the release in a programme.")
    path: Name | None = Field(
        default=None,
        description="Folder of the finished release. May be left out in a file that a programme of releases runs.",
    )
    people: dict[Name, list[Name]] = Field(
        min_length=1,
        description="Levels that the people who live in units have, by attribute of that release.",
    )
    adults: dict[Name, list[Name]] = Field(
        min_length=1, description="Further levels, which the adults among these people have."
    )
