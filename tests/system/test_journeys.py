"""Four people and what each does first, from an empty folder, in real processes: only what the guides say.

The kernels are compiled before, as `tallyveil warm-up` does. The researcher and the data user read the statistician's
release.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import tallyveil

SOURCE = str(Path(tallyveil.__file__).parents[1])
START = "from tallyveil.cli.start import main; main()"
HEAVY = ("numba", "scipy", "matplotlib", "jinja2", "cryptography", "highspy", "piqp")
"""Packages that nobody needs who only reads a release."""

MOST_MEGABYTES = 1_000
MOST_SECONDS = {"tallyveil": 0.5, "tallyveil.accounting": 2.0}
"""Processor seconds, far above what was measured: the test says the numbers, and fails only where they are others."""


def python(folder: Path, code: str, *words: object) -> str:
    """Run a program in a folder of its own; what it prints."""
    given = [sys.executable, "-c", code, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(
        given, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="session")
def released(compiled_kernels, tmp_path_factory) -> Path:
    """What the statistician leaves behind: a folder with the records, the release file and the release."""
    folder = tmp_path_factory.mktemp("statistician")

    def said(*words: str) -> str:
        return python(folder, START, *words)

    said("init", "--example", "town", "--quiet")
    tables = ["--geography", "town/areas.csv", "--geocode", "area", "--geolevels", "Region=1,Town=2,Area"]
    levels = ["--codebook", "town/codebook.csv", "--numbers", "age", "--rho", "1/2"]
    assert "Next: tallyveil plan release.toml" in said("init", "town/persons.csv", *tables, *levels)
    planned = said("plan", "release.toml")
    assert re.search(r"The guarantee: epsilon <= \d", planned)
    assert "no data was opened" in planned
    made = json.loads(said("run", "release.toml", "--out", "release", "--json").splitlines()[-1])
    assert made["protected"]
    return folder


@pytest.mark.nightly
def test_the_statistician_goes_from_a_csv_to_a_report(released):
    page = json.loads(python(released, START, "report", "release", "--json"))["page"]
    text = (released / page).read_text()
    assert "<svg" in text
    assert "differential privacy" in text
    assert not (released / "release" / "private").exists()


RESEARCHER = """
import polars as pl
import tallyveil

plan = tallyveil.plan("release.toml")
assert plan._repr_html_()
release = tallyveil.run(plan, "notebook", insecure_test_key="a notebook")
assert release._repr_html_() and not release.protected
truth = pl.read_csv("town/persons.csv", schema_overrides={"area": pl.String}).group_by("area").len()
areas = release.table("Area", "total").join(truth, left_on="geocode", right_on="area", how="left").fill_null(0)
errors = areas["count"] - areas["len"].cast(pl.Int64)
assert errors.abs().sum() > 0
print(f"mean absolute error {errors.abs().mean():.2f}, largest standard deviation planned "
      f"{plan.expected()['standard_deviation'].max():.2f}")
again = tallyveil.run("release.toml", "notebook", insecure_test_key="a notebook")
assert again.already_finished
try:
    release.table("Planet", "total")
except tallyveil.TallyveilError as error:
    print(f"[{error.code}] {error}")
"""


@pytest.mark.nightly
def test_the_researcher_works_in_a_notebook(released):
    said = python(released, RESEARCHER)
    assert "mean absolute error" in said
    assert "has no table of 'total' for 'Planet'" in said


ENGINEER = """
import sys
from tallyveil.accounting import DiscreteGaussian, Neighbours, compose

guarantee = compose(DiscreteGaussian("4", multiplicity=8), neighbours=Neighbours.UNBOUNDED)
found = guarantee.epsilon("1e-10")
assert 0 < found.lower <= found.upper < found.lower + 1e-6
print(found.upper)
assert not {"numba", "polars", "pydantic", "matplotlib", "typer"} & set(sys.modules), "accounting takes too much along"
"""

IMPORT = "import sys, time, {0}; print(time.process_time(), len(sys.modules))"


def installed_megabytes() -> dict[str, float]:
    """Megabytes on disk of each package that tallyveil needs, and that these need."""
    sizes: dict[str, float] = {}
    waiting = ["tallyveil"]
    while waiting:
        name = waiting.pop()
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # is for another system or another version of Python
            continue
        if name in sizes:
            continue
        files = [Path(str(file.locate())) for file in found.files or ()]
        sizes[name] = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
        needed = [text for text in found.requires or () if "extra ==" not in text]
        waiting += [re.split(r"[^A-Za-z0-9_.-]", text)[0].lower().replace("_", "-") for text in needed]
    own = Path(SOURCE, "tallyveil").rglob("*")  # an editable install lists no files of its own
    sizes["tallyveil"] = (
        sum(path.stat().st_size for path in own if path.suffix in (".py", ".toml", ".md")) / 1e6
    )
    return sizes


@pytest.mark.nightly
def test_the_engineer_only_accounts(tmp_path):
    upper = float(python(tmp_path, ENGINEER))
    said = json.loads(
        python(tmp_path, START, "account", "epsilon", "--delta", "1e-10", "--gaussian", "4:8", "--json")
    )
    assert said["epsilon"]["upper"] == pytest.approx(upper, abs=1e-6)
    sizes = installed_megabytes()
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
    print(f"\ninstalled: {sum(sizes.values()):,.0f} MB in {len(sizes)} packages;", end=" ")
    print(", ".join(f"{name} {size:.0f}" for name, size in largest))
    assert sum(sizes.values()) < MOST_MEGABYTES
    for module, most in MOST_SECONDS.items():
        seconds, modules = map(float, python(tmp_path, IMPORT.format(module)).split())
        print(f"import {module}: {seconds:.2f} processor seconds, {modules:.0f} modules")
        assert seconds < most


DATA_USER = """
import sys

for name in sys.argv[1].split(","):
    sys.modules[name] = None  # importing it fails, as where it is not installed

import duckdb
import polars as pl
import tallyveil

release = tallyveil.open("release")
table = release.table("Town", "total")
print(release.guarantee.statement)
one = pl.read_parquet("release/tables/**/*.parquet", hive_partitioning=True)
other = duckdb.sql("select geolevel, query, count(*), sum(count)::bigint from "
                   "read_parquet('release/tables/**/*.parquet', hive_partitioning=true) group by all order by all")
sums = one.group_by("geolevel", "query").agg(pl.len(), pl.col("count").sum()).sort("geolevel", "query")
assert sums.rows() == other.fetchall()
towns = one.filter(geolevel="Town", query="total")
assert sorted(towns["count"]) == sorted(table["count"])
print(f"{len(one):,} rows, {one['count'].sum():,} in all tables")
"""


@pytest.mark.nightly
def test_the_data_user_reads_with_polars_and_duckdb(released):
    """Also where neither the compiler, nor scipy, nor what draws reports is installed."""
    pytest.importorskip("duckdb")
    said = python(released, DATA_USER, ",".join(HEAVY))
    assert said.startswith("epsilon <= ")
    assert "rows" in said


R_USER = """
tables <- arrow::open_dataset(file.path(commandArgs(TRUE)[1], "tables"))
counts <- as.data.frame(arrow::Scanner$create(tables)$ToTable())
cat(nrow(counts), sum(counts$count[counts$geolevel == "Town" & counts$query == "total"]))
"""


@pytest.mark.nightly
def test_the_data_user_reads_with_r(released):
    if shutil.which("Rscript") is None:
        pytest.skip("needs R: there is no Rscript on the path")
    has_arrow = ["Rscript", "-e", 'q(status = !requireNamespace("arrow"))']
    if subprocess.run(has_arrow, capture_output=True, check=False).returncode:
        pytest.skip("needs the R package arrow")
    said = subprocess.run(
        ["Rscript", "-e", R_USER, str(released / "release")], capture_output=True, text=True, check=True
    ).stdout
    rows, people = map(int, said.split())
    release = tallyveil.open(released / "release")
    assert isinstance(release, tallyveil.Release)
    towns = release.table("Town", "total")
    assert people == towns["count"].sum()
    assert rows > len(towns)
