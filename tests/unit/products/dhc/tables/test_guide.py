"""docs/dhc.md says what the presets and tables are, and its example and its command run."""

import contextlib
import io
import re
from fractions import Fraction
from pathlib import Path

import pytest
from tests.unit.products.dhc.tables.test_publication import HOMES, PEOPLE, make_release

from tallyveil.budget.presets import load_strategy_preset, strategy_preset_names
from tallyveil.plans.from_toml.aims import load_aims
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.dhc.tables.definitions import PRESETS, load_table, preset_of, table_names

GUIDE = (Path(__file__).parents[5] / "docs" / "dhc.md").read_text()


def test_the_example_prints_what_the_page_says():
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(example, "dhc.md", "exec"), {})
    assert f"It prints `{said.getvalue().strip()}`." in GUIDE


def test_the_command_makes_the_tables_that_it_names(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    Path("R").mkdir()
    make_release(Path("R/dhc-persons"), preset_of("persons"), PEOPLE)
    make_release(Path("R/dhc-units"), preset_of("units"), HOMES)
    (line,) = re.findall(r"```sh\ntallyveil (.*?)\n```", GUIDE)
    said = command(*line.split())
    assert "tables: P12, P12H, P16, H4" in said
    assert Path("tables/microdata/units.txt").is_file()


def test_the_page_lists_every_table_with_its_title_and_size():
    names = [name for records in PRESETS for name in table_names(records)]
    wanted = []
    for name in [name for name in names if name[-1].isdigit()]:
        letters = f", {name}A to {name}I" if f"{name}A" in names else ""
        layout = load_table(name).layout
        wanted.append((f"{name}{letters}", layout.title, str(len(layout.columns))))
    assert re.findall(r"^\| ([PH]\w*\d.*?) \| (.*?) \| (\d+) \|$", GUIDE, re.MULTILINE) == wanted


def test_the_page_names_every_recode_and_every_strategy():
    for records in PRESETS:
        for name in preset_of(records).factor_names:
            assert f"`{name}`" in GUIDE, name
    for name in strategy_preset_names():
        if name.startswith("dhc"):
            assert f"`{name}`" in GUIDE
            rho = load_strategy_preset(name).strategy.total
            assert f"| {float(rho)} |" in GUIDE


@pytest.mark.nightly
def test_the_files_with_other_shares_cost_what_the_page_says():
    folder = Path(__file__).parents[5] / "examples" / "dhc"
    production, start, found = (
        load_plan(folder / name) for name in ("dhc-units.toml", "sizes/start.toml", "sizes/dhc-units.toml")
    )
    assert start.outer == found.outer == production.outer
    assert start.strategy.total - production.strategy.total == Fraction(81, 1000)
    for plan in (production, start, found):
        assert f"| {float(plan.spent):.4f} |" in GUIDE
    aims = load_aims(folder / "sizes" / "aims.toml")
    assert {query for _, query in aims.named} >= {"hhsize_all", "sex*hhage"}
