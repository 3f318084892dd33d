"""Known answers of small releases, made from beginning to end under a key that everybody knows.

A release of one table needs little compiled code. A TopDown release needs the estimator, which takes about a minute of
compiling at its first use.
"""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl

from tallyveil.api.making import run
from tallyveil.noise.key import insecure_key
from tallyveil.products.lattice.public.from_toml import load_subspace_plan
from tallyveil.products.lattice.run.run import TABLE, run_subspace
from tallyveil.selftest.answers import KnownAnswer, digest, equal
from tallyveil.storage.read import collect, scan_parquet

INPUTS: Final = Path(str(resources.files(__package__))) / "inputs"
KEY: Final = "self-test"
SOURCE: Final = "this project, noise law 1"
COUNTS_OF_TABLE: Final = "0eb4cabb02d3b60c2699995a83518baa"
NOISY_TOWNS: Final = "a25ae56150348de5ddffa4909cdecc66"
COUNTS_OF_TOWNS: Final = "04811ad8fb2f5d534334993c38767cd1"
COUNTS_OF_BLOCKS: Final = "449bdc64198a0662851dc2c149efdad9"
"""Digests of the rows, by `rows_digest`. They change only where the noise, or what it is bound to, changes."""


def table_answers() -> Iterator[KnownAnswer]:
    """The release of one table with exact sums: its published counts."""
    with TemporaryDirectory(prefix="tallyveil-") as folder:
        table = run_subspace(
            load_subspace_plan(INPUTS / "table.toml"), Path(folder), test_key=insecure_key(KEY)
        )
        path = table.path / TABLE
        counts = collect(scan_parquet(path), path, "table").drop("margin")
    yield equal("release", "one table, published counts", SOURCE, COUNTS_OF_TABLE, rows_digest(counts))


def topdown_answers() -> Iterator[KnownAnswer]:
    """A TopDown release of three geolevels: noisy answers and published counts."""
    with TemporaryDirectory(prefix="tallyveil-") as folder:
        release = run(INPUTS / "town.toml", folder, insecure_test_key=KEY)
        noisy = release.measurements("Town", "age*home").drop("variance")
        towns, blocks = release.table("Town", "age*home"), release.table("Block", "age*home")
    yield equal("release", "TopDown, noisy answers of towns", SOURCE, NOISY_TOWNS, rows_digest(noisy))
    yield equal("release", "TopDown, counts of towns", SOURCE, COUNTS_OF_TOWNS, rows_digest(towns))
    yield equal("release", "TopDown, counts of blocks", SOURCE, COUNTS_OF_BLOCKS, rows_digest(blocks))


def rows_digest(frame: pl.DataFrame) -> str:
    """Digest of the rows of a table of labels and whole numbers, in any order."""
    lines = sorted(",".join(map(str, row)) for row in frame.rows())
    return digest("\n".join(lines).encode())
