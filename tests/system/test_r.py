"""The R package reads what Python reads, its own tests and check pass, and the examples of docs/readers.md run.

Without R, or without the packages that every reader in R needs, all of this is skipped. What the package does with
Parquet files is tested where `arrow` is installed; what it does with CSV files, always.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.signing import PLACES, misfits, sign

import tallyveil
from tallyveil.files.signatures import signature_path
from tallyveil.files.whole_tables import publish_csv
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.storage.json_files import digest_of

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "r" / "tallyveilr"
NEEDED = ("jsonlite", "openssl")


def said(folder: Path, *command: str, library: Path | None = None) -> str:
    """What a command prints, in a folder; it must succeed."""
    own = {} if library is None else {"R_LIBS": str(library)}
    found = subprocess.run(
        [*command],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8", **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-4000:]
    return found.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> set[str]:
    """The packages of R that are installed, of those that matter here."""
    if shutil.which("Rscript") is None:
        pytest.skip(
            "Rscript is not installed (Debian: apt-get install r-base-core r-cran-jsonlite r-cran-openssl)"
        )
    names = (*NEEDED, "arrow", "dplyr", "sf", "testthat")
    code = "for (name in commandArgs(TRUE)) if (requireNamespace(name, quietly = TRUE)) cat(name, '')"
    found = {*said(tmp_path_factory.mktemp("r"), "Rscript", "-e", code, *names).split()} & {*names}
    missing = {*NEEDED} - found
    if missing:
        pytest.skip(f"R lacks the packages {', '.join(sorted(missing))}, which the package of R needs")
    return found


@pytest.fixture(scope="module")
def library(installed, tmp_path_factory) -> Path:
    """A library of R that holds the package."""
    folder = tmp_path_factory.mktemp("library")
    source = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("source") / "tallyveilr")
    said(folder, "R", "CMD", "INSTALL", "--no-test-load", f"--library={folder}", str(source))
    return folder


HOSTILE = {
    '"Town"': '"Town \\"ü\\", north"',
    "Town = ": '"Town \\"ü\\", north" = ',
    "[geography]\n": '[geography]\nnames = "names.csv"\n',
    'name = "age"': 'name = "age group, \\"x\\""',
    'attribute = "age"': 'attribute = "age group, \\"x\\""',
    '"age*home"': '"age group, \\"x\\"*home"',
    "cells = { age = ": 'cells = { "age group, \\"x\\"" = ',
    '"young"': '"NA"',
    '"middle"': '"# 25%, \'mid\' \\"dle\\""',
    '"old"': '"Ältere 😀"',
    'tables = ["total", "age", "home"]': 'tables = ["total", "age group, \\"x\\"", "home", "grown"]',
}
TOWN, AGE = 'Town "ü", north', 'age group, "x"'


@pytest.fixture(scope="module")
def hostile(make_small_inputs, tmp_path_factory) -> Path:
    """A release whose names and labels have quotes, commas and letters outside of ASCII, and its CSV files."""
    folder = tmp_path_factory.mktemp("hostile")
    path = make_small_inputs(folder)
    text = path.read_text()
    for old, new in HOSTILE.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    labels = {"young": "NA", "middle": "# 25%, 'mid' \"dle\"", "old": "Ältere 😀"}
    for name in ("people", "barracks", "geography"):
        frame = pl.read_parquet(folder / f"{name}.parquet")
        frame = frame.with_columns(pl.col("geocode").str.replace("P", "0").str.replace("Q", "1"))
        if name == "people":
            frame = frame.with_columns(pl.col("age").replace_strict(labels)).rename({"age": AGE})
        frame.write_parquet(folder / f"{name}.parquet")
    names = {"geolevel": ["Region", TOWN], "geocode": ["0", "001"], "name": ["Ö", 'a, "b"']}
    pl.DataFrame(names).write_csv(folder / "names.csv")
    release = tallyveil.run(path, folder / "release", insecure_test_key="R")
    release.add_intervals(["home", AGE])
    publish_csv(folder / "release", folder / "csv")
    return folder


DUMP = r"""
library(tallyveilr)
paths <- commandArgs(TRUE)
release <- suppressWarnings(if (length(paths) > 2) open_release(paths[1], csv = paths[3]) else open_release(paths[1]))
show <- function(what) {
  columns <- lapply(what, function(one) if (is.double(one)) ifelse(is.na(one), NA, sprintf("%.17g", one)) else one)
  lapply(columns, as.list)
}
dumped <- function(read, queries) {
  pairs <- expand.grid(area = release_areas(release), query = queries, stringsAsFactors = FALSE)
  rows <- function(area, query) list(area, query, show(read(release, area, query)))
  unname(Map(rows, pairs$area, pairs$query))
}
queries <- release_queries(release)
plan <- release$manifest$body$plan
has_parquet <- length(paths) == 2
found <- list(
  areas = as.list(release_areas(release)),
  names = show(release_names(release)),
  named = show(with_names(release_table(release, "Region", "total"), release, "Region")),
  labels = lapply(queries, function(query) lapply(release_labels(release, query), as.list)),
  statement = release_guarantee(release)$statement,
  warnings = as.list(release_guarantee(release)$warnings),
  tables = dumped(release_table, queries),
  intervals = if (has_parquet) dumped(release_intervals, unlist(release$manifest$body$intervals$tables)),
  measurements = if (has_parquet) dumped(release_measurements, names(plan$query_shares$Region))
)
suppressMessages(check_release(release))
writeLines(jsonlite::toJSON(found, auto_unbox = TRUE, na = "null", null = "null"), paths[2], useBytes = TRUE)
"""


def compare(found: dict[str, list], frame: pl.DataFrame) -> None:
    """R and Python have the same rows in the same order. R wrote doubles as text of 17 digits, which names them all."""
    rows = pl.DataFrame(found, schema=dict.fromkeys(found, pl.String))
    assert_frame_equal(rows.cast(dict(frame.schema)), frame, rel_tol=1e-14, abs_tol=0)


@pytest.mark.parametrize("reader", ["csv", "arrow"])
def test_r_reads_what_python_reads(installed, library, hostile, tmp_path, reader):
    if reader == "arrow" and "arrow" not in installed:
        pytest.skip("the package arrow of R is not installed")
    (tmp_path / "dump.R").write_text(DUMP, encoding="utf-8")
    paths = [
        str(hostile / "release"),
        str(tmp_path / "found.json"),
        *([str(hostile / "csv")] if reader == "csv" else []),
    ]
    said(tmp_path, "Rscript", "dump.R", *paths, library=library)
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    release = tallyveil.open(hostile / "release")
    assert isinstance(release, tallyveil.Release)
    assert found["areas"] == [*release.areas] == ["Region", TOWN, "Block"]
    compare(found["names"], pl.read_parquet(hostile / "release" / "names.parquet"))
    assert found["named"]["name"] == ["Ö", None]
    assert found["statement"] == release.guarantee.statement
    assert found["warnings"] == [*release.warnings] != []
    schema = schema_from_mapping(release.manifest.body["plan"]["schema"])
    for query, labels in zip(release.queries, found["labels"], strict=True):
        factors = schema.query(query).factors
        assert labels == {one.attribute: [*one.labels] for one in factors if one.name is not None}
    assert len(found["tables"]) == 12
    for area, query, rows in found["tables"]:
        compare(rows, release.table(area, query))
    if reader == "arrow":
        assert len(found["measurements"]) == 9
        for area, query, rows in found["measurements"]:
            compare(rows, release.measurements(area, query))
        assert len(found["intervals"]) == 6
        for area, query, rows in found["intervals"]:  # of few answers, so that the tables have the same rows
            compare(rows, release.table(area, query))


SIGNATURES = r"""
library(tallyveilr)
folders <- commandArgs(TRUE)
said <- vapply(folders, function(folder) release_signature(suppressWarnings(open_release(folder))), "")
writeLines(jsonlite::toJSON(as.list(said), auto_unbox = TRUE), "said.json")
"""


def test_r_says_of_a_signature_what_python_says(library, hostile, tmp_path):
    """Of one by ssh-keygen where it is installed, too; and the manifest may be of format 3."""

    def copied(name: str) -> Path:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        shutil.copytree(
            hostile / "release", folder, ignore=shutil.ignore_patterns("histogram", "measurements")
        )
        names[str(folder)] = name
        return folder / "manifest.json"

    names: dict[str, str] = {}
    manifest = copied("unsigned")
    content = manifest.read_bytes()
    sign(copied("signed"))
    third = copied("format 3")
    body = {**json.loads(content), "format": 3}
    body["digest"] = digest_of({name: value for name, value in body.items() if name != "digest"}).hex()
    third.write_text(json.dumps({**body, "performance": [{"stage": "checks", "seconds": 0.25}]}, indent=2))
    sign(third)
    for name, signature in misfits(content).items():
        signature_path(copied(name)).write_bytes(signature)
    for name, make in PLACES.items():
        make(signature_path(copied(name)))
    if keygen := shutil.which("ssh-keygen"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
        words = ("-Y", "sign", "-f", tmp_path / "key", "-n", "tallyveil", copied("signed by ssh-keygen"))
        subprocess.run([keygen, "-q", *words], check=True)
    (tmp_path / "signatures.R").write_text(SIGNATURES)
    said(tmp_path, "Rscript", "signatures.R", *names, library=library)
    by_r = json.loads((tmp_path / "said.json").read_text())
    assert {names[folder]: answer for folder, answer in by_r.items()} == {
        name: tallyveil.open(folder).signature for folder, name in names.items()
    }
    assert {answer.split()[0] for answer in by_r.values()} == {"unsigned", "signed", "signature"}


VERDICTS = """
library(tallyveilr)
said <- lapply(commandArgs(TRUE), function(folder) unclass(verify_release(folder)))
writeLines(jsonlite::toJSON(said, auto_unbox = TRUE), "said.json")
"""


def test_r_verifies_by_the_command(library, hostile, tmp_path, monkeypatch):
    """The verdict on a release, and on one whose statement was changed and whose digest was made again."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    forged = Path(shutil.copytree(hostile / "release", tmp_path / "forged"))
    body = json.loads((forged / "manifest.json").read_text())
    body["privacy"]["statement"] = "epsilon <= 0.01"
    body["digest"] = digest_of({name: value for name, value in body.items() if name != "digest"}).hex()
    (forged / "manifest.json").write_text(json.dumps(body))
    (tmp_path / "verify.R").write_text(VERDICTS)
    said(tmp_path, "Rscript", "verify.R", str(hostile / "release"), str(forged), library=library)
    true, false = json.loads((tmp_path / "said.json").read_text())
    verdict = tallyveil.verify(hostile / "release")
    assert (true["holds"], true["guarantee"], true["signature"]) == (True, verdict.guarantee, "unsigned")
    assert [row["statement"] for row in true["statements"] if row["verdict"] == "proved"] == [*verdict.proved]
    assert not false["holds"]
    assert any(row["verdict"] == "WRONG" for row in false["statements"])


def test_the_packages_own_tests_pass(installed, library, tmp_path):
    if "testthat" not in installed:
        pytest.skip("the package testthat of R is not installed")
    tests = shutil.copytree(PACKAGE / "tests", tmp_path / "tests")
    assert "FAIL 0" in said(tests, "Rscript", "testthat.R", library=library)


def test_the_example_of_the_package_is_a_release_of_today():
    example = PACKAGE / "inst" / "extdata" / "release"
    release = tallyveil.open(example)
    assert isinstance(release, tallyveil.Release)
    assert release.protected
    assert release.table("Region", "age").height == 6
    assert all((example / file.path).is_file() for file in release.manifest.files)


def test_the_guide(installed, library, edit, small_release, tmp_path, command, monkeypatch):
    """The journey of somebody who uses a release from R: the examples of the page, one after the other."""
    guide = (PROJECT / "docs" / "readers.md").read_text(encoding="utf-8")
    examples = re.findall(r"```r\n(.*?)```", guide, re.DOTALL)
    assert len(examples) == 12
    with_arrow = re.findall(r"```{code-block} r\n(.*?)```", guide, re.DOTALL)
    assert len(with_arrow) == 2
    examples += with_arrow if {"arrow", "dplyr"} <= installed else []
    edit("[geography]\n", '[geography]\nnames = "names.csv"\n')
    edit("[privacy]\n", '[labels.en]\ntitle = "Small"\n[labels.fr]\ntitle = "Petit"\n[privacy]\n')
    names = {"geolevel": ["Town"], "geocode": ["P01"], "name": ["Sand"]}
    pl.DataFrame(names).write_csv(small_release.parent / "names.csv")
    release = tallyveil.run(small_release, tmp_path / "release")
    release.add_intervals()
    publish_csv(tmp_path / "release", tmp_path / "csv")
    command("measurements", "export", tmp_path / "release", "--layout", "tidy", "--out", tmp_path / "tidy")
    (tmp_path / "guide.R").write_text("options(warn = 2)\n" + "\n".join(examples), encoding="utf-8")
    # The command line of this Python, whose program may lie outside the path.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    text = said(tmp_path, "Rscript", "guide.R", library=library)
    assert "not above" in text or "open" in text
    assert f"<Tallyveil release small, run {release.manifest.run}>" in text
    assert release.guarantee.statement in text
    assert "Sand" in text
