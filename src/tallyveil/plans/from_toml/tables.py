"""What the tables of every TOML file have in common."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A TOML table. Unknown keys are errors. Values are never converted to another type."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True
    )
