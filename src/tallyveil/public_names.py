"""Public names of a module, listed once in the `.pyi` beside it and loaded when they are first used.

Type checkers read the list. Nothing is imported before it is used, so that imports and the command line start at once.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


@cache
def places(file: str) -> dict[str, str]:
    """For each public name in the list beside a file, the module that defines it."""
    listed = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    return {
        name: module for module, name in re.findall(r"^from (\S+) import (\w+) as ", listed, re.MULTILINE)
    }


def names_of(file: str) -> list[str]:
    """The public names of the module in this file."""
    return sorted(places(file))


def room(module: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of the module in a file: it imports a public name when the name is first used."""

    def load(name: str) -> Any:
        if name not in places(file):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place = places(file)[name]
        if place == module:
            return import_module(f"{module}.{name}")
        return getattr(import_module(place), name)

    return load
