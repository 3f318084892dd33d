"""Reduced noise through TopDown: what the releases cost, and that the errors are theirs."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting import (
    Neighbours,
    ZcdpConversion,
    compose,
    rho_of,
    zcdp_to_epsilon_textbook,
)
from tallyveil.api.making import run
from tallyveil.plans.from_toml.load import load_plan
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    BUREAU,
    DELTA,
    REDUCED,
    geolevel_guarantee,
    geolevel_rho,
    variances,
)
from tallyveil_studies.fdp_census.noisy_counts import FILES
from tallyveil_studies.fdp_census.through_topdown import (
    ALL,
    GEOLEVELS,
    NOISES,
    TEN_QUERIES,
    TOGETHER,
    event_of,
    release_file,
    through_topdown,
    variances_of,
)

RACES = {"White": "white", "Black": "black", "Hispanic": "hisp", "NH/PI": "nhpi"}


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A made-up State of 2 counties, 4 tracts, 8 block groups and 32 blocks, some of them empty."""
    folder = tmp_path_factory.mktemp("public")
    blocks = [
        f"44{county}{tract}{group}{block:03d}"
        for county in ("001", "003")
        for tract in ("000100", "000200")
        for group in "12"
        for block in range(4)
    ]
    geography = pl.DataFrame({"geocode": blocks}).with_columns(
        pl.col("geocode").str.slice(0, digits).alias(name)
        for name, digits in (("state", 2), ("county", 5), ("tract", 11), ("block_group", 12))
    )
    rng = np.random.default_rng(5)
    rows = [
        (block, age, race, int(rng.poisson(mean)))
        for block in blocks[::2] + blocks[1::4]
        for age in ("under_18", "18_plus")
        for race, mean in (("white", 40), ("hisp", 9), ("black", 3), ("asian", 1), ("two", 0.5))
    ]
    counts = pl.DataFrame(rows, schema=["geocode", "voting_age", "race_ethnicity", "count"], orient="row")
    counts.filter(pl.col("count") > 0).write_parquet(folder / FILES[0])
    geography.write_parquet(folder / FILES[1])
    return folder


@pytest.fixture(scope="module")
def found(public):
    """The findings of two keys, and the published counts of every release in the order they were made."""
    releases = []

    def make(release_file, out, *, insecure_test_key):
        run(release_file, out, insecure_test_key=insecure_test_key)
        levels = {level: pl.read_parquet(out / "histogram" / f"{level}.parquet") for level in GEOLEVELS}
        releases.append((load_plan(release_file).name, insecure_test_key, levels))

    return through_topdown(StudyInputs(public, make_release=make), keys=2), releases


def test_releases_have_the_stated_noise(tmp_path):
    for noise in NOISES:
        (tmp_path / "release.toml").write_text(release_file(noise))
        strategy = load_plan(tmp_path / "release.toml").strategy
        assert strategy.neighbours is Neighbours.UNBOUNDED
        assert {
            (level, query): strategy.law(level, query).variance
            for level in strategy.geolevels
            for query in strategy.queries(level)
        } == {(level, query): variances_of(noise)[level] for level in GEOLEVELS for query in TEN_QUERIES}
        assert strategy.total == rho_of(event_of(noise))


def test_noise_is_the_least_for_its_epsilon_to_a_part_in_500():
    for level, (_, geolevel) in GEOLEVELS.items():
        bureau = variances()[geolevel]
        assert bureau <= variances_of(BUREAU)[level] < bureau * Fraction(501, 500)
        published = zcdp_to_epsilon_textbook(geolevel_rho(bureau), DELTA)
        exact = geolevel_guarantee(variances_of(REDUCED)[level]).epsilon(DELTA).upper
        assert published * (1 - 1 / 500) < exact <= published


@pytest.mark.nightly
def test_noise_reduced_by_geolevel_costs_more_than_was_published_for_all(found):
    parameters = found[0].tables["topdown-parameters"]
    rho = rho_of(event_of(BUREAU))
    bureau, ours, together = (
        parameters.row(by_predicate=pl.col("noise") == noise, named=True) for noise in NOISES
    )
    assert bureau["textbook_epsilon_at_1e-10"] == ZcdpConversion.TEXTBOOK.epsilon(rho, Fraction("1e-10"))
    assert bureau["epsilon_at_1e-10"] == pytest.approx(16.7072, abs=1e-4)
    assert together["epsilon_at_1e-10"] <= bureau["textbook_epsilon_at_1e-10"] < ours["epsilon_at_1e-10"]
    assert together["epsilon_at_1e-10"] == pytest.approx(bureau["textbook_epsilon_at_1e-10"], rel=1e-3)
    exact = compose(event_of(TOGETHER), neighbours=Neighbours.UNBOUNDED).epsilon(Fraction("1e-10"))
    assert together["epsilon_at_1e-10"] == exact.upper


def persons(frame, level, race=None):
    """By geocode of a geolevel, the persons of a group, counted one row at a time."""
    digits = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 15}[level]
    counted: dict[str, int] = {}
    for row in frame.iter_rows(named=True):
        if race is None or row["race_ethnicity"] == race:
            place = row["geocode"][:digits]
            counted[place] = counted.get(place, 0) + row["count"]
    return counted


@pytest.mark.nightly
def test_errors_are_those_of_the_releases(found, public):
    findings, releases = found
    truth = pl.read_parquet(public / FILES[0])
    places = pl.read_parquet(public / FILES[1])
    names = [f"Rhode Island, {noise}" for noise in NOISES]
    assert [name for name, _, _ in releases] == [name for name in names for _ in range(2)]
    assert len({key for _, key, _ in releases}) == 2
    for noise in NOISES:
        of_noise = [levels for name, _, levels in releases if name == f"Rhode Island, {noise}"]
        for level, (column, _) in GEOLEVELS.items():
            for count, race in {"Total": None, **RACES}.items():
                true = persons(truth, level, race)
                by_key = []
                for levels in of_noise:
                    published = persons(levels[level], level, race)
                    errors = [published.get(g, 0) - true.get(g, 0) for g in set(places[column])]
                    by_key.append((np.mean(np.abs(errors)), np.mean(np.square(errors))))
                row = findings.tables["topdown"].row(
                    by_predicate=(pl.col("noise") == noise)
                    & (pl.col("geolevel") == level)
                    & (pl.col("count") == count),
                    named=True,
                )
                means = np.mean(by_key, axis=0)
                assert (row["mean_absolute_error"], row["mean_squared_error"]) == pytest.approx(tuple(means))
                spread = abs(by_key[0][1] - by_key[1][1]) / 2  # the standard error of a mean of two
                assert row["mean_squared_standard_error"] == pytest.approx(spread)
                assert (
                    row["epsilon_at_1e-11"]
                    == geolevel_guarantee(variances_of(noise)[level]).epsilon(DELTA).upper
                )


@pytest.mark.nightly
def test_ratios_and_sentences_follow_from_the_errors(found):
    findings, _ = found
    table, ratios = findings.tables["topdown"], findings.tables["topdown-ratios"]
    assert ratios.height == 2 * len(GEOLEVELS) * 10
    block = {
        noise: table.row(
            by_predicate=(pl.col("noise") == noise)
            & (pl.col("geolevel") == "Block")
            & (pl.col("count") == ALL),
            named=True,
        )
        for noise in NOISES
    }
    of_block = ratios.filter(geolevel="Block", count=ALL, noise=REDUCED).row(0, named=True)
    ratio = block[REDUCED]["mean_squared_error"] / block[BUREAU]["mean_squared_error"]
    assert of_block["squared_ratio"] == pytest.approx(ratio)
    relative = [
        block[noise]["mean_squared_standard_error"] / block[noise]["mean_squared_error"]
        for noise in (REDUCED, BUREAU)
    ]
    assert of_block["squared_ratio_standard_error"] == pytest.approx(ratio * np.hypot(*relative))
    assert of_block["variance_ratio"] == pytest.approx(1 - 0.2482, abs=1e-3)  # Table 1, rounded up
    nine = table.filter(pl.col("count") != ALL, geolevel="Block", noise=BUREAU)
    assert block[BUREAU]["mean_squared_error"] == pytest.approx(nine["mean_squared_error"].mean())
    said = next(note for note in findings.notes if note.startswith(f"{REDUCED}, Block:"))
    assert f"changes by {100 * (ratio - 1):+.1f} percent" in said
    # Estimation pools queries and geolevels, so a release is more exact than its noisy counts, cut off at zero.
    assert block[BUREAU]["mean_squared_error"] < block[BUREAU]["squared_clipped"] / 3


def test_inputs_that_cannot_make_releases_say_so(public):
    with pytest.raises(RuntimeError, match="could make the release"):
        through_topdown(StudyInputs(public))
