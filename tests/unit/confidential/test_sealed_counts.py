"""Encrypted counts come back whole, to whoever has the key, and nothing of them stands in the files."""

import stat

import numpy as np
import pytest
from tests.histograms import histogram_from_triplets

from tallyveil.confidential import sealed_counts
from tallyveil.confidential.sealed_counts import SealedCounts, write_sealed_counts
from tallyveil.errors import StoreError
from tallyveil.geography.build import spine_from_columns
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema

KEY = b"\x11" * 32
TOTAL = Schema("cells", (Attribute("cell", tuple(map(str, range(40)))),)).query("total")
RUN = "0123456789abcdef"


@pytest.fixture(scope="module")
def country():
    codes = [f"{block:04d}" for block in range(2000)]
    columns = {"State": [code[:1] for code in codes], "County": [code[:2] for code in codes], "Block": codes}
    spine = spine_from_columns({name: np.array(own) for name, own in columns.items()}, list(columns))
    random = np.random.default_rng(5)
    histograms = []
    for level, geolevel in enumerate(spine.geolevels):
        rows = random.integers(0, spine.n_geounits(level), 9000)
        cells, counts = random.integers(0, 40, 9000), random.integers(1, 2**33, 9000)
        histograms.append(histogram_from_triplets(geolevel, spine.n_geounits(level), rows, cells, counts))
    return spine, tuple(histograms)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(sealed_counts, "GEOUNITS", 7)
    monkeypatch.setattr(sealed_counts, "FINEST_GEOUNITS", 90)


@pytest.fixture
def folder(country, tmp_path):
    write_sealed_counts(tmp_path / "counts", RUN, country[1], KEY)
    return tmp_path / "counts"


@pytest.mark.parametrize(("first", "last"), [(0, 2000), (0, 1), (89, 91), (450, 450), (1111, 1999)])
def test_counts_come_back(country, folder, first, last):
    spine, histograms = country
    sealed = SealedCounts(folder, RUN, KEY, spine)
    for _ in range(2):  # the second time from memory, where it is kept
        found = sealed.between(spine.finest, first, last)
        for own, true in zip(found.rows(first, last), histograms[-1].rows(first, last), strict=True):
            assert np.array_equal(own, true)
        assert found.offsets.dtype == found.cells.dtype == found.counts.dtype == np.int64
    whole = sealed.between(1, 0, spine.n_geounits(1))
    assert whole.digest() == histograms[1].digest()


def test_no_two_slices_have_one_nonce(country, tmp_path, monkeypatch):
    """Two texts under one key and one nonce would show their difference to whoever sees both."""
    nonces = []

    class Watched:
        def __init__(self, key):
            assert key == KEY

        def encrypt(self, nonce, data, _):
            nonces.append(nonce)
            return data

    monkeypatch.setattr(sealed_counts, "AESGCM", Watched)
    write_sealed_counts(tmp_path / "counts", RUN, country[1], KEY)
    assert len(nonces) == len(list((tmp_path / "counts").iterdir())) > 20
    assert len(set(nonces)) == len(nonces)
    assert {len(nonce) for nonce in nonces} == {12}  # of another length, GCM makes one that may repeat


def test_only_a_few_slices_stay_in_memory(country, folder):
    sealed = SealedCounts(folder, RUN, KEY, country[0])
    sealed.between(country[0].finest, 0, 2000)
    assert len(sealed._kept) == sealed_counts.SLICES_KEPT


def test_the_slices_asked_for_last_are_those_that_stay(country, folder):
    """A slice that stays is not read again, so that its file may even be gone."""
    spine = country[0]
    sealed = SealedCounts(folder, RUN, KEY, spine)
    starts = [0, 90, 180, 270, 0, 360]  # 0 is asked for again, so 90 was not asked for for the longest time
    for start in starts:
        sealed.between(2, start, start + 90)
    for path in folder.iterdir():
        path.unlink()
    for start in (180, 270, 0, 360):
        rows = sealed.between(2, start, start + 90).rows(start, start + 90)
        for own, true in zip(rows, country[1][2].rows(start, start + 90), strict=True):
            assert np.array_equal(own, true)
    with pytest.raises(StoreError):
        sealed.between(2, 90, 180)


@pytest.mark.parametrize(
    ("first", "last", "read"), [(7, 14, [7]), (6, 14, [0, 7]), (7, 15, [7, 14]), (8, 8, [7])]
)
def test_no_slice_is_read_that_is_not_asked_for(country, folder, first, last, read):
    sealed = SealedCounts(folder, RUN, KEY, country[0])
    found = sealed.between(1, first, last)
    assert sorted(sealed._kept) == [(1, start) for start in read]
    assert found.geolevel == "County"
    assert found.n_geounits == country[0].n_geounits(1)
    assert found.total == country[1][1].answers(TOTAL, read[0], min(read[-1] + 7, 20)).sum()


def test_slices_of_another_hierarchy_are_refused(country, folder):
    """The last slice of one hierarchy may begin where one of the other does, and end elsewhere."""
    fewer = [f"{block:04d}" for block in range(1995)]
    columns = {"State": [code[:1] for code in fewer], "County": [code[:2] for code in fewer], "Block": fewer}
    spine = spine_from_columns({name: np.array(own) for name, own in columns.items()}, list(columns))
    with pytest.raises(StoreError) as refused:
        SealedCounts(folder, RUN, KEY, spine).between(2, 1990, 1995)
    assert refused.value.code == "run-damaged"


def test_files_that_cannot_be_written_are_an_error_of_the_store(country, tmp_path):
    (tmp_path / "counts").write_text("a file where the folder should be")
    with pytest.raises(StoreError) as refused:
        write_sealed_counts(tmp_path / "counts", RUN, country[1], KEY)
    assert str(tmp_path / "counts") in str(refused.value)


def test_the_folder_may_be_made_with_those_above_it(country, tmp_path):
    folder = tmp_path / "run" / "private" / "counts"
    write_sealed_counts(folder, RUN, country[1][:1], KEY)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["counts-0-0"]


def test_the_files_are_for_their_owner_and_hold_no_count(country, folder):
    files = sorted(folder.iterdir())
    assert len(files) > 20
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    together = b"".join(path.read_bytes() for path in files)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    for count in country[1][-1].counts[:500].astype("<i8"):
        assert count.tobytes() not in together


def test_where_slices_are_cut_does_not_depend_on_the_counts(country, folder, tmp_path):
    _, histograms = country
    emptied = tuple(
        histogram_from_triplets(one.geolevel, one.n_geounits, *np.zeros((3, 1), np.int64))
        for one in histograms
    )
    write_sealed_counts(tmp_path / "others", RUN, emptied, KEY)
    names = [sorted(path.name for path in where.iterdir()) for where in (folder, tmp_path / "others")]
    assert names[0] == names[1]


@pytest.mark.parametrize("damage", ["missing", "changed", "cut", "moved", "key", "run"])
def test_what_the_run_did_not_write_is_refused(country, folder, damage):
    key, run, path = KEY, RUN, folder / "counts-2-90"
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "changed":
        path.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    elif damage == "cut":
        path.write_bytes(data[:-8])
    elif damage == "moved":
        path.write_bytes((folder / "counts-2-180").read_bytes())
    elif damage == "key":
        key = b"\x12" * 32
    else:
        run = "f" * 16
    with pytest.raises(StoreError) as refused:
        SealedCounts(folder, run, key, country[0]).between(2, 90, 100)
    assert refused.value.code == "run-damaged"
    assert str(2**33) not in str(refused.value)


def test_the_key_is_not_shown(country, folder):
    text = repr(SealedCounts(folder, RUN, KEY, country[0]))
    assert "redacted" in text
    assert KEY.hex() not in text
    assert repr(KEY) not in text


def test_a_second_writing_replaces_the_first(country, folder):
    spine, histograms = country
    write_sealed_counts(folder, RUN, histograms, b"\x13" * 32)
    whole = SealedCounts(folder, RUN, b"\x13" * 32, spine).between(0, 0, spine.n_geounits(0))
    assert whole.digest() == histograms[0].digest()
