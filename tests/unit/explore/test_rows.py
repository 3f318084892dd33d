"""Tables are read part by part, and each area's answers come out in their places."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.explore.areas import Kind, KindType
from tallyveil.explore.files import CHUNK
from tallyveil.explore.opened import TableRows
from tallyveil.schema.presets import load_preset

N = 2 * CHUNK + 100
CODES = pl.Series([f"{i:06d}" for i in range(N)])


@pytest.fixture
def group():
    return load_preset("race-age").query("voting_age")


def rows_of(codes, counts, **beside):
    """Two answers an area, in long form."""
    ages = ["under_18", "18_plus"] * len(codes)
    names = [name for name in codes for _ in range(2)]
    race = pl.Series("race_ethnicity", [None], dtype=pl.String).new_from_index(0, len(names))
    return pl.DataFrame(
        {"geocode": names, "voting_age": ages, "count": counts.ravel(), **beside}
    ).with_columns(race)


def table(tmp_path, group, frames, names=("count",), *, in_order=True):
    parts = []
    for number, frame in enumerate(frames):
        parts.append(tmp_path / f"part-{number:05d}.parquet")
        frame.write_parquet(parts[-1])
    return TableRows(parts, Kind("Block", KindType.GEOLEVEL, CODES, in_order), group, names)


def whole(rows):
    blocks = list(rows.blocks())
    assert all(block.start % CHUNK == 0 for block in blocks)
    assert [block.start for block in blocks] == list(np.cumsum([0, *(block.n for block in blocks)])[:-1])
    return {
        name: np.concatenate([block.columns[name] for block in blocks]) for name in blocks[0].columns
    }, len(blocks)


def answers(group, counts):
    """Counts in the order of the query's labels."""
    return counts if group.labels()[0].endswith("under_18") else counts[:, ::-1]


@pytest.mark.parametrize("cuts", [[0, N], [0, 10, CHUNK, CHUNK + 1, N], [0, N - 1, N]])
def test_parts_are_joined(tmp_path, group, cuts):
    counts = np.arange(2 * N).reshape(N, 2)
    frames = [rows_of(CODES[a:b], counts[a:b]) for a, b in pairwise(cuts)]
    found, _ = whole(table(tmp_path, group, frames))
    assert np.array_equal(found["count"], answers(group, counts))


def test_areas_without_rows_have_zeros(tmp_path, group):
    """Tables of many answers leave zeros out, and so whole areas."""
    kept = [3, CHUNK + 7, N - 20]
    counts = np.array([[1, 2], [3, 4], [5, 6]])
    frames = [rows_of(CODES[kept[:1]], counts[:1]), rows_of(CODES[kept[1:]], counts[1:])]
    found, _ = whole(table(tmp_path, group, frames))
    wanted = np.zeros((N, 2), dtype=np.int64)
    wanted[kept] = answers(group, counts)
    assert np.array_equal(found["count"], wanted)


def test_no_table_at_all_is_zeros(tmp_path, group):
    found, _ = whole(table(tmp_path, group, []))
    assert found["count"].shape == (N, 2)
    assert not found["count"].any()


def test_other_orders_are_read_whole(tmp_path, group):
    counts = np.arange(2 * N).reshape(N, 2)
    order = np.random.default_rng(2).permutation(N)
    frames = [rows_of(CODES[order[:500].tolist()], counts[order[:500]])]
    frames += [rows_of(CODES[order[500:].tolist()], counts[order[500:]])]
    found, n = whole(table(tmp_path, group, frames, in_order=False))
    assert n == 1
    assert np.array_equal(found["count"], answers(group, counts))
    with pytest.raises(StoreError):
        whole(table(tmp_path, group, frames))


def test_null_is_nan(tmp_path, group):
    beside = {"estimate": [0.5, None], "upper": pl.Series([None, 3], dtype=pl.Int64)}
    frame = rows_of(CODES[:1], np.array([[1, 2]]), **beside)
    found, _ = whole(table(tmp_path, group, [frame], ("count", "estimate", "upper")))
    wanted = answers(group, np.array([[0.5, np.nan]]))
    assert np.array_equal(found["estimate"][:1], wanted, equal_nan=True)
    assert np.isnan(found["upper"][1:]).all()


@pytest.mark.parametrize("frame", [{"codes": ["nowhere"]}, {"codes": CODES[:1].to_list(), "age": "30 to 40"}])
def test_foreign_rows_are_refused(tmp_path, group, frame):
    rows = rows_of(frame["codes"], np.array([[1, 2]]))
    if "age" in frame:
        rows = rows.with_columns(pl.lit(frame["age"]).alias("voting_age"))
    with pytest.raises(StoreError) as caught:
        whole(table(tmp_path, group, [rows]))
    assert caught.value.code == "release-damaged"
