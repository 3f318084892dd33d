"""Paths are taken literally, and names reach them in one place."""

import ast
from pathlib import Path

import pytest
from tests import source_trees


@pytest.fixture(scope="module")
def nodes() -> list[tuple[Path, ast.AST]]:
    """Attributes and operations of every module: all that the tests below look at."""
    return [
        (Path(where), node)
        for where, parts in source_trees.nodes().items()
        for node in parts
        if isinstance(node, ast.Attribute | ast.BinOp)
    ]


def test_files_are_read_under_exactly_their_names(nodes: list[tuple[Path, ast.AST]]) -> None:
    """Polars reads `[1]`, `*` and `?` in a path as a pattern, but for the functions of `storage.read`."""
    for path, node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pl":
            pattern = node.attr.startswith(("read_", "scan_")) and path != Path("storage/read.py")
            assert not pattern, f"{path}, line {node.lineno}: pl.{node.attr}"


NUMBERED = {"part", "number", "self._parts"}


def test_no_name_is_put_into_a_path_but_by_the_one_function(nodes: list[tuple[Path, ast.AST]]) -> None:
    """A text that is formatted with anything but a number stands to the right of no `/`: `inside` takes it."""
    for path, node in nodes:
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Div)
            and isinstance(node.right, ast.JoinedStr)
        ):
            held = [
                ast.unparse(one.value) for one in node.right.values if isinstance(one, ast.FormattedValue)
            ]
            allowed = path.as_posix() in CLOSED_LISTS or set(held) <= NUMBERED
            assert allowed, f"{path}, line {node.lineno}: {ast.unparse(node)}"


CLOSED_LISTS = {
    "budget/presets.py",
    "compare/job.py",
    "compare/outputs.py",
    "compare/methods/topdown.py",
    "budget/spine/presets.py",
    "api/beginning.py",
    "products/safetab/run/evaluate.py",
    "geography/census/importing.py",
    "products/safetab/public/consistent.py",
    "products/safetab/page/persons.py",
    "products/lattice/page/diagnostics.py",
    "products/safetab/public/household_tables.py",
    "products/safetab/public/tables.py",
    "synthetic/population.py",
    "products/safetab/made_up.py",
    "schema/presets.py",
}
"""Modules whose texts hold words of a closed list: presets, us and pr, t1 to t4, svg and png, names of made files."""
