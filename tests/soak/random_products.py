"""Random jobs of every product: the files, the commands that make the release, and those that read it afterwards."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base_inputs import csv_of
from loading import module_of
from random_releases import document, shares, write_world
from random_worlds import LARGE, World, draw_world

TESTS = Path(__file__).parents[1]
KEY = ("--insecure-test-key", "soak")
Command = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A command that makes a folder, and can be given again after an interruption.

    Attributes:
        command: Without the flags that choose where the work is done.
        out: Name of the folder.
        has_workers: Whether it takes `--workers`.
        has_executor: Whether it takes `--executor`, too.
    """

    command: Command
    out: str
    has_workers: bool = False
    has_executor: bool = False


@dataclass(frozen=True)
class Job:
    """What one trial does.

    Attributes:
        product: Name of what is released.
        files: Content by name.
        steps: What makes folders, in order.
        before: Commands that make the inputs.
        after: Commands that read a finished folder, each with its output, if it has one.
        world: What the release is of, if its counts are checked.
    """

    product: str
    files: dict[str, bytes]
    steps: tuple[Step, ...]
    before: tuple[Command, ...] = ()
    after: tuple[tuple[Command, str | None], ...] = ()
    world: World | None = None
    drawn: list[str] = field(default_factory=list)


READ = (("report", "out"), None), (("account", "total", "out"), None)
"""What every product's folder is read by."""


def draw_job(draw: random.Random) -> Job:
    """One job of some product."""
    return draw.choices(list(PRODUCTS.values()), [weight for weight, _ in WEIGHTED])[0](draw)


def _run(release: str = "release.toml") -> Step:
    return Step(("run", release, "--out", "out", *KEY), "out", has_workers=True, has_executor=True)


def _after(
    draw: random.Random, world: World, files: dict[str, bytes]
) -> tuple[tuple[Command, str | None], ...]:
    """Some of the commands that read a release of the main product."""
    known: list[tuple[Command, str | None]] = [
        (("intervals", "out", "--workers", "1"), "out"),  # first, because it adds what others read
        (("publish", "csv", "out", "--out", "csv"), "csv"),
        (("explore", "out", "--out", "site"), "site"),
        (("intervals", "out", "--district", "district.csv", "--json"), None),
        (("status", "out"), None),
    ]
    if "geometry" in world.drawn and b'"total"' in files["release.toml"].partition(b'"tables"')[2]:
        level, query = ("--geolevel", world.geolevels[-1]), ("--tables", "total")
        known.append(
            (("publish", "geoparquet", "out", *level, *query, "--out", "map.parquet"), "map.parquet")
        )
    return (*READ, *(known[place] for place in sorted(draw.sample(range(len(known)), 2))))


def _topdown(draw: random.Random, mechanism: str = "") -> Job:
    mechanism = mechanism or draw.choice(["discrete_gaussian", "discrete_gaussian", "discrete_laplace"])
    world = draw_world(draw, canary=draw.random() < 0.3)
    files = write_world(draw, world, mechanism)
    world.drawn.append(mechanism)
    part = draw.sample(world.blocks, (len(world.blocks) + 1) // 2)
    files["district.csv"] = csv_of({"geocode": part})
    return Job("topdown", files, (_run(),), after=_after(draw, world, files), world=world, drawn=world.drawn)


def _measured(draw: random.Random) -> Job:
    """The two halves of a run. The first has no executor."""
    made = _topdown(draw)
    text = made.files["release.toml"]
    for kind in (b"small", b"support", b"none"):
        text = text.replace(b'"measurements" = "' + kind + b'"', b'"measurements" = "full"')
    measure = Step(("measure", "release.toml", "--out", "measured", *KEY), "measured", has_workers=True)
    estimate = Step(("estimate", "measured", "--out", "out"), "out", has_workers=True)
    return Job(
        "measure and estimate",
        made.files | {"release.toml": text},
        (measure, estimate),
        after=made.after,
        world=made.world,
        drawn=made.drawn,
    )


def _programme(draw: random.Random) -> Job:
    """Two releases of the same people, of which the second may agree with the first."""
    made = _topdown(draw, "discrete_gaussian")
    text = made.files["release.toml"]
    agree, drawn = b"", made.drawn
    if draw.random() < 0.6:
        agree, drawn = (
            b'\n[[agreement]]\nname = "first"\nquery = "total"\ntheirs = "total"\n',
            [*drawn, "agree"],
        )
    names = ("first", "second")
    tables: list[tuple[str, dict[str, Any]]] = [("programme", {"name": "soak"})]
    tables += [("[releases]", {"name": name, "file": f"{name}.toml"}) for name in names]
    files = {name: content for name, content in made.files.items() if name != "release.toml"}
    files |= {"first.toml": text, "second.toml": text + agree, "programme.toml": document(tables)}
    return Job("programme", files, (_run("programme.toml"),), after=READ, world=made.world, drawn=drawn)


def _preset(draw: random.Random) -> Job:
    """A made-up country under a preset of the library."""
    schema = draw.choice(["race-age", "pl94-units", "pl94-persons"])
    blocks, seed = str(draw.randint(1, 40)), str(draw.randrange(1000))
    synth = ("synth", "--schema", schema, "--blocks", blocks, "--seed", seed, "--out", "made", "--quiet")
    if draw.random() < 0.2:
        synth = (*synth, "--geometry")
    after: tuple[tuple[Command, str | None], ...] = READ
    if schema == "pl94-persons":
        after = (*READ, (("publish", "pl94", "out", "--out", "pl94", "--csv"), "pl94"))
    return Job("preset", {}, (_run("made/release.toml"),), (synth,), after, drawn=[schema])


def _dhc(draw: random.Random) -> Job:
    """The four releases of a made-up programme of the DHC, which may agree."""
    synth: Command = (
        "synth",
        "--schema",
        "dhc",
        "--blocks",
        str(draw.randint(5, 25)),
        "--out",
        "made",
        "--quiet",
    )
    flags = draw.choice([(), ("--agree",), ("--agree", "--sizes", "tract"), ("--agree", "--sizes", "block")])
    parts = ("out/dhc-persons", "out/dhc-units")
    publish = (("publish", "dhc", *parts, "--named", "P12,H4", "--out", "dhc"), "dhc")
    return Job(
        "DHC", {}, (_run("made/programme.toml"),), ((*synth, *flags),), (*READ, publish), drawn=list(flags)
    )


def _safetab(draw: random.Random) -> Job:
    toy = module_of(TESTS / "toy_country.py")
    values = toy.config_values(run_pr=draw.random() < 0.3)
    _thin(draw, values, "privacy_budget_p_level")
    if draw.random() < 0.5:
        values["privacy_defn"] = "puredp"
    files = _pipes(lambda folder: toy.write_params(folder, **values), "p")
    files |= _pipes(
        lambda folder: toy.write_data(folder, toy.person_rows(draw.choice([0, 40, 300]), draw.randrange(99))),
        "d",
    )
    step = Step(("safetab", "run", "p", "d", "--out", "out", *KEY), "out")
    return Job("safetab", files, (step,), after=READ, drawn=[values["privacy_defn"]])


def _households(draw: random.Random) -> Job:
    toy = module_of(TESTS / "toy_country.py")
    homes = module_of(TESTS / "system" / "test_safetab_households.py")
    values = homes.config(run_pr=False)
    _thin(draw, values, "privacy_budget_h_")
    persons = toy.person_rows(draw.choice([20, 200]), draw.randrange(99))
    rows = [(*row[3:7], row[7], *row[8:16], row[16], "1", "2") for row in persons]
    totals = [
        (*group, str(draw.choice([0, 80, 5000])))
        for group in sorted(toy.slow_tabulation(persons, toy.US).groups)
    ]

    def data(folder: Path) -> None:
        toy.write_data(folder, [])
        (folder / "person-records.txt").unlink()
        toy.pipe(folder / "household-records.txt", homes.HEADER, rows)
        toy.pipe(folder / "pop-group-totals.txt", homes.T1_HEADER, totals)

    files = _pipes(toy.write_params, "p") | _pipes(data, "d")
    files["p/config.json"] = json.dumps(values).encode()
    step = Step(("safetab", "households", "p", "d", "--out", "out", *KEY), "out")
    return Job("safetab-h", files, (step,), after=READ)


def _thin(draw: random.Random, values: dict[str, Any], begin: str) -> None:
    """Take the budget of most levels away, so that a run takes a second."""
    names = sorted(name for name in values if name.startswith(begin) and "_pr_" not in name)
    for name in draw.sample(names, len(names) * 3 // 4):
        values[name] = 0


def _pipes(write: Callable[[Path], object], name: str) -> dict[str, bytes]:
    """The files that a function writes to a folder."""
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        write(folder)
        return {f"{name}/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}


def _groups(draw: random.Random) -> Job:
    """Records of any kind, tabulated by population groups of several levels."""
    places = [f"R{number}" for number in range(draw.choice([1, 2, 5]))]
    codes = [f"C{number}" for number in range(draw.choice([1, 3, 8]))]
    ages = ["0", "15", "65"]
    n = draw.choice([0, 5, 60, 400])
    columns = {
        "sex": draw.choices("FM", k=n),
        "age": draw.choices(ages, k=n),
        "region": draw.choices(places, k=n),
        "d1": draw.choices(codes, k=n),
        "d2": draw.choices(["", *codes], k=n),
    }
    laplace = draw.random() < 0.3
    unit = "epsilon" if laplace else "rho"
    privacy = {
        "mechanism": "discrete_laplace" if laplace else "discrete_gaussian",
        unit: draw.choice(["1", "5/2"]),
    }
    levels = [
        {"name": "all", "by": [], "most_groups": 1, "thresholds": [0, 0]},
        {"name": "places", "by": ["region"], "most_groups": 1, "thresholds": [5, 20]},
        {
            "name": "codes",
            "by": ["code", "region"],
            "most_groups": min(2, len(codes) // 2 + len(codes) % 2),
            "thresholds": [1, 2],
        },
    ]
    chosen = draw.sample(levels, draw.randint(1, 3))
    parts = shares(draw, [str(one["name"]) for one in chosen])
    tables: list[tuple[str, dict[str, Any]]] = [
        ("release", {"name": "groups"}),
        ("privacy", privacy | {"delta": "1e-10", "stage_1_fraction": draw.choice(["1/10", "1/2"])}),
        ("cells", {"unit": "stay", "details": ["sex", "sex * broad"]}),
        ("[cells.attributes]", {"name": "sex", "levels": ["F", "M"]}),
        ("[cells.attributes]", {"name": "age", "levels": ages}),
        (
            "[cells.recodes]",
            {"name": "broad", "attribute": "age", "groups": {"young": ages[:2], "old": ages[2:]}},
        ),
        ("[groupings]", {"name": "region", "columns": ["region"], "groups": places}),
        (
            "[groupings]",
            {"name": "code", "columns": ["d1", "d2"], "path": "codes.csv", "value": "code", "group": "to"},
        ),
        *(("[levels]", one | {"budget": parts[str(one["name"])]}) for one in chosen),
    ]
    used = {name for one in chosen for name in one["by"]}  # type: ignore[attr-defined]
    tables = [(name, table) for name, table in tables if name != "[groupings]" or table["name"] in used]
    files = {"groups.toml": document(tables), "records.csv": csv_of(columns)}
    files["codes.csv"] = csv_of({"code": codes, "to": [code[:1] + str(int(code[1:]) // 2) for code in codes]})
    step = Step(("safetab", "run", "groups.toml", "records.csv", "--out", "out", *KEY), "out")
    return Job("safetab, any records", files, (step,), after=READ, drawn=[unit])


def _subspace(draw: random.Random) -> Job:
    """One table whose margins or sums stay exact."""
    sizes = draw.choice([[2, 2], [3, 3], [3, 4], [2, 3, 2], [5]])
    names = [f"a{place}" for place in range(len(sizes))]
    columns: dict[str, list[Any]] = {name: [] for name in [*names, "n"]}
    cells: list[tuple[int, ...]] = [()]
    for size in sizes:
        cells = [(*cell, level) for cell in cells for level in range(size)]
    for cell in cells:
        for name, level in zip(names, cell, strict=True):
            columns[name].append(f"v{level}")
        columns["n"].append(draw.choice([0, 1, 30, LARGE]))
    constraints: list[tuple[str, dict[str, Any]]] = []
    for name in draw.sample(names, draw.randint(1, min(2, len(names)))):
        if len(names) > 1:
            constraints.append(("[constraints]", {"name": f"margin of {name}", "margin": [name]}))
    if not constraints:
        constraints.append(("[constraints]", {"name": "sum", "cells": {"a0": ["v0", "v1"]}}))
    if draw.random() < 0.6:
        law = {"law": "laplace", "norm": "l1", "epsilon": "0.25", "distance": draw.choice(["2", "4"])}
        privacy = {"epsilon": "1"}
    else:
        law, privacy = {"law": "gaussian", "rho": "1/4", "distance": "2"}, {"rho": "1"}
    tables = [
        ("release", {"name": "table"}),
        ("table", {"path": "table.csv", "count": "n"}),
        *(
            ("[attributes]", {"name": name, "levels": [f"v{i}" for i in range(size)]})
            for name, size in zip(names, sizes, strict=True)
        ),
        *constraints,
        ("privacy", privacy),
        ("mechanism", law),
    ]
    files = {"table.toml": document(tables), "table.csv": csv_of(columns)}
    step = Step(("subspace", "release", "table.toml", "--out", "out", *KEY), "out")
    return Job("subspace", files, (step,), after=READ, drawn=[str(law["law"])])


WEIGHTED: tuple[tuple[int, str], ...] = (
    (56, "topdown"), (12, "measure and estimate"), (8, "programme"), (4, "preset"), (1, "DHC"), (4, "safetab"),
    (3, "safetab-h"), (6, "safetab, any records"), (6, "subspace"),
)  # fmt: skip
"""How often each product is drawn, in percent. Those that take long are drawn rarely."""
_DRAWN = (_topdown, _measured, _programme, _preset, _dhc, _safetab, _households, _groups, _subspace)
PRODUCTS: dict[str, Callable[[random.Random], Job]] = {
    name: made for (_, name), made in zip(WEIGHTED, _DRAWN, strict=True)
}
