"""Every link of a Markdown page leads to a file that is there, and to a heading that it has."""

import re
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in sorted(PROJECT.glob(pattern))
    if not {"_build", "generated"} & set(path.relative_to(PROJECT).parts)
]
LINK = re.compile(r"\]\(([^()\s#]*)(?:#([^()\s]*))?\)")


@cache
def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """The anchors of the headings of a page, as the site and code hosts make them."""
    titles = re.findall(r"^#+ +(.+?) *$", text_of(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def leaves_the_site(page: Path, file: Path) -> bool:
    """Of the repository, the site and the wheel have the folder `docs` alone."""
    return page.is_relative_to(PROJECT / "docs") and not file.is_relative_to(PROJECT / "docs")


def test_every_link_leads_somewhere():
    broken = []
    for page in PAGES:
        for target, anchor in LINK.findall(re.sub(r"`[^`\n]*`", "", text_of(page))):
            # Pages in `generated` are made with the site, whose build checks the links to them.
            if target.startswith(("http", "mailto:")) or "generated/" in target:
                continue
            file = (page.parent / target).resolve() if target else page
            if (
                not file.exists()
                or (anchor and anchor not in anchors_of(file))
                or leaves_the_site(page, file)
            ):
                broken.append(f"{page.relative_to(PROJECT)}: {target}#{anchor}")
    assert not broken
    assert len(PAGES) > 60


def test_every_page_is_in_the_site():
    """A page that no table of contents names could not be found."""
    listed = set()
    for index in (PROJECT / "docs").rglob("index.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(encoding="utf-8"), re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            for line in lines:
                listed |= {path.resolve() for path in index.parent.glob(f"{line}.md")}
    pages = {page for page in PAGES if page.is_relative_to(PROJECT / "docs")}
    assert {page.relative_to(PROJECT).as_posix() for page in pages - listed} == {"docs/index.md"}
