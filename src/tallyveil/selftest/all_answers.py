"""All known answers, in the order in which they depend on one another, those of costs and small releases too.

The certified bounds of a composition must enclose its exact cost, and be close. Exact costs come from two
places that share no code with the accounting: exact polynomials in ball arithmetic, for the budget of the
2020 redistricting data, and a closed form of a sum, for discrete Laplace noise.

Releases are made from beginning to end under a key that everybody knows. A release of one table needs little
compiled code. A TopDown release needs the estimator, which takes about a minute of compiling at its first
use.
"""

from collections.abc import Iterator
from fractions import Fraction
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl

from tallyveil.accounting.events import DiscreteGaussian, DiscreteLaplace, Neighbours
from tallyveil.accounting.guarantee import Guarantee, compose
from tallyveil.accounting.numbers import Bounds
from tallyveil.api.making import run
from tallyveil.noise.key import insecure_key
from tallyveil.products.lattice.public.from_toml import load_subspace_plan
from tallyveil.products.lattice.public.verified import TABLE
from tallyveil.products.lattice.run.run import run_subspace
from tallyveil.selftest.answers import KnownAnswer, cipher_answers, digest, equal, hash_answers, noise_answers
from tallyveil.storage.read import collect, scan_parquet

# Rho of the 2020 redistricting data, as an exact fraction.
RHO: Final = Fraction(365, 100)
SHARES: Final = (20, 274, 85, 131, 238, 118, 3)
"""Thousandths of rho of the seven geolevels, root first."""
ANSWERS: Final = (10, 10, 10, 20, 10, 10, 10)
"""Answers that one record moves at each geolevel."""
PRINTED: Final = 1e-12
"""The known answers are printed to twelve digits, so a bound may miss one by this much, as a share of it."""
WIDEST: Final = 1e-9
"""Largest allowed distance of the two bounds, as a share of the answer."""
EXACT: Final = "exact polynomials"
CLOSED: Final = "closed form"


def accounting_answers() -> Iterator[KnownAnswer]:
    """Epsilon and delta of a large composition, and delta of discrete Laplace noise."""
    census = _census()
    name = "80 discrete Gaussian answers"
    yield _enclosed(f"epsilon of {name}, delta 1e-10", EXACT, "20.324689750790", census.epsilon("1e-10"))
    yield _enclosed(f"epsilon of {name}, delta 1e-5", EXACT, "14.576026882760", census.epsilon("1e-5"))
    yield _enclosed(f"delta of {name}, epsilon 10", EXACT, "4.567884368769e-3", census.delta("10"))
    single = compose(DiscreteLaplace(1), neighbours=Neighbours.UNBOUNDED)
    yield _enclosed("delta of a discrete Laplace answer", CLOSED, "0.287649136645", single.delta("0.5"))
    ten = compose(DiscreteLaplace(2, 1, 10), neighbours=Neighbours.UNBOUNDED)
    yield _enclosed("delta of ten discrete Laplace answers", CLOSED, "0.145466446441", ten.delta("2"))


def _census() -> Guarantee:
    events = [
        # Each query has a tenth of the rho of its geolevel: variance 1/(2 rho), as for zCDP.
        DiscreteGaussian(10 / (2 * Fraction(share, 1000) * RHO), 1, answers)
        for share, answers in zip(SHARES, ANSWERS, strict=True)
    ]
    return compose(*events, neighbours=Neighbours.UNBOUNDED)


def _enclosed(name: str, source: str, exact: str, bounds: Bounds) -> KnownAnswer:
    known = float(exact)
    # The slack is for the printed digits alone: bounds that are certified may exclude a rounded number.
    encloses = bounds.upper >= known * (1 - PRINTED) and bounds.lower <= known * (1 + PRINTED)
    wanted = f"bounds around {exact}, at most {WIDEST:g} of it apart"
    got = f"{bounds.lower!r} to {bounds.upper!r}"
    close = bounds.upper - bounds.lower <= WIDEST * known
    return KnownAnswer("accounting", name, source, wanted, got, encloses and close)


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


def known_answers(*, topdown: bool) -> Iterator[KnownAnswer]:
    """Every known answer and that of this machine, one after the other.

    Args:
        topdown: Whether a TopDown release is made as well.
    Raises:
        TallyveilError: a release could not be made.
    """
    yield from cipher_answers()
    yield from hash_answers()
    yield from noise_answers()
    yield from accounting_answers()
    yield from table_answers()
    if topdown:
        yield from topdown_answers()
