"""Random releases of the main product: schema, geography, records, spine, strategy, constraints and outputs.

Everything is drawn from one `random.Random`, and nothing here starts a thread, because the soak forks afterwards. So all
tables are CSV. What is drawn is meant to be valid. A plan may still be refused, for the rules are many; such a trial
shows that the refusal is a good one.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import inf
from typing import Any, TypeAlias

from base_inputs import csv_of
from mutations import toml_value

Record: TypeAlias = tuple[str, ...]
"""Geocode of the finest geounit, then a level of each attribute."""
Tables: TypeAlias = dict[str, list[Any]]

LEVEL_NAMES = ("Land", "Region", "County", "Town", "Quartier", "Block Group", "Straße", "Block")
ATTRIBUTE_NAMES = ("age", "sex", "home", "race 2020", "Größe", "a.b")
LARGE = 75_431
"""A count that stands out. Nothing public can produce it."""


@dataclass(frozen=True)
class Attribute:
    """A name and the levels; `starts` where the levels are ranges of numbers."""

    name: str
    levels: tuple[str, ...]
    starts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Recode:
    """A grouping of the levels of one attribute."""

    name: str
    attribute: str
    groups: dict[str, list[str]]
    overlapping: bool = False


@dataclass
class World:
    """What a release is of, and what of it is checked afterwards.

    Attributes:
        geolevels: Names, root first.
        lengths: Of the prefix of each geolevel.
        blocks: Geocodes of all finest geounits.
        attributes, recodes: The schema.
        zeros: Cells that cannot be, by name.
        counts: True counts by record.
        tree: Geolevels of the tree that results from the spine.
        bounds: By query: geocode, labels, lower and upper bound.
        drawn: What was drawn, in words.
    """

    geolevels: list[str]
    lengths: list[int]
    blocks: list[str]
    attributes: list[Attribute]
    recodes: list[Recode]
    zeros: dict[str, dict[str, list[str]]]
    counts: Counter[Record]
    tree: list[str] = field(default_factory=list)
    bounds: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    drawn: list[str] = field(default_factory=list)

    def prefix(self, level: int, block: str) -> str:
        """Geocode of the geounit that a block lies in."""
        return block[: self.lengths[level]]

    def queries(self) -> list[str]:
        """All queries without overlapping groups, from the total to all attributes."""
        names = [[one.name] for one in self.attributes]
        for place, one in enumerate(self.attributes):
            names[place] += [r.name for r in self.recodes if r.attribute == one.name and not r.overlapping]
        parts = [filter(None, parts) for parts in product(*(["", *some] for some in names))]
        return ["total", *dict.fromkeys("*".join(part) for part in map(list, parts) if part)]

    def answer(self, query: str, record: Record) -> tuple[str, ...] | None:
        """Labels of the answer that counts a record; None where none does."""
        if query == "total":
            return ()
        labels = []
        wanted = [one.name for one in self.attributes] if query == "detailed" else query.split("*")
        for name in wanted:
            recode = next((one for one in self.recodes if one.name == name), None)
            of = name if recode is None else recode.attribute
            level = record[1 + [one.name for one in self.attributes].index(of)]
            if recode is not None:
                level = next((label for label, some in recode.groups.items() if level in some), "")
            if not level:
                return None
            labels.append(level)
        return tuple(labels)


def draw_world(draw: random.Random, *, canary: bool) -> World:
    """A geography, a schema and records."""
    geolevels, lengths, blocks = _geography(draw)
    attributes = _attributes(draw)
    recodes = _recodes(draw, attributes)
    zeros = _zeros(draw, attributes)
    world = World(geolevels, lengths, blocks, attributes, recodes, zeros, Counter())
    _people(draw, world)
    if canary and world.counts:
        world.counts[draw.choice(sorted(world.counts))] += LARGE
    return world


def _geography(draw: random.Random) -> tuple[list[str], list[int], list[str]]:
    """A random tree: deep or shallow, with only children, and often with several roots."""
    depth = draw.choice([1, 2, 2, 3, 3, 3, 4, 5, 7])
    most = draw.choice([3, 12, 30, 60])
    nodes, lengths = [f"{root:02d}" for root in range(draw.choice([1, 1, 1, 2, 3]))], [2]
    for _ in range(depth - 1):
        below = []
        for node in nodes:
            n_children = draw.choice([1, 1, 2, 3, 5, 11])
            if len(below) + n_children > most:
                n_children = 1
            below += [f"{node}{child:02d}" for child in draw.sample(range(100), n_children)]
        nodes, lengths = below, [*lengths, lengths[-1] + 2]
    names = sorted(draw.sample(range(len(LEVEL_NAMES)), depth))
    if depth > 1 and draw.random() < 0.25:  # one root above everything, which has no code
        lengths[0] = 0
    return [LEVEL_NAMES[name] for name in names], lengths, draw.sample(nodes, len(nodes))


def _attributes(draw: random.Random) -> list[Attribute]:
    found = []
    for name in draw.sample(ATTRIBUTE_NAMES, draw.choice([1, 1, 2, 2, 3, 4])):
        n_levels = draw.choice([1, 2, 2, 3, 5]) if found else draw.choice([2, 3, 4, 9])
        if draw.random() < 0.15:
            starts = sorted({0, *draw.sample(range(1, 90), n_levels - 1)})
            ends = [*(one - 1 for one in starts[1:]), None]
            levels = [f"{a}-{b}" if b is not None else f"{a}+" for a, b in zip(starts, ends, strict=True)]
            found.append(Attribute(name, tuple(levels), tuple(starts)))
        else:
            found.append(Attribute(name, tuple(f"{name[0]}{number}" for number in range(n_levels))))
    return found


def _recodes(draw: random.Random, attributes: list[Attribute]) -> list[Recode]:
    found = []
    for number, one in enumerate(attributes):
        if len(one.levels) < 2 or draw.random() < 0.5:
            continue
        cut = draw.randrange(1, len(one.levels))
        groups = {"low": list(one.levels[:cut]), "high": list(one.levels[cut:])}
        overlapping = draw.random() < 0.25
        if overlapping:
            groups["all"] = list(one.levels)
        elif draw.random() < 0.3:
            del groups["high"]  # a recode need not cover all levels
        found.append(Recode(f"coarse{number}", one.name, groups, overlapping))
    return found


def _zeros(draw: random.Random, attributes: list[Attribute]) -> dict[str, dict[str, list[str]]]:
    wide = [one for one in attributes if len(one.levels) > 1]
    if len(wide) < 2 or draw.random() < 0.6:
        return {}
    first, second = draw.sample(wide, 2)
    return {"cannot be": {first.name: [first.levels[-1]], second.name: list(second.levels[1:])}}


def _people(draw: random.Random, world: World) -> None:
    """Records: many blocks are empty, some crowded; at times there is nobody at all."""
    names = [one.name for one in world.attributes]
    cells = [
        cell
        for cell in product(*(one.levels for one in world.attributes))
        if not any(
            all(cell[names.index(name)] in some for name, some in zero.items())
            for zero in world.zeros.values()
        )
    ]
    empty, most = draw.choice([0.0, 0.3, 0.7, 1.0 if draw.random() < 0.1 else 0.5]), draw.choice([3, 30, 400])
    for block in world.blocks:
        if draw.random() >= empty:
            for cell in draw.choices(cells, k=draw.randint(1, 4)):
                world.counts[(block, *cell)] += draw.randint(1, most)


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


def _spine(
    draw: random.Random, world: World, files: dict[str, bytes]
) -> list[tuple[str, dict[str, Any]]]:
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
        steps = {"kind": "cut_by_entities", "families": ["place"], "geolevel": world.geolevels[-2], "name": "Cut"}
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


def true_counts(world: World, query: str, level: int) -> Counter[tuple[str, ...]]:
    """True answers of a query, by geocode and labels."""
    found: Counter[tuple[str, ...]] = Counter()
    for record, count in world.counts.items():
        labels = world.answer(query, record)
        if labels is not None:
            found[(world.prefix(level, record[0]), *labels)] += count
    return found


def _bounds(draw: random.Random, world: World, query: str, level: int) -> bytes:
    """Bounds around the true answers of some geounits."""
    names = [] if query == "total" else query.split("*")
    columns: Tables = {"geocode": [], **{name: [] for name in names}, "lower": [], "upper": []}
    for key, count in sorted(true_counts(world, query, level).items()):
        if draw.random() < 0.6:
            for name, value in zip(["geocode", *names], key, strict=True):
                columns[name].append(value)
            lower, upper = draw.choice([0, count // 2, count]), draw.choice([None, count, count + 1, 2 * count + 3])
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
    if mechanism == "discrete_gaussian" and table["measurements"] in ("full", "small") and draw.random() < 0.5:
        table["intervals"] = draw.choice(["0.95", "0.9", "0.5"])
    if any(one in ("spine: group", "spine: branch", "spine: cut", "spine: entities") for one in world.drawn):
        table["entities"] = draw.sample(["place", "reserve"], draw.randint(0, 2))
    return table
