"""The tables of SafeTab as data cubes: T1 and T2, T3 and T4, and totals and cells of groups of any records.

A cube holds the groups of one geography, or of one level, whose detail is the same. Its dimensions list the regions and
groups that have a number in it, so that a cube of few groups is small.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.files.cubes.cube import (
    COUNT,
    ESTIMATE,
    ESTIMATE_MARGIN,
    MARGIN,
    Cube,
    Dimension,
    Measure,
    free_name,
    placed,
    status_of,
)
from tallyveil.files.cubes.publication import Published
from tallyveil.files.cubes.words import titled, word
from tallyveil.files.finished import PLAN
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed, read_listed_table
from tallyveil.products.safetab.public.ages import OLDEST, SEXES
from tallyveil.products.safetab.public.group_plan import StatedGroupPlan
from tallyveil.products.safetab.public.plan import StatedSafetabPlan
from tallyveil.products.safetab.public.tables import ANY, group_table_paths
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import schema_from_mapping

_LANGUAGE: Final = "en"
_TOTAL: Final = "_T"
"""Code of a total, as in the code lists of SDMX."""
_WHOLE: Final = "total"
"""Name of the dimension of a level without groupings."""
_COLUMNS: Final = {
    "COUNT": COUNT,
    "MARGIN": MARGIN,
    "ESTIMATE": ESTIMATE,
    "ESTIMATE_MARGIN": ESTIMATE_MARGIN,
}
_REGION, _GROUP, _SEX, _AGE = "REGION_ID", "ITERATION_CODE", "SEX", "AGE"
_KEYS: Final = ("REGION_TYPE", _REGION, _GROUP)
_TITLES: Final = {
    _SEX: "Sex",
    _AGE: "Age",
    "T3_DATA_CELL": "Household type",
    "T4_DATA_CELL": "Tenure",
}
_SEXES: Final = dict(zip(SEXES, ("Male", "Female"), strict=True))
_CELLS: Final = {
    "T3_DATA_CELL": {
        "0": "Total",
        "1": "Family",
        "2": "Married couple",
        "3": "Other family",
        "4": "Other family, male householder",
        "5": "Other family, female householder",
        "6": "Nonfamily",
        "7": "Householder living alone",
        "8": "Householder not living alone",
    },
    "T4_DATA_CELL": {
        "0": "Total",
        "1": "Owned with a mortgage or loan",
        "2": "Owned free and clear",
        "3": "Rented, or occupied without rent",
    },
}


def cubes_of_persons(root: Path, manifest: Manifest) -> Published:
    """T1, and T2 by detail, of every geography of a finished run of SafeTab.

    Args:
        root: Its folder.
        manifest: Content of its `manifest.json`.
    Raises:
        StoreError: a table is missing or was changed.
    """
    plan, cubes = read_listed(root, manifest, PLAN, StatedSafetabPlan), []
    names = {code: name for code, name, *_ in plan["iterations"]}
    t1, t2 = (_joined(root, manifest, f"{table}-") for table in ("t1", "t2"))
    details = t2.join(t1.select(*_KEYS, "DETAIL"), on=_KEYS, how="left", maintain_order="left")
    whole_sex = pl.col("AGESTART") == ANY
    age = pl.when(whole_sex).then(pl.lit(_TOTAL)).otherwise(pl.format("{}-{}", "AGESTART", "AGEEND"))
    for kind in t1["REGION_TYPE"].unique(maintain_order=True):
        of_kind = pl.col("REGION_TYPE") == kind
        cubes.append(_cube(kind, "T1", "people", t1.filter(of_kind), names, {}))
        cells = details.filter(of_kind).with_columns(age.alias(_AGE))
        for detail in cells["DETAIL"].unique(maintain_order=True):
            frame = cells.filter(pl.col("DETAIL") == detail)
            spans = frame.select(_AGE, "AGESTART", "AGEEND").unique(maintain_order=True)
            ages = {code: _age(code, *span) for code, *span in spans.iter_rows()}
            words = {_SEX: _SEXES, _AGE: ages}
            cubes.append(_cube(kind, f"T2 {detail}", "people", frame, names, words))
    return Published({_LANGUAGE: "SafeTab"}, tuple(cubes))


def cubes_of_households(root: Path, manifest: Manifest) -> Published:
    """The sub-tables of T3 and T4 of every geography; arguments and errors are those of `cubes_of_persons`."""
    cubes = []
    for column, cells in _CELLS.items():
        frame = _joined(root, manifest, f"{column[:2].lower()}-")
        for kind, table in frame.select("REGION_TYPE", "TABLE").unique(maintain_order=True).iter_rows():
            rows = frame.filter(pl.col("REGION_TYPE") == kind, pl.col("TABLE") == table)
            used = {code: cells[code] for code in cells if code in set(rows[column])}
            cubes.append(_cube(kind, table, "households", rows, {}, {column: used}))
    return Published({_LANGUAGE: "SafeTab-H"}, tuple(cubes))


def cubes_of_groups(root: Path, manifest: Manifest) -> Published:
    """Totals, and cells by detail, of every level; arguments and errors are those of `cubes_of_persons`."""
    plan = read_listed(root, manifest, PLAN, StatedGroupPlan)
    schema = schema_from_mapping(plan["schema"])
    groups = {grouping["name"]: grouping["groups"] for grouping in plan["groupings"]}
    whole, names = free_name(_WHOLE, groups), dict[str, str]()
    # A grouping may have the name of an attribute: their codes are others.
    for factor in schema.factor_names:
        names[factor] = free_name(factor, {*groups, whole, *names.values()})
    cubes = []
    for level in plan["levels"]:
        totals, cells = (read_listed_table(root, manifest, path) for path in group_table_paths(level["name"]))
        by = [_dimension(name, groups[name], {}, name) for name in level["by"]]
        # A level without groupings has one group.
        by = by or [_dimension(whole, [_TOTAL], {_TOTAL: word(_LANGUAGE, "total")}, whole, title=_WHOLE)]
        codes = {name: pl.Series(groups[name], dtype=pl.String) for name in level["by"]}
        cubes.append(_of_level(level["name"], "total", schema.unit.many, totals, by, codes))
        for detail in cells["DETAIL"].unique(maintain_order=True):
            query = schema.query(detail)
            # The answers of a query are numbered over its factors, as the places of a cube are over its dimensions.
            dimensions = [*by, *_factors(query, names)]
            with_cell = codes | {"CELL": pl.Series(query.labels(), dtype=pl.String)}
            frame = cells.filter(pl.col("DETAIL") == detail)
            cubes.append(_of_level(level["name"], detail, schema.unit.many, frame, dimensions, with_cell))
    return Published({_LANGUAGE: plan["name"]}, tuple(cubes))


def _joined(root: Path, manifest: Manifest, start: str) -> pl.DataFrame:
    """A table of all runs of a release. Their regions differ."""
    paths = [file.path for file in manifest.files if file.path.startswith(start)]
    return pl.concat(read_listed_table(root, manifest, path) for path in paths)


def _age(code: str, start: str, end: str) -> str:
    if code == _TOTAL:
        return word(_LANGUAGE, "total")
    return f"{start} and over" if int(end) == OLDEST else f"{start} to {end}"


def _cube(
    kind: str,
    table: str,
    unit: str,
    frame: pl.DataFrame,
    names: Mapping[str, str],
    words: Mapping[str, Mapping[str, str]],
) -> Cube:
    """A table of regions and iterations, and of what `words` names: for each further column its codes with labels."""
    regions, iterations = (frame[column].unique().sort() for column in (_REGION, _GROUP))
    scope = f"{kind}.{table}."
    dimensions = [
        _dimension(_REGION, regions, {}, scope + _REGION, title=kind, role="geo"),
        _dimension(_GROUP, iterations, names, scope + _GROUP, title="Population group"),
        *(
            _dimension(column, list(labels), labels, scope + column, title=_TITLES[column])
            for column, labels in words.items()
        ),
    ]
    codes = {dimension.name: dimension.codes for dimension in dimensions}
    return _of_level(kind, table, unit, frame, dimensions, codes)


def _of_level(
    geolevel: str,
    table: str,
    unit: str,
    frame: pl.DataFrame,
    dimensions: Sequence[Dimension],
    codes: Mapping[str, pl.Series],
) -> Cube:
    measures = tuple(measure for column, measure in _COLUMNS.items() if column in frame.columns)
    return Cube(
        geolevel=geolevel,
        table=table,
        key=(geolevel, table),
        titles={
            _LANGUAGE: titled(_LANGUAGE, unit, [dimension.titles[_LANGUAGE] for dimension in dimensions])
        },
        unit=unit,
        units={_LANGUAGE: unit},
        notes={
            _LANGUAGE: (word(_LANGUAGE, "noise", units=unit), word(_LANGUAGE, "groups")),
        },
        dimensions=tuple(dimensions),
        measures=measures,
        n_rows=frame.height,
        read=partial(_read, frame, codes, measures),
    )


def _read(
    frame: pl.DataFrame, codes: Mapping[str, pl.Series], measures: Sequence[Measure]
) -> Iterator[pl.DataFrame]:
    columns = {measure: column for column, measure in _COLUMNS.items()}
    # Without the groupings, which may have the names of measures.
    numbers = placed(frame, codes).select(
        "place", "VARIANCE", *(pl.col(columns[measure]).alias(measure.name) for measure in measures)
    )
    yield numbers.with_columns(status_of(pl.col("VARIANCE").sqrt())).drop("VARIANCE")


def _factors(query: QueryGroup, names: Mapping[str, str]) -> list[Dimension]:
    return [
        _dimension(names[factor.name], factor.labels, {}, names[factor.name], title=factor.name)
        for factor in query.factors
        if factor.name is not None
    ]


def _dimension(
    name: str,
    codes: Any,
    labels: Mapping[str, str],
    list_name: str,
    *,
    title: str | None = None,
    role: str = "",
) -> Dimension:
    series = pl.Series(codes, dtype=pl.String)
    shown = pl.Series([labels.get(code, code) for code in series], dtype=pl.String)
    return Dimension(name, list_name, series, {_LANGUAGE: title or name}, {_LANGUAGE: shown}, role)
