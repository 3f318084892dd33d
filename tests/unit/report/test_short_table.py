from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from tallyveil.products.lattice.page.table import table_points
from tallyveil.schema.schema import PERSON

COUNTS = pl.DataFrame({"sex": ["a", "b", "c"], "count": [2, 40, 9], "margin": [7, 5, 0]})


def told(plan: dict[str, Any], counts: pl.DataFrame = COUNTS, **changes: Any) -> dict[str, str]:
    """The points of a release that is made up."""
    privacy = {"about_one_record": True, "epsilon": 1.0, "delta": 0.0}
    manifest: Any = SimpleNamespace(
        protected=changes.pop("protected", True),
        privacy=privacy | changes,
        body={"margins": {"level": "19/20"}},
    )
    if "margin" not in counts.columns:
        manifest.body = {"margins": None}
    whole = {"constraints": ["a", "b", "c", "d", "e"], "neighbours": "bounded", **plan}
    return {point.heading: point.text for point in table_points(manifest, whole, counts, PERSON)}


def test_margins_and_exact_sums_are_told() -> None:
    points = told({})
    assert "published exactly, without noise: a, b, c, d and 1 more." in points["What was done"]
    assert (
        "The noise of a typical count (about 2) is at most 5 people in 95 % of cases."
        in points["How sure a count is"]
    )
    assert "1 of the 3 counts are no larger than their margins" in points["What not to conclude"]
    assert "at most 73.2 % of their guesses are right" in points["What it means for one person"]
    assert told({"constraints": []})["What was done"].endswith("No sum is published exactly.")


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ("free", "a count may be negative"),
        ("nonnegative", "the nearest table"),
        ("restricted", "drawn at random"),
    ],
)
def test_each_kind_of_output_says_what_it_is(outputs: str, words: str) -> None:
    assert words in told({"outputs": outputs})["What was done"]


def test_what_is_not_known_is_said() -> None:
    assert "has no margins" in told({}, COUNTS.drop("margin"))["How sure a count is"]
    assert "published exactly" in told({}, COUNTS.with_columns(margin=0))["How sure a count is"]
    person = told({}, about_one_record=False)["What it means for one person"]
    assert "the section on privacy has the exact statement" in person
    assert told({}, protected=False)["What it means for one person"].startswith("This would hold if")
