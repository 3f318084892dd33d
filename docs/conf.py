"""The documentation site: `make docs`. Warnings are errors.

Pages of the commands and of the Python names are generated when the site is built, from help texts and docstrings.
"""

import re
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

import tallyveil

HERE = Path(__file__).parent
GENERATED = HERE / "generated"
PUBLIC = (
    "tallyveil",
    "tallyveil.accounting",
    "tallyveil.noise",
    "tallyveil.spine",
    "tallyveil.subspace",
    "tallyveil.safetab",
)
RETURNED = (
    "face.areas.Area",
    "face.areas.Count",
    "postprocess.district.District",
    "postprocess.district.DistrictAnswer",
    "postprocess.quantities.Quantities",
    "postprocess.derived.Derived",
    "postprocess.derived.Equality",
)
"""Classes of which a release makes objects. Their methods and attributes are public, and where they stand is not."""

project = "Tallyveil"
release = version = tallyveil.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"Tallyveil {release}"
html_static_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

suppress_warnings = [
    "myst.header"
]  # docs/errors.md has its codes as third headings, which `tallyveil explain` reads
default_role = "code"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Privacy", "notes_style"), ("Source", "notes_style")]
napoleon_use_ivar = True


def setup(app: Sphinx) -> None:
    """Write the generated pages before the sources are read."""
    app.connect("builder-inited", lambda _: write_generated())
    app.connect("autodoc-process-docstring", as_restructured_text)


def as_restructured_text(
    _app: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Docstrings are plain text with a little Markdown. A bar there is an absolute value or the edge of a table."""
    for number, line in enumerate(lines):
        row = line.lstrip()
        if row.startswith("|") and row.rstrip().endswith("|") and row.count("|") > 2:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            lines[number] = "" if set("".join(cells)) == {"-"} else f"- {', '.join(cells)}"
        else:
            lines[number] = line.replace("|", "\\|")


def write_generated() -> None:
    """The pages of commands and of Python names."""
    GENERATED.mkdir(exist_ok=True)
    for name, text in (("commands", commands()), ("api", api())):
        path = GENERATED / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def api() -> str:
    """A section for each public module, with all its public names."""
    options = "   :members:\n   :imported-members:\n   :inherited-members:\n   :no-index:\n"
    sections = [f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n{options}```\n" for name in PUBLIC]
    head = "# Python names\n\nAll public names ([what that means](../python.md#what-is-public-and-how-it-changes)).\n"
    classes = "\n".join(f".. autoclass:: tallyveil.{name}\n   :members:\n   :no-index:\n" for name in RETURNED)
    made = f"## Made by a release\n\n```{{eval-rst}}\n{classes}```\n"
    return "\n".join([head, *sections, made])


def commands() -> str:
    """The help of every command, one section for each."""
    said = [f"# Commands\n\n```text\n{helped()}\n```\n"]
    for name in subcommands(helped()):
        said.append(f"## tallyveil {name}\n\n```text\n{helped(name)}\n```\n")
        said += [
            f"### tallyveil {name} {below}\n\n```text\n{helped(name, below)}\n```\n"
            for below in subcommands(helped(name))
        ]
    return "\n".join(said)


def helped(*words: str) -> str:
    """What a command's `--help` prints, 100 characters wide."""
    code = "import sys; from tallyveil.cli.main import main; sys.argv = ['tallyveil', *sys.argv[1:], '--help']; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "100", "NO_COLOR": "1", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    return found.stdout.strip()


def subcommands(help_text: str) -> list[str]:
    """The commands that a help text lists; none for a command without subcommands."""
    _, _, listed = help_text.partition("Commands:\n")
    return re.findall(r"^  ([a-z0-9][a-z0-9-]*)", listed, re.MULTILINE)
