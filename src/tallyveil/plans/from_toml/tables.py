"""Types that the models of every TOML file share: exact numbers, texts, names, and tables without unknown keys."""

from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from tallyveil.budget.fractions import parse_fraction
from tallyveil.errors import TallyveilError
from tallyveil.printable import is_one_line
from tallyveil.schema.names import check_name


def _exact(value: Any) -> Fraction:
    try:
        return parse_fraction(value, "value")
    except TallyveilError as error:
        raise ValueError(str(error)) from None


Exact = Annotated[
    Fraction,
    BeforeValidator(_exact),
    WithJsonSchema({"type": "string", "description": 'an exact number as text: "3/7", "0.25", "1e-10"'}),
]


def _of_one_line(value: str) -> str:
    if "\0" in value:
        raise ValueError("the text has the character U+0000, which no path and no name can have; remove it")
    if not is_one_line(value):  # from Python, it may be the content of a file in the place of its path
        raise ValueError("the text has several lines, wanted a path or a name of one line")
    return value


LONGEST_TEXT: Final = 4_096
"""Characters of a text: the longest path of most systems. A longer text would make a message that nobody can read."""
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_of_one_line)]
"""Text that is not empty: a path, a column, or a reference to a name that is defined elsewhere."""


def _plain(value: str) -> str:
    try:
        return check_name(value, "the")
    except TallyveilError as error:
        raise ValueError(str(error)) from None


PlainName = Annotated[Name, AfterValidator(_plain)]
"""A name that this file defines.

It appears in file names, on terminals and on pages, so `tallyveil.schema.names.check_name` checks its characters.
"""


class Table(BaseModel):
    """A TOML table. Unknown keys are errors. Values are never converted to another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)
