"""Finds the files of the layout, checks their columns, and reads their rows in batches.

The words of the layout (names of tables, geolevels, queries and constraints) are here, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.printable import present_columns
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.read import UNREADABLE, collect, parquet_metadata, scan_parquet, stream_parquet
from tallyveil.storage.write import file_digest, refuse_unfinished_folder

GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
"""Geolevels of the redistricting data, root first."""
ANSWERS: Final = "DPQuery"
CONSTRAINTS: Final = "Constraint"
TABLES: Final = (ANSWERS, CONSTRAINTS)
TOTAL: Final = "total_con"
TOTALS_FILE: Final = "state_totals.csv"
"""Exact totals of States, which the tables of the layout leave out."""
EQUAL: Final = "="
AT_LEAST: Final = ">="
AT_MOST: Final = "<="
STRUCTURAL_ZEROS: Final = {
    "minors_in_nursing": ("nurse_nva_0_con", {"hhgq": "gqNursingTotal", "votingage": "nonvoting"}),
}
"""By structural zero of a schema: the name of its constraint, and what the columns of attributes hold in its rows."""
_DETAILED = "detailed"
_SUMMED = "*"
_SUFFIX = "_dpq"
_JOINT = " * "


def table_folder(geolevel: str, table: str) -> tuple[str, str]:
    """Folder of a table, as two names."""
    return f"{geolevel}.parquet", table


def answer_name(query: str) -> str:
    """The `query_name` of a query's noisy answers."""
    return _JOINT.join(query.split("*")) + _SUFFIX


def queries_by_name(queries: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """For each `query_name` found, the query that it is; none for one that is no query.

    The layout orders the factors of a query's name freely. The answers have the order of the schema in any case.
    """
    # Sets of factors, because the layout's order of factors is free.
    known = {frozenset(query.split("*")): query for query in queries}
    named = {
        name: frozenset(part.strip() for part in name.removesuffix(_SUFFIX).split("*"))
        for name in names
        if name.endswith(_SUFFIX)
    }
    return {name: known[factors] for name, factors in named.items() if factors in known}


def lower_name(query: str) -> str:
    """The `query_name` of lower bounds on a query's answers."""
    return f"{query}_total_lb_con"


def upper_name(query: str) -> str:
    """The `query_name` of upper bounds on a query's answers."""
    return f"{query}_total_ub_con"


def attribute_words(group: QueryGroup) -> dict[str, str]:
    """What the columns of attributes hold in the rows of a query: the factor, or "*" where all levels are summed."""
    if group.name == _DETAILED:
        return {factor.attribute: _DETAILED for factor in group.factors}
    return {factor.attribute: factor.name or _SUMMED for factor in group.factors}


def zero_words(schema: Schema, named: Mapping[str, str]) -> dict[str, str]:
    """What the columns of attributes hold in the rows of a structural zero."""
    return {name: named.get(name, _SUMMED) for name in schema.attribute_names}


ROWS_AT_ONCE: Final = 1 << 13
"""Rows of a batch; a row has up to 2,016 numbers."""
_ENDING = ".parquet"
_WHAT = "noisy measurement"
_WANTED: Final[Mapping[str, Mapping[str, str]]] = {
    ANSWERS: {"geocode": "text", "query_name": "text", "value": "lists", "variance": "numbers"},
    CONSTRAINTS: {"geocode": "text", "query_name": "text", "value": "lists", "sign": "text"},
}
"""Columns that are read, by table. A file may have any others."""
_IN_WORDS: Final = {"text": "text", "lists": "lists of whole numbers", "numbers": "numbers"}
_AS: Final[Mapping[str, type[pl.DataType] | pl.DataType]] = {
    "text": pl.String,
    "lists": pl.List(pl.Int64),
    "numbers": pl.Float64,
}


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a folder of the layout. Their columns are known to be those that are read.

    Attributes:
        root: The folder.
        geolevels: Those that the folder has, root first.
        paths: The files of each geolevel and table, sorted.
        protected: False where a file says that its noise came from a test key.
        stamps: Of each file its inode, its size and the time of its last change, before anything in it was read.
    """

    root: Path
    geolevels: tuple[str, ...]
    paths: Mapping[tuple[str, str], tuple[Path, ...]]
    protected: bool
    stamps: Mapping[Path, tuple[int, int, int]]

    def scan(self, geolevel: str, table: str, columns: Sequence[str]) -> pl.LazyFrame:
        """Some columns of a table. Files may store them in different types of numbers."""
        # A table without files has its columns, too, so that queries on it give no rows instead of an error.
        none = pl.LazyFrame(schema={name: _AS[_WANTED[table][name]] for name in columns})
        return pl.concat([none, *(_scan(path, table, columns) for path in self.paths[geolevel, table])])

    def collect(self, frame: pl.LazyFrame, geolevel: str, table: str) -> pl.DataFrame:
        """Run a query on `scan`; raises StoreError."""
        return collect(frame, self.root.joinpath(*table_folder(geolevel, table)), _WHAT)

    def batches(
        self, geolevel: str, table: str, only: str | None = None
    ) -> Iterator[tuple[Path, pl.DataFrame]]:
        """The rows of a table, a few thousand at a time, each batch with the file that it is from.

        Args:
            geolevel: Geolevel of the table.
            table: Name of the table.
            only: The one `query_name` that is wanted; None for all.
        Raises:
            StoreError: a file cannot be read.
        """
        for path in self.paths[geolevel, table]:
            frame = _scan(path, table, tuple(_WANTED[table]))
            wanted = frame if only is None else frame.filter(pl.col("query_name") == only)
            for batch in stream_parquet(wanted, path, _WHAT, ROWS_AT_ONCE):
                yield path, batch

    def require_unchanged(self) -> None:
        """Refuse files that were changed since they were found: what was read from them is not what their digest names.

        Raises:
            StoreError: a file was changed, replaced or removed.
        """
        # Inode, size and time catch a file that was replaced or rewritten, without reading it again.
        for path, stamp in self.stamps.items():
            if not path.is_file() or _stamp(path) != stamp:
                raise changed_file(path)

    def digest(self) -> str:
        """SHA-256 of the names and bytes of all files, in hexadecimal."""
        every = sorted(path for paths in self.paths.values() for path in paths)
        return digest_of({path.relative_to(self.root).as_posix(): file_digest(path) for path in every}).hex()


def find_files(root: Path) -> SourceFiles:
    """Find the files of the layout in a folder, and check their columns.

    Raises:
        StoreError: the folder has no tables of the layout or those of another product, a table has no file, or a file
            cannot be read or lacks a column.
    """
    # A folder that is still being written may lack files that nobody would miss later.
    refuse_unfinished_folder(root)
    geolevels = _geolevels(root)
    paths = {(geolevel, table): _files(root, geolevel, table) for geolevel in geolevels for table in TABLES}
    # Before anything is read: a change after this is found by `require_unchanged`.
    stamps = {path: _stamp(path) for files in paths.values() for path in files}
    protected = True
    for (_, table), files in paths.items():
        for path in files:
            # One file from a test key is enough to mark the whole folder.
            protected &= _is_protected(path)
            _require_columns(path, table)
    return SourceFiles(root, geolevels, paths, protected, stamps)


def changed_file(path: Path) -> StoreError:
    """The error for a file that is not what it was when it was opened."""
    return _bad_files(
        f"{path} was changed while it was read. Do not change the files while they are imported, and run the command "
        "again with another --out."
    )


def _geolevels(root: Path) -> tuple[str, ...]:
    """Geolevels that have a folder, root first."""
    names = [entry.name for entry in root.iterdir()] if root.is_dir() else []
    tables = sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    if not tables:
        below = [
            name
            for name in sorted(names)
            if root.joinpath(name, table_folder(GEOLEVELS[-1], ANSWERS)[0]).is_dir()
        ]
        hint = f" Name {root / below[0]} instead." if below else ""
        raise _bad_files(
            f"{root} has no folder of a geolevel; wanted {', '.join(name + _ENDING for name in GEOLEVELS)}, each "
            f"with the folders {' and '.join(TABLES)}.{hint}"
        )
    if foreign := [name for name in tables if name not in GEOLEVELS]:
        raise _bad_files(
            f"{root} has the geolevel(s) {', '.join(foreign)}; the redistricting data have {', '.join(GEOLEVELS)}. "
            "Other products of 2020 have other geolevels, and cannot be imported. Move what is no table of the "
            "redistricting data out of the folder."
        )
    return tuple(name for name in GEOLEVELS if name in tables)


def _files(root: Path, geolevel: str, table: str) -> tuple[Path, ...]:
    """The Parquet files of a table, at any depth. What Spark writes beside them begins with `_` or a dot.

    A geolevel whose geounits were all bypassed has no noisy answers, and so may have no file of them.
    """
    folder = root.joinpath(*table_folder(geolevel, table))
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if (path.is_symlink() or not path.is_dir()) and not path.name.startswith(("_", "."))
    ]
    # A stray file could hold the rows that are missing elsewhere, so that it is not passed over.
    if other := [path for path in paths if path.suffix != _ENDING or not path.is_file()]:
        raise _bad_files(
            f"{other[0]} is no Parquet file. Move it out of the folder of the table. If it is a link, put in its place "
            "what it leads to: links to folders are not followed."
        )
    if not paths and table == CONSTRAINTS:
        raise _bad_files(
            f"{folder} has no Parquet file. Download the table {table} of {geolevel}, which lists all geounits with "
            f"their bounds. The noisy answers are in {ANSWERS}."
        )
    return tuple(paths)


def _is_protected(path: Path) -> bool:
    """Whether nothing in a file's metadata says that its noise came from a test key."""
    try:
        tags = parquet_metadata(path)
    except UNREADABLE as error:
        raise _bad_files(
            f"{path} cannot be read as Parquet: {type(error).__name__}. It is damaged or cut short, or it is another "
            "kind of file. Compare its size with the one at its source, and fetch it again if they differ."
        ) from None
    return tags.get("tallyveil.protected", "true") == "true"


def _require_columns(path: Path, table: str) -> None:
    try:
        schema = scan_parquet(path).collect_schema()
    except UNREADABLE as error:
        raise _bad_files(
            f"{path} cannot be read as Parquet: {type(error).__name__}. It is damaged or cut short, or it is another "
            "kind of file. Compare its size with the one at its source, and fetch it again if they differ."
        ) from None
    for name, kind in _WANTED[table].items():
        if name not in schema:
            raise _bad_files(
                f"{path} has no column '{name}'. A table {table} of this layout has {', '.join(_WANTED[table])}. "
                f"{present_columns(schema.names(), _WANTED[table])} Name a folder of this layout; or, if a program "
                "renamed or left out columns, use the files as they were published."
            )
        if not _is_kind(schema[name], kind):
            raise _bad_files(
                f"column '{name}' of {path} holds {schema[name]}, wanted {_IN_WORDS[kind]}. Use the file as it was "
                "published, or write the column as this layout has it."
            )


def _is_kind(dtype: pl.DataType, kind: str) -> bool:
    if kind == "text":
        return dtype in (pl.String, pl.Categorical, pl.Enum)
    if kind == "numbers":
        return dtype.is_numeric()
    return isinstance(dtype, pl.List | pl.Array) and dtype.inner.is_integer()


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _scan(path: Path, table: str, columns: Sequence[str]) -> pl.LazyFrame:
    return scan_parquet(path).select(pl.col(name).cast(_AS[_WANTED[table][name]]) for name in columns)


def _bad_files(what: str) -> StoreError:
    return StoreError(what, code="layout-files")
