"""What the columns of a measurement file must be. Files of a stranger's release may hold anything."""

from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.storage.json_files import damaged

_WHOLE: Final = (pl.List(pl.Int32), pl.List(pl.Int64))
_RESTORE: Final = "Restore the file from a copy of the release."


def require_part(path: Path, frame: pl.DataFrame) -> None:
    """Refuse a part whose columns are not those of the layout, or that lacks a value.

    Args:
        path: The file.
        frame: Its content: `geocode`, `values`, `variance`, and `answers` if only the answers on the support are kept.
    Raises:
        StoreError: a column is missing or has another type, a value is missing, or a geounit has other numbers of
            answers and of values.
    """
    kinds = frame.schema
    lists = [name for name in ("values", "answers") if name in kinds]
    fits = kinds.get("geocode") == pl.String and kinds.get("variance") == pl.Float64 and "values" in lists
    if not fits or any(kinds[name] not in _WHOLE for name in lists):
        raise _damaged(path, "the columns geocode, values and variance, and their types")
    lengths = frame.select(pl.col(lists).list.len())
    whole = frame.select(pl.col(lists).list.drop_nulls().list.len())
    if any(frame[name].null_count() for name in frame.columns) or not lengths.equals(whole):
        raise _damaged(path, "a value")
    if "answers" in lists and not (lengths["values"] == lengths["answers"]).all():
        raise _damaged(path, "a value for each answer")
    if not frame["variance"].is_finite().all() or not (frame["variance"] > 0).all():
        raise _damaged(path, "a variance")


def _damaged(path: Path, place: str) -> StoreError:
    return damaged(path, place, _RESTORE)
