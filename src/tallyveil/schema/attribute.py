"""An attribute of a record: a name and its named levels."""

from dataclasses import dataclass

from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.names import check_factor_name, check_labels, closest_hint


@dataclass(frozen=True, slots=True)
class Attribute:
    """One property of every record, with finitely many named levels.

    Attributes:
        name: Name of the attribute, and of its column in a table of records.
        levels: Names of the levels. A level's code is its position in this tuple.
    Raises:
        SchemaError: the name is not allowed, or levels are empty or repeated.
    """

    name: str
    levels: tuple[str, ...]

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
