"""The release of one table: exact invariants, one spend, the same noise after an interruption, sharp checks."""

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from tests.samples import few

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.errors import (
    ConfigError,
    ConstraintError,
    SolverError,
    StoreError,
    TallyveilError,
)
from tallyveil.files.manifest_files import read_manifest
from tallyveil.products.lattice.public.from_toml import load_subspace_plan
from tallyveil.products.lattice.public.plan import noise_of
from tallyveil.products.lattice.public.verified import DRAWS, SUMS, TABLE, TABLE_CSV
from tallyveil.products.lattice.run import run as table_run
from tallyveil.products.lattice.run.run import TableProduct, run_subspace
from tallyveil.runs.observer import SilentObserver

KEY = bytes(32)
CHAIN = 'distance = "4"\nsampler = "chain"\n\n[chain]\npairs = 200\nallowed_delta = "1"\n'
ROWS, COLUMNS = ("north", "south", "east, west"), ("a", "b", '"c"')
TRUTH = np.array([[5, 0, 12], [3, 7, 1], [0, 0, 900_001]])
FILE = """
[release]
name = "a table"

[table]
path = "counts.csv"
count = "n"

[[attributes]]
name = "place"
levels = ["north", "south", "east, west"]
[[attributes]]
name = "kind"
levels = ["a", "b", '"c"']

[[constraints]]
name = "places"
margin = ["place"]
[[constraints]]
name = "kinds"
margin = ["kind"]

[privacy]
rho = "2"

[mechanism]
law = "gaussian"
variance = "4"
distance = "4"
"""


def write_counts(path, truth=TRUTH):
    rows = [(r, c, int(truth[i, j])) for i, r in enumerate(ROWS) for j, c in enumerate(COLUMNS)]
    pl.DataFrame(rows, schema=["place", "kind", "n"], orient="row").write_csv(path)


@pytest.fixture
def plan(tmp_path):
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    write_counts(inputs / "counts.csv")
    (inputs / "table.toml").write_text(FILE)
    return load_subspace_plan(inputs / "table.toml")


def counts_of(out):
    return pl.read_parquet(out / TABLE)["count"].to_numpy().reshape(3, 3)


@pytest.mark.parametrize("key", few(2, range(4)))
def test_the_invariants_are_exact_and_the_cells_are_not(plan, tmp_path, key):
    outcome = run_subspace(plan, tmp_path / "out", test_key=bytes([key] * 32))
    found = counts_of(tmp_path / "out")
    assert found.sum(axis=0).tolist() == TRUTH.sum(axis=0).tolist()
    assert found.sum(axis=1).tolist() == TRUTH.sum(axis=1).tolist()
    assert not np.array_equal(found, TRUTH)
    assert not outcome.already_finished
    assert outcome.manifest == read_manifest(tmp_path / "out")


def test_cells_have_their_names_in_both_files(plan, tmp_path):
    """Also names with commas and quotation marks."""
    run_subspace(plan, tmp_path / "out", test_key=KEY)
    frame = pl.read_parquet(tmp_path / "out" / TABLE)
    assert frame.select("place", "kind").rows() == [(r, c) for r in ROWS for c in COLUMNS]
    assert pl.read_csv(tmp_path / "out" / TABLE_CSV).equals(frame)


def test_the_ledger_shows_one_spend_at_the_plans_cost(plan, tmp_path):
    outcome = run_subspace(plan, tmp_path / "out", test_key=KEY)
    declaration, entries = read_ledger(tmp_path / "out" / "ledger.jsonl")
    assert declaration.total == Fraction(2)
    assert outcome.manifest.spent.spent == plan.cost == Fraction(1, 2)
    assert [entry.kind for entry in entries].count("spend") == 1
    assert not outcome.manifest.protected
    assert set(outcome.manifest.digests) >= {TABLE, TABLE_CSV}


def test_the_same_key_gives_the_same_table_and_another_key_another(plan, tmp_path):
    for name, key in (("one", KEY), ("same", KEY), ("other", bytes([7] * 32))):
        run_subspace(plan, tmp_path / name, test_key=key)
    assert np.array_equal(counts_of(tmp_path / "one"), counts_of(tmp_path / "same"))
    assert not np.array_equal(counts_of(tmp_path / "one"), counts_of(tmp_path / "other"))


def test_a_finished_release_is_left_as_it_is(plan, tmp_path):
    out = tmp_path / "out"
    run_subspace(plan, out, test_key=KEY)
    before = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    again = run_subspace(plan, out, test_key=KEY)
    assert again.already_finished
    assert again.noise is None  # the inputs were not read
    assert {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize("where", ["write_file", "write_parquet", "_checks"])
def test_an_interrupted_release_goes_on_with_the_same_noise(plan, tmp_path, monkeypatch, where):
    run_subspace(plan, tmp_path / "whole", test_key=KEY)

    def stops(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(table_run, where, stops)
        with pytest.raises(KeyboardInterrupt):
            run_subspace(plan, tmp_path / "out", test_key=KEY)
    with pytest.raises(StoreError):
        read_manifest(tmp_path / "out")
    outcome = run_subspace(plan, tmp_path / "out", test_key=KEY)
    assert not outcome.already_finished
    assert np.array_equal(counts_of(tmp_path / "out"), counts_of(tmp_path / "whole"))
    assert len([e for e in read_ledger(tmp_path / "out" / "ledger.jsonl")[1] if e.kind == "spend"]) == 1


def test_another_table_never_meets_the_noise_of_an_interrupted_release(plan, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(table_run, "write_parquet", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_subspace(plan, tmp_path / "out", test_key=KEY)
    write_counts(plan.table.path, TRUTH + np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]))
    with pytest.raises(TallyveilError) as caught:
        run_subspace(plan, tmp_path / "out", test_key=KEY)
    assert "900" not in str(caught.value)
    assert not (tmp_path / "out" / TABLE).exists()


def test_draws_are_noise_alone(plan, tmp_path):
    outcome = run_subspace(plan, tmp_path / "out", draws=20, test_key=KEY)
    run_subspace(plan, tmp_path / "alone", test_key=KEY)
    assert np.array_equal(counts_of(tmp_path / "out"), counts_of(tmp_path / "alone"))
    frame = pl.read_parquet(tmp_path / "out" / DRAWS)
    vectors = frame["noise"].to_numpy().reshape(20, 3, 3)
    assert not vectors.sum(axis=1).any()
    assert not vectors.sum(axis=2).any()
    assert len(np.unique(vectors.reshape(20, -1), axis=0)) > 10
    assert frame["draw"].unique().sort().to_list() == list(range(1, 21))
    assert "every draw of noise leaves the invariants alone" in outcome.manifest.checks


def test_draws_of_a_real_run_are_refused_before_anything_is_written(plan, tmp_path):
    with pytest.raises(ConfigError) as caught:
        run_subspace(plan, tmp_path / "out", draws=1)
    assert caught.value.code == "subspace-draws"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n\n", "m\n"),
        ("900001", "900001.5"),
        ("900001", "many"),
        ("south", "nowhere"),
        ("place", "plaice"),
    ],
)
def test_a_table_that_cannot_be_read_spends_nothing_and_shows_nothing(plan, tmp_path, old, new):
    text = plan.table.path.read_text()
    assert old in text
    plan.table.path.write_text(text.replace(old, new, 1))
    with pytest.raises(TallyveilError) as caught:
        run_subspace(plan, tmp_path / "out", test_key=KEY)
    for secret in ("900001", "many"):
        assert secret not in str(caught.value)
    assert not (tmp_path / "out" / "ledger.jsonl").exists()


def test_a_table_without_rows_is_a_table_of_zeros(plan, tmp_path):
    plan.table.path.write_text("place,kind,n\n")
    run_subspace(plan, tmp_path / "out", test_key=KEY)
    found = counts_of(tmp_path / "out")
    assert not found.sum(axis=0).any()
    assert not found.sum(axis=1).any()


def test_invariants_that_leave_nothing_free_are_refused(plan, tmp_path):
    """A margin of both attributes is the table itself."""
    path = plan.table.path.with_name("table.toml")
    path.write_text(FILE.replace('margin = ["kind"]', 'margin = ["place", "kind"]'))
    with pytest.raises(ConstraintError):
        run_subspace(load_subspace_plan(path), tmp_path / "out", test_key=KEY)
    assert not (tmp_path / "out" / "ledger.jsonl").exists()


def test_the_table_may_not_lie_in_the_output(plan):
    with pytest.raises(StoreError):
        run_subspace(plan, plan.table.path.parent, test_key=KEY)


def test_what_holds_the_table_does_not_show_it(plan, tmp_path):
    work = TableProduct(plan).read(tmp_path, SilentObserver())
    assert repr(work) == "_TableWork(<redacted>)"
    written = json.dumps([plan.to_mapping(), work.job().privacy, work.job().event.to_mapping()])
    assert "900001" not in written + work.job().description


DAMAGE = {
    "a cell less": (lambda frame: frame[:-1], "every cell"),
    "a cell twice": (lambda frame: pl.concat([frame[:-1], frame[:1]]), "every cell"),
    "cells exchanged": (lambda frame: frame.with_columns(pl.col("place").reverse()), "every cell"),
    "no cells": (lambda frame: frame[:0], "every cell"),
    "a person more": (
        lambda frame: frame.with_columns(pl.col("count") + (pl.col("kind") == "a")),
        "invariants",
    ),
    "another sum": (lambda frame: frame.with_columns(pl.col("count") + 1), "published sums", SUMS),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_final_check_sees_damage(plan, tmp_path, monkeypatch, damage):
    change, said, where = (*DAMAGE[damage], TABLE)[:3]
    with monkeypatch.context() as patch:
        patch.setattr(
            table_run,
            "write_parquet",
            lambda path, frame, tags: (change(frame) if path.name == where else frame).write_parquet(
                path, metadata=tags
            ),
        )
        with pytest.raises(SolverError, match=f"final check failed: .*{said}") as caught:
            run_subspace(plan, tmp_path / "out", test_key=KEY)
    assert caught.value.code == "check-failed"
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_draws_that_break_an_invariant_are_seen(plan, tmp_path, monkeypatch):
    def write(path, frame, tags):
        if path.name == DRAWS:
            frame = frame.with_columns(pl.col("noise") + (pl.col("draw") == 2))
        frame.write_parquet(path)

    monkeypatch.setattr(table_run, "write_parquet", write)
    with pytest.raises(SolverError, match="every draw of noise"):
        run_subspace(plan, tmp_path / "out", draws=3, test_key=KEY)


def test_two_tables_must_be_as_near_as_the_distance(plan):
    """With all margins, the nearest tables differ by four records."""
    path = plan.table.path.with_name("table.toml")
    path.write_text(FILE.replace('distance = "4"', 'distance = "3"'))
    with pytest.raises(TallyveilError):
        noise_of(load_subspace_plan(path))
    assert noise_of(plan).lattice.dimension == 4


def test_a_chain_reports_its_sweeps_and_is_announced_if_it_takes_long(plan, tmp_path, monkeypatch):
    table_file = tmp_path / "inputs" / "table.toml"
    table_file.write_text(FILE.replace('distance = "4"\n', CHAIN))
    told = []

    class Watching(SilentObserver):
        def stage_started(self, stage, total):
            told.append([stage, total, 0])

        def advanced(self, amount):
            told[-1][2] += amount

        def warned(self, message):
            told.append([message, 0, 0])

    monkeypatch.setattr(table_run, "_LONG_SECONDS", 0)
    chain = load_subspace_plan(table_file)
    outcome = run_subspace(chain, tmp_path / "chain", test_key=KEY, observer=Watching())
    assert outcome.noise is not None
    sweeps = outcome.noise.steps
    assert ["draw and write", sweeps, sweeps] in told
    assert any(f"a chain of {sweeps} sweeps" in message for message, _, _ in told)
