"""Checks of what people give from Python, where another type would be taken for something else."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.exact import as_given, type_of
from tallyveil.printable import has_bytes, is_one_line
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.runs.executors import WORDS, Where
from tallyveil.runs.observer import Observer
from tallyveil.storage.addresses import addressed, is_object

Geocodes = Iterable[str] | pl.Series
"""Geocodes of finest geounits."""

MOST_WORKERS: Final = 1024
"""Largest number of threads. A system refuses too many of them only when they start, which is after the spend."""


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
    if isinstance(names, str):
        raise ConfigError(
            f"{what} is {as_given(names)}, wanted a list of names. Write {what}=[{as_given(names)}].",
            code="bad-argument",
        )
    # A table gives its columns one after another, whose names nobody means here.
    if (
        isinstance(names, bytes | Mapping)
        or hasattr(type(names), "columns")
        or not isinstance(names, Iterable)
    ):
        raise ConfigError(
            f"{what} is {as_given(names)}, wanted a list of names, such as {what}=['total'].",
            code="bad-argument",
        )
    found = list(names)
    if strange := [one for one in found if not isinstance(one, str)]:
        raise ConfigError(f"{what} holds {type_of(strange[0])}, wanted names as text.", code="bad-argument")
    return found


def geocodes_given(geocodes: object) -> pl.Series:
    """Geocodes of finest geounits as text.

    Raises:
        GeographyError: there are none, or they are not text (a number would have lost its leading zeros), or they are
            a single text, whose letters would be taken for geocodes.
    """
    if isinstance(geocodes, Mapping):
        raise GeographyError(
            "an area is a mapping, wanted a list of geocodes, such as ['44007']. Give the areas of a mapping one by "
            "one: {name: release.district(geocodes) for name, geocodes in areas.items()}."
        )
    if (
        isinstance(geocodes, str | bytes)
        or hasattr(type(geocodes), "columns")
        or not isinstance(geocodes, Iterable)
    ):
        raise GeographyError(
            f"an area is {as_given(geocodes)}, wanted a list of geocodes, such as ['44007']."
        )
    found = geocodes if isinstance(geocodes, pl.Series) else _series(list(geocodes))
    if not len(found):
        raise GeographyError("an area has no geocodes, wanted one or more of finest geounits.")
    if found.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise GeographyError(
            f"geocodes are text, got {found.dtype.base_type()}. Read the column as text, since a number loses leading "
            "zeros."
        )
    return found.cast(pl.String).alias("geocode")


def workers_given(workers: object) -> int | None:
    """A number of threads; None stays None.

    Raises:
        ConfigError: it is no whole number, below 1, or above `MOST_WORKERS`.
    """
    if workers is None:
        return None
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise ConfigError(
            f"workers is {as_given(workers)}, wanted 1 to {MOST_WORKERS:,} threads, or nothing for one for each core.",
            code="bad-argument",
        )
    return workers


def where_given(cluster: object) -> Where:
    """Where the work is done: a cluster, or one of the words that `Where` explains.

    Raises:
        ConfigError: it is anything else.
    """
    if cluster is None or isinstance(cluster, ClusterSettings):
        return cluster
    for word in WORDS:
        if cluster == word:
            return word
    raise ConfigError(
        f"cluster is {as_given(cluster)}, wanted a ClusterSettings, 'threads', 'ray', or nothing for what the release "
        "file says.",
        code="bad-argument",
    )


def path_given(path: object, what: str) -> Path:
    """A path, or the address of an object (`tallyveil.storage.addresses`).

    Raises:
        ConfigError: it is something else, a text that no path can be, or an address that cannot be used.
        StoreError: it has bytes that are no UTF-8, which neither Parquet nor JSON can hold; the system does not look at
            such a path; or it starts from a current folder that was removed.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or not is_one_line(text):
        raise ConfigError(
            f"{what} is {as_given(path)}, wanted a path, as text or as a Path.", code="bad-argument"
        )
    if has_bytes(text):
        raise StoreError(
            f"{what} is {as_given(text)}, which has bytes that are no UTF-8 text. Rename the file or the folder.",
            code="path-not-text",
        )
    given = addressed(text)
    try:
        fixed(given).exists()
    except OSError as error:
        raise StoreError(
            f"{what} is {as_given(text)}, a path that the system refuses: {os.strerror(error.errno or 0)}. Correct it, "
            "or the rights of the folders on it.",
            code="path-refused",
        ) from None
    return given


def fixed(path: Path) -> Path:
    """The path from the root, which leads to the same place when the current folder changes; or an address as it is.

    Raises:
        StoreError: the path starts from the current folder, and that was removed.
    """
    try:
        return path if is_object(path) else path.absolute()
    except FileNotFoundError:
        raise StoreError(
            f"{path} starts from the current folder, which was removed. Change to a folder that exists.",
            code="path-refused",
        ) from None


def name_given(name: object, what: str) -> str:
    """The name of a geolevel or query.

    Raises:
        ConfigError: it is no text.
    """
    if not isinstance(name, str) or not is_one_line(name):
        raise ConfigError(f"{what} is {as_given(name)}, wanted a name as text.", code="bad-argument")
    return name


def flag_given(flag: object, what: str) -> bool:
    """A truth value.

    Raises:
        ConfigError: it is something else. Any text, also "no", would be taken for yes.
    """
    if not isinstance(flag, bool):
        raise ConfigError(f"{what} is {type_of(flag)}, wanted True or False.", code="bad-argument")
    return flag


def observer_given(observer: object) -> Observer | None:
    """An observer; None stays None.

    Raises:
        ConfigError: it lacks a method of observers, which would end the run when the method is called.
    """
    if observer is None:
        return None
    if not isinstance(observer, Observer):
        raise ConfigError(
            f"observer is of type {type(observer).__name__}, which lacks a method of observers. Wanted stage_started, "
            "advanced, stage_finished and warned.",
            code="bad-argument",
        )
    return observer


def count_given(count: object, what: str) -> int:
    """A whole number.

    Raises:
        ConfigError: it is something else.
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise ConfigError(f"{what} is {type_of(count)}, wanted a whole number.", code="bad-argument")
    return count


def number_given(number: object, what: str) -> float:
    """A number.

    Raises:
        ConfigError: it is something else, such as text.
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigError(f"{what} is {type_of(number)}, wanted a number, such as 0.95.", code="bad-argument")
    return number


def _series(geocodes: list[object]) -> pl.Series:
    if strange := [one for one in geocodes if not isinstance(one, str)]:
        raise GeographyError(
            f"geocodes are text, got {type_of(strange[0])}. Read the column as text, since a number loses "
            "leading zeros."
        )
    return pl.Series(geocodes, dtype=pl.String)
