import re
from dataclasses import replace
from pathlib import Path

import polars as pl
from tests.pages import require_readable

from tallyveil.files.evaluation import ARTEFACT_COLUMNS, COLUMNS, Evaluation
from tallyveil.products.topdown.page.evaluation import write_evaluation_report
from tallyveil.products.topdown.page.release import write_report
from tallyveil.schema.schema import PERSON

FRAME = pl.DataFrame(
    [
        ("State", "total", "all", 1, 1, 0.0, 0.0, 0, 0, 0.0, 0.0),
        ("State", "total", "10,000+", 1, 1, 0.0, 0.0, 0, 0, 0.0, 0.0),
        ("State", "hispanic", "all", 1, 2, 21.5, 924.5, 20, 23, -1.5, 0.0004),
        ("State", "hispanic", "10,000+", 1, 2, 21.5, 924.5, 20, 23, -1.5, 0.0004),
        ("Block", "total", "all", 9, 9, 3.25, 21.125, 2, 1_234, 0.5, 0.125),
        ("Block", "total", "0", 4, 4, 1.5, 4.5, 1, 4, 1.5, None),
        ("Block", "total", "1-9", 5, 5, 4.65, 43.245000000000005, 4, 1_234, -0.3, 0.2),
    ],
    schema=COLUMNS,
    orient="row",
)
ARTEFACTS = pl.DataFrame(
    [
        ("Block", "empty", None, None, 4, 1, None, None),
        ("Block", "filled", None, None, 3, 3, 1_200, 0.034),
        ("Block", "only", "votingage", None, 2, 3, None, None),
        ("Block", "only", "votingage", "under_18", 0, 3, None, None),
        ("Block", "only", "votingage", "18_plus", 0, 0, None, None),
    ],
    schema=ARTEFACT_COLUMNS,
    orient="row",
)
PARAMETERS = {
    "geolevel": "Block",
    "spent": "1/3",
    "accountant": "exact",
    "epsilon_at_1e-5": 4.00001,
    "epsilon_at_1e-10": 6.5,
    "epsilon_at_1e-11": 7.0,
    "beta_at_alpha_0.05": 0.76549,
    "mu": None,
}
FOUND = Evaluation(FRAME, ARTEFACTS, PERSON, "Block", (PARAMETERS,))


def visible(page: Path) -> str:
    body = re.sub(r"<(style|svg).*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


def test_is_marked_before_anything_else(redistricting: Path) -> None:
    page = write_evaluation_report(redistricting, FOUND)
    assert page == redistricting / "evaluation" / "report.html"
    text = visible(page)
    assert text.strip().startswith("NOT PRIVATE: errors of Redistricting counts")
    assert text.index("NOT PRIVATE: computed from the true counts") < text.index("Evaluation against")
    assert text.count("NOT PRIVATE: computed from the true counts") >= 3
    assert '<div class="banner"' in page.read_text()


def test_shows_the_metrics(redistricting: Path) -> None:
    text = visible(write_evaluation_report(redistricting, FOUND))
    assert "all people 0 3.25 Hispanic origin 21.5 not measured" in text
    # The margins of the measurements alone come from the plan.
    assert "all people 0 (± 2) 1,234 (± 175) Hispanic origin 23 (± 54) not measured" in text
    assert "0 – 1.50 1-9 – 4.65 10,000+ 0 –" in text
    assert "0 – +1.50 1-9 – −0.300 10,000+ 0 –" in text
    assert "1-9 people 5 5 4.65 4 1,234 −0.300 20 %" in text
    assert "0 people 4 4 1.50 1 4 +1.50 –" in text


def test_shows_the_known_artefacts(redistricting: Path) -> None:
    text = visible(write_evaluation_report(redistricting, FOUND))
    assert "empty 4 1 empty, but published with people 3 1,200 (3.4 %)" in text
    assert "all people in one group: voting age 2 3 all people “under 18”: voting age 0 3" in text
    assert "“18 plus”" not in text


def test_a_class_that_holds_every_geounit_is_not_shown_twice(redistricting: Path) -> None:
    assert "10,000+ people" not in visible(write_evaluation_report(redistricting, FOUND))


def test_does_not_touch_the_publishable_report(redistricting: Path) -> None:
    before = write_report(redistricting).read_bytes()
    first = write_evaluation_report(redistricting, FOUND).read_bytes()
    assert (redistricting / "report.html").read_bytes() == before
    assert write_evaluation_report(redistricting, FOUND).read_bytes() == first
    assert write_report(redistricting).read_bytes() == before


def test_everybody_can_read_it(redistricting: Path) -> None:
    page = write_evaluation_report(redistricting, FOUND)
    assert require_readable(page).tags.count("figure") == 2
    assert "the number of people is 3.25 for one Block (at most 1,234 in 95 of 100 of them)" in visible(page)
    assert "The largest mean error is 21.5 people: “Hispanic origin” at State." in visible(page)


def test_metrics_without_error_can_be_drawn(redistricting: Path) -> None:
    errors = FRAME.filter(pl.col("query") == "total", pl.col("geolevel") == "State")
    exact = replace(FOUND, errors=errors)
    assert "all people 0 (± 2)" in visible(write_evaluation_report(redistricting, exact))


def test_the_page_says_what_its_accuracy_costs(redistricting: Path) -> None:
    text = visible(write_evaluation_report(redistricting, FOUND))
    assert "What this accuracy costs" in text
    for shown in ("0.33334", "4.0001", "0.7654"):  # each rounded in the safe direction
        assert shown in text
