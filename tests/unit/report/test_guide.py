"""docs/explain/how-to-read-a-report.md names what is on the page, and its pictures are small."""

import re
from pathlib import Path

from tests.pages import text_of

from tallyveil.products.topdown.page.release import write_report

GUIDE = Path(__file__).parents[3] / "docs" / "explain" / "how-to-read-a-report.md"


def test_every_paragraph_and_section_of_the_guide_is_on_the_page(redistricting: Path) -> None:
    named = re.findall(r"^\| \*\*(.*?)\*\* \|", GUIDE.read_text(), re.MULTILINE)
    assert len(named) == 10
    page = text_of(write_report(redistricting))
    assert [name for name in named if name not in page] == []


def test_the_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[.{20,}\]\((.*?)\)", GUIDE.read_text())
    assert len(pictures) == 3
    assert all((GUIDE.parent / name).stat().st_size < 150_000 for name in pictures)
