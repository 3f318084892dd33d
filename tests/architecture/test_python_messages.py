"""No refusal holds anything of a table that somebody gives to a Python function in the place of something else.

Notebooks print errors, and notebooks are published. Every public function is called with a table of records in the
place of each argument, the other arguments being right. The canary, which stands in every row, must be in no message,
no traceback, no representation and no log.
"""

import inspect
import logging
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.samples import few

import tallyveil
from tallyveil import accounting, analysis, noise, safetab, spine, subspace
from tallyveil.cli.main import main
from tallyveil.errors import TallyveilError
from tallyveil.plans.from_toml.load import release_file_schema

CANARY = "99173310"
ROWS = [{"age": CANARY, "sex": int(CANARY), "n": float(CANARY)}, {"age": CANARY, "sex": 1, "n": 0.5}]


@dataclass(frozen=True)
class Person:
    """A record in a class of somebody's own."""

    age: str


def tables() -> Iterator[tuple[str, Any]]:
    """A table of records in every form that people hold one in."""
    frame = pl.DataFrame(ROWS)
    yield "list of mappings", ROWS
    yield "list of tuples", [tuple(row.values()) for row in ROWS]
    yield "tuple of tuples", tuple(tuple(row.values()) for row in ROWS)
    yield "one row", tuple(ROWS[0].values())
    yield "mapping of lists", {name: [row[name] for row in ROWS] for name in ROWS[0]}
    yield "mapping by record", {CANARY: ROWS[0], int(CANARY): ROWS[1]}
    yield "mapping by name", {CANARY: ROWS[0]}
    yield "polars", frame
    yield "polars, lazy", frame.lazy()
    yield "polars, header lost", frame.rename({"age": CANARY})
    yield "polars column", frame["sex"]
    yield "polars rows", frame.to_struct("rows")
    yield "numpy", np.array([tuple(row.values()) for row in ROWS], dtype=object)
    yield "numpy text", np.array([[CANARY, "1"], [CANARY, "2"]])
    yield "numpy structure", np.array([(CANARY, 1)], dtype=[("age", "U8"), ("sex", "i8")])
    yield "numpy numbers", np.array([[int(CANARY), 1], [2, 3]])
    yield "own class", Person(CANARY)
    yield "own classes", [Person(CANARY)]
    yield "text", f"age,sex\n{CANARY},1\n"
    yield "bytes", f"age,sex\n{CANARY},1\n".encode()
    try:
        import pandas as pd
    except ImportError:
        return
    yield "pandas", pd.DataFrame(ROWS)
    yield "pandas column", pd.DataFrame(ROWS)["sex"]


TABLES = dict(tables())
ROOMS: tuple[ModuleType, ...] = (tallyveil, accounting, analysis, noise, safetab, spine, subspace)


CHOSEN = (
    ".columns",
    ".missing",
    ".groups",
    ".cells",
    ".geolevels",
    ".queries",
    ".queries.*",
    ".passes",
    ".rounding",
    "labels",
)
"""Tables of a release file whose keys are names that its author chooses, and that a refusal names."""
OTHER_ROOMS = tuple(room.__name__.rpartition(".")[2] for room in ROOMS[1:])


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, and every public class that can be called."""
    for room in ROOMS:
        for name in room.__all__:
            function = getattr(room, name)
            if callable(function) and not (
                inspect.isclass(function) and issubclass(function, TallyveilError)
            ):
                yield f"{room.__name__}.{name}", function
            if inspect.isclass(function):
                for method, own in inspect.getmembers(function, inspect.ismethod):
                    if not method.startswith("_"):
                        yield f"{room.__name__}.{name}.{method}", own


@pytest.fixture(scope="module")
def release(tmp_path_factory, make_small_inputs) -> tallyveil.Release:
    folder = tmp_path_factory.mktemp("messages")
    make_small_inputs(folder)
    made = tallyveil.run(folder / "release.toml", folder / "out", insecure_test_key="messages")
    made.add_intervals()
    return made


@pytest.fixture(scope="module")
def sound(release) -> dict[str, Any]:
    """A right value for arguments of each name."""
    event, hierarchy = (
        accounting.DiscreteGaussian(2),
        spine.spine_from_prefixes(["A1", "A2"], ("State", "Block"), (1, 2)),
    )
    lattice = subspace.lattice_of(subspace.ConstraintSystem.from_matrix([[1, 1, 1]], ["total"]))
    return {
        "release": release.path.parent / "release.toml",
        "measurements": release.path,
        "folder": release.path,
        "out": release.path.parent / "nothing",
        "frame": release.table("Region", "total"),
        "event": event,
        "events": (event,),
        "branches": (event,),
        "neighbours": "bounded",
        "guarantee": accounting.compose(event, neighbours="bounded"),
        "epsilon": "1",
        "delta": "1e-6",
        "rho": "1",
        "mu": None,
        "variance": Fraction(2),
        "scale": Fraction(2),
        "total": Fraction(1),
        "total_variation": Fraction(0),
        "probability": "1/2",
        "distance": 2,
        "squared_distance": 2,
        "size": 2,
        "value": Fraction(1, 2),
        "norm": "l1",
        "number": 1,
        "shape": 2,
        "key": bytes(32),
        "run_key": bytes(32),
        "purpose": "measure",
        "text": "text",
        "spine": hierarchy,
        "geolevels": ("State", "Block"),
        "geocodes": ["A1", "A2"],
        "lengths": (1, 2),
        "columns": {"State": ["A", "A"], "Block": ["A1", "A2"], "geocode": ["A1", "A2"]},
        "families": (),
        "lattice": lattice,
        "system": lattice.system,
        "matrix": np.array([[1, 1, 1]]),
        "names": ("total",),
        "law": subspace.GeneralisedGaussian(Fraction(2)),
        "totals": [3],
    }


def refusal(call: Callable[[], Any], caplog: Any, capfd: Any) -> str:
    """All that a call says, if the library refuses it. What Python itself refuses is not the library's to word."""
    caplog.clear()
    said = ""
    try:
        call()
    except TallyveilError as error:
        # A program that reports errors may follow an error to the one that was being handled when it was raised.
        said = "".join(traceback.format_exception(error)) + repr(error) + str(error.__context__)
    except Exception:  # noqa: BLE001 - what Python itself refuses
        pass
    streams = capfd.readouterr()
    return said + streams.out + streams.err + caplog.text


def held(calls: Iterator[tuple[str, Callable[[], Any]]], caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG, "tallyveil")
    told = [name for name, call in calls if CANARY in refusal(call, caplog, capfd)]
    assert not told


def with_tables(
    name: str, function: Callable[..., Any], sound: dict[str, Any]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of a function with a table in the place of one argument after another."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return
    for wrong in parameters:
        for form, table in TABLES.items():
            places, names = [], {}
            for parameter in parameters:
                if parameter is not wrong and parameter.name not in sound:
                    continue
                value = table if parameter is wrong else sound[parameter.name]
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                    places.append(value)
                elif parameter.kind is not parameter.VAR_KEYWORD:
                    names[parameter.name] = value
            yield f"{name}({wrong.name}: {form})", partial(function, *places, **names)


def a_third(
    calls: Iterator[tuple[str, Callable[[], Any]]], third: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """From place to place, a third has other tables."""
    return (call for i, call in enumerate(calls) if (i + i // len(TABLES)) % 3 == third)


@pytest.mark.parametrize("third", few(1, range(3)))
@pytest.mark.parametrize("room", [room.__name__ for room in ROOMS])
def test_public_functions(room, third, sound, tmp_path, monkeypatch, caplog, capfd):
    monkeypatch.chdir(tmp_path)
    calls = (
        call
        for name, function in functions()
        if name.startswith(f"{room}.") and (room != "tallyveil" or name.split(".")[1] not in OTHER_ROOMS)
        for call in with_tables(name, function, sound)
        if not (
            room == spine.__name__ and call[0].endswith("mapping by name)")
        )  # its keys are taken for names
    )
    held(a_third(calls, third), caplog, capfd)


@pytest.mark.parametrize("third", few(1, range(3)))
def test_methods(release, third, sound, tmp_path, monkeypatch, caplog, capfd):
    monkeypatch.chdir(tmp_path)
    area = release.area("P", "Region")
    quantities = release.quantities({"all": area.count("total")})
    plan = tallyveil.plan(release.path.parent / "release.toml")
    known = sound | {"area": "Region", "query": "total", "code": "P", "geolevel": "Region", "what": "all"}
    known |= {
        "first": "all",
        "second": "all",
        "part": "all",
        "whole": "all",
        "counts": {"all": area.count("total")},
    }
    known |= {"numerator": "all", "denominator": "all", "blocks": 3}
    objects = (release, area, quantities, plan, quantities.sum("all"), release.guarantee)
    calls = (
        call
        for one in objects
        for name, method in inspect.getmembers(one, inspect.ismethod)
        if not name.startswith("_")
        for call in with_tables(f"{type(one).__name__}.{name}", method, known)
    )
    held(a_third(calls, third), caplog, capfd)


@pytest.mark.parametrize("third", few(1, range(3)))
def test_tables_within_a_release_mapping(release, third, caplog, capfd):
    content = tomllib.loads((release.path.parent / "release.toml").read_text())

    def places(
        value: Any, put: Callable[[Any], Any], path: str
    ) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        yield path, put
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, item in items:
            yield from places(item, partial(put_item, put, value, key), f"{path}.{key}")

    def put_item(put: Callable[[Any], Any], value: Any, key: Any, new: Any) -> Any:
        changed = value.copy()
        changed[key] = new
        return put(changed)

    def absent() -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """The keys that this file leaves out, in its tables and beside them."""
        schema = release_file_schema()
        for name, entry in schema["properties"].items():
            if name not in content:
                yield name, partial(put_item, lambda new: new, content, name)
                continue
            inner, table = content[name], entry.get("$ref", "").rpartition("/")[2]
            for key in schema["$defs"].get(table, {}).get("properties", ()):
                if key not in inner:
                    put = partial(put_item, lambda new: new, content, name)
                    yield f"{name}.{key}", partial(put_item, put, inner, key)

    def planned(mapping: Any) -> Callable[[], Any]:
        return lambda: tallyveil.plan(mapping, folder=release.path.parent)

    calls = (
        (f"{path}: {form}", planned(put(table)))
        for path, put in (*places(content, lambda new: new, ""), *absent())
        for form, table in TABLES.items()
        if not (form == "mapping by name" and path.endswith(CHOSEN))
    )
    assert "outputs.intervals" in dict(absent())
    held(a_third(calls, third), caplog, capfd)


HEADERLESS = {
    "intervals": lambda place: ("intervals", place / "out", "--entities", place / "records.csv"),
    "intervals, named": lambda place: (
        *("intervals", place / "out", "--entities", place / "records.csv", "--families", "school"),
    ),
    "synth": lambda place: ("synth", "--like", place / "records.csv", "--out", place / "made"),
    "synth, blocks": lambda place: (
        *("synth", "--like", place / "counts.csv", "--like-geography", place / "records.csv"),
        *("--out", place / "made"),
    ),
    "grf": lambda place: ("geography", "import", "--grf", place / "records.txt", "--out", place / "made"),
    "grf, commas": lambda place: (
        "geography",
        "import",
        "--grf",
        place / "commas.txt",
        "--out",
        place / "made",
    ),
    "grf, csv": lambda place: (
        "geography",
        "import",
        "--grf",
        place / "records.csv",
        "--out",
        place / "made",
    ),
    "spine": lambda place: (
        *("spine", "build", "--geography", place / "records.csv", "--geolevels", "Region,Town,Block"),
        *("--out", place / "made.parquet"),
    ),
}
"""Commands that read a public table, given records without a header in its place."""


@pytest.mark.parametrize("door", HEADERLESS)
def test_the_first_line_of_a_table_without_a_header(release, door, tmp_path, capfd, monkeypatch):
    (tmp_path / "out").symlink_to(release.path)
    for name, separator in (("records.csv", ","), ("records.txt", "|"), ("commas.txt", ",")):
        rows = [separator.join(map(str, (number, CANARY, "female", "4411"))) for number in (CANARY, 2, 3)]
        (tmp_path / name).write_text("\n".join([*rows, ""]))
    (tmp_path / "counts.csv").write_text(
        "geocode,voting_age,race_ethnicity,count\n440010301001001,under,a,1\n"
    )
    monkeypatch.setattr(sys, "argv", ["tallyveil", *map(str, HEADERLESS[door](tmp_path))])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr()
    assert ended.value.code not in (None, 0)
    assert "irst line" in said.err
    assert CANARY not in said.out + said.err
