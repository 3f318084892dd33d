import re
from pathlib import Path

import polars as pl

from tallyveil.evaluation.metrics import COLUMNS
from tallyveil.report import write_evaluation_report, write_report

FRAME = pl.DataFrame(
    [
        ("State", "total", "all", 1, 1, 0.0, 0, 0, 0.0, 0.0),
        ("State", "total", "10,000+", 1, 1, 0.0, 0, 0, 0.0, 0.0),
        ("State", "hispanic", "all", 1, 2, 21.5, 20, 23, -1.5, 0.0004),
        ("State", "hispanic", "10,000+", 1, 2, 21.5, 20, 23, -1.5, 0.0004),
        ("Block", "total", "all", 9, 9, 3.25, 2, 1_234, 0.5, 0.125),
        ("Block", "total", "0", 4, 4, 1.5, 1, 4, 1.5, None),
        ("Block", "total", "1-9", 5, 5, 4.65, 4, 1_234, -0.3, 0.2),
    ],
    schema=COLUMNS,
    orient="row",
)


def visible(page: Path) -> str:
    body = re.sub(r"<(style|svg).*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


def test_is_marked_before_anything_else(redistricting: Path) -> None:
    page = write_evaluation_report(redistricting, FRAME)
    assert page == redistricting / "evaluation" / "report.html"
    text = visible(page)
    assert text.strip().startswith("NOT PRIVATE: errors of Redistricting counts")
    assert text.index("NOT PRIVATE: computed from the true counts") < text.index("Evaluation against")
    assert text.count("NOT PRIVATE: computed from the true counts") >= 3
    assert '<div class="banner"' in page.read_text()


def test_shows_the_metrics(redistricting: Path) -> None:
    text = visible(write_evaluation_report(redistricting, FRAME))
    assert "total 0 3.25 hispanic 21.5 not measured" in text
    # The margins of the measurements alone come from the plan.
    assert "total 0 (± 2) 1,234 (± 175) hispanic 23 (± 54) not measured" in text
    assert "0 – 1.50 1-9 – 4.65 10,000+ 0 –" in text
    assert "0 – +1.50 1-9 – −0.300 10,000+ 0 –" in text
    assert "1-9 people 5 5 4.65 4 1,234 −0.300 20 %" in text
    assert "0 people 4 4 1.50 1 4 +1.50 –" in text


def test_a_class_that_holds_every_geounit_is_not_shown_twice(redistricting: Path) -> None:
    assert "10,000+ people" not in visible(write_evaluation_report(redistricting, FRAME))


def test_does_not_touch_the_publishable_report(redistricting: Path) -> None:
    before = write_report(redistricting).read_bytes()
    first = write_evaluation_report(redistricting, FRAME).read_bytes()
    assert (redistricting / "report.html").read_bytes() == before
    assert write_evaluation_report(redistricting, FRAME).read_bytes() == first
    assert write_report(redistricting).read_bytes() == before


def test_loads_nothing(redistricting: Path) -> None:
    text = write_evaluation_report(redistricting, FRAME).read_text()
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert text.count("<svg") == 2


def test_metrics_without_error_can_be_drawn(redistricting: Path) -> None:
    exact = FRAME.filter(pl.col("query") == "total", pl.col("geolevel") == "State")
    assert "total 0 (± 2)" in visible(write_evaluation_report(redistricting, exact))
