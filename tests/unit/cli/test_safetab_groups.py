"""`tallyveil safetab` with a TOML file: the commands of the example's README, and options that only the Census has."""

import importlib.util
import json
from pathlib import Path

import pytest
from tests.pages import require_readable

from tallyveil.accounting import proved
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.products.safetab.public.from_toml import load_group_plan

EXAMPLE = Path(__file__).parents[3] / "examples" / "hospital_stays"
STAYS = EXAMPLE / "stays.toml"


@pytest.fixture
def records(tmp_path):
    spec = importlib.util.spec_from_file_location("made_stays", EXAMPLE / "make_stays.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_stays(tmp_path / "stays.csv", 400)
    return tmp_path / "stays.csv"


def test_the_plan_opens_no_record(command, tmp_path):
    record = json.loads(command("safetab", "plan", STAYS, "--out", tmp_path / "plan", "--json"))
    assert record["budget_unit"] == "rho"
    assert record["privacy"][0]["epsilon"]["upper"] == pytest.approx(9.618188, abs=1e-5)
    assert json.loads((tmp_path / "plan" / "safetab-plan.json").read_text()) == record
    assert "no records were opened" in command("safetab", "plan", STAYS)


def test_a_run_prints_what_it_made_and_is_known_again(command, records, tmp_path):
    words = ("safetab", "run", STAYS, records, "--out", tmp_path / "out", "--insecure-test-key", "k")
    said = json.loads(command(*words, "--json"))
    assert said["sizes"]["codes"]["groups"] == 45
    assert (said["already_finished"], said["protected"]) == (False, False)
    shown = command(*words)
    assert "nothing was done" in " ".join(shown.split())
    assert "45 groups" in shown
    assert "Groups by detail" in (tmp_path / "out" / "report.html").read_text()
    require_readable(tmp_path / "out" / "report.html")
    said = json.loads(
        command("safetab", "validate", STAYS, records, "--finished", tmp_path / "out", "--json")
    )
    assert (said["levels"]["codes"], said["output_checks_passed"]) == (45, 10)
    words = ("safetab", "evaluate", STAYS, records, "--finished", tmp_path / "out")
    assert "not-private" in command(*words, code=2)
    shown = command(*words, "--i-understand-this-is-not-private")
    assert "NOT PRIVATE" in shown
    assert "epsilon at 1e-11" in shown
    require_readable(tmp_path / "out" / "evaluation" / "report.html")
    assert "report.html" in command("report", tmp_path / "out")


def test_validation_names_every_fault_and_no_value(command, records, tmp_path):
    text = records.read_text().splitlines()
    names = text[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in text[1:]]
    rows[0]["region"], rows[1]["age"] = "Atlantis", "ancient"
    rows[2] |= {"diagnosis_1": "A41", "diagnosis_2": "C34", "diagnosis_3": "I10"}
    records.write_text("\n".join([text[0], *(",".join(row.values()) for row in rows)]) + "\n")
    strict = tmp_path / "stays.toml"
    (tmp_path / "diagnoses.csv").write_bytes((EXAMPLE / "diagnoses.csv").read_bytes())
    strict.write_text(STAYS.read_text().replace("most_groups = 3", "most_groups = 2"))
    said = " ".join(command("safetab", "validate", strict, records, code=3).split())
    assert "'age', 'region'" in said
    assert "'chapters', 'chapters by region', 'codes'" in said
    assert not [word for word in ("Atlantis", "ancient", "A41", "400") if word in said]


def test_every_fault_of_the_file_is_named_at_once(command, records, tmp_path):
    wrong = tmp_path / "stays.toml"
    (tmp_path / "diagnoses.csv").write_bytes((EXAMPLE / "diagnoses.csv").read_bytes())
    text = STAYS.read_text().replace('by = ["code"]', 'by = ["county"]')
    wrong.write_text(text.replace('chapter = ["P", "Q"]', 'chapter = ["X"]'))
    said = " ".join(command("safetab", "validate", wrong, records, code=2).split())
    assert "level 'codes' is by county" in said
    assert "total_only names 'X'" in said


@pytest.mark.parametrize("option", ["--coterminous-apart", "--no-noise"])
def test_options_of_the_census_layout_are_refused(command, records, tmp_path, option):
    said = command("safetab", "run", STAYS, records, "--out", tmp_path / "out", option, code=2)
    assert option in said
    assert "Nothing was read" in " ".join(said.split())


def test_the_file_of_another_product_is_named(command, records, tmp_path):
    other = EXAMPLE.parent / "rhode_island" / "release.toml"
    said = command("safetab", "run", other, records, "--out", tmp_path / "out", code=2)
    assert "tallyveil run RELEASE.TOML" in " ".join(said.split())


def test_the_census_layout_is_written_as_files_of_groups(command, tmp_path):
    params, data = EXAMPLE.parent / "safetab", tmp_path / "people"
    command("synth", "--safetab", params, "--people", 300, "--blocks", 40, "--out", data)
    (data / "person-records.txt").unlink()
    said = command("safetab", "general-form", params, data, "--out", tmp_path / "out")
    assert said.split() == [str(tmp_path / "out" / "us.toml")]
    plan = load_group_plan(tmp_path / "out" / "us.toml")
    assert [one.name for one in plan.levels[:3]] == ["USA level 1", "USA level 2", "STATE level 1"]


def test_a_table_in_the_place_of_another_is_refused_before_anything_is_declassified(
    command, records, tmp_path
):
    out = tmp_path / "out"
    command("safetab", "run", STAYS, records, "--out", out, "--insecure-test-key", "k", "--quiet")
    (out / "cells" / "codes.parquet").write_bytes((out / "totals" / "codes.parquet").read_bytes())
    ledger = (out / "ledger.jsonl").read_bytes()
    words = ("safetab", "evaluate", STAYS, records, "--finished", out, "--i-understand-this-is-not-private")
    for said in (command(*words, code=8), command(*("safetab", "validate"), *words[2:6], code=8)):
        assert "release-damaged" in said
        assert "cells/codes.parquet" in said.replace("\n", "")
    assert (out / "ledger.jsonl").read_bytes() == ledger
    (out / "totals" / "codes.parquet").write_bytes((out / "cells" / "chapters.parquet").read_bytes())
    assert "release-damaged" in command("report", out, code=8)


def test_a_run_computes_each_epsilon_once(command, records, tmp_path, monkeypatch):
    found, original = [], Guarantee.epsilon

    def epsilon(self, delta):
        found.append((self.alternatives, delta))
        return original(self, delta)

    monkeypatch.setattr(Guarantee, "epsilon", epsilon)
    proved._proved.cache_clear()  # as in a process of its own
    command(
        "safetab", "run", STAYS, records, "--out", tmp_path / "out", "--insecure-test-key", "k", "--quiet"
    )
    assert len(found) == len(set(found)) == 2  # for a record added, and for one that changes its value


@pytest.mark.parametrize("name", ["general-form", "households"])
def test_a_file_of_groups_is_no_parameter_folder(tmp_path, command, name):
    """Only some commands take both."""
    said = command("safetab", name, STAYS, tmp_path, "--out", tmp_path / "out", code=2)
    assert "is a file; wanted the parameter folder of the Census layout" in " ".join(said.split())
    assert not (tmp_path / "out").exists()
