"""Which test files can notice what changed since a commit: `make test-changed` runs them.

A test file notices a module that it imports, directly or through others. Imports inside functions count as well. Names
that are loaded on first use are no imports: a public list (`.pyi`) counts as importing what it names, and a module of
`LAZY` as importing the whole package named there. A changed file that is no Python module counts as every module of
its package, and tests whose text contains its name are run too. A changed `conftest.py` or pyproject.toml concerns
every test. What passes here is no proof; `make test` runs all.
"""

import argparse
import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import grimp

from tallyveil.public_names import places

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("tallyveil", "tallyveil_studies")
LAZY: Final = {"tallyveil.cli.main": "tallyveil.cli", "tallyveil.cli.study": "tallyveil_studies"}
"""Modules that load others by names which stand in no list, and the package of these."""
ALWAYS: Final = "tests/architecture"
"""Its tests read the sources of all modules."""


def changed_files(since: str) -> set[str]:
    """Paths that differ from a commit, those that git does not know yet among them."""
    # Without renames: whoever imports a module by its old name notices that it is gone.
    tracked = _git("diff", "--name-only", "--no-renames", since)
    return {path for path in (*tracked, *_git("ls-files", "--others", "--exclude-standard")) if path}


def concerned(changed: set[str]) -> list[str]:
    """Test files and folders that can notice changed files, in order."""
    tests = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    if any(path == "pyproject.toml" or path.endswith("conftest.py") for path in changed):
        return tests
    graph = _graph()
    modules: set[str] = set()
    for path in changed:
        if module := _module_of(path, graph.modules):
            # A template or a table is read by some module of its package; nobody says which.
            modules |= {module} if path.endswith(".py") else {module, *graph.find_descendants(module)}
    # A page or an input is noticed by the tests that name it.
    files = {Path(path).name for path in changed if not path.startswith("src/") or not path.endswith(".py")}
    above = modules.union(*(graph.find_downstream_modules(module) for module in modules))
    noticing = [
        path
        for path in tests
        if path in changed or not _imported(path, frozenset()).isdisjoint({*above, *changed, *files})
    ]
    if not changed:
        return []
    return [ALWAYS, *(path for path in noticing if not path.startswith(f"{ALWAYS}/"))]


@cache
def _graph() -> grimp.ImportGraph:
    """Which module imports which, also by names that are loaded on first use."""
    graph = grimp.build_graph(*PACKAGES)
    for listed in sorted((ROOT / "src").rglob("*.pyi")):
        module = _module_of(listed.relative_to(ROOT).as_posix(), graph.modules)
        for name, place in places(str(listed)).items():
            # A package lists its own rooms as names of itself.
            graph.add_import(importer=module, imported=f"{place}.{name}" if place == module else place)
    for module, package in LAZY.items():
        for loaded in {package, *graph.find_descendants(package)} - {module}:
            graph.add_import(importer=module, imported=loaded)
    return graph


def _git(*words: str) -> list[str]:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def _module_of(path: str, modules: set[str]) -> str | None:
    """The module that a path under `src` is, or the package that holds it; None for a path elsewhere."""
    if not path.startswith("src/"):
        return None
    parts = list(Path(path).with_suffix("").parts[1:])
    # A removed module is in no graph: its package stands for it.
    while parts and ".".join(parts) not in modules:
        parts.pop()
    return ".".join(parts) or None


@cache
def _imported(path: str, seen: frozenset[str]) -> frozenset[str]:
    """Modules of the packages, and files of `tests`, that a file of `tests` imports, also through others of `tests`."""
    names: set[str] = set()
    # Fixtures of `conftest.py` are no imports, but what they import is used through them.
    words = {node.arg for node in _nodes(path) if isinstance(node, ast.arg)} | set(_texts(path))
    for folder in Path(path).parents:
        conftest = (folder / "conftest.py").as_posix()
        if (ROOT / conftest).is_file() and not words.isdisjoint(_fixtures(conftest)):
            names |= _names(conftest)
    for name in _names(path):
        names.add(name)
        helper = name.replace(".", "/") + ".py"
        if name.startswith("tests.") and (ROOT / helper).is_file() and helper not in seen:
            names |= {helper, *_imported(helper, seen | {path, helper})}
    return frozenset(names)


@cache
def _nodes(path: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))


@cache
def _fixtures(path: str) -> frozenset[str]:
    functions = (node for node in _nodes(path) if isinstance(node, ast.FunctionDef))
    return frozenset(
        function.name
        for function in functions
        if any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)
    )


def _texts(path: str) -> Iterator[str]:
    for node in _nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def _names(path: str) -> frozenset[str]:
    """Every name that may be a module; texts too, since some modules are patched or started by their names."""
    names: set[str] = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    for text in _texts(path):
        if text.startswith(PACKAGES):
            names.add(text)
        elif "." in text and "\n" not in text:
            names.add(text.rpartition("/")[2])
        if text == "tallyveil":  # the command, or `python -m tallyveil`
            names.add("tallyveil.cli.main")
    return frozenset(names)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit to compare with")
    print("\n".join(concerned(changed_files(parser.parse_args().since))))
