"""The Census layout written as files of population groups in records of any kind.

Each run of the Census layout becomes one TOML file, in the form that `tallyveil.products.safetab.public.from_toml`
reads, and public tables that map values of the records to groups:

    us.toml                                 levels, total-only iterations, ladder of details, thresholds and budgets
    us-county.csv                           block, region
    level-2-nationwide-combination.csv      code, iteration

A level set of the Census layout, such as COUNTY 2, becomes a level of the general form. The groups of the level are the
combinations of a region of the geography and an iteration. Three maps lead from a person to iterations: the Alone
iteration that all race codes share, the combination iterations of each race code, and the iteration of the ethnicity
code. The addresses of the noise are those of the Census layout (`tallyveil.products.safetab.public.addresses`). So
the noisy counts of both forms are the same numbers under the same key.

The general form has no place for what the Census layout does beside Algorithms 1 and 2: suppression of small totals,
negative counts raised to 0, the single measurement of regions with the same blocks, and the tables T1 and T2.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Int16s
from tallyveil.products.safetab.public.ages import DETAILS, OLDEST, SEXES
from tallyveil.products.safetab.public.config import NATIONWIDE
from tallyveil.products.safetab.public.files import BLOCK, RECORD_CODES
from tallyveil.products.safetab.public.iterations import Membership, View
from tallyveil.products.safetab.public.plan import LevelSet, RunPlan, SafetabPlan
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_file, write_text

_NATION: Final = "USA"
_BLOCK_DIGITS: Final = 15
"""Digits of a block's number: state 2, county 3, tract 6, block 4. Numbers are padded to it, because a record's
four texts are joined."""

_MATCH: Final = {Membership.ALONE: "all", Membership.COMBINATION: "any", Membership.ETHNICITY: "any"}


def write_general_form(plan: SafetabPlan, regions: Mapping[str, Regions], out: Path) -> list[Path]:
    """Write the runs of a plan as files of population groups, with the tables of their maps.

    Args:
        plan: The plan, from the public files of the Census layout.
        regions: The public geography of each run.
        out: An existing folder.
    Returns:
        The TOML file of each run.
    Raises:
        StoreError: a file cannot be written.
    """
    written = []
    for run in plan.runs:
        regions_of_run = regions[run.run]
        for geography in _geographies(run, regions_of_run):
            _write_table(out, _region_file(run, geography), _region_table(regions_of_run, geography))
        for view in _views(run):
            for kind, frame in _iteration_tables(plan, view):
                _write_table(out, _iteration_file(view, kind), frame)
        path = inside(out, f"{run.run.lower()}.toml")
        write_text(path, "\n".join(_lines(plan, run, regions_of_run)))
        written.append(path)
    return written


def _lines(plan: SafetabPlan, run: RunPlan, regions: Regions) -> Iterator[str]:
    yield f"# The {run.run} run of the Census layout as population groups. Records have one row for each person."
    yield from _table("[release]", {"name": f"safetab-{run.run.lower()}"})
    config = plan.config
    yield from _table(
        "[privacy]",
        {
            "mechanism": config.mechanism.value,
            config.mechanism.budget_unit: str(run.budget),
            "stage_1_fraction": str(config.stage_1_fraction),
        },
    )
    yield from _cells()
    for geography in _geographies(run, regions):
        yield from _table(
            "[[groupings]]",
            {
                "name": geography,
                "columns": [rule.name for rule in BLOCK],
                "match": "joined",
                "path": _region_file(run, geography),
                "value": "block",
                "group": "region",
            },
        )
    for view in _views(run):
        yield from _table("[[groupings]]", {"name": _name(view)})
        for kind, _ in _iteration_tables(plan, view):
            yield from _table("[[groupings.maps]]", _map(plan, view, kind))
    for level_set in run.sets:
        # A geography without regions has no groups, and a grouping must have one.
        if len(regions.ids[level_set.geography]):
            yield from _level(level_set)


def _cells() -> Iterator[str]:
    names = {detail: f"{len(detail.starts)} ages" for detail in DETAILS}
    yield from _table("[cells]", {"details": [f"QSEX * {name}" for name in names.values()]})
    years = [str(year) for year in range(OLDEST + 1)]
    for name, levels in (("QSEX", list(SEXES)), ("QAGE", years)):
        yield from _table("[[cells.attributes]]", {"name": name, "levels": levels})
    for detail, name in names.items():
        groups = {f"{first}-{last}": years[first : last + 1] for first, last in detail.spans}
        yield from _table("[[cells.recodes]]", {"name": name, "attribute": "QAGE", "groups": groups})


def _map(plan: SafetabPlan, view: View, kind: Membership) -> dict[str, Any]:
    """The keys of the map to the iterations of one kind."""
    races = [rule.name for rule in RECORD_CODES[: plan.config.max_race_codes]]
    columns = [RECORD_CODES[-1].name] if kind is Membership.ETHNICITY else races
    return {
        "columns": columns,
        "match": _MATCH[kind],
        "missing": ["Null"],
        "path": _iteration_file(view, kind),
        "value": "code",
        "group": "iteration",
    }


def _level(level_set: LevelSet) -> Iterator[str]:
    name, only = _name(level_set.view), list(level_set.view.codes[level_set.n_adaptive :])
    values = {
        "name": level_set.name,
        "by": [name] if level_set.geography == _NATION else [level_set.geography, name],
        "most_groups": level_set.stability,
        "budget": str(level_set.budget),
        "thresholds": list(level_set.thresholds),
    }
    yield from _table("[[levels]]", values | ({"total_only": {name: only}} if only else {}))
    noise: dict[str, Any] = {"geolevel": level_set.geolevel, "query": level_set.query}
    yield from _table(
        "[levels.noise]", noise | ({} if level_set.geography == _NATION else {"geounit": level_set.geography})
    )


def _region_table(regions: Regions, geography: str) -> pl.DataFrame:
    """Every block and its region, in order of the region. A block in no region comes last."""
    of_block = regions.region_of[geography].astype(np.int64)
    # Groups are numbered as they first occur, and the addresses of the noise must be those of the Census
    # layout: so regions have to come in their own order.
    order = np.argsort(np.where(of_block < 0, len(of_block), of_block), kind="stable")
    # A block in no place has a null region: a value that is known and in no group.
    places = pl.Series(of_block[order])
    return pl.DataFrame(
        {
            "block": pl.Series(regions.blocks[order]).cast(pl.String).str.zfill(_BLOCK_DIGITS),
            "region": regions.names(geography).gather(places.set(places < 0, None)),
        }
    )


def _iteration_tables(plan: SafetabPlan, view: View) -> Iterator[tuple[Membership, pl.DataFrame]]:
    """Every code and its iteration of one kind, for each kind that has iterations."""
    maps = {
        Membership.ALONE: view.alone_of,
        Membership.COMBINATION: view.combination_of,
        Membership.ETHNICITY: view.ethnicity_of,
    }
    for kind, map_of in maps.items():
        # A map without groups would be refused by the reader.
        if any(iteration.membership is kind for iteration in view.iterations):
            yield kind, _iteration_table(plan.files.codes, view, map_of)


def _iteration_table(codes: tuple[str, ...], view: View, map_of: Int16s) -> pl.DataFrame:
    """Codes and iterations."""
    # Codes without an iteration are listed, too, so that records with them are not refused as unknown.
    rows = [(code, view.codes[n] if n >= 0 else None) for code, n in zip(codes, map_of.tolist(), strict=True)]
    return pl.DataFrame(rows, schema={"code": pl.String, "iteration": pl.String}, orient="row")


def _geographies(run: RunPlan, regions: Regions) -> list[str]:
    """Geographies with a budget and with regions, without the nation, which needs no map."""
    # Each geography once, in the order of the sets, however many levels it has.
    named = dict.fromkeys(level_set.geography for level_set in run.sets)
    return [name for name in named if name != _NATION and len(regions.ids[name])]


def _views(run: RunPlan) -> list[View]:
    return list(
        {
            (level_set.level, level_set.geography in NATIONWIDE): level_set.view for level_set in run.sets
        }.values()
    )


def _name(view: View) -> str:
    """Name of a grouping of iterations, which is also a column of the published tables."""
    return f"iteration {view.level}" + ("" if view.nationwide else " below the state")


def _region_file(run: RunPlan, geography: str) -> str:
    base = geography.removeprefix("PR-").lower()
    return f"{run.run.lower()}-{base}.csv"


def _iteration_file(view: View, kind: Membership) -> str:
    where = "nationwide" if view.nationwide else "substate"
    return f"level-{view.level}-{where}-{kind.name.lower()}.csv"


def _write_table(out: Path, name: str, frame: pl.DataFrame) -> None:
    def write(temporary: Path) -> None:
        frame.write_csv(temporary)

    write_file(inside(out, name), write)


def _table(head: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a TOML table."""
    yield ""
    yield head
    for key, value in values.items():
        yield f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    """A text, a whole number, a list or a table in TOML. Texts are quoted as in JSON, which TOML reads alike."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + " }"
    # TOML and JSON quote texts, numbers and lists alike.
    return json.dumps(value)
