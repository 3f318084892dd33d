"""Households that are derived from persons: their records, what a change of one person costs, and what is refused."""

import json
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import tallyveil
from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.events import DiscreteGaussian
from tallyveil.accounting.groups import for_group
from tallyveil.compare.job import compare
from tallyveil.confidential.households import households_of
from tallyveil.errors import BudgetError, ConfigError, TallyveilError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.secrets import guarantee_named, secrets_record

FILE = """
[release]
name = "homes"
[records]
path = "persons.csv"
[records.household]
id = "home"
[records.household.number]
size = {}
children = { column = "age", values = ["0", "1"] }
[records.household.value]
tenure = { column = "rented", where = "relation", equals = "head", otherwise = "unknown" }
[geography]
path = "areas.csv"
geolevels = ["Region", "Block"]
prefix_lengths = [1, 2]
[schema]
name = "homes"
unit = "household"
[[schema.attributes]]
name = "size"
levels = ["1", "2", "3+"]
[[schema.attributes]]
name = "children"
levels = ["0", "1+"]
[[schema.attributes]]
name = "tenure"
levels = ["yes", "no", "unknown"]
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "8"
[strategy]
rho = "8"
[strategy.geolevels]
Region = "1/2"
Block = "1/2"
[strategy.queries."*"]
total = "1/2"
"size*children*tenure" = "1/2"
[outputs]
tables = ["total", "size", "tenure"]
"""
ATTACK = 'published = "out"\nkey = "x"\n[attacks]\nsensitive = "tenure"\npeople = 200\n'
AREAS = ["A1", "A2", "B1", "B2"]
COLUMNS = ("geocode", "home", "age", "rented", "relation")


def labels_of(one, other):
    """Labels in two languages, the second with these words for the unit of a release."""
    english = {"Person": ("person", "people"), "Haushalt": ("household", "households")}[one]
    words = {"en": english, "de": (one, other)}
    return "".join(
        f'[labels.{tag}]\nunit = {{ one = "{a}", other = "{b}" }}\n' for tag, (a, b) in words.items()
    )


def drawn(rng, n):
    """Persons of all kinds: with and without a household, in households of several places, with heads or without."""
    return [
        (
            rng.choice(AREAS),
            str(rng.choice(["", "  ", *map(str, range(n // 3))])),
            str(rng.integers(0, 4)),
            rng.choice(["yes", "no"]),
            rng.choice(["head", "other"], p=[0.4, 0.6]),
        )
        for _ in range(n)
    ]


def write_persons(folder, persons):
    """The register."""
    pl.DataFrame(persons, schema=COLUMNS, orient="row").write_csv(folder / "persons.csv")


def by_hand(persons):
    """The households, one after another."""
    homes = {}
    for person in persons:
        if person[1].strip():
            homes.setdefault(person[1], []).append(person)
    return Counter(one_home(members) for members in homes.values())


def one_home(members):
    heads = [member[3] for member in members if member[4] == "head"]
    return (
        min(member[0] for member in members),
        "3+" if len(members) > 2 else str(len(members)),
        "1+" if any(member[2] in "01" for member in members) else "0",
        heads[0] if len(heads) == 1 else "unknown",
    )


@pytest.fixture
def homes(tmp_path):
    (tmp_path / "homes.toml").write_text(FILE)
    pl.DataFrame({"geocode": AREAS}).write_csv(tmp_path / "areas.csv")
    persons = drawn(np.random.default_rng(7), 200)
    write_persons(tmp_path, persons)
    return tmp_path / "homes.toml", persons


def derived(plan, persons):
    """The households that the code derives, as a multiset of rows."""
    frame = pl.DataFrame(persons, schema=dict.fromkeys(COLUMNS, pl.String), orient="row").lazy()
    rows = households_of(frame, plan.records.household, "geocode").collect()
    return Counter(
        (place, "3+" if size > 2 else str(size), "1+" if children else "0", tenure)
        for place, size, children, tenure in rows.rows()
    )


def test_a_run_counts_the_households(homes, tmp_path, command):
    """With a budget that leaves no noise, the release has the counts that were made by hand."""
    path, persons = homes
    path.write_text(FILE.replace('rho = "8"', 'rho = "4000"'))
    release = tallyveil.run(path, tmp_path / "out", insecure_test_key="homes")
    expected = by_hand(persons)
    counted = release.table("Block", "size", zeros=False)
    wanted = Counter()
    for (place, size, _, _), number in expected.items():
        wanted[place, size] += number
    assert {(place, size): count for place, size, count in counted.rows()} == dict(wanted)
    assert release.table("Region", "total")["count"].sum() == expected.total()
    assert tallyveil.verify(tmp_path / "out").holds
    # The truth that a release is compared with is derived by the same rules.
    truth = ("--truth", tmp_path / "persons.csv", "--i-understand-this-is-not-private")
    command("evaluate", tmp_path / "out", *truth, "--quiet")
    errors = pl.read_parquet(next((tmp_path / "out" / "evaluation").glob("errors*.parquet")))
    assert errors["mean_absolute_error"].max() == 0
    # So is the truth that claims are judged by: what is claimed of exact tables is right.
    (tmp_path / "attack.toml").write_text(ATTACK)
    command("attack", tmp_path / "attack.toml", "--out", tmp_path / "claims", *truth, "--quiet")
    right = pl.read_parquet(tmp_path / "claims" / "claims.parquet")["right"]
    assert right.len()
    assert right.all()


def test_an_export_has_no_description_that_would_state_a_smaller_cost(homes, tmp_path):
    path, _ = homes
    made = tallyveil.measure(path, tmp_path / "made", insecure_test_key="homes")
    tallyveil.export_measurements(made.path, tmp_path / "tidy", layout="tidy")
    assert (tmp_path / "tidy" / "measurements").exists()
    assert not (tmp_path / "tidy" / "description.json").exists()


@pytest.mark.usefixtures("homes")
def test_a_comparison_of_derived_households_is_refused_before_records_are_opened(tmp_path):
    (tmp_path / "persons.csv").unlink()
    methods = '[[methods]]\nkind = "topdown"\nname = "TopDown"\n'
    (tmp_path / "compare.toml").write_text(f'release = "homes.toml"\n{ATTACK.partition(chr(10))[2]}{methods}')
    with pytest.raises(ConfigError, match=r"\[records.household\]"):
        compare(tmp_path / "compare.toml", tmp_path / "compared", print)
    assert not (tmp_path / "compared").exists()


def test_one_person_changes_at_most_two_households(homes):
    """Whatever a person's record becomes: at most two records leave, and at most two enter. The event covers that."""
    path, persons = homes
    plan, rng = load_plan(path), np.random.default_rng(8)
    persons = persons[:30]
    before = derived(plan, persons)
    assert before == by_hand(persons)
    seen = set()
    for _ in range(300):
        place = int(rng.integers(0, len(persons)))
        changed = [*persons]
        changed[place] = drawn(rng, 30)[0]
        after = derived(plan, changed)
        assert after == by_hand(changed)
        left, entered = (before - after).total(), (after - before).total()
        seen.add((left, entered))
        assert max(left, entered) <= 2
        # What the event allows for: answers that move by two at most, and four moves in all, at every place and query.
        for group in (plan.query("total"), plan.query("size*children*tenure")):
            moves = Counter()
            for homes_, sign in ((before, -1), (after, 1)):
                for (area, *levels), number in homes_.items():
                    key = tuple(levels) if group.name != "total" else ()
                    moves[area, key] += sign * number
            assert max(map(abs, moves.values())) <= 2
            assert sum(map(abs, moves.values())) <= 4
    assert {(2, 2), (1, 1), (1, 2), (2, 1)} <= seen


def test_the_cost_is_that_of_two_records(homes):
    """The event is that of a group of two, its cost what the file declares, and the noise four times that of one."""
    path, _ = homes
    plan = load_plan(path)
    law = plan.strategy.law("Block", "total")
    assert law.variance == 4 * replace(plan.strategy, records=1).law("Block", "total").variance
    assert plan.strategy.events()[0] == for_group(DiscreteGaussian(law.variance, 1, 2), 2)
    assert rho_of(plan.event()) == plan.spent == 8
    assert plan.protected_unit.one == "person"
    with pytest.raises(BudgetError, match="1 changed records"):
        plan.with_strategy(replace(plan.strategy, records=1))
    with pytest.raises(BudgetError, match="1 or more"):
        replace(plan.strategy, records=0)
    # The attributes of a household are no secrets of a person.
    assert secrets_record(plan) == []
    with pytest.raises(ConfigError):
        guarantee_named(plan, "size")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('neighbours = "bounded"', 'neighbours = "unbounded"', "neighbours"),
        ('unit = "household"\n', "", "unit"),
        ("[outputs]", '[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n[outputs]', "invariants"),
        ('path = "persons.csv"', 'path = "persons.csv"\ncount = "n"', "count"),
        ('levels = ["1", "2", "3+"]', 'levels = ["1", "2", "3-9"]', "every number"),
        ('levels = ["0", "1+"]', 'levels = ["1+"]', "every number"),
        ('otherwise = "unknown"', 'otherwise = "none"', "otherwise"),
        ("children = {", "child = {", "one rule"),
        (', values = ["0", "1"]', "", "column and values"),
    ],
)
def test_meaningless_rules_are_refused_before_records_are_opened(homes, old, new, said):
    path, _ = homes
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    (path.parent / "persons.csv").unlink()
    with pytest.raises(TallyveilError, match=said):
        load_plan(path)


def test_messages_say_nothing_of_records(homes, tmp_path):
    path, persons = homes
    canary = "zzcanary"
    rows = [*persons, ("A1", "9", "1", canary, "head"), ("A1", "99", "1", canary, "head")]
    write_persons(tmp_path, rows)
    with pytest.raises(TallyveilError) as refused:
        tallyveil.run(path, tmp_path / "out", insecure_test_key="homes")
    assert canary not in str(refused.value)
    # The column of the file is named, because that is what can be corrected.
    assert "column 'rented'" in str(refused.value)
    assert "attribute 'tenure'" in str(refused.value)
    assert not (tmp_path / "out" / "ledger.jsonl").exists()


@pytest.mark.nightly
@pytest.mark.usefixtures("homes")
def test_a_programme_of_both_is_right_for_one_person(tmp_path):
    """The persons' release and the households' together cost what one person's change costs in both."""
    people = FILE[: FILE.index("[records.household]")] + FILE[FILE.index("[geography]") :]
    people = people.replace('"homes"', '"people"').replace('unit = "household"\n', "")
    a, b = people.index("[[schema.attributes]]"), people.index("[privacy]")
    people = people[:a] + '[[schema.attributes]]\nname = "age"\nlevels = ["0", "1", "2", "3"]\n' + people[b:]
    people = people.replace('"size*children*tenure"', "age").replace('["total", "size", "tenure"]', '["age"]')
    (tmp_path / "people.toml").write_text(people + labels_of("Person", "Personen"))
    (tmp_path / "homes.toml").write_text(FILE + labels_of("Haushalt", "Haushalte"))
    releases = "".join(
        f'[[releases]]\nname = "{name}"\nfile = "{name}.toml"\n' for name in ("people", "homes")
    )
    (tmp_path / "programme.toml").write_text(f'[programme]\nname = "both"\n{releases}')
    tallyveil.run_programme(tmp_path / "programme.toml", tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "programme.json").read_text())
    assert Fraction(stated["guarantee"]["together"]["rho"]) == 16
    ledger = (tmp_path / "out" / "homes" / "ledger.jsonl").read_text()
    assert '"sensitivity": 2' in ledger or '"sensitivity":2' in ledger
    words = json.loads((tmp_path / "out" / "homes" / "manifest.json").read_text())["privacy"][
        "neighbours_in_words"
    ]
    assert words.startswith("one person's record changes")
    assert tallyveil.verify(tmp_path / "out").holds
    # The page has the languages that both releases have, and calls their units as they do.
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    english, german = page.split('<div class="edition edition-de" lang="de">')
    assert "one person’s record" in english
    assert "der Datensatz einer Einheit (Haushalt)" in german
    assert "2 Veröffentlichungen mit je eigenem Rauschen" in german
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
