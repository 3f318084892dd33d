"""The file of `tallyveil plan --optimise`: what the shares of a budget should be good for."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from scipy.special import ndtri

from tallyveil.budget.optimal.aims import (
    FLOOR,
    MOST_AIMS,
    Aim,
    Aims,
    Goal,
    Target,
    VarianceModel,
    too_many,
)
from tallyveil.declared import Exact, Name
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.tables import Table
from tallyveil.storage.addresses import located

Model = Annotated[VarianceModel, Field(strict=False)]
GoalName = Annotated[Goal, Field(strict=False)]


UNSURE = Fraction(1, 10**9)
"""Least distance of a confidence from 0 and from 1."""


class AimTable(Table):
    """[[aim]]: answers whose variances should be small. Every area is combined with every query."""

    areas: list[Name] = Field(
        min_length=1,
        description="Geolevels of the spine, families of [spine], or columns of `entities`. Of each, the mean variance "
        "over its geounits or entities counts.",
    )
    queries: list[Name] = Field(
        min_length=1, description="Queries, measured or not. The mean over all answers counts."
    )
    weight: Exact = Field(default=Fraction(1), description="Factor of each of these variances, above 0.")


class TargetTable(Table):
    """[[target]]: accuracy that must be reached, on the average over the answers of all geounits or entities."""

    area: Name = Field(description="A geolevel, a family of [spine], or a column of `entities`.")
    query: Name
    standard_deviation: Exact | None = Field(
        default=None, description="Largest root of the mean variance, in records."
    )
    within: Exact | None = Field(
        default=None,
        description="Instead of standard_deviation: the distance from the truth, in records, within which a normal "
        "estimate with the mean variance must lie with probability `confidence`.",
    )
    confidence: Exact = Field(default=Fraction(95, 100), description="Coverage for `within`.")

    @model_validator(mode="after")
    def _one_accuracy(self) -> Self:
        if (self.standard_deviation is None) == (self.within is None):
            raise ValueError("give either standard_deviation or within, and not both")
        if not UNSURE <= self.confidence <= 1 - UNSURE:
            raise ValueError(
                f"confidence is {self.confidence!s:.80}; wanted a coverage above 0 and below 1, by at least 1e-9, "
                'such as "0.95"'
            )
        if self.within is None and "confidence" in self.model_fields_set:
            raise ValueError(
                "confidence is given without within; give within as well, or leave out confidence"
            )
        return self

    def deviation(self) -> Fraction:
        """The largest standard deviation."""
        if self.standard_deviation is not None:
            return self.standard_deviation
        assert self.within is not None
        return self.within / Fraction(float(ndtri((1 + float(self.confidence)) / 2)))


class AimsFile(Table):
    """A whole file of aims."""

    model: Model = Field(
        description='"topdown": estimates from a geolevel\'s own measurements, from the root downwards, as a release '
        'makes them; "least_squares": estimates from all measurements, as `tallyveil intervals` shows them.',
    )
    minimise: GoalName = Field(
        default=Goal.SUM,
        description='"sum" or "maximum" of the weighted variances of the aims; "rho": the least budget that reaches '
        "all targets.",
    )
    relative_to: Annotated[str, Field(pattern="^(given|absolute)$")] = Field(
        default="given",
        description='"given": every variance is divided by the one that the present shares give; "absolute": variances '
        "are in records squared.",
    )
    spare: bool = Field(
        default=True, description="Whether no aim may become worse than with the present shares."
    )
    entities: Name | None = Field(
        default=None,
        description="Public table (Parquet or CSV) with the column geocode and a column for each further family, such "
        "as districts.",
    )
    live: Name | None = Field(
        default=None,
        description="Public table (Parquet or CSV) with the columns geolevel, query and live: how many categories of "
        'an attribute or recode are in use in a geounit. For model = "topdown".',
    )
    floor: Exact = Field(
        default=FLOOR,
        description="Least part of its present share that a query keeps which determines what [[bounds]] limit.",
    )
    aim: list[AimTable] = Field(default_factory=list)
    target: list[TargetTable] = Field(default_factory=list)
    keep: dict[Name, dict[Name, Exact]] = Field(
        default_factory=dict,
        description="Least part of the whole budget for a geolevel and a query, such as [keep.Block] detailed.",
    )


def load_aims(path: Path) -> Aims:
    """Read a file of aims.

    Args:
        path: TOML file. The paths `entities` and `live` in it start from its folder.
    Raises:
        StoreError: the file cannot be read.
        ConfigError: it is not TOML, or has unknown keys or wrong values, all shown at once.
        BudgetError: something is named twice, or a number is out of range.
    """
    file = parse_file(path, AimsFile)
    number = sum(len(item.areas) * len(item.queries) for item in file.aim) + len(file.target)
    if number > 2 * MOST_AIMS:  # before they are combined; an aim may also be a target
        raise too_many(number)
    return Aims(
        model=file.model,
        goal=file.minimise,
        relative=file.relative_to == "given",
        spare=file.spare,
        aims=tuple(
            Aim(area, query, item.weight)
            for item in file.aim
            for area in item.areas
            for query in item.queries
        ),
        targets=tuple(Target(item.area, item.query, item.deviation()) for item in file.target),
        keep=tuple(
            (level, query, share) for level, shares in file.keep.items() for query, share in shares.items()
        ),
        floor=file.floor,
        entities=None if file.entities is None else located(path.parent, file.entities),
        live=None if file.live is None else located(path.parent, file.live),
    )
