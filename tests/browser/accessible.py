"""What every page must hold: axe finds nothing in it, and nothing sticks out of its width."""

from pathlib import Path
from typing import Final

from playwright.sync_api import Page

AXE: Final = Path(__file__).parents[2] / "tools" / "js" / "node_modules" / "axe-core" / "axe.min.js"


def assert_accessible(page: Page, width: int) -> None:
    """Fail with what axe finds in a page as it stands, or where the page is wider than the window."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert not [
        (one["id"], node["target"], node["failureSummary"])
        for one in found["violations"]
        for node in one["nodes"]
    ]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
