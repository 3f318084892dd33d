"""Encrypted counts come back whole, to whoever has the key, and nothing of them stands in the files."""

import stat

import numpy as np
import pytest

from tallyveil.confidential import sealed_counts
from tallyveil.confidential.histogram import histogram_from_triplets
from tallyveil.confidential.sealed_counts import SealedCounts, write_sealed_counts
from tallyveil.errors import StoreError
from tallyveil.geography.build import spine_from_columns

KEY = b"\x11" * 32
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


def test_only_a_few_slices_stay_in_memory(country, folder):
    sealed = SealedCounts(folder, RUN, KEY, country[0])
    sealed.between(country[0].finest, 0, 2000)
    assert len(sealed._kept) == sealed_counts.SLICES_KEPT


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
