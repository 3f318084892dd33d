"""`tallyveil plan` opens the release file and nothing else."""

import json
import re
import sys
from fractions import Fraction

import polars as pl
import pytest

from tallyveil.cli.main import main
from tallyveil.noise.laws import DiscreteGaussian


@pytest.fixture
def plan(monkeypatch, capsys):
    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tallyveil", "plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    return run


def test_no_data_is_opened(plan, small_release):
    for path in small_release.parent.glob("*.parquet"):
        path.unlink()
    text = plan(small_release)
    assert "no data was opened" in text
    assert "total at Region" in text
    assert "barracks" in plan(small_release, "--details")


def test_it_speaks_of_one_person_and_of_the_tables_first(plan, small_release):
    text = plan(small_release)
    heard = [
        "one person’s record",
        "of their guesses are right",
        "epsilon <= ",
        "How exact the tables will be",
        "--details",
    ]
    places = [text.index(words) for words in heard]
    assert places == sorted(places)
    record = json.loads(plan(small_release, "--json"))
    assert record["guess"]["sentence"] in text
    assert 0.5 < record["guess"]["right_at_most"] < 1
    # The total of regions is exact, and that of blocks is measured; age*home is measured and adds up to age.
    tables = {(item["table"], item["geolevel"]): item for item in record["tables"]}
    measured = {(item["geolevel"], item["query"]): item["margin"] for item in record["expected"]}
    assert tables["total", "Region"]["exact"]
    assert tables["total", "Block"]["margin"] == measured["Block", "total"]
    assert tables["age", "Block"]["margin"] > measured["Block", "age*home"]
    assert re.search(r"total +exact +±\d+ +±\d+", text)
    assert "variance" not in text
    assert text.splitlines()[3] in plan(small_release, "--details")


def test_json_says_the_same(plan, small_release):
    record = json.loads(plan(small_release, "--json"))
    assert record["privacy"]["spent"] == "2"
    assert record["privacy"]["neighbours"] == "bounded"
    assert len(record["expected"]) == 9
    block = next(e for e in record["expected"] if (e["geolevel"], e["query"]) == ("Block", "age*home"))
    assert 0 < block["epsilon_at_1e-5"] < block["epsilon_at_1e-10"] < record["privacy"]["epsilon"]
    assert 0 < block["beta_at_alpha_0.05"] < 0.95
    assert record["privacy"]["textbook_epsilon"] > record["privacy"]["classical_epsilon"]
    assert block["answers"] == 6
    assert block["parameter"] == "2"  # rho 2, half of it for Block, half of that for the query
    law = DiscreteGaussian(Fraction(2))
    assert block["margin"] == 3
    assert block["variance"] == pytest.approx(law.variance_float())


def test_a_pure_budget_has_no_delta(plan, edit):
    edit("discrete_gaussian", "discrete_laplace")
    release = edit('rho = "2"', 'epsilon = "2"')
    record = json.loads(plan(release, "--json"))
    assert record["privacy"]["epsilon"] == 2
    assert record["privacy"]["delta"] == "0"
    assert "pure differential privacy" in plan(release)
    assert "rho" not in plan(release)


def test_the_schema_of_the_file(plan):
    assert json.loads(plan("--json-schema"))["title"] == "ReleaseFile"


def test_nothing_is_predicted_unless_asked(plan, small_release):
    assert "resources" not in json.loads(plan(small_release, "--json"))
    assert "is expected to need" not in plan(small_release)


def test_a_run_is_predicted_without_data(plan, small_release):
    for path in small_release.parent.glob("*.parquet"):
        path.unlink()
    text = plan(small_release, "--blocks", 8_000_000, "--people", 330_000_000)
    assert "no data was opened" in text
    assert "8,000,000 Block geounits and 330,000,000 people" in text
    record = json.loads(plan(small_release, "--json", "--blocks", 1_000))["resources"]
    assert record["records"] == 40_000
    assert record["geounits"]["Block"] == 1_000
    assert record["memory_bytes"] > 1 << 28
    assert record["seconds"] == pytest.approx(sum(record["stages"].values()), abs=1)


def test_the_public_geography_is_opened_when_asked(plan, small_release):
    (small_release.parent / "people.parquet").unlink()
    assert "only the public geography was opened" in plan(small_release, "--read-geography")
    record = json.loads(plan(small_release, "--json", "--read-geography", "--people", 500))["resources"]
    assert record["geounits"] == {"Region": 2, "Town": 8, "Block": 48}
    assert record["records"] == 500


@pytest.mark.parametrize("flags", [["--people", "5"], ["--blocks", "5", "--read-geography"]])
def test_flags_that_do_not_go_together(monkeypatch, capsys, small_release, flags):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "plan", str(small_release), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--blocks" in capsys.readouterr().err


def test_exact_deviations_of_entities_before_data(plan, small_release, tmp_path):
    (small_release.parent / "people.parquet").unlink()
    codes = pl.read_parquet(small_release.parent / "geography.parquet")["geocode"]
    entities = tmp_path / "entities.parquet"
    wards = [None if i % 5 == 4 else f"ward {i % 3}" for i in range(len(codes))]
    pl.DataFrame({"geocode": codes, "ward": wards, "region": codes.str.head(1)}).write_parquet(entities)
    flags = ("--families", "ward,region", "--entities", entities)
    text = plan(small_release, *flags)
    assert "only the public geography was opened" in text
    assert "ward 2" in text
    found = json.loads(plan(small_release, *flags, "--queries", "total,age*home", "--json"))["deviations"]
    by_area = {(one["area"], one["query"]): one for one in found["summaries"]}
    assert by_area["Region", "total"]["largest"] == pytest.approx(0, abs=1e-6)  # the invariant
    assert by_area["region", "total"]["largest"] == pytest.approx(0, abs=1e-6)
    assert by_area["region", "age*home"]["median"] == pytest.approx(by_area["Region", "age*home"]["median"])
    # estimates of blocks are better than what was measured of them alone
    assert 0 < by_area["Block", "age*home"]["largest"] < 2**0.5
    exact = [one for one in found["entities"] if one["area"] == "ward" and one["query"] == "total"]
    assert [one["finest_geounits"] for one in exact] == [13, 13, 13]
    assert all(one["standard_deviations"]["total"] > 1 for one in exact)


@pytest.mark.parametrize("flags", [["--families", "ward"], ["--entities", "a.csv"], ["--queries", "total"]])
def test_entities_need_their_file(monkeypatch, capsys, small_release, flags):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "plan", str(small_release), *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "must be given together" in capsys.readouterr().err


def test_shares_that_buy_nothing_are_told_with_better_ones(plan, small_release):
    """Totals of regions are published exactly, and a quarter of the regions' share measures them."""
    text = " ".join(plan(small_release, "--details").split())
    assert (
        "6.25 % of the strategy's rho measures answers that are published exactly anyway: total at Region"
        in text
    )
    assert '[strategy.geolevels] Region = "' in text
    record = json.loads(plan(small_release, "--json"))
    assert record["fixed_by_invariants"]["freed"] == "1/16"
    assert record["spine_advice"] is None


def test_a_plan_speaks_of_what_it_counts(plan, edit):
    path = edit('name = "people"\n[[schema', 'name = "homes"\nunit = "household"\n[[schema')
    text = " ".join(plan(path, "--blocks", 10, "--details").split())
    assert "Variance (households squared), standard deviation and margin (households)" in text
    assert "one household's record changes its value" in text
    assert "10 Block geounits and 400 households" in text


def test_a_plan_refuses_more_geolevels_than_a_run_measures(small_release, command, tmp_path):
    names = [f"L{n}" for n in range(257)]
    text = small_release.read_text()
    begin, end = text.index("[strategy.geolevels]"), text.index('[strategy.queries."*"]')
    shares = "".join(f'{name} = "1/257"\n' for name in names)
    text = f"{text[:begin]}[strategy.geolevels]\n{shares}{text[end:]}"
    text = text.replace('["Region", "Town", "Block"]', json.dumps(names))
    text = text.replace("[1, 3, 5]", str(list(range(1, 258))))
    text = text.replace('geolevels = ["Region"]', 'geolevels = ["L0"]').replace('"Block"', '"L256"')
    small_release.write_text(text)
    for words in (("plan", small_release), ("run", small_release, "--out", tmp_path / "out")):
        assert "257 geolevels; wanted at most 256" in " ".join(command(*words, code=4).split())


def test_groups_and_tied_records_stand_beside_the_guarantee(plan, small_release):
    record = json.loads(plan(small_release, "--json"))
    assert [item["size"] for item in record["groups"]] == [2, 5]
    epsilons = [record["privacy"]["epsilon"], *(item["epsilon"] for item in record["groups"])]
    assert epsilons == sorted(epsilons)
    # The total of the only region cannot change with one record, which is known once the geography is read.
    assert record["tied"]["records"] == 2
    assert len(record["tied"]["constraints"]) == 2
    text = " ".join(plan(small_release, "--details").split())
    assert record["tied"]["sentence"] in text
    assert "5 people: epsilon <= " in text
