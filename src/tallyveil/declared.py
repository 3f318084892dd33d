"""One declaration for each thing that is written to a file and read back: a dataclass whose annotations say it all.

A subclass of `Declared` is an ordinary frozen dataclass. Its annotations say which values a file may hold, which keys
are left out where they say nothing, and which fields no file states. pydantic reads and writes it by them, so that
reading, refusing, canonical text, digest and JSON Schema follow from one place. Values that Python code puts into a
dataclass are not checked again: mypy does that. Rules of the domain stand in `__post_init__`, or in a validator of a
type, and therefore hold for whatever is read and for whatever is made in code.
"""

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from tallyveil.exact import as_given, exact_value
from tallyveil.printable import is_one_line

Item = TypeVar("Item")
Kind = TypeVar("Kind")


class Declared:
    """Base of a declared dataclass: an unknown key is a mistake."""

    # No fields of its own, so that a subclass may have slots.
    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


class Content(BaseModel):
    """Base of the declaration of plain data that is used as it was read: nothing is converted, every key is known."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class ContentInPart(Content, extra="ignore"):
    """The same of data that says more to people than any command reads: further keys may stand beside the declared."""


ABSENT: Final[Any] = Field(default=None)
"""The default of a key of plain data that may be missing. Where it stands, null does not count as missing."""


Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
"""Scalars of a file. They are strict one by one: no number is text, and no text is a number or a truth value."""

Format1 = Annotated[int, Strict(), Field(ge=1, le=1)]
"""The number of a format of which there has been one. A literal 1 would also take true and 1.0."""

Many = Annotated[tuple[Item, ...], Field(strict=False)]
"""A list. In Python it is a tuple, so that what holds it cannot be changed."""


LONGEST_TEXT: Final = 4_096
"""Characters of a text: the longest path of most systems. A longer text would make a message that nobody can read."""


def _of_one_line(value: str) -> str:
    # Refused here, where the key can be named; the system would refuse it later, with a message that names none.
    if "\0" in value:
        raise ValueError("the text has the character U+0000, which no path and no name can have; remove it")
    if not is_one_line(value):  # from Python, it may be the content of a file in the place of its path
        raise ValueError("the text has several lines, wanted one line")
    return value


Name = Annotated[Text, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_of_one_line)]
"""Text that is not empty: a path, a column, or a reference to a name that is defined elsewhere."""


class _Table:
    """Reads and writes pairs of a name and a value as an object, whose order of keys counts."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The annotation is tuple[tuple[str, Item], ...]: the inner pair names the type of the values.
        _, value = get_args(get_args(source)[0])
        table = handler.generate_schema(dict[Name, value])  # type: ignore[valid-type]
        return core_schema.no_info_after_validator_function(
            lambda read: tuple(read.items()),
            table,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda pairs, write: write(dict(pairs)), schema=table
            ),
        )


ByName = Annotated[tuple[tuple[str, Item], ...], _Table()]
"""An object whose keys are names. In Python it is a tuple of pairs, because its order counts."""


def _exact(value: object) -> Fraction:
    if isinstance(value, float):
        raise ValueError(
            f"value is the float {value!r}. A float is only close to the decimal that was written, so the number would "
            f'not be exact. Write it as a string: "{value!r}", or better as an exact fraction such as "1/3".'
        )
    # Limits of digits and exponents hold here too: a short text must not make a huge number.
    number = exact_value(value)
    if number is None:
        raise ValueError(
            f'value is {as_given(value)}, which is no exact number. Write a fraction "104/4099" (not over 0), an '
            'integer, or a decimal "0.25" or "1e-10", as a string.'
        )
    return number


Exact = Annotated[
    Fraction,
    BeforeValidator(_exact),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "description": 'an exact number as text: "3/7", "0.25", "1e-10"'}),
]


def left_out(default: object) -> FieldInfo:
    """The mark of a key that is not written where its value is the default, so that earlier files keep their digest."""
    # By value, not by whether it was stated: the same declaration always writes the same text.
    info: FieldInfo = Field(exclude_if=lambda value: bool(value == default))
    return info


UNSTATED: Final[FieldInfo] = Field(exclude=True)
"""The mark of a field that is never written, such as a path: what is written is the same wherever its files are."""


class MisfitError(ValueError):
    """A value is not what would be written of any declaration of its kind.

    Attributes:
        place: Where, such as "files[3].bytes".
        wanted: What would be written there, in words that repeat nothing of the value.
    """

    def __init__(self, place: str, wanted: str = "") -> None:
        super().__init__(place)
        self.place = place
        self.wanted = wanted


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Reader and writer of a declaration, made once."""
    # Made once: to build a validator takes pydantic far longer than to use it.
    return _adapter(kind)


def mapping_of(value: object, kind: type[object] | None = None) -> dict[str, Any]:
    """Plain data of a declared value, with keys in the order of its declaration.

    Args:
        value: The value.
        kind: The declaration, where the class of the value has more fields than are stated; None for that class.
    """
    mapping: dict[str, Any] = adapter_of(kind or type(value)).dump_python(value, mode="json", by_alias=True)
    return mapping


def validated(kind: type[Kind], value: object) -> Kind:
    """Plain data as a declaration reads it; of several faults, the first is named.

    Raises:
        MisfitError: it does not fit the declaration.
        TallyveilError: a rule of the domain is broken.
    """
    try:
        read: Kind = adapter_of(kind).validate_python(value)
    except ValidationError as error:
        # The value is left out: it may be megabytes of somebody's text.
        # The first alone: later ones are often consequences, and a union gives one for each of its members.
        fault = error.errors(include_url=False, include_input=False)[0]
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]]
        raise MisfitError("".join(parts).lstrip(".") or "the whole", _wanted(fault)) from None
    return read


NO_TABLE: Final = ("dataclass_type", "model_type", "model_attributes_type", "dict_type")
"""What pydantic calls a value that should have keys and has none. Its words would name our class."""


def _wanted(fault: ErrorDetails) -> str:
    """What pydantic wanted at a place. Its own words for an unknown kind would repeat the value."""
    # In words of our own where pydantic's would quote the value.
    if fault["type"] == "union_tag_invalid":
        return f"wanted a kind among {fault['ctx']['expected_tags']}"
    if fault["type"] == "extra_forbidden":
        return "no run writes such a key"
    if fault["type"] == "missing":
        return "the key is wanted"
    if fault["type"] in NO_TABLE:
        return "wanted an object"
    return fault["msg"].removeprefix("Value error, ").replace("Input should be", "wanted")


def read_written(kind: type[Kind], value: Mapping[str, Any]) -> Kind:
    """Read what was written of a declared value, and nothing that would be written in other words, such as 2/2 for 1.

    Args:
        kind: The declaration.
        value: Plain data.
    Raises:
        MisfitError: it is not what would be written.
        TallyveilError: a rule of the domain is broken.
    """
    read = validated(kind, value)
    # Written anew and compared key by key as JSON: 1, 1.0 and true are equal to Python, and not as text.
    again = mapping_of(read)
    for key in {**value, **again}:
        if key not in value or key not in again or json.dumps(value[key]) != json.dumps(again[key]):
            raise MisfitError(key)
    return read
