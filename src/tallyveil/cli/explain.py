"""`tallyveil explain`: what an error means and how to mend it."""

import re
from difflib import get_close_matches
from typing import Annotated

import typer

from tallyveil.cli.docs import docs_folder
from tallyveil.cli.frame.arguments import AsJson, give

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

    found = explanations()
    if code not in found:
        near = get_close_matches(code, found, n=1)
        said = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"no error has this code.{said} Give the word that a message has in brackets, such as not-toml in 'error "
            "[not-toml]'.",
            code="bad-flag",
        )
    page = docs_folder() / ERRORS
    record = {"code": code, "explanation": found[code], "page": str(page)}
    lines = [f"error [{code}]\n\n{found[code]}\n\nThis is section {code} of {page}."]
    give(record, lines, quiet=False, as_json=as_json)


def explanations() -> dict[str, str]:
    """The explanation of every error, by its code."""
    text = (docs_folder() / ERRORS).read_text(encoding="utf-8")
    sections = re.split(r"^### `([a-z0-9-]+)`\n", text, flags=re.MULTILINE)
    # An explanation ends at the next heading of any level.
    texts = (re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0] for section in sections[2::2])
    return dict(zip(sections[1::2], (one.strip() for one in texts), strict=True))
