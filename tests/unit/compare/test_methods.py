"""Controlled rounding, and what was published elsewhere."""

import numpy as np
import polars as pl
import pytest
from tests.comparisons import found, public_of, publications, small_input, targets_of

from tallyveil.compare.attacks.hidden_counts import HiddenCounts
from tallyveil.compare.attacks.knows_others import KnowsOthers
from tallyveil.compare.attacks.rare_attribute import RareAttribute
from tallyveil.compare.losses import losses_of, value_of
from tallyveil.compare.methods.controlled_rounding import ControlledRounding
from tallyveil.compare.methods.elsewhere import PublishedCounts, labels_of
from tallyveil.compare.methods.exact import Exact
from tallyveil.compare.methods.method import Office
from tallyveil.compare.methods.rounding import Rounding
from tallyveil.errors import GeographyError, SchemaError


@pytest.fixture(scope="module")
def shared():
    return small_input(60)


def test_controlled_rounding_adds_up_and_plain_rounding_does_not(shared):
    targets = targets_of(shared, 400)
    tables = {}
    for method in (ControlledRounding(name="x", base=5), Rounding(name="x", base=5)):
        published = publications(method, targets)[0]
        losses = losses_of(shared, published, "group").filter(
            pl.col("measure") == "share of sums that disagree"
        )
        tables[method.kind] = losses["value"].max(), published
    assert tables["controlled_rounding"][0] == 0
    assert tables["rounding"][0] > 0
    for name, table in tables["controlled_rounding"][1].tables.items():
        assert (table.counts % 5 == 0).all()
        assert (table.counts >= 0).all()
        if name[0] != "School":
            # Nearly all are one of the two multiples beside the truth; the note counts the others.
            assert (np.abs(table.counts - shared.truth[name]) < 5).mean() > 0.95


def test_exact_tables_lose_nothing(shared):
    losses = losses_of(shared, publications(Exact(name="x"), targets_of(shared, 400))[0], "group")
    plain = losses.filter(pl.col("truth").is_null() & pl.col("value").is_not_null())
    assert plain["value"].abs().max() == 0
    indices = losses.filter(pl.col("truth").is_not_null())
    assert {"dissimilarity", "isolation", "slope of shares on sizes"} <= set(indices["measure"])
    assert indices["value"].to_list() == indices["truth"].to_list()


def test_rounding_by_hand():
    shared = small_input(24)
    published = publications(Rounding(name="x", base=5), targets_of(shared, 200))[0]
    true = shared.truth["Block", "group"]
    error = np.abs(true - 5 * ((2 * true + 5) // 10))
    losses = losses_of(shared, published, "group")
    assert value_of(losses, "Block", "group", "mean absolute error") == pytest.approx(error.mean())
    lost = ((true > 0) & (true < 3)).sum() / (true > 0).sum()
    assert value_of(
        losses, "Block", "group", "share of counts above zero published as zero"
    ) == pytest.approx(lost)


def written(shared, path, *, without=None, change=None):
    """The true tables as somebody else would publish them."""
    rows = []
    for areas in shared.areas:
        for query in shared.queries:
            if (areas.name, query.name) != without:
                true, labels = shared.truth[areas.name, query.name], labels_of(query)
                rows += [
                    (areas.name, code, query.name, labels[answer], int(true[area, answer]))
                    for area, code in enumerate(areas.codes)
                    for answer in range(query.size)
                ]
    frame = pl.DataFrame(rows, schema=["areas", "geocode", "query", "answer", "count"], orient="row")
    (frame if change is None else frame.with_columns(**change)).write_parquet(path)
    return PublishedCounts.model_validate({"name": "theirs", "path": str(path)}, context=path.parent)


def test_counts_of_anybody_are_read(shared, tmp_path):
    method = written(shared, tmp_path / "counts.parquet", without=("Block", "total"))
    published = method.publish(Office(shared, None, "group", None, None, None))
    assert not published.tables["Block", "total"].shown.any()
    for name in shared.truth.keys() - {("Block", "total")}:
        assert np.array_equal(published.tables[name].counts, shared.truth[name])
        assert published.tables[name].shown.all()
    targets = targets_of(shared, 400)
    bits = RareAttribute().headline_of(RareAttribute().run(targets, published, None))
    exact = RareAttribute().headline_of(list(found(RareAttribute(), Exact(name="x"), targets).values()))
    assert bits == pytest.approx(exact, abs=0.05)
    # What needs a second publication is left out.
    assert not KnowsOthers().run(targets, published, None)


@pytest.mark.parametrize(
    ("column", "error", "code"),
    [("geocode", GeographyError, "unknown-geounit"), ("answer", SchemaError, "unknown-level")],
)
def test_counts_of_other_areas_or_answers_are_refused(shared, tmp_path, column, error, code):
    method = written(shared, tmp_path / "counts.parquet", change={column: pl.lit("elsewhere")})
    with pytest.raises(error) as refused:
        method.require_fit(public_of(shared))
    assert refused.value.code == code


def test_an_office_that_hides_is_attacked_by_its_sums_and_one_that_changes_is_not(shared, tmp_path):
    """The least count that is hidden is known where all that is shown is exact."""
    small = pl.col("count").is_between(1, 2)
    hides = {"count": pl.when(~small).then(pl.col("count"))}
    changes = {"count": pl.when(~small).then(pl.col("count") + pl.int_range(pl.len()) % 2)}
    found = {}
    for name, change in (("hides", hides), ("changes", changes)):
        method = written(shared, tmp_path / f"{name}.parquet", change=change)
        published = method.publish(Office(shared, None, "group", None, None, None))
        found[name] = published.limits, HiddenCounts().run(targets_of(shared), published, None)
    limits, findings = found["hides"]
    assert limits.support.least_hidden == 1
    assert HiddenCounts().headline_of(findings) > 0
    assert found["changes"] == (None, [])
