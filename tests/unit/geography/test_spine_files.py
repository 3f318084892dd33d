"""Spines and exact shares survive their file."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import GeographyError, StoreError
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import uniform_shares
from tallyveil.geography.tables import read_spine_file, write_spine


@pytest.mark.parametrize("seed", range(10))
def test_round_trip(random_spine, tmp_path, seed):
    rng = np.random.default_rng([91, seed])
    spine = random_spine(rng, int(rng.integers(1, 30)), 4)
    shares = uniform_shares(
        spine, dict(zip(spine.geolevels, (Fraction(k, 10) for k in (1, 2, 3, 4)), strict=True))
    )
    made, shares = bypass(spine, shares, list(BypassRule)[seed % 2])
    write_spine(tmp_path / "s.parquet", made.spine, shares)
    found, read = read_spine_file(tmp_path / "s.parquet")
    assert found.digest() == made.spine.digest()
    for level in range(4):
        assert [read.share(level, u) for u in range(found.n_geounits(level))] == [
            shares.share(level, u) for u in range(found.n_geounits(level))
        ]
    write_spine(tmp_path / "t.parquet", spine)
    assert read_spine_file(tmp_path / "t.parquet")[1] is None


def test_damage_is_told(random_spine, tmp_path):
    spine = random_spine(np.random.default_rng(92), 12, 3, one_root=True)
    shares = uniform_shares(spine, dict.fromkeys(spine.geolevels, Fraction(1, 3)))
    write_spine(tmp_path / "s.parquet", spine, shares)
    table, tags = pl.read_parquet(tmp_path / "s.parquet"), pl.read_parquet_metadata(tmp_path / "s.parquet")
    kept = {key: value for key, value in tags.items() if key.startswith("tallyveil")}

    def changed(value):
        first = pl.int_range(table.height) == 0
        column = pl.when(first).then(pl.lit(value)).otherwise("share.L0").alias("share.L0")
        table.with_columns(column).write_parquet(tmp_path / "c.parquet", metadata=kept)
        return read_spine_file(tmp_path / "c.parquet")

    with pytest.raises(GeographyError, match="two shares"):
        changed("1/2")
    with pytest.raises(GeographyError, match="exact fraction"):
        changed("much")
    table.write_parquet(tmp_path / "bare.parquet")
    for name in ("bare.parquet", "absent.parquet"):
        with pytest.raises(StoreError):
            read_spine_file(tmp_path / name)
