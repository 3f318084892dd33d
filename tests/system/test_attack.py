"""`tallyveil attack` on a release and on a table, with the records and without."""

import json
import math
import shutil

import polars as pl
import pytest
from tests.conftest import write_small_inputs
from tests.system.test_release_spine import with_spine

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.compare.attack_job import CONTRADICT, attack
from tallyveil.compare.claims import ATTRIBUTE
from tallyveil.compare.job import control_of
from tallyveil.compare.methods.topdown import with_budget
from tallyveil.compare.outputs import write_marked
from tallyveil.files.marks import TEST_KEY, Marks
from tallyveil.noise.key import insecure_key
from tallyveil.noise.laws import SMALLEST_PARAMETER
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

FLAG = "--i-understand-this-is-not-private"
ON_RELEASE = 'published = "made"\nkey = "x"\n[attacks]\nsensitive = "age"\npeople = 200\n'
ON_TABLE = """
published = "counts.parquet"
release = "release.toml"
key = "x"
tables = ["total", "age", "age*home"]
[attacks]
sensitive = "age"
people = 200
"""
DRAWN = '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'
DECLARED = ('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_gaussian"\nrho = "9/4"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    release = write_small_inputs(folder)
    run_release(load_plan(release), folder / "made", test_key=insecure_key("made"), workers=1)
    (folder / "release-attack.toml").write_text(ON_RELEASE)
    (folder / "table-attack.toml").write_text(ON_TABLE)
    _exact_table(folder)
    return folder


def _exact_table(folder):
    """The true counts as an office would publish them: of every geolevel, zeros left out."""
    people = pl.read_parquet(folder / "people.parquet")
    geography = pl.read_parquet(folder / "geography.parquet")
    parts = []
    for areas, length in (("Region", 1), ("Town", 3), ("Block", 5)):
        cut = people.with_columns(pl.col("geocode").str.head(length))
        for query, answer in (
            ("total", pl.lit("")),
            ("age", pl.col("age")),
            ("age*home", pl.concat_str("age", "home", separator=" * ")),
        ):
            parts.append(
                cut.group_by("geocode", answer.alias("answer"))
                .agg(pl.col("count").sum())
                .select(
                    pl.lit(areas).alias("areas"), "geocode", pl.lit(query).alias("query"), "answer", "count"
                )
            )
    assert set(people["geocode"]) <= set(geography["geocode"])
    pl.concat(parts).write_parquet(folder / "counts.parquet")


def test_an_outsider_opens_no_records_and_no_ledger(folder, command):
    before = (folder / "made" / "ledger.jsonl").read_text()
    people = folder / "people.parquet"
    hidden = people.rename(folder / "elsewhere.parquet")
    try:
        said = json.loads(
            command("attack", folder / "release-attack.toml", "--out", folder / "claims", "--json")
        )
    finally:
        hidden.rename(people)
    assert not said["findings"]
    assert (folder / "made" / "ledger.jsonl").read_text() == before
    assert not (folder / "claims" / "ledger.jsonl").exists()
    assert "right" not in pl.read_parquet(folder / "claims" / "claims.parquet").columns


def test_claims_are_marked_as_what_they_are_about(folder, command):
    """A release of a test key gives its mark to all that follows from it; a table of counts has none."""
    for name, is_marked in (("release", True), ("table", False)):
        out = folder / f"of-{name}"
        said = json.loads(command("attack", folder / f"{name}-attack.toml", "--out", out, "--json"))
        stated = json.loads((out / "attack.json").read_text())
        assert said["warnings"] == stated["warnings"] == ([TEST_KEY] if is_marked else [])
        tags = pl.read_parquet_metadata(out / "claims.parquet")
        assert {"protected" in said, "protected" in stated, "tallyveil.protected" in tags} == {is_marked}
        assert (TEST_KEY in tags["tallyveil.warning"]) == is_marked
        assert (TEST_KEY in (out / "attack.html").read_text()) == is_marked
    # Little is claimed of so small a release; a row of such claims says both.
    claims = pl.DataFrame({"claim": ["attribute"]})
    write_marked(folder, "rows", claims, "", private=True, marks=Marks(False, (TEST_KEY,)))
    assert pl.read_csv(folder / "rows.csv")["warning"].to_list() == ["NOT PRIVATE; claimed, not checked"]


def _attacked(folder, *changes):
    """What an outsider makes of a release of the small inputs with another plan."""
    release = write_small_inputs(folder)
    text = release.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    release.write_text(text)
    run_release(load_plan(release), folder / "made", test_key=insecure_key("made"), workers=1)
    (folder / "attack.toml").write_text(ON_RELEASE)
    return attack(folder / "attack.toml", folder / "claims", None, lambda words: None)


@pytest.mark.nightly
def test_the_bound_is_about_a_record_that_changes_its_value(tmp_path):
    """Under the relation of a removal, a change moves twice as many answers: it costs twice the rho."""
    changes = (
        ('neighbours = "bounded"', 'neighbours = "unbounded"'),
        ('rho = "2"', 'rho = "1/10"'),
        ('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', ""),
    )
    # Of Gaussian noise: 2 Phi(mu / 2) - 1 with mu^2 = 2 rho.
    gaussian = math.erf(math.sqrt(2 * 2 / 10) / math.sqrt(8))
    bound = _attacked(tmp_path / "inputs", *changes).certificate.advantage
    assert bound == pytest.approx(gaussian, abs=2e-3)


@pytest.mark.nightly
def test_counts_drawn_on_a_lattice_are_attacked_without_a_bound(tmp_path):
    attacked = _attacked(tmp_path / "inputs", ("[[bounds]]", DRAWN), DECLARED)
    assert attacked.certificate is None
    assert "drawn on a lattice" in (tmp_path / "inputs" / "claims" / "attack.html").read_text()


@pytest.mark.parametrize(
    "changes",
    [
        (),
        # Where a query has nearly all of the budget, an epsilon of 1000 would be less noise than can be drawn.
        (
            ('"age*home" = "1/2"', '"age*home" = "997/1000"'),
            ('total = "1/4"', 'total = "1/1000"'),
            ('grown = "1/4"', 'grown = "1/500"'),
        ),
        (('neighbours = "bounded"', 'neighbours = "unbounded"'),),
        # Where counts drawn on a lattice have nearly all of it.
        (("[[bounds]]", DRAWN.replace("1/4", "2000")), (DECLARED[0], DECLARED[1].replace("9/4", "2002"))),
    ],
    ids=["as it is", "one large share", "unbounded", "on a lattice"],
)
def test_the_noise_of_the_control_can_be_drawn(tmp_path, changes):
    release = write_small_inputs(tmp_path)
    text = release.read_text()
    # An invariant holds under no relation of a removal.
    for old, new in (*changes, ('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', "")):
        text = text.replace(old, new)
    release.write_text(text)
    plan = load_plan(release)
    nearly = with_budget(plan, control_of(plan).budget)
    variances = [
        nearly.strategy.law(level, query).variance
        for level in nearly.geolevels
        for query in nearly.strategy.queries(level)
    ]
    variances += [item.law(nearly.mechanism, nearly.neighbours).variance for item in nearly.subspace]
    least = min(variances)
    assert SMALLEST_PARAMETER <= least < 20 * SMALLEST_PARAMETER


def _without_bounds(folder):
    (folder / "barracks.parquet").unlink()


def _on_a_lattice(folder):
    release = folder / "release.toml"
    release.write_text(release.read_text().replace("[[bounds]]", DRAWN).replace(*DECLARED))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "change",
    [
        _without_bounds,
        _on_a_lattice,
        lambda folder: with_spine(folder / "release.toml"),
    ],
    ids=["bounds", "lattice", "spine"],
)
def test_the_control_is_released_whatever_the_release_file_has_besides(tmp_path, change):
    """Once the records are declassified, nothing may stop: bounds that are gone, a lattice, entities of a spine."""
    write_small_inputs(tmp_path)
    _exact_table(tmp_path)
    change(tmp_path)
    (tmp_path / "attack.toml").write_text(ON_TABLE)
    attacked = attack(
        tmp_path / "attack.toml", tmp_path / "claims", tmp_path / "people.parquet", lambda _: None
    )
    assert attacked.power["records rebuilt"][1] > 0.8


def test_with_the_records_the_release_says_that_somebody_looked(folder, command):
    words = ("attack", folder / "release-attack.toml", "--out", folder / "judged")
    truth = ("--truth", folder / "people.parquet")
    assert "not-private" in command(*words, *truth, code=2)
    assert "bad-flag" in command(*words, FLAG, code=2)
    assert not (folder / "judged").exists()
    said = json.loads(command(*words, *truth, FLAG, "--json"))
    assert said["protected"] is False
    assert {item["attack"] for item in said["findings"]} >= {"records rebuilt"}
    stated = json.loads((folder / "judged" / "attack.json").read_text())
    # On exact tables, and on a release with an epsilon of 1000, of which nothing is left.
    exact, nearly = stated["power"]["records rebuilt"]
    assert exact == 1
    assert nearly > 0.8
    assert not (folder / "judged" / "releases").exists()
    ledger = (folder / "made" / "ledger.jsonl").read_text()
    assert ledger.count("true counts compared with what attackers claim") == 1
    assert json.loads((folder / "made" / "manifest.json").read_text())["declassified"]
    assert "NOT PRIVATE" in (folder / "judged" / "attack.html").read_text()


def test_records_of_another_year_and_files_without_records_are_refused(folder, command, tmp_path):
    """The small release publishes the totals of its regions exactly; one record more contradicts them."""
    people, other, made = (
        pl.read_parquet(folder / "people.parquet"),
        tmp_path / "other.parquet",
        folder / "made",
    )
    before = [(made / name).read_bytes() for name in ("ledger.jsonl", "manifest.json")]
    last_year = pl.concat([people.head(1).with_columns(pl.col("count") + 1), people.tail(-1)])
    for records, code, words, exit_code in (
        (last_year, "truth-contradicts", "'total' at Region", 6),
        (people.head(0), "no-records", "no record", 3),
    ):
        records.write_parquet(other)
        attacking = ("attack", folder / "release-attack.toml", "--out", tmp_path / "out")
        for job in (("evaluate", made), attacking):
            said = " ".join(command(*job, "--truth", other, FLAG, code=exit_code).split())
            assert code in said
            assert words in said
            assert not (tmp_path / "out").exists()
    assert before == [(made / name).read_bytes() for name in ("ledger.jsonl", "manifest.json")]
    # A table of counts has no invariants, and a ledger of its own, which gets no entry.
    words = ("attack", folder / "table-attack.toml", "--out", tmp_path / "out", "--truth", other, FLAG)
    assert "no-records" in command(*words, code=3)
    assert not read_ledger(tmp_path / "out" / "ledger.jsonl")[1]
    assert not (tmp_path / "out" / "attack.json").exists()


def test_noisy_answers_that_were_changed_are_refused(folder, command, tmp_path):
    shutil.copytree(folder / "made", tmp_path / "made")
    part = next((tmp_path / "made" / "measurements" / "Block").rglob("part-00000.parquet"))
    tags = pl.read_parquet_metadata(part)
    pl.read_parquet(part).reverse().write_parquet(part, metadata=tags)
    (tmp_path / "attack.toml").write_text(ON_RELEASE)
    said = command("attack", tmp_path / "attack.toml", "--out", tmp_path / "claims", code=8)
    assert part.name in said
    assert not (tmp_path / "claims").exists()


def test_an_exact_table_is_given_away(folder, command):
    text = (
        (folder / "table-attack.toml")
        .read_text()
        .replace("tables =", 'method = { kind = "exact", name = "none" }\ntables =')
    )
    (folder / "exact.toml").write_text(text)
    words = ("attack", folder / "exact.toml", "--out", folder / "exact", "--truth", folder / "people.parquet")
    said = json.loads(command(*words, FLAG, "--json"))
    assert said["claims"]
    # Zeros were left out, and may be hidden for all that he knows; what he claims is right all the same.
    assert all(row["right"] == 1 for row in said["claims"])
    ledger = (folder / "exact" / "ledger.jsonl").read_text()
    assert "true counts compared with what attackers claim" in ledger


def test_settings_that_the_tables_contradict_prove_nothing(folder):
    """Exact counts are no multiples of 7."""
    method = 'method = { kind = "rounding", name = "none", base = 7 }\ntables ='
    (folder / "false.toml").write_text(ON_TABLE.replace("tables =", method))
    attacked = attack(folder / "false.toml", folder / "false", None, lambda words: None)
    assert CONTRADICT in attacked.notes
    assert set(attacked.claims.table["claim"]) <= {ATTRIBUTE}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('sensitive = "age"', 'sensitive = "height"', "height"),
        ('release = "release.toml"\n', "", "release file"),
        ('published = "counts.parquet"', 'published = "made"', "Leave them out"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(folder, command, old, new, words):
    (folder / "wrong.toml").write_text(ON_TABLE.replace(old, new))
    assert words in command("attack", folder / "wrong.toml", "--out", folder / "wrong", code=2)
    assert not (folder / "wrong").exists()
