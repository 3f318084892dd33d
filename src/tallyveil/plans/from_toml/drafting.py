"""Drafts the description of a folder of noisy measurements, for a person to go on from.

What paths, columns and values say is written down. What they do not say, such as the groups of a recode or the meaning
of a constraint, is marked as to be filled in.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import polars as pl

from tallyveil.errors import TallyveilError
from tallyveil.measurements.layouts.described.form import ANSWERS, GEOLEVEL, QUERY
from tallyveil.measurements.layouts.described.source import (
    GEOCODE,
    NAME,
    SIGN,
    VALUE,
    VARIANCE,
    find_files,
    is_table_file,
    opened_table,
    unreadable_file,
)
from tallyveil.plans.from_toml.descriptions import Description, packaged_descriptions
from tallyveil.schema.presets import load_preset, preset_names
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import toml_key, toml_value
from tallyveil.storage.read import UNREADABLE, collect, inputs_below, is_pattern

MOST_ROWS: Final = 200_000
"""Rows of a table that are looked at. Twice as many take twice the time, and names that come later are missing in the
draft, as its first line says."""
_SUGGESTED: Final[Mapping[str, tuple[str, ...]]] = {
    GEOCODE: ("geocode", "geoid", "geoid20", "geo_id", "geo", "geounit", "code"),
    GEOLEVEL: ("geolevel", "level", "geo_level", "geography", "summary_level"),
    NAME: ("query_name", "query", "table", "measurement", "question"),
    VALUE: ("value", "values", "noisy", "noisy_count", "count", "estimate", "answer"),
    VARIANCE: ("variance", "var", "noise_variance", "sigma2"),
    SIGN: ("sign", "relation", "operator"),
}
"""Names that columns are often given, in lower case."""
_KEYS: Final = {name: name.partition("_")[0] for name in (GEOCODE, GEOLEVEL, NAME, VALUE, VARIANCE, SIGN)}
_PARTITIONS: Final = {"geolevel": GEOLEVEL, "level": GEOLEVEL, "query": QUERY, "constraint": QUERY}
"""Names of partitions that stand for geolevels and queries."""
_WHAT: Final = "noisy measurement"


@dataclass(frozen=True, slots=True)
class _Table:
    """Files that are written alike.

    Attributes:
        pattern: Their place, as [files] has it.
        columns: The columns that are recognised, by what they hold.
        labels: All other columns of text.
        rows: The first rows of all files, with a column for what their paths say.
    """

    pattern: str
    columns: Mapping[str, str]
    labels: Sequence[str]
    rows: pl.DataFrame


def fitting_description(root: Path) -> Description | None:
    """The description of the package that reads the names of a folder; None if none does.

    Where several do, it is the one with the fewest geolevels that the folder lacks.
    """
    best: tuple[int, Description] | None = None
    for description in packaged_descriptions():
        try:
            files = find_files(root, description.form, description.schema)
            names = {str(name) for geolevel in files.geolevels for name in files.names(geolevel, ANSWERS)}
            if not names:
                continue
            for name in names:
                description.schema.query(description.form.query_of(name) or name)
        # Whatever is wrong with a description, it is not that of the folder.
        except TallyveilError:
            continue
        lacking = len(description.form.geolevels) - len(files.geolevels)
        if best is None or lacking < best[0]:
            best = lacking, description
    return None if best is None else best[1]


def drafted_description(root: Path) -> str:
    """The draft of a description, as text of a TOML file.

    Raises:
        StoreError: a file cannot be read, or the folder has no noisy measurements.
    """
    tables = _tables(root)
    answers = next(
        (table for table in tables if VARIANCE in table.columns and SIGN not in table.columns), None
    )
    if answers is None:
        answers = _Table(f"{{{GEOLEVEL}}}", {}, (), pl.DataFrame())
    constraints = next((table for table in tables if SIGN in table.columns), None)
    is_list = not answers.rows.is_empty() and isinstance(answers.rows.schema[VALUE], pl.List)
    lines = [
        f"# A draft, made of the first {MOST_ROWS:,} rows of each table. docs/descriptions.md says what each key "
        "means.",
        "# Lines with FILL IN are to be completed; all others are to be looked at.",
        "",
        f"name = {toml_value(re.sub('[^A-Za-z0-9 _-]', '-', root.resolve().name) or 'measurements')}",
        f"geolevels = {toml_value(_geolevels(answers))} # root first",
        "",
        *_schema_lines(answers, is_list=is_list),
        "[files]",
        f"answers = {toml_value(answers.pattern)}",
        *([f"constraints = {toml_value(constraints.pattern)}"] if constraints else []),
        '# geography = "geography.csv" # where geocodes do not begin with those of their parents',
        "",
        "[columns]",
        *_column_lines(answers, constraints),
        "",
        "[answers]",
        f'form = "{"list" if is_list else "long"}"',
        *(
            ["# order = [] # FILL IN where lists do not run along the attributes in their order"]
            if is_list
            else []
        ),
        f"names = {toml_value(_names(answers))}",
        "",
        *_constraint_lines(constraints),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _tables(root: Path) -> list[_Table]:
    groups: dict[str, list[tuple[Path, dict[str, str]]]] = {}
    for path in inputs_below(root):
        if path.name.endswith((".parquet", ".csv", ".csv.gz", ".csv.zst")) and is_table_file(path):
            pattern, names = _pattern(root, path)
            groups.setdefault(pattern, []).append((path, names))
    return [_table(pattern, files) for pattern, files in groups.items()]


def _pattern(root: Path, path: Path) -> tuple[str, dict[str, str]]:
    """The place of a file with what its path says, and that."""
    parts, names = [], {}
    *folders, last = path.relative_to(root).parts
    for folder in folders:
        name, _, value = folder.partition("=")
        kind = _PARTITIONS.get(name.lower())
        if value and kind is not None:
            names[kind] = unquote(value)
            parts.append(f"{name}={{{kind}}}")
        elif folder.endswith(".parquet"):
            names[GEOLEVEL] = folder.removesuffix(".parquet")
            parts.append(f"{{{GEOLEVEL}}}.parquet")
        # Other partitions are folders within the table.
        elif value:
            break
        else:
            parts.append(folder)
    if not names and not parts:
        return last, names
    return "/".join(parts), names


def _table(pattern: str, files: Sequence[tuple[Path, dict[str, str]]]) -> _Table:
    frames = []
    columns: dict[str, str] = {}
    labels: dict[str, None] = {}
    for path, names in files:
        frame = opened_table(path)
        try:
            schema = frame.collect_schema()
        except UNREADABLE as error:
            raise unreadable_file(path, error) from None
        lower = {name.lower(): name for name in reversed(schema.names())}
        for kind, suggested in _SUGGESTED.items():
            known = next((lower[name] for name in suggested if name in lower), None)
            if known is not None and not (kind == NAME and QUERY in names):
                columns.setdefault(kind, known)
        others = [
            name
            for name, kind in schema.items()
            if kind == pl.String and name not in columns.values() and not is_pattern(name)
        ]
        labels |= dict.fromkeys(others)
        wanted = [pl.col(column).alias(kind) for kind, column in columns.items() if column in schema]
        rows = collect(frame.select(*wanted, *others).head(MOST_ROWS), path, _WHAT)
        rows = rows.with_columns(pl.lit(value).alias(f"path {name}") for name, value in names.items())
        frames.append(rows)
    return _Table(pattern, columns, tuple(labels), pl.concat(frames, how="diagonal_relaxed"))


def _values(table: _Table, path_name: str, column: str) -> list[str]:
    """The different names of geolevels or queries, from paths or from a column."""
    name = f"path {path_name}" if f"path {path_name}" in table.rows.columns else column
    if name not in table.rows.columns:
        return []
    return [str(value) for value in table.rows[name].drop_nulls().unique(maintain_order=True)]


def _geolevels(table: _Table) -> list[str]:
    """The geolevels, by the number of their geounits."""
    names = _values(table, GEOLEVEL, GEOLEVEL)
    if not names or GEOCODE not in table.rows.columns:
        return names or ["FILL IN"]
    column = f"path {GEOLEVEL}" if f"path {GEOLEVEL}" in table.rows.columns else GEOLEVEL
    sizes = table.rows.group_by(pl.col(column).cast(pl.String).alias("name")).agg(pl.col(GEOCODE).n_unique())
    number = dict(sizes.iter_rows())
    return sorted(names, key=lambda name: (number.get(name, 0), name))


def _names(table: _Table) -> str:
    """How queries are named: what all names end with stands outside."""
    names = _values(table, QUERY, NAME)
    endings = {name[name.rindex("_") :] if "_" in name else "" for name in names}
    # Of one name nobody knows what is an ending, except that of the Census Bureau's files.
    (ending,) = endings if len(endings) == 1 and (len(names) > 1 or "_dpq" in endings) else ("",)
    return f"{{{QUERY}}}{ending}"


def _queries(table: _Table) -> dict[str, int]:
    """The number of answers of each query that is a list; 0 where rows are single answers."""
    ending = _names(table).removeprefix(f"{{{QUERY}}}")
    column = f"path {QUERY}" if f"path {QUERY}" in table.rows.columns else NAME
    if column not in table.rows.columns:
        return {}
    is_list = isinstance(table.rows.schema.get(VALUE), pl.List)
    size = pl.col(VALUE).list.len().first() if is_list else pl.lit(0)
    sizes = table.rows.group_by(pl.col(column).cast(pl.String).alias("name"), maintain_order=True).agg(
        size.alias("n")
    )
    return {
        "*".join(part.strip() for part in str(name).removesuffix(ending).split("*")): int(n)
        for name, n in sizes.iter_rows()
    }


def _schema_lines(table: _Table, *, is_list: bool) -> list[str]:
    queries = _queries(table)
    preset = next((name for name in preset_names() if is_list and _has(load_preset(name), queries)), None)
    if preset is not None:
        return ["[schema]", f"preset = {toml_value(preset)} # has queries of these names and sizes", ""]
    lines = ["[schema]", 'name = "FILL IN"']
    for query, size in queries.items():
        lines.append(f"# {query}: {f'{size:,} answers' if size else 'its rows have labels'}")
    if is_list or not table.labels:
        return [
            *lines,
            "[[schema.attributes]]",
            'name = "FILL IN"',
            'levels = ["FILL IN"] # in the order of the lists',
            "",
        ]
    recodes = []
    column = f"path {QUERY}" if f"path {QUERY}" in table.rows.columns else NAME
    for name in table.labels:
        parts = table.rows.group_by(column, maintain_order=True)
        sets = dict.fromkeys(tuple(dict.fromkeys(part[name].drop_nulls())) for _, part in parts)
        different = [list(labels) for labels in sets if labels]
        if not different:
            continue
        # The finest labels are the levels; coarser ones are groups of these.
        levels = max(different, key=len)
        lines += ["[[schema.attributes]]", f"name = {toml_value(name)}", f"levels = {toml_value(levels)}"]
        for labels in different:
            if labels != levels:
                recodes += [
                    "[[schema.recodes]]",
                    'name = "FILL IN" # as the query is named',
                    f"attribute = {toml_value(name)}",
                ]
                recodes += [
                    "[schema.recodes.groups]",
                    *(f'{toml_key(label)} = ["FILL IN"]' for label in labels),
                ]
    return [*lines, *recodes, ""]


def _has(schema: Schema, queries: Mapping[str, int]) -> bool:
    """Whether a schema has queries of these names, with as many answers."""
    groups = {name: schema.known_query(name) for name in queries}
    return bool(queries) and all(
        group is not None and group.size == queries[name] for name, group in groups.items()
    )


def _column_lines(answers: _Table, constraints: _Table | None) -> list[str]:
    columns = {**(constraints.columns if constraints else {}), **answers.columns}
    in_paths = {GEOLEVEL: f"{{{GEOLEVEL}}}" in answers.pattern, NAME: f"{{{QUERY}}}" in answers.pattern}
    lines = []
    for kind, key in _KEYS.items():
        if kind == SIGN and constraints is None:
            continue
        if kind in columns:
            lines.append(f"{key} = {toml_value(columns[kind])}")
        elif not in_paths.get(kind, False):
            lines.append(f'{key} = "FILL IN"')
    return lines


def _constraint_lines(table: _Table | None) -> list[str]:
    if table is None:
        return []
    lines = [
        '# other_constraints = "ignored" # above [schema], where rows of constraints are not to be used',
        "",
    ]
    column = f"path {QUERY}" if f"path {QUERY}" in table.rows.columns else NAME
    if column not in table.rows.columns or SIGN not in table.rows.columns:
        return lines
    for name, sign in table.rows.select(column, SIGN).unique(maintain_order=True).iter_rows():
        lines += [
            "[[constraints]]",
            f"name = {toml_value(str(name))}",
            f"sign = {toml_value(str(sign))}",
            'query = "FILL IN"',
            '# geolevel = "FILL IN" # where these counts are used; without it, the rows are known and not used',
            "",
        ]
    return lines
