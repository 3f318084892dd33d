"""The source of the package, and of tests, as syntax trees: for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path

import tallyveil

ROOT = Path(tallyveil.__file__).parent


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its path in the package."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


@cache
def nodes() -> dict[str, tuple[ast.AST, ...]]:
    """All parts of every module, by its path in the package."""
    return {where: tuple(ast.walk(tree)) for where, tree in trees().items()}


def functions_of(path: Path) -> list[str]:
    """Names of the functions of a Python file, those of classes left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
