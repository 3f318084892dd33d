"""A structural zero: cells in which no record can lie, whatever the data are."""

from dataclasses import dataclass

from tallyveil.schema.names import check_distinct, check_name


@dataclass(frozen=True, slots=True)
class StructuralZero:
    """A product of level sets. Every cell in the product has the count zero by definition.

    Attributes:
        name: Name to show in messages and reports.
        levels: Pairs of an attribute's name and some of its levels. Attributes that are not named may have any level.
    Raises:
        SchemaError: no attribute is named, or a name is empty or repeated.
    """

    name: str
    levels: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        check_name(self.name, "structural zero")
        where = f"structural zero {self.name!r}"
        check_distinct((attribute for attribute, _ in self.levels), "attribute", where)
        for attribute, levels in self.levels:
            check_distinct(levels, "level", f"{where}, attribute {attribute!r}")
