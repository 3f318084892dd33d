"""What every table of a TOML file is made of: a strict model, and exact numbers."""

from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from tallyveil.budget.fractions import parse_fraction
from tallyveil.errors import TallyveilError


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
Name = Annotated[str, Field(min_length=1)]


class Table(BaseModel):
    """A TOML table: unknown keys are errors, values are never converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)
