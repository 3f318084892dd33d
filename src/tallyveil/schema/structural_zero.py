"""A structural zero: cells in which no record can lie, whatever the data are."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tallyveil.declared import ByName, Declared, Many, Name
from tallyveil.schema.names import PlainName, check_distinct, check_name


@dataclass(frozen=True, slots=True)
class StructuralZero(Declared):
    """A product of level sets. Every cell in the product has the count zero by definition.

    Raises:
        SchemaError: no attribute is named, or a name is empty or repeated.
    """

    name: Annotated[PlainName, Field(description="Name in messages and manifests.")]
    levels: Annotated[
        ByName[Many[Name]],
        Field(
            alias="cells",
            description="Levels of some attributes. No record can have one of these levels in each of them.",
        ),
    ]

    def __post_init__(self) -> None:
        check_name(self.name, "structural zero")
        where = f"structural zero {self.name!r}"
        check_distinct((attribute for attribute, _ in self.levels), "attribute", where)
        for attribute, levels in self.levels:
            check_distinct(levels, "level", f"{where}, attribute {attribute!r}")
