"""The page shows the numbers that were measured, and the judgement notices attacks that prove nothing."""

import copy
import json
from pathlib import Path

import pytest
from tests.attacks import run
from tests.attacks.judged import unproved
from tests.attacks.pages import draw, tables_of_page
from tests.commands import NotCheckedError

PROJECT = Path(__file__).parents[2]
RESULTS = json.loads(Path(__file__).with_name("results.json").read_text())


@pytest.mark.parametrize("name", tables_of_page(RESULTS))
def test_the_tables_of_the_page_are_those_of_the_results(name):
    assert tables_of_page(RESULTS)[name] in (PROJECT / "docs" / "attacks.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_picture_can_be_drawn(tmp_path):
    draw(RESULTS, tmp_path / "attacks.svg")
    assert (tmp_path / "attacks.svg").read_text().lstrip().startswith("<?xml")


def test_the_results_prove_what_they_should():
    assert unproved(RESULTS) == []


def changed(attack, row, **rates):
    results = copy.deepcopy(RESULTS)
    (found,) = [one for one in results[attack]["rows"] if one["name"] == row]
    for name, value in rates.items():
        found["rates"][name.replace("_", " ")] = [value]
    return results


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (changed("files", "epsilon 1000", tables=0.4), "files, epsilon 1000: tables is 0.400"),
        (changed("files", "exact", tables_excess=0.2), "files, exact: tables excess is 0.200"),
        (changed("files", "no data", noisy=0.9), "files, no data: noisy is 0.900"),
        (changed("districts", "exact", area=0.5), "districts, exact: area is 0.500"),
    ],
)
def test_an_attack_that_fails_without_noise_is_reported(results, said):
    assert len(found := unproved(results)) == 1
    assert found[0].startswith(said)


def test_an_attack_beyond_the_bound_is_reported():
    results = copy.deepcopy(RESULTS)
    results["states"]["rows"][1]["measurements"]["within"] = False
    assert unproved(results) == [
        "states, production: the attack on measurements does better than the certified bound allows."
    ]


def test_a_rate_that_is_no_number_and_a_row_that_is_missing_prove_nothing():
    nan = changed("districts", "exact", total_exact=float("nan"))
    assert unproved(nan) == ["districts, exact: total exact is nan, wanted at least 0.8."]
    cut = copy.deepcopy(RESULTS)
    cut["states"]["rows"] = [row for row in cut["states"]["rows"] if row["name"] != "exact"]
    assert unproved(cut) == ["states: there is no row 'exact'."]


def test_results_of_other_sources_are_written_anew(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    assert run._earlier(tmp_path) == {}
    (tmp_path / "sources.sha256").write_text(run._sources())
    assert run._earlier(tmp_path) == RESULTS
    (tmp_path / "results.json").write_text('{"states": {')
    with pytest.raises(NotCheckedError, match=r"results\.json is damaged"):
        run._earlier(tmp_path)


def test_what_was_not_tried_is_said():
    assert run._praise({"states": {}}).endswith("; not tried: districts, files")
    assert "not tried" not in run._praise(RESULTS)
