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
from collections.abc import Collection, Iterable, Iterator, Set
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
    names = set(_names(path))
    # Fixtures of `conftest.py` are no imports, but what they import is used through them.
    words = {node.arg for node in _nodes(path) if isinstance(node, ast.arg)} | set(_texts(_nodes(path)))
    for folder in Path(path).parents:
        conftest = (folder / "conftest.py").as_posix()
        if (ROOT / conftest).is_file():
            # A fixture may use fixtures of outer folders, which come later in this loop: its arguments name them.
            for definition in _used_by_fixtures(conftest, words):
                names |= _names_among(definition)
                words |= {node.arg for node in definition if isinstance(node, ast.arg)}
    for name in tuple(names):
        helper = name.replace(".", "/") + ".py"
        if name.startswith("tests.") and (ROOT / helper).is_file() and helper not in seen:
            names |= {helper, *_imported(helper, seen | {path, helper})}
    return frozenset(names)


@cache
def _nodes(path: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))


def _used_by_fixtures(conftest: str, words: Set[str]) -> list[tuple[ast.AST, ...]]:
    """The definitions of fixtures whose names are among some words, and of what these fixtures use of their file."""
    definitions = _definitions(conftest)
    used = pending = {name for name in words & definitions.keys() if _is_fixture(definitions[name])}
    while pending:
        nodes = [node for name in pending for node in definitions[name]]
        called = {node.id for node in nodes if isinstance(node, ast.Name)}
        called |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        pending = (called & definitions.keys()) - used
        used = used | pending
    return [definitions[name] for name in used]


def _is_fixture(definition: tuple[ast.AST, ...]) -> bool:
    function = definition[0]
    return isinstance(function, ast.FunctionDef) and any(
        "fixture" in ast.unparse(decorator) for decorator in function.decorator_list
    )


@cache
def _definitions(path: str) -> dict[str, tuple[ast.AST, ...]]:
    """For each name that a file defines, the nodes of its function, class, import or assignment."""
    definitions: dict[str, tuple[ast.AST, ...]] = {}
    for statement in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names = [statement.name]
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names = [name.asname or name.name.partition(".")[0] for name in statement.names]
        else:
            stores = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
            names = [node.id for node in stores if isinstance(node.ctx, ast.Store)]
        definitions |= dict.fromkeys(names, tuple(ast.walk(statement)))
    return definitions


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def _names(path: str) -> frozenset[str]:
    return frozenset(_names_among(_nodes(path)))


def _names_among(nodes: Collection[ast.AST]) -> set[str]:
    """Every name that may be a module; texts too, since some modules are patched or started by their names."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    for text in _texts(nodes):
        if text.startswith(PACKAGES):
            names.add(text)
        elif "." in text and "\n" not in text:
            names.add(text.rpartition("/")[2])
        if text == "tallyveil":  # the command, or `python -m tallyveil`
            names.add("tallyveil.cli.main")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit to compare with")
    print("\n".join(concerned(changed_files(parser.parse_args().since))))
