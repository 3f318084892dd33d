"""Districts of a finished release: sums of what is published, and exact standard errors, whatever the district."""

import json
import math

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import ConfigError, GeographyError, SchemaError, StoreError
from tallyveil.estimation.intervals.answers import region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.files.histograms import histogram_path
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import answers_by_district, district_answers
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release, release_model
from tallyveil.products.topdown.run.run import run_release

QUERIES = ("total", "age*home", "grown")


@pytest.fixture(scope="module")
def root(make_small_inputs, tmp_path_factory):
    """A release with intervals of one query."""
    folder = tmp_path_factory.mktemp("district")
    plan = load_plan(make_small_inputs(folder / "inputs"))
    run_release(plan, folder / "out", test_key=bytes(32), workers=1)
    make_intervals(folder / "out", tables=["total"], workers=1)
    return folder / "out"


@pytest.fixture(scope="module")
def blocks(root):
    return pl.Series(open_release(root).spine.geocodes[-1].text)


def chosen(blocks, seed, share=0.4):
    mask = np.random.default_rng([8, seed]).random(len(blocks)) < share
    mask[seed % len(blocks)] = True
    return blocks.filter(pl.Series(mask))


def published(root, geocodes):
    """Counts by age and home, added up from the published file row by row."""
    rows = pl.read_parquet(histogram_path(root, "Block")).filter(pl.col("geocode").is_in(geocodes.implode()))
    found = {}
    for _, age, home, count in rows.iter_rows():
        for query, answer in (
            ("total", "total"),
            ("age*home", f"age={age} * home={home}"),
            ("grown", "grown=young" if age == "young" else "grown=grown"),
        ):
            found[query, answer] = found.get((query, answer), 0) + count
    return found


def by_answer(district, field):
    return {(one.query, one.answer): getattr(one, field) for one in district.answers}


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_the_sums_of_the_published_ones(root, blocks, seed):
    own = chosen(blocks, seed)
    found = district_answers(root, own, tables=QUERIES, workers=1)
    expected = published(root, own)
    assert found.n_finest == len(own)
    assert found.n_minus is None
    assert set(expected) <= set(by_answer(found, "published"))
    for answer, count in by_answer(found, "published").items():
        assert count == expected.get(answer, 0)


def test_standard_errors_are_those_of_the_model(root, blocks):
    own = chosen(blocks, 1)
    release = open_release(root)
    covariance = tree_covariance(release_model(release), workers=1)
    groups = [release.schema.query(name) for name in QUERIES]
    members = release.spine.locate(2, own)
    variances = region_variances(
        covariance,
        [region_of(release.spine, np.sort(members))],
        questions_of(covariance.algebra, groups),
        workers=1,
    )[0]
    found = [one.standard_error for one in district_answers(root, own, tables=QUERIES, workers=1).answers]
    for error, variance in zip(found, variances, strict=True):
        assert error == pytest.approx(math.sqrt(variance), abs=1e-6)


def test_the_order_of_geocodes_does_not_matter(root, blocks):
    own = chosen(blocks, 2)
    assert district_answers(root, own.reverse(), workers=1) == district_answers(root, own, workers=2)


def test_a_region_whose_total_is_published_exactly_has_no_error(root, blocks):
    own = blocks.filter(blocks.str.starts_with("P"))
    (total,) = district_answers(root, own, tables=["total"], workers=1).answers
    assert total.standard_error == 0
    assert total.published == total.lower == total.upper
    assert total.estimate == pytest.approx(total.published, abs=1e-4)  # a sum of numbers with six decimals
    assert total.lacking is None


def test_a_district_less_itself_is_nothing_and_known_exactly(root, blocks):
    own = chosen(blocks, 3)
    same = district_answers(root, own, minus=own, tables=["total"], workers=1)
    assert (same.n_finest, same.n_minus) == (len(own), len(own))
    (total,) = same.answers
    assert (total.published, total.standard_error, total.estimate) == (0, 0, 0)
    assert (total.lower, total.upper) == (0, 0)


def test_a_difference_turned_round_has_the_other_sign_and_the_same_error(root, blocks):
    one, other = chosen(blocks, 4), chosen(blocks, 5)
    there = district_answers(root, one, minus=other, tables=QUERIES, workers=1)
    back = district_answers(root, other, minus=one, tables=QUERIES, workers=1)
    alone = [
        by_answer(district_answers(root, own, tables=QUERIES, workers=1), "published") for own in (one, other)
    ]
    for first, second in zip(there.answers, back.answers, strict=True):
        key = first.query, first.answer
        assert first.published == -second.published == alone[0][key] - alone[1][key]
        assert first.standard_error == pytest.approx(second.standard_error)
        if first.estimate is not None:
            assert first.estimate == pytest.approx(-second.estimate)
            assert (first.lower, first.upper) == (-second.upper, -second.lower)


def test_estimates_are_sums_of_those_of_the_blocks(root, blocks):
    own = chosen(blocks, 6)
    (total,) = district_answers(root, own, tables=["total"], workers=1).answers
    parts = [district_answers(root, own[i : i + 1], tables=["total"], workers=1).answers[0] for i in range(3)]
    rest = district_answers(root, own[3:], tables=["total"], workers=1).answers[0]
    assert total.estimate == pytest.approx(sum(part.estimate for part in [*parts, rest]), abs=1e-4)
    assert total.lower <= total.estimate <= total.upper
    assert total.lower >= 0


def test_wider_intervals_for_more_coverage_or_many_together(root, blocks):
    own = chosen(blocks, 7)

    def width(**options):
        (total,) = district_answers(root, own, tables=["total"], workers=1, **options).answers
        return total.upper - total.lower

    assert width(level=0.5) < width(level=0.95) < width(level=0.999999)
    # one interval alone is given: to hold together means nothing more
    assert width(simultaneous=True) == width()


def test_a_query_without_intervals_says_what_it_lacks(root, blocks):
    found = district_answers(root, chosen(blocks, 8), tables=["total", "age"], workers=1)
    for one in found.answers:
        assert (one.lacking is None) == (one.query == "total")
        assert (one.lower is None) == (one.upper is None) == (one.estimate is None) == (one.query != "total")
        assert one.standard_error > 0
    assert "no table of 'age'" in found.answers[-1].lacking
    assert "95" in found.covers
    without = district_answers(root, chosen(blocks, 8), tables=["age"], workers=1)
    assert without.covers is None
    assert set(without.answers[0].to_mapping()) == set(without.answers[0].__slots__)


@pytest.mark.parametrize(
    ("geocodes", "error"),
    [
        (["Z9999"], GeographyError),
        (["P0000", "P0000"], GeographyError),
        (["P00"], GeographyError),
        (["P0000", None], GeographyError),
        (["../P0000"], GeographyError),
    ],
)
def test_geocodes_that_the_release_does_not_have_are_refused(root, geocodes, error):
    for arguments in (
        {"geocodes": pl.Series(geocodes)},
        {"geocodes": pl.Series(["P0000"]), "minus": pl.Series(geocodes)},
    ):
        with pytest.raises(error):
            district_answers(root, **arguments, workers=1)


def test_an_unknown_query_or_an_impossible_level_is_refused(root, blocks):
    with pytest.raises(SchemaError):
        district_answers(root, blocks[:1], tables=["height"], workers=1)
    for level in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ConfigError):
            district_answers(root, blocks[:1], level=level, workers=1)


def test_parts_of_a_release_that_are_not_there(root, blocks):
    """Without counts there are errors and estimates; intervals of another run are refused."""
    path, manifest = histogram_path(root, "Block"), root / "intervals" / "_manifest.json"
    whole, moved = manifest.read_text(), path.with_suffix(".moved")
    path.rename(moved)
    try:
        found = district_answers(root, blocks[:5], tables=["total"], workers=1)
        assert found.answers[0].published is None
        assert str(path) in found.unpublished
        assert found.answers[0].estimate is not None
        manifest.write_text(json.dumps({**json.loads(whole), "run": "another"}))
        with pytest.raises(StoreError, match="belongs to run another") as caught:
            district_answers(root, blocks[:5], workers=1)
        assert caught.value.code == "release-damaged"
        manifest.rename(manifest.with_suffix(".moved"))
        (total,) = district_answers(root, blocks[:5], tables=["total"], workers=1).answers
        assert total.estimate is None
        assert "RUN/intervals" in total.lacking
    finally:
        moved.rename(path)
        manifest.write_text(whole)


def test_each_district_of_a_plan_has_its_own_answers_and_the_rest_is_named(root, blocks):
    plan = {"1": blocks[:9], "2": blocks[9:30]}
    answers = answers_by_district(root, plan, tables=QUERIES, workers=1)
    assert list(answers) == ["1", "2", None]
    for name, codes in {**plan, None: blocks[30:]}.items():
        assert answers[name] == district_answers(root, codes, tables=QUERIES, workers=1)
    assert list(answers_by_district(root, {"all": blocks}, tables=["total"], workers=1)) == ["all"]


def test_the_intervals_of_a_plan_hold_together_over_all_districts(root, blocks):
    plan = {"1": blocks[:9], "2": blocks[9:]}
    answers = answers_by_district(root, plan, tables=["total"], simultaneous=True, workers=1)
    wide = answers["1"].answers[0]
    single = district_answers(root, plan["1"], tables=["total"], workers=1).answers[0]
    assert wide.upper - wide.lower > single.upper - single.lower


def test_an_unknown_geocode_of_a_plan_is_refused_with_its_district(root, blocks):
    with pytest.raises(GeographyError, match="'2'"):
        answers_by_district(root, {"1": blocks[:9], "2": pl.Series(["nowhere"])}, workers=1)
