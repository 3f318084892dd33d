"""`tallyveil docs`: where the documentation is, in a copy of the source and in an installed package."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tallyveil.cli import docs as docs_module
from tallyveil.cli.docs import docs_folder
from tallyveil.cli.main import app
from tallyveil.errors import ConfigError

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(("words", "page"), [([], "index.md"), (["start/tutorial"], "start/tutorial.md")])
def test_the_path_of_a_page(words, page):
    said = CliRunner().invoke(app, ["docs", *words])
    assert said.exit_code == 0
    assert Path(said.output.strip()) == DOCS / page


@pytest.mark.parametrize("page", ["outputz", "generated/api", "../README"])
def test_a_page_that_is_none(page):
    said = CliRunner().invoke(app, ["docs", page])
    assert isinstance(said.exception, ConfigError)
    assert f"no page '{page}'" in str(said.exception)


def test_an_installed_package_has_the_pages_inside(tmp_path, monkeypatch):
    installed = tmp_path / "tallyveil"
    (installed / "docs").mkdir(parents=True)
    monkeypatch.setattr(docs_module, "__file__", str(installed / "cli" / "docs.py"))
    assert docs_folder() == installed / "docs"
