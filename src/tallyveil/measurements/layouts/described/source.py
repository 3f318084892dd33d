"""Finds the files that a description names, checks their columns, and reads their rows in batches.

Rows of the long form are joined to lists, so that all that follows reads one form. Rows of a geounit may lie in several
batches and files. Rows are kept in memory until all rows of their geounit are read. These are few if the files have
the rows of each geounit together.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import SchemaError, StoreError
from tallyveil.measurements.layouts.described.form import (
    ANSWERS,
    CONSTRAINTS,
    GEOLEVEL,
    QUERY,
    ConstraintRows,
    Form,
)
from tallyveil.printable import present_columns, short_name
from tallyveil.schema.answer_columns import answer_expression
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.addresses import is_object
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.read import (
    UNREADABLE,
    collect,
    collect_below,
    input_digest,
    input_stamp,
    inputs_below,
    is_input,
    is_pattern,
    parquet_metadata,
    read_table,
    scan_parquet,
    scan_text,
    stream_parquet,
)
from tallyveil.storage.write import refuse_unfinished_folder

ROWS_AT_ONCE: Final = 1 << 13
"""Rows of a batch of lists; a row of the redistricting data has up to 2,016 numbers."""
LONG_ROWS_AT_ONCE: Final = 1 << 20
"""Rows of a batch of the long form, each with one number."""
_PARQUET: Final = ".parquet"
_TEXTS: Final = (".csv", ".csv.gz", ".csv.zst")
_BESIDE: Final = (".crc", ".md5", ".sha1", ".sha256", ".sha512")
"""Endings of checksums that lie beside files."""
_WHAT: Final = "noisy measurement"
_IN_WORDS: Final = {
    "text": "text",
    "lists": "lists of whole numbers",
    "whole": "whole numbers",
    "numbers": "numbers",
}
_AS: Final[Mapping[str, type[pl.DataType] | pl.DataType]] = {
    "text": pl.String,
    "lists": pl.List(pl.Int64),
    "whole": pl.Int64,
    "numbers": pl.Float64,
}
GEOCODE: Final = "geocode"
NAME: Final = "query_name"
VALUE: Final = "value"
VARIANCE: Final = "variance"
SIGN: Final = "sign"


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table.

    Attributes:
        path: The file.
        query: The name of the query that its path has; None where a column has it.
    """

    path: Path
    query: str | None

    @property
    def is_text(self) -> bool:
        """Whether it is a CSV file, whose columns are all text."""
        return self.path.suffix != _PARQUET


@dataclass(frozen=True)
class SourceFiles:
    """The files of a folder. Their columns are known to be those that are read.

    Attributes:
        root: The folder.
        form: What the description says of them.
        schema: The universe of their queries.
        geolevels: Those that the folder has, root first.
        files: The files of each geolevel and table, sorted by path.
        protected: False where a file says that its noise came from a test key.
        measured_by: The runs that drew the noise, sorted; empty where no file names one.
        stamps: What tells each file from another in its place (`input_stamp`), before anything in it was read.
    """

    root: Path
    form: Form
    schema: Schema
    geolevels: tuple[str, ...]
    files: Mapping[tuple[str, str], tuple[TableFile, ...]]
    protected: bool
    measured_by: tuple[str, ...]
    stamps: Mapping[Path, tuple[object, ...]]

    def place(self, geolevel: str, table: str) -> Path:
        """Where the table of a geolevel is, for messages."""
        pattern = str(self.form.files.pattern(table)).replace(f"{{{GEOLEVEL}}}", geolevel)
        return (
            self.root / pattern.partition(f"{{{QUERY}}}")[0].rpartition("/")[0]
            if QUERY in pattern
            else self.root / pattern
        )

    def has(self, geolevel: str, table: str) -> bool:
        """Whether the table of a geolevel has a file."""
        return bool(self.files.get((geolevel, table)))

    def scan(self, geolevel: str, table: str, columns: Sequence[str]) -> pl.LazyFrame:
        """Some columns of a table by the names of this module. Files may store them in different types of numbers."""
        kinds = self._kinds(table)
        # A table without files has its columns, too, so that queries on it give no rows instead of an error.
        none = pl.LazyFrame(schema={name: _AS[kinds[name]] for name in columns})
        frames = [
            self._scan(item, geolevel, table, columns) for item in self.files.get((geolevel, table), ())
        ]
        return pl.concat([none, *frames])

    def collect(self, frame: pl.LazyFrame, geolevel: str, table: str) -> pl.DataFrame:
        """Run a query on `scan`; raises StoreError."""
        return collect_below(frame, self.place(geolevel, table), _WHAT)

    def lists(self, geolevel: str) -> Iterator[tuple[Path, pl.DataFrame]]:
        """The noisy answers of a geolevel, some thousand rows at a time, each batch with a file that it is from.

        Yields:
            A file; and rows with the columns geocode, query_name, value (the list of all answers, in the order of the
            schema) and variance.
        Raises:
            SchemaError: rows of the long form contradict each other, or name no answer.
            StoreError: a file cannot be read.
        """
        if self.form.answers.form == "long":
            yield from self._joined(geolevel)
            return
        columns = (GEOCODE, NAME, VALUE, VARIANCE)
        for item in self.files.get((geolevel, ANSWERS), ()):
            yield from self._batches(item, geolevel, ANSWERS, columns)

    def rows(
        self, geolevel: str, constraint: ConstraintRows, group: QueryGroup
    ) -> Iterator[tuple[Path, pl.DataFrame]]:
        """The numbers of one constraint, each in a row of its own.

        Yields:
            A file; and rows with the columns geocode, answer, value and sign.
        Raises:
            SchemaError: a row does not have a number for each answer, or names no answer.
            StoreError: a file cannot be read.
        """
        for item in self.files.get((geolevel, CONSTRAINTS), ()):
            if self.form.answers.form == "list":
                columns: tuple[str, ...] = (GEOCODE, NAME, VALUE, SIGN)
            else:
                columns = (GEOCODE, NAME, VALUE, SIGN, *self._attributes)
            for path, batch in self._batches(item, geolevel, CONSTRAINTS, columns):
                rows = batch.filter(self.states(constraint))
                if rows.height:
                    yield path, self._with_answers(path, rows, group)

    def states(self, constraint: ConstraintRows) -> pl.Expr:
        """Whether a row of the table of constraints is one of a constraint."""
        if constraint.name is not None:
            return pl.col(NAME) == constraint.name
        # Without a name of their own, rows have that of the query, and their sign says what they mean.
        return pl.col(NAME).is_in(self._names_of(str(constraint.query))) & (pl.col(SIGN) == constraint.sign)

    def names(self, geolevel: str, table: str) -> set[str | None]:
        """The different names of the rows of a table."""
        frame = self.scan(geolevel, table, [NAME]).unique()
        return set(self.collect(frame, geolevel, table)[NAME])

    def first_with(self, geolevel: str, table: str, columns: Sequence[str], wanted: pl.Expr) -> Path:
        """The first file of a table that has rows of some kind, for a message; raises StoreError."""
        for item in self.files.get((geolevel, table), ()):
            rows = self._scan(item, geolevel, table, columns).filter(wanted).limit(1)
            if collect(rows, item.path, _WHAT).height:
                return item.path
        return self.place(geolevel, table)

    def require_unchanged(self) -> None:
        """Refuse files that were changed since they were found: what was read from them is not what their digest names.

        Raises:
            StoreError: a file was changed, replaced or removed.
        """
        for path, stamp in self.stamps.items():
            if not is_input(path, _WHAT) or input_stamp(path, _WHAT) != stamp:
                raise changed_file(path)

    def digest(self) -> str:
        """SHA-256 of the names and bytes of all files, in hexadecimal."""
        return digest_of(
            {
                path.relative_to(self.root).as_posix(): input_digest(path, _WHAT)
                for path in sorted(self.stamps)
            }
        ).hex()

    def geography(self) -> pl.DataFrame | None:
        """The table of finest geounits, a column for each geolevel of the files; None if there is none.

        Raises:
            ConfigError, StoreError: it is missing or cannot be read, or lacks a geolevel.
        """
        name = self.form.files.geography
        return None if name is None else read_table(self.root / name, self.geolevels, "geography")

    def _names_of(self, query: str) -> list[str]:
        """Names in the files that mean a query, written in any order of its factors."""
        factors = set(query.split("*"))
        known = (
            {
                item.query if item.query is not None else query
                for files in self.files.values()
                for item in files
            }
            | {name for name, _ in self.form.queries}
            | {query}
        )
        return [name for name in known if set((self.form.query_of(name) or "").split("*")) == factors]

    @property
    def _attributes(self) -> dict[str, str]:
        """The column of each attribute in the files, by its name."""
        columns = dict(self.form.columns.labels)
        return {name: columns.get(name, name) for name in self.schema.attribute_names}

    def _kinds(self, table: str) -> dict[str, str]:
        """Columns that are read, by the names of this module, and what they hold."""
        long = self.form.answers.form == "long"
        kinds = {GEOCODE: "text", NAME: "text", VALUE: "whole" if long else "lists"}
        return kinds | ({VARIANCE: "numbers"} if table == ANSWERS else {SIGN: "text"})

    def _named(self, table: str, columns: Iterable[str]) -> dict[str, str]:
        """The columns of the files, by the names of this module."""
        return named_columns(self.form, table, columns) | {
            name: column for name, column in self._attributes.items() if name in columns
        }

    def _scan(self, item: TableFile, geolevel: str, table: str, columns: Sequence[str]) -> pl.LazyFrame:
        frame, kinds = opened_table(item.path), self._kinds(table)
        if not self.form.in_path(table, GEOLEVEL):
            frame = frame.filter(pl.col(self.form.columns.geolevel).cast(pl.String) == geolevel)
        present = set(frame.collect_schema().names())
        wanted = []
        for name, column in self._named(table, columns).items():
            if name in kinds:
                wanted.append(_cast(column, kinds[name], is_text=item.is_text).alias(name))
            elif column in present:
                wanted.append(self._label(name, column))
            # A query that sums an attribute out may have no column of it.
            else:
                wanted.append(pl.lit(None, dtype=pl.String).alias(name))
        if item.query is not None and NAME in columns:
            wanted.append(pl.lit(item.query).alias(NAME))
        return frame.select(wanted).select(list(columns))

    def _label(self, attribute: str, column: str) -> pl.Expr:
        """The labels of an attribute, in the words of the schema."""
        words = dict(dict(self.form.answers.labels).get(attribute, ()))
        text = pl.col(column).cast(pl.String)
        ours = text.replace({theirs: label for label, theirs in words.items()}) if words else text
        return ours.alias(attribute)

    def _batches(
        self, item: TableFile, geolevel: str, table: str, columns: Sequence[str]
    ) -> Iterator[tuple[Path, pl.DataFrame]]:
        rows = LONG_ROWS_AT_ONCE if self.form.answers.form == "long" else ROWS_AT_ONCE
        frame = self._scan(item, geolevel, table, columns)
        for batch in stream_parquet(frame, item.path, _WHAT, rows):
            yield item.path, self._ordered(batch) if VALUE in columns else batch

    def _ordered(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Lists in the order of the schema."""
        if not self.form.answers.order or self.form.answers.form == "long":
            return batch
        parts = []
        for (name,), rows in batch.group_by(NAME, maintain_order=True):
            places = self._order_of(str(name))
            # A list of another length is named later, with its geounit.
            whole = rows[VALUE].list.len() == (0 if places is None else len(places))
            if places is not None and bool(whole.fill_null(False).all()):
                values = rows[VALUE].explode(empty_as_null=False)
                index = (np.arange(rows.height)[:, None] * len(places) + places).ravel()
                moved = values.gather(index).reshape((rows.height, len(places))).cast(pl.List(pl.Int64))
                parts.append(rows.with_columns(moved.alias(VALUE)))
            else:
                parts.append(rows)
        return pl.concat(parts) if parts else batch

    def _order_of(self, name: str) -> Integers | None:
        """For each answer in the order of the schema, its place in the lists of the files."""
        query = self.form.query_of(name)
        stated = next((item.query for item in self.form.constraints if item.name == name), None)
        group = self._group(stated or query)
        if group is None:
            return None
        axes = [self.schema.attribute_names.index(attribute) for attribute in self.form.answers.order]
        shape = [group.shape[axis] for axis in axes]
        # The files number answers along these axes; the schema wants them along its own.
        numbers: Integers = np.arange(group.size, dtype=np.int64).reshape(shape)
        return numbers.transpose(np.argsort(axes)).ravel()

    def _group(self, query: str | None) -> QueryGroup | None:
        """The query of that name; None if the schema has none."""
        return None if query is None else self.schema.known_query(query)

    def _joined(self, geolevel: str) -> Iterator[tuple[Path, pl.DataFrame]]:
        """Rows of the long form as lists."""
        waiting: dict[str, pl.DataFrame] = {}
        groups: dict[str, QueryGroup] = {}
        columns = (GEOCODE, NAME, VALUE, VARIANCE, *self._attributes)
        path = self.root
        for item in self.files.get((geolevel, ANSWERS), ()):
            for path, batch in self._batches(item, geolevel, ANSWERS, columns):
                for (name,), rows in batch.group_by(NAME, maintain_order=True):
                    group = groups.get(str(name)) or self._group(self.form.query_of(str(name)))
                    if group is None:
                        raise changed_file(path)
                    groups[str(name)] = group
                    here = self._with_answers(path, rows, group)
                    before = waiting.get(str(name))
                    both = here if before is None else pl.concat([before, here])
                    of_geounit = pl.len().over(GEOCODE)
                    waiting[str(name)] = both.filter(of_geounit < group.size)
                    whole = both.filter(of_geounit >= group.size)
                    if whole.height:
                        yield path, _listed(path, str(name), whole, group)
        for name, rows in waiting.items():
            if rows.height and self.form.answers.zeros == "present":
                raise bad_row(
                    path,
                    rows[GEOCODE][0],
                    f"and {rows[GEOCODE].n_unique() - 1:,} other(s) lack answers of '{groups[name].name}'. If zeros "
                    'are left out, write zeros = "left out" in [answers] of the description. Otherwise rows are '
                    "missing",
                )
            if rows.height:
                yield path, _listed(path, name, _filled(rows, groups[name].size), groups[name])

    def _with_answers(self, path: Path, rows: pl.DataFrame, group: QueryGroup) -> pl.DataFrame:
        """Rows with the number of the answer that each is of; lists become as many rows as they are long."""
        number = VARIANCE if VARIANCE in rows.columns else SIGN
        if self.form.answers.form == "list":
            lengths = rows[VALUE].list.len()
            flat = rows[VALUE].explode(empty_as_null=False)
            # Before the numbers are spread, which would shift them to other geounits.
            if bool((lengths != group.size).fill_null(True).any()) or flat.null_count():
                raise SchemaError(
                    f"{path}: a row of '{rows[NAME][0]}' does not have {group.size} whole numbers of 64 bits. "
                    "Download the file again.",
                    code="layout-rows",
                )
            geounits = np.repeat(np.arange(rows.height), group.size)
            answers = pl.Series("answer", np.tile(np.arange(group.size), rows.height))
            return pl.DataFrame(
                [rows[GEOCODE].gather(geounits), answers, flat.alias(VALUE), rows[number].gather(geounits)]
            )
        numbered = rows.select(GEOCODE, answer_expression(group), VALUE, number)
        if numbered["answer"].null_count():
            row = int(numbered["answer"].is_null().arg_max() or 0)
            labels = {name: rows[name][row] for name in self._attributes}
            raise bad_row(
                path,
                rows[GEOCODE][row],
                f"has labels that name no answer of '{group.name}': "
                f"{', '.join(f'{name} {short_name(str(label))!r}' for name, label in labels.items())}. Say under "
                "[answers.labels] what the files write for a label; or",
            )
        if numbered[VALUE].null_count():
            row = int(numbered[VALUE].is_null().arg_max() or 0)
            raise bad_row(
                path, rows[GEOCODE][row], f"has no whole number of 64 bits as an answer of '{group.name}'"
            )
        return numbered


def _listed(path: Path, name: str, rows: pl.DataFrame, group: QueryGroup) -> pl.DataFrame:
    """The lists of geounits whose answers are all there."""
    frame = rows.group_by(GEOCODE, maintain_order=True).agg(
        pl.col(VALUE).sort_by("answer"),
        pl.col(VARIANCE).min(),
        pl.col(VARIANCE).max().alias("greatest"),
        pl.col("answer").n_unique().alias("different"),
        pl.len().alias("rows"),
    )
    twice = frame.filter((pl.col("different") != group.size) | (pl.col("rows") != group.size))
    if twice.height:
        raise bad_row(path, twice[GEOCODE][0], f"has noisy answers of '{group.name}' twice")
    uneven = frame.filter(pl.col(VARIANCE) != pl.col("greatest"))
    if uneven.height:
        raise bad_row(
            path,
            uneven[GEOCODE][0],
            f"has answers of '{group.name}' with the variances {uneven[VARIANCE][0]!r} and {uneven['greatest'][0]!r}. "
            "All answers of a query in a geounit have one variance here. Name queries of each variance apart, or",
        )
    return frame.select(GEOCODE, pl.lit(name).alias(NAME), VALUE, VARIANCE)


def _filled(rows: pl.DataFrame, size: int) -> pl.DataFrame:
    """Rows with a 0 for every answer that was left out."""
    first = rows.group_by(GEOCODE, maintain_order=True).agg(pl.col(VARIANCE).first().alias("first"))
    every = first.join(pl.DataFrame({"answer": np.arange(size, dtype=np.int64)}), how="cross")
    numbers = rows.select(GEOCODE, "answer", VALUE, VARIANCE)
    joined = every.join(numbers, on=[GEOCODE, "answer"], how="left", maintain_order="left")
    # Only added rows take the variance of another: `_listed` refuses a geounit with several.
    added = pl.col(VALUE).is_null()
    variance = pl.when(added).then("first").otherwise(VARIANCE).alias(VARIANCE)
    return joined.select(GEOCODE, "answer", pl.col(VALUE).fill_null(0), variance)


def named_columns(form: Form, table: str, columns: Iterable[str]) -> dict[str, str]:
    """The columns of the files that a description names, by the names of this module."""
    stated = form.columns
    every = {GEOCODE: stated.geocode, NAME: stated.query, VALUE: stated.value}
    every |= {VARIANCE: stated.variance} if table == ANSWERS else {SIGN: stated.sign}
    if form.in_path(table, QUERY):
        every.pop(NAME)
    return {name: every[name] for name in columns if name in every}


def find_files(root: Path, form: Form, schema: Schema) -> SourceFiles:
    """Find the files that a description names in a folder, and check their columns.

    Args:
        root: The folder.
        form: What the description says of the files.
        schema: The universe of their queries.
    Raises:
        StoreError: the folder has no tables of the description or those of another product, a table has no file, or a
            file cannot be read or lacks a column.
    """
    # A folder that is still being written may lack files that nobody would miss later.
    if not is_object(root):
        refuse_unfinished_folder(root)
    entries = inputs_below(root)
    for table in form.tables:
        _refuse_foreign(root, form, table, entries)
    files: dict[tuple[str, str], list[TableFile]] = {}
    for table in form.tables:
        pattern = form.pattern(table)
        for path in entries:
            match = pattern.fullmatch(path.relative_to(root).as_posix())
            if match is None or not is_table_file(path):
                continue
            names = {name: unquote(text) for name, text in match.groupdict().items() if text is not None}
            # One file may hold all geolevels; a column then says which.
            geolevels = [names[GEOLEVEL]] if GEOLEVEL in names else list(form.geolevels)
            for geolevel in geolevels:
                files.setdefault((geolevel, table), []).append(TableFile(path, names.get(QUERY)))
    every = {path for items in files.values() for path in (item.path for item in items)}
    geography = form.files.geography
    if geography is not None and is_input(root / geography, _WHAT):
        every.add(root / geography)
    # Before anything is read: a change after this is found by `require_unchanged`.
    stamps = {path: input_stamp(path, _WHAT) for path in sorted(every)}
    tags = [_tags_of(path) for path in stamps if path.name != geography and path.suffix == _PARQUET]
    # One file from a test key is enough to mark the whole folder.
    protected = all(item.get("tallyveil.protected", "true") == "true" for item in tags)
    runs = {run for item in tags for run in item.get("tallyveil.measured_by", "").split()}
    for (_, table), items in files.items():
        for item in items:
            _require_columns(item, form, table)
    source = SourceFiles(
        root,
        form,
        schema,
        form.geolevels,
        {key: tuple(items) for key, items in files.items()},
        protected,
        tuple(sorted(runs)),
        stamps,
    )
    return _with_geolevels(source, entries)


def _with_geolevels(files: SourceFiles, entries: Sequence[Path]) -> SourceFiles:
    """The files with the geolevels that they have."""
    form, root = files.form, files.root
    present = []
    for geolevel in form.geolevels:
        if not any(_has_table(files, geolevel, table, entries) for table in form.tables):
            continue
        # A geolevel whose geounits were all bypassed has no noisy answers, and so may have no file of them. The Census
        # Bureau's constraints list all geounits.
        if form.tabulation and not files.has(geolevel, CONSTRAINTS) and not form.part:
            raise _bad_files(
                f"{files.place(geolevel, CONSTRAINTS)} has no Parquet file. Download the table of constraints of "
                f"{geolevel}, which lists all geounits with their bounds. The noisy answers are in "
                f"{files.place(geolevel, ANSWERS)}."
            )
        present.append(geolevel)
    if not present:
        raise _bad_files(
            f"{root} has no noisy measurements where the description '{form.name}' says. {_wanted(files, entries)}"
        )
    return replace(files, geolevels=tuple(present))


def _has_table(files: SourceFiles, geolevel: str, table: str, entries: Sequence[Path]) -> bool:
    if files.form.in_path(table, GEOLEVEL):
        # A folder without files is there all the same: its files are missing, and not the geolevel.
        return files.has(geolevel, table) or any(
            name == geolevel for name in _geolevels_of(files.root, files.form, table, entries)
        )
    frame = files.scan(geolevel, table, [GEOCODE]).limit(1)
    return files.collect(frame, geolevel, table).height > 0


def _geolevels_of(root: Path, form: Form, table: str, entries: Sequence[Path]) -> Iterator[str]:
    """The names that stand in paths where the description has the geolevel, also of folders without files."""
    if not form.in_path(table, GEOLEVEL):
        return
    parts = str(form.files.pattern(table)).split("/")
    depth = next(place for place, part in enumerate(parts) if f"{{{GEOLEVEL}}}" in part)
    head = "/".join(parts[: depth + 1])
    text = re.escape(head).replace(r"\*", "[^/]*").replace(rf"\{{{GEOLEVEL}\}}", f"(?P<{GEOLEVEL}>[^/]+)", 1)
    pattern = re.compile(re.sub(r"\\\{query\\\}", "[^/]+", text))
    for path in entries:
        match = pattern.fullmatch(path.relative_to(root).as_posix())
        if match is not None:
            yield unquote(match[GEOLEVEL])


def _refuse_foreign(root: Path, form: Form, table: str, entries: Sequence[Path]) -> None:
    foreign = sorted(
        {name for name in _geolevels_of(root, form, table, entries) if name not in form.geolevels}
    )
    if foreign:
        raise _bad_files(
            f"{root} has the geolevel(s) {', '.join(map(short_name, foreign))}; the description '{form.name}' has "
            f"{', '.join(form.geolevels)}. Import the folder with the description of its own product, or move what is "
            "no table of this one out of the folder."
        )


def _wanted(files: SourceFiles, entries: Sequence[Path]) -> str:
    """What the description says, and a folder below that has it."""
    form, root = files.form, files.root
    below = sorted(path for path in entries if path.parent == root and path.is_dir())
    for folder in below:
        inside = sorted(folder.rglob("*"))
        if any(form.pattern(ANSWERS).fullmatch(path.relative_to(folder).as_posix()) for path in inside):
            return f"Name {folder} instead."
    places = " and ".join(str(form.files.pattern(table)) for table in form.tables)
    return f"Wanted: {places}, with the geolevels {', '.join(form.geolevels)}."


def is_table_file(path: Path) -> bool:
    """Whether an entry of a folder of a table is one of its files; raises StoreError for what is there besides.

    What Spark writes beside its files begins with `_` or a dot.
    """
    here = not is_object(path)  # in an object store there are no folders and no links
    if (
        (here and path.is_dir() and not path.is_symlink())
        or path.name.startswith(("_", "."))
        or path.suffix in _BESIDE
    ):
        return False
    # A stray file could hold the rows that are missing elsewhere, so that it is not passed over.
    if not path.name.endswith((_PARQUET, *_TEXTS)) or (here and not path.is_file()):
        raise _bad_files(
            f"{path} is no Parquet file and no CSV file. Move it out of the folder of the table. If it is a link, put "
            "in its place what it leads to: links to folders are not followed."
        )
    return True


def changed_file(path: Path) -> StoreError:
    """The error for a file that is not what it was when it was opened."""
    return _bad_files(
        f"{path} was changed while it was read. Do not change the files while they are imported, and run the command "
        "again with another --out."
    )


def bad_row(path: Path, geocode: str, what: str) -> SchemaError:
    """The error for a row that is not what the description says."""
    return SchemaError(
        f"{path}: the row of geounit {geocode!a:.60} {what}. Download the file again.", code="layout-rows"
    )


def unreadable_file(path: Path, error: BaseException) -> StoreError:
    """The error for a file that is damaged."""
    kind = "Parquet" if path.suffix == _PARQUET else "CSV"
    return _bad_files(
        f"{path} cannot be read as {kind}: {type(error).__name__}. It is damaged or cut short, or it is another "
        "kind of file. Compare its size with the one at its source, and fetch it again if they differ."
    )


def _tags_of(path: Path) -> dict[str, str]:
    """The metadata of a Parquet file."""
    try:
        return parquet_metadata(path)
    except UNREADABLE as error:
        raise unreadable_file(path, error) from None


def _require_columns(item: TableFile, form: Form, table: str) -> None:
    path = item.path
    try:
        schema = opened_table(path).collect_schema()
    except UNREADABLE as error:
        raise unreadable_file(path, error) from None
    long = form.answers.form == "long"
    kinds = {
        GEOCODE: "text",
        NAME: "text",
        VALUE: "whole" if long else "lists",
        VARIANCE: "numbers",
        SIGN: "text",
    }
    wanted = {column: kinds[name] for name, column in named_columns(form, table, kinds).items()}
    if not form.in_path(table, GEOLEVEL):
        wanted[form.columns.geolevel] = "text"
    for name in (*wanted, *(column for _, column in form.columns.labels)):
        if is_pattern(name):
            raise _bad_files(
                f"the description '{form.name}' names the column '{name}', which stands for several columns. Rename it "
                "in the files and in the description."
            )
    for name, kind in wanted.items():
        if name not in schema:
            raise _bad_files(
                f"{path} has no column '{name}'. A table of {table} has {', '.join(wanted)} by the description "
                f"'{form.name}'. {present_columns(schema.names(), list(wanted))} Name a folder with these columns, or "
                "say under [columns] how they are named."
            )
        if not item.is_text and not _is_kind(schema[name], kind):
            raise _bad_files(
                f"column '{name}' of {path} holds {schema[name]}, wanted {_IN_WORDS[kind]}. Use the file as it was "
                "published, or write the column as the description has it."
            )


def _is_kind(dtype: pl.DataType, kind: str) -> bool:
    if kind == "text":
        return dtype in (pl.String, pl.Categorical, pl.Enum)
    if kind == "numbers":
        return dtype.is_numeric()
    if kind == "whole":
        return dtype.is_integer()
    return isinstance(dtype, pl.List | pl.Array) and dtype.inner.is_integer()


def _cast(column: str, kind: str, *, is_text: bool) -> pl.Expr:
    """A column in the type that is read; null where it is no number of this type."""
    given = pl.col(column)
    if not is_text:
        # Unsigned numbers may be above every int64; they become null, too, and are refused in words as such.
        return given.cast(_AS[kind], strict=False)
    if kind == "text":
        # The root may have an empty geocode, which text files write as nothing.
        return given.fill_null("")
    if kind == "lists":
        numbers = given.str.strip_chars("[](){} ").str.split(",")
        return numbers.list.eval(pl.element().str.strip_chars(" ").cast(pl.Int64, strict=False))
    return given.str.strip_chars(" ").cast(_AS[kind], strict=False)


def opened_table(path: Path) -> pl.LazyFrame:
    """A Parquet or CSV file, lazily; the columns of a CSV file are text."""
    if path.suffix == _PARQUET:
        return scan_parquet(path)
    # Of a compressed file, the header line cannot be looked at before it is read.
    return scan_text(path, None if path.suffix == ".csv" else ",")


def _bad_files(what: str) -> StoreError:
    return StoreError(what, code="layout-files")
