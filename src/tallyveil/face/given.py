"""Checks of what people give from Python, where another type would be taken for something else."""

from collections.abc import Iterable

import polars as pl

from tallyveil.errors import ConfigError, GeographyError


def names_given(names: object, what: str) -> list[str] | None:
    """A list of names; None stays None.

    Args:
        names: Names, or None.
        what: The argument, for messages.
    Raises:
        ConfigError: it is a single text, whose letters would be taken for names, or it holds something else than texts.
    """
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ConfigError(
            f"{what} is {names!r}, wanted a list of names. Write {what}=[{names!r}].", code="bad-argument"
        )
    found = list(names)
    if strange := [one for one in found if not isinstance(one, str)]:
        raise ConfigError(f"{what} holds {strange[0]!r}, wanted names as text.", code="bad-argument")
    return found


def geocodes_given(geocodes: object) -> pl.Series:
    """Geocodes of finest geounits as text.

    Raises:
        GeographyError: there are none, or they are not text (a number would have lost its leading zeros), or they are
            a single text, whose letters would be taken for geocodes.
    """
    if isinstance(geocodes, str | bytes) or not isinstance(geocodes, Iterable):
        raise GeographyError(f"an area is {geocodes!r}, wanted a list of geocodes, such as ['44007'].")
    found = geocodes if isinstance(geocodes, pl.Series) else _series(list(geocodes))
    if not len(found):
        raise GeographyError("an area has no geocodes, wanted one or more of finest geounits.")
    if found.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise GeographyError(
            f"geocodes are text, got {found.dtype}. Read the column as text, since a number loses leading zeros."
        )
    return found.cast(pl.String).alias("geocode")


def _series(geocodes: list[object]) -> pl.Series:
    if strange := [one for one in geocodes if not isinstance(one, str)]:
        raise GeographyError(
            f"geocodes are text, got {type(strange[0]).__name__}. Read the column as text, since a number loses "
            "leading zeros."
        )
    return pl.Series(geocodes, dtype=pl.String)
