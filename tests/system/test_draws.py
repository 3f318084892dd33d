"""`tallyveil draws`: whole tables that agree with everything public, for any number of threads, if chains agree."""

import json
import shutil

import numpy as np
import polars as pl
import pytest
from tests.reserve_spine import ENTITIES, STEPS, entities_of, with_shares
from tests.samples import nightly

import tallyveil
from tallyveil.errors import TallyveilError
from tallyveil.estimation.posterior import sampling
from tallyveil.geography.tables import read_public_numbers
from tallyveil.postprocess.draws import inputs, job
from tallyveil.storage.write import UNFINISHED, file_digest


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory):
    """A finished release of 48 blocks."""
    folder = tmp_path_factory.mktemp("draws")
    return tallyveil.run(
        make_small_inputs(folder / "inputs"), folder / "release", insecure_test_key="draws"
    ).path


def with_few_sweeps(patch):
    """Chains of an eighth of the sweeps, whose draws are taken whether they agree or not."""
    for name, value in (
        *(("LEARNING", 8), ("FAR_SWEEPS", 2), ("FIRST_SEGMENT", 8)),
        *(("MOST_REDUCTION", 1e9), ("LEAST_SIZE", 0.0), ("MOST_AT_SMALL", 1e9)),
    ):
        patch.setattr(sampling, name, value)
    patch.setattr(job, "FIRST_SWEEPS", 72)


def draws_of(release, out):
    """Draws of its blocks."""
    # With this seed the chains agree after half as many sweeps as with others.
    return tallyveil.make_draws(release, out, number=100, seed=2, experimental_blocks=True, workers=2)


@pytest.fixture(scope="module")
def made(release, tmp_path_factory):
    """Draws of chains that need not agree: for what holds of every draw, and of the files."""
    with pytest.MonkeyPatch.context() as patch:
        with_few_sweeps(patch)
        return draws_of(release, tmp_path_factory.mktemp("made") / "draws")


@pytest.fixture(scope="module")
def agreed(release, tmp_path_factory):
    """Draws of chains that agree."""
    return draws_of(release, tmp_path_factory.mktemp("agreed") / "draws")


def test_every_draw_agrees_with_invariants_and_bounds(release, made):
    opened = tallyveil.open(release)
    exact = opened.table("Region", "total")["count"].to_list()
    regions = made.values("Region", "total")["draws"].to_numpy()
    assert regions.shape == (2, 100)
    assert all((regions[:, i] == exact).all() for i in range(100))
    blocks = made.values("Block", "home")
    bounds = pl.read_parquet(release.parent / "inputs" / "barracks.parquet")
    open_places = bounds.select("geocode", "home", "lower")
    with_limits = blocks.join(open_places, on=["geocode", "home"], how="left")
    draws = with_limits["draws"].to_numpy()
    assert (draws[with_limits["lower"].is_null().to_numpy()] == 0).all()
    assert (draws >= with_limits["lower"].fill_null(0).to_numpy()[:, None]).all()
    # No young person lives in barracks: a structural zero of the schema.
    cells = made.values("Block", "age*home").filter(
        (pl.col("age") == "young") & (pl.col("home") == "barracks")
    )
    assert (cells["draws"].to_numpy() == 0).all()


def test_tables_say_what_draws_say(made):
    values, table = made.values("Town", "age"), made.table("Town", "age", level=0.9)
    draws = values["draws"].to_numpy()
    assert table["mean"].to_numpy() == pytest.approx(draws.mean(axis=1))
    assert table["standard_deviation"].to_numpy() == pytest.approx(draws.std(axis=1, ddof=1))
    inside = (draws >= table["lower"].to_numpy()[:, None]) & (draws <= table["upper"].to_numpy()[:, None])
    assert (inside.mean(axis=1) >= 0.9).all()
    # Sums of blocks are those of towns, draw by draw.
    blocks = (
        made.values("Block", "age")["draws"].to_numpy().reshape(8, 6, 3, 100).sum(axis=1).reshape(24, 100)
    )
    assert (blocks == draws).all()
    assert "too narrow" in repr(made)


@pytest.mark.nightly
def test_draws_are_near_the_measurements_and_differ(release, agreed):
    assert agreed.description["convergence"]["reduction"] <= 1.01
    opened = tallyveil.open(release)
    published = opened.table("Town", "age")["count"].to_numpy()
    table = agreed.table("Town", "age")
    errors = table["mean"].to_numpy() - published
    assert np.abs(errors).mean() < 3 * table["standard_deviation"].to_numpy().mean()
    assert (table["standard_deviation"].to_numpy() > 0).mean() > 0.9


def test_the_folder_says_what_it_is(release, made, tmp_path, command):
    assert "too narrow" in (made.path / "README.txt").read_text()
    assert len(list(made.path.iterdir())) == 102
    description = json.loads((made.path / "draws.json").read_text())
    assert len(description["files"]) == 100
    assert description["warnings"]
    # The small release is measured at few geounits, so that chance alone moves ratios far from 1.
    assert all(0.2 < ratio < 3 for item in description["residuals"] for ratio in item["ratio"])
    assert "variance of the noise" in (made.path / "README.txt").read_text()
    assert set(description["parameters"]) >= {"concentration", "near", "size_shape"}
    command("draws", release, "--out", tmp_path / "e", "--number", "129", code=2)
    command("draws", release, "--out", made.path, code=8)
    with pytest.raises(TallyveilError, match="no draws of 'State'"):
        made.values("State", "age")
    with pytest.raises(TallyveilError, match="needs 201 draws"):
        made.table("Town", "age", level=0.99)
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(TallyveilError, match="wanted more than 0"):
            made.table("Town", "age", level=level)
    with pytest.raises(TallyveilError, match="576 or more"):
        tallyveil.make_draws(release, tmp_path / "e", sweeps=1)
    with pytest.raises(TallyveilError, match="0 or more"):
        tallyveil.make_draws(release, tmp_path / "e", seed=-1)


@pytest.mark.nightly
def test_the_command_makes_the_same_draws_with_one_thread(release, agreed, tmp_path, command):
    arguments = ("--experimental-blocks", "--number", "100", "--seed", "2", "--workers", "1", "--json")
    said = json.loads(command("draws", release, "--out", tmp_path / "d", *arguments))
    again = tallyveil.open_draws(tmp_path / "d", release)
    assert again.values("Block", "age*home").equals(agreed.values("Block", "age*home"))
    assert said["convergence"] == agreed.description["convergence"]


@pytest.mark.nightly
def test_another_seed_gives_other_draws_of_the_same_law(release, agreed, tmp_path):
    other = tallyveil.make_draws(release, tmp_path / "b", number=100, seed=3)
    assert other.description["geolevel"] == "Town"
    first, second = agreed.table("Town", "age"), other.table("Town", "age")
    assert not first.equals(second)
    error = np.hypot(first["standard_deviation"].to_numpy(), second["standard_deviation"].to_numpy()) / 10
    # Draws of a chain are correlated, but not more than a few times.
    assert (np.abs(first["mean"].to_numpy() - second["mean"].to_numpy()) < 8 * error + 0.05).all()


@pytest.mark.nightly
def test_chains_that_disagree_publish_nothing(release, tmp_path, monkeypatch):
    # Three of four chains stay where they began; what they learned before does not matter.
    monkeypatch.setattr(sampling, "LEARNING", 4)
    from tallyveil.estimation.posterior.chain import Chain

    run = Chain.run
    monkeypatch.setattr(
        Chain,
        "run",
        lambda chain, sweeps, **how: 0 if chain.number in (1, 2, 3) else run(chain, sweeps, **how),
    )
    with pytest.raises(TallyveilError, match="Nothing was written") as raised:
        tallyveil.make_draws(release, tmp_path / "d", number=2, sweeps=640)
    assert raised.value.code == "draws-not-converged"
    assert not (tmp_path / "d" / "draws.json").exists()


@pytest.fixture
def short(monkeypatch):
    """Chains that are compared after 16 sweeps, 32, and 64, and agree then."""
    for name, value in (
        *(("LEARNING", 4), ("FAR_SWEEPS", 2), ("FIRST_SEGMENT", 8)),
        *(("FIRST_SEGMENTS", 2), ("SEGMENTS", 4), ("THROWN", 0)),
        *(("MOST_REDUCTION", 1e9), ("LEAST_SIZE", 0.0), ("MOST_AT_SMALL", 1e9)),
    ):
        monkeypatch.setattr(sampling, name, value)
    monkeypatch.setattr(job, "FIRST_SWEEPS", 16)
    passed = sampling.Convergence.passed
    assert isinstance(passed, property)
    monkeypatch.setattr(
        sampling.Convergence, "passed", property(lambda self: self.sweeps >= 64 and passed.fget(self))
    )


def test_draws_that_stop_go_on_and_are_the_same(release, short, tmp_path, monkeypatch):
    """Interrupted when the common parameters are saved and at the first comparison, then given up, then finished."""
    out, whole = tmp_path / "d", tallyveil.make_draws(release, tmp_path / "whole", number=2)
    write = job._SavedChains.write

    def interrupted(chains, progress):
        write(chains, progress)
        raise KeyboardInterrupt

    for saved in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(job._SavedChains, "write", interrupted)
            if saved:
                patch.setattr(sampling, "_learned", None)
            with pytest.raises(KeyboardInterrupt):
                tallyveil.make_draws(release, out, number=2)
        assert sorted(path.name for path in out.iterdir()) == [UNFINISHED, "chains.zip"]
    monkeypatch.setattr(sampling, "_learned", None)
    with pytest.raises(TallyveilError, match="goes on where the chains stopped") as raised:
        tallyveil.make_draws(release, out, number=2, sweeps=32)
    assert raised.value.code == "draws-not-converged"
    again = tallyveil.make_draws(release, out, number=2, workers=1)
    assert again.description == whole.description
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.path.iterdir()}


@pytest.mark.nightly
def test_chains_of_another_seed_and_damaged_ones_are_not_gone_on_with(release, short, tmp_path):
    out = tmp_path / "d"
    with pytest.raises(TallyveilError, match="do not agree"):
        tallyveil.make_draws(release, out, number=2, sweeps=32)
    chains = (out / "chains.zip").read_bytes()
    (out / "chains.zip").write_bytes(chains[:-200])
    with pytest.raises(TallyveilError, match="Remove the file") as raised:
        tallyveil.make_draws(release, out, number=2)
    assert raised.value.code == "run-damaged"
    (out / "chains.zip").write_bytes(chains)
    other = tallyveil.make_draws(release, out, number=2, seed=5)
    assert other.description == tallyveil.make_draws(release, tmp_path / "e", number=2, seed=5).description


@pytest.mark.nightly
def test_chains_without_covariates_are_not_gone_on_with(release, homes, short, tmp_path):
    out, file = tmp_path / "d", tmp_path / "homes.parquet"
    homes.write_parquet(file)
    with pytest.raises(TallyveilError, match="do not agree"):
        tallyveil.make_draws(release, out, number=2, sweeps=32)
    other = tallyveil.make_draws(release, out, number=2, covariates=file)
    whole = tallyveil.make_draws(release, tmp_path / "e", number=2, covariates=file)
    assert other.description == whole.description


@pytest.fixture(scope="module")
def homes(release):
    """A public number of each of the 48 blocks."""
    codes = tallyveil.open(release).table("Block", "total")["geocode"]
    return pl.DataFrame({"geocode": codes, "homes": [i % 7 for i in range(48)]})


def test_draws_say_which_covariates_they_follow_from(release, homes, tmp_path, monkeypatch, command):
    with_few_sweeps(monkeypatch)
    file = tmp_path / "homes.csv"
    homes.sample(fraction=1.0, shuffle=True, seed=1).write_csv(file)
    said = json.loads(
        command("draws", release, "--out", tmp_path / "d", "--number", "1", "--covariates", file, "--json")
    )
    assert [item["name"] for item in said["covariates"]] == ["homes"]
    assert said["covariates_sha256"] == file_digest(file)
    # One of the logarithm, and one of zeros; kinds of 0, 1, 2, 3 and more.
    assert len(said["parameters"]["size_effects"]) == 2
    assert len(said["parameters"]["empty_mean"]) == 4
    draws = tallyveil.open_draws(tmp_path / "d", release)
    for text in (said["statement"], repr(draws), (draws.path / "README.txt").read_text()):
        assert "live in a Block was also learned from public numbers: homes." in text


def changed(homes, change):
    """The table with one thing changed."""
    number, row = pl.col("homes"), pl.int_range(pl.len())
    return {
        "a block lacks": homes.head(47),
        "a block twice": pl.concat([homes, homes.head(1)]),
        "another year": homes.with_columns(pl.col("geocode").str.replace("^.", "9")),
        "negative": homes.with_columns(number - 1),
        "NaN": homes.with_columns(pl.when(row == 3).then(float("nan")).otherwise(number)),
        "infinite": homes.with_columns(pl.when(row == 3).then(float("inf")).otherwise(number)),
        "missing": homes.with_columns(pl.when(row == 3).then(None).otherwise(number)),
        "dates": homes.with_columns(number.cast(pl.Date)),
        "durations": homes.with_columns(number.cast(pl.Duration)),
        "words": homes.with_columns(pl.lit("many").alias("homes")),
        "alike": homes.with_columns(pl.lit(3).alias("homes")),
        "none": homes.select("geocode"),
        "four": homes.with_columns(number.alias(name) for name in "abc"),
        "hostile": homes.rename({"homes": "\x1b[2J"}),
        "no UTF-8": homes.rename({"homes": "h\ufffdmes"}),
    }[change]


@pytest.mark.parametrize(
    ("change", "words", "code"),
    [
        ("a block lacks", "1 finest geounits have no row", "draws-covariates"),
        ("a block twice", "more than one", "draws-covariates"),
        ("another year", "same year", "entity-geocode"),
        ("negative", "7 rows of column 'homes'", "draws-covariates"),
        ("NaN", "1 rows", "draws-covariates"),
        ("infinite", "1 rows", "draws-covariates"),
        ("missing", "1 rows", "draws-covariates"),
        ("dates", "48 rows", "draws-covariates"),
        ("durations", "bytes or durations", "unknown-level"),
        ("words", "48 rows", "draws-covariates"),
        ("alike", "are alike", "draws-covariates"),
        ("none", "wanted 1 to 2", "draws-covariates"),
        ("four", "4 columns", "draws-covariates"),
        ("hostile", "control codes", "bad-name"),
        ("no UTF-8", "no UTF-8", "bad-name"),
    ],
)
def test_covariates_that_are_wrong_are_refused_before_anything_is_computed(
    release, homes, tmp_path, monkeypatch, change, words, code
):
    monkeypatch.setattr(job, "posterior_of", None)
    changed(homes, change).write_parquet(tmp_path / "homes.parquet")
    with pytest.raises(TallyveilError, match=words) as raised:
        tallyveil.make_draws(release, tmp_path / "d", covariates=tmp_path / "homes.parquet")
    assert raised.value.code == code
    assert not (tmp_path / "d").exists()


@pytest.fixture(scope="module")
def earlier_census(release):
    """Counts of another population in most of the 48 blocks."""
    codes = tallyveil.open(release).table("Block", "total")["geocode"]
    rows = [(codes[i], age, "house", i % 5 + n) for i in range(45) for n, age in enumerate(("young", "old"))]
    return pl.DataFrame(rows, schema=["geocode", "age", "home", "count"], orient="row")


def test_draws_say_which_earlier_census_they_follow_from(
    release, earlier_census, homes, tmp_path, monkeypatch, command
):
    with_few_sweeps(monkeypatch)
    file, of_homes = tmp_path / "census.csv", tmp_path / "homes.parquet"
    # Rows of one group of a block are added.
    pl.concat([earlier_census, earlier_census.head(5)]).write_csv(file)
    homes.write_parquet(of_homes)
    arguments = ("--number", "1", "--earlier-census", file, "--covariates", of_homes, "--json")
    said = json.loads(command("draws", release, "--out", tmp_path / "d", *arguments))
    assert said["earlier"] == {"geolevel": "Block", "attributes": ["age", "home"]}
    assert said["earlier_sha256"] == file_digest(file)
    assert [item["name"] for item in said["covariates"]] == ["homes", "people of the earlier census"]
    assert len(said["parameters"]["discount"]) == len(said["parameters"]["renewal"]) == 2
    draws = tallyveil.open_draws(tmp_path / "d", release)
    for text in (said["statement"], repr(draws), (draws.path / "README.txt").read_text()):
        assert (
            "Who lives in a Block was also learned from public counts of an earlier census: age, home."
            in text
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda census: census.with_columns(pl.col("geocode").str.replace("^.", "9")), "same year"),
        (lambda census: census.with_columns(pl.lit("ancient").alias("age")), "90 rows whose age is no level"),
        (lambda census: census.with_columns(pl.col("count") - 1), "9 rows without a whole number"),
        (lambda census: census.with_columns(pl.col("count") + 0.5), "90 rows without a whole number"),
        (
            lambda census: census.with_columns(pl.lit(1 << 40).alias("count")),
            "more than 1,073,741,824 people",
        ),
        (lambda census: census.with_columns(pl.lit("x").alias("sex")), "and no others"),
        (lambda census: census.drop("count"), "wanted count"),
        (lambda census: census.select("geocode", "count"), "wanted count"),
        (
            lambda census: census.with_columns(
                pl.lit(None, pl.String).alias(name) for name in ("age", "home")
            ),
            "names no level",
        ),
    ],
)
def test_an_earlier_census_that_is_wrong_is_refused_before_anything_is_computed(
    release, earlier_census, tmp_path, monkeypatch, change, words
):
    monkeypatch.setattr(job, "posterior_of", None)
    change(earlier_census).write_parquet(tmp_path / "census.parquet")
    with pytest.raises(TallyveilError, match=words) as raised:
        tallyveil.make_draws(release, tmp_path / "d", earlier_census=tmp_path / "census.parquet")
    assert raised.value.code == "draws-earlier"
    assert not (tmp_path / "d").exists()


def test_counts_of_blocks_leave_one_column_of_covariates(release, earlier_census, homes, tmp_path):
    census, of_homes = tmp_path / "census.csv", tmp_path / "homes.csv"
    earlier_census.write_csv(census)
    homes.with_columns(land=pl.int_range(48)).write_csv(of_homes)
    with pytest.raises(TallyveilError, match="counting the people of the earlier census") as raised:
        tallyveil.make_draws(release, tmp_path / "d", earlier_census=census, covariates=of_homes)
    assert raised.value.code == "draws-covariates"


def test_a_public_file_that_is_replaced_while_it_is_read_is_refused(release, homes, tmp_path, monkeypatch):
    file = tmp_path / "homes.parquet"
    homes.write_parquet(file)

    def read(path, *arguments):
        numbers = read_public_numbers(path, *arguments)
        homes.with_columns(pl.col("homes") + 1).write_parquet(path)
        return numbers

    monkeypatch.setattr(inputs, "read_public_numbers", read)
    with pytest.raises(TallyveilError, match="was replaced") as raised:
        tallyveil.make_draws(release, tmp_path / "d", covariates=file)
    assert raised.value.code == "input-changed"


def test_draws_of_another_release_are_refused(release, made, make_small_inputs, tmp_path):
    other = tallyveil.run(
        make_small_inputs(tmp_path / "in"), tmp_path / "other", insecure_test_key="other"
    ).path
    with pytest.raises(TallyveilError, match="another release"):
        tallyveil.open_draws(made.path, other)


@pytest.mark.parametrize(
    ("key", "value"), [("format", 1), ("geolevel", "../x"), ("files", []), ("files", "x"), ("seed", None)]
)
def test_a_damaged_description_is_refused(release, made, tmp_path, key, value):
    description = json.loads((made.path / "draws.json").read_text())
    (tmp_path / "draws.json").write_text(json.dumps(description | {key: value}))
    with pytest.raises(TallyveilError, match=r"draws\.json"):
        tallyveil.open_draws(tmp_path, release)


def test_a_changed_draw_is_refused(release, made, tmp_path):
    copy = tmp_path / "draws"
    shutil.copytree(made.path, copy)
    path = copy / "draw-003" / "histogram" / "Block.parquet"
    pl.read_parquet(path).with_columns(pl.col("count") * 2).write_parquet(path)
    with pytest.raises(TallyveilError, match="SHA-256"):
        tallyveil.open_draws(copy, release).values("Town", "total")


@pytest.mark.parametrize(
    ("home", "words"), [("barracks", "no structural zero is filled"), ("house", "invariant total holds")]
)
def test_verify_holds_draws_to_the_promises_of_the_plan(release, made, tmp_path, home, words):
    """A draw with one more young person, whose new digest is listed."""
    copy = tmp_path / "draws"
    shutil.copytree(made.path, copy)
    path = copy / "draw-003" / "histogram" / "Block.parquet"
    frame = pl.read_parquet(path)
    row = frame.head(1).with_columns(
        pl.lit("young").cast(frame.schema["age"]).alias("age"),
        pl.lit(home).cast(frame.schema["home"]).alias("home"),
        pl.lit(1).cast(frame.schema["count"]).alias("count"),
    )
    both = pl.concat([frame, row]).group_by("geocode", "age", "home", maintain_order=True).sum()
    both.write_parquet(path, metadata=pl.read_parquet_metadata(path))
    description = json.loads((copy / "draws.json").read_text())
    description["files"][2] = file_digest(path)
    # The chains of these draws did not agree, which is another matter.
    description["convergence"] |= {"reduction": 1.0, "at_families": 1.0, "at_blocks": 1.0, "effective": 500.0}
    (copy / "draws.json").write_text(json.dumps(description))
    verdict = tallyveil.verify(copy, releases=[release])
    assert words in " ".join(verdict.wrong)
    (copy / "draw-003" / "notes.txt").write_text("x")
    assert "nothing lies beside" in " ".join(tallyveil.verify(copy, releases=[release]).wrong)


def test_the_help_says_the_numbers_of_the_sampler(command):
    said = " ".join(command("draws", "--help").split())
    assert f"at most {sampling.MOST_DRAWS}." in said
    assert f"Default: {sampling.LONGEST:,}." in said
    assert f"x>={sampling.FIRST_SWEEPS}" in said


def test_imputations_are_combined():
    got = tallyveil.combined([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert got["estimate"] == 2.0
    assert got["standard_error"] ** 2 == pytest.approx(0.5 + 4 / 3)
    assert got["degrees_of_freedom"] == pytest.approx(2 / ((4 / 3) / (0.5 + 4 / 3)) ** 2)
    for estimates, variances in (
        ([1.0], [1.0]),
        ([1.0, 2.0], [1.0]),
        ([1.0, float("nan")], [1.0, 1.0]),
        ([1e308, -1e308], [1.0, 1.0]),
        ([1.0, 2.0], [1.0, -1.0]),
    ):
        with pytest.raises(TallyveilError):
            tallyveil.combined(estimates, variances)


@pytest.fixture(scope="module")
def cut_release(make_small_inputs, tmp_path_factory):
    """A finished release whose spine cuts towns at a reserve and groups them."""
    folder = tmp_path_factory.mktemp("cut")
    path = make_small_inputs(folder / "inputs")
    entities_of(path.parent).write_parquet(path.parent / "entities.parquet")
    path.write_text(with_shares(path.read_text()) + ENTITIES + STEPS)
    return tallyveil.run(path, folder / "release", insecure_test_key="draws").path


@pytest.mark.parametrize("experimental", [False, nightly(True)])
def test_draws_on_another_spine_are_of_the_given_geography(cut_release, tmp_path, monkeypatch, experimental):
    with_few_sweeps(monkeypatch)
    census = tmp_path / "census.csv"
    census.write_text(
        "geocode,home,count\n"
        + "".join(
            f"{code},house,9\n" for code in tallyveil.open(cut_release).table("Town", "total")["geocode"]
        )
    )
    drawn = tallyveil.make_draws(
        cut_release, tmp_path / "draws", number=40, experimental_blocks=experimental, earlier_census=census
    )
    opened = tallyveil.open(cut_release)
    assert drawn.description["geolevel"] == ("Block" if experimental else "Town")
    assert drawn.description["earlier"] == {"geolevel": "Town", "attributes": ["home"]}
    for area, query in (("Region", "total"), ("Town", "age"), ("Town", "total")):
        ours = drawn.table(area, query, level=0.9)
        theirs = opened.table(area, query)
        keys = [name for name in theirs.columns if name in ("geocode", "age")]
        both = ours.join(theirs, on=keys, validate="1:1")
        assert len(both) == len(ours) == len(theirs)
        assert (both["published"] == both["count"]).all()
        # Draws of another geounit would be far from its published count.
        assert (both["mean"] - both["count"]).abs().mean() < 10
    verdict = tallyveil.verify(drawn.path, releases=[cut_release], earlier_census=census)
    assert verdict.holds, verdict.wrong
    asked = opened.ask("total by Town", draws=tmp_path / "draws", level=0.9).table
    assert asked["drawn"].to_numpy() == pytest.approx(
        drawn.table("Town", "total", level=0.9)["mean"].to_numpy()
    )
