"""Tables hold the answers of every geounit, also of areas beside the spine, and are exchanged whole or not at all."""

import hashlib
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import StoreError
from tallyveil.files import tables
from tallyveil.files.histograms import area_counts
from tallyveil.files.intervals import (
    BESIDE,
    clear_other_tables,
    exchange_tables,
    forget_replaced,
    refuse_earlier_tables,
    start_tables,
    undo_exchange,
)
from tallyveil.files.tables import (
    table_folder,
    table_rows,
    table_size,
    table_tags,
    write_table,
)
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.tables import entities_from_pairs
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset
from tallyveil.storage.write import write_parquet

STEADY = settings(max_examples=20)
SCHEMA = load_preset("pl94-persons")
BLOCK_TOTALS = "tables/geolevel=Block/query=total"
BLOCK_QUARTERS = "tables/geolevel=Block/query=hhgq"
CODES = [f"A{i:02d}" for i in range(7)]
SPINE = spine_from_prefixes(CODES, ("Region", "Block"), (1, 3))
N = len(CODES)


def counts_from(entries) -> PublicCounts:
    rows, cells, persons = (np.array(values, dtype=np.int64) for values in zip(*entries, strict=True))
    return PublicCounts("Block", *compress_rows(N, rows, cells, persons))


ENTRIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, SCHEMA.size - 1), st.integers(1, 9)),
    min_size=1,
    max_size=30,
    unique_by=lambda entry: entry[:2],
)


@STEADY
@given(ENTRIES, st.sampled_from(["total", "hhgq", "votingage*cenrace", "detailed"]), st.data())
def test_rows_of_a_table_are_the_answers(entries, query, data):
    counts, group = counts_from(entries), SCHEMA.query(query)
    start = data.draw(st.integers(0, N))
    stop = data.draw(st.integers(start, N))
    zeros = data.draw(st.booleans())
    rows, answers, persons = table_rows(counts, group, start, stop, zeros=zeros)
    dense = np.zeros((stop - start, group.size), dtype=np.int64)
    dense[rows, answers] = persons
    assert np.array_equal(dense, group.apply(*counts.rows(start, stop), stop - start))
    place = rows * group.size + answers
    assert (np.diff(place) > 0).all()
    if zeros:
        assert len(rows) == (stop - start) * group.size
    else:
        assert (persons > 0).all()


@pytest.mark.parametrize("at_once", [1, 3, 1 << 22])
@pytest.mark.parametrize("query", ["total", "detailed"])
def test_parts_of_any_size_hold_the_same_table(tmp_path, monkeypatch, at_once, query):
    monkeypatch.setattr(tables, "ROWS_PER_PART", at_once)
    counts, group = counts_from([(0, 3, 2), (0, 9, 1), (2, 3, 5), (6, 100, 4)]), SCHEMA.query(query)
    written = list(write_table(tmp_path, counts, group, SPINE, {"run": "0"}))
    assert sum(written) == table_size(counts, group)
    parts = sorted(table_folder(tmp_path, "Block", query).glob("*.parquet"))
    assert len(parts) == len(written)
    frame = pl.concat(pl.read_parquet(part) for part in parts)
    assert frame["count"].sum() == 12
    assert frame["geocode"].is_sorted()
    tags = pl.read_parquet_metadata(parts[0])
    assert tags["tallyveil.zeros"] == ("included" if query == "total" else "left out")
    assert ("published count of 0" in tags["tallyveil.rows"]) == (query == "detailed")


@STEADY
@given(ENTRIES, st.lists(st.tuples(st.integers(0, N - 1), st.sampled_from("xyz")), min_size=1, unique=True))
def test_areas_are_sums_of_their_finest_geounits(entries, pairs):
    """Also where areas overlap."""
    counts = counts_from(entries)
    family = entities_from_pairs(
        SPINE, "place", [CODES[row] for row, _ in pairs], [code for _, code in pairs]
    )
    summed = area_counts(counts, family, SCHEMA.size)
    assert summed.geolevel == "place"
    everything = SCHEMA.query("detailed")
    dense = everything.apply(*counts.rows(0, N), N)
    found = everything.apply(*summed.rows(0, family.n_entities), family.n_entities)
    for entity in range(family.n_entities):
        assert np.array_equal(found[entity], dense[family.members_of(entity)].sum(axis=0))


def made_tables(root):
    counts = counts_from([(0, 3, 2), (4, 9, 1)])
    for query in ("total", "hhgq"):
        list(write_table(root, counts, SCHEMA.query(query), SPINE, {}))
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*.parquet")}


def staged(root, query):
    staging = start_tables(root)
    summed_out = {name: pl.Series([None] * N, dtype=pl.String) for name in SCHEMA.attribute_names}
    frame = pl.DataFrame({"geocode": CODES, **summed_out, "count": range(N)})
    made = frame.with_columns(pl.lit(1, dtype=kind).alias(name) for name, kind in BESIDE.items())
    path = staging / table_folder(root, "Block", query).relative_to(root) / "part-00000.parquet"
    write_parquet(path, made, {"level": "0.95", "run": "0", **table_tags("Block", query, zeros=True)})
    return staging


def listing(files):
    """A manifest that lists these files."""
    digests = {path.as_posix(): hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return SimpleNamespace(digests=digests)


def stacked(root):
    return pl.read_parquet(root / "tables/**/*.parquet", hive_partitioning=True)


def test_tables_are_exchanged_and_others_have_empty_columns(tmp_path):
    """All tables of a release have the same columns, whether they have intervals or not."""
    made_tables(tmp_path)
    before = stacked(tmp_path)
    staging = staged(tmp_path, "total")
    clear_other_tables(tmp_path, staging, [SCHEMA.query("hhgq")])
    assert exchange_tables(tmp_path, staging) == {BLOCK_TOTALS, BLOCK_QUARTERS}
    now = stacked(tmp_path)
    assert {name: now.schema[name] for name in BESIDE} == BESIDE
    assert now.filter(query="total")["count"].to_list() == list(range(N))
    assert now.filter(query="total")["lower"].null_count() == 0
    others = now.filter(query="hhgq")
    assert others.select(before.columns).equals(before.filter(query="hhgq"))
    assert others.select(*BESIDE).null_count().row(0) == (others.height,) * 4
    # Tables that are empty already stay as they are.
    staging = start_tables(tmp_path)
    clear_other_tables(tmp_path, staging, [SCHEMA.query("total"), SCHEMA.query("hhgq")])
    assert exchange_tables(tmp_path, staging) == {BLOCK_TOTALS}
    forget_replaced(staging)
    again = stacked(tmp_path)
    assert again.schema == now.schema
    assert again.select(*BESIDE).null_count().row(0) == (again.height,) * 4
    assert "tallyveil.level" not in pl.read_parquet_metadata(tmp_path / BLOCK_TOTALS / "part-00000.parquet")
    assert not list(tmp_path.glob("tables*partial*"))


def test_tables_of_an_earlier_version_are_refused(tmp_path):
    made_tables(tmp_path)
    refuse_earlier_tables(tmp_path, "Leave them")
    earlier = tmp_path / "tables" / "Block" / "total"
    earlier.mkdir(parents=True)
    pl.DataFrame({"answer": ["total"]}).write_parquet(earlier / "part-00000.parquet")
    with pytest.raises(StoreError, match="Leave them, or make the same release") as caught:
        refuse_earlier_tables(tmp_path, "Leave them")
    assert caught.value.code == "tables-format"


def test_what_an_interrupted_exchange_took_away_is_put_back(tmp_path, monkeypatch):
    before = made_tables(tmp_path)
    staging = staged(tmp_path, "total")
    renamed = []
    rename = type(tmp_path).rename

    def killed(self, target):
        if renamed:
            raise KeyboardInterrupt
        renamed.append(target)
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            exchange_tables(tmp_path, staging)
    assert not (tmp_path / BLOCK_TOTALS).exists()
    undo_exchange(tmp_path, listing(before))
    start_tables(tmp_path)
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.parquet")} == before


@pytest.mark.parametrize("listed", ["old", "new"])
def test_exchanged_tables_stay_only_if_the_manifest_lists_them(tmp_path, listed):
    before = made_tables(tmp_path)
    exchange_tables(tmp_path, staged(tmp_path, "total"))
    after = {path: (tmp_path / path).read_bytes() for path in before}
    assert after != before
    wanted = before if listed == "old" else after
    undo_exchange(tmp_path, listing(wanted))
    assert {path: (tmp_path / path).read_bytes() for path in before} == wanted
    start_tables(tmp_path)
    assert not list((tmp_path / "tables.partial").iterdir())


def test_a_disk_that_refuses_the_exchange_is_told(tmp_path, monkeypatch):
    made_tables(tmp_path)
    staging = staged(tmp_path, "total")

    def fails(self, target):
        raise OSError("no space")

    monkeypatch.setattr(type(tmp_path), "rename", fails)
    with pytest.raises(StoreError):
        exchange_tables(tmp_path, staging)
