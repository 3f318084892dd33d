"""Measurement files come in parts, are kept when they are there, and read back as they were."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.measurements import store
from tallyveil.measurements.answers import NoisyMeasurements
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
SPINE = spine_from_prefixes([f"A{n:02d}" for n in range(10)], ("Region", "Block"), (1, 3))
QUERY = SCHEMA.query("voting_age*race_ethnicity")


class Counting:
    """A source whose values tell where they belong, and which counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def measure(self, geolevel, query, start, stop, answers):
        self.asked += 1
        values = 1000 * np.arange(start, stop)[:, None] + answers - 5
        return NoisyMeasurements(geolevel, query, start, answers, values, np.full(stop - start, 2.5))


def write_all(root, source, tags):
    """Write every part, the last one first. Returns the numbers of values."""
    parts = range(store.n_parts(SPINE, "Block", QUERY))
    return [
        store.write_measured_part(root, source, SPINE, "Block", QUERY, part, tags) for part in parts[::-1]
    ]


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "VALUES_PER_PART", 3 * QUERY.size)
    source = Counting()
    assert write_all(tmp_path, source, {"run": "r"}) == [16, 48, 48, 48]
    return tmp_path, source


def test_parts_hold_consecutive_geounits(written):
    root, _ = written
    parts = sorted((root / "measurements" / "Block" / "voting_age.race_ethnicity").iterdir())
    assert [part.name for part in parts] == [f"part-{n:05d}.parquet" for n in range(4)]
    assert pl.read_parquet(parts[1])["geocode"].to_list() == ["A03", "A04", "A05"]
    assert pl.read_parquet(parts[3])["values"].to_list() == [list(range(8995, 9011))]
    assert pl.read_parquet_metadata(parts[0])["tallyveil.query"] == QUERY.name


def test_values_take_four_bytes_where_they_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "VALUES_PER_PART", 3 * QUERY.size)

    class Large(Counting):
        """A source whose last geounits' values need eight bytes."""

        def measure(self, geolevel, query, start, stop, answers):
            found = super().measure(geolevel, query, start, stop, answers)
            values = found.values + (2**40 if start >= 6 else 0)
            return NoisyMeasurements(geolevel, query, start, answers, values, np.full(stop - start, 2.5))

    write_all(tmp_path, Large(), {})
    parts = sorted((tmp_path / "measurements" / "Block" / "voting_age.race_ethnicity").iterdir())
    kinds = [pl.read_parquet_schema(part)["values"] for part in parts]
    assert kinds == [pl.List(pl.Int32)] * 2 + [pl.List(pl.Int64)] * 2
    read = store.StoredMeasurements(tmp_path, SPINE).measure("Block", QUERY.name, 0, 10, np.arange(3))
    assert read.values[5:7].tolist() == [[4995, 4996, 4997], [2**40 + 5995 + n for n in range(3)]]


def test_parts_that_are_there_are_written_again(written):
    """What stands there may be damaged; the same noise gives the same bytes."""
    root, source = written
    parts = sorted((root / "measurements" / "Block" / "voting_age.race_ethnicity").iterdir())
    before = [part.read_bytes() for part in parts]
    parts[2].write_bytes(b"damaged")
    assert sum(write_all(root, source, {"run": "r"})) == 160
    assert [part.read_bytes() for part in parts] == before


def test_reading_gives_what_was_measured(written):
    root, source = written
    stored = store.StoredMeasurements(root, SPINE)
    answers = np.array([0, 7, 15])
    read = stored.measure("Block", QUERY.name, 2, 9, answers)
    measured = source.measure("Block", QUERY.name, 2, 9, answers)
    assert np.array_equal(read.values, measured.values)
    assert np.array_equal(read.variances, measured.variances)


@pytest.mark.parametrize("kept", [1, 1 << 30])
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_part_at_a_time_gives_the_same(written, monkeypatch, kept, order):
    """However few parts stay in memory, and whatever the order of the geounits over all files."""
    root, source = written
    folder = root / "measurements" / "Block" / "voting_age.race_ethnicity"
    frame = pl.concat([pl.read_parquet(path) for path in sorted(folder.iterdir())])[order]
    for number, path in enumerate(sorted(folder.iterdir())):
        frame[3 * number : 3 * number + 3].write_parquet(path)
    monkeypatch.setattr(store, "KEPT_BYTES", kept)
    stored = store.StoredMeasurements(root, SPINE)
    answers = np.array([3, 0, 9])
    for start, stop in ((0, 10), (8, 10), (2, 7)):
        read, measured = (of.measure("Block", QUERY.name, start, stop, answers) for of in (stored, source))
        assert np.array_equal(read.values, measured.values)
        assert np.array_equal(read.variances, measured.variances)
    assert len(stored._kept) == (1 if kept == 1 else 4)
    # A part that is replaced after its geounits were read is not taken for what it was.
    last = sorted(folder.iterdir())[-1]
    pl.read_parquet(last).with_columns(variance=pl.lit(9.0)).write_parquet(last)
    other = store.StoredMeasurements(root, SPINE)
    other.measure("Block", QUERY.name, *((0, 1) if order.step is None else (9, 10)), answers)
    frame[3:6].write_parquet(last)
    with pytest.raises(StoreError, match="another geography"):
        other.measure("Block", QUERY.name, 0, 10, answers)


@pytest.mark.parametrize(
    ("changed", "parts", "match"),
    [
        (pl.col("values").list.head(8), slice(None), "another geography"),
        (pl.col("values").list.head(8), slice(1, 2), "another geography"),
        (pl.col("values").alias("answers"), slice(1, 2), "values and variance alone"),
        (pl.col("values").alias("answers"), slice(1), "the column answers"),
    ],
    ids=["too few answers", "too few in a part", "answers in a part", "answers in the first part"],
)
def test_parts_with_other_answers_are_refused_whichever_is_read(written, changed, parts, match):
    root, _ = written
    for path in sorted((root / "measurements" / "Block" / "voting_age.race_ethnicity").iterdir())[parts]:
        pl.read_parquet(path).with_columns(changed).write_parquet(path)
    for start in (0, 3):
        with pytest.raises(StoreError, match=match):
            store.StoredMeasurements(root, SPINE).measure(
                "Block", QUERY.name, start, start + 2, np.array([8])
            )


def test_other_geography_or_no_files_are_errors(written):
    root, _ = written
    with pytest.raises(StoreError, match="no measurements"):
        store.StoredMeasurements(root, SPINE).measure("Block", "total", 0, 1, np.array([0]))
    other = spine_from_prefixes([f"B{n:02d}" for n in range(10)], ("Region", "Block"), (1, 3))
    with pytest.raises(StoreError, match="another geography"):
        store.StoredMeasurements(root, other).measure("Block", QUERY.name, 0, 1, np.array([0]))


def test_answers_are_named(tmp_path):
    store.write_answer_labels(tmp_path, [SCHEMA.query("total"), QUERY], {})
    frame = pl.read_parquet(tmp_path / "measurements" / "answers.parquet")
    assert frame.height == 17
    assert frame.row(0) == ("total", 0, "total")
    assert frame.filter(query=QUERY.name)["label"][15] == "voting_age=18_plus * race_ethnicity=two"
