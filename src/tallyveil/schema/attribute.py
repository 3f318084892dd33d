"""An attribute of a record: a name and its named levels."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tallyveil.declared import Declared, Many, Name
from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.names import PlainName, check_factor_name, check_labels, closest_hint


@dataclass(frozen=True, slots=True)
class Attribute(Declared):
    """One property of every record, with finitely many named levels. A level's code is its position among them.

    Raises:
        SchemaError: the name is not allowed, or levels are empty or repeated.
    """

    name: Annotated[
        PlainName,
        Field(description="Name of the attribute, and of its column in the published tables."),
    ]
    levels: Annotated[Many[Name], Field(min_length=1, description="Names of the levels, in order.")]

    def __post_init__(self) -> None:
        check_factor_name(self.name, "attribute")
        check_labels(self.levels, "level", f"attribute {self.name!r}")

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)

    def code(self, level: str) -> int:
        """Code of a level.

        Args:
            level: Name of a level.
        Returns:
            Its position among `levels`.
        Raises:
            SchemaError: the attribute has no such level.
        """
        try:
            return self.levels.index(level)
        except ValueError:
            hint = closest_hint(level, self.levels)
            raise SchemaError(f"attribute {self.name!r} has no level {short_name(level)!r}. {hint}") from None
