"""The house stands as drawn: imports, documented names, nothing refused."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache

from tests.source_trees import ROOT, nodes

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


def test_public_names_are_documented():
    bare = []
    for name in MODULES:
        module = importlib.import_module(name)
        own = {
            f"{name}.{public}": item
            for public, item in vars(module).items()
            if not public.startswith("_")
            and getattr(item, "__module__", None) == name
            and (inspect.isclass(item) or inspect.isfunction(item))
        }
        bare += [place for place, item in {name: module, **own}.items() if not item.__doc__]
    assert not bare


MOST_POSITIONAL = 7


def test_parameters_are_few():
    """Nobody can read a longer row of arguments without their names.

    Arrays that belong together are one named tuple; options are keyword-only, those of commands too.
    """
    long = []
    for where, parts in nodes().items():
        for node in parts:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                named = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
                counted = named[1:] if named[:1] in (["self"], ["cls"]) else named
                if len(counted) > MOST_POSITIONAL:
                    long.append(f"{where}: {ast.unparse(node)[:60]}: {len(counted)}")
    assert not long


@cache
def calls(where: str) -> frozenset[str]:
    return frozenset(ast.unparse(node.func) for node in nodes()[where] if isinstance(node, ast.Call))


def imported(parts: Iterable[ast.AST]) -> set[str]:
    """First parts of the names of all modules that a module imports."""
    names = set()
    for node in parts:
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
    return names


REFUSED_CALLS = {"print", "eval", "exec", "np.random.seed", "random.seed", "np.random.rand"}
REFUSED_MODULES = {"pickle", "shelve", "marshal", "pandas", "random"}


def refused_statement(node: ast.AST) -> bool:
    """Whether a statement catches every exception, or changes a variable of its module."""
    if isinstance(node, ast.ExceptHandler):
        return node.type is None or ast.unparse(node.type) == "Exception"
    return isinstance(node, ast.Global)


def test_nothing_refused_is_used():
    used = []
    for where, parts in nodes().items():
        used += [
            f"{where}: {name}" for name in calls(where) & REFUSED_CALLS | imported(parts) & REFUSED_MODULES
        ]
        used += [f"{where}: {ast.unparse(node)[:60]}" for node in parts if refused_statement(node)]
    assert not used


REFUSED_NAMES = re.compile(r"\b(util|utils|helper|helpers|manager|handler|dpq|cons|plb)\b", re.IGNORECASE)


def test_names_are_the_fields():
    names = [path.stem for path in SOURCES]
    for parts in nodes().values():
        names += [node.name for node in parts if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert not [name for name in names if REFUSED_NAMES.search(name.replace("_", " "))]


def test_help_is_quick_to_import():
    """`tallyveil --help` must not load what only the work needs."""
    script = "import sys, tallyveil.cli.main; print(sorted(m.split('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "polars", "scipy", "numba", "pydantic", "matplotlib", "piqp", "highspy", "flint"):
        assert f"'{heavy}'" not in loaded


OF_SYSTEMS = {
    "fcntl", "msvcrt", "resource", "psutil", "filelock", "geteuid", "getuid", "fchmod", "chmod", "sched_getaffinity",
    "O_NOFOLLOW", "O_DIRECTORY", "O_BINARY", "pathconf", "sysconf", "uname", "platform", "fork", "pread", "pwrite",
}  # fmt: skip


def test_one_module_asks_which_system_it_runs_on():
    """What differs between Linux, macOS and Windows is in `storage/system.py`."""
    asking = set()
    for where, parts in nodes().items():
        names = imported(parts)
        for node in parts:
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("os", "sys"):
                names.add("platform" if ast.unparse(node) == "os.name" else node.attr)
        if names & OF_SYSTEMS:
            asking.add(where)
    # The manifest states the version of Python, which the module `platform` knows.
    assert asking == {"storage/system.py", "files/manifest.py"}


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
        compiled = re.search(r"^@(njit|internal|hot|inlined)", path.read_text(), re.MULTILINE)
        if compiled and not name.startswith("records."):
            assert f"`{name}`" in page, name


def test_every_error_code_has_its_section():
    """docs/errors.md explains every code an error can carry, and no other."""
    text = (PROJECT / "docs" / "errors.md").read_text()
    explained = set(re.findall(r"^### `([a-z-]+)`", text, re.MULTILINE))
    carried = set()
    for parts in nodes().values():
        for node in parts:
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                carried.add(node.value.value)
    from tallyveil import errors

    carried |= {
        kind.code for kind in vars(errors).values() if inspect.isclass(kind) and hasattr(kind, "code")
    }
    assert carried == explained


WRITERS = {"typer.echo", "typer.secho", "click.echo", "Console", "sys.stdout.write", "sys.stderr.write"}
RICH_WRITERS = {"Console", "print", "Text", "Markdown"}


def test_two_modules_write_to_the_terminal():
    """Whatever is printed passes through the sanitiser: lines in `terminal.py`, what rich lays out in `screen.py`."""
    writing = []
    for where, parts in nodes().items():
        made = calls(where)
        rich = {
            alias.name
            for node in parts
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich")
            for alias in node.names
        }
        if made & WRITERS or rich & RICH_WRITERS or any("from_markup" in call for call in made):
            writing.append(where)
    assert writing == ["cli/frame/screen.py", "cli/frame/terminal.py"]


def test_only_the_named_door_declassifies():
    """True counts become public counts in one module only."""
    makers = [p for p in (ROOT / "confidential").rglob("*.py") if "PublicCounts(" in p.read_text()]
    assert [p.name for p in makers] == ["declassify.py"]


def test_public_files_are_said_to_be_protected():
    """A file for the public is not called private: its metadata say whether it is protected."""
    for where, parts in nodes().items():
        for node in parts:
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                assert "private" not in keys, where
