"""Chosen counts together: their covariances against dense least squares, and what follows from them."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.special import ndtr

from tallyveil.errors import ConfigError, GeographyError
from tallyveil.estimation.intervals.interval import NO_INTERVALS
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import answers_by_district, district_answers, finest_geocodes
from tallyveil.postprocess.derived.quantities import ChosenCount, quantities_of
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release, release_model
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.schema.answer_columns import answer_of


@pytest.fixture(scope="module")
def root(make_small_inputs, tmp_path_factory):
    """A release with intervals of three queries."""
    folder = tmp_path_factory.mktemp("quantities")
    plan = load_plan(make_small_inputs(folder / "inputs"))
    run_release(plan, folder / "out", test_key=bytes(32), workers=1)
    make_intervals(folder / "out", tables=["total", "age", "home"], workers=1)
    return folder / "out"


@pytest.fixture(scope="module")
def blocks(root):
    return pl.Series(open_release(root).spine.geocodes[-1].text)


def chosen(root, asked):
    """Counts by name, from (area, query, labels)."""
    release = open_release(root)
    found = []
    for name, (area, query, labels) in asked.items():
        group = release.schema.query(query)
        codes = finest_geocodes(release.hierarchies, area, None) if isinstance(area, str) else area
        found.append(ChosenCount(name, codes, group, answer_of(group, labels)))
    return found


@pytest.fixture(scope="module")
def asked(blocks):
    """A region, a town, a block and two sets that cut across them and each other."""
    return {
        "region": ("P", "total", {}),
        "town": ("P01", "total", {}),
        "old in town": ("P01", "age", {"age": "old"}),
        "grown in town": ("P01", "grown", {"age": "grown"}),
        "block": (str(blocks[20]), "total", {}),
        "scattered": (blocks.gather_every(3), "home", {"home": "barracks"}),
        "across": (blocks[5:30], "age*home", {"age": "middle", "home": "house"}),
    }


@pytest.fixture(scope="module")
def counts(root, asked):
    return quantities_of(root, chosen(root, asked), workers=1)


def dense_rows(root):
    """Everything that is measured or known exactly, as rows over all cells of all blocks, and their precisions."""
    release = open_release(root)
    model, spine = release_model(release), release.spine
    n_cells, n = model.schema.size, spine.n_geounits(spine.finest)
    rows, precisions = [], []

    def matrix(group):
        places, answers = group.counted_in(np.arange(n_cells))
        out = np.zeros((group.size, n_cells))
        out[answers, places] = 1
        return out

    for level, own in enumerate(model.levels):
        members = spine.ancestors(level)[None, :] == np.arange(spine.n_geounits(level))[:, None]
        told = [
            (group, own.precisions_of(np.arange(len(members)))[:, q]) for q, group in enumerate(own.measured)
        ]
        told += [(group, np.full(len(members), np.inf)) for group in own.invariants]
        for group, precision in told:
            for geounit, one in enumerate(members):
                rows.append(np.kron(one, matrix(group)))
                precisions.append(np.full(group.size, precision[geounit]))
    gone = model.zero_patterns[model.zero_pattern].ravel()
    rows.append(np.eye(n * n_cells)[gone])
    precisions.append(np.full(int(gone.sum()), np.inf))
    return np.concatenate(rows), np.concatenate(precisions)


def test_the_covariance_matrix_is_that_of_dense_least_squares(root, asked, counts, dense_gls):
    release = open_release(root)
    wanted = []
    for one in chosen(root, asked):
        places, answers = one.query.counted_in(np.arange(release.schema.size))
        cells = np.bincount(places[answers == one.answer], minlength=release.schema.size)
        inside = np.zeros(release.spine.n_geounits(2))
        inside[release.spine.locate(2, one.area)] = 1
        wanted.append(np.kron(inside, cells))
    wanted = np.array(wanted, float)
    n = len(wanted)
    pairs = np.array([wanted[i] + wanted[j] for i in range(n) for j in range(n)])
    sums = dense_gls(*dense_rows(root), np.concatenate([wanted, pairs]))
    alone, together = sums[:n], sums[n:].reshape(n, n)
    dense = (together - alone[:, None] - alone[None, :]) / 2
    assert alone[0] == pytest.approx(0, abs=1e-9)  # the total of the region is an invariant
    assert alone[1:].min() > 0.1
    assert np.abs(dense - np.diag(np.diag(dense))).max() > 1
    np.testing.assert_allclose(counts.covariance, dense, rtol=0, atol=1e-9 * alone.max())


@pytest.mark.nightly
def test_one_count_is_that_of_its_district(root, asked, counts):
    for name, (area, query, labels) in asked.items():
        found = counts.sum(name)
        codes = finest_geocodes(open_release(root).hierarchies, area, None) if isinstance(area, str) else area
        group = open_release(root).schema.query(query)
        line = district_answers(root, codes, tables=[query], workers=1).answers[answer_of(group, labels)]
        assert found.published == line.published
        assert found.standard_error == pytest.approx(line.standard_error, abs=1e-6)
        assert (found.lower, found.upper) == (line.lower, line.upper)
        if line.estimate is None:
            assert found.estimate is None
            assert found.lacking == line.lacking
        else:
            assert found.estimate == pytest.approx(line.estimate, abs=1e-4)


def test_sums_and_differences_have_their_exact_errors(counts):
    place = {name: number for number, name in enumerate(counts.names)}
    a, b, c = (place[name] for name in ("town", "old in town", "scattered"))
    matrix = counts.covariance
    both = counts.sum(["town", "scattered"])
    assert both.method == "unified"
    assert both.standard_error**2 == pytest.approx(matrix[a, a] + matrix[c, c] + 2 * matrix[a, c])
    assert both.published == counts.published[a] + counts.published[c]
    rest = counts.difference("town", "old in town")
    assert rest.method == "normal"
    assert rest.standard_error**2 == pytest.approx(matrix[a, a] + matrix[b, b] - 2 * matrix[a, b])
    assert rest.estimate == pytest.approx(counts.estimates[a] - counts.estimates[b])
    assert rest.lower == math.ceil(rest.estimate - 1.959964 * rest.standard_error)
    again = counts.difference(counts.sum("town"), "old in town")
    assert (again.method, again.standard_error, again.lower) == ("normal", rest.standard_error, rest.lower)
    weighted = counts.sum({"town": 0.5, "scattered": -2})
    assert weighted.standard_error**2 == pytest.approx(matrix[a, a] / 4 + 4 * matrix[c, c] - 2 * matrix[a, c])
    assert weighted.lower == pytest.approx(weighted.estimate - 1.959964 * weighted.standard_error)


def test_what_is_known_exactly_has_no_error(counts):
    region = counts.sum("region")
    assert region.estimate == region.published == region.lower == region.upper
    assert region.standard_error == 0
    nothing = counts.difference("town", "town")
    assert (nothing.estimate, nothing.standard_error, nothing.lower, nothing.upper) == (0, 0, 0, 0)
    assert counts.test_equal("town", ["town"]).p_value == 1
    assert counts.test_equal("region", {"region": 2}).p_value == 0


def test_shares_and_ratios(counts):
    share = counts.share("old in town", "town")
    ratio = counts.ratio("old in town", "town")
    assert share.estimate == ratio.estimate
    assert share.standard_error == ratio.standard_error
    assert 0 <= share.lower <= share.estimate <= share.upper <= 1
    a, b = (counts.names.index(name) for name in ("old in town", "town"))
    slope = np.zeros(len(counts.names))
    slope[[a, b]] = np.array([1, -share.estimate]) / counts.estimates[b]
    known = np.nan_to_num(counts.covariance)
    assert share.standard_error == pytest.approx(math.sqrt(slope @ known @ slope))
    assert share.published == counts.published[a] / counts.published[b]
    whole = counts.share("town", "town")
    assert (whole.estimate, whole.standard_error, whole.lower, whole.upper) == (1, 0, 1, 1)
    # The total of the region is exact, so its share has the relative error of its part.
    of_region = counts.share("town", "region")
    total = counts.sum("region").estimate
    assert of_region.standard_error == pytest.approx(counts.sum("town").standard_error / total)


def test_a_share_is_of_a_part(counts):
    for part, whole in (
        ("town", "old in town"),
        ("scattered", "across"),
        ("block", "scattered"),
        (["town", "old in town"], "town"),
        ("town", {"region": 0.5}),
    ):
        with pytest.raises(ConfigError, match="is not a part of"):
            counts.share(part, whole)
    assert counts.share("old in town", "grown in town").method == "fieller"
    assert counts.share({"town": 0.5}, "region").lower > 0


def test_a_share_of_a_small_count_may_be_anything(counts):
    """The ratio to a count that may be zero has no upper end."""
    small = replace(counts, estimates=np.where(np.array(counts.names) == "block", 0.1, counts.estimates))
    assert small.ratio("town", "block").upper == math.inf


def test_tests_of_equality(counts):
    found = counts.test_equal("town", "scattered")
    difference = counts.difference("town", "scattered")
    assert found.statistic == pytest.approx(difference.estimate / difference.standard_error)
    assert found.p_value == pytest.approx(math.erfc(abs(found.statistic) / math.sqrt(2)))
    assert found.different == (found.p_value < 0.05)


def test_shares_are_compared_with_their_covariance(counts):
    one, other = counts.share("old in town", "town"), counts.share("town", "region")
    found = counts.difference(one, other)
    slope = one._slope - other._slope
    used = np.flatnonzero(slope)
    matrix = counts.covariance[np.ix_(used, used)]
    assert found.method == "delta"
    assert found.standard_error == pytest.approx(math.sqrt(slope[used] @ matrix @ slope[used]))
    assert found.estimate == pytest.approx(one.estimate - other.estimate)
    assert found.published == pytest.approx(one.published - other.published)
    assert counts.test_equal(one, one).p_value == 1
    assert counts.test_equal(one, other).difference.estimate == pytest.approx(found.estimate)
    with pytest.raises(ConfigError, match="made from other counts"):
        replace(counts).difference(one, other)


def test_what_a_count_lacks(root, asked, counts):
    for name in ("grown in town", "across"):
        found = counts.sum(name)
        assert found.estimate is None
        assert found.standard_error > 0
        assert "no table of" in found.lacking
        assert counts.share("old in town", "grown in town").estimate is None
    assert counts.difference("town", "grown in town").standard_error > 0
    assert counts.ratio("old in town", "grown in town").published > 0
    with pytest.raises(ConfigError, match="no table of 'grown'"):
        counts.test_equal("town", "grown in town")
    frame = counts.to_frame()
    assert frame["name"].to_list() == list(counts.names)
    assert frame.filter(pl.col("lacking").is_null())["lower"].null_count() == 0
    assert frame.filter(pl.col("lacking").is_not_null())["estimate"].null_count() == 2
    assert frame["published"].dtype == pl.Int64


def test_measurements_alone_give_the_same_numbers(root, asked, counts, blocks, tmp_path):
    """The noisy answers of the release, without its counts: all that the release says of its estimates."""
    plan = load_plan(root.parent / "inputs" / "release.toml")
    alone = measure_release(plan, tmp_path / "alone", test_key=bytes(32)).path
    again = quantities_of(alone, chosen(root, asked), workers=1)
    assert again.published is None
    np.testing.assert_allclose(again.covariance, counts.covariance, atol=1e-9)
    written = np.isfinite(counts.estimates)
    np.testing.assert_allclose(again.estimates[written], counts.estimates[written], atol=1e-4)
    # Of a query that has no table of intervals, there are estimates, too.
    assert not written.all()
    assert again.lacking == (None,) * len(asked)
    assert again.sum("town").lower == counts.sum("town").lower
    both = {"first": blocks[:20], "second": blocks[20:35]}
    for made, wanted in zip(
        *(answers_by_district(folder, both, tables=["age"], workers=1).values() for folder in (alone, root)),
        strict=True,
    ):
        assert made.unpublished == "These are measurements alone."
        assert_frame_equal(
            made.to_frame().drop("published"), wanted.to_frame().drop("published"), abs_tol=1e-4
        )


def test_classes_of_levels_give_the_numbers_of_all_cells(root, asked, counts, make_small_inputs, tmp_path):
    """A release with a model for each table answers from the cells that the counts tell apart."""
    plan = replace(load_plan(make_small_inputs(tmp_path / "inputs")), measurements="small")
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    apart = quantities_of(tmp_path / "out", chosen(root, asked), workers=1)
    # All queries of this release are small.
    np.testing.assert_allclose(apart.covariance, counts.covariance, atol=1e-8)
    written = np.isfinite(counts.estimates)
    np.testing.assert_allclose(apart.estimates[written], counts.estimates[written], atol=1e-4)
    assert apart.share("old in town", "town").published == counts.share("old in town", "town").published
    with pytest.raises(ConfigError, match="is not a part of"):
        apart.share("town", "old in town")


def test_probability_that_one_is_greater(counts):
    difference = counts.difference("town", "scattered")
    score = difference.estimate / difference.standard_error
    assert counts.probability_greater("town", "scattered") == pytest.approx(ndtr(score))
    assert counts.probability_greater("scattered", "town") == pytest.approx(ndtr(-score))
    assert counts.probability_greater("town", "town") == 0
    assert counts.probability_greater({"region": 2}, "region") == 1
    share, other = counts.share("old in town", "town"), counts.share("town", "region")
    assert 0 < counts.probability_greater(share, other) < 1
    with pytest.raises(ConfigError, match="an estimate is lacking"):
        counts.probability_greater("town", "grown in town")
    # By a ratio whose denominator may be zero, nothing is said.
    place = counts.names.index("block")
    estimates = counts.estimates.copy()
    estimates[place] = 1.9 * math.sqrt(counts.covariance[place, place])
    unsure = replace(counts, estimates=estimates)
    for compare in (unsure.probability_greater, unsure.test_equal):
        with pytest.raises(ConfigError, match="a denominator"):
            compare(unsure.ratio("town", "block"), unsure.ratio("town", "region"))


def test_laplace_noise_has_errors_and_no_intervals(counts):
    laplace = replace(counts, _model=replace(counts._model, gaussian=False))
    for found in (laplace.sum("town"), laplace.share("old in town", "town"), laplace.ratio("town", "block")):
        assert found.standard_error > 0
        assert (found.lower, found.upper) == (None, None)
    with pytest.raises(ConfigError) as refused:
        laplace.test_equal("town", "block")
    assert refused.value.code == "interval-noise"
    assert NO_INTERVALS


@pytest.mark.parametrize(
    "what",
    [
        "village",
        ["town", "village"],
        [],
        {},
        None,
        5,
        ["town", "town"],
        {"town": math.inf},
        {"town": None},
        {"town": "2"},
    ],
)
def test_names_and_weights_that_make_no_sense(counts, what):
    with pytest.raises(ConfigError):
        counts.sum(what)


def test_a_ratio_has_no_negative_weights(counts):
    with pytest.raises(ConfigError, match="negative weight"):
        counts.ratio({"town": 1, "block": -1}, "region")


def test_areas_that_do_not_exist(root):
    release = open_release(root)
    with pytest.raises(GeographyError, match="has the code or the name 'X'"):
        finest_geocodes(release.hierarchies, "X", None)
    with pytest.raises(GeographyError, match="in 'Region'"):
        finest_geocodes(release.hierarchies, "P01", "Region")
    with pytest.raises(GeographyError, match="as text"):
        finest_geocodes(release.hierarchies, 5, None)
    named = finest_geocodes(release.hierarchies, "P01", "Town")
    assert len(named) == len(finest_geocodes(release.hierarchies, "P01", None)) > 1
