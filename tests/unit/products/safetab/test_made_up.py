"""SafeTab's made-up data: valid by its own rules, the same from a seed, chunk by chunk."""

import sys

import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.cli.main import main
from tallyveil.errors import ConfigError
from tallyveil.products.safetab import made_up as safetab
from tallyveil.products.safetab.made_up import write_safetab_country
from tallyveil.products.safetab.public.config import read_config
from tallyveil.products.safetab.public.iterations import read_iterations
from tallyveil.products.safetab.run.run import read_safetab_inputs


@pytest.fixture(scope="module")
def params(tmp_path_factory):
    return toy.write_params(tmp_path_factory.mktemp("params"))


def write(params, out, **sizes):
    sizes = {"people": 3000, "blocks": 300, "seed": 4} | sizes
    return write_safetab_country(out, read_config(params), read_iterations(params), **sizes)


def test_what_is_made_up_is_valid(params, tmp_path):
    paths = write(params, tmp_path)
    assert [path.name for path in paths] == ["GRF-C.txt", "person-records.txt"]
    inputs = read_safetab_inputs(params, tmp_path)
    assert sum(len(persons.races) for persons in inputs.persons.values()) == 3000
    assert sum(len(regions.blocks) for regions in inputs.regions.values()) == 300
    assert all(len(ids) for ids in inputs.regions["US"].ids.values())


def test_a_seed_makes_the_same_files_whatever_the_chunks_before_hold(params, tmp_path, monkeypatch):
    monkeypatch.setattr(safetab, "CHUNK", 1000)
    first = [path.read_bytes() for path in write(params, tmp_path / "a")]
    assert [path.read_bytes() for path in write(params, tmp_path / "b")] == first
    assert [path.read_bytes() for path in write(params, tmp_path / "c", seed=5)] != first
    longer = write(params, tmp_path / "d", people=4000)[1].read_bytes()
    assert longer.startswith(first[1])
    assert longer.count(b"\n") == 4001


def test_some_people_have_several_codes_and_an_ethnicity(params, tmp_path):
    frame = pl.read_csv(write(params, tmp_path)[1], separator="|", infer_schema=False)
    assert 0.03 < (frame["QRACE2"] != "Null").mean() < 0.3
    assert (frame["QRACE4"] == "Null").all()  # max_race_codes is 3
    assert 0.1 < (frame["QSPAN"] != "9950").mean() < 0.4


@pytest.mark.parametrize("sizes", [{"people": 0}, {"blocks": 2}, {"blocks": 10**9}, {"people": 10**10}])
def test_sizes_out_of_range(params, tmp_path, sizes):
    with pytest.raises(ConfigError, match="number of"):
        write(params, tmp_path, **sizes)


def test_the_command(params, tmp_path, monkeypatch, capsys):
    def synth(*words):
        monkeypatch.setattr(sys, "argv", ["tallyveil", "synth", "--out", str(tmp_path), *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0

    assert synth("--safetab", params, "--people", 500) == 0
    assert "person-records.txt" in capsys.readouterr().out
    assert synth("--safetab", params) == 2
    assert synth("--safetab", params, "--people", 500, "--states", 2) == 2
