"""What imports what, read off the source: no circle, and no way from noisy numbers to the confidential side.

An import counts wherever it stands: at the top of a module, in a function, or for type checkers alone. What a
package's `__init__` imports counts for every module below it. Only the package `tallyveil` itself does not
count: it hands on names of the front door, and imports nothing before one is used, which another test holds.
"""

import ast
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from tests.source_trees import ROOT, nodes

WALL = "tallyveil.confidential"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_of(path): path for path in ROOT.rglob("*.py")}


@cache
def imported(module: str) -> frozenset[str]:
    """Modules of the package that a module names in its imports."""
    found = set()
    for node in nodes()[PATHS[module].relative_to(ROOT).as_posix()]:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by relative path"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found & set(PATHS)) - {module, "tallyveil"}


def closure(modules: Iterable[str]) -> set[str]:
    """The modules, and all that they import, directly or through others."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        packages = [module.rsplit(".", n)[0] for n in range(1, module.count("."))]
        waiting += [*imported(module), *packages]
    return found


def in_room(*rooms: str) -> list[str]:
    return [m for m in PATHS if any(m == room or m.startswith(f"{room}.") for room in rooms)]


CONTRACTS = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]
(WALL_CONTRACT,) = [c for c in CONTRACTS["contracts"] if c["name"].startswith("The wall")]
IN_FRONT = [room for room in WALL_CONTRACT["source_modules"] if room.startswith("tallyveil.")]


def test_the_contract_names_every_confidential_module():
    """A further product's module behind the wall cannot be forgotten: its name says that it is one."""
    behind = {m for m in PATHS if m.endswith(".confidential")}
    assert behind == set(WALL_CONTRACT["forbidden_modules"])


def test_the_contract_names_every_room_in_front():
    """Only the run of a product, and what people call, may bring both sides together."""
    above = {
        "tallyveil.api",
        "tallyveil.cli",
        "tallyveil.compare",
        "tallyveil.desk",
        "tallyveil.selftest",
        "tallyveil.__main__",
    }
    floors = CONTRACTS["contracts"][0]["layers"]
    below = floors[
        floors.index("tallyveil.synthetic") :
    ]  # whatever these work on has no counts of a release yet
    parts = {m for m in PATHS if m.startswith("tallyveil.products.") and m.count(".") == 3}
    rooms = {m for m in PATHS if m.count(".") == 1 and m != "tallyveil.products"} | parts
    lower = {room.strip() for line in below for room in line.split("|")} | {
        "tallyveil.safetab",
        "tallyveil.spine",
    }
    runs = {f"{m.rsplit('.', 1)[0]}.run" for m in parts}
    assert rooms - above - lower - runs - set(WALL_CONTRACT["forbidden_modules"]) == set(IN_FRONT)


@pytest.mark.parametrize("room", [*IN_FRONT, "tallyveil.cli.estimate"])
def test_no_way_leads_from_noisy_numbers_to_the_wall(room):
    reached = closure(in_room(room))
    assert not reached & set(in_room(*WALL_CONTRACT["forbidden_modules"]))


def test_the_wall_is_reached_where_it_should_be():
    """The closure sees imports inside functions too, or the test above would say nothing."""
    assert WALL in closure(["tallyveil.cli.run"])
    assert "tallyveil.postprocess.estimate" in closure(["tallyveil.cli.estimate"])


def circles(modules: Iterable[str]) -> list[list[str]]:
    """Groups of modules each of which imports, through others, every other of its group (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        waiting.append(module)
        for other in sorted(imported(module)):
            if other not in number:
                visit(other)
            if other in waiting:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            group = waiting[waiting.index(module) :]
            del waiting[waiting.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(modules):
        if module not in number:
            visit(module)
    return found


def test_no_modules_import_each_other_in_a_circle():
    assert circles(PATHS) == []
