"""Random releases of the main product in a random world: spine, strategy, constraints and outputs.

All tables are CSV, because nothing here may start a thread. What is drawn is meant to be valid. A plan may still be
refused, for the rules are many; such a trial shows that the refusal is a good one.
"""

import json
import random
from fractions import Fraction
from math import inf
from typing import Any, TypeAlias

from base_inputs import csv_of
from mutations import toml_value
from random_worlds import World, true_counts

Tables: TypeAlias = dict[str, list[Any]]


def write_world(draw: random.Random, world: World, mechanism: str) -> dict[str, bytes]:
    """All files of a release of a world. The release file is `release.toml`."""
    files: dict[str, bytes] = {}
    release: dict[str, Any] = {"name": "soak"}
    text = [("release", release)]
    text.append(("records", _records(draw, world, files)))
    text.append(("geography", _geography_table(draw, world, files)))
    world.tree = list(world.geolevels)
    spine = _spine(draw, world, files)
    text += spine
    text.append(("schema", _schema(world)))
    queries = _measured(draw, world)
    text += _budget(draw, world, queries, mechanism)
    has_subspace = any(name == "[subspace]" for name, _ in text)
    text += _estimation(draw, world, queries, is_own=has_subspace)
    text += _constraints(draw, world, files, free=not spine)
    text.append(("outputs", _outputs(draw, world, mechanism)))
    files["release.toml"] = document(text)
    return files


def document(tables: list[tuple[str, dict[str, Any]]]) -> bytes:
    """Tables as TOML. The name of a table in brackets is one of an array of tables."""
    lines = []
    for name, table in tables:
        lines.append(f"[{name}]")
        lines += [f"{toml_value(key)} = {toml_value(value)}" for key, value in table.items()]
    return ("\n".join(lines) + "\n").encode()


def _records(draw: random.Random, world: World, files: dict[str, bytes]) -> dict[str, Any]:
    table: dict[str, Any] = {"path": "records.csv"}
    rows = sorted(world.counts.items())
    draw.shuffle(rows)
    if draw.random() < 0.7 or any(count > 1000 for count in world.counts.values()):
        table["count"] = "how many"
    else:
        rows = [(record, 1) for record, count in rows for _ in range(count)]
    columns: Tables = {"geocode": [record[0] for record, _ in rows]}
    for place, one in enumerate(world.attributes, start=1):
        labels = [record[place] for record, _ in rows]
        if one.starts:
            starts = dict(zip(one.levels, one.starts, strict=True))
            labels = [str(starts[label]) for label in labels]
            table.setdefault("numbers", []).append(one.name)
        columns[one.name] = labels
    if "count" in table:
        columns["how many"] = [count for _, count in rows]
    files["records.csv"] = csv_of(columns)
    return table


def _geography_table(draw: random.Random, world: World, files: dict[str, bytes]) -> dict[str, Any]:
    table: dict[str, Any] = {"path": "geography.csv", "geolevels": world.geolevels}
    columns: Tables = {"geocode": world.blocks}
    if draw.random() < 0.3 and 0 not in world.lengths:
        table["parent_columns"] = [f"in {name}" for name in world.geolevels[:-1]]
        for level, name in enumerate(table["parent_columns"]):
            columns[name] = [world.prefix(level, block) for block in world.blocks]
        world.drawn.append("parent columns")
    else:
        table["prefix_lengths"] = world.lengths
    files["geography.csv"] = csv_of(columns)
    if draw.random() < 0.2:
        named = draw.sample(world.blocks, (len(world.blocks) + 1) // 2)
        names: Tables = {
            "geolevel": [world.geolevels[-1]] * len(named),
            "geocode": named,
            "name": [f"Nr. <b>{block}</b>" for block in named],
        }
        files["names.csv"], table["names"] = csv_of(names), "names.csv"
        world.drawn.append("names")
    if draw.random() < 0.15:
        files["blocks.geojson"], table["geometry"] = _shapes(draw, world.blocks), "blocks.geojson"
        world.drawn.append("geometry")
    return table


def _shapes(draw: random.Random, blocks: list[str]) -> bytes:
    """A square for most blocks, in a row."""
    features = []
    for place, block in enumerate(blocks):
        if draw.random() < 0.9 or not features:
            a, b = place / 100, (place + 1) / 100
            ring = [[a, 0.0], [b, 0.0], [b, 0.01], [a, 0.01], [a, 0.0]]
            features.append(
                {
                    "type": "Feature",
                    "properties": {"geocode": block},
                    "geometry": {"type": "Polygon", "coordinates": [ring]},
                }
            )
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


def _spine(draw: random.Random, world: World, files: dict[str, bytes]) -> list[tuple[str, dict[str, Any]]]:
    """At times only children bypassed, groups nearer to places, or a branch for some areas."""
    kind = draw.choice(["", "", "", "", "bypass", "group", "branch", "cut", "entities"])
    depth = len(world.geolevels)
    if not kind or (depth < 2 and kind != "entities") or (kind == "cut" and depth < 3):
        return []
    world.drawn.append(f"spine: {kind}")
    if kind == "bypass":
        return [("spine", {"bypass": True})]
    at = sorted(world.blocks)
    columns: Tables = {"geocode": at}
    for family in ("place", "reserve"):
        name = [draw.choice(["Elm", "Oak"]) if draw.random() < 0.5 else None for _ in at]
        columns[family] = name if any(name) else ["Elm", *name[1:]]
    files["entities.csv"] = csv_of(columns)
    spine: dict[str, Any] = {"entities": "entities.csv", "families": ["place", "reserve"]}
    if kind != "entities" and draw.random() < 0.5:
        spine["bypass"] = True
    steps: dict[str, Any] = {}
    if kind == "group":
        steps = {"kind": "group_by_membership", "families": ["place"], "geolevel": "Grouped"}
        steps |= {"children": world.geolevels[-1], "cutoff": draw.choice([2, 5])}
        world.tree.insert(-1, "Grouped")
    elif kind == "branch":
        level = draw.randrange(depth - 1)
        steps = {"kind": "branch", "family": "reserve", "geolevel": world.geolevels[level], "name": "AIAN"}
        if draw.random() < 0.5:
            steps["parts"] = "Part"
            world.tree.insert(level + 1, "Part")
    elif kind == "cut":
        steps = {
            "kind": "cut_by_entities",
            "families": ["place"],
            "geolevel": world.geolevels[-2],
            "name": "Cut",
        }
        world.tree.insert(-1, "Cut")
    return [("spine", spine), *([("[spine.steps]", steps)] if steps else [])]


def _schema(world: World) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": "drawn",
        "attributes": [{"name": one.name, "levels": list(one.levels)} for one in world.attributes],
    }
    if world.recodes:
        table["recodes"] = [
            {"name": one.name, "attribute": one.attribute, "groups": one.groups}
            | ({"overlapping": True} if one.overlapping else {})
            for one in world.recodes
        ]
    if world.zeros:
        table["structural_zeros"] = [{"name": name, "cells": cells} for name, cells in world.zeros.items()]
    return table


def _measured(draw: random.Random, world: World) -> list[str]:
    """The queries that are measured: some of all, and mostly the cells themselves."""
    known = world.queries()
    chosen = draw.sample(known, draw.randint(1, min(3, len(known))))
    chosen += [one.name for one in world.recodes if one.overlapping and draw.random() < 0.5]
    if draw.random() < 0.85:
        chosen.append("detailed")
    full = "*".join(one.name for one in world.attributes)
    if "detailed" in chosen and full in chosen:
        chosen.remove(full)  # both names are of one query
    return list(dict.fromkeys(chosen))


def shares(draw: random.Random, names: list[str]) -> dict[str, str]:
    """Fractions that sum to one."""
    parts = [draw.choice([1, 1, 2, 3, 7]) for _ in names]
    return {name: str(Fraction(part, sum(parts))) for name, part in zip(names, parts, strict=True)}


def _budget(
    draw: random.Random, world: World, queries: list[str], mechanism: str
) -> list[tuple[str, dict[str, Any]]]:
    unit = "rho" if mechanism == "discrete_gaussian" else "epsilon"
    spent = Fraction(draw.choice(["1/2", "1", "3", "20", "7/3"]))
    privacy = {"neighbours": draw.choice(["bounded", "unbounded"]), "mechanism": mechanism}
    lattice = Fraction(1, 8) if unit == "rho" and draw.random() < 0.1 else Fraction(0)
    text = [
        ("privacy", privacy | {unit: str(spent + lattice)}),
        ("strategy", {unit: str(spent)}),
        ("strategy.geolevels", shares(draw, world.tree)),
        ('strategy.queries."*"', shares(draw, queries)),
    ]
    if draw.random() < 0.2:
        other = draw.choice(world.tree)
        text.append((f"strategy.queries.{json.dumps(other)}", shares(draw, queries)))
    if lattice and world.tree == world.geolevels and len(world.geolevels) > 1:
        table = {"query": "total", "geolevel": world.geolevels[1], "rho": str(lattice)}
        text.append(("[subspace]", table))
        world.drawn.append("subspace")
    return text


def _estimation(
    draw: random.Random, world: World, queries: list[str], *, is_own: bool
) -> list[tuple[str, dict[str, Any]]]:
    table: dict[str, Any] = {}
    if draw.random() < 0.4:
        table["values"] = "own" if is_own else draw.choice(["own", "tree"])
    if draw.random() < 0.3:
        table["rounding_target"] = draw.choice(["fraction", "nearest"])
    if draw.random() < 0.2:
        table["slack"] = draw.choice(["0", "1", "1/3"])
    text = [("estimation", table)] if table else []
    plain = [one for one in queries if one not in {r.name for r in world.recodes if r.overlapping}]
    if len(plain) > 1 and draw.random() < 0.4:
        text.append(("estimation.passes", {"*": [[plain[0]], ["*"]]}))
    if draw.random() < 0.3:
        text.append(("estimation.rounding", {"*": [["total"], [world.attributes[0].name, "detailed"]]}))
    return text


def _constraints(
    draw: random.Random, world: World, files: dict[str, bytes], *, free: bool
) -> list[tuple[str, dict[str, Any]]]:
    """Invariants at the root and below, and bounds that the records keep."""
    text: list[tuple[str, dict[str, Any]]] = []
    plain = [one for one in world.queries() if len(one.split("*")) == 1]
    if draw.random() < 0.5:
        level = draw.randrange(len(world.geolevels)) if free else 0
        query = draw.choice(["total", "total", *plain])
        text.append(("[invariants]", {"query": query, "geolevels": [world.geolevels[level]]}))
    if draw.random() < 0.4:
        query, level = draw.choice(plain), draw.choice([len(world.geolevels) - 1, int(world.lengths[0] == 0)])
        files["bounds.csv"] = _bounds(draw, world, query, level)
        table = {"name": "bounded", "query": query, "geolevel": world.geolevels[level]}
        text.append(("[bounds]", table | {"path": "bounds.csv", "missing": "unbounded"}))
    return text


def _bounds(draw: random.Random, world: World, query: str, level: int) -> bytes:
    """Bounds around the true answers of some geounits."""
    names = [] if query == "total" else query.split("*")
    columns: Tables = {"geocode": [], **{name: [] for name in names}, "lower": [], "upper": []}
    for key, count in sorted(true_counts(world, query, level).items()):
        if draw.random() < 0.6:
            for name, value in zip(["geocode", *names], key, strict=True):
                columns[name].append(value)
            lower, upper = (
                draw.choice([0, count // 2, count]),
                draw.choice([None, count, count + 1, 2 * count + 3]),
            )
            columns["lower"].append(lower)
            columns["upper"].append(upper)
            world.bounds.setdefault(query, []).append((*key, lower, inf if upper is None else upper))
    if not columns["geocode"]:
        block = world.prefix(level, world.blocks[0])
        labels = [_label(world, name) for name in names]
        for name, value in zip(columns, [block, *labels, 0, None], strict=True):
            columns[name].append(value)
    return csv_of(columns)


def _label(world: World, name: str) -> str:
    recode = next((one for one in world.recodes if one.name == name), None)
    if recode is not None:
        return next(iter(recode.groups))
    return next(one.levels[0] for one in world.attributes if one.name == name)


def _outputs(draw: random.Random, world: World, mechanism: str) -> dict[str, Any]:
    known = [*world.queries(), *(one.name for one in world.recodes if one.overlapping)]
    table: dict[str, Any] = {"tables": draw.sample(known, draw.randint(1, min(4, len(known))))}
    table["measurements"] = draw.choice(["full", "full", "small", "support", "none"])
    table["microdata"] = draw.random() < 0.7
    if (
        mechanism == "discrete_gaussian"
        and table["measurements"] in ("full", "small")
        and draw.random() < 0.5
    ):
        table["intervals"] = draw.choice(["0.95", "0.9", "0.5"])
    if any(one in ("spine: group", "spine: branch", "spine: cut", "spine: entities") for one in world.drawn):
        table["entities"] = draw.sample(["place", "reserve"], draw.randint(0, 2))
    return table
