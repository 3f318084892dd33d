"""`tallyveil explain`: what docs/errors.md says of an error, from the package itself."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tallyveil.cli.docs import explanations
from tallyveil.cli.main import app
from tallyveil.errors import ConfigError

DOCS = Path(__file__).parents[3] / "docs" / "errors.md"


def test_every_section_is_there_and_says_how_to_mend_it():
    found = explanations()
    assert set(found) == set(re.findall(r"^### `([a-z0-9-]+)`", DOCS.read_text(), re.MULTILINE))
    for code, text in found.items():
        assert text, code
        assert "#" not in text.split()[0]
        if code != "error":
            assert "*To mend it*" in text, code


def test_the_command_prints_a_section():
    said = CliRunner().invoke(app, ["explain", "not-toml"])
    assert said.exit_code == 0
    assert "Write `[release` without its bracket." in said.output
    assert "bad-key-or-value" not in said.output


def test_a_code_that_is_none():
    said = CliRunner().invoke(app, ["explain", "not-tml"])
    assert isinstance(said.exception, ConfigError)
    with pytest.raises(ConfigError, match="Did you mean not-toml"):
        raise said.exception


def test_an_error_in_python_names_the_command():
    assert ConfigError("wrong", code="not-toml").__notes__ == ["More: tallyveil explain not-toml"]
    assert str(ConfigError("wrong")) == "wrong"
