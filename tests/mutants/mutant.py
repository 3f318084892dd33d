"""The mutants of a room, as mutmut makes them, and those of them that were justified one by one."""

import ast
import difflib
import json
import random
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.commands import NotCheckedError
from tests.mutants.words import changes_words_alone

HERE: Final = Path(__file__).parent
PROJECT: Final = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed function.

    Attributes:
        file: Source file, relative to the project.
        original, changed: The function as it is, and as it was changed.
    """

    file: Path
    original: str
    changed: str

    def diff(self) -> str:
        """The lines that differ, with those around them."""
        lines = difflib.unified_diff(self.original.splitlines(), self.changed.splitlines(), n=2, lineterm="")
        return "\n".join([f"    {self.file}", *(f"    {line}" for line in list(lines)[3:])])

    def becomes(self) -> str:
        """The lines that the mutant has in the place of others, as one text; what it takes out, if it adds none."""
        lines = list(difflib.ndiff(self.original.splitlines(), self.changed.splitlines()))
        for sign in "+-":
            found = [line[2:].strip() for line in lines if line[0] == sign]
            if found:
                return " ".join(found)
        raise ValueError(f"a mutant of {self.file} changes nothing")

    def changes_words_alone(self) -> bool:
        """Whether it changes words of a message and nothing else."""
        return changes_words_alone(self.original, self.changed)


def mutants_of(room: str, copy: Path) -> dict[str, Mutant]:
    """All mutants of a room by name, without the name of the package in front.

    Args:
        room: The room.
        copy: The folder in which mutmut has made them.
    """
    found = {}
    for path in sorted((copy / "src" / "tallyveil" / room).rglob("*.py.meta")):
        file = path.with_suffix("").relative_to(copy)
        spans = json.loads((copy / file).with_suffix(".py.spans").read_text())["spans"]
        functions = _functions((copy / file).read_text().splitlines(), spans)
        for name in json.loads(path.read_text())["exit_code_by_key"]:
            own = name.rpartition(".")[2]
            original = functions[own.partition("__mutmut_")[0] + "__mutmut_orig"]
            found[name.removeprefix("tallyveil.")] = Mutant(file, original, functions[own])
    return found


def _functions(lines: list[str], spans: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """The functions that mutmut wrote to a file, each under one name, so that only what was mutated differs."""
    found = {}
    for name, (first, last) in spans.items():
        text = textwrap.dedent("\n".join(lines[first - 1 : last])).strip()
        plain = name.partition("__mutmut_")[0].removeprefix("x_").rpartition("ǁ")[2]
        found[name] = text.replace(f"def {name}(", f"def {plain}(", 1)
    return found


def refuse_compiled(room: str) -> None:
    """Refuse a room that has functions which numba compiles.

    Raises:
        NotCheckedError: There is one. Mutmut chooses among mutants while the tests run. Compiled code does not
            notice that, so none of its mutants would be tested.
    """
    for path in sorted((PROJECT / "src" / "tallyveil" / room).rglob("*.py")):
        if any("compiled" in (name or "") or "numba" in (name or "") for name in _imported(path.read_text())):
            raise NotCheckedError(
                f"{path} has compiled functions, which mutmut does not mutate; leave the room out"
            )


def _imported(source: str) -> list[str | None]:
    """The modules that a source imports from."""
    return [node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]


def draw(names: list[str], size: int | None, seed: int) -> list[str]:
    """A sample without replacement. A larger sample of the same seed begins with the smaller one."""
    drawn = sorted(names)
    random.Random(seed).shuffle(drawn)
    return drawn[:size]


def justified(room: str, mutants: Mapping[str, Mutant]) -> dict[str, str]:
    """The reasons of `justified.toml` for survivors of a room, by name.

    Raises:
        NotCheckedError: A mutant that is justified does not exist, or is another one by now.
    """
    reasons = {}
    for one in tomllib.loads((HERE / "justified.toml").read_text())["mutant"]:
        name = one["name"]
        if name.partition(".")[0] != room:
            continue
        if name not in mutants or mutants[name].becomes() != one["becomes"]:
            now = mutants[name].becomes() if name in mutants else "no mutant"
            raise NotCheckedError(
                f"justified.toml: {name} is now {now!r}, wanted {one['becomes']!r}. The function was changed: look for "
                "the mutant under its new number, or take the entry out."
            )
        reasons[name] = one["reason"]
    return reasons
