"""`tallyveil docs`: where the pages of the documentation are on this machine."""

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
    found = {path.relative_to(folder).with_suffix(""): path for path in sorted(folder.rglob("*.md"))}
    return {name.as_posix(): path for name, path in found.items() if name.parts[0] not in _BUILT}
