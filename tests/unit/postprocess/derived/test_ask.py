"""Questions in words: what they mean, that answers are those of intervals and of dense sums, and what is refused."""

import json
import shutil
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.special import ndtr

import tallyveil
from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.estimation.intervals import indices
from tallyveil.estimation.intervals.interval import NO_INTERVALS
from tallyveil.estimation.posterior.sampling import Convergence
from tallyveil.files.histograms import histogram_path, read_histogram, write_histogram
from tallyveil.files.intervals import read_interval_table
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived import asking, numbers
from tallyveil.postprocess.derived.question import LIMIT, Condition, Measure, Question, read_question
from tallyveil.postprocess.draws.job import DrawsDescription
from tallyveil.postprocess.intervals.fits import fits_of
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release
from tallyveil.products.topdown.run.run import run_release
from tallyveil.schema.counts import PublicCounts, TripletSum
from tallyveil.storage.write import file_digest, write_json


@pytest.fixture(scope="module")
def root(make_small_inputs, tmp_path_factory):
    """A release with intervals of three queries."""
    folder = tmp_path_factory.mktemp("ask")
    plan = load_plan(make_small_inputs(folder / "inputs"))
    run_release(plan, folder / "out", test_key=bytes(32), workers=1)
    make_intervals(folder / "out", tables=["total", "age*home", "grown"], workers=1)
    return folder / "out"


@pytest.fixture(scope="module")
def release(root):
    return tallyveil.open(root)


@pytest.fixture(scope="module")
def draws(root, tmp_path_factory):
    """Makes a folder of 40 draws that were made up from the counts of a geolevel, and the counts of each as a table."""

    @cache
    def made_up(geolevel):
        opened, out = open_release(root), tmp_path_factory.mktemp("draws")
        spine, schema = opened.spine, opened.schema
        rng, level = np.random.default_rng(3), spine.level_index(geolevel)
        digests, tables = [], []
        dense = read_histogram(root, geolevel, schema, spine).dense(0, spine.n_geounits(level), schema.size)
        for number in range(40):
            drawn = np.where(dense > 0, rng.poisson(dense), 0)
            units, cells = np.nonzero(drawn)
            sums = TripletSum(len(drawn), schema.size)
            sums.add(units, cells, drawn[units, cells])
            folder = out / f"draw-{number + 1:03d}"
            write_histogram(folder, PublicCounts(geolevel, *sums.finish()), schema, spine, {})
            digests.append(file_digest(histogram_path(folder, geolevel)))
            tables.append(pl.read_parquet(histogram_path(folder, geolevel)).cast({"geocode": pl.String}))
        description = DrawsDescription(
            format=5,
            tallyveil="1",
            release="small",
            run="run",
            manifest_sha256=file_digest(root / "manifest.json"),
            geolevel=geolevel,
            files=digests,
            seed=1,
            chains=4,
            convergence=Convergence(640, 1.0, 1.0, 1.0, 500.0, 3),
            parameters={},
            covariates=[],
            covariates_sha256="",
            earlier=None,
            earlier_sha256="",
            residuals=[],
            misfit="It fits.",
            statement="A model.",
            protected=False,
            warnings=[],
        )
        write_json(out / "draws.json", asdict(description))
        return out, tables

    return made_up


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_answers_are_those_of_intervals(root, release):
    """Of every geolevel, for queries that are measured and for one that is not."""
    for query, words in (("total", "total"), ("age*home", "home by age"), ("grown", "grown")):
        for area in ("Region", "Town", "Block"):
            made = release.ask(f"{words} by {area}", workers=1).table
            wanted = read_interval_table(root, area, query).collect()
            assert made["geocode"].to_list() == wanted["geocode"].cast(pl.String).to_list()
            for name in ("count", "lower", "upper"):
                assert made[name].to_list() == wanted[name].to_list()
            for name in ("estimate", "standard_error"):
                np.testing.assert_allclose(made[name], wanted[name], atol=2e-6)


def test_nothing_is_written(root, release):
    before = files(root)
    release.ask("age by Town")
    assert files(root) == before


def test_unions_and_conditions_are_sums_of_published_counts(root, release):
    towns = release.table("Town", "total")["geocode"].unique(maintain_order=True).to_list()
    cells = pl.read_parquet(root / "histogram" / "Town.parquet").cast({"geocode": pl.String})
    some = cells.filter(pl.col("geocode").is_in(towns[:2]), pl.col("age") != "young", home="house")
    asked = f"total where age = middle, old and home = house in {towns[0]}, {towns[1]}, {towns[0]}"
    made = release.ask(asked).table.row(0, named=True)
    assert made["count"] == some["count"].sum()
    spanned = release.ask("total where age from middle to old").table
    assert spanned["count"][0] == cells.filter(pl.col("age") != "young")["count"].sum()
    by_name = release.ask(
        where={"age": slice("middle", "old"), "home": "house"}, areas={"two": towns[:2], "one": towns[:1]}
    ).table
    assert by_name["geocode"].to_list() == ["two", "one"]
    assert by_name["count"][0] == made["count"]
    assert by_name["standard_error"][0] == pytest.approx(made["standard_error"], abs=1e-6)
    rows = release.ask(f"age by Town where home = house in {towns[1]}").table
    for row in rows.iter_rows(named=True):
        assert row["count"] == cells.filter(geocode=towns[1], home="house", age=row["age"])["count"].sum()


def test_a_difference_has_the_variance_of_its_covariances(release, monkeypatch):
    towns = release.ask("age by Town")
    codes, matrix = towns.table["geocode"].unique(maintain_order=True).to_list(), towns.covariance()
    less = release.ask(f"age by Town minus {codes[0]}").table
    weights = np.zeros(len(matrix))
    weights[[3, 0]] = 1, -1  # the young of the second town less those of the first
    assert less["standard_error"][3] ** 2 == pytest.approx(weights @ matrix @ weights, abs=1e-5)
    some = np.array([weights, np.ones(len(matrix)), np.arange(len(matrix))])
    np.testing.assert_allclose(towns.covariance(some), some @ matrix @ some.T, atol=1e-6)
    for wrong in (weights, some[:, 1:], some * np.nan, [["a"] * len(matrix)]):
        with pytest.raises(ConfigError, match="weights have shape"):
            towns.covariance(wrong)
    with monkeypatch.context() as patch:
        patch.setattr("tallyveil.postprocess.derived.answer.machine_memory", lambda: 1000)
        with pytest.raises(ConfigError, match="a quarter is kept free"):
            towns.covariance()
    assert less["count"][3] == towns.table["count"][3] - towns.table["count"][0]
    assert less["lower"][3] <= less["estimate"][3] <= less["upper"][3]
    assert less.head(3)["standard_error"].to_list() == [0, 0, 0]


def test_shares_are_those_of_quantities(release):
    made = release.ask("age by Town where home = house as share of home").table
    town = made["geocode"][0]
    area = release.area(town)
    counts = release.quantities(
        {
            "part": area.count("age*home", {"age": "old", "home": "house"}),
            "young": area.count("age*home", {"age": "young", "home": "house"}),
            "middle": area.count("age*home", {"age": "middle", "home": "house"}),
        }
    )
    share = counts.share("part", ["part", "young", "middle"])
    row = made.filter(geocode=town, age="old").row(0, named=True)
    assert row["published"] == pytest.approx(share.published)
    assert row["estimate"] == pytest.approx(share.estimate, abs=1e-5)
    assert row["standard_error"] == pytest.approx(share.standard_error, abs=1e-5)
    assert row["lower"] == pytest.approx(share.lower, abs=1e-5)
    whole = release.ask("age by Town as share of total").table
    sums = whole.group_by("geocode").agg(pl.col("published").sum())["published"]
    np.testing.assert_allclose(sums, 1)


def test_a_share_of_what_may_be_zero_is_not_given(release):
    blocks = release.ask("age by Block where home = barracks as share of home").table
    small = blocks.filter(pl.col("lacking").is_not_null())
    assert small.height
    assert small["estimate"].null_count() == small["lower"].null_count() == small.height
    assert not small["usable"].any()
    assert set(small["lacking"]) == {numbers.SMALL}


def test_rates_per_public_numbers(release):
    counts = release.ask("total by Town").table
    per = {code: 50 + number for number, code in enumerate(counts["geocode"])}
    rates = release.ask("total by Town", per=per).table
    for name in ("estimate", "standard_error", "lower", "upper"):
        np.testing.assert_allclose(rates[name], counts[name] / np.array(list(per.values())), atol=1e-6)
    np.testing.assert_allclose(rates["published"], counts["count"] / np.array(list(per.values())))


def test_which_numbers_are_usable(release):
    made = release.ask("age by Block").table
    half = (made["upper"] - made["lower"]) / 2
    assert made["usable"].to_list() == (half <= LIMIT * made["count"]).to_list()
    assert 0 < made["usable"].sum() < made.height
    assert release.ask("age by Block", limit=1e-9).table["usable"].to_list() == (half == 0).to_list()
    assert release.ask("total by Region").table["usable"].all()  # exact


def test_without_a_law_of_the_noise(release, monkeypatch):
    def without_law(*arguments, **more):
        return [replace(fit, model=replace(fit.model, gaussian=False)) for fit in fits_of(*arguments, **more)]

    monkeypatch.setattr("tallyveil.postprocess.derived.ask.fits_of", without_law)
    made = release.ask("age by Town")
    assert made.covers == NO_INTERVALS
    assert made.table["lower"].null_count() == made.table["usable"].null_count() == made.table.height
    assert made.table["estimate"].null_count() == 0


def test_a_share_of_what_is_no_part_is_refused(release):
    towns = release.table("Town", "total")["geocode"].to_list()
    with pytest.raises(ConfigError, match="no part of them"):
        release.ask(f"age in {towns[0]} minus {towns[1]} as share of total")


def test_groups_of_ones_own_are_those_of_a_recode(release, tmp_path, command, root):
    """A release that has these groups as a recode answers the same; levels in no group are not counted."""
    own = "age into young = young or grown from middle to old"
    for rest in ("by Town", "by home as share of total", "by Town where home = house as share of age"):
        made = release.ask(f"{own} {rest}").table.rename({"age": "grown"})
        assert_frame_equal(made, release.ask(f"grown {rest.replace('age', 'grown')}").table)
    groups = {"age": {"young": "young", "grown": slice("middle", "old")}}
    made = release.ask(by=["age", "Town"], groups=groups).table
    assert_frame_equal(made, release.ask(f"{own} by Town").table)
    some = release.ask("age into ends = young, old by Town").table
    parts = release.ask("age by Town").table
    assert some["count"].to_list() == [
        int(part["count"].sum())
        for _, part in parts.filter(pl.col("age") != "middle").group_by("geocode", maintain_order=True)
    ]
    assert release.ask(f"median of {own}").table["published"].item() == "grown"
    file = tmp_path / "answer.json"
    command("ask", root, f"{own} by Town", "--out", file, "--quiet")
    assert json.loads(file.read_text())["dimension"]["age"]["category"]["index"] == ["young", "grown"]


def test_the_words_of_a_question():
    said = read_question(
        "sex by 'age 5' by Town where 'it''s' = "
        + '"a ""b", über and age from 18 to 85+ in 01, "where" '
        + "minus 02 as share of sex by age"
    )
    assert said == Question(
        ("sex", "age 5", "Town"),
        (Condition("it's", ('a "b', "über"), False), Condition("age", ("18", "85+"), True)),
        ("01", "where"),
        ("02",),
        ("sex", "age"),
    )
    assert read_question("total as share of total") == Question(share_of=())
    assert read_question("total as deviation") == Question(is_deviation=True)
    assert read_question("median of age by Town").measure == Measure("quantile", 0.5)
    assert read_question("quantile 0.9 of age").measure == Measure("quantile", 0.9)
    theil = read_question("theil of home by Town across Block in 01")
    assert theil == Question(("home", "Town"), (), ("01",), measure=Measure("theil"), across="Block")
    # words of measures are names, too, where no "of" follows
    assert read_question("median by quantile") == Question(("median", "quantile"))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("", "has its end where an attribute"),
        ("age where", "has its end where"),
        ("age where home", "neither '=' nor 'from'"),
        ("age where home = ", "has its end where a level"),
        ("age where home from house", "'from' without 'to'"),
        ("age as part of home", "'as' without 'share of'"),
        ("age as deviation by Town", "goes on with 'by'"),
        ("median of total", "of no attribute"),
        ("median of Town", "'Town' is no attribute"),
        ("median of age where age = old", "one level 'old'"),
        ("median of age as share of home", "together with a share"),
        ("quantile 2 of age", "the quantile is '2', wanted a number"),
        ("quantile of age", "the quantile is '', wanted"),
        ("mode of age", "'mode' is no measure"),
        ("age across Block", "without an index"),
        ("dissimilarity of age", "compares areas"),
        ("entropy of age across Block", "compares no areas"),
        ("theil of age across Street", "no geolevel"),
        ("age home", "goes on with 'home'"),
        ('age where home = "house', "quote without its end"),
        ("ages", "Did you mean 'age'"),
        ("age by grown", "both of attribute 'age'"),
        ("Town by Block", "Keep one geolevel"),
        ("total where Town = P01", "'Town' is no attribute or recode"),
        ("total where home = hose", "Did you mean 'house'"),
        ("total where home = House", "no level 'House'"),
        ("total where age from old to young", "stands before it"),
        ("total where age = old and age = young", "contradict each other"),
        ("grown where grown = grown and age = young", "contradict each other"),
        ("age as share of home", "'home' is no attribute or recode of the question"),
        ("age into some", "neither '=' nor 'from'"),
        ("age into some = Old", "no level 'Old'"),
        ("age into some = old or more from middle to old", "has a level of an earlier group"),
        ("age into some = old or some = young", "have the same label"),
        ("age by Town in \ud800", "no UTF-8"),
        ("Town into some = P01", "'Town' is no attribute or recode"),
        ("total into some = old", "which makes no rows"),
    ],
)
def test_questions_that_are_refused(release, question, words):
    with pytest.raises(ConfigError, match=words) as refused:
        release.ask(question)
    assert refused.value.code == "bad-question"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"question": "age", "by": ["age"]}, "as a text and by arguments"),
        ({"areas": []}, "empty"),
        ({"areas": {}}, "empty"),
        ({"areas": [1]}, "list of names"),
        ({"by": ["Town"], "areas": {"a": ["P01"]}}, "unions by name"),
        ({"by": ["Town"], "areas": ["P01", "P01"]}, "twice"),
        ({"where": {"age": []}}, "names no level"),
        ({"where": ["age"]}, "where names with their levels are wanted"),
        ({"by": ["age"], "groups": {"age": ["old"]}}, "where names with their levels are wanted"),
        ({"by": ["home"], "groups": {"age": {"some": "old"}}}, "which makes no rows"),
        ({"by": ["age"], "groups": {"age": {}}}, "or there is no group"),
        ({"by": ["age"], "groups": {"age": {"": "old"}}}, "a label is empty"),
        ({"by": ["age"], "groups": {"age": {"\ud800": "old"}}}, "names as text of one line"),
        ({"by": ["age"], "groups": {"age": {"a": slice("young", "old", 2)}}}, "a slice with a step"),
        ({"by": ["age"], "areas": {"a\nb": ["P00"]}}, "names as text of one line"),
        ({"where": {"age": slice("young", None)}}, "list of names"),
        ({"per": {"all": 0}}, "above 0"),
        ({"per": {"all": 10**400}}, "above 0"),
        ({"per": {}}, "no number for 'all'"),
        ({"per": {"all": 5}, "share_of": []}, "with a share or a difference"),
        ({"limit": 0.0}, "above 0"),
        ({"limit": 1e308}, "at most 1000"),
        ({"limit": float("inf")}, "at most 1000"),
        ({"threshold": -1}, "wanted a number above 0, such as 10000"),
        ({"threshold": 1e308}, "none beyond 1,000,000,000,000,000"),
        ({"minus": ["P01"], "threshold": float("nan")}, "any finite number, such as 0"),
        ({"by": ["age"], "measure": "median", "threshold": 5}, "a quantile or an index"),
        ({"threshold": 1.0, "share_of": []}, "below 1"),
        ({"share_of": [], "deviation": True}, "Ask for one of them"),
        ({"measure": "median", "by": ["age"], "per": {"all": 5}}, "a number that is no count|no count"),
    ],
)
def test_arguments_that_are_refused(release, arguments, words):
    with pytest.raises(ConfigError, match=words):
        release.ask(**arguments)


def test_areas_and_releases_that_cannot_be_asked(release, root, tmp_path, monkeypatch):
    with pytest.raises(GeographyError, match="has the code or the name '07'"):
        release.ask("total in 07")
    with pytest.raises(GeographyError, match="in 'Town'"):
        release.ask("total by Town in P")
    monkeypatch.setattr(asking, "MOST_ROWS", 5)
    with pytest.raises(ConfigError, match="rows; at most 5 are answered"):
        release.ask("total by Block")
    monkeypatch.setattr(asking, "MOST_ROWS", 10**9)
    monkeypatch.setattr(asking, "MOST_NUMBERS", 50)
    with pytest.raises(ConfigError, match=r"counts of all areas by the levels .*; at most 50 are"):
        release.ask("age by Block")
    with pytest.raises(StoreError):
        tallyveil.open(tmp_path).ask("total")


def test_a_release_without_measurements(make_small_inputs, tmp_path):
    file = make_small_inputs(tmp_path / "inputs")
    plan = replace(load_plan(file), measurements="none")
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    with pytest.raises(StoreError) as refused:
        tallyveil.open(tmp_path / "out").ask("total")
    assert refused.value.code == "measurements-missing"


@pytest.mark.nightly
def test_a_release_with_a_model_for_each_table(make_small_inputs, tmp_path):
    """What a table of the question's counts would have, with merged cells."""
    plan = replace(load_plan(make_small_inputs(tmp_path / "inputs")), measurements="small")
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    make_intervals(tmp_path / "out", tables=["age"], workers=1)
    made = tallyveil.open(tmp_path / "out").ask("age by Town").table
    wanted = read_interval_table(tmp_path / "out", "Town", "age").collect()
    np.testing.assert_allclose(made["estimate"], wanted["estimate"], atol=2e-6)
    np.testing.assert_allclose(made["standard_error"], wanted["standard_error"], atol=2e-6)


def test_quantiles_are_those_of_the_counts(root, release):
    """Against the levels that the published counts and the tests of single sums give."""
    made = release.ask("median of age by home by Town").table
    counts = release.ask("age by home by Town").table
    levels = ["young", "middle", "old"]
    assert made.columns == [
        *("geocode", "home", "count", "published", "estimate", "lower", "upper", "usable", "lacking")
    ]
    for row in made.iter_rows(named=True):
        some = counts.filter(geocode=row["geocode"], home=row["home"]).sort(
            pl.col("age").replace_strict({level: number for number, level in enumerate(levels)})
        )
        assert row["count"] == some["count"].sum()
        cumulated = np.cumsum(some["count"])
        if row["count"]:
            assert row["published"] == levels[int((2 * cumulated < row["count"]).sum())]
        if row["lacking"] is None:
            places = [levels.index(row[name]) for name in ("lower", "estimate", "upper")]
            assert places == sorted(places)
    assert made["lacking"].null_count() > 0
    assert release.ask(by=["age", "home", "Town"], measure="median").table.equals(made)
    low = release.ask("quantile 0.01 of age by Region").table.row(0, named=True)
    high = release.ask("quantile 0.99 of age by Region").table.row(0, named=True)
    assert (low["published"], high["published"]) == ("young", "old")


def test_an_index_is_that_of_its_counts(release):
    made = release.ask("entropy of age by Town where home = house").table
    answer = release.ask("age by Town where home = house")
    shares = answer.table["count"].to_numpy().reshape(-1, 3) / answer.table["count"].to_numpy().reshape(
        -1, 3
    ).sum(1, keepdims=True)
    np.testing.assert_allclose(made["published"], -(shares * np.log(shares)).sum(axis=1))
    given = np.flatnonzero(made["lacking"].is_null())
    assert len(given)
    town, whole = int(given[0]), answer.covariance()
    own = whole[3 * town : 3 * town + 3, 3 * town : 3 * town + 3]
    x = answer.table["estimate"].to_numpy()[3 * town : 3 * town + 3]
    p = x / x.sum()
    slope = -(np.log(p) - (p * np.log(p)).sum()) / x.sum()
    assert made["standard_error"][town] == pytest.approx(np.sqrt(slope @ own @ slope), rel=1e-4)
    with pytest.raises(ConfigError, match="no covariances"):
        release.ask("entropy of age").covariance()


def test_indices_compare_the_parts_of_each_area(release, root):
    made = release.ask("dissimilarity of home across Town").table
    cells = pl.read_parquet(root / "histogram" / "Town.parquet").cast(
        {"geocode": pl.String, "home": pl.String}
    )
    table = (
        cells.group_by("geocode", "home")
        .agg(pl.col("count").sum())
        .pivot("home", index="geocode", values="count")
    )
    x = table.drop("geocode").fill_null(0).to_numpy().astype(float)
    p, t = x.sum(0) / x.sum(), x.sum(1)
    wanted = np.abs(x - np.outer(t, p)).sum() / (2 * x.sum() * (p * (1 - p)).sum())
    assert made["published"][0] == pytest.approx(wanted)
    blocks = release.ask("gini of home by Town across Block").table
    # Blocks are so small that the noise alone makes them differ.
    assert set(blocks["lacking"].drop_nulls()) <= {indices.BIASED, indices.MAY_BE_ZERO}
    assert blocks["lacking"].null_count() < blocks.height


def test_counts_and_differences_are_held_to_a_number(release):
    """A count and its limit, and two towns by their difference; a rate is held as its count is."""
    made = release.ask("total by Town", threshold=150).table
    score = (made["estimate"] - 150) / made["standard_error"]
    np.testing.assert_allclose(made["probability"], ndtr(score.to_numpy()), atol=1e-5)
    assert set(made["statement"]) <= {"above", "not above", "open"}
    (row,) = release.ask("age where age = old in P01 minus P02", threshold=0).table.to_dicts()
    assert row["probability"] == pytest.approx(float(ndtr(row["estimate"] / row["standard_error"])), abs=1e-5)
    assert release.ask("total in P", threshold=1).table["probability"].to_list() == [1]  # known exactly
    rates = release.ask("total by Town", per=dict.fromkeys(made["geocode"], 10), threshold=15).table
    assert rates["probability"].equals(made["probability"])


def test_deviations_and_what_is_said_of_a_threshold(release, tmp_path):
    towns = release.ask("total by Town")
    made = release.ask("total by Town as deviation", threshold=0.5).table
    x = towns.table["estimate"].to_numpy()
    np.testing.assert_allclose(made["estimate"], x / x.mean() - 1, atol=1e-6)
    counts = towns.table["count"].to_numpy()
    np.testing.assert_allclose(made["published"], counts / counts.mean() - 1, atol=1e-9)
    n, matrix = len(x), towns.covariance()
    slope = (np.eye(n) - np.outer(x / x.mean(), np.full(n, 1 / n))) / x.mean()
    np.testing.assert_allclose(made["standard_error"], np.sqrt(np.diag(slope @ matrix @ slope.T)), atol=1e-6)
    assert set(made["statement"]) <= {"within", "outside", "open"}
    for row in made.iter_rows(named=True):
        if row["statement"] == "within":
            assert abs(row["estimate"]) < 0.5 < 1 + row["probability"]
            assert row["probability"] > 0.95
    shares = release.ask("age by Town as share of total", threshold=0.3).table
    z = (shares["estimate"] - 0.3) / shares["standard_error"]
    rough = ndtr(z.to_numpy())
    assert np.abs(shares["probability"] - rough).max() < 0.05
    assert (shares.filter(statement="above")["lower"] > 0.3).all()
    assert (shares.filter(statement="not above")["upper"] < 0.3).all()
    assert shares.filter(statement="open").height


def test_a_plan_of_districts_is_answered_whole(release, tmp_path, command, root):
    blocks = release.table("Block", "total")["geocode"].unique(maintain_order=True).to_list()
    plan = pl.DataFrame(
        {"geocode": blocks, "district": [f"D{number % 2 + 1}" for number in range(len(blocks))]}
    )
    plan.write_csv(tmp_path / "plan.csv")
    districts = release.districts(tmp_path / "plan.csv")
    made = release.ask("age as share of total", areas=districts, threshold=0.4).table
    assert made["geocode"].unique(maintain_order=True).to_list() == ["D1", "D2"]
    wanted = districts.estimate(["total"])
    of = release.ask("total", areas=districts).table
    assert of["count"].to_list() == wanted["published"].to_list()
    np.testing.assert_allclose(of["estimate"], wanted["estimate"], atol=1e-4)
    asked = ("ask", root, "age as share of total", "--district", tmp_path / "plan.csv", "--threshold", "0.4")
    rows = json.loads(command(*asked, "--json"))["rows"]
    assert pl.DataFrame(rows, schema=made.schema).equals(made)
    said = command(*asked)
    assert "statement" in said
    assert "D2" in said
    with pytest.raises(ConfigError, match="given twice"):
        release.ask("age by Town", areas=districts)
    assert "only together with --district" in command("ask", root, "age", "--district-column", "a", code=2)


def test_the_difference_of_two_releases(make_small_inputs, tmp_path, release, root, command):
    plan = load_plan(make_small_inputs(tmp_path / "inputs"))
    run_release(plan, tmp_path / "later", test_key=bytes([1]) * 32, workers=1)
    later = tallyveil.open(tmp_path / "later")
    before, after = release.ask("age by Town"), later.ask("age by Town")
    made = after.minus(before)
    np.testing.assert_allclose(
        made.table["estimate"], after.table["estimate"] - before.table["estimate"], atol=1e-5
    )
    np.testing.assert_allclose(
        made.table["standard_error"] ** 2,
        after.table["standard_error"] ** 2 + before.table["standard_error"] ** 2,
        atol=1e-4,
    )
    np.testing.assert_allclose(made.covariance(), after.covariance() + before.covariance())
    assert (made.table["lower"] <= made.table["estimate"] + 1).all()
    assert made.table["count"].to_list() == (after.table["count"] - before.table["count"]).to_list()
    shares = later.ask("age by Town as share of total").minus(release.ask("age by Town as share of total"))
    assert shares.table["standard_error"].null_count() == 0
    rows = json.loads(command("ask", tmp_path / "later", "age by Town", "--earlier", root, "--json"))["rows"]
    command("ask", tmp_path / "later", "total", "--earlier", root, "--threshold", "5", code=2)
    assert [row["estimate"] for row in rows] == made.table["estimate"].to_list()
    for other, words in (
        (before, "same measurements"),
        (later.ask("age by Block"), "not the same areas"),
        (later.ask("median of age by Town"), "no difference"),
        (before.table, "takes the answer"),
    ):
        with pytest.raises(ConfigError, match=words):
            before.minus(other)


def test_numbers_from_files_and_files_that_are_there(root, tmp_path, command, release):
    towns = release.ask("total by Town").table
    towns.select("geocode", number=pl.lit(10)).write_csv(tmp_path / "per.csv")
    asked = ("ask", root, "total by Town", "--per", tmp_path / "per.csv", "--out", tmp_path / "made.csv")
    command(*asked)
    made = pl.read_csv(tmp_path / "made.csv")
    np.testing.assert_allclose(made["published"], towns["count"] / 10)
    assert "is there already" in command(*asked, code=2)
    pl.concat([towns, towns]).select("geocode", number=pl.lit(10)).write_csv(tmp_path / "per.csv")
    assert "an area twice" in command("ask", root, "total by Town", "--per", tmp_path / "per.csv", code=2)


def test_a_plan_that_was_replaced_is_refused(root, tmp_path, command):
    copy = shutil.copytree(root, tmp_path / "copy")
    plan = json.loads((copy / "plan.json").read_text())
    (copy / "plan.json").write_text(json.dumps(plan | {"rho": "1/7"}))
    assert "different plans" in command("ask", copy, "total", code=8)


def test_numbers_from_draws_are_those_of_each_draw(release, draws):
    """Counts, shares, deviations and quantiles, each computed again from the table of every draw."""
    folder, tables = draws("Town")
    codes = release.ask("total by Town").table["geocode"]

    def by_town(table, condition=None):
        rows = table if condition is None else table.filter(condition)
        sums = rows.group_by("geocode").agg(pl.col("count").sum())
        joined = pl.DataFrame({"geocode": codes}).join(sums, on="geocode", how="left")
        return joined["count"].fill_null(0).to_numpy().astype(float)

    everybody = np.array([by_town(table) for table in tables])
    houses = np.array([by_town(table, pl.col("home") == "house") for table in tables])
    for asked, wanted in (
        ("total by Town", everybody),
        ("total by Town where home = house", houses),
        ("total by Town where home = house as share of total", houses / everybody),
        ("total by Town as deviation", everybody / everybody.mean(axis=1, keepdims=True) - 1),
    ):
        answer = release.ask(asked, draws=folder, level=0.9)
        np.testing.assert_allclose(answer.table["drawn"], wanted.mean(axis=0), atol=1e-8)
        inside = (wanted >= answer.table["drawn_lower"].to_numpy() - 1e-8) & (
            wanted <= answer.table["drawn_upper"].to_numpy() + 1e-8
        )
        assert (inside.mean(axis=0) >= 0.9).all()
        assert not inside.all()
        plain = release.ask(asked, level=0.9)
        assert answer.table.drop("drawn", "drawn_lower", "drawn_upper").equals(plain.table)
        assert answer.keys == plain.keys
        assert (answer.of_draws, plain.of_draws) == ("A model. It fits.", "")
    # A tenth left out is two draws on each side.
    assert answer.table["drawn_lower"].to_list() == pytest.approx(np.sort(wanted, axis=0)[1])
    per = release.ask("total by Town", per=dict.fromkeys(codes, 10), draws=folder, level=0.9).table
    np.testing.assert_allclose(per["drawn"], everybody.mean(axis=0) / 10, atol=1e-8)
    median = release.ask("median of age", draws=folder, level=0.9).table.row(0, named=True)
    ages = ["young", "middle", "old"]
    order = [ages.index(median[name]) for name in ("drawn_lower", "drawn", "drawn_upper")]
    assert order == sorted(order)


def test_a_table_of_draws_has_what_needs_no_model_beside(release, draws, root):
    folder, _ = draws("Block")
    opened = tallyveil.open_draws(folder, root)
    for area, query, words in (
        ("Town", "age*home", "home by age by Town"),
        ("Region", "grown", "grown by Region"),
        ("Block", "total", "total by Block"),
    ):
        table, answer = opened.table(area, query, level=0.9), release.ask(words, level=0.9).table
        for name, of_answer in (
            ("geocode", "geocode"),
            ("published", "count"),
            ("estimate", "estimate"),
            ("estimate_lower", "lower"),
            ("estimate_upper", "upper"),
        ):
            assert table[name].to_list() == answer[of_answer].to_list()
        assert table["mean"].null_count() == 0
    # Of single blocks a table has the number of people, and nothing else.
    with pytest.raises(ConfigError, match="too little of so few"):
        opened.table("Block", "age", level=0.9)


def test_draws_that_cannot_answer_are_refused(release, draws, root, tmp_path, command):
    folder, _ = draws("Town")
    blocks = release.table("Block", "total")["geocode"].unique(maintain_order=True)
    for asked, words in (
        ("total by Block", "part of a geounit of Town"),
        (f"total minus {blocks[0]}", "subtracted has a part"),
        ("dissimilarity of home across Town", "too narrow"),
        ("entropy of home", "too narrow"),
    ):
        with pytest.raises(ConfigError, match=words):
            release.ask(asked, draws=folder, level=0.9)
    with pytest.raises(ConfigError, match="needs 41 draws"):
        release.ask("total", draws=folder)
    with pytest.raises(StoreError, match=r"draws\.json"):
        release.ask("total", draws=tmp_path)
    answer = release.ask("total by Town", draws=folder, level=0.9)
    with pytest.raises(ConfigError, match="without draws"):
        answer.minus(answer)
    # Of single blocks, experimental draws say how many people there are, and nothing else.
    experimental, tables = draws("Block")
    people = release.ask("total by Block", draws=experimental, level=0.9).table
    sums = [table.filter(geocode=blocks[0])["count"].sum() for table in tables]
    assert people.filter(geocode=blocks[0])["drawn"].item() == pytest.approx(np.mean(sums))
    for asked in ("age by Block", "total by Block where age = old", "median of age by Block"):
        with pytest.raises(ConfigError, match="too little of so few Block"):
            release.ask(asked, draws=experimental, level=0.9)
    assert release.ask("age by Town", draws=experimental, level=0.9).table["drawn"].null_count() == 0
    said = command("ask", root, "age by Town", "--from-draws", folder, "--level", "0.9")
    assert "from draws" in said
    assert "A model. It fits." in said
    record = json.loads(command("ask", root, "total", "--from-draws", folder, "--level", "0.9", "--json"))
    assert record["of_draws"] == "A model. It fits."
    assert record["rows"][0]["drawn_lower"] <= record["rows"][0]["drawn"]
    command("ask", root, "total", "--from-draws", folder, "--earlier", root, code=2)
