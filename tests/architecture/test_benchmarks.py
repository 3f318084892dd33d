"""Every name that a benchmark imports exists: nothing that it uses has moved."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"
OURS = ("tallyveil", "tallyveil_studies", "tests")


def test_benchmarks_find_what_they_import():
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.py")}
    assert len(trees) > 10
    for benchmark, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    assert alias.name.split(".")[0] not in OURS or find_spec(alias.name), benchmark
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    assert has(node.module, alias.name, trees), f"{benchmark}: {node.module}, {alias.name}"


def has(module: str, name: str, trees: dict[str, ast.Module]) -> bool:
    """Whether a module has a name. Those of other projects are not looked at, and benchmarks are not imported: some set
    variables of the environment.
    """
    if module in trees:
        defined = (getattr(node, "name", getattr(node, "id", None)) for node in ast.walk(trees[module]))
        return name in set(defined)
    if module.split(".", maxsplit=1)[0] not in OURS:
        return True
    return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
