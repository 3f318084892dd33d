"""Random worlds: a geography, a schema, and records of people in it.

Everything is drawn from one `random.Random`, and nothing here starts a thread, because the soak forks afterwards.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

Record: TypeAlias = tuple[str, ...]
"""Geocode of the finest geounit, then a level of each attribute."""

LEVEL_NAMES = ("Land", "Region", "County", "Town", "Quartier", "Block Group", "Straße", "Block")
ATTRIBUTE_NAMES = ("age", "sex", "home", "race 2020", "Größe", "a.b")
LARGE = 75_431
"""A count that stands out. Published counts are it by chance only, where noise is 0."""


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


def true_counts(world: World, query: str, level: int) -> Counter[tuple[str, ...]]:
    """True answers of a query, by geocode and labels."""
    found: Counter[tuple[str, ...]] = Counter()
    for record, count in world.counts.items():
        labels = world.answer(query, record)
        if labels is not None:
            found[(world.prefix(level, record[0]), *labels)] += count
    return found
