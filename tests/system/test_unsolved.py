"""A family that cannot be certified stops a run after its spend; the same command goes on and loses nothing."""

import json

import pytest

from tallyveil.errors import SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.families import chunk_files, level
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("unsolved")


def published(out):
    return {
        path.relative_to(out): path.read_bytes()
        for path in out.rglob("*")
        if path.suffix in (".parquet", ".csv") and path.is_file()
    }


def test_an_unsolved_family_costs_nothing_but_the_time(small_release, tmp_path, monkeypatch):
    plan, out = load_plan(small_release), tmp_path / "out"
    expected = published(run_release(plan, tmp_path / "whole", test_key=KEY).path)

    def fail(problem):
        raise SolverError(f"{problem.where}: not certified")

    with monkeypatch.context() as patch:
        patch.setattr(chunk_files, "estimate_family", fail)
        for module in (level, level):
            patch.setattr(module, "estimate_or_keep", chunk_files.estimate_or_keep)
        with pytest.raises(SolverError, match="same command") as raised:
            run_release(plan, out, test_key=KEY)
    assert raised.value.code == "family-unsolved"
    assert list((out / "unsolved").rglob("*.json"))
    assert (out / "private" / "run.json").exists()
    assert list((out / "measurements").rglob("*.parquet"))
    run_release(plan, out, test_key=KEY)
    assert published(out) == expected
    spends = [json.loads(line)["kind"] for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert spends.count("spend") == 1
    assert not (out / "private").exists()
    assert not (out / "unsolved").exists()
