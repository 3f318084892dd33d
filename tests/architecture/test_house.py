"""The house stands as drawn: imports, documented names, short modules, nothing refused."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tallyveil

ROOT = Path(tallyveil.__file__).parent
PROJECT = ROOT.parents[1]
MODULES = sorted(info.name for info in pkgutil.walk_packages([str(ROOT)], "tallyveil."))
SOURCES = sorted(ROOT.rglob("*.py"))


def test_import_contracts():
    """The floors and the wall, as written in pyproject.toml.

    In a process of its own: the linter configures logging, which silences every logger made before it.
    """
    linter = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"]
    said = subprocess.run(
        [*linter, "--config", str(PROJECT / "pyproject.toml")],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=False,
    )
    assert said.returncode == 0, said.stdout


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    for public, item in vars(module).items():
        if public.startswith("_") or getattr(item, "__module__", None) != name:
            continue
        if inspect.isclass(item) or inspect.isfunction(item):
            assert item.__doc__, f"{name}.{public} has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_are_short(path):
    assert len(path.read_text().splitlines()) <= 400


MOST_POSITIONAL = 7


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_parameters_are_few(path):
    """Nobody can read a longer row of arguments without their names.

    Arrays that belong together are one named tuple; options are keyword-only, those of commands too.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            named = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            counted = named[1:] if named[:1] in (["self"], ["cls"]) else named
            assert len(counted) <= MOST_POSITIONAL, f"{ast.unparse(node)[:60]}: {len(counted)}"


def calls(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_refused_is_used(path):
    tree = ast.parse(path.read_text())
    used = calls(tree)
    assert not used & {"print", "eval", "exec", "np.random.seed", "random.seed", "np.random.rand"}
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
    }
    assert not imported & {"pickle", "shelve", "marshal", "pandas", "random"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, "bare except"
            assert ast.unparse(node.type) != "Exception"
        if isinstance(node, ast.Global):
            pytest.fail("global state")


REFUSED_NAMES = re.compile(r"\b(util|utils|helper|helpers|manager|handler|dpq|cons|plb)\b", re.IGNORECASE)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_are_the_fields(path):
    assert not REFUSED_NAMES.search(path.stem.replace("_", " "))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert not REFUSED_NAMES.search(node.name.replace("_", " ")), node.name


def test_help_is_quick_to_import():
    """`tallyveil --help` must not load what only the work needs."""
    script = "import sys, tallyveil.cli.main; print(sorted(m.split('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "polars", "scipy", "numba", "pydantic", "matplotlib", "piqp", "highspy", "flint"):
        assert f"'{heavy}'" not in loaded


ARRAY_TYPE = re.compile(r"^\s*\w+(: TypeAlias)? = (npt\.)?NDArray\[", re.MULTILINE)


def test_array_types_are_named_once():
    """Only `tallyveil.arrays` gives a type of array a name."""
    naming = {path.relative_to(ROOT).as_posix() for path in SOURCES if ARRAY_TYPE.search(path.read_text())}
    assert naming == {"arrays.py"}


def test_every_kernel_says_what_it_is_tested_against():
    """The first page of `kernels` names every module that holds compiled code."""
    page = inspect.getdoc(importlib.import_module("tallyveil.kernels")) or ""
    for path in sorted((ROOT / "kernels").rglob("*.py")):
        name = path.relative_to(ROOT / "kernels").with_suffix("").as_posix().replace("/", ".")
        compiled = re.search(r"^@(njit|internal|inlined)", path.read_text(), re.MULTILINE)
        if compiled and not name.startswith("records."):
            assert f"`{name}`" in page, name


def test_every_error_code_has_its_section():
    """docs/errors.md explains every code an error can carry, and no other."""
    text = (PROJECT / "docs" / "errors.md").read_text()
    explained = set(re.findall(r"^### `([a-z-]+)`", text, re.MULTILINE))
    carried = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                carried.add(node.value.value)
    from tallyveil import errors

    carried |= {
        kind.code for kind in vars(errors).values() if inspect.isclass(kind) and hasattr(kind, "code")
    }
    assert carried == explained


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_one_module_writes_to_the_terminal(path):
    """Whatever is printed passes through the one sanitiser: `cli/terminal.py`."""
    if path == ROOT / "cli" / "terminal.py":
        return
    tree = ast.parse(path.read_text())
    assert not calls(tree) & {
        "typer.echo",
        "typer.secho",
        "click.echo",
        "Console",
        "sys.stdout.write",
        "sys.stderr.write",
    }
    assert not any("from_markup" in call for call in calls(tree))
    rich = [
        n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("rich")
    ]
    assert not {alias.name for node in rich for alias in node.names} & {
        "Console",
        "print",
        "Text",
        "Markdown",
    }


def test_only_the_named_door_declassifies():
    """True counts become public counts in one module only."""
    makers = [p for p in (ROOT / "confidential").rglob("*.py") if "PublicCounts(" in p.read_text()]
    assert [p.name for p in makers] == ["declassify.py"]


def test_public_files_are_said_to_be_protected():
    """A file for the public is not called private: its metadata say whether it is protected."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                assert "private" not in keys, path
