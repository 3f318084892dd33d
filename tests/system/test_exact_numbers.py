"""Every number that is published exactly is its own estimate and interval, with the standard error 0.

Of all products, releases with intervals publish exact numbers beside estimates. The margins of a table with lattice
noise are 0 for its invariants, because the noise leaves these as they are, and SafeTab publishes nothing exactly.
"""

import polars as pl
import pytest
from tests.outer_worlds import write_units
from tests.samples import nightly
from tests.system.test_release_sums import BRANCH, write_reserve

from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release
from tallyveil.products.topdown.run.run import run_release

pytestmark = pytest.mark.long

KEY = insecure_key("exact numbers")
NATION = (
    ('["Region", "Town", "Block"]', '["Nation", "Region", "Town", "Block"]'),
    ("prefix_lengths = [1, 3, 5]", "prefix_lengths = [0, 1, 3, 5]"),
    ("[strategy.geolevels]\n", '[strategy.geolevels]\nNation = "1/8"\n'),
    ('Region = "1/4"', 'Region = "1/8"'),
)
FULL = ("[outputs]\n", '[outputs]\nmeasurements = "full"\n')
SMALL = ("[outputs]\n", '[outputs]\nmeasurements = "small"\n')
MORE = ("[[bounds]]", '[[invariants]]\nquery = "home"\ngeolevels = ["Nation"]\n\n[[bounds]]')
FAINT = ('rho = "2"', 'rho = "1/100000"')
LAPLACE = (
    ("discrete_gaussian", "discrete_laplace"),
    ('rho = "2"', 'epsilon = "2"'),
    ('Region = "1/4"', 'Region = "1/16"'),
    ('Town = "1/4"', 'Town = "7/16"'),
)
DRAWN = (
    ("[[bounds]]", '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'),
    ('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_gaussian"\nrho = "9/4"'),
)
KINDS = {
    "plain": (FULL,),
    "with little budget": (FULL, *NATION, MORE, FAINT),
    "parts are roots": (FULL, BRANCH),
    "parts are children": (FULL, *NATION, BRANCH),
    "parts are children, with little budget": (FULL, *NATION, MORE, FAINT, BRANCH),
    "parts are children, a model for each table": (SMALL, *NATION, MORE, BRANCH),
    "towns are roots, Laplace noise": (FULL, *LAPLACE, "\n[spine]\nbypass = true\n"),
    "counts drawn on a lattice": (FULL, *DRAWN),
}
MORE_KINDS = (
    "with little budget",
    "parts are roots",
    "parts are children",
    "parts are children, with little budget",
    "towns are roots, Laplace noise",
    "counts drawn on a lattice",
)
"""What the other kinds go through as well."""


def small(release, changes):
    write_reserve(release.parent)
    text = release.read_text()
    for change in changes:
        if isinstance(change, str):
            text += change
            continue
        assert change[0] in text
        text = text.replace(*change)
    release.write_text(text)
    return release


def require_exact(root):
    """Every exact number that has an interval; returns their number."""
    release = open_release(root)
    checked = 0
    for invariant in release.plan["invariants"]:
        for geolevel in invariant["geolevels"]:
            for place in ("intervals", "tables"):
                query = release.schema.query(invariant["query"]).name.replace("*", "%2A")
                folder = root / place / f"geolevel={geolevel}" / f"query={query}"
                if not folder.is_dir():
                    continue
                table = pl.read_parquet(folder, hive_partitioning=False)
                assert table.height
                assert table["standard_error"].to_list() == [0] * table.height
                for column in ("estimate", "lower", "upper"):
                    assert table[column].to_list() == table["count"].to_list()
                checked += table.height
    return checked


@pytest.mark.parametrize("kind", [nightly(kind) if kind in MORE_KINDS else kind for kind in KINDS])
def test_an_exact_number_is_its_own_interval(small_release, tmp_path, kind):
    path = small(small_release, KINDS[kind])
    out = run_release(load_plan(path), tmp_path / "out", test_key=KEY, workers=1).path
    make_intervals(out, workers=1)
    assert require_exact(out) >= 4


@pytest.mark.nightly
def test_an_exact_number_is_its_own_interval_where_each_table_has_a_model(tmp_path):
    """Housing units by tenure: an exact number is an answer of a table of another query, too."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    coarse, _ = write_units(folder)
    run_release(load_plan(coarse), folder / "coarse", test_key=KEY, workers=1)
    path = folder / "units.toml"
    text = path.read_text().replace('measurements = "none"', 'measurements = "small"')
    path.write_text(text.replace('tables = ["tenure"]', 'tables = ["tenure", "quarters", "housing"]'))
    out = run_release(load_plan(path), tmp_path / "out", test_key=KEY, workers=1).path
    make_intervals(out, workers=1)
    assert require_exact(out) > 20
    tenure = pl.read_parquet(out / "intervals/geolevel=Block/query=tenure/*.parquet")
    prison = tenure.filter(pl.col("tenure").cast(pl.String) == "prison")
    assert prison["standard_error"].to_list() == [0] * prison.height
    assert prison["estimate"].to_list() == prison["count"].to_list()
