"""Public files that are well formed and mean nothing: every door refuses them alike, before a record is opened."""

import pytest
from tests import toy_country as toy

from tallyveil.errors import SchemaError
from tallyveil.safetab import read_plan

MAP_FILE = "race-and-ethnicity-code-to-iteration.txt"


@pytest.fixture
def params(tmp_path):
    """Parameters in which nobody can be in iteration 2201. There is no data: it is never asked for."""
    folder = toy.write_params(tmp_path / "params", run_pr=False)
    text = (folder / MAP_FILE).read_text()
    (folder / MAP_FILE).write_text(text.replace("2201|1020\n", ""))
    return folder


@pytest.mark.parametrize("words", ["plan", "validate", "run", "general-form", "calibrate"])
def test_every_command_refuses_an_iteration_without_codes(command, params, tmp_path, words):
    data, out = tmp_path / "no-data", tmp_path / "out"
    rest = {
        "plan": (params,),
        "validate": (params, data),
        "run": (params, data, "--out", out),
        "general-form": (params, data, "--out", out),
        "calibrate": (params, "--epsilon", "2", "--out", out),
    }
    said = command("safetab", words, *rest[words], code=SchemaError.exit_code)
    assert "safetab-iteration-without-codes" in said
    assert "'2201'" in said
    assert not out.exists()


def test_python_refuses_it_too(params):
    with pytest.raises(SchemaError, match="'2201'"):
        read_plan(params)
