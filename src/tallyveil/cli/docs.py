"""`tallyveil docs` and `tallyveil explain`: where the documentation is on this machine, and what an error means."""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, give

_BUILT = ("_build", "generated")


def docs(
    page: Annotated[
        str, typer.Argument(help="A page, such as outputs or start/tutorial.", metavar="PAGE")
    ] = "index",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the path of a page of the documentation, a Markdown file. The first page is index."""
    from tallyveil.errors import ConfigError

    folder = docs_folder()
    pages = _pages(folder)
    if page not in pages:
        near = get_close_matches(page, pages, n=1)
        said = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"the documentation has no page {page!r}.{said} The pages are in {folder}; give the path of one "
            "without .md, such as start/tutorial.",
            code="bad-flag",
        )
    give({"page": str(pages[page])}, [str(pages[page])], quiet=False, as_json=as_json)


def docs_folder() -> Path:
    """Folder of the documentation: inside the package if it was installed, beside `src` in a copy of the source."""
    package = Path(__file__).parents[1]
    installed = package / "docs"
    return installed if installed.is_dir() else package.parents[1] / "docs"


def _pages(folder: Path) -> dict[str, Path]:
    """The pages of a folder, without what a build of the site leaves there."""
    names = {path.relative_to(folder).with_suffix(""): path for path in sorted(folder.rglob("*.md"))}
    return {name.as_posix(): path for name, path in names.items() if name.parts[0] not in _BUILT}


ERRORS = "errors.md"
"""The page that has a section for every error."""


def explain(
    code: Annotated[
        str, typer.Argument(help="The word in brackets after `error` in a message.", metavar="CODE")
    ],
    as_json: AsJson = False,
) -> None:
    """Say what an error means, how to see it, and how to mend it."""
    from tallyveil.errors import ConfigError

    explained = explanations()
    if code not in explained:
        near = get_close_matches(code, explained, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"no error has this code.{hint} Give the word that a message has in brackets, such as not-toml in 'error "
            "[not-toml]'.",
            code="bad-flag",
        )
    page = docs_folder() / ERRORS
    record = {"code": code, "explanation": explained[code], "page": str(page)}
    lines = [f"error [{code}]\n\n{explained[code]}\n\nThis is section {code} of {page}."]
    give(record, lines, quiet=False, as_json=as_json)


def explanations() -> dict[str, str]:
    """The explanation of every error, by its code."""
    text = (docs_folder() / ERRORS).read_text(encoding="utf-8")
    sections = re.split(r"^### `([a-z0-9-]+)`\n", text, flags=re.MULTILINE)
    # An explanation ends at the next heading of any level.
    texts = (re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0] for section in sections[2::2])
    return dict(zip(sections[1::2], (text_of_error.strip() for text_of_error in texts), strict=True))
