"""Every numbered step of a written proof has tests, and every test of a proof has a step and a place in the table."""

import re
from pathlib import Path

from tests.source_trees import functions_of

PROJECT = Path(__file__).parents[2]
PAGES, TESTS = PROJECT / "docs" / "proofs", PROJECT / "tests" / "proofs"
OVERVIEW = (PAGES / "index.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### ([\w-]+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| ([A-Z]\d+) \|(.*)\|$", re.MULTILINE)
STEP = re.compile(r"\*\*(?:Step|Theorem \(step) ([A-Z]\d+)\b")


def sections() -> dict[str, dict[str, list[str]]]:
    """The tests of each step in the table, by proof."""
    return {
        page: {step: re.findall(r"`(test_\w+)`", row) for step, row in ROW.findall(text)}
        for page, text in SECTION.findall(OVERVIEW)
    }


def written_steps(page: str) -> list[str]:
    """The steps that a proof marks, in the order of the page."""
    return STEP.findall((PAGES / f"{page}.md").read_text(encoding="utf-8"))


def modules_of(page: str) -> list[Path]:
    """The modules that the overview names for a proof."""
    text = dict(SECTION.findall(OVERVIEW))[page]
    return [PROJECT / name for name in re.findall(r"`(tests/proofs/test_\w+\.py)`", text)]


def test_the_table_has_every_step_of_a_page_once_and_in_order():
    marked = {page.stem: steps for page in PAGES.glob("*.md") if (steps := written_steps(page.stem))}
    assert marked == {page: list(steps) for page, steps in sections().items()}
    for steps in marked.values():
        assert [int(step[1:]) for step in steps] == list(range(1, len(steps) + 1))


def test_every_step_has_a_test_and_every_test_a_step():
    for page, steps in sections().items():
        written = [name for module in modules_of(page) for name in functions_of(module)]
        for step, named in steps.items():
            own = [name for name in written if name.startswith(f"test_{step.lower()}_")]
            assert own, f"{page}: step {step} has no test"
            assert named == own, f"{page}: the row of step {step} does not name its tests"
        found = {name for name in written if name.startswith("test_")}
        assert found == {name for named in steps.values() for name in named}, page


def test_every_proof_has_a_test_that_drops_a_condition():
    for page, steps in sections().items():
        dropped = [name for named in steps.values() for name in named if "_fails_" in name]
        assert len(dropped) >= len(steps) / 2, page


def test_every_module_of_tests_belongs_to_a_proof():
    named = {module for page in sections() for module in modules_of(page)}
    assert named == set(TESTS.glob("test_*.py"))
