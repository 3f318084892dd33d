"""What the pages for security officers name as evidence exists."""

import re
from pathlib import Path

from tests.source_trees import functions_of

PROJECT = Path(__file__).parents[2]
PAGES = [
    PROJECT / "docs" / name
    for name in ("assurance.md", "seeded-bugs.md", "mutation-testing.md", "proofs/index.md", "auditors.md")
]
NAMED = re.compile(r"`((?:src|tests|tools)/[\w./-]+)(?:::(\w+))?`")


def test_every_file_and_test_that_is_named_exists():
    missing = []
    named = [place for page in PAGES for place in NAMED.findall(page.read_text(encoding="utf-8"))]
    for place, test in named:
        path = PROJECT / place
        functions = functions_of(path) if path.suffix == ".py" and path.is_file() else []
        if not path.exists() or (test and test not in functions):
            missing.append(f"{place}::{test}")
    assert not missing
    assert len(named) > 25
