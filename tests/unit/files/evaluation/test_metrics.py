from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from tests.samples import few

from tallyveil.errors import GeographyError, SchemaError
from tallyveil.files.evaluation import COLUMNS, error_metrics
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.spine import Spine
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.schema import Schema

SCHEMA = Schema(
    name="two by three",
    attributes=(Attribute("age", ("young", "old")), Attribute("race", ("a", "b", "c"))),
    recodes=(Recode("adults", "age", (("old", ("old",)),)),),
)
QUERIES = ("total", "race", "adults", "adults*race", "detailed")
BOUNDS = {"0": (0, 0), "1-9": (1, 9), "10-99": (10, 99), "100-999": (100, 999)}
BOUNDS |= {"1,000-9,999": (1_000, 9_999), "10,000+": (10_000, 10**12)}


def spine_of(n_blocks: int) -> Spine:
    return spine_from_prefixes(
        [f"{code:03d}" for code in range(n_blocks)], ("state", "county", "block"), (0, 2, 3)
    )


def counts_of(geolevel: str, dense: np.ndarray) -> PublicCounts:
    rows, cells = np.nonzero(dense)
    return PublicCounts(
        geolevel, *compress_rows(len(dense), rows, cells, dense[rows, cells].astype(np.int64))
    )


def levels_of(spine: Spine, blocks: np.ndarray) -> list[PublicCounts]:
    levels = []
    for level, geolevel in enumerate(spine.geolevels):
        dense = np.zeros((spine.n_geounits(level), blocks.shape[1]), dtype=np.int64)
        np.add.at(dense, spine.ancestors(level), blocks)
        levels.append(counts_of(geolevel, dense))
    return levels


def dense_of(counts: PublicCounts) -> np.ndarray:
    dense = np.zeros((counts.n_geounits, SCHEMA.size), dtype=np.int64)
    for geounit in range(counts.n_geounits):
        cells, values = counts.entries(geounit)
        dense[geounit, cells] = values
    return dense


def slow_metrics(
    queries: Sequence[str], estimates: Sequence[PublicCounts], truths: Sequence[PublicCounts]
) -> list[tuple[object, ...]]:
    """Every answer of every geounit in full, and numpy's own quantile."""
    rows: list[tuple[object, ...]] = []
    for estimate, truth in zip(estimates, truths, strict=True):
        true_cells, cells = dense_of(truth), dense_of(estimate)
        totals = true_cells.sum(axis=1)
        for name in queries:
            group = SCHEMA.query(name)
            true_answers, answers = group.apply_dense(true_cells), group.apply_dense(cells)
            classes = {"all": np.ones(len(totals), dtype=bool)}
            classes |= {label: (totals >= low) & (totals <= high) for label, (low, high) in BOUNDS.items()}
            for label, members in classes.items():
                if not members.any():
                    continue
                error = (answers - true_answers)[members].ravel()
                size = np.abs(error)
                true_sum = int(true_answers[members].sum())
                rows.append(
                    (
                        estimate.geolevel,
                        name,
                        label,
                        int(members.sum()),
                        error.size,
                        size.mean(),
                        np.square(size).mean(),
                        int(np.quantile(size, 0.5, method="inverted_cdf")),
                        int(np.quantile(size, 0.95, method="inverted_cdf")),
                        error.mean(),
                        size.sum() / true_sum if true_sum else None,
                    )
                )
    return rows


def same_rows(frame: pl.DataFrame, wanted: list[tuple[object, ...]]) -> None:
    assert frame.height == len(wanted)
    for got, row in zip(frame.iter_rows(), wanted, strict=True):
        assert got[:5] == row[:5]
        assert got[7:9] == row[7:9]
        assert (*got[5:7], got[9]) == pytest.approx((*row[5:7], row[9]), rel=1e-12, abs=1e-15)
        assert got[10] == (None if row[10] is None else pytest.approx(row[10], rel=1e-12))


def random_blocks(seed: int, n_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """True and estimated counts: empty blocks, blocks of every size, exact answers and large errors."""
    random = np.random.default_rng(seed)
    scale = random.choice([0, 1, 5, 60, 800, 6_000], size=n_blocks)
    truth = random.poisson(scale[:, None] * random.random((n_blocks, SCHEMA.size)))
    noise = random.integers(-4, 5, size=truth.shape) * random.integers(0, 2, size=truth.shape)
    return truth, np.maximum(truth + noise, 0)


@pytest.mark.parametrize("seed", few(1, range(4)))
@pytest.mark.parametrize("entries_per_chunk", [1, 7, 1 << 22])
def test_agrees_with_the_obvious_computation(seed: int, entries_per_chunk: int) -> None:
    spine = spine_of(230)
    truth, estimate = random_blocks(seed, 230)
    truths, estimates = levels_of(spine, truth), levels_of(spine, estimate)
    frame = error_metrics(spine, SCHEMA, QUERIES, estimates, truths, entries_per_chunk=entries_per_chunk)
    same_rows(frame, slow_metrics(QUERIES, estimates, truths))
    assert frame.schema == pl.Schema(COLUMNS)
    assert set(frame.filter(pl.col("geolevel") == "block")["size_class"]) == {"all", *BOUNDS}


def test_a_case_by_hand() -> None:
    spine = spine_of(2)
    # Block 0 truly holds 2 + 1 persons and is published as 3 + 1 + 1; block 1 is empty and stays so.
    truth = np.array([[2, 1, 0, 0, 0, 0], [0] * 6])
    estimate = np.array([[3, 1, 0, 0, 0, 1], [0] * 6])
    frame = error_metrics(
        spine, SCHEMA, ("total", "detailed"), levels_of(spine, estimate)[2:], levels_of(spine, truth)[2:]
    )
    assert frame.rows() == [
        ("block", "total", "all", 2, 2, 1.0, 2.0, 0, 2, 1.0, 2 / 3),
        ("block", "total", "0", 1, 1, 0.0, 0.0, 0, 0, 0.0, None),
        ("block", "total", "1-9", 1, 1, 2.0, 4.0, 2, 2, 2.0, 2 / 3),
        ("block", "detailed", "all", 2, 12, 2 / 12, 2 / 12, 0, 1, 2 / 12, 2 / 3),
        ("block", "detailed", "0", 1, 6, 0.0, 0.0, 0, 0, 0.0, None),
        ("block", "detailed", "1-9", 1, 6, 2 / 6, 2 / 6, 0, 1, 2 / 6, 2 / 3),
    ]


def test_errors_that_cancel_within_an_answer_are_no_error() -> None:
    spine = spine_of(1)
    truth, estimate = np.array([[5, 0, 0, 0, 0, 0]]), np.array([[0, 0, 0, 5, 0, 0]])
    frame = error_metrics(
        spine, SCHEMA, ("race", "age"), levels_of(spine, estimate)[2:], levels_of(spine, truth)[2:]
    ).filter(pl.col("size_class") == "all")
    assert frame["mean_absolute_error"].to_list() == [0.0, 5.0]


def test_a_query_asked_twice_is_answered_once() -> None:
    spine = spine_of(3)
    levels = levels_of(spine, random_blocks(0, 3)[0])
    frame = error_metrics(spine, SCHEMA, ("total", "total"), levels, levels)
    assert frame.equals(error_metrics(spine, SCHEMA, ("total",), levels, levels))


def test_sides_that_do_not_match_are_refused() -> None:
    spine = spine_of(3)
    levels = levels_of(spine, random_blocks(0, 3)[0])
    with pytest.raises(GeographyError, match="estimates are of the geolevels state, county, block, truth of"):
        error_metrics(spine, SCHEMA, QUERIES, levels, levels[:2])
    short = [*levels[:2], counts_of("block", np.ones((2, 6)))]
    with pytest.raises(GeographyError, match="truth at block cover 2 geounits, the spine has 3"):
        error_metrics(spine, SCHEMA, QUERIES, levels, short)
    with pytest.raises(SchemaError, match="income"):
        error_metrics(spine, SCHEMA, ("income",), levels, levels)
