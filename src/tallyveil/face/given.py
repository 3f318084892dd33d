"""Checks of what people give from Python, where another type would be taken for something else."""

from collections.abc import Iterable

import polars as pl

from tallyveil.errors import ConfigError, GeographyError

Geocodes = Iterable[str] | pl.Series
"""Geocodes of finest geounits."""


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


def workers_given(workers: object) -> int | None:
    """A number of threads; None stays None.

    Raises:
        ConfigError: it is no whole number, or below 1.
    """
    if workers is None:
        return None
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ConfigError(
            f"workers is {workers!r}, wanted 1 or more threads, or None for one for each core.",
            code="bad-argument",
        )
    return workers


def number_given(number: object, what: str) -> float:
    """A number.

    Raises:
        ConfigError: it is something else, such as text.
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigError(f"{what} is {number!r}, wanted a number, such as 0.95.", code="bad-argument")
    return number


def text_given(text: object, what: str) -> str:
    """A text.

    Raises:
        ConfigError: it is something else. The message does not show it, because it may be secret.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{what} is of type {type(text).__name__}, wanted text.", code="bad-argument")
    return text


def _series(geocodes: list[object]) -> pl.Series:
    if strange := [one for one in geocodes if not isinstance(one, str)]:
        raise GeographyError(
            f"geocodes are text, got {type(strange[0]).__name__}. Read the column as text, since a number loses "
            "leading zeros."
        )
    return pl.Series(geocodes, dtype=pl.String)
