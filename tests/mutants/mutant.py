"""The mutants of a room, as mutmut makes them, and those of them that were justified one by one."""

import ast
import difflib
import random
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name
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


def mutants_of(room: str) -> dict[str, Mutant]:
    """All mutants of a room by name, without the name of the package in front.

    Raises:
        ValueError: The room has a function that numba compiles. Mutmut chooses among mutants while the tests run, which
            compiled code does not notice, so that none of them would be tested.
    """
    found = {}
    for path in sorted((PROJECT / "src" / "tallyveil" / room).rglob("*.py")):
        source = path.read_text()
        if any("compiled" in (name or "") or "numba" in (name or "") for name in _imported(source)):
            raise ValueError(
                f"{path} has compiled functions, which mutmut does not mutate; leave the room out"
            )
        file = path.relative_to(PROJECT)
        made = mutate_file_contents(str(file), source)
        lines = made.code.splitlines()
        for name in made.mutant_names:
            original, changed = (
                _function(lines[span.start - 1 : span.end])
                for span in (
                    made.line_span_by_function_name[name.partition("__mutmut_")[0] + "__mutmut_orig"],
                    made.line_span_by_function_name[name],
                )
            )
            found[get_mutant_name(file, name).removeprefix("tallyveil.")] = Mutant(file, original, changed)
    return found


def _imported(source: str) -> list[str | None]:
    """The modules that a source imports from."""
    return [node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]


def _function(lines: list[str]) -> str:
    """A generated function under one name, so that only what was mutated differs."""
    text = textwrap.dedent("\n".join(lines)).strip()
    first = next(line for line in text.splitlines() if line.startswith("def "))
    mangled = first.removeprefix("def ").partition("(")[0]
    return text.replace(mangled, mangled.partition("__mutmut_")[0].removeprefix("x_").rpartition("ǁ")[2], 1)


def draw(names: list[str], size: int | None, seed: int) -> list[str]:
    """A sample without replacement. A larger sample of the same seed begins with the smaller one."""
    drawn = sorted(names)
    random.Random(seed).shuffle(drawn)
    return drawn[:size]


def justified(room: str, mutants: Mapping[str, Mutant]) -> dict[str, str]:
    """The reasons of `justified.toml` for survivors of a room, by name.

    Raises:
        ValueError: A mutant that is justified does not exist, or is another one by now.
    """
    reasons = {}
    for one in tomllib.loads((HERE / "justified.toml").read_text())["mutant"]:
        name = one["name"]
        if name.partition(".")[0] != room:
            continue
        if name not in mutants or mutants[name].becomes() != one["becomes"]:
            now = mutants[name].becomes() if name in mutants else "no mutant"
            raise ValueError(
                f"justified.toml: {name} is now {now!r}, wanted {one['becomes']!r}. The function was changed: look for "
                "the mutant under its new number, or take the entry out."
            )
        reasons[name] = one["reason"]
    return reasons
