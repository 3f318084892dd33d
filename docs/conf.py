"""The documentation site: `make docs`. Warnings are errors.

Four pages are generated when the site is built: the keys of a release file and of a programme file, from their JSON
Schemas; the commands, from their help texts; and the Python names, from their docstrings.
"""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import tallyveil
from tallyveil.products.dhc.public.from_toml import ProgrammeFile

HERE = Path(__file__).parent
GENERATED = HERE / "generated"
PUBLIC = {
    "tallyveil": (
        "plan",
        "Plan",
        "run",
        "open",
        "Release",
        "measure",
        "Measurements",
        "estimate",
        "plan_programme",
        "run_programme",
        "reliability",
        "Opened",
        "ClusterSettings",
        "TallyveilError",
    ),
    "tallyveil.accounting": ("compose", "Guarantee", "Bounds", "calibrate", "Calibration", "Neighbours"),
    "tallyveil.noise": ("discrete_gaussian", "discrete_laplace"),
    "tallyveil.spine": ("spine_from_prefixes", "spine_from_columns", "Spine"),
    "tallyveil.subspace": ("ConstraintSystem", "lattice_of", "choose_sampler"),
    "tallyveil.safetab": ("read_config", "make_plan", "privacy_of"),
}
"""Public modules, with the names that the page shows first, in the order of their use. The others follow by name."""

BACKSLASH = "\\"
TYPES = {
    "array": "list ({})",
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "object": "table ({})",
    "string": "text",
}
"""Types of JSON Schema, in words."""

RETURNED = (
    "tallyveil.api.areas.Area",
    "tallyveil.api.areas.Count",
    "tallyveil.api.programme.PlannedProgramme",
    "tallyveil.api.programme.Programme",
    "tallyveil.api.stated.StatedGuarantee",
    "tallyveil.plans.resources.Resources",
    "tallyveil.postprocess.derived.quantities.Derived",
    "tallyveil.postprocess.derived.quantities.Equality",
    "tallyveil.postprocess.derived.district.District",
    "tallyveil.postprocess.derived.district.DistrictAnswer",
    "tallyveil.postprocess.derived.quantities.Quantities",
)
"""Classes that no public module lists, whose objects public functions return."""

MODULES = tuple(name.removeprefix("tallyveil.") for name in PUBLIC)

project = "Tallyveil"
release = version = tallyveil.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"Tallyveil {release}"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 900  # seconds for each cell
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
    """Docstrings are plain text with a little Markdown. A bar there is an absolute value or the edge of a table.

    Napoleon takes what stands before a colon in the first line of a property's docstring for its type. It is put back.
    """
    for line in [line for line in lines if line.startswith(":type: ")]:
        lines.remove(line)
        lines[0] = f"{line.removeprefix(':type: ')}: {lines[0]}"
    for number, line in enumerate(lines):
        row = line.lstrip()
        if row.startswith("|") and row.rstrip().endswith("|") and row.count("|") > 2:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            lines[number] = "" if set("".join(cells)) == {"-"} else f"- {', '.join(cells)}"
        else:
            lines[number] = line.replace("|", "\\|")


def write_generated() -> None:
    """The pages of keys, of commands and of Python names."""
    GENERATED.mkdir(exist_ok=True)
    pages = {
        "release-file-keys": release_file_keys(),
        "programme-file-keys": programme_file_keys(),
        "commands": commands(),
        "api": api(),
    }
    for name, text in pages.items():
        path = GENERATED / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def release_file_keys() -> str:
    """A section for each table of a release file, with a row for each key, from the JSON Schema."""
    schema = json.loads(printed("plan", "--json-schema"))
    text = (
        "This page is made from the JSON Schema that `tallyveil plan --json-schema` prints. [The release file]"
        "(../release-file.md) explains what the keys are for. Budgets, shares and other exact numbers are text, like "
        '`"3/7"`, `"0.25"` or `"1e-10"`.'
    )
    return keys_page("Keys of a release file", text, schema)


def programme_file_keys() -> str:
    """The same of a programme file."""
    schema = ProgrammeFile.model_json_schema(by_alias=True)
    text = "[A programme of releases](../programme.md) explains what the keys are for."
    return keys_page("Keys of a programme file", text, schema)


def keys_page(title: str, text: str, schema: dict[str, Any]) -> str:
    """A page with a section for each table of a file, with a row for each key."""
    sections = [f"# {title}", text]
    waiting = tables_in(schema)
    while waiting:
        table = schema["$defs"][waiting.pop(0)]
        waiting += tables_in(table)
        heading, _, text = table["description"].partition(": ")
        rows = ["| key | type | default | meaning |", "|---|---|---|---|", *rows_of(table)]
        sections += [f"## `{heading}`", f"{text[:1].upper()}{text[1:]}", "\n".join(rows)]
    return "\n\n".join(sections) + "\n"


def tables_in(table: dict[str, Any]) -> list[str]:
    """Names of the tables that the keys of a table hold, each once."""
    return list(dict.fromkeys(re.findall(r'"#/\$defs/(\w+)"', json.dumps(table["properties"]))))


def rows_of(table: dict[str, Any]) -> Iterator[str]:
    """A row for each key of a table."""
    for key, content in table["properties"].items():
        default = "none" if content.get("default") is None else f"`{json.dumps(content['default'])}`"
        default = "required" if key in table.get("required", ()) else default
        meaning = content.get("description", "")
        yield f"| `{key}` | {type_of(content)} | {default} | {meaning.replace('*', BACKSLASH + '*')} |"


def type_of(content: dict[str, Any]) -> str:
    """The type of a value, in words."""
    several = content.get("anyOf", content.get("oneOf", ()))
    words = content.get("enum", [content["const"]] if "const" in content else [])
    if several:
        return " or ".join(dict.fromkeys(type_of(one) for one in several if one.get("type") != "null"))
    if words:
        return " or ".join(f"`{json.dumps(word)}`" for word in words)
    if "$ref" in content:
        return "table"
    within = content.get("items", content.get("additionalProperties", {}))
    return TYPES[content["type"]].format(type_of(within) if within else "")


def api() -> str:
    """A section for each public module, with all its public names, and one for the objects that they return."""
    modules = [f"## {name}\n\n{described(name, first)}" for name, first in PUBLIC.items()]
    classes = [directive("autoclass", f"{name}()") for name in RETURNED]
    head = (
        "# Python names\n\nAll public names ([what that means](../python.md#what-is-public-and-how-it-changes)). "
        "In each part, the names that are used first stand first.\n"
    )
    return "\n".join([head, *modules, "## Objects that these functions return\n", *classes])


def described(module_name: str, first: tuple[str, ...]) -> str:
    """The first line of a module, and all its public names, those that are used first before the others."""
    module = import_module(module_name)
    public = [name for name in module.__all__ if name not in MODULES and not name.startswith("__")]
    if not set(first) <= set(public):
        raise ValueError(f"{module_name} lists none of {sorted(set(first) - set(public))} as public.")
    parts = [f"{(module.__doc__ or '').partition(chr(10))[0]}\n"]
    for name in [*first, *sorted(set(public) - set(first), key=str.lower)]:
        value = getattr(module, name)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        parts.append(directive(f"auto{kind}", f"{module_name}.{name}"))
    return "\n".join(parts)


def directive(name: str, argument: str) -> str:
    """A directive of autodoc, with all members of a class."""
    members = "   :members:\n   :inherited-members:\n" if name == "autoclass" else ""
    return f"```{{eval-rst}}\n.. {name}:: {argument}\n{members}```\n"


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
    return printed(*words, "--help")


def printed(*words: str) -> str:
    """What a command prints."""
    code = "import sys; from tallyveil.cli.main import main; sys.argv = ['tallyveil', *sys.argv[1:]]; main()"
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
